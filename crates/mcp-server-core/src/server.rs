//! The server: its registries, its configuration, and the ways to it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use mcp_protocol::{
    CallToolResult, GetPromptResult, Implementation, JsonObject, ProtocolVersion, ReadResourceResult, RpcError,
};
use mcp_store::MemoryStore;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::{
    builder::{Config, ServerBuilder},
    inputs::StateKeys,
    limits::Limits,
    notices::{Fleet, Notice, Publisher},
    records::Records,
    registry::{
        Entry, ListStyle, PromptEntry, PromptRoute, RegistrationError, Registry, ResourceEntry, ResourceRoute,
        TemplateEntry, TemplateRoute, ToolEntry, ToolRoute,
    },
    session::Gate,
    tasks::{TaskTable, Tasks},
};

/// An MCP server: what it offers, ready to be served over any transport. Cheap to clone; all clones are one server.
#[derive(Clone)]
pub struct Server {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) tools: Registry<ToolEntry>,
    pub(crate) resources: Registry<ResourceEntry>,
    pub(crate) templates: Registry<TemplateEntry>,
    pub(crate) prompts: Registry<PromptEntry>,
    pub(crate) list_style: ListStyle,
    pub(crate) gate: Arc<Gate>,
    pub(crate) publisher: Publisher,
    pub(crate) shutdown: CancellationToken,
    pub(crate) state_keys: StateKeys,
    pub(crate) records: Records,
    pub(crate) tasks: TaskTable,
    #[cfg(feature = "fs")]
    pub(crate) watchers: crate::content::Watchers,
}

