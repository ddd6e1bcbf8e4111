//! A server for the tools, resources and prompts of all servers of a host (feature `gateway`).
//!
//! A gateway is one server in front of many. Its clients can speak any revision, and its servers too. The client half of the host
//! treats the servers, and [`mcp_server_core`] treats the clients.

mod announce;
mod asked;
mod caller;
mod candidates;
mod definition;
mod fault;
mod fleet;
mod hops;
mod instructions;
mod item;
mod links;
mod members;
mod merged;
mod names;
mod pages;
mod parked;
mod process;
mod questions;
mod reach;
mod relay;
mod rounds;
mod seal;
mod sessions;
mod source;
mod subscriptions;
mod task_form;
mod task_list;
mod task_notices;
mod task_policy;
mod task_questions;
mod task_subscriptions;
mod tasks;
mod uris;
mod used;
mod views;

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_protocol::RpcError;
use mcp_server_core::{
    Server, ServerBuilder, StateKeys,
    engine::{Engine as _, HandlerGuard},
    source::SourceCall,
};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Semaphore;

use self::{
    announce::Announcer,
    asked::ParkedResult,
    hops::HopId,
    instructions::Instructions,
    links::Links,
    merged::Merged,
    pages::Pages,
    parked::{ParkedCalls, ParkedLimits},
    seal::Seals,
    sessions::Sessions,
    source::Relays,
    subscriptions::Subscriptions,
    task_notices::TaskNotices,
    task_policy::TaskTools,
    task_questions::TaskQuestions,
    task_subscriptions::TaskFollowers,
    used::UsedStates,
};
pub use self::{
    item::{DroppedItem, InvalidItem, ItemKind},
    names::{Names, UnknownNames},
};
use crate::{Catalog, Host};

/// A gateway: one server for the tools, resources and prompts of all servers of a [`Host`].
///
/// The value observes the gateway while its server runs. [`Gateway::builder`] begins a gateway, and [`Host::into_server`] is the
/// short form.
///
/// # Example
/// ```
/// # use mcp_server::tool;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let weather = mcp_server::Server::builder("weather", "1").tool(tool("forecast", async || "rain")).build();
/// use mcp_agent::{Gateway, Host, Names};
///
/// let host = Host::builder("my-gateway", "1.0").server("weather", &weather).start().await?;
/// let gateway = Gateway::builder(host).names(Names::Raw).strict(true);
/// let observed = gateway.gateway();
/// let server = gateway.build()?.limits(|limits| limits.handlers = 1024).build();
/// assert!(observed.diagnostics().is_empty());
/// assert_eq!(server.call_tool("forecast", serde_json::json!({})).await?.content[0].as_text(), Some("rain"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Gateway {
    core: Arc<Core>,
}

/// The host, the names and the merged lists of a gateway.
struct Core {
    host: Host,
    names: Names,
    is_for_one_client: bool,
    /// The gateway is strict and not built yet, so dropped items are the error of its start.
    drops_are_errors: AtomicBool,
    hop: HopId,
    merged: RwLock<Arc<Merged>>,
    /// Held by the request that merges a catalog, and by the thread that merges a large one for it. Readers of the lists do not wait
    /// for it, and a thread that merges a small catalog without a wait does not hold it.
    merging: Arc<tokio::sync::Mutex<()>>,
    /// The permits of the threads that write the lists of callers.
    writers: Arc<Semaphore>,
    /// `None` if the system has no random numbers.
    seals: Option<Seals>,
    parked: ParkedCalls<ParkedResult, SourceCall>,
    /// The handler of rounds that other nodes pass to this node.
    passed_rounds: OnceLock<HandlerGuard>,
    subscriptions: Subscriptions,
    task_questions: TaskQuestions,
    task_tools: TaskTools,
    task_notices: TaskNotices,
    task_followers: TaskFollowers,
    instructions: Instructions,
    links: Links,
    pages: Pages,
    sessions: Sessions,
    used: Arc<UsedStates>,
}

