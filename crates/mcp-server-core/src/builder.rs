//! Builds a server from routes. An invalid route panics at the line that adds it.

mod assemble;
mod caching;
mod routes;
mod unbuilt;

use std::{collections::HashSet, sync::Arc};

use mcp_protocol::{Icon, Implementation, ProtocolVersion};
use mcp_store::Store;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Server,
    access::Access,
    cache_hint::CacheHint,
    data::{Config, Installed, InstalledExtensions},
    extension::SharedValues,
    handler::{Erased, PromptKind, ResourceKind, ToolKind},
    inputs::StateKeys,
    layers::{HandlerService, Invocation, Outcome},
    limits::Limits,
    registry::{
        MethodRoute, PromptEntry, PromptSpec, ResourceEntry, ResourceSpec, Sources, TemplateEntry, TemplateSpec,
        ToolEntry, ToolSpec,
    },
    session::{ClientNotification, NotificationHook},
    source::{InstalledSource, Source},
    tasks::TaskPolicy,
    trace::{Bridge, Propagate},
};

/// Collects the routes and the configuration of a server.
///
/// `S` is the state that the handlers still need. [`ServerBuilder::with_state`] provides it, and then
/// [`ServerBuilder::build`] returns the server.
///
/// # Example
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use mcp_protocol::{Icon, ProtocolVersion};
/// use mcp_server_core::{CacheHint, Server, StateKeys, TaskPolicy, prompt, resource, tool};
/// use mcp_store::MemoryStore;
///
/// let server = Server::builder("greeter", "1.0.0")
///     .title("Greeter")
///     .description("Greets people.")
///     .website_url("https://example.com")
///     .icon(Icon::new("https://example.com/icon.png"))
///     .instructions("Call `greet` first.")
///     .tool(tool("greet", async || "hello"))
///     .resource(resource("greetings://all", async || "hello, hi"))
///     .prompt(prompt("politely", async || "Greet me politely."))
///     .page_size(100)
///     .list_cache(CacheHint::public(Duration::from_secs(60)))
///     .read_cache(CacheHint::private(Duration::from_secs(5)))
///     .discover_cache(CacheHint::public(Duration::from_secs(3600)))
///     .state_keys(StateKeys::new([[7; 32]])) // from the configuration of the fleet
///     .store(Arc::new(MemoryStore::new())) // or a store that all nodes of the fleet share
///     .task_policy(TaskPolicy::Immediately)
///     .standalone_tasks()
///     .dynamic_resources()
///     .dynamic_prompts()
///     .requires_scopes(["greetings:read"])
///     .build();
/// assert_eq!(server.versions(), ProtocolVersion::ALL);
/// ```
#[must_use = "the server is not built: call `.build()`"]
pub struct ServerBuilder<S = ()> {
    pub(crate) config: Config,
    tools: Vec<(ToolSpec, Erased<S, ToolKind>)>,
    resources: Vec<(ResourceSpec, Erased<S, ResourceKind>)>,
    templates: Vec<(TemplateSpec, Erased<S, ResourceKind>, Sources<S>)>,
    prompts: Vec<(PromptSpec, Erased<S, PromptKind>, Sources<S>)>,
    names: HashSet<(&'static str, String)>,
    extensions: Vec<Box<dyn Installed>>,
    methods: Vec<MethodRoute>,
    shared: SharedValues,
}

impl<S: Clone + Send + Sync + 'static> ServerBuilder<S> {
    pub(crate) fn new(name: String, version: String) -> Self {
        Self {
            config: Config {
                info: Implementation::new(name, version),
                instructions: None,
                versions: ProtocolVersion::ALL.to_vec(),
                limits: Limits::default(),
                list_cache: CacheHint::NONE,
                read_cache: CacheHint::NONE,
                discover_cache: CacheHint::NONE,
                access: Access::default(),
                state_keys: None,
                lists_forbidden_entries: false,
                accepts_unsolicited_answers: false,
                store: None,
                on_notification: None,
                task_policy: TaskPolicy::default(),
                standalone_tasks: false,
                layers: None,
                bridge: None,
                shows_faults: false,
                dynamic_tools: false,
                dynamic_resources: false,
                dynamic_prompts: false,
                source: None,
            },
            tools: Vec::new(),
            resources: Vec::new(),
            templates: Vec::new(),
            prompts: Vec::new(),
            names: HashSet::new(),
            extensions: Vec::new(),
            methods: Vec::new(),
            shared: SharedValues::new(),
        }
    }

