//! The builder of a host.

mod files;
#[cfg(feature = "oauth")]
mod oauth;
mod rules;

use std::{panic::resume_unwind, path::PathBuf, sync::Arc, time::Duration};

use mcp_client::{ClientBuilder, ConnectorSettings, Handler, IntoConnector, Propagate, Reconnect, transport::Connect};
use mcp_protocol::{ClientCapabilities, Implementation};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

use super::{
    FileFaults, Host, Inner, LastToolset, ServerError, StartError, Wire,
    definition::unusable,
    error::check_name,
    logins::Logins,
    watching::{self, Source as ConfigSource},
};
use crate::{
    DefinitionError, Lists, ServerOptions, ServerState,
    config::{Approvals, ConfigError, ConfigFile, ConfigWatch, ServerDefinition},
    pins::PinStore,
    policy::Gate,
    registry::{Manifest, Registry, Settings, Slot},
    routing::{Rests, Shared},
    search::Deferral,
};

/// Builds a [`Host`].
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use mcp_server::{Server, tool};
/// # let weather = Server::builder("weather", "1").tool(tool("forecast", async || "rain")).build();
/// use std::time::Duration;
///
/// use mcp_agent::{Host, ServerOptions};
/// use mcp_client::Reconnect;
///
/// let host = Host::builder("my-app", "1.0")
///     .server_with("weather", &weather, ServerOptions::new().required())
///     .start_limit(Duration::from_secs(15))
///     .call_timeout(Duration::from_secs(120))
///     .idle_stop(Duration::from_secs(600))
///     .reconnect(Reconnect::default())
///     .max_text(50_000)
///     .start()
///     .await?;
/// assert_eq!(host.statuses().len(), 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until it starts the host"]
pub struct HostBuilder {
    settings: Settings,
    servers: Vec<NewServer>,
    approvals: Option<Approvals>,
    gate: Gate,
    deferral: Deferral,
    wire: Wire,
    logins: Logins,
    configs: Vec<ConfigWatch>,
    watch: Option<Duration>,
    error: Option<StartError>,
}

struct NewServer {
    name: String,
    source: Source,
}

enum Source {
    Connector(Arc<dyn Connect>, Box<ServerOptions>),
    Definition(Box<ServerDefinition>),
    /// An entry of a configuration file with a fault.
    Faulty(Box<ConfigError>),
}

impl NewServer {
    /// Returns the failed server of an entry with a fault.
    fn faulty((name, error): (&str, &ConfigError)) -> Self {
        Self { name: name.to_owned(), source: Source::Faulty(Box::new(error.clone())) }
    }
}