/// The builder of a [`Gateway`].
///
/// See the [example](Gateway#example).
#[must_use = "a builder does nothing until it is built"]
pub struct GatewayBuilder {
    host: Host,
    names: Names,
    is_strict: bool,
    is_for_one_client: bool,
    hop: HopId,
    keys: Option<StateKeys>,
    core: Mutex<Option<Arc<Core>>>,
}

/// A gateway that cannot be built.
///
/// ```
/// use mcp_agent::GatewayError;
///
/// fn show(error: &GatewayError) {
///     if let GatewayError::Dropped(items) = error {
///         println!("{} names are taken", items.len());
///     }
/// }
/// # let _ = show;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// Several servers have items with the same name, and the gateway is [strict](GatewayBuilder::strict).
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Dropped(Vec<DroppedItem>),
    /// The system has no random numbers for a key ([`GatewayBuilder::state_keys`]).
    #[error("the system has no random numbers for a key")]
    NoRandomNumbers,
}

impl Gateway {
    /// Returns the builder of a gateway in front of the servers of a host.
    ///
    /// See the [example](Self#example).
    pub fn builder(host: Host) -> GatewayBuilder {
        let (names, hop, core) = (Names::default(), HopId::new(), Mutex::default());
        GatewayBuilder { host, names, is_strict: false, is_for_one_client: false, hop, keys: None, core }
    }

    /// Returns the items that the gateway does not serve, because another server has an item with the same name.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn diagnostics(&self) -> Vec<DroppedItem> {
        self.core.merged_here().dropped.clone()
    }

    /// Returns the items that the gateway does not serve, because their definitions are not valid.
    ///
    /// See the example of [`InvalidItem`].
    #[must_use]
    pub fn invalid_items(&self) -> Vec<InvalidItem> {
        self.core.merged_here().invalid.clone()
    }

    /// Returns the servers that the gateway does not serve, because they lead to the gateway itself.
    ///
    /// ```
    /// fn show(gateway: &mcp_agent::Gateway) {
    ///     for server in gateway.circular_servers() {
    ///         println!("{server} leads to the gateway itself");
    ///     }
    /// }
    /// # let _ = show;
    /// ```
    #[must_use]
    pub fn circular_servers(&self) -> Vec<Arc<str>> {
        self.core.merged_here().circular.clone()
    }

    /// Returns the servers that lead to the gateway itself, at most `most` dropped items, and at most `most` invalid ones. All are those
    /// of one catalog: the former one while a large catalog is merged, because this thread does not merge it.
    #[doc(hidden)]
    #[must_use]
    pub fn newest_diagnostics(&self, most: usize) -> (Vec<Arc<str>>, Vec<DroppedItem>, Vec<InvalidItem>) {
        let merged = self.core.newest_merged();
        let dropped = merged.dropped.iter().take(most).cloned().collect();
        (merged.circular.clone(), dropped, merged.invalid.iter().take(most).cloned().collect())
    }

    /// Returns the host with the servers of the gateway.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.core.host
    }
}

impl GatewayBuilder {
    /// Sets the names of tools and prompts, and the form of URIs. Default: [`Names::Provider`].
    ///
    /// See the [example](Gateway#example).
    pub fn names(mut self, names: Names) -> Self {
        (self.names, self.core) = (names, Mutex::default());
        self
    }

    /// Sets whether [`GatewayBuilder::build`] fails if the gateway does not serve all items of its servers.
    ///
    /// A server can join later, and a list can change. The gateway then leaves out the item whose name is taken, logs a warning, and
    /// continues. [`Gateway::diagnostics`] returns the item.
    ///
    /// See the [example](Gateway#example).
    pub fn strict(mut self, is_strict: bool) -> Self {
        (self.is_strict, self.core) = (is_strict, Mutex::default());
        self
    }

