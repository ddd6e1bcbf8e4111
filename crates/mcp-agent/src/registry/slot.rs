//! One server of a registry: its connector, its connection, its items and its state.

use std::{
    collections::BTreeSet,
    fmt,
    pin::pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::{Client, Error, transport::Connect};
#[cfg(feature = "gateway")]
use mcp_protocol::ProtocolVersion;
use mcp_protocol::{ClientCapabilities, Rounded};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Registry, ServerOptions, ServerState, TokenFault, Watched,
    activity::{ActiveCall, Activity},
    listing::LISTING,
    pool::Pool,
};
#[cfg(feature = "gateway")]
use super::{records::Records, sessions::Sessions};
use crate::catalog::ServerEntries;

/// One server of a registry, with the connection that lists its items. The connections in its pool are values of this type too.
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    pub(crate) options: ServerOptions,
    /// A text that changes when the definition of the server changes.
    pub(crate) fingerprint: Arc<str>,
    pub(super) role: Role,
    pub(super) pool: Mutex<Pool>,
    /// The capabilities of a host without handlers, in canonical form. `None`: the host has handlers.
    pub(super) capabilities_of_host: OnceLock<Option<Arc<str>>>,
    /// The capabilities of the last caller that declared any, and their canonical form.
    pub(super) last_declared: Mutex<Option<(ClientCapabilities, Arc<str>)>>,
    /// A call of a caller has ended.
    pub(super) released: Notify,
    /// The server sends input requests that do not name their calls.
    pub(super) asks: AtomicBool,
    /// An input request failed, because several calls can have caused it.
    pub(super) has_failed_question: AtomicBool,
    /// The running calls of this connection whose callers can be asked.
    pub(super) askable: AtomicUsize,
    #[cfg(feature = "gateway")]
    pub(super) sessions: Sessions,
    #[cfg(feature = "gateway")]
    pub(super) records: Arc<Records>,
    pub(super) connector: Arc<Watched>,
    pub(super) link: watch::Sender<Link>,
    pub(super) activity: Arc<Activity>,
    /// A call needs the server.
    pub(super) wanted: Notify,
    /// A connection for callers has received the notification of a changed list.
    pub(super) lists_changed: Arc<Notify>,
    /// The items of a connection for callers are gone.
    pub(super) items_gone: Arc<Notify>,
    /// Ends the server.
    pub(crate) stop: CancellationToken,
    pub(super) has_run: AtomicBool,
    /// Cancelled when the task of the server has ended, and its process too.
    pub(super) ended: CancellationToken,
    items: Mutex<Items>,
}

/// The purpose of a connection.
pub(super) enum Role {
    /// Lists the items of the server for the catalog.
    Listing,
    Calls(Calls),
}

/// A connection that serves the calls of some callers.
pub(super) struct Calls {
    /// The declared capabilities. `None`: those of the host.
    pub(super) declared: Option<Arc<ClientCapabilities>>,
    /// The connection has the exchanged token of its caller.
    pub(super) has_token_of_caller: bool,
    /// The server keeps the state of a session, so the connection has no default idle time.
    pub(super) is_of_session: bool,
    /// The connection has a process of its own, and its callers have no principal and no session. All clients can see its items.
    pub(super) is_public: bool,
}

#[derive(Default)]
struct Items {
    /// The items of the catalog: the own ones, and those that connections for callers add.
    entries: Arc<ServerEntries>,
    /// The items that this connection listed.
    own: Arc<ServerEntries>,
    /// The server listed its items. Otherwise they are empty or from the disk.
    was_listed: bool,
    /// The lists without a place for all items of connections for callers.
    left_out: BTreeSet<&'static str>,
    /// The tools are those of a former server with another filter. They decide the order only.
    has_foreign_tools: bool,
}

impl Items {
    /// Sets the own items, and those of the catalog.
    fn set(&mut self, own: ServerEntries, entries: ServerEntries) {
        if *self.own != own {
            self.own = Arc::new(own);
        }
        if *self.own == entries {
            self.entries = Arc::clone(&self.own);
        } else if *self.entries != entries {
            self.entries = Arc::new(entries);
        }
    }

    /// Sets the own items, to which no connection for callers adds any yet.
    fn set_own(&mut self, own: Arc<ServerEntries>) {
        (self.entries, self.own) = (Arc::clone(&own), own);
    }
}

