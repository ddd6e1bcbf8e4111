//! The builder of a host.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mcp_client::{ConnectorSettings, Handler, IntoConnector, Reconnect, transport::Connect};
use mcp_protocol::{ClientCapabilities, Implementation};
use tokio::time::{Instant, timeout_at};

use super::{
    Host, Inner, ServerError, StartError,
    definition::{DefinedServer, unusable},
    error::check_name,
};
use crate::{
    DefinitionError, ServerOptions, ServerState,
    config::{Approvals, ConfigFile, ServerDefinition},
    policy::{Approver, AuditSink, Effect, Gate, Policy, PolicyFile, PolicyHook},
    registry::{Registry, Settings, Slot},
    routing::{Rests, Shared},
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
    error: Option<StartError>,
}

struct NewServer {
    name: String,
    source: Source,
}

enum Source {
    Connector(Arc<dyn Connect>, Box<ServerOptions>),
    Definition(Box<ServerDefinition>),
    Invalid(DefinitionError),
}

impl HostBuilder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            settings: Settings::new(Implementation::new(name, version)),
            servers: Vec::new(),
            approvals: None,
            gate: Gate::new(),
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
            match &error.server {
                Some(_) if error.required => _ = self.error.get_or_insert(error.clone().into()),
                Some(name) => {
                    let (name, fault) = (name.clone(), error.to_string());
                    let fault = DefinitionError { server: name.clone(), fault };
                    self.servers.push(NewServer { name, source: Source::Invalid(fault) });
                }
                None => tracing::warn!(%error, "a configuration file has a fault"),
            }
        }
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

    /// Adds a policy, after the other policies and hooks. The policies decide each call, each read of a resource and each prompt
    /// before its arguments leave the host.
    ///
    /// The order is: the policies and hooks in the order of the builder, then the rules of the server
    /// ([`ServerOptions::rule`], and the lists of its definition), then the default effect.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use mcp_server::{Server, tool};
    /// # let git = Server::builder("git", "1").tool(tool("push", async || "pushed")).tool(tool("log", async || "none")).build();
    /// use mcp_agent::{
    ///     CallError, Host,
    ///     policy::{AuditEvent, PendingApproval, Policy},
    /// };
    ///
    /// let policy = Policy::parse("policy.toml", "[[rule]]\ntool = \"push*\"\neffect = \"ask\"\n")?;
    /// let host = Host::builder("my-app", "1.0")
    ///     .server("git", &git)
    ///     .policy(policy)
    ///     .approver(|call: PendingApproval| async move { call.input.arguments.is_empty() })
    ///     .audit(|event: &AuditEvent| println!("{} {:?}", event.tool, event.outcome))
    ///     .start()
    ///     .await?;
    /// assert_eq!(host.call("git:push", ()).await?.text(), "pushed");
    /// let refused = host.call("git:push", serde_json::json!({ "force": true })).await.unwrap_err();
    /// assert!(matches!(refused, CallError::Refused(_)));
    /// assert_eq!(host.call("git:log", ()).await?.text(), "none");
    /// # Ok(())
    /// # }
    /// ```
    pub fn policy(mut self, policy: Policy) -> Self {
        self.gate = self.gate.policy(policy);
        self
    }

    /// Adds the policy of a file, after the other policies and hooks. The host fails to start if the file is missing or invalid.
    /// The function blocks the thread for the time of the read.
    pub fn policy_file(mut self, path: impl AsRef<Path>) -> Self {
        match PolicyFile::load(path) {
            Ok(file) => self.gate = self.gate.policy_file(file),
            Err(error) => _ = self.error.get_or_insert(error.into()),
        }
        self
    }

    /// Adds a hook that decides calls in code, after the other policies and hooks.
    pub fn policy_hook(mut self, hook: impl PolicyHook) -> Self {
        self.gate = self.gate.hook(hook);
        self
    }

    /// Sets the effect for calls that no policy, no hook and no rule of the server decides. Default: allow.
    pub fn default_effect(mut self, effect: Effect) -> Self {
        self.gate = self.gate.default_effect(effect);
        self
    }

    /// Sets the approver for calls with the effect `ask`. Without one, the host refuses these calls.
    pub fn approver(mut self, approver: impl Approver) -> Self {
        self.gate = self.gate.approver(approver);
        self
    }

    /// Sets the receiver of audit events: one for each decision.
    pub fn audit(mut self, sink: impl AuditSink) -> Self {
        self.gate = self.gate.audit(sink);
        self
    }

    /// Replaces all policies, hooks, limits, the approver and the receiver of audit events by those of a gate. The host and the
    /// clones of the gate share the open questions.
    pub fn gate(mut self, gate: Gate) -> Self {
        self.gate = gate;
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
        let registry = Registry::new(self.settings);
        let shared = Arc::new(Shared { registry, rests: Rests::default(), gate: self.gate });
        let host = Host { inner: Arc::new(Inner { shared, approvals: self.approvals }), caller: Arc::default() };
        let registry = host.registry();
        let began = Instant::now();
        let mut started = Vec::new();
        for NewServer { name, source } in self.servers {
            let slot = match source {
                Source::Connector(connector, options) => {
                    check_name(&name)?;
                    Slot::new(&name, connector, *options, None, &registry.closing)
                }
                Source::Definition(definition) => host.defined(&definition)?,
                Source::Invalid(fault) => {
                    Slot::new(&name, unusable(fault.into()), ServerOptions::new(), None, &registry.closing)
                }
            };
            let is_stored = slot.restore(registry);
            if !registry.insert(&slot) {
                return Err(ServerError::Taken { name }.into());
            }
            started.push((slot, is_stored));
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
            Ok(()) => Ok(host),
            Err(error) => {
                host.shutdown().await;
                Err(error)
            }
        }
    }
}

impl Host {
    /// Returns the server of a definition. If the definition is invalid and not required, its server fails.
    fn defined(&self, definition: &ServerDefinition) -> Result<Arc<Slot>, ServerError> {
        match DefinedServer::new(definition, self.inner.approvals.as_ref()) {
            Ok(server) => Ok(self.slot(&definition.name, server)),
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
