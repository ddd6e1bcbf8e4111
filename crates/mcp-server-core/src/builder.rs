//! Builds a server out of routes: programmer's mistakes end the start-up, at the line that made them.

use std::{collections::HashSet, sync::Arc};

use mcp_protocol::{Icon, Implementation, ProtocolVersion};
use mcp_store::{MemoryStore, Store};
use tokio_util::sync::CancellationToken;
use tower_layer::Layer;
use tower_service::Service;

use crate::{
    Server,
    cache_hint::CacheHint,
    data::{Config, Installed, InstalledExtensions, ServerData},
    extension::{Installation, Registrar, RegistrationTarget, ServerExtension, SharedValues},
    handler::{Erased, PromptKind, ResourceKind, ToolKind},
    inputs::{InputServices, StateKeys},
    layers::{Handlers, Invocation, Outcome},
    limits::Limits,
    publisher::{Fleet, Publisher, Readers},
    registry::{
        Entry, ListStyle, MethodRoute, PromptEntry, PromptRoute, RegistrationError, Registry, ResourceEntry,
        ResourceRoute, ResourceSpec, Sources, TemplateEntry, TemplateRoute, TemplateSpec, ToolEntry, ToolRoute,
        ToolSpec,
    },
    request::ServerIdentity,
    session::{ClientNotification, Gate, NotificationHook},
    store::RecordStore,
    tasks::{TaskPolicy, TaskTable},
    trace::{Bridge, Propagate},
};

/// Collects what a server offers. `S` is the state that its handlers still miss: give it by
/// [`ServerBuilder::with_state`], then [`ServerBuilder::build`].
#[must_use = "a builder does nothing until it is built"]
pub struct ServerBuilder<S = ()> {
    pub(crate) config: Config,
    tools: Vec<(ToolSpec, Erased<S, ToolKind>)>,
    resources: Vec<(ResourceSpec, Erased<S, ResourceKind>)>,
    templates: Vec<(TemplateSpec, Erased<S, ResourceKind>, Sources<S>)>,
    prompts: Vec<(mcp_protocol::Prompt, Erased<S, PromptKind>, Sources<S>)>,
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
                required_scopes: Vec::new(),
                state_keys: None,
                store: None,
                on_notification: None,
                task_policy: TaskPolicy::default(),
                other_tasks: false,
                layers: None,
                bridge: None,
                tools_later: false,
                resources_later: false,
                prompts_later: false,
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