/// The connection of a server, as calls see it.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) state: ServerState,
    pub(super) reason: Option<String>,
    /// The error of the last attempt, or of the list of tools.
    pub(super) error: Option<Error>,
    /// The fault of the token of the caller in the last attempt.
    pub(super) token_fault: Option<TokenFault>,
    pub(super) client: Option<Client>,
    /// The revision of the last connection. It remains after the end of the connection.
    #[cfg(feature = "gateway")]
    pub(super) version: Option<ProtocolVersion>,
    /// The number of failed attempts.
    pub(super) failures: u64,
    /// The time of the next attempt. Calls before that time fail at once.
    pub(super) next_attempt: Option<Instant>,
    /// The faults of the lists.
    pub(super) diagnostics: Vec<String>,
    /// The parts of the filter without an effect.
    pub(super) filter_notes: Vec<String>,
    pub(super) has_ended: bool,
}

/// A server that a call cannot reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unavailable {
    pub(crate) state: ServerState,
    pub(crate) reason: Option<String>,
    /// The time until the next attempt, if the server failed before.
    pub(crate) retry_in: Option<Duration>,
    /// The caller has no token that the server accepts.
    pub(crate) token_fault: Option<TokenFault>,
}

/// The cause of a failed input request, and its remedy.
const SEVERAL_CALLS: &str =
    "calls of several callers can have caused it: `\"asks\": true` in the entry of the server prevents this";

impl Link {
    fn unavailable(&self) -> Unavailable {
        let retry_in = self.next_attempt.map(|at| at.saturating_duration_since(Instant::now()));
        let retry_in = retry_in.filter(|wait| !wait.is_zero());
        Unavailable { state: self.state, reason: self.reason.clone(), retry_in, token_fault: self.token_fault }
    }
}

impl Slot {
    pub(crate) fn new(
        name: &str,
        connector: Arc<dyn Connect>,
        options: ServerOptions,
        fingerprint: Option<&str>,
        closing: &CancellationToken,
    ) -> Arc<Self> {
        let identity = fingerprint.map_or_else(|| connector.identity(), str::to_owned);
        // The filter decides which tools are stored.
        let fingerprint = hash(&format!("{identity} {:?}", options.filter));
        Arc::new(Self::with(name.into(), connector, options, fingerprint.into(), closing, Role::Listing))
    }

    /// Returns another connection to a server.
    pub(super) fn of_callers(server: &Self, connector: Arc<dyn Connect>, role: Role) -> Arc<Self> {
        let options = ServerOptions { needs_approval: false, ..server.options.clone() };
        let slot = Self::with(server.name.clone(), connector, options, server.fingerprint.clone(), &server.stop, role);
        let (lists_changed, items_gone) = (Arc::clone(&server.lists_changed), Arc::clone(&server.items_gone));
        Arc::new(Self { lists_changed, items_gone, ..slot })
    }

    fn with(
        name: Arc<str>,
        connector: Arc<dyn Connect>,
        options: ServerOptions,
        fingerprint: Arc<str>,
        closing: &CancellationToken,
        role: Role,
    ) -> Self {
        let state = if options.needs_approval { ServerState::NeedsApproval } else { ServerState::Configured };
        let link = Link {
            state,
            reason: None,
            error: None,
            token_fault: None,
            client: None,
            #[cfg(feature = "gateway")]
            version: None,
            failures: 0,
            next_attempt: None,
            diagnostics: Vec::new(),
            filter_notes: Vec::new(),
            has_ended: false,
        };
        Self {
            name,
            fingerprint,
            role,
            pool: Mutex::default(),
            capabilities_of_host: OnceLock::new(),
            last_declared: Mutex::default(),
            released: Notify::new(),
            asks: AtomicBool::new(options.asks),
            has_failed_question: AtomicBool::new(false),
            askable: AtomicUsize::new(0),
            #[cfg(feature = "gateway")]
            sessions: Sessions::default(),
            #[cfg(feature = "gateway")]
            records: Arc::default(),
            options,
            connector: Watched::new(connector),
            link: watch::Sender::new(link),
            activity: Arc::default(),
            wanted: Notify::new(),
            lists_changed: Arc::default(),
            items_gone: Arc::default(),
            stop: closing.child_token(),
            has_run: AtomicBool::new(false),
            ended: CancellationToken::new(),
            items: Mutex::default(),
        }
    }

    pub(crate) fn entries(&self) -> Arc<ServerEntries> {
        Arc::clone(&self.items.lock().entries)
    }

    /// Returns the items that this connection listed, without those of connections for callers.
    pub(crate) fn own_entries(&self) -> Arc<ServerEntries> {
        Arc::clone(&self.items.lock().own)
    }

    /// Returns the own items before a new reading of the lists. The value is false if the tools decide the order only.
    pub(super) fn former(&self) -> (Arc<ServerEntries>, bool) {
        let items = self.items.lock();
        (Arc::clone(&items.own), !items.has_foreign_tools)
    }

    /// Sets the items that a connection for callers listed.
    pub(super) fn set_entries(&self, entries: ServerEntries) {
        self.items.lock().set_own(Arc::new(entries));
    }

