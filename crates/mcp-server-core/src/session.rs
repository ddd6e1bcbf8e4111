//! What a legacy client said at `initialize`, and what of it changes while the session lasts.

mod client;
mod gate;
mod in_flight;
mod incoming;
mod outbox;
mod pages;
mod pending;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use mcp_protocol::{
    ClientCapabilities, Implementation, InputRequest, LoggingLevel, ProtocolVersion, RequestId, RpcError,
    ServerCapabilities, jsonrpc,
};
use mcp_transport::FrameSender;
use parking_lot::Mutex;
use serde_json::Value;

pub use self::incoming::ClientNotification;
pub(crate) use self::{
    client::{Client, RequestClient},
    gate::{Gate, Pass},
    in_flight::{InFlight, InFlightGuard, NotEntered},
    incoming::NotificationHook,
};
use self::{
    incoming::NotificationQueue,
    outbox::Outbox,
    pages::Pages,
    pending::{Answer, PendingRequests},
};
use crate::error::InputError;

/// A legacy session: one stdio process after `initialize`, or one HTTP session.
pub struct Session {
    id: Option<Box<str>>,
    version: ProtocolVersion,
    client_info: Implementation,
    client_capabilities: ClientCapabilities,
    initialized: AtomicBool,
    log_level: Mutex<LoggingLevel>,
    sender: Arc<dyn FrameSender>,
    in_flight: Arc<InFlight>,
    pending: PendingRequests,
    outbox: Outbox,
    pages: Pages,
}

impl Session {
    /// A session whose client was told of these capabilities.
    pub(crate) fn new(
        id: Option<Box<str>>,
        version: ProtocolVersion,
        client_info: Implementation,
        client_capabilities: ClientCapabilities,
        promised: &ServerCapabilities,
        peer: &Peer,
    ) -> Self {
        Self {
            id,
            version,
            client_info,
            client_capabilities,
            initialized: AtomicBool::new(false),
            log_level: Mutex::new(LoggingLevel::Info),
            sender: peer.sender.clone(),
            in_flight: peer.in_flight.clone(),
            pending: PendingRequests::default(),
            outbox: Outbox::new(promised),
            pages: Pages::default(),
        }
    }

    /// The id that HTTP gave it; `None` on stdio.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// The negotiated revision.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.version
    }

    /// What the client is called. Icons that come as `data:` are left out where they are large.
    #[must_use]
    pub fn client_info(&self) -> &Implementation {
        &self.client_info
    }

    /// What the client can do, as far as the revision knows it.
    #[must_use]
    pub fn client_capabilities(&self) -> &ClientCapabilities {
        &self.client_capabilities
    }

    /// Whether `notifications/initialized` arrived. Before that, nothing unasked is sent.
    #[must_use]
    pub fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    pub(crate) fn mark_initialized(&self) {
        self.initialized.store(true, Ordering::Release);
    }

    /// Another session took the place of this one on its connection: nothing unasked is sent for it any more.
    pub(crate) fn retire(&self) {
        self.initialized.store(false, Ordering::Release);
        self.outbox.close();
        self.pending.close();
    }

    /// Whether it can be asked nothing any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.pending.is_closed()
    }

    /// The lowest level of log records that the client wants. `info` until it says otherwise.
    #[must_use]
    pub fn log_level(&self) -> LoggingLevel {
        *self.log_level.lock()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        *self.log_level.lock() = level;
    }

    /// Asks the client, about one of its requests.
    pub(crate) async fn ask(
        &self,
        request: &InputRequest,
        sink: Option<&dyn FrameSender>,
        about: &RequestId,
    ) -> Result<Value, InputError> {
        self.pending.ask(request, sink, &*self.sender, about).await
    }

    /// The user is sent to a page under this id.
    pub(crate) fn sends_to(&self, page: &str) {
        self.pages.add(page);
    }

    /// Whether the user was sent to the page under this id. It is forgotten.
    pub(crate) fn forget_page(&self, page: &str) -> bool {
        self.pages.remove(page)
    }

    /// Sends something that the client did not ask for now. It is lost when the client does not read.
    pub(crate) fn send(&self, message: Vec<u8>) {
        if self.is_initialized() && self.sender.try_send(mcp_transport::Frame::new(message)).is_err() {
            tracing::debug!("a session does not read: a notification was dropped");
        }
    }

    /// Takes a response of the client. One that nobody waits for came too late, or from nowhere: it changes nothing.
    pub fn answered(&self, response: &jsonrpc::Response<'_>) {
        let Some(id) = &response.id else { return };
        let answer: Answer = match &response.outcome {
            Ok(result) => {
                serde_json::from_str(result.get()).map_err(|_| RpcError::invalid_request("the result cannot be read"))
            }
            Err(error) => Err(error.clone()),
        };
        if !self.pending.answer(id, answer) {
            tracing::debug!(?id, "a response that nobody waits for");
        }
    }

    /// Cancels everything that still runs, and lets nothing more begin: the session is over.
    pub fn close(&self) {
        self.in_flight.close();
        self.pending.close();
        self.outbox.close();
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The id lets its holder speak for the session, so it is not printed.
        f.debug_struct("Session").field("version", &self.version).finish_non_exhaustive()
    }
}

/// The other end of one connection or HTTP session: where unasked messages go, what runs for it, how much may.
#[derive(Clone)]
pub struct Peer {
    sender: Arc<dyn FrameSender>,
    in_flight: Arc<InFlight>,
    gate: Arc<Gate>,
    notifications: Arc<NotificationQueue>,
}

impl Peer {
    /// A peer whose unasked messages go to `sender`, and for which at most `handlers` handlers run at once.
    #[must_use]
    pub fn new(sender: Arc<dyn FrameSender>, handlers: usize) -> Self {
        Self { sender, in_flight: Arc::default(), gate: Gate::new(handlers), notifications: Arc::default() }
    }

    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        &self.in_flight
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(crate) fn notifications(&self) -> &Arc<NotificationQueue> {
        &self.notifications
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}