    /// Serves one client only, such as the client of stdio. Its session also receives the log records of servers that belong to no
    /// call. Without this setting, such a record can be about the request of another client.
    ///
    /// ```no_run
    /// use mcp_agent::{Gateway, Host};
    ///
    /// # async fn run(host: Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let server = Gateway::builder(host.clone()).one_client().build()?.build();
    /// server.serve_stdio().await?;
    /// host.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn one_client(mut self) -> Self {
        (self.is_for_one_client, self.core) = (true, Mutex::default());
        self
    }

    /// Sets the keys that seal the state between two input rounds of a call. All nodes of a fleet need the same keys. Without
    /// keys, the process generates a random key.
    ///
    /// A call that waits at a server with sessions for an answer belongs to one node. If the server of the gateway has a
    /// [store](ServerBuilder::store) that the nodes share, another node passes the next round to this node. Otherwise the round fails
    /// with `other_node` as the reason in the data of the error.
    ///
    /// ```
    /// use mcp_agent::{Gateway, Host};
    /// use mcp_server_core::StateKeys;
    ///
    /// # fn example(host: Host, secret: [u8; 32]) {
    /// let gateway = Gateway::builder(host).state_keys(StateKeys::new([secret]));
    /// # let _ = gateway;
    /// # }
    /// ```
    pub fn state_keys(mut self, keys: StateKeys) -> Self {
        (self.keys, self.core) = (Some(keys), Mutex::default());
        self
    }

    /// Returns the gateway, which observes the server that this builder builds. Call it after the other functions.
    ///
    /// See the [example](Gateway#example).
    #[must_use]
    pub fn gateway(&self) -> Gateway {
        Gateway { core: self.core() }
    }

    fn core(&self) -> Arc<Core> {
        let new = || {
            Arc::new(Core {
                host: self.host.clone(),
                names: self.names,
                is_for_one_client: self.is_for_one_client,
                drops_are_errors: AtomicBool::new(self.is_strict),
                hop: self.keys.as_ref().map_or_else(|| self.hop.clone(), |keys| self.hop.of_fleet(keys)),
                merged: RwLock::default(),
                merging: Arc::default(),
                writers: Arc::new(Semaphore::new(views::WRITERS)),
                seals: self.keys.clone().or_else(|| StateKeys::random().ok()).map(Seals::new),
                parked: ParkedCalls::new(ParkedLimits::default()),
                passed_rounds: OnceLock::new(),
                subscriptions: Subscriptions::default(),
                task_questions: TaskQuestions::default(),
                task_tools: TaskTools::default(),
                task_notices: TaskNotices::default(),
                task_followers: TaskFollowers::default(),
                instructions: Instructions::default(),
                links: Links::default(),
                pages: Pages::default(),
                sessions: Sessions::default(),
                used: Arc::default(),
            })
        };
        Arc::clone(self.core.lock().get_or_insert_with(new))
    }

    /// Returns the builder of the server, with the name and the version of the application. It has no limits, authentication or
    /// layers yet.
    ///
    /// The server keeps the host. The servers of the host end when the server is dropped.
    ///
    /// See the [example](Gateway#example).
    ///
    /// # Errors
    /// [`GatewayError::Dropped`] if the gateway is [strict](Self::strict), and an item has the name of another item.
    /// [`GatewayError::NoRandomNumbers`] without [keys](Self::state_keys).
    pub fn build(self) -> Result<ServerBuilder<()>, GatewayError> {
        let core = self.core();
        let merged = core.seals.as_ref().map(|_| core.merged_here());
        // The start ends here, also with an error. An observer of the gateway logs later drops.
        core.drops_are_errors.store(false, Ordering::Relaxed);
        let merged = merged.ok_or(GatewayError::NoRandomNumbers)?;
        if self.is_strict && !merged.dropped.is_empty() {
            return Err(GatewayError::Dropped(merged.dropped.clone()));
        }
        core.host.shared().registry.add_gateway(self.is_for_one_client);
        let info = core.host.application();
        let mut builder = Server::builder::<()>(info.name.clone(), info.version.clone());
        if let Some(keys) = self.keys {
            builder = builder.state_keys(keys);
        }
        Ok(builder.source(Relays::new(&core)).extension(Announcer::new(&core)))
    }
}