    /// What people see instead of the name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.config.info.title = Some(title.into());
        self
    }

    /// What the server is, in a sentence.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.config.info.description = Some(text.into());
        self
    }

    /// Where to read more.
    pub fn website_url(mut self, url: impl Into<String>) -> Self {
        self.config.info.website_url = Some(url.into());
        self
    }

    /// Adds an icon.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.config.info.icons.push(icon);
        self
    }

    /// How to use the server, for the model.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.config.instructions = Some(text.into());
        self
    }

    /// The revisions that are spoken. All by default.
    ///
    /// # Panics
    /// When the list is empty.
    #[track_caller]
    pub fn versions(mut self, versions: impl IntoIterator<Item = ProtocolVersion>) -> Self {
        let mut versions: Vec<_> = versions.into_iter().collect();
        assert!(!versions.is_empty(), "a server speaks at least one revision");
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.dedup();
        self.config.versions = versions;
        self
    }

    /// Changes the bounds: `.limits(|limits| limits.tool_timeout = …)`.
    ///
    /// # Panics
    /// When one is zero with which nothing would work.
    #[track_caller]
    pub fn limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.config.limits);
        if let Err(name) = self.config.limits.check() {
            panic!("the limit `{name}` is zero: nothing could be served");
        }
        self
    }

    /// The most entries on a page of a list.
    ///
    /// # Panics
    /// When it is zero.
    #[track_caller]
    pub fn page_size(self, entries: usize) -> Self {
        assert!(entries > 0, "`page_size` is zero: a page holds at least one entry");
        self.limits(|limits| limits.page_entries = entries)
    }

    /// How long lists may be kept by clients (2026-07-28). Not at all by default.
    pub fn list_cache(mut self, hint: CacheHint) -> Self {
        self.config.list_cache = hint;
        self
    }

    /// How long contents of resources may be kept by clients (2026-07-28). Not at all by default.
    pub fn read_cache(mut self, hint: CacheHint) -> Self {
        self.config.read_cache = hint;
        self
    }

    /// How long the answer to `server/discover` may be kept by clients (2026-07-28). Not at all by default.
    pub fn discover_cache(mut self, hint: CacheHint) -> Self {
        self.config.discover_cache = hint;
        self
    }

    /// The keys that seal what travels through a client between two rounds of a call. All nodes of a fleet need the same;
    /// without any, the process makes a random key of its own.
    pub fn state_keys(mut self, keys: StateKeys) -> Self {
        self.config.state_keys = Some(keys);
        self
    }

    /// Where a fleet keeps what its nodes share. The memory of the process by default. Servers of one name on one store
    /// are nodes of one fleet: what one of them announces (see [`Server::notify`]) reaches the clients of all.
    pub fn store(mut self, store: Arc<dyn Store>) -> Self {
        self.config.store = Some(store);
        self
    }

    /// Runs for each notification of a client that is no cancellation: `notifications/initialized`,
    /// `notifications/roots/list_changed`, and whatever else a client of a session, or of a connection that carries
    /// everything in one stream, sends unasked. Those of one client are taken one after the other, each within the read
    /// timeout, and are no running handlers. Up to 64 wait; equal ones that wait are one.
    pub fn on_notification<F, R>(mut self, hook: F) -> Self
    where
        F: Fn(ClientNotification) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        self.config.on_notification = Some(NotificationHook::new(hook));
        self
    }

    /// When calls of tools that may run as tasks become tasks, for clients that leave it to the server (2026-07-28). After
    /// a second by default. A tool may have a policy of its own.
    pub fn task_policy(mut self, policy: TaskPolicy) -> Self {
        self.config.task_policy = policy;
        self
    }

    /// The server makes tasks apart from calls ([`Server::tasks`]), so that clients are told of tasks even if no tool runs
    /// as one.
    pub fn other_tasks(mut self) -> Self {
        self.config.other_tasks = true;
        self
    }

    /// Ties the spans of requests to the traces of clients. The spans are there without it, for every subscriber of
    /// `tracing`: target `mcp_server`, level `INFO`, with the attributes of the OpenTelemetry conventions for MCP.
    pub fn propagate(mut self, bridge: impl Propagate) -> Self {
        self.config.bridge = Some(Bridge(Arc::new(bridge)));
        self
    }

    /// Tools are added while the server runs ([`Server::tools`]), so that clients are told of tools even while there are
    /// none. Without this, who connects before the first one hears nothing of tools.
    pub fn tools_later(mut self) -> Self {
        self.config.tools_later = true;
        self
    }

    /// Resources or templates are added while the server runs ([`Server::resources`], [`Server::resource_templates`]), so
    /// that clients are told of resources even while there are none. Without this, who connects before the first one
    /// hears nothing of resources.
    pub fn resources_later(mut self) -> Self {
        self.config.resources_later = true;
        self
    }

    /// Prompts are added while the server runs ([`Server::prompts`]), so that clients are told of prompts even while there
    /// are none. Without this, who connects before the first one hears nothing of prompts.
    pub fn prompts_later(mut self) -> Self {
        self.config.prompts_later = true;
        self
    }

    /// Puts a layer around every call of a handler: tower's own (a timeout, a limit on what runs at once or on the rate) or
    /// one of yours. The last one added is the first that a call meets; those of a tool come after those of the server.
    ///
    /// - Dropping what a layer was given cancels the handler, and a client that cancels drops the layers too.
    /// - Time spent in layers is not counted by the time limits of the server: one that waits wants a timeout around it.
    /// - A call that becomes a task stays behind its layers, which see its end, and whose timeouts hold for it.
    /// - An [`RpcError`](mcp_protocol::RpcError) is the client's to read; of any other error it gets a reference number.
    ///
    /// A service that cannot be cloned (a rate limit) goes behind `tower::buffer`, which needs a runtime here already.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Handlers>,
        L::Service: Service<Invocation, Response = Outcome> + Clone + Send + 'static,
        <L::Service as Service<Invocation>>::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
        <L::Service as Service<Invocation>>::Future: Send + 'static,
    {
        let layers = self.config.layers.take().unwrap_or_else(Handlers::of_server);
        self.config.layers = Some(layers.behind(&layer));
        self
    }

    /// Every caller over a network must have been granted all of these scopes.
    pub fn requires_scopes<T: Into<String>>(mut self, scopes: impl IntoIterator<Item = T>) -> Self {
        self.config.required_scopes.extend(scopes.into_iter().map(Into::into));
        self
    }

    /// Adds a tool.
    ///
    /// # Panics
    /// When the name is taken or invalid, or a schema is not valid: see [`ServerBuilder::try_tool`].
    #[track_caller]
    pub fn tool(self, route: ToolRoute<S>) -> Self {
        accept(self.try_tool(route))
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// When the name is taken or invalid, or a schema is not valid.
    pub fn try_tool(mut self, route: ToolRoute<S>) -> Result<Self, RegistrationError> {
        self.add_tool(route)?;
        Ok(self)
    }

    /// Adds a resource.
    ///
    /// # Panics
    /// When the URI is taken or not a URI: see [`ServerBuilder::try_resource`].
    #[track_caller]
    pub fn resource(self, route: ResourceRoute<S>) -> Self {
        accept(self.try_resource(route))
    }

    /// Adds a resource.
    ///
    /// # Errors
    /// When the URI is taken or not a URI.
    pub fn try_resource(mut self, route: ResourceRoute<S>) -> Result<Self, RegistrationError> {
        self.add_resource(route)?;
        Ok(self)
    }

    /// Adds a resource template. Where several match a URI, the first one added reads it; a resource at the exact URI
    /// comes before them all.
    ///
    /// # Panics
    /// When the template is taken or not valid: see [`ServerBuilder::try_resource_template`].
    #[track_caller]
    pub fn resource_template(self, route: TemplateRoute<S>) -> Self {
        accept(self.try_resource_template(route))
    }

    /// Adds a resource template.
    ///
    /// # Errors
    /// When the template is taken or not valid.
    pub fn try_resource_template(mut self, route: TemplateRoute<S>) -> Result<Self, RegistrationError> {
        self.add_resource_template(route)?;
        Ok(self)
    }

    /// Adds a prompt.
    ///
    /// # Panics
    /// When the name is taken or an argument is given twice: see [`ServerBuilder::try_prompt`].
    #[track_caller]
    pub fn prompt(self, route: PromptRoute<S>) -> Self {
        accept(self.try_prompt(route))
    }

    /// Adds a prompt.
    ///
    /// # Errors
    /// When the name is taken or an argument is given twice.
    pub fn try_prompt(mut self, route: PromptRoute<S>) -> Result<Self, RegistrationError> {
        self.add_prompt(route)?;
        Ok(self)
    }

    /// Adds an extension: methods, capabilities and registrations that one type brings along.
    ///
    /// ```
    /// use mcp_server_core::{
    ///     RegistrationError, Server,
    ///     extension::{MethodResult, MethodRoute, Registrar, ServerExtension},
    /// };
    ///
    /// struct Uptime(std::time::Instant);
    ///
    /// impl ServerExtension for Uptime {
    ///     fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
    ///         let started = self.0;
    ///         registrar.method(MethodRoute::immediate("com.example/uptime", move |_request| {
    ///             MethodResult::json(&serde_json::json!({ "seconds": started.elapsed().as_secs() }))
    ///         }))
    ///     }
    /// }
    ///
    /// let server = Server::builder("clock", "1.0.0").extension(Uptime(std::time::Instant::now())).build();
    /// # let _: Server = server;
    /// ```
    ///
    /// # Panics
    /// Panics when the extension cannot be added: see [`ServerBuilder::try_extension`].
    #[track_caller]
    pub fn extension(self, extension: impl ServerExtension) -> Self {
        accept(self.try_extension(extension))
    }

    /// Adds an extension.
    ///
    /// # Errors
    /// Returns the error of [`ServerExtension::register`].
    pub fn try_extension(mut self, mut extension: impl ServerExtension) -> Result<Self, RegistrationError> {
        extension.register(&mut Registrar::new(&mut self))?;
        self.extensions.push(Box::new(Installation(extension)));
        Ok(self)
    }

    /// Gives all handlers so far their state. Handlers that are added later may have another.
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

    /// Adds a tool; what is refused changes nothing.
    pub(crate) fn add_tool(&mut self, route: ToolRoute<S>) -> Result<(), RegistrationError> {
        let (spec, handler) = route.check()?;
        self.claim("tool", &spec.tool.name)?;
        self.tools.push((spec, handler));
        Ok(())
    }

    /// Adds a resource; what is refused changes nothing.
    pub(crate) fn add_resource(&mut self, route: ResourceRoute<S>) -> Result<(), RegistrationError> {
        let (spec, handler) = route.check()?;
        self.claim("resource", &spec.resource.uri)?;
        self.resources.push((spec, handler));
        Ok(())
    }

    /// Adds a resource template; what is refused changes nothing.
    pub(crate) fn add_resource_template(&mut self, route: TemplateRoute<S>) -> Result<(), RegistrationError> {
        let (spec, handler, completions) = route.check()?;
        self.claim("resource template", &spec.template.uri_template)?;
        self.templates.push((spec, handler, completions));
        Ok(())
    }

    /// Adds a prompt; what is refused changes nothing.
    pub(crate) fn add_prompt(&mut self, route: PromptRoute<S>) -> Result<(), RegistrationError> {
        let (prompt, handler, completions) = route.check()?;
        self.claim("prompt", &prompt.name)?;
        self.prompts.push((prompt, handler, completions));
        Ok(())
    }

    fn claim(&mut self, noun: &'static str, name: &str) -> Result<(), RegistrationError> {
        if self.names.insert((noun, name.to_owned())) {
            return Ok(());
        }
        Err(RegistrationError::new(format!("the {noun} `{name}` is already registered")))
    }
}

