//! One connection: what was agreed on it, and the requests that wait on it. It never opens again; a new one takes its place.

mod clock;
pub(crate) mod connector;
pub(crate) mod era;
pub(crate) mod era_check;
mod manager;
mod negotiated;
mod notification;
mod pending;
mod reader;
mod receiver;
mod request;
pub(crate) mod supervisor;

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{CancelledParams, NotificationMethod, ProtocolVersion, RequestId, jsonrpc, notification::Cancelled};
use mcp_transport::{Frame, FrameSender, Hints, Route, TransportError, TrySendError};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use self::{era_check::EraCheck, request::MetaTemplate};
use crate::{
    Error,
    error::Kind,
    retry::{EraTrust, RequestFailure},
};

pub(crate) use self::{
    clock::Clock,
    manager::{ConnectionManager, Status},
    pending::{PendingRequests, ReplySlot, RequestOutcome},
    reader::read,
    receiver::{Receiver, StreamReceiver},
    request::{InputResponses, Request, RequestExtras, write_request},
};
pub use self::{
    connector::{IntoConnector, OpenTransport},
    negotiated::Negotiated,
    notification::Notification,
};

/// What was agreed on a connection.
#[derive(Debug)]
pub(crate) struct Agreement {
    pub(crate) negotiated: Arc<Negotiated>,
    stamp: MetaTemplate,
    with_tasks: MetaTemplate,
}

impl Agreement {
    /// The metadata of a request, which may become a task or not.
    pub(crate) fn stamp(&self, declares_tasks: bool) -> &MetaTemplate {
        if declares_tasks { &self.with_tasks } else { &self.stamp }
    }
}

/// One connection to the server.
pub(crate) struct Connection {
    pub(crate) sender: Arc<dyn FrameSender>,
    pub(crate) pending: PendingRequests,
    pub(crate) clock: Arc<Clock>,
    /// The last check of the era.
    pub(crate) era_check: EraCheck,
    agreed: OnceLock<Agreement>,
    /// What was agreed is the word of an earlier client, and nothing that came says that it still holds.
    is_assumed: AtomicBool,
    /// Notices that did not find room at once. Each holds the place of the request it is about, so they are never more than
    /// those.
    unsaid: Mutex<VecDeque<(Frame, Option<OwnedSemaphorePermit>)>>,
    said_more: Notify,
    /// It takes no more requests.
    ended: CancellationToken,
    /// Nothing more comes of it.
    stopped: CancellationToken,
    fault: OnceLock<TransportError>,
    /// What the peer did that no MCP server does, before a revision was negotiated.
    foreign: OnceLock<Box<str>>,
}

impl Connection {
    pub(crate) fn new(sender: Arc<dyn FrameSender>, pending: usize) -> Arc<Self> {
        Arc::new(Self {
            sender,
            pending: PendingRequests::new(pending),
            clock: Arc::default(),
            era_check: EraCheck::default(),
            agreed: OnceLock::new(),
            is_assumed: AtomicBool::new(false),
            unsaid: Mutex::default(),
            said_more: Notify::new(),
            ended: CancellationToken::new(),
            stopped: CancellationToken::new(),
            fault: OnceLock::new(),
            foreign: OnceLock::new(),
        })
    }

    /// Says what was agreed; the first word counts.
    pub(crate) fn agree(&self, negotiated: Negotiated, stamp: MetaTemplate, with_tasks: MetaTemplate) {
        let _ = self.agreed.set(Agreement { negotiated: Arc::new(negotiated), stamp, with_tasks });
    }

    /// What was agreed; nothing while the connection is being opened.
    pub(crate) fn agreed(&self) -> Option<&Agreement> {
        self.agreed.get()
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.agreed.get().map(|agreed| agreed.negotiated.version)
    }

    /// Whether what was agreed is assumed alone.
    pub(crate) fn is_assumed(&self) -> bool {
        self.is_assumed.load(Ordering::Relaxed)
    }

    /// What was agreed is assumed, or turned out to hold.
    pub(crate) fn assume(&self, is_assumed: bool) {
        self.is_assumed.store(is_assumed, Ordering::Relaxed);
    }

    /// Records that the peer behaved unlike an MCP server. Has no effect once a revision was negotiated.
    pub(crate) fn set_foreign(&self, act: impl Into<Box<str>>) {
        if self.agreed.get().is_none() {
            let _ = self.foreign.set(act.into());
        }
    }