impl Server {
    /// Starts to build a server with the given name and version.
    ///
    /// # Panics
    /// When the name is empty.
    #[track_caller]
    pub fn builder<S: Clone + Send + Sync + 'static>(
        name: impl Into<String>,
        version: impl Into<String>,
    ) -> ServerBuilder<S> {
        let name = name.into();
        assert!(!name.trim().is_empty(), "a server has a name, which is not empty");
        ServerBuilder::new(name, version.into())
    }

    #[track_caller]
    pub(crate) fn assemble(
        config: Config,
        tools: Vec<ToolEntry>,
        resources: Vec<ResourceEntry>,
        templates: Vec<TemplateEntry>,
        prompts: Vec<PromptEntry>,
    ) -> Self {
        let server_info = json!({ mcp_protocol::meta::keys::SERVER_INFO: config.info });
        let list_style = ListStyle {
            entries: config.limits.page_entries,
            bytes: config.limits.page_bytes,
            cache: config.list_cache,
            stateless_opening: format!("\"resultType\":\"complete\",\"_meta\":{server_info},").into(),
        };
        let fleet = config.store.clone().map(|store| match Fleet::new(store, &config.info.name) {
            Some(fleet) => fleet,
            None => panic!("the system has no random numbers"),
        });
        let state_keys = match config.state_keys.clone().map_or_else(StateKeys::random, Ok) {
            Ok(keys) => keys,
            Err(error) => panic!("the system has no random numbers: {error}"),
        };
        let records = Records::new(config.store.clone().unwrap_or_else(|| Arc::new(MemoryStore::new())));
        let inner = Inner {
            state_keys,
            tasks: TaskTable::new(records.clone(), config.limits.tasks.clone()),
            records,
            gate: Gate::new(config.limits.handlers),
            #[cfg(feature = "fs")]
            watchers: crate::content::Watchers::new(config.watched.clone()),
            config,
            tools: filled(tools),
            resources: filled(resources),
            templates: filled(templates),
            prompts: filled(prompts),
            list_style,
            publisher: Publisher::new(fleet),
            shutdown: CancellationToken::new(),
        };
        let server = Self { inner: Arc::new(inner) };
        #[cfg(feature = "fs")]
        server.start_watching();
        server
    }

    /// Looks after what it serves from the disk from now on, where there is a runtime to do it.
    #[cfg(feature = "fs")]
    pub(crate) fn start_watching(&self) {
        self.inner.watchers.start(&self.inner);
    }

    /// What the server is called.
    #[must_use]
    pub fn info(&self) -> &Implementation {
        &self.inner.config.info
    }

    /// The revisions that are spoken, newest first.
    #[must_use]
    pub fn versions(&self) -> &[ProtocolVersion] {
        &self.inner.config.versions
    }

    /// The bounds that hold.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.config.limits
    }

    /// The scopes that every caller over a network must have been granted.
    #[must_use]
    pub fn required_scopes(&self) -> &[String] {
        &self.inner.config.required_scopes
    }

    /// The tools, to add and remove while the server runs.
    #[must_use]
    pub fn tools(&self) -> Tools<'_> {
        Tools { server: self }
    }

    /// The resources, to add and remove while the server runs.
    #[must_use]
    pub fn resources(&self) -> Resources<'_> {
        Resources { server: self }
    }

    /// The resource templates, to add and remove while the server runs.
    #[must_use]
    pub fn resource_templates(&self) -> ResourceTemplates<'_> {
        ResourceTemplates { server: self }
    }

    /// The prompts, to add and remove while the server runs.
    #[must_use]
    pub fn prompts(&self) -> Prompts<'_> {
        Prompts { server: self }
    }

    /// The tasks, to make some for work that lives outside of a call.
    #[must_use]
    pub fn tasks(&self) -> Tasks<'_> {
        Tasks { server: self }
    }

    /// Asks everything that serves this server to end: what runs may finish within the drain limit. Returns at once.
    pub fn shutdown(&self) {
        self.inner.shutdown.cancel();
    }

    /// Resolves once [`Server::shutdown`] was called, at once if it was already. For transports, and for work of the
    /// application's own that is to end with the server.
    pub fn shutting_down(&self) -> ShuttingDown {
        ShuttingDown { shutdown: Box::pin(self.inner.shutdown.clone().cancelled_owned()) }
    }

    /// Whether [`Server::shutdown`] was called.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.inner.shutdown.is_cancelled()
    }

    pub(crate) fn shutdown_token(&self) -> CancellationToken {
        self.inner.shutdown.clone()
    }

    /// Calls a tool without a transport, as the newest revision does it: arguments are checked, limits hold.
    ///
    /// # Errors
    /// The [`RpcError`] that a client would get. A failure of the tool itself is a result with `is_error`.
    pub async fn call_tool(&self, name: &str, arguments: impl Into<Value>) -> Result<CallToolResult, RpcError> {
        crate::local::call_tool(self, name, arguments.into()).await
    }

    /// Reads a resource without a transport.
    ///
    /// # Errors
    /// The [`RpcError`] that a client would get.
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, RpcError> {
        crate::local::read_resource(self, uri).await
    }

    /// Gets a prompt without a transport.
    ///
    /// # Errors
    /// The [`RpcError`] that a client would get.
    pub async fn get_prompt<K: Into<String>, V: Into<String>>(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (K, V)>,
    ) -> Result<GetPromptResult, RpcError> {
        let arguments = arguments.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        crate::local::get_prompt(self, name, arguments).await
    }

    /// What the server can do, for a client of a revision. Where callers cannot be told apart, tasks are not listed.
    pub(crate) fn capabilities(
        &self,
        version: ProtocolVersion,
        callers_differ: bool,
    ) -> mcp_protocol::ServerCapabilities {
        use mcp_protocol::{
            PromptsCapability, ResourcesCapability, ServerCapabilities, TasksCapability, ToolsCapability,
        };

        let mut capabilities = ServerCapabilities::default();
        capabilities.logging = Some(JsonObject::default());
        if self.has_tools() {
            let mut tools = ToolsCapability::default();
            tools.list_changed = Some(true);
            capabilities.tools = Some(tools);
        }
        if self.has_resources() {
            let mut resources = ResourcesCapability::default();
            resources.list_changed = Some(true);
            resources.subscribe = Some(true);
            capabilities.resources = Some(resources);
        }
        if self.has_prompts() {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = Some(true);
            capabilities.prompts = Some(prompts);
        }
        if self.has_completions() && version.has_completions_capability() {
            capabilities.completions = Some(JsonObject::default());
        }
        if self.has_tasks() && version.has_core_tasks() {
            let mut tasks = TasksCapability::new().with_request("tools", "call");
            tasks.cancel = Some(JsonObject::default());
            tasks.list = callers_differ.then(JsonObject::default);
            capabilities.tasks = Some(tasks);
        }
        if self.has_tasks() && version.has_extensions() {
            capabilities = capabilities.with_extension(mcp_protocol::tasks::ext::IDENTIFIER, JsonObject::default());
        }
        #[cfg(feature = "skills")]
        let capabilities = self.with_skills(capabilities);
        capabilities
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.inner.config.tools_later || self.inner.tools.load().is_in_use()
    }

    pub(crate) fn has_resources(&self) -> bool {
        self.inner.config.resources_later
            || self.inner.resources.load().is_in_use()
            || self.inner.templates.load().is_in_use()
    }

    pub(crate) fn has_prompts(&self) -> bool {
        self.inner.config.prompts_later || self.inner.prompts.load().is_in_use()
    }

    pub(crate) fn has_completions(&self) -> bool {
        self.inner.prompts.load().has_more() || self.inner.templates.load().has_more()
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.inner.config.other_tasks || self.inner.tools.load().has_more()
    }
}

