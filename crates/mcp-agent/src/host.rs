//! The host: many servers, one catalog, and calls that find their server.

mod builder;
mod changes;
mod definition;
mod error;
mod items;
mod logins;
mod signals;
mod toolset;
mod watching;
mod wire;

use std::{fmt, sync::Arc};

use mcp_client::{http::Authorizer, transport::Connect};
use serde::Serialize;
use tokio::task::spawn_blocking;
use tokio_util::sync::DropGuard;

pub use self::{
    builder::HostBuilder,
    changes::CatalogChanges,
    definition::{DefinitionError, connector},
    error::{AcceptError, ServerError, StartError},
    toolset::{FoundTool, Toolset},
};
#[cfg(feature = "oauth")]
pub use self::{
    definition::connector_with_oauth,
    logins::{oauth_settings, token_exchange_authorizer},
};
use self::{
    definition::{ConnectorOfCaller, DefinedServer},
    logins::Logins,
    toolset::LastToolset,
    watching::FileFaults,
    wire::Wire,
};
use crate::{
    CallError, Caller, HostCall, ServerOptions, ServerState, ServerStatus, StatusEvents,
    catalog::Catalog,
    config::{Approvals, ServerDefinition},
    policy::{PendingApproval, PolicyInput},
    registry::{Registry, Slot},
    routing::Shared,
    search::Deferral,
};

/// A host: many servers, one catalog, and calls that find their server.
///
/// Clones are cheap and share the servers. The drop of the last clone ends all servers. [`Host::shutdown`] also waits until
/// their processes have ended.
///
/// # Example
/// ```
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use mcp_agent::Host;
///
/// # let weather = Server::builder("weather", "1").tool(tool("forecast", async || "rain")).build();
/// # let clock = Server::builder("clock", "1").tool(tool("now", async || "12:00")).build();
/// let host = Host::builder("my-app", "1.0").server("weather", &weather).server("clock", &clock).start().await?;
/// for tool in host.catalog().tools() {
///     println!("{}", tool.display_name());
/// }
/// assert_eq!(host.call("weather:forecast", ()).await?.text(), "rain");
/// assert_eq!(host.call("clock__now", ()).await?.text(), "12:00");
/// host.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
    caller: Arc<Caller>,
    /// Ends all servers when the last clone of the host is dropped. Tasks of the host itself have none.
    _guard: Option<Arc<DropGuard>>,
}

struct Inner {
    shared: Arc<Shared>,
    approvals: Option<Approvals>,
    deferral: Deferral,
    toolset: LastToolset,
    wire: Wire,
    logins: Logins,
    faults: FileFaults,
}