/// Extensions bring handlers that miss no state, whatever state the builder's own handlers still miss.
impl<S: Clone + Send + Sync + 'static> RegistrationTarget for ServerBuilder<S> {
    fn tool(&mut self, route: ToolRoute) -> Result<(), RegistrationError> {
        let (spec, handler) = route.check()?;
        self.claim("tool", &spec.tool.name)?;
        self.tools.push((spec, Erased::ready(handler.with_state(()))));
        Ok(())
    }

    fn resource(&mut self, route: ResourceRoute) -> Result<(), RegistrationError> {
        let (spec, handler) = route.check()?;
        self.claim("resource", &spec.resource.uri)?;
        self.resources.push((spec, Erased::ready(handler.with_state(()))));
        Ok(())
    }

    fn resource_template(&mut self, route: TemplateRoute) -> Result<(), RegistrationError> {
        let (spec, handler, completions) = route.check()?;
        self.claim("resource template", &spec.template.uri_template)?;
        self.templates.push((spec, Erased::ready(handler.with_state(())), completions.with_state(&())));
        Ok(())
    }

    fn prompt(&mut self, route: PromptRoute) -> Result<(), RegistrationError> {
        let (prompt, handler, completions) = route.check()?;
        self.claim("prompt", &prompt.name)?;
        self.prompts.push((prompt, Erased::ready(handler.with_state(())), completions.with_state(&())));
        Ok(())
    }

    fn method(&mut self, route: MethodRoute) -> Result<(), RegistrationError> {
        route.check()?;
        self.claim("method", &route.name)?;
        self.methods.push(route);
        Ok(())
    }

    fn shared(&mut self) -> &mut SharedValues {
        &mut self.shared
    }
}