/// The future of [`Server::shutting_down`].
#[must_use = "futures do nothing unless polled"]
pub struct ShuttingDown {
    shutdown: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Future for ShuttingDown {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.shutdown.as_mut().poll(cx)
    }
}

impl std::fmt::Debug for ShuttingDown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShuttingDown").finish_non_exhaustive()
    }
}

fn filled<E: Entry>(entries: Vec<E>) -> Registry<E> {
    let registry = Registry::default();
    // The builder claimed every name, so none can be taken here.
    if let Err(error) = registry.add(entries) {
        tracing::error!(%error, "an entry was lost");
    }
    registry
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("info", &self.inner.config.info).finish_non_exhaustive()
    }
}

macro_rules! live_list {
    ($(#[$doc:meta])* $name:ident, $registry:ident, $route:ident => $convert:expr, $notice:expr) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'a> {
            server: &'a Server,
        }

        impl $name<'_> {
            /// Adds one while the server runs. Every client that listens is told.
            ///
            /// # Errors
            /// When the definition is not valid, or its name is taken.
            pub fn add(&self, route: $route<()>) -> Result<(), RegistrationError> {
                self.extend([route])
            }

            /// Adds several at once, or none. Every client that listens is told.
            ///
            /// # Errors
            /// When a definition is not valid, or a name is taken.
            pub fn extend(&self, routes: impl IntoIterator<Item = $route<()>>) -> Result<(), RegistrationError> {
                let entries: Vec<_> = routes.into_iter().map($convert).collect::<Result<_, RegistrationError>>()?;
                if self.server.inner.$registry.add(entries)? > 0 {
                    self.server.publish($notice);
                }
                Ok(())
            }

            /// Removes one; false when there is none of that name. Calls that run go on.
            pub fn remove(&self, name: &str) -> bool {
                let removed = self.server.inner.$registry.remove(name);
                if removed {
                    self.server.publish($notice);
                }
                removed
            }

            /// The names, in the order of registration.
            #[must_use]
            pub fn names(&self) -> Vec<String> {
                self.server.inner.$registry.load().iter().map(|entry| entry.key().to_owned()).collect()
            }
        }
    };
}

live_list!(
    /// The tools of a running server, by name.
    Tools, tools, ToolRoute => |route| {
        let (spec, run) = route.check()?;
        Ok(ToolEntry { spec, run: run.with_state(()) })
    }, Notice::Tools
);
live_list!(
    /// The resources of a running server, by URI.
    Resources, resources, ResourceRoute => |route| {
        let (spec, run) = route.check()?;
        Ok(ResourceEntry { spec, run: run.with_state(()) })
    }, Notice::Resources
);
live_list!(
    /// The resource templates of a running server, by template.
    ResourceTemplates, templates, TemplateRoute => |route| {
        let (spec, run, completions) = route.check()?;
        Ok(TemplateEntry { spec, run: run.with_state(()), completions: completions.ready() })
    }, Notice::Resources
);
live_list!(
    /// The prompts of a running server, by name.
    Prompts, prompts, PromptRoute => |route| {
        let (prompt, run, completions) = route.check()?;
        Ok(PromptEntry { prompt, run: run.with_state(()), completions: completions.ready() })
    }, Notice::Prompts
);