impl HostBuilder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            settings: Settings::new(Implementation::new(name, version)),
            servers: Vec::new(),
            approvals: None,
            gate: Gate::new(),
            deferral: Deferral::new(),
            wire: Wire::default(),
            logins: Logins::default(),
            configs: Vec::new(),
            watch: None,
            error: None,
        }
    }

    /// Adds a server: a URL, a [`ChildProcess`](mcp_client::ChildProcess), or a server in the same program.
    ///
    /// See the [example](Self#example).
    pub fn server<M>(self, name: impl Into<String>, target: impl IntoConnector<M>) -> Self {
        self.server_with(name, target, ServerOptions::new())
    }

    /// Adds a server with options.
    ///
    /// See the [example](Self#example).
    pub fn server_with<M>(
        mut self,
        name: impl Into<String>,
        target: impl IntoConnector<M>,
        options: ServerOptions,
    ) -> Self {
        let name = name.into();
        match target.into_connector(&ConnectorSettings::default()) {
            Ok(connector) => {
                self.servers.push(NewServer { name, source: Source::Connector(connector, Box::new(options)) })
            }
            Err(error) => {
                let fault = error.to_string();
                self.error.get_or_insert(ServerError::from(DefinitionError { server: name, fault }).into());
            }
        }
        self
    }

    /// Adds the server of a definition. A disabled server is left out. A server of a discovered project file waits for
    /// [`Host::approve`], unless the user has approved its definition ([`HostBuilder::approvals`]).
    ///
    /// If the definition is invalid, the server has the state [`ServerState::Failed`], unless the definition is required. The
    /// other servers start.
    pub fn definition(mut self, definition: &ServerDefinition) -> Self {
        if !definition.enabled {
            return self;
        }
        let source = Source::Definition(Box::new(definition.clone()));
        self.servers.push(NewServer { name: definition.name.clone(), source });
        self
    }

    /// Adds the servers of a configuration file. An invalid entry has the state [`ServerState::Failed`] with its fault. If the
    /// entry is required, the host does not start.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::path::Path;
    ///
    /// use mcp_agent::{Host, StartError, config::{ConfigFile, Environment, Scope}};
    ///
    /// let text = r#"{ "mcpServers": { "git": { "command": 7, "x-mcp": { "required": true } } } }"#;
    /// let file = ConfigFile::parse(Path::new("/projects/demo/.mcp.json"), text, Scope::Named, &Environment::default())?;
    /// let error = Host::builder("my-app", "1.0").config_file(&file).start().await.unwrap_err();
    /// assert!(matches!(error, StartError::Config(error) if error.path == "$.mcpServers.git.command"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn config_file(mut self, file: &ConfigFile) -> Self {
        for error in &file.errors {
            tracing::warn!(%error, "a configuration file has a fault");
        }
        if let Some(error) = file.errors.iter().find(|error| error.required) {
            self.error.get_or_insert(error.clone().into());
        }
        self.servers.extend(file.unusable().map(NewServer::faulty));
        file.servers.iter().fold(self, Self::definition)
    }

    /// Sets the stored approvals of the user. Servers with an approved definition start without [`Host::approve`]. The host also
    /// reads the approvals for definitions at run time ([`Host::add_definition`], [`Host::replace_definition`]).
    pub fn approvals(mut self, approvals: Approvals) -> Self {
        self.approvals = Some(approvals);
        self
    }

    /// Sets how long [`HostBuilder::start`] waits for servers. A server that needs longer joins later. Default: 15 seconds.
    ///
    /// See the [example](Self#example).
    pub fn start_limit(mut self, limit: Duration) -> Self {
        self.settings.start_limit = limit;
        self
    }

    /// Sets how long opening a connection may take before the server has failed. Default: 5 minutes.
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.settings.connect_limit = limit;
        self
    }

    /// Sets how long a call waits for a server that starts, and for a connection that is in use. Default: 60 seconds.
    pub fn call_wait(mut self, limit: Duration) -> Self {
        self.settings.call_wait = limit;
        self
    }

    /// Sets how long reading the lists of a server may take. The items before that time stay. Default: 30 seconds.
    pub fn list_limit(mut self, limit: Duration) -> Self {
        self.settings.list_limit = limit;
        self
    }

    /// Sets the time limit of each call. The default is that of the client: 60 seconds without progress, 10 minutes in total.
    ///
    /// See the [example](Self#example).
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.settings.call_timeout = Some(limit);
        self
    }

    /// Sets the idle time after which the host stops a server. The next call starts it again. Default: servers keep running.
    ///
    /// See the [example](Self#example).
    pub fn idle_stop(mut self, after: Duration) -> Self {
        self.settings.idle_stop = Some(after);
        self
    }

    /// Sets how often, and after which waits, the host starts a failed server again.
    ///
    /// See the [example](Self#example).
    pub fn reconnect(mut self, policy: Reconnect) -> Self {
        self.settings.reconnect = policy;
        self
    }

    /// Sets the largest text of a result, in bytes. The rest is a resource of the host. Default: 100,000.
    ///
    /// See the [example](Self#example).
    pub fn max_text(mut self, bytes: usize) -> Self {
        self.settings.max_text = bytes;
        self
    }

    /// Sets the lists of each server that the host reads at the start and after changes. Default: all lists.
    ///
    /// A host without [`Lists::All`] sends fewer requests, and its servers are ready sooner.
    pub fn lists(mut self, lists: Lists) -> Self {
        self.settings.lists = lists;
        self
    }

    /// Changes the settings of the client of each server: time limits, the revision of the protocol, handlers. The function
    /// receives the name of the server, and the builder with the settings of the host. The closures of the builder take
    /// precedence over [`HostBuilder::handlers`].
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_agent::Host;
    ///
    /// let builder = Host::builder("my-app", "1.0").clients(|server, client| match server {
    ///     "slow" => client.idle_timeout(Duration::from_secs(300)),
    ///     _ => client,
    /// });
    /// ```
    pub fn clients(mut self, change: impl Fn(&str, ClientBuilder) -> ClientBuilder + Send + Sync + 'static) -> Self {
        self.settings.client_of = Some(Arc::new(change));
        self
    }

    /// Writes the spans of the host into its requests, so that the servers continue the trace.
    ///
    /// ```
    /// use mcp_agent::Host;
    /// use mcp_client::{Propagate, protocol::TraceContext};
    ///
    /// struct Bridge;
    ///
    /// impl Propagate for Bridge {
    ///     fn inject(&self, _span: &tracing::Span) -> Option<TraceContext> {
    ///         TraceContext::new("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
    ///     }
    /// }
    ///
    /// let builder = Host::builder("my-app", "1.0").propagate(Bridge);
    /// ```
    pub fn propagate(mut self, bridge: impl Propagate) -> Self {
        self.settings.bridge = Some(Arc::new(bridge));
        self
    }

    /// Sets the handlers for input requests that no call answers, by the name of the server. They declare the capabilities of
    /// the host.
    pub fn handlers(mut self, handler_of: impl Fn(&str) -> Arc<dyn Handler> + Send + Sync + 'static) -> Self {
        self.settings.handler_of = Some(Arc::new(handler_of));
        self
    }

    /// Declares the capabilities of the handlers of calls ([`HostCall::answers`](crate::HostCall::answers)). A session declares
    /// its capabilities once, before the first call.
    pub fn declare(mut self, capabilities: ClientCapabilities) -> Self {
        self.settings.declared = capabilities;
        self
    }

    /// Stores the items of all servers in a file. A later host reads them, so that it has a catalog before a server starts. Its
    /// servers start at their first call.
    pub fn manifest(mut self, path: impl Into<PathBuf>) -> Self {
        self.settings.manifest = Some(path.into());
        self
    }

    /// Starts all servers at the same time, and waits until each of them is ready or has failed, up to the start limit.
    ///
    /// A server that fails does not end the host, unless it is required. Needs a Tokio runtime. Dropping the future ends all
    /// servers.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`StartError`] if a name, a URL or a required definition is invalid, a required server did not start, or all servers failed.
    pub async fn start(self) -> Result<Host, StartError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let (mut servers, mut sources, faults) = (self.servers, Vec::new(), FileFaults::default());
        for mut watch in self.configs {
            let file = watch.next().await?;
            if let Some(error) = file.errors.iter().find(|error| error.required) {
                return Err(StartError::Config(error.clone()));
            }
            faults.set(&file.file, file.errors.iter().map(ToString::to_string).collect());
            let faulty = file.unusable().map(|(name, _)| name.to_owned()).collect();
            servers.extend(file.unusable().map(NewServer::faulty));
            servers.extend(file.servers.iter().filter(|server| server.enabled).map(|server| {
                let source = Source::Definition(Box::new(server.clone()));
                NewServer { name: server.name.clone(), source }
            }));
            sources.push(ConfigSource { watch, path: file.file, known: file.servers, faulty });
        }
        if let Some((PinStore::File(file), _)) = self.settings.pins.clone() {
            let read = spawn_blocking(move || file.load().map(|_| ()).map_err(Arc::new)).await;
            match read {
                Ok(read) => read?,
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                // The runtime has ended.
                Err(_) => {}
            }
        }
        let manifest = match self.settings.manifest.clone() {
            Some(path) => spawn_blocking(move || Manifest::read(path)).await.ok(),
            None => None,
        };
        let registry = Registry::new(self.settings, manifest);
        let shared = Arc::new(Shared { registry, rests: Rests::default(), gate: self.gate });
        let (approvals, deferral, wire, logins) = (self.approvals, self.deferral, self.wire, self.logins);
        let toolset = LastToolset::default();
        let host = Host::new(Inner { shared, approvals, deferral, toolset, wire, logins, faults });
        let registry = host.registry();
        let began = Instant::now();
        let mut started = Vec::new();
        if let Some(recording) = &host.inner.wire.recording {
            let is_named = |name: &String| servers.iter().any(|server| server.name == *name);
            let recorded: Vec<String> = recording.servers().into_iter().filter(|name| !is_named(name)).collect();
            servers.extend(recorded.into_iter().map(|name| {
                let connector: Arc<dyn Connect> = Arc::new(recording.connector(&*name));
                NewServer { name, source: Source::Connector(connector, Box::default()) }
            }));
        }
        for NewServer { name, source } in servers {
            let slot = match source {
                Source::Connector(connector, options) => {
                    check_name(&name)?;
                    let connector = host.inner.wire.connector(&name, connector);
                    let options = host.inner.wire.options(&name, *options);
                    Slot::new(&name, connector, options, None, &registry.closing)
                }
                Source::Definition(definition) => {
                    let is_approved = host.read_approval(&definition).await;
                    host.defined_slot(&definition, is_approved)?
                }
                Source::Faulty(error) => {
                    let fault = ServerError::from(DefinitionError { server: name.clone(), fault: error.to_string() });
                    Slot::new(&name, unusable(fault), ServerOptions::new(), None, &registry.closing)
                }
            };
            let is_stored = slot.restore(registry);
            if !registry.insert(&slot) {
                return Err(ServerError::Taken { name }.into());
            }
            started.push((slot, is_stored));
        }
        for (slot, is_stored) in &started {
            if *is_stored {
                slot.review(registry).await;
            }
        }
        registry.rebuild();
        for (slot, is_stored) in &started {
            slot.run(registry, !is_stored || slot.options.is_required);
        }
        for (slot, _) in &started {
            let limit = slot.options.start_limit.unwrap_or(registry.settings.start_limit);
            // After the limit the server continues to start.
            let _ = timeout_at(began + limit, slot.settled()).await;
        }
        match check(&host, &started) {
            Ok(()) => {
                if let Some(every) = self.watch {
                    watching::follow(&host, sources, every);
                }
                Ok(host)
            }
            Err(error) => {
                host.shutdown().await;
                Err(error)
            }
        }
    }
}

