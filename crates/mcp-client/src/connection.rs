//! One connection: the negotiated revision, and the requests that wait on it. A lost connection is replaced by a new
//! one.

mod cancelled_calls;
pub(crate) mod connector;
pub(crate) mod era;
pub(crate) mod era_check;
mod manager;
mod negotiated;
mod notification;
pub(crate) mod pause;
mod pending;
mod reader;
mod receiver;
mod request;
mod response;
mod running_call;
pub(crate) mod supervisor;
pub(crate) mod sync;

use std::{
    collections::VecDeque,
    sync::{
        Arc, Once, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{
    CancelledParams, ClientCapabilities, NotificationMethod, ProtocolVersion, RequestId, jsonrpc,
    notification::Cancelled,
};
use mcp_transport::{Exchange, Frame, FrameSender, Hints, PauseClock, Route, TransportError, TrySendError};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio_util::sync::CancellationToken;

use self::era_check::EraCheck;
use crate::{
    Error, Limits,
    error::Kind,
    retry::{EraTrust, RequestFailure},
};

pub use self::{
    connector::{ConnectorSettings, IntoConnector, OpenTransport},
    negotiated::Negotiated,
    notification::Notification,
    running_call::CallInfo,
};
pub(crate) use self::{
    manager::{ConnectionManager, Status},
    pending::{PendingRequests, ReplySlot, RequestOutcome},
    reader::read,
    receiver::{Receiver, StreamReceiver},
    request::{InputResponses, MetaTemplate, Request, RequestExtras, write_request},
    running_call::{Asker, OwnHandler, RunningCall},
};

/// The negotiated revision of a connection, and the metadata of its requests.
#[derive(Debug)]
pub(crate) struct Agreement {
    pub(crate) negotiated: Arc<Negotiated>,
    meta_template: MetaTemplate,
    with_tasks: MetaTemplate,
    of_call: Mutex<Option<CallTemplate>>,
}

/// The metadata of the last call that declared capabilities of its own.
#[derive(Debug)]
struct CallTemplate {
    capabilities: ClientCapabilities,
    declares_tasks: bool,
    template: Arc<MetaTemplate>,
}

impl Agreement {
    /// Returns the metadata of a call that declares these capabilities. `write` creates it if the last such call declared others.
    pub(crate) fn call_template(
        &self,
        capabilities: &ClientCapabilities,
        declares_tasks: bool,
        write: impl FnOnce() -> MetaTemplate,
    ) -> Arc<MetaTemplate> {
        let mut last = self.of_call.lock();
        if let Some(last) = last.as_ref()
            && last.declares_tasks == declares_tasks
            && last.capabilities == *capabilities
        {
            return Arc::clone(&last.template);
        }
        let template = Arc::new(write());
        let (capabilities, template_of_call) = (capabilities.clone(), Arc::clone(&template));
        *last = Some(CallTemplate { capabilities, declares_tasks, template: template_of_call });
        template
    }

    /// Returns the metadata of a request, with or without the declaration that it can become a task.
    pub(crate) fn meta_template(&self, declares_tasks: bool) -> &MetaTemplate {
        if declares_tasks { &self.with_tasks } else { &self.meta_template }
    }
}

/// One connection to the server.
pub(crate) struct Connection {
    /// No other connection of this program has this number.
    pub(crate) number: u64,
    pub(crate) sender: Arc<dyn FrameSender>,
    pub(crate) pending: PendingRequests,
    /// Paused while the user answers the authorizer, or a request of the server that belongs to no call.
    pub(crate) clock: PauseClock,
    /// The largest depth of a message of the server.
    json_depth: usize,
    /// The last check of the era.
    pub(crate) era_check: EraCheck,
    agreed: OnceLock<Agreement>,
    /// An earlier client negotiated the revision, and no answer has confirmed it.
    is_assumed: AtomicBool,
    /// Notifications that exceeded the capacity of the transport. Each holds the permit of its request, which bounds
    /// their number.
    delayed: Mutex<VecDeque<(Frame, Option<OwnedSemaphorePermit>)>>,
    delayed_more: Notify,
    /// The connection accepts no more requests.
    ended: CancellationToken,
    /// The connection delivers nothing more.
    stopped: CancellationToken,
    fault: OnceLock<TransportError>,
    /// The act by which the peer showed that it is not an MCP server.
    foreign: OnceLock<Box<str>>,
    /// Whether the connection replaces an earlier one.
    is_replacement: bool,
    /// The report that notifications between the two connections may be lost.
    gap: Once,
}

impl Connection {
    pub(crate) fn new(sender: Arc<dyn FrameSender>, limits: &Limits, is_replacement: bool) -> Arc<Self> {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            number: LAST.fetch_add(1, Ordering::Relaxed) + 1,
            sender,
            pending: PendingRequests::new(limits.pending),
            clock: PauseClock::new(),
            json_depth: limits.json_depth,
            era_check: EraCheck::default(),
            agreed: OnceLock::new(),
            is_assumed: AtomicBool::new(false),
            delayed: Mutex::default(),
            delayed_more: Notify::new(),
            ended: CancellationToken::new(),
            stopped: CancellationToken::new(),
            fault: OnceLock::new(),
            foreign: OnceLock::new(),
            is_replacement,
            gap: Once::new(),
        })
    }

    /// Stores the negotiated revision. The first call counts.
    pub(crate) fn agree(&self, negotiated: Negotiated, meta_template: MetaTemplate, with_tasks: MetaTemplate) {
        let _ = self.agreed.set(Agreement {
            negotiated: Arc::new(negotiated),
            meta_template,
            with_tasks,
            of_call: Mutex::default(),
        });
    }

    /// Returns the negotiated revision; `None` while the connection is being opened.
    pub(crate) fn agreed(&self) -> Option<&Agreement> {
        self.agreed.get()
    }

    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        self.agreed.get().map(|agreed| agreed.negotiated.version)
    }

    /// Returns true if no answer has confirmed the revision of an earlier client.
    pub(crate) fn is_assumed(&self) -> bool {
        self.is_assumed.load(Ordering::Relaxed)
    }

    /// Sets whether the revision is unconfirmed.
    pub(crate) fn assume(&self, is_assumed: bool) {
        self.is_assumed.store(is_assumed, Ordering::Relaxed);
    }

    /// Calls `report` once if notifications may have been lost between an earlier connection and this one. Returns after the report.
    pub(crate) fn report_gap(&self, report: impl FnOnce()) {
        if self.is_replacement {
            // A panic of another report does not repeat.
            self.gap.call_once_force(|_| report());
        }
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

    /// Ends the connection: all waiting requests fail, and the reading task stops.
    pub(crate) fn end(&self, fault: Option<TransportError>) {
        if let Some(fault) = fault {
            let _ = self.fault.set(fault);
        }
        self.pending.end(self.fault.get());
        self.ended.cancel();
        self.stopped.cancel();
    }

    /// Accepts no more requests, because the server lost the session or changed its era. Waiting requests still receive
    /// their answers, as each has its own.
    pub(crate) fn retire(&self, fault: TransportError) {
        let _ = self.fault.set(fault);
        // This comes first: a call that is refused capacity treats a connection that has not ended as broken.
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

    /// Returns the error of a request that this connection lost.
    pub(crate) fn lost(&self) -> Error {
        Kind::Lost(self.fault().cloned()).into()
    }

    /// Returns the fault that ended the connection.
    pub(crate) fn fault(&self) -> Option<&TransportError> {
        self.fault.get()
    }

    /// Fails all waiting requests and cancels them on the server, within a time limit. The reading task then closes the
    /// transport.
    pub(crate) async fn close(&self, limit: Duration) {
        let waiting = self.pending.end(None);
        let closing = async {
            for id in waiting {
                if let Some(notice) = self.cancellation(id, "the client is closed") {
                    // Closing the transport reports the errors.
                    let _ = self.sender.send(notice).await;
                }
                self.sender.close(&id.into());
            }
            self.flush_delayed().await;
        };
        if tokio::time::timeout(limit, closing).await.is_err() {
            tracing::debug!("the client could not cancel all requests in time");
        }
        self.end(None);
    }

    /// Sends a request. If it `follows`, the guard also receives progress after the answer, because a task continues.
    /// `questions` is the call, if the server can ask it for input.
    pub(crate) async fn send_request(
        self: &Arc<Self>,
        id: i64,
        message: Vec<u8>,
        hints: Hints,
        follows: bool,
        questions: Option<Arc<RunningCall>>,
    ) -> Result<RequestGuard, RequestFailure> {
        let slot = ReplySlot::of_call(self.pending.permit().await?, follows, questions);
        self.hand_over(id, message, hints, OnDrop::Cancel, slot, true).await
    }

    /// Sends a request whose stream delivers notifications.
    pub(crate) async fn send_subscription(
        self: &Arc<Self>,
        id: i64,
        message: Vec<u8>,
        hints: Hints,
        receiver: Arc<dyn StreamReceiver>,
    ) -> Result<RequestGuard, RequestFailure> {
        let slot = ReplySlot::new(self.pending.permit().await?, Some(receiver), false);
        self.hand_over(id, message, hints, OnDrop::Cancel, slot, false).await
    }

    /// Sends a request without waiting for capacity. Only handshakes and pings do so, and they are few. A busy server
    /// answers them too.
    pub(crate) async fn send_without_permit(
        self: &Arc<Self>,
        id: i64,
        message: Vec<u8>,
        hints: Hints,
        on_drop: OnDrop,
    ) -> Result<RequestGuard, RequestFailure> {
        self.hand_over(id, message, hints, on_drop, ReplySlot::new(None, None, false), false).await
    }

    /// Sends a request. If the caller `polls` the guard until the answer and no other answer is due, the request can run in its
    /// future.
    async fn hand_over(
        self: &Arc<Self>,
        id: i64,
        message: Vec<u8>,
        hints: Hints,
        on_drop: OnDrop,
        slot: Arc<ReplySlot>,
        polls: bool,
    ) -> Result<RequestGuard, RequestFailure> {
        self.pending.insert(id, slot.clone())?;
        let mut guard =
            RequestGuard { connection: Arc::clone(self), id, slot, exchange: Mutex::default(), on_abandon: None };
        let frame = Frame::new(message).with_route(Route::Request(id.into())).with_hints(hints);
        // Tasks are cheaper for requests at the same time: each step runs for many of them in a row, in a warm cache.
        let sent = match polls && self.pending.is_only_call(id) {
            true => self.sender.exchange(frame).await,
            false => self.sender.send(frame).await.map(|()| None),
        };
        *guard.exchange.get_mut() = sent.map_err(|fault| match fault.is_lasting() {
            true => RequestFailure::Unsendable(fault),
            // If the connection ended meanwhile, the request has failed already.
            false => RequestFailure::Lost { was_sent: false, fault: Some(fault) },
        })?;
        guard.slot.sent(on_drop == OnDrop::Cancel);
        Ok(guard)
    }

    /// Returns a frame with a notification.
    pub(crate) fn notice(&self, method: &str, message: Vec<u8>) -> Frame {
        Frame::new(message).with_hints(hints(self.version(), method))
    }

    /// Cancels a request on the server, in the form that the revision and the transport define.
    fn cancel(&self, id: i64, slot: &ReplySlot) {
        let permit = slot.permit.lock().take();
        let reason = slot.cancellation_reason();
        let reason = reason.as_deref().unwrap_or("the caller does not wait for it any more");
        if let Some(notice) = self.cancellation(id, reason)
            && let Err(TrySendError::Full(frame)) = self.sender.try_send(notice)
        {
            self.delayed.lock().push_back((frame, permit));
            self.delayed_more.notify_one();
        }
        // Closing the stream of the request discards its messages. Over HTTP it also cancels the request.
        self.sender.close(&id.into());
    }

    /// Returns the notification that cancels a request; `None` if the end of its stream cancels it.
    fn cancellation(&self, id: i64, reason: &str) -> Option<Frame> {
        if self.version().is_some_and(ProtocolVersion::is_stateless) && self.sender.has_request_streams() {
            return None;
        }
        let params = CancelledParams::new(RequestId::from(id)).with_reason(reason);
        let message = jsonrpc::notification(Cancelled::NAME, &params).ok()?;
        Some(self.notice(Cancelled::NAME, message))
    }

    /// Sends the delayed notifications until the connection ends.
    async fn send_delayed(&self) {
        loop {
            self.delayed_more.notified().await;
            if !self.flush_delayed().await {
                return;
            }
        }
    }

    /// Sends the delayed notifications. Returns false when the connection has ended.
    async fn flush_delayed(&self) -> bool {
        loop {
            let next = self.delayed.lock().pop_front();
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

/// The effect of dropping a guard before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDrop {
    /// The request is cancelled on the server.
    Cancel,
    /// The server is not notified. The stream of the request is closed, if it has one.
    Forget,
}

/// A sent request. Dropping the guard cancels the request.
pub(crate) struct RequestGuard {
    connection: Arc<Connection>,
    pub(crate) id: i64,
    slot: Arc<ReplySlot>,
    /// The request, until the caller has its response or the transport delivers it. The lock is never taken: it makes the
    /// guard `Sync`.
    exchange: Mutex<Option<Exchange>>,
    on_abandon: Option<OnAbandon>,
}

/// Takes over a request whose guard is dropped before the caller has read the answer.
pub(crate) struct OnAbandon {
    /// Also takes over a request without an answer. Otherwise the client cancels such a request.
    pub(crate) awaits_answer: bool,
    pub(crate) take_over: Box<dyn FnOnce(RequestGuard) + Send + Sync>,
}

impl RequestGuard {
    pub(crate) fn connection(&self) -> &Arc<Connection> {
        &self.connection
    }

    pub(crate) fn slot(&self) -> &ReplySlot {
        &self.slot
    }

    /// Sets the function that takes over the request when this guard is dropped.
    pub(crate) fn on_abandon(&mut self, on_abandon: OnAbandon) {
        self.on_abandon = Some(on_abandon);
    }

    /// Records that the caller has handled the answer, so no function takes over the request any more.
    pub(crate) fn answer_handled(&mut self) {
        self.on_abandon = None;
    }

    /// Records that the call of the request has ended. The questions of a task that it became name the task.
    pub(crate) fn call_ended(&self) {
        self.connection.pending.end_call(&self.slot);
    }

    /// Waits for the answer, without a time limit.
    pub(crate) async fn outcome(&mut self) -> RequestOutcome {
        loop {
            if let Some(outcome) = self.take_outcome() {
                return outcome;
            }
            self.changed().await;
        }
    }

    /// Waits for an outcome or progress, and runs the request meanwhile. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        let exchange = self.exchange.get_mut();
        if let Some(running) = exchange {
            let response = tokio::select! {
                biased;
                () = self.slot.changed() => return,
                response = running => response,
            };
            *exchange = None;
            if let Some(response) = response {
                return self.connection.exchanged(self.id, &response);
            }
            if !self.connection.pending.is_waiting(self.id) {
                // The answer came elsewhere before the transport could close the stream.
                self.connection.sender.close(&self.id.into());
            }
        }
        self.slot.changed().await;
    }

    /// Takes the outcome. A request with an outcome does not run any more.
    pub(crate) fn take_outcome(&mut self) -> Option<RequestOutcome> {
        let outcome = self.slot.take_outcome()?;
        *self.exchange.get_mut() = None;
        Some(outcome)
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let is_unread = self.slot.is_cancelled_by_drop() && !self.slot.is_read();
        let on_abandon = self.on_abandon.take().filter(|_| is_unread);
        let mut take_over = |on_abandon: OnAbandon| {
            let (connection, slot) = (Arc::clone(&self.connection), Arc::clone(&self.slot));
            let exchange = Mutex::new(self.exchange.get_mut().take());
            (on_abandon.take_over)(Self { connection, id: self.id, slot, exchange, on_abandon: None });
        };
        let on_abandon = match on_abandon {
            Some(on_abandon) if on_abandon.awaits_answer => return take_over(on_abandon),
            other => other,
        };
        if !self.connection.pending.remove(self.id) {
            // The answer has arrived, so the server ignores a cancellation of the request.
            return on_abandon.map_or((), take_over);
        }
        if self.slot.is_cancelled_by_drop() {
            self.connection.cancel(self.id, &self.slot);
        } else {
            // The request is not cancelled, but its stream is not read any more.
            self.connection.sender.close(&self.id.into());
        }
    }
}