impl ServerBuilder<()> {
    /// The server. It is cheap to clone and serves any number of connections.
    ///
    /// # Panics
    /// When the system has no random numbers for a key (see [`ServerBuilder::state_keys`]).
    #[track_caller]
    #[must_use]
    pub fn build(self) -> Server {
        let extensions = InstalledExtensions::new(self.extensions, self.methods);
        let tools = self.tools.into_iter().map(|(spec, run)| ToolEntry { spec, run: run.with_state(()) });
        let resources = self.resources.into_iter().map(|(spec, run)| ResourceEntry { spec, run: run.with_state(()) });
        let templates = self.templates.into_iter().map(|(spec, run, completions)| TemplateEntry {
            spec,
            run: run.with_state(()),
            completions: completions.ready(),
        });
        let prompts = self.prompts.into_iter().map(|(prompt, run, completions)| PromptEntry {
            prompt,
            run: run.with_state(()),
            completions: completions.ready(),
        });
        assemble(self.config, extensions, tools.collect(), resources.collect(), templates.collect(), prompts.collect())
    }
}

#[track_caller]
fn assemble(
    config: Config,
    extensions: InstalledExtensions,
    tools: Vec<ToolEntry>,
    resources: Vec<ResourceEntry>,
    templates: Vec<TemplateEntry>,
    prompts: Vec<PromptEntry>,
) -> Server {
    let identity = ServerIdentity::new(config.info.clone());
    let list_style = ListStyle {
        entries: config.limits.page_entries,
        bytes: config.limits.page_bytes,
        cache: config.list_cache,
        stateless_opening: identity.opening.clone(),
    };
    let keys = match config.state_keys.clone().map_or_else(StateKeys::random, Ok) {
        Ok(keys) => keys,
        Err(error) => panic!("the system has no random numbers: {error}"),
    };
    let records = RecordStore::new(config.store.clone().unwrap_or_else(|| Arc::new(MemoryStore::new())));
    let tasks = Arc::new(TaskTable::new(records.clone(), config.limits.tasks.clone()));
    let readers: Arc<Readers> = Arc::default();
    let fleet = config.store.clone();
    let fleet = fleet.map(|store| Fleet::new(store, &config.info.name, readers.clone(), tasks.clone()));
    let inputs = InputServices { limits: config.limits.inputs.clone(), keys, records, bridge: config.bridge.clone() };
    let inputs = Arc::new(inputs);
    let data = ServerData {
        inputs,
        identity,
        tasks,
        gate: Gate::new(config.limits.handlers),
        extensions,
        config,
        tools: filled(tools),
        resources: filled(resources),
        templates: filled(templates),
        prompts: filled(prompts),
        list_style,
        publisher: Publisher::new(readers, fleet),
        shutdown: CancellationToken::new(),
    };
    let server = Server { data: Arc::new(data) };
    server.data.extensions.start(&server);
    server
}

fn filled<E: Entry>(entries: Vec<E>) -> Registry<E> {
    let registry = Registry::default();
    // The builder claimed every name, so none can be taken here.
    if let Err(error) = registry.add(entries) {
        tracing::error!(%error, "an entry was lost");
    }
    registry
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

#[track_caller]
pub(crate) fn accept<T>(result: Result<T, RegistrationError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}