impl Host {
    /// Returns the server of a definition. If the definition is invalid and not required, its server fails.
    fn defined_slot(&self, definition: &ServerDefinition, is_approved: bool) -> Result<Arc<Slot>, ServerError> {
        match self.defined(definition, is_approved) {
            Ok(server) => Ok(self.slot(definition, server)),
            Err(error) if definition.required => Err(error),
            Err(error) => {
                let closing = &self.registry().closing;
                Ok(Slot::new(&definition.name, unusable(error), ServerOptions::new(), None, closing))
            }
        }
    }
}

/// Checks the required servers, and that some server did not fail.
fn check(host: &Host, started: &[(Arc<Slot>, bool)]) -> Result<(), StartError> {
    let statuses = host.statuses();
    let is_ready = |state| matches!(state, ServerState::Ready | ServerState::Degraded);
    let missing: Vec<_> =
        statuses.iter().filter(|status| status.is_required && !is_ready(status.state)).cloned().collect();
    if !missing.is_empty() {
        return Err(StartError::Required { servers: missing });
    }
    if !started.is_empty() && statuses.iter().all(|status| status.state == ServerState::Failed) {
        return Err(StartError::AllFailed { servers: statuses });
    }
    Ok(())
}

impl std::fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.servers.iter().map(|server| &*server.name).collect();
        f.debug_struct("HostBuilder").field("servers", &names).finish_non_exhaustive()
    }
}