impl Host {
    /// Returns the builder of a server for the tools, resources and prompts of all servers of this host, with provider names: the
    /// short form of [`Gateway::builder`].
    ///
    /// ```
    /// # use mcp_server::tool;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let weather = mcp_server::Server::builder("weather", "1").tool(tool("forecast", async || "rain")).build();
    /// use mcp_agent::Host;
    ///
    /// let server = Host::builder("my-gateway", "1.0").server("weather", &weather).start().await?.into_server()?.build();
    /// let result = server.call_tool("weather__forecast", serde_json::json!({})).await?;
    /// assert_eq!(result.content[0].as_text(), Some("rain"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`GatewayError::NoRandomNumbers`].
    pub fn into_server(self) -> Result<ServerBuilder<()>, GatewayError> {
        Gateway::builder(self).build()
    }
}

impl Core {
    /// Returns the keys for a state or an id of a call. Their use starts the node of a fleet, so that the nodes compare their keys.
    fn seals(&self, call: &SourceCall) -> Result<&Seals, RpcError> {
        if let Some(node) = call.context().server().node() {
            node.uses_keys();
        }
        self.seals.as_ref().ok_or_else(|| RpcError::internal("the system has no random numbers"))
    }

    /// Returns the lists of the current catalog. A large catalog is merged on a thread for blocking work.
    async fn merged(self: &Arc<Self>) -> Arc<Merged> {
        match self.merged_or_catalog() {
            Ok(merged) => merged,
            // Each request copies its future, and most requests do not wait for a merge.
            Err(_) => Box::pin(self.merged_anew()).await,
        }
    }

    /// Merges the current catalog, or waits until another request has merged it.
    async fn merged_anew(self: &Arc<Self>) -> Arc<Merged> {
        // A merge only computes, so the wait ends after the time of the merge.
        let merging = Arc::clone(&self.merging).lock_owned().await;
        // Another request can have merged the catalog meanwhile.
        let catalog = match self.merged_or_catalog() {
            Ok(merged) => return merged,
            Err(catalog) => catalog,
        };
        if merged::is_small(&catalog) {
            return self.merge(&catalog);
        }
        let core = Arc::clone(self);
        let merged = tokio::task::spawn_blocking(move || {
            // A cancelled request does not end this merge, so the next one waits for it.
            let _merging = merging;
            core.merge(&catalog)
        });
        // The task ends without lists only if the runtime shuts down.
        merged.await.unwrap_or_else(|_| self.merged_here())
    }

    /// Returns the lists of the current catalog. If the catalog has changed, this thread merges it.
    fn merged_here(&self) -> Arc<Merged> {
        self.merged_or_catalog().unwrap_or_else(|catalog| self.merge(&catalog))
    }

    /// Returns the newest lists. They are those of a former catalog while a large catalog is merged.
    fn newest_merged(&self) -> Arc<Merged> {
        match self.merged_or_catalog() {
            Ok(merged) => merged,
            Err(catalog) if merged::is_small(&catalog) => self.merge(&catalog),
            Err(_) => Arc::clone(&self.merged.read()),
        }
    }

    /// Returns the lists of the current catalog, or the catalog if it is not merged yet.
    fn merged_or_catalog(&self) -> Result<Arc<Merged>, Arc<Catalog>> {
        let catalog = self.host.catalog();
        let merged = self.merged.read();
        if merged.is_of(&catalog) { Ok(Arc::clone(&merged)) } else { Err(catalog) }
    }