    /// Sets the title, which people see instead of the name.
    ///
    /// See the [example](Self#example).
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.config.info.title = Some(title.into());
        self
    }

    /// Sets the description of the server, in one sentence.
    ///
    /// See the [example](Self#example).
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.config.info.description = Some(text.into());
        self
    }

    /// Sets the URL of a page about the server.
    ///
    /// See the [example](Self#example).
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.config.info.website_url = Some(url.into());
        self
    }

    /// Adds an icon.
    ///
    /// See the [example](Self#example).
    pub fn icon(mut self, icon: Icon) -> Self {
        self.config.info.icons.push(icon);
        self
    }

    /// Sets the instructions for the model: how to use the server.
    ///
    /// See the [example](Self#example).
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.config.instructions = Some(text.into());
        self
    }

    /// Sets the revisions that the server supports. By default it supports all of them.
    ///
    /// ```
    /// use mcp_server_core::Server;
    /// use mcp_protocol::ProtocolVersion;
    ///
    /// let server = Server::builder::<()>("modern", "1.0.0").versions([ProtocolVersion::LATEST]).build();
    /// assert_eq!(server.versions(), [ProtocolVersion::LATEST]);
    /// ```
    ///
    /// # Panics
    /// Panics when the list is empty.
    #[track_caller]
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        let mut versions: Vec<_> = versions.into_iter().collect();
        assert!(!versions.is_empty(), "a server speaks at least one revision");
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.dedup();
        self.config.versions = versions;
        self
    }

    /// Changes the limits of the server.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_server_core::Server;
    ///
    /// let builder = Server::builder::<()>("slow", "1.0.0").limits(|limits| limits.tool_timeout = Duration::from_secs(300));
    /// # let _ = builder;
    /// ```
    ///
    /// # Panics
    /// Panics when a limit is zero that has to be positive, or when `node.renewal` is not shorter than `node.lease`.
    #[track_caller]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.config.limits);
        if let Err(fault) = self.config.limits.check() {
            panic!("{fault}");
        }
        self
    }

    /// Sets the largest number of entries on one page of a list.
    ///
    /// See the [example](Self#example).
    ///
    /// # Panics
    /// Panics when the number is zero.
    #[track_caller]
    pub fn page_size(self, entries: usize) -> Self {
        assert!(entries > 0, "`page_size` is zero: a page holds at least one entry");
        self.limits(|limits| limits.page_entries = entries)
    }

    /// Sets the keys that seal the request state between two input rounds of a call.
    ///
    /// All nodes of a fleet need the same keys. Without keys, the process generates a random key.
    ///
    /// See the [example](Self#example).
    pub fn state_keys(mut self, keys: StateKeys) -> Self {
        self.config.state_keys = Some(keys);
        self
    }

    /// Adds the entries whose scopes the caller lacks to the lists of tools, resources, templates and prompts.
    ///
    /// By default, a caller over a network sees only the entries that it can use. Local callers see all entries. A list with
    /// such entries is private: caches do not share it between callers. In both cases, a request without the scopes fails.
    ///
    /// Use this setting if clients request more scopes for an entry that they see in the list.
    ///
    /// ```
    /// use mcp_server_core::{Server, tool};
    ///
    /// let server = Server::builder("files", "1.0")
    ///     .tool(tool("delete", async || "deleted").requires_scopes(["files:write"]))
    ///     .list_forbidden_entries()
    ///     .build();
    /// # let _ = server;
    /// ```
    pub fn list_forbidden_entries(mut self) -> Self {
        self.config.lists_forbidden_entries = true;
        self
    }

    /// Accepts answers to questions that the server has not asked (2026-07-28).
    ///
    /// By default, an answer counts only if the sealed `requestState` of the request proves that the server asked this
    /// question. Otherwise the server asks it. With this setting, a client can answer in its first request, also a question of
    /// [`Inputs::confirm`](crate::Inputs::confirm). Such a call runs without a question to the user.
    ///
    /// ```
    /// use mcp_server_core::Server;
    ///
    /// let server = Server::builder("forms", "1.0").accept_unsolicited_answers().build();
    /// # let _ = server;
    /// ```
    pub fn accept_unsolicited_answers(mut self) -> Self {
        self.config.accepts_unsolicited_answers = true;
        self
    }

    /// Sets the store that the nodes of a fleet share. The default is the memory of the process.
    ///
    /// Servers with the same name and the same store are nodes of one fleet. A change that one node announces reaches the
    /// clients of all nodes (see [`Server::notify`]).
    ///
    /// See the [example](Self#example).
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.config.store = Some(store);
        self
    }

    /// Sets a hook that runs for each notification of a client, except for cancellations.
    ///
    /// Examples are `notifications/initialized` and `notifications/roots/list_changed`. Notifications arrive in a session, or
    /// over a connection that carries all messages on one stream. The hook runs for one notification of a client at a time. The
    /// read timeout bounds each run, and the run does not count as a running handler. Up to 64 notifications of a client wait.
    /// Equal notifications that wait count as one.
    ///
    /// ```
    /// use mcp_server_core::{ClientNotification, Server};
    ///
    /// let server = Server::builder::<()>("watcher", "1.0.0")
    ///     .on_notification(async |notification: ClientNotification| println!("{}", notification.method()))
    ///     .build();
    /// # let _: Server = server;
    /// ```
    pub fn on_notification<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(ClientNotification) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.config.on_notification = Some(NotificationHook::new(hook));
        self
    }

    /// Sets when the server turns a tool call into a task, for clients that leave the choice to the server (2026-07-28).
    ///
    /// The default is after one second. It holds for tools that may run as tasks, and a tool can have a policy of its own.
    ///
    /// See the [example](Self#example).
    pub fn task_policy(mut self, policy: TaskPolicy) -> Self {
        self.config.task_policy = policy;
        self
    }

    /// Declares tasks even if no tool can run as a task.
    ///
    /// A server needs it if it creates tasks by [`Server::tasks`] only.
    ///
    /// See the [example](Self#example).
    pub fn standalone_tasks(mut self) -> Self {
        self.config.standalone_tasks = true;
        self
    }

    /// Connects the spans of requests to the traces of clients.
    ///
    /// A `tracing` subscriber receives the spans also without a bridge. They have the target `mcp_server`, the level `INFO`, and
    /// the attributes of the OpenTelemetry conventions for MCP.
    pub fn propagate(mut self, bridge: impl Propagate) -> Self {
        self.config.bridge = Some(Bridge(Arc::new(bridge)));
        self
    }

    /// Shows the details of faults to clients, during development. By default, clients receive a reference number only.
    ///
    /// A fault is an error that a handler returns with `?`, a panic, or an output that does not fit its schema. The details
    /// are the text of the error with its sources, or the message of the panic. They may contain secrets, such as paths,
    /// queries or the URLs of databases. A model reads them, and a host may store them. Never use this switch in production.
    /// `build` writes a warning.
    ///
    /// ```
    /// use mcp_server_core::{Server, ToolError, tool};
    /// use serde_json::json;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let read = tool("read", async || -> Result<String, ToolError> { Ok("7x".parse::<u16>()?.to_string()) });
    /// let server = Server::builder("broken", "1.0").tool(read).show_faults().build();
    /// let result = server.call_tool("read", json!({})).await?;
    /// // the call failed on the server (reference 0b5c91d2): invalid digit found in string
    /// assert!(result.content[0].as_text().unwrap().ends_with(": invalid digit found in string"));
    /// # Ok::<_, mcp_protocol::RpcError>(())
    /// # }).unwrap();
    /// ```
    pub fn show_faults(mut self) -> Self {
        self.config.shows_faults = true;
        self
    }

    /// Declares tools even while the server has none, because it adds them later ([`Server::tools`]).
    ///
    /// Otherwise a client that connects before the first tool does not learn that the server has tools.
    ///
    /// ```
    /// use mcp_server_core::{Server, tool};
    ///
    /// let server = Server::builder("plugins", "1.0.0").dynamic_tools().build();
    /// server.tools().add(tool("late", async || "here now"))?;
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    pub fn dynamic_tools(mut self) -> Self {
        self.config.dynamic_tools = true;
        self
    }

    /// Declares resources even while the server has none, because it adds them later ([`Server::resources`],
    /// [`Server::resource_templates`]).
    ///
    /// Otherwise a client that connects before the first resource does not learn that the server has resources.
    ///
    /// See the [example](Self#example).
    pub fn dynamic_resources(mut self) -> Self {
        self.config.dynamic_resources = true;
        self
    }

    /// Declares prompts even while the server has none, because it adds them later ([`Server::prompts`]).
    ///
    /// Otherwise a client that connects before the first prompt does not learn that the server has prompts.
    ///
    /// See the [example](Self#example).
    pub fn dynamic_prompts(mut self) -> Self {
        self.config.dynamic_prompts = true;
        self
    }

    /// Takes all tools, resources and prompts from a source, instead of registered handlers.
    ///
    /// See the example of [`Source`](crate::source::Source).
    pub fn source(mut self, source: impl Source) -> Self {
        self.config.source = Some(InstalledSource { features: source.features(), source: Arc::new(source) });
        self
    }

    /// Wraps every handler call in a tower layer, for example a timeout or a limit of concurrent calls.
    ///
    /// The layer that was added last receives a call first. The layers of a tool come after the layers of the server.
    ///
    /// - When a layer drops its inner future, the handler is cancelled. A client that cancels its request drops the layers.
    /// - The time limits of the server do not count the time in layers. A layer that waits needs a timeout around it.
    /// - A call that becomes a task keeps its layers. They receive its end, and their timeouts hold for it.
    /// - The client receives an [`RpcError`](mcp_protocol::RpcError) of a layer as it is. Of any other error it receives a
    ///   reference number.
    ///
    /// A service that cannot be cloned, such as `tower::limit::RateLimit`, needs `tower::buffer` around it. The buffer needs a
    /// runtime when the layer is added. The layer [`RateLimit`](crate::RateLimit) of this library needs no buffer.
    ///
    /// ```
    /// use mcp_server_core::{Server, tool};
    /// use tower::limit::GlobalConcurrencyLimitLayer;
    ///
    /// let server = Server::builder("limited", "1.0.0")
    ///     .tool(tool("greet", async || "Hello!"))
    ///     .layer(GlobalConcurrencyLimitLayer::new(8))
    ///     .build();
    /// # let _: Server = server;
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<HandlerService>,
        L::Service: Service<Invocation, Response = Outcome> + Clone + Send + 'static,
        <L::Service as Service<Invocation>>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        <L::Service as Service<Invocation>>::Future: Send + 'static,
    {
        let layers = self.config.layers.take().unwrap_or_else(HandlerService::of_server);
        self.config.layers = Some(layers.behind(&layer));
        self
    }

    /// Requires that every caller over a network was granted all of these scopes.
    ///
    /// A caller without them can open no session and no stream. Its requests are rejected, and its notifications have no
    /// effect. Over HTTP it receives 403, or 401 if it is anonymous.
    ///
    /// See the [example](Self#example).
    pub fn requires_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.config.access.require(scopes);
        self
    }

    /// Requires that every caller over a network is authenticated.
    ///
    /// A server with an authenticator requires this by default. The rule is for a server that also allows anonymous callers.
    ///
    /// ```
    /// use mcp_server_core::{Server, tool};
    ///
    /// let server = Server::builder("files", "1.0.0")
    ///     .tool(tool("list", async || "a.txt"))
    ///     .requires_authentication()
    ///     .build();
    /// # let _: Server = server;
    /// ```
    pub fn requires_authentication(mut self) -> Self {
        self.config.access.require_caller();
        self
    }

    /// Provides the state for all handlers that were added so far. Handlers that are added later may need another state.
    ///
    /// ```
    /// use mcp_server_core::{Server, State, tool};
    ///
    /// let server = Server::builder("counter", "1.0.0")
    ///     .tool(tool("start", async |State(first): State<u32>| first.to_string()))
    ///     .with_state(7)
    ///     .build();
    /// # let _: Server = server;
    /// ```
    pub fn with_state<S2: Clone + Send + Sync + 'static>(self, state: S) -> ServerBuilder<S2> {
        ServerBuilder {
            config: self.config,
            names: self.names,
            extensions: self.extensions,
            methods: self.methods,
            shared: self.shared,
            tools: self
                .tools
                .into_iter()
                .map(|(spec, handler)| (spec, Erased::ready(handler.with_state(state.clone()))))
                .collect(),
            resources: self
                .resources
                .into_iter()
                .map(|(spec, handler)| (spec, Erased::ready(handler.with_state(state.clone()))))
                .collect(),
            templates: self
                .templates
                .into_iter()
                .map(|(spec, handler, sources)| {
                    (spec, Erased::ready(handler.with_state(state.clone())), sources.with_state(&state))
                })
                .collect(),
            prompts: self
                .prompts
                .into_iter()
                .map(|(prompt, handler, sources)| {
                    (prompt, Erased::ready(handler.with_state(state.clone())), sources.with_state(&state))
                })
                .collect(),
        }
    }
}