impl Host {
    /// Returns a builder. Servers receive the name and version of the application.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> HostBuilder {
        HostBuilder::new(name.into(), version.into())
    }

    fn new(inner: Inner) -> Self {
        let guard = inner.shared.registry.closing.clone().drop_guard();
        Self { inner: Arc::new(inner), caller: Arc::default(), _guard: Some(Arc::new(guard)) }
    }

    /// Returns a host for a task of the host itself. It does not keep the servers running.
    pub(crate) fn without_guard(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), caller: Arc::default(), _guard: None }
    }

    /// Returns the faults of the last readings of configuration files ([`HostBuilder::config`]) and of watched files
    /// ([`HostBuilder::watch`]). The host uses the last valid reading.
    #[must_use]
    pub fn file_faults(&self) -> Vec<String> {
        self.inner.faults.all()
    }

    /// Returns the name and the version of the application.
    #[cfg(feature = "gateway")]
    pub(crate) fn application(&self) -> &mcp_client::protocol::Implementation {
        &self.registry().settings.info
    }

    /// Returns the parts of the host that requests need.
    #[cfg(feature = "gateway")]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    fn registry(&self) -> &Arc<Registry> {
        &self.inner.shared.registry
    }

    /// Returns the current snapshot of the catalog.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.registry().catalog()
    }

    /// Returns the changes of the catalog.
    #[must_use]
    pub fn catalog_changes(&self) -> CatalogChanges {
        CatalogChanges::new(self.registry().catalogs(), self.registry().closing.clone())
    }

    /// Returns the status of each server, in the order of their registration.
    #[must_use]
    pub fn statuses(&self) -> Vec<ServerStatus> {
        self.registry().statuses_now()
    }

    /// Returns the status of a server; `None` if the host has no such server.
    #[must_use]
    pub fn status(&self, server: &str) -> Option<ServerStatus> {
        self.statuses().into_iter().find(|status| &*status.name == server)
    }

    /// Returns the error of the last attempt to start a server, or of the request for its tools. `None` if both succeeded, or if
    /// the host has no such server.
    ///
    /// ```
    /// # fn example(host: &mcp_agent::Host) {
    /// if let Some(error) = host.start_error("search") {
    ///     println!("search: {error}; another attempt is useful: {}", error.is_retryable());
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn start_error(&self, server: &str) -> Option<mcp_client::Error> {
        self.registry().slot(server)?.error()
    }

    /// Returns the stream of the changes of all servers.
    #[must_use]
    pub fn status_events(&self) -> StatusEvents {
        self.registry().statuses.events()
    }

    /// Calls a tool by its display name (`server:tool`) or its provider name. `arguments` serializes to a JSON object; `()` means
    /// no arguments.
    ///
    /// The host validates the arguments by the schema of the tool, and removes each `null` that the schema rejects. A server
    /// that does not run starts first. The text of the result has at most 100,000 bytes ([`HostBuilder::max_text`]), and the
    /// rest is a resource of the host.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// See [`CallError`]. A failed tool is not an error of the call: its result has `is_error`.
    pub fn call(&self, name: impl Into<String>, arguments: impl Serialize) -> HostCall {
        HostCall::new(&self.inner.shared, &self.caller, name.into(), &arguments)
    }

    /// Returns this host for a caller: its calls use the connections of the caller. It shares the servers and the catalog with
    /// this host.
    ///
    /// Callers share a connection to a server if their principals and their declared capabilities are equal, and the options of
    /// the server permit it ([`Sharing`](crate::Sharing)). The connection that lists the items serves the first callers without
    /// capabilities of their own. Other connections end when they are idle: after 5 minutes, or after the idle time of the server.
    /// Connections of sessions have no default idle time ([`Host::disconnect`] ends them).
    ///
    /// ```
    /// # use mcp_server::{Server, tool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let weather = Server::builder("weather", "1").tool(tool("forecast", async || "rain")).build();
    /// use mcp_agent::{Caller, Host};
    ///
    /// let host = Host::builder("my-gateway", "1.0").server("weather", &weather).start().await?;
    /// let of_ada = host.for_caller(Caller::new().principal("ada"));
    /// assert_eq!(of_ada.call("weather:forecast", ()).await?.text(), "rain");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn for_caller(&self, caller: Caller) -> Self {
        Self { caller: Arc::new(caller), ..self.clone() }
    }

    /// Ends the connections of the principal of a caller, and waits until their processes have ended. If the caller has a session,
    /// only the connections of that session end. The connection that lists the items stays.
    pub async fn disconnect(&self, caller: &Caller) {
        for slot in self.registry().slots() {
            slot.disconnect(caller).await;
        }
    }

    /// Decides a call by the policies and the rules of its server, without a call. Waits for an approval if the effect is `ask`.
    ///
    /// # Errors
    /// [`CallError::Refused`] if the call must not run. [`CallError::UnknownServer`] if the host has no such server.
    pub async fn decide(&self, input: &PolicyInput) -> Result<(), CallError> {
        let slot =
            self.registry().slot(&input.server).ok_or_else(|| self.inner.shared.unknown_server(&input.server))?;
        self.inner.shared.permit_item(&slot, input).await.map(drop)
    }

    /// Returns the calls that wait for an approval, the oldest first.
    #[must_use]
    pub fn pending_approvals(&self) -> Vec<PendingApproval> {
        self.inner.shared.gate.pending()
    }

    /// Pins the current definition of a tool, which a person accepted, by its display name or its provider name.
    ///
    /// ```
    /// # use mcp_server::{Server, tool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let files = Server::builder("files", "1").tool(tool("read", async || "text")).build();
    /// use mcp_agent::{
    ///     Host,
    ///     pins::{FirstUse, PinRules, Pins},
    /// };
    ///
    /// let rules = PinRules::new().first_use(FirstUse::Ask);
    /// let host = Host::builder("my-app", "1.0").server("files", &files).pins(Pins::new(), rules).start().await?;
    /// assert!(host.call("files:read", ()).await.is_err());
    /// let unaccepted: Vec<_> = host.catalog().unaccepted().cloned().collect();
    /// for tool in unaccepted {
    ///     // The application shows the definition to a person here.
    ///     host.accept_definition(tool.display_name()).await?;
    /// }
    /// assert_eq!(host.call("files:read", ()).await?.text(), "text");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AcceptError`] if the catalog has no such tool, or the pins cannot be stored or read again.
    pub async fn accept_definition(&self, name: &str) -> Result<(), AcceptError> {
        let tool = Arc::clone(self.catalog().tool(name)?);
        let removed = || AcceptError::Removed { server: tool.server().to_owned() };
        let slot = self.registry().slot(tool.server()).ok_or_else(removed)?;
        match self.inner.shared.accept(&slot, &tool).await {
            Ok(None) => Ok(()),
            Ok(Some(fault)) => Err(AcceptError::NotCompared { fault }),
            Err(fault) => Err(AcceptError::NotStored { fault }),
        }
    }

    /// Adds a server after the others, and starts it. Does not wait for the start.
    ///
    /// # Errors
    /// [`ServerError`] if the name is invalid, or another server has it.
    pub fn add(&self, name: &str, connector: Arc<dyn Connect>, options: ServerOptions) -> Result<(), ServerError> {
        error::check_name(name)?;
        let (connector, options) = (self.inner.wire.connector(name, connector), self.inner.wire.options(name, options));
        self.insert(&Slot::new(name, connector, options, None, &self.registry().closing))
    }

    /// Adds the server of a definition after the others, and starts it. Does not wait for the start. A server of a discovered
    /// project file waits for [`Host::approve`], unless the user has approved its definition ([`HostBuilder::approvals`]). For
    /// such a server, the function blocks the thread while it reads the approvals.
    ///
    /// # Errors
    /// [`ServerError`] if the definition is invalid or disabled, or another server has its name.
    pub fn add_definition(&self, definition: &ServerDefinition) -> Result<(), ServerError> {
        self.insert_defined(definition, || self.defined(definition, self.is_approved(definition)))
    }

    /// Adds the server of a definition as [`Host::add_definition`] does, without a read on this thread.
    async fn add_watched(&self, definition: &ServerDefinition) -> Result<(), ServerError> {
        let is_approved = self.read_approval(definition).await;
        self.insert_defined(definition, || self.defined(definition, is_approved))
    }

    /// Returns whether the user has approved the definition. The function blocks the thread for the time of the read.
    fn is_approved(&self, definition: &ServerDefinition) -> bool {
        self.inner.approvals.as_ref().is_some_and(|approvals| definition::is_approved(approvals, definition))
    }

    /// Returns whether the user has approved the definition. A blocking thread reads the file.
    async fn read_approval(&self, definition: &ServerDefinition) -> bool {
        let Some(approvals) = self.inner.approvals.clone() else { return false };
        let definition = definition.clone();
        // A task without a result was cancelled by the end of the runtime.
        spawn_blocking(move || definition::is_approved(&approvals, &definition)).await.unwrap_or(false)
    }

    /// Adds the server of a definition as [`Host::add_definition`] does, with a connector of the application, for example an
    /// HTTP endpoint with an authorizer.
    ///
    /// ```
    /// # fn example(host: mcp_agent::Host) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    ///
    /// use mcp_agent::config::ServerDefinition;
    /// use mcp_client::http::Http;
    ///
    /// let definition = ServerDefinition::http("search", "https://search.example/mcp");
    /// let connector = Http::new("https://search.example/mcp")?.allow_host("login.internal")?;
    /// host.add_definition_with(&definition, Arc::new(connector))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ServerError`] if the definition is invalid or disabled, or another server has its name.
    pub fn add_definition_with(
        &self,
        definition: &ServerDefinition,
        connector: Arc<dyn Connect>,
    ) -> Result<(), ServerError> {
        let server = || DefinedServer::with(definition, connector, None, self.is_approved(definition));
        self.insert_defined(definition, server)
    }

    /// Adds the server of a definition as [`Host::add_definition_with`] does, with connectors of the application for callers too.
    ///
    /// `of_caller` returns the connector of a caller of a server with a [token exchange](crate::config::TokenExchange), for the
    /// authorizer with the token of this caller. The connector must not send other credentials.
    ///
    /// ```
    /// # fn example(host: mcp_agent::Host) -> Result<(), Box<dyn std::error::Error>> {
    /// use std::sync::Arc;
    ///
    /// use mcp_agent::config::ServerDefinition;
    /// use mcp_client::http::Http;
    ///
    /// let definition = ServerDefinition::http("search", "https://search.example/mcp");
    /// let endpoint = Http::new("https://search.example/mcp")?.header("x-tenant", "7")?;
    /// let of_hosts = Arc::new(endpoint.clone());
    /// host.add_definition_with_connectors(&definition, of_hosts, move |own| Arc::new(endpoint.clone().authorizer(own)))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ServerError`] if the definition is invalid or disabled, or another server has its name.
    pub fn add_definition_with_connectors(
        &self,
        definition: &ServerDefinition,
        connector: Arc<dyn Connect>,
        of_caller: impl Fn(Arc<dyn Authorizer>) -> Arc<dyn Connect> + Send + Sync + 'static,
    ) -> Result<(), ServerError> {
        let of_caller = Some(Box::new(of_caller) as ConnectorOfCaller);
        let server = || DefinedServer::with(definition, connector, of_caller, self.is_approved(definition));
        self.insert_defined(definition, server)
    }

    /// Returns the server of a definition, with the login of the host.
    fn defined(&self, definition: &ServerDefinition, is_approved: bool) -> Result<DefinedServer, ServerError> {
        DefinedServer::new(definition, &self.inner.logins, is_approved)
    }

    fn insert_defined(
        &self,
        definition: &ServerDefinition,
        server: impl FnOnce() -> Result<DefinedServer, ServerError>,
    ) -> Result<(), ServerError> {
        if !definition.enabled {
            return Err(ServerError::Disabled { name: definition.name.clone() });
        }
        self.insert(&self.slot(definition, server()?))
    }

    fn slot(&self, definition: &ServerDefinition, server: DefinedServer) -> Arc<Slot> {
        let (name, DefinedServer { connector, options, fingerprint }) = (&definition.name, server);
        self.inner.wire.hide_secrets(definition);
        let connector = self.inner.wire.connector(name, connector);
        Slot::new(name, connector, options, Some(&fingerprint), &self.registry().closing)
    }

    fn insert(&self, slot: &Arc<Slot>) -> Result<(), ServerError> {
        let registry = self.registry();
        if !registry.insert(slot) {
            return Err(ServerError::Taken { name: slot.name.to_string() });
        }
        registry.rebuild();
        slot.run(registry, true);
        Ok(())
    }

    /// Starts another server with the name and the place of an existing one, waits until it is ready, and then ends the former
    /// server. If the new server does not start within the start limit, the former one stays.
    ///
    /// # Errors
    /// [`ServerError`] if the host has no such server, or if the new server did not start.
    pub async fn replace(
        &self,
        name: &str,
        connector: Arc<dyn Connect>,
        options: ServerOptions,
    ) -> Result<(), ServerError> {
        let (connector, options) = (self.inner.wire.connector(name, connector), self.inner.wire.options(name, options));
        self.exchange(&Slot::new(name, connector, options, None, &self.registry().closing)).await
    }

    /// Replaces a server by the server of its changed definition, with the filters and limits of the definition.
    ///
    /// - A server of a discovered project file needs the approval of the changed definition. Without it, the former server ends,
    ///   and the new one waits for [`Host::approve`] in its place.
    /// - A disabled definition removes the server.
    /// - Otherwise the new server starts first, as with [`Host::replace`].
    ///
    /// ```
    /// # async fn example(host: mcp_agent::Host) -> Result<(), Box<dyn std::error::Error>> {
    /// use mcp_agent::config::{ConfigDiff, ConfigWatch, Environment, Scope};
    ///
    /// let mut watch = ConfigWatch::new("/projects/demo/.mcp.json", Scope::Project, Environment::of_process());
    /// let mut known = Vec::new();
    /// while let Ok(file) = watch.next().await {
    ///     let changes = ConfigDiff::between(&known, &file.servers);
    ///     for definition in &file.servers {
    ///         let is_changed = changes.changed.contains(&definition.name);
    ///         if is_changed && host.status(&definition.name).is_some() {
    ///             host.replace_definition(definition).await?;
    ///         } else if definition.enabled && (is_changed || changes.added.contains(&definition.name)) {
    ///             host.add_definition(definition)?;
    ///         }
    ///     }
    ///     for name in &changes.removed {
    ///         host.remove(name).await;
    ///     }
    ///     known = file.servers;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ServerError`] if the definition is invalid, the host has no such server, or the new server did not start. The former
    /// server then stays.
    pub async fn replace_definition(&self, definition: &ServerDefinition) -> Result<(), ServerError> {
        let name = &definition.name;
        if !definition.enabled {
            let is_removed = self.remove(name).await;
            return if is_removed { Ok(()) } else { Err(ServerError::Unknown { name: name.clone() }) };
        }
        let is_approved = self.read_approval(definition).await;
        let slot = self.slot(definition, self.defined(definition, is_approved)?);
        if !slot.options.needs_approval {
            return self.exchange(&slot).await;
        }
        let former = self.registry().exchange(&slot).ok_or_else(|| ServerError::Unknown { name: name.clone() })?;
        slot.run(self.registry(), true);
        former.end().await;
        Ok(())
    }

    async fn exchange(&self, slot: &Arc<Slot>) -> Result<(), ServerError> {
        let registry = self.registry();
        let name = slot.name.to_string();
        let Some(former) = registry.slot(&name) else { return Err(ServerError::Unknown { name }) };
        let limit = slot.options.start_limit.unwrap_or(registry.settings.start_limit);
        // The guard ends the new server if the caller does not wait any more.
        let guard = slot.stop.clone().drop_guard();
        // The items of the former server decide the order.
        slot.inherit(&former);
        slot.run(registry, true);
        if let Err(cause) = slot.client_within(limit).await {
            slot.end().await;
            return Err(ServerError::NotReady { name, state: cause.state, reason: cause.reason });
        }
        let Some(former) = registry.exchange(slot) else {
            slot.end().await;
            return Err(ServerError::Unknown { name });
        };
        guard.disarm();
        former.end().await;
        Ok(())
    }

    /// Removes a server and its items, and waits until its process has ended. Returns false if the host has no such server.
    pub async fn remove(&self, name: &str) -> bool {
        let Some(slot) = self.registry().take(name) else { return false };
        slot.end().await;
        true
    }

    /// Approves the definition of a server that waits for an approval, and starts the server. The approval is for the definition
    /// that a person saw: a watched file can meanwhile give the server another one ([`HostBuilder::watch`]).
    ///
    /// ```
    /// # fn example(host: &mcp_agent::Host, shown: &mcp_agent::config::ServerDefinition) {
    /// match host.approve_definition(shown) {
    ///     Ok(()) => println!("{} starts", shown.name),
    ///     Err(error) => println!("{error}"),
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ServerError::Unknown`] if the host has no such server. [`ServerError::OtherDefinition`] if the server has another
    /// definition now, and then the server does not start.
    pub fn approve_definition(&self, definition: &ServerDefinition) -> Result<(), ServerError> {
        let name = || definition.name.clone();
        let slot = self.registry().slot(&definition.name).ok_or_else(|| ServerError::Unknown { name: name() })?;
        if slot.options.origin.as_deref() != definition.origin.as_ref() {
            return Err(ServerError::OtherDefinition { name: name() });
        }
        slot.approve(self.registry());
        Ok(())
    }

    /// Approves a server that waits for an approval, and starts it. Returns false if the host has no such server. If the host
    /// watches its files, use [`Host::approve_definition`], because the definition can change before the approval.
    pub fn approve(&self, name: &str) -> bool {
        let Some(slot) = self.registry().slot(name) else { return false };
        slot.approve(self.registry());
        true
    }

    /// Starts a server that does not run, for example after a login. Returns false if the host has no such server.
    pub fn restart(&self, name: &str) -> bool {
        let Some(slot) = self.registry().slot(name) else { return false };
        if slot.state() != ServerState::Ready {
            slot.wake();
        }
        true
    }

    /// Ends all servers, and waits until their processes have ended. Later calls fail. A renewal of tokens that runs may take 30
    /// seconds more, so that no refresh token is lost.
    pub async fn shutdown(&self) {
        let registry = self.registry();
        let renewals = self.inner.logins.renewals();
        registry.closing.cancel();
        for slot in registry.slots() {
            slot.end().await;
        }
        renewals.finish().await;
        registry.store().await;
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").field("catalog", &self.catalog()).finish_non_exhaustive()
    }
}