    /// Forgets the items of a connection for callers. Returns whether it had any.
    pub(super) fn forget_entries(&self) -> bool {
        let mut items = self.items.lock();
        let had_items = *items.entries != ServerEntries::default();
        items.set_own(Arc::default());
        had_items
    }

    /// Takes the items from the disk. Returns false if the disk has no items of this definition.
    pub(crate) fn restore(&self, registry: &Registry) -> bool {
        let mut stored = registry.stored(self);
        stored.iter_mut().for_each(ServerEntries::inspect);
        let is_stored = stored.is_some();
        self.items.lock().set_own(Arc::new(stored.unwrap_or_default()));
        is_stored
    }

    /// Adds the items of connections for callers to listed items, compares them with the pins of the host, and publishes them in the
    /// catalog. Without listed items, the last own items stay. Returns the fault of the pins.
    pub(super) async fn publish(&self, registry: &Registry, listed: Option<(ServerEntries, bool)>) -> Option<String> {
        let _publishing = match &registry.pins {
            Some(pins) => Some(pins.publishing.lock().await),
            None => None,
        };
        let is_listed = listed.is_some();
        let (mut own, is_complete) = listed.unwrap_or_else(|| ((*self.own_entries()).clone(), false));
        let mut entries = own.clone();
        let left_out = self.add_items_of_callers(&mut entries, registry.has_one_client());
        let fault = match &registry.pins {
            Some(pins) => pins.review(&self.name, self.options.drift, &mut entries.tools).await,
            None => None,
        };
        own.take_reviews(&entries);
        {
            let mut items = self.items.lock();
            items.was_listed |= is_complete;
            items.has_foreign_tools &= !is_listed;
            items.set(own, entries);
            // Each change publishes the same fault again.
            if !left_out.is_subset(&items.left_out) {
                let lists = left_out.iter().copied().collect::<Vec<_>>().join(", ");
                let server = &*self.name;
                tracing::warn!(target: LISTING, server, lists, "items of the process of a caller are left out");
            }
            items.left_out = left_out;
        }
        registry.rebuild();
        fault
    }

    /// Compares the current items with the pins of the host again, for example after a person accepted a definition.
    /// Returns the fault of the pins.
    pub(crate) async fn review(&self, registry: &Registry) -> Option<String> {
        let pins = registry.pins.as_ref()?;
        let _publishing = pins.publishing.lock().await;
        let mut entries = (*self.entries()).clone();
        let fault = pins.review(&self.name, self.options.drift, &mut entries.tools).await;
        let mut own = (*self.own_entries()).clone();
        own.take_reviews(&entries);
        self.items.lock().set(own, entries);
        registry.rebuild();
        self.publish_status(registry);
        fault
    }

    /// Takes the items of a former server with this name, which decide the order of the new items.
    pub(crate) fn inherit(&self, former: &Self) {
        let (entries, is_own) = former.former();
        let mut items = self.items.lock();
        items.set_own(entries);
        // Tools that passed another filter must not pass this one.
        items.has_foreign_tools = !is_own || self.options.filter != former.options.filter;
    }

    pub(crate) fn was_listed(&self) -> bool {
        self.items.lock().was_listed
    }

    /// Whether the server does not run and its tools are unknown.
    pub(crate) fn is_unlisted(&self) -> bool {
        let runs = [ServerState::Ready, ServerState::Degraded];
        !runs.contains(&self.state()) && !self.was_listed() && self.entries().tools.is_empty()
    }

    pub(crate) fn state(&self) -> ServerState {
        self.link.borrow().state
    }

    /// Returns the client of the connection that lists the items; `None` if it is not open.
    #[cfg(feature = "gateway")]
    pub(crate) fn listing_client(&self) -> Option<Client> {
        self.link.borrow().client.clone()
    }