    /// Returns what the peer did that no MCP server does.
    pub(crate) fn foreign(&self) -> Option<&str> {
        self.foreign.get().map(|act| &**act)
    }

    /// Returns how certain the negotiated era is.
    pub(crate) fn era_trust(&self) -> EraTrust {
        match self.is_assumed() {
            true => EraTrust::Assumed,
            false if self.sender.has_request_streams() => EraTrust::Negotiated,
            false => EraTrust::Certain,
        }
    }

    /// Ends it: everything that waits fails, and the reading task stops.
    pub(crate) fn end(&self, fault: Option<TransportError>) {
        if let Some(fault) = fault {
            let _ = self.fault.set(fault);
        }
        self.pending.end(self.fault.get());
        self.ended.cancel();
        self.stopped.cancel();
    }

    /// Takes no more requests: the server has forgotten the session, or is another one than it was taken for. Those that wait are told by themselves what becomes of
    /// them, since each has an answer of its own on its way.
    pub(crate) fn retire(&self, fault: TransportError) {
        let _ = self.fault.set(fault);
        // Before the last who waits for room is turned away: who is takes a connection that is not ended for one that broke.
        self.ended.cancel();
        self.pending.refuse();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(crate) async fn stopped(&self) {
        self.stopped.cancelled().await;
    }

    /// The error of a request that this connection lost.
    pub(crate) fn lost(&self) -> Error {
        Kind::Lost(self.fault().cloned()).into()
    }

    /// Why it ended, when there was a fault.
    pub(crate) fn fault(&self) -> Option<&TransportError> {
        self.fault.get()
    }

    /// Ends it in good order: everything that waits has failed, and the server is told so. All within a bound; then its reading
    /// task shuts the transport down.
    pub(crate) async fn close(&self, limit: Duration) {
        let waiting = self.pending.end(None);
        let closing = async {
            for id in waiting {
                if let Some(notice) = self.cancellation(id, "the client is closed") {
                    // Whether it is still there shows when it is shut down.
                    let _ = self.sender.send(notice).await;
                }
                self.sender.close(&id.into());
            }
            self.say_what_waits().await;
        };
        if tokio::time::timeout(limit, closing).await.is_err() {
            tracing::debug!("the server was not told in time of all that is cancelled");
        }
        self.end(None);
    }

    /// Sends a request and begins to wait for its answer. When it `follows`, its progress is heard after the answer too, as long as
    /// the guard is kept: a task runs on.
    pub(crate) async fn begin(
        self: &Arc<Self>,
        id: i64,
        message: Vec<u8>,
        hints: Hints,
        follows: bool,
    ) -> Result<RequestGuard, RequestFailure> {
        let slot = ReplySlot::new(self.pending.room().await?, None, follows);
        self.hand_over(id, message, hints, OnDrop::Cancel, slot).await
    }

    /// The same, for a request whose stream brings notifications.
    pub(crate) async fn begin_listening(
        self: &Arc<Self>,
        id: i64,
        message: Vec<u8>,
        hints: Hints,
        receiver: Arc<dyn StreamReceiver>,
    ) -> Result<RequestGuard, RequestFailure> {
        let slot = ReplySlot::new(self.pending.room().await?, Some(receiver), false);
        self.hand_over(id, message, hints, OnDrop::Cancel, slot).await
    }

    /// Begins a request that takes no place from others and waits for none: what opens a connection, and signs of life, which
    /// a server that has much to do gives too. There are never many of them.
    pub(crate) async fn begin_beside(
        self: &Arc<Self>,
        id: i64,
        message: Vec<u8>,
        hints: Hints,
        on_drop: OnDrop,
    ) -> Result<RequestGuard, RequestFailure> {
        self.hand_over(id, message, hints, on_drop, ReplySlot::new(None, None, false)).await
    }

    async fn hand_over(
        self: &Arc<Self>,
        id: i64,
        message: Vec<u8>,
        hints: Hints,
        on_drop: OnDrop,
        slot: Arc<ReplySlot>,
    ) -> Result<RequestGuard, RequestFailure> {
        self.pending.insert(id, slot.clone())?;
        let guard = RequestGuard { connection: Arc::clone(self), id, slot, on_abandon: None };
        let frame = Frame::new(message).with_route(Route::Request(id.into())).with_hints(hints);
        if let Err(fault) = self.sender.send(frame).await {
            return Err(match fault.is_lasting() {
                true => RequestFailure::Unsendable(fault),
                // The connection may have ended under the request meanwhile, which then was told so.
                false => RequestFailure::Lost { was_sent: false, fault: Some(fault) },
            });
        }
        guard.slot.sent(on_drop == OnDrop::Cancel);
        Ok(guard)
    }

    /// A notification for the server.
    pub(crate) fn notice(&self, method: &str, message: Vec<u8>) -> Frame {
        Frame::new(message).with_hints(hints(self.version(), method))
    }

    /// Tells the server that nobody waits for a request any more, in the way of the revision and the transport.
    fn cancel(&self, id: i64, permit: Option<OwnedSemaphorePermit>) {
        if let Some(notice) = self.cancellation(id, "nobody waits for it any more")
            && let Err(TrySendError::Full(frame)) = self.sender.try_send(notice)
        {
            self.unsaid.lock().push_back((frame, permit));
            self.said_more.notify_one();
        }
        // Whatever still comes for it is not wanted, and where each request has a stream of its own that is how it is told.
        self.sender.close(&id.into());
    }

    /// The notice that nobody waits for a request any more; none where the end of its stream says so.
    fn cancellation(&self, id: i64, reason: &str) -> Option<Frame> {
        if self.version().is_some_and(ProtocolVersion::is_stateless) && self.sender.has_request_streams() {
            return None;
        }
        let params = CancelledParams::new(RequestId::from(id)).with_reason(reason);
        let message = jsonrpc::notification(Cancelled::NAME, &params).ok()?;
        Some(self.notice(Cancelled::NAME, message))
    }

    /// Sends what found no room at once, for as long as the connection lasts.
    async fn say_the_rest(&self) {
        loop {
            self.said_more.notified().await;
            if !self.say_what_waits().await {
                return;
            }
        }
    }

    /// Sends what found no room at once. Returns false when nothing can be sent any more.
    async fn say_what_waits(&self) -> bool {
        loop {
            let next = self.unsaid.lock().pop_front();
            let Some((frame, _permit)) = next else { return true };
            if self.sender.send(frame).await.is_err() {
                return false;
            }
        }
    }
}

/// The act of a peer that returns each message, such as `cat` ([`Connection::set_foreign`]).
pub(crate) const ECHO: &str = "returned the client's own message";

/// Returns the hints of a message: its revision and its method.
pub(crate) fn hints(version: impl Into<Option<ProtocolVersion>>, method: &str) -> Hints {
    let mut hints = Hints::default();
    hints.version = version.into();
    hints.method = Some(method.into());
    hints
}

/// What becomes of a request whose guard is dropped before its answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDrop {
    /// The server is told.
    Cancel,
    /// Nobody is told: it was not sent, or may not be cancelled. Its stream is closed, where it has one.
    Forget,
}

