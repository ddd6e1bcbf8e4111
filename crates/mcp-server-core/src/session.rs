//! The state of one session of the session era: what the client declared, its pending requests, and its notifications.

mod client;
mod gate;
mod identity;
mod in_flight;
mod incoming;
mod outbox;
mod pages;
mod pending;
mod state;

use std::{
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use mcp_protocol::{
    ClientCapabilities, ElicitationCompleteParams, Implementation, InputRequest, LoggingLevel, NotificationMethod as _,
    ProgressParams, ProtocolVersion, RequestId, RpcError, ServerCapabilities, jsonrpc, notification,
};
use mcp_transport::FrameSender;
use parking_lot::Mutex;
use serde_json::Value;

pub(crate) use self::{
    client::{Client, RequestClient},
    gate::{Gate, Pass},
    identity::{ClientIdentities, ClientIdentity},
    in_flight::{CancelReason, InFlight, InFlightGuard, NotEntered},
    incoming::NotificationHook,
    pages::OpenPage,
    pending::ProgressListener,
};
pub use self::{
    incoming::ClientNotification,
    state::{ChangeMark, MadeChanges, SessionChange, SessionState, Storing},
};
use self::{
    incoming::NotificationQueue,
    outbox::Outbox,
    pages::Pages,
    pending::{Answer, PendingRequests},
    state::Unstored,
};
use crate::{
    error::InputError,
    node::{Lease, Node},
};

/// A session: one stdio connection after `initialize`, or one HTTP session.
pub struct Session {
    id: Option<Box<str>>,
    fingerprint: Option<Box<str>>,
    version: ProtocolVersion,
    identity: Arc<ClientIdentity>,
    initialized: AtomicBool,
    /// The level that the client has set.
    log_level: Mutex<Option<LoggingLevel>>,
    /// The number of notifications about changed roots.
    roots_changes: AtomicU64,
    sender: Arc<dyn FrameSender>,
    in_flight: Arc<InFlight>,
    pending: PendingRequests,
    outbox: Outbox,
    pages: Pages,
    /// The node whose name is in the ids of questions. Empty if the session is not shared.
    asks_as: OnceLock<Arc<Node>>,
    /// The part that belongs to the record in a shared store. Empty if the session is not shared.
    unstored: OnceLock<Box<Unstored>>,
}

impl Session {
    /// Creates a session. `declared` are the capabilities that the server sent to its client.
    pub(crate) fn new(
        id: Option<Box<str>>,
        version: ProtocolVersion,
        identity: Arc<ClientIdentity>,
        declared: &ServerCapabilities,
        peer: &Peer,
    ) -> Self {
        Self {
            fingerprint: id.as_deref().map(fingerprint),
            id,
            version,
            identity,
            initialized: AtomicBool::new(false),
            log_level: Mutex::default(),
            roots_changes: AtomicU64::new(0),
            sender: peer.inner.sender.clone(),
            in_flight: peer.in_flight().clone(),
            pending: PendingRequests::default(),
            outbox: Outbox::new(declared),
            pages: Pages::default(),
            asks_as: OnceLock::new(),
            unstored: OnceLock::new(),
        }
    }

    /// Returns the id of an HTTP session; `None` on stdio.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns a hash of the id for spans and log records, because the id itself is a secret of the session.
    pub(crate) fn fingerprint(&self) -> Option<&str> {
        self.fingerprint.as_deref()
    }

    /// Returns the negotiated revision.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// Returns the name and version of the client. Large `data:` icons are removed.
    #[must_use]
    pub fn client_info(&self) -> &Implementation {
        &self.identity.info
    }

    /// Returns the capabilities of the client, as far as the revision knows them.
    #[must_use]
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        &self.identity.capabilities
    }

    /// Whether `notifications/initialized` arrived. Before it, changes wait, and log records are dropped.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    pub(crate) fn mark_initialized(self: &Arc<Self>) {
        self.change(SessionChange::Initialized, || {
            self.mark_open();
            (true, ())
        });
        self.send_early_changes();
    }

    fn mark_open(&self) {
        self.initialized.store(true, Ordering::Release);
    }

    /// Stops all notifications and requests of the server, because another session replaced this one on its connection.
    pub(crate) fn retire(&self) {
        self.initialized.store(false, Ordering::Release);
        self.outbox.close();
        self.pending.close();
    }

    /// Whether the server can send no more requests to the client.
    pub(crate) fn is_closed(&self) -> bool {
        self.pending.is_closed()
    }

    /// Returns the lowest level of log records that the client wants. The default is `info`.
    #[must_use]
    pub fn log_level(&self) -> LoggingLevel {
        self.chosen_log_level().unwrap_or(LoggingLevel::Info)
    }

    /// Returns the level of log records that the client has set (`logging/setLevel`).
    pub(crate) fn chosen_log_level(&self) -> Option<LoggingLevel> {
        *self.log_level.lock()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        self.change(SessionChange::LogLevel(level), || {
            *self.log_level.lock() = Some(level);
            (true, ())
        });
    }

    /// Counts a change of the client's roots.
    pub(crate) fn roots_changed(&self) {
        self.change(SessionChange::RootsChanged, || {
            self.count_roots_change();
            (self.declares_roots_changes(), ())
        });
    }

    fn count_roots_change(&self) {
        self.roots_changes.fetch_add(1, Ordering::AcqRel);
    }

    fn declares_roots_changes(&self) -> bool {
        self.identity.capabilities.roots.as_ref().is_some_and(|roots| roots.list_changed == Some(true))
    }

    /// Returns the number of changes of the client's roots. A client that does not declare changes has none.
    pub(crate) fn roots_changes(&self) -> u64 {
        if self.declares_roots_changes() { self.roots_changes.load(Ordering::Acquire) } else { 0 }
    }

    /// Sends a request to the client and waits for the response. `about` is the client's request that it belongs to.
    pub(crate) async fn ask(
        &self,
        request: &InputRequest,
        sink: Option<&dyn FrameSender>,
        about: &RequestId,
    ) -> Result<Value, InputError> {
        self.ask_with_progress(request, sink, about, None).await
    }

    /// Sends a request as [`Session::ask`] does. The listener receives the progress that the client reports.
    pub(crate) async fn ask_with_progress(
        &self,
        request: &InputRequest,
        sink: Option<&dyn FrameSender>,
        about: &RequestId,
        listener: Option<ProgressListener>,
    ) -> Result<Value, InputError> {
        let lease = match self.asks_as.get() {
            // Without a lease, an answer that arrives at another node cannot reach this node.
            Some(node) => Some(node.lease().await.map_err(|error| InputError::failed(&error))?),
            None => None,
        };
        let id = pending::new_id(lease.as_ref().map(Lease::id));
        self.pending.ask(id, request, sink, &*self.sender, about, listener).await
    }

    /// Passes the progress of a request of the server to its listener. Returns false without a listener.
    pub(crate) fn progress(&self, message: &jsonrpc::Notification<'_>) -> bool {
        self.pending.progress(message)
    }

    /// Whether other nodes of a fleet serve the session too.
    pub(crate) fn is_shared(&self) -> bool {
        self.asks_as.get().is_some()
    }

    /// Puts the name of a node in the ids of questions, so that the other nodes pass the answers to it.
    pub fn ask_as(&self, node: &Arc<Node>) {
        self.asks_as.get_or_init(|| node.clone());
    }

    /// Returns the node that asked a question, by the id of the question.
    #[must_use]
    pub fn node_of_question(id: &RequestId) -> Option<&str> {
        pending::node_of(id)
    }

    /// Whether a notification is the progress of a question that another node may have asked.
    pub(crate) fn is_progress_elsewhere(&self, message: &jsonrpc::Notification<'_>) -> bool {
        if !self.is_shared() || message.method != notification::Progress::NAME {
            return false;
        }
        let params = jsonrpc::decode_params::<ProgressParams>(&message.method, message.params);
        params.is_ok_and(|params| !self.pending.awaits_progress(&params.progress_token))
    }

    /// Remembers that the server sent the user to the page with this id.
    pub(crate) fn add_page(&self, page: &str) {
        self.pages.add(page);
    }

    /// Remembers the page of a question, until the returned value is dropped.
    pub(crate) fn open_page(&self, page: String) -> OpenPage<'_> {
        self.pages.open(page)
    }

    /// Notifies the client once that the user is done on a page to which the server sent the user.
    pub(crate) fn complete_page(&self, page: &str) {
        if !self.pages.remove(page) || !self.version.has_elicitation_complete() {
            return;
        }
        let params = ElicitationCompleteParams::new(page);
        if let Ok(message) = jsonrpc::notification(notification::ElicitationComplete::NAME, &params) {
            self.send(message);
        }
    }

    /// Sends a notification that belongs to no request. It is lost when the client does not read.
    pub(crate) fn send(&self, message: Vec<u8>) {
        if self.is_initialized() && self.sender.try_send(mcp_transport::Frame::new(message)).is_err() {
            tracing::debug!("a session does not read: a notification was dropped");
        }
    }

    /// Completes the request of the server that a response answers. Returns false for a response to no pending request of this
    /// node.
    pub fn answered(&self, response: &jsonrpc::Response<'_>) -> bool {
        let Some(id) = &response.id else { return false };
        let answer: Answer = match &response.outcome {
            Ok(result) => {
                serde_json::from_str(result.get()).map_err(|_| RpcError::invalid_request("the result cannot be read"))
            }
            Err(error) => Err(error.clone()),
        };
        let is_taken = self.pending.answer(id, answer);
        if !is_taken {
            tracing::debug!(?id, "a response without a pending request");
        }
        is_taken
    }

    /// Ends the session: cancels all running requests and rejects new ones.
    pub fn close(&self) {
        self.in_flight.close();
        self.pending.close();
        self.outbox.close();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id is a secret of the session, so it is not printed.
        f.debug_struct("Session").field("version", &self.version).finish_non_exhaustive()
    }
}