    /// Returns the revision of the connection that lists the items, or of the last one. `None` before the first connection.
    #[cfg(feature = "gateway")]
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.link.borrow().version
    }

    pub(crate) fn reason(&self) -> Option<String> {
        self.link.borrow().reason.clone()
    }

    pub(super) fn diagnostics(&self) -> Vec<String> {
        let mut diagnostics: Vec<String> = {
            let link = self.link.borrow();
            link.diagnostics.iter().chain(&link.filter_notes).cloned().collect()
        };
        if self.has_failed_question.load(Ordering::Acquire) {
            diagnostics.push(format!("an input request failed, because {SEVERAL_CALLS}"));
        }
        diagnostics
    }

    pub(super) fn filter_notes(&self) -> Vec<String> {
        self.link.borrow().filter_notes.clone()
    }

    pub(crate) fn error(&self) -> Option<Error> {
        self.link.borrow().error.clone()
    }

    /// Returns the time limit of calls of a tool of the server.
    pub(crate) fn call_timeout(&self, tool: &str) -> Option<Duration> {
        self.options.tool_timeouts.get(tool).copied().or(self.options.call_timeout)
    }

    /// Begins a call: the server does not become idle until the value is dropped.
    pub(crate) fn begin_call(&self) -> ActiveCall {
        self.activity.begin()
    }

    /// Lets the server start.
    pub(crate) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// Reports once that an input request failed.
    pub(super) fn report_failed_question(&self, registry: &Registry) {
        if !self.has_failed_question.swap(true, Ordering::AcqRel) {
            tracing::warn!(
                target: "mcp_agent::registry::asking",
                server = &*self.name,
                reason = SEVERAL_CALLS,
                "an input request of a server failed"
            );
            self.publish_status(registry);
        }
    }

    /// Returns the client of the server, within a time limit. Starts the server if it does not run.
    pub(crate) async fn client_within(&self, limit: Duration) -> Result<Client, Unavailable> {
        if let Some(client) = &self.link.borrow().client {
            return Ok(client.clone());
        }
        // Most servers run. Boxing keeps the futures of their calls small.
        let reached = Box::pin(timeout(limit, self.client())).await;
        reached.unwrap_or_else(|_| {
            let mut cause = self.unavailable();
            cause.reason.get_or_insert_with(|| format!("it did not start within {}", Rounded(limit)));
            Err(cause)
        })
    }

    /// Waits until the server has listed its items, within a time limit. Starts the server if it does not run.
    pub(crate) async fn listed_within(&self, limit: Duration) -> Result<(), Unavailable> {
        let _active = self.begin_call();
        self.client_within(limit).await.map(drop)
    }

    pub(super) fn unavailable(&self) -> Unavailable {
        self.link.borrow().unavailable()
    }

    /// Returns the state of a server whose client was closed.
    pub(super) fn unavailable_after_close(&self) -> Unavailable {
        let mut cause = self.unavailable();
        // The connection ends, or another connection is open already.
        if [ServerState::Ready, ServerState::Degraded].contains(&cause.state) {
            cause.state = if self.stop.is_cancelled() { ServerState::Stopped } else { ServerState::Failed };
        }
        cause
    }

    /// Returns the fault of the exchanged token of the caller after an error of the connection or of a request.
    pub(super) fn token_fault(&self, error: &Error) -> Option<TokenFault> {
        let has_token = matches!(&self.role, Role::Calls(calls) if calls.has_token_of_caller);
        (has_token && error.is_unauthorized()).then(|| match error.http_status() {
            Some(_) => TokenFault::NotAccepted,
            // The token had to be exchanged again.
            None if error.is_retryable() => TokenFault::Unavailable,
            None => TokenFault::Refused,
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        self.link.borrow().has_ended
    }

    async fn client(&self) -> Result<Client, Unavailable> {
        let mut link = self.link.subscribe();
        let failures = link.borrow().failures;
        let mut has_woken = false;
        loop {
            {
                let now = link.borrow_and_update();
                if let Some(client) = &now.client {
                    return Ok(client.clone());
                }
                let has_failed = has_woken && now.failures > failures;
                let cause = now.unavailable();
                let is_early = !has_woken && cause.retry_in.is_some();
                if now.has_ended || now.state == ServerState::NeedsApproval || has_failed || is_early {
                    return Err(cause);
                }
            }
            if !std::mem::replace(&mut has_woken, true) {
                self.wanted.notify_one();
            }
            if link.changed().await.is_err() {
                return Err(Unavailable {
                    state: ServerState::Stopped,
                    reason: None,
                    retry_in: None,
                    token_fault: None,
                });
            }
        }
    }

    /// Waits until the first start of the server has an outcome.
    pub(crate) async fn settled(&self) {
        let is_settled =
            |link: &Link| !matches!(link.state, ServerState::Starting | ServerState::Waiting) || link.has_ended;
        // The sender is a part of this server.
        let _ = self.link.subscribe().wait_for(is_settled).await;
    }

    /// Removes a wake-up that is not needed any more.
    pub(super) fn clear_wake_up(&self) {
        pin!(self.wanted.notified()).as_mut().enable();
    }

    /// Ends the server and waits until its process has ended. Several callers can wait. Cancel safe.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.released.notify_waiters();
        if self.has_run.load(Ordering::Acquire) {
            // The close of a client has its own time limits.
            self.ended.cancelled().await;
        }
        self.connections_ended().await;
    }
}

/// Returns the SHA-256 of a text, in hexadecimal.
fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("name", &self.name).field("state", &self.state()).finish_non_exhaustive()
    }
}