/// The right to the answer of one request.
pub(crate) struct RequestGuard {
    connection: Arc<Connection>,
    pub(crate) id: i64,
    slot: Arc<ReplySlot>,
    /// Takes over the request when the guard is dropped before the answer came, instead of cancelling it.
    on_abandon: Option<Box<dyn FnOnce(Self) + Send + Sync>>,
}

impl RequestGuard {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub(crate) fn slot(&self) -> &ReplySlot {
        &self.slot
    }

    /// Sets a function that takes over the request when this guard is dropped before the answer came.
    pub(crate) fn on_abandon(&mut self, take_over: impl FnOnce(Self) + Send + Sync + 'static) {
        self.on_abandon = Some(Box::new(take_over));
    }

    /// The answer, however long it takes.
    pub(crate) async fn outcome(&mut self) -> RequestOutcome {
        loop {
            if let Some(outcome) = self.slot.take_outcome() {
                return outcome;
            }
            self.slot.news().await;
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        if let Some(take_over) = self.on_abandon.take()
            && self.slot.is_cancelled_by_drop()
            && self.connection.pending.find(&self.id.into()).is_some()
        {
            let (connection, slot) = (Arc::clone(&self.connection), Arc::clone(&self.slot));
            return take_over(Self { connection, id: self.id, slot, on_abandon: None });
        }
        if !self.connection.pending.remove(self.id) {
            return;
        }
        if self.slot.is_cancelled_by_drop() {
            let permit = self.slot.permit.lock().take();
            self.connection.cancel(self.id, permit);
        } else {
            // Nothing is said about it, but where it has a stream of its own nobody reads that any more.
            self.connection.sender.close(&self.id.into());
        }
    }
}