fn fingerprint(id: &str) -> Box<str> {
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("{:016x}", hasher.finish()).into()
}

/// One connection or HTTP session: its outgoing messages, its running requests, and their limit. Cheap to clone.
#[derive(Clone)]
pub struct Peer {
    inner: Arc<PeerData>,
}

struct PeerData {
    sender: Arc<dyn FrameSender>,
    in_flight: Arc<InFlight>,
    gate: Arc<Gate>,
    notifications: Arc<NotificationQueue>,
}

impl Peer {
    /// Creates a peer. Messages without a request go to `sender`; at most `handlers` handlers run at once.
    #[must_use]
    pub fn new(sender: Arc<dyn FrameSender>, handlers: usize) -> Self {
        let (in_flight, notifications) = (Arc::default(), Arc::default());
        Self { inner: Arc::new(PeerData { sender, in_flight, gate: Gate::new(handlers), notifications }) }
    }

    /// Cancels a running request. An unknown id is ignored, because the request may have ended already.
    pub fn cancel(&self, id: &RequestId) {
        self.inner.in_flight.cancel(id, None);
    }

    /// Whether a request runs.
    #[must_use]
    pub fn is_running(&self, id: &RequestId) -> bool {
        self.inner.in_flight.contains(id)
    }

    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        &self.inner.in_flight
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.inner.gate
    }

    pub(crate) fn notifications(&self) -> &Arc<NotificationQueue> {
        &self.inner.notifications
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mcp_transport::{BoxFuture, Frame, TransportError, TrySendError};

    use super::*;

    /// A connection that takes no messages.
    #[derive(Debug)]
    pub(super) struct NoSender;

    impl FrameSender for NoSender {
        fn send(&self, _frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
            Box::pin(std::future::ready(Err(TransportError::closed())))
        }

        fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
            Err(TrySendError::Closed(frame))
        }

        fn ready(&self, _len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
            Box::pin(std::future::ready(Err(TransportError::closed())))
        }

        fn close(&self, _id: &RequestId) {}

        fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
}