mod sealed {
    /// The state of a server that received no state.
    #[derive(Debug)]
    #[expect(unnameable_types, reason = "code never has to name the type")]
    pub enum NoState {}

    /// A state that a builder can provide. `S` is a parameter, so that the compiler infers `()` for a builder without state.
    #[diagnostic::on_unimplemented(
        message = "the server has no state: its handlers take `State<{S}>`",
        label = "the state `{S}` is missing",
        note = "call `.with_state(…)` with a value of `{S}` after the handlers and before `.build()`",
        note = "the rules of handlers: `docs/handlers.md` of the library, and the documentation of `mcp_server::check`"
    )]
    #[expect(unnameable_types, reason = "code never has to name the trait")]
    pub trait Provides<S> {
        fn state() -> S;
    }

    impl Provides<()> for NoState {
        fn state() {}
    }
}

impl<S: Clone + Send + Sync + 'static> ServerBuilder<S> {
    /// Builds the server. It is cheap to clone, and serves any number of connections.
    ///
    /// See the [example](Self#example).
    ///
    /// # Panics
    /// Panics when the system has no random numbers for a key (see [`ServerBuilder::state_keys`]). Panics when the server has a
    /// source and registered handlers.
    #[track_caller]
    #[must_use]
    pub fn build(self) -> Server
    where
        sealed::NoState: sealed::Provides<S>,
    {
        let is_empty =
            self.tools.is_empty() && self.resources.is_empty() && self.templates.is_empty() && self.prompts.is_empty();
        assert!(
            self.config.source.is_none() || is_empty,
            "the server has a source, so it takes no registered tools, resources and prompts"
        );
        let state = <sealed::NoState as sealed::Provides<S>>::state;
        let extensions = InstalledExtensions::new(self.extensions, self.methods);
        let tools = self.tools.into_iter().map(|(spec, run)| ToolEntry { spec, run: run.with_state(state()) });
        let resources =
            self.resources.into_iter().map(|(spec, run)| ResourceEntry { spec, run: run.with_state(state()) });
        let templates = self.templates.into_iter().map(|(spec, run, completions)| TemplateEntry {
            spec,
            run: run.with_state(state()),
            completions: completions.with_state::<()>(&state()).ready(),
        });
        let prompts = self.prompts.into_iter().map(|(spec, run, completions)| PromptEntry {
            spec,
            run: run.with_state(state()),
            completions: completions.with_state::<()>(&state()).ready(),
        });
        assemble::assemble(
            self.config,
            extensions,
            tools.collect(),
            resources.collect(),
            templates.collect(),
            prompts.collect(),
        )
    }
}

impl<S> std::fmt::Debug for ServerBuilder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerBuilder")
            .field("name", &self.config.info.name)
            .field("tools", &self.tools.len())
            .field("resources", &self.resources.len())
            .field("resource_templates", &self.templates.len())
            .field("prompts", &self.prompts.len())
            .finish_non_exhaustive()
    }
}