    /// Merges a catalog. Other threads read the former lists meanwhile.
    fn merge(&self, catalog: &Arc<Catalog>) -> Arc<Merged> {
        let former = Arc::clone(&self.merged.read());
        let next = Arc::new(Merged::new(catalog, self.names, &self.hop, &former));
        {
            let mut merged = self.merged.write();
            // Another thread can have merged this catalog or a newer one meanwhile. Requests use only stored lists.
            if merged.is_of(catalog) || merged.is_newer_than(catalog) {
                return Arc::clone(&merged);
            }
            *merged = Arc::clone(&next);
        }
        next.log_changes(&former, self.drops_are_errors.load(Ordering::Relaxed));
        next
    }
}

impl fmt::Debug for GatewayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, names, is_strict, is_for_one_client, .. } = self;
        f.debug_struct("GatewayBuilder")
            .field("host", host)
            .field("names", names)
            .field("is_strict", is_strict)
            .field("is_for_one_client", is_for_one_client)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("host", &self.core.host)
            .field("names", &self.core.names)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        task::{Context, Waker},
        time::Duration,
    };

    use mcp_server::{Server, tool};
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn the_lists_of_a_catalog_are_merged_once() {
        let upstream = Server::builder("s", "1").tool(tool("t", async || "t")).build();
        let host = Host::builder("gateway", "1").server("s", &upstream).start().await.unwrap();
        let core = Gateway::builder(host.clone()).core();
        let catalog = host.catalog();
        // Two threads find that the catalog is not merged yet.
        let (first, second) = (core.merge(&catalog), core.merge(&catalog));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(Arc::ptr_eq(&first, &core.merged_here()));
    }

    #[tokio::test]
    async fn the_merge_of_a_former_catalog_returns_the_stored_lists_of_the_newer_one() {
        let upstream = Server::builder("s", "1").tool(tool("t", async || "t")).build();
        let host = Host::builder("gateway", "1").server("s", &upstream).start().await.unwrap();
        let core = Gateway::builder(host.clone()).core();
        let former = host.catalog();
        upstream.tools().add(tool("u", async || "u")).unwrap();
        let mut changes = host.catalog_changes();
        let changed = changes.wait_for(|catalog| catalog.tools().len() == 2);
        timeout(Duration::from_secs(20), changed).await.unwrap().unwrap();
        let newer = core.merge(&host.catalog());
        assert!(Arc::ptr_eq(&core.merge(&former), &newer));
    }

    #[tokio::test]
    async fn a_merge_of_a_cancelled_request_delays_the_next_merge_of_a_large_catalog() {
        let server =
            (0..250).fold(Server::builder("s", "1"), |s, n| s.tool(tool(format!("t{n}"), async || "t"))).build();
        let host = Host::builder("gateway", "1").server("s", &server).start().await.unwrap();
        let core = Gateway::builder(host.clone()).core();
        {
            // The merge cannot store its lists, so it runs until the end of this block.
            let _reader = core.merged.read();
            let mut request = Box::pin(core.merged());
            assert!(request.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            drop(request);
            assert!(core.merging.try_lock().is_err());
        }
        drop(timeout(Duration::from_secs(20), core.merging.lock()).await.unwrap());
        assert!(core.merged.read().is_of(&host.catalog()));
    }

    #[tokio::test]
    async fn the_newest_diagnostics_are_bounded_and_do_not_merge_a_large_catalog() {
        let server = || (0..150).fold(Server::builder("s", "1"), |s, n| s.tool(tool(format!("t{n}"), async || "t")));
        let (first, second) = (server().build(), server().build());
        let host = Host::builder("gateway", "1").server("first", &first).server("second", &second);
        let gateway = Gateway::builder(host.start().await.unwrap()).names(Names::Raw).gateway();
        assert_eq!(gateway.newest_diagnostics(100), (Vec::new(), Vec::new(), Vec::new()));
        gateway.core.merged().await;
        let all = gateway.diagnostics();
        for most in [0, 100, 1000] {
            let (circular, dropped, invalid) = gateway.newest_diagnostics(most);
            assert_eq!((circular.len(), &dropped[..], invalid.len()), (0, &all[..most.min(150)], 0), "{most}");
        }
    }
}
