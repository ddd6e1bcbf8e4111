//! What a legacy client said at `initialize`, and what of it changes while the session lasts.

mod asked;
mod pages;
mod told;

use std::{
    collections::{HashMap, hash_map::Entry},
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use mcp_protocol::{
    ClientCapabilities, Implementation, InputRequest, LoggingLevel, ProtocolVersion, RequestId, RpcError,
    ServerCapabilities, jsonrpc,
};
use mcp_transport::FrameSender;
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::{asked::Asked, pages::Pages, told::Told};
use crate::{heard::Heard, inputs::InputError};

/// A legacy session: one stdio process after `initialize`, or one HTTP session.
pub struct Session {
    id: Option<Box<str>>,
    version: ProtocolVersion,
    client_info: Implementation,
    client_capabilities: ClientCapabilities,
    initialized: AtomicBool,
    log_level: Mutex<LoggingLevel>,
    outbox: Arc<dyn FrameSender>,
    in_flight: Arc<InFlight>,
    asked: Asked,
    told: Told,
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
            outbox: peer.outbox.clone(),
            in_flight: peer.in_flight.clone(),
            asked: Asked::default(),
            told: Told::new(promised),
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
        self.told.close();
        self.asked.close();
    }

    /// Whether it can be asked nothing any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.asked.is_closed()
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
        self.asked.ask(request, sink, &*self.outbox, about).await
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
        if self.is_initialized() && self.outbox.try_send(mcp_transport::Frame::new(message)).is_err() {
            tracing::debug!("a session does not read: a notification was dropped");
        }
    }

    /// Takes a response of the client. One that nobody waits for came too late, or from nowhere: it changes nothing.
    pub fn answered(&self, response: &jsonrpc::Response<'_>) {
        let Some(id) = &response.id else { return };
        let answer = match &response.outcome {
            Ok(result) => {
                serde_json::from_str(result.get()).map_err(|_| RpcError::invalid_request("the result cannot be read"))
            }
            Err(error) => Err(error.clone()),
        };
        if !self.asked.answer(id, answer) {
            tracing::debug!(?id, "a response that nobody waits for");
        }
    }

    /// Cancels everything that still runs, and lets nothing more begin: the session is over.
    pub fn close(&self) {
        self.in_flight.close();
        self.asked.close();
        self.told.close();
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
    outbox: Arc<dyn FrameSender>,
    in_flight: Arc<InFlight>,
    gate: Arc<Gate>,
    heard: Arc<Heard>,
}

impl Peer {
    /// A peer whose unasked messages go to `outbox`, and for which at most `handlers` handlers run at once.
    #[must_use]
    pub fn new(outbox: Arc<dyn FrameSender>, handlers: usize) -> Self {
        Self { outbox, in_flight: Arc::default(), gate: Gate::new(handlers), heard: Arc::default() }
    }

    pub(crate) fn in_flight(&self) -> &Arc<InFlight> {
        &self.in_flight
    }

    pub(crate) fn gate(&self) -> &Arc<Gate> {
        &self.gate
    }

    pub(crate) fn heard(&self) -> &Arc<Heard> {
        &self.heard
    }
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

/// The requests of a peer that are being served, so that a cancellation finds them.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    table: Mutex<Table>,
    next: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    requests: HashMap<RequestId, Running>,
    /// All were cancelled, and no more come.
    is_closed: bool,
}

/// Why a request is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotEntered {
    /// One with the same id is still being served.
    InUse,
    /// The session ended while the request was on its way.
    Over,
}

/// A request that runs: the number tells it from a later one with the same id.
#[derive(Debug)]
struct Running {
    number: u64,
    token: CancellationToken,
}

impl InFlight {
    /// Enters a request, so that a cancellation or the end of its session finds it.
    ///
    /// # Errors
    /// See [`NotEntered`].
    pub(crate) fn enter(
        self: &Arc<Self>,
        id: &RequestId,
        token: &CancellationToken,
    ) -> Result<InFlightGuard, NotEntered> {
        let mut table = self.lock();
        if table.is_closed {
            return Err(NotEntered::Over);
        }
        match table.requests.entry(id.clone()) {
            Entry::Occupied(_) => Err(NotEntered::InUse),
            Entry::Vacant(slot) => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                slot.insert(Running { number, token: token.clone() });
                Ok(InFlightGuard { table: self.clone(), id: id.clone(), number })
            }
        }
    }

    /// Fires the token of a request, whose id is free then; an unknown id is a race that the peer lost, and nothing else.
    pub(crate) fn cancel(&self, id: &RequestId) {
        let running = self.lock().requests.remove(id);
        if let Some(running) = running {
            running.token.cancel();
        }
    }

    /// Cancels all, and takes no more.
    pub(crate) fn close(&self) {
        let requests = {
            let mut table = self.lock();
            table.is_closed = true;
            std::mem::take(&mut table.requests)
        };
        for running in requests.values() {
            running.token.cancel();
        }
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Table> {
        self.table.lock()
    }
}

/// Takes its request out of the table when dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard {
    table: Arc<InFlight>,
    id: RequestId,
    number: u64,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        let mut table = self.table.lock();
        if table.requests.get(&self.id).is_some_and(|running| running.number == self.number) {
            table.requests.remove(&self.id);
        }
    }
}

/// Counts what runs at once, and refuses above its cap instead of queueing.
#[derive(Debug)]
pub(crate) struct Gate {
    used: AtomicUsize,
    cap: usize,
}

impl Gate {
    pub(crate) fn new(cap: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), cap })
    }

    pub(crate) fn enter(self: &Arc<Self>) -> Option<Pass> {
        let entered = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| (used < self.cap).then_some(used + 1))
            .is_ok();
        entered.then(|| Pass { gate: self.clone() })
    }
}

/// A place at a [`Gate`], given back when dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.used.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_refuses_above_its_cap_and_takes_places_back() {
        let gate = Gate::new(2);
        let first = gate.enter().unwrap();
        let second = gate.enter().unwrap();
        assert!(gate.enter().is_none());
        drop(first);
        let third = gate.enter();
        assert!(third.is_some());
        assert!(gate.enter().is_none());
        drop((second, third));
        assert_eq!(gate.used.load(Ordering::Acquire), 0);
    }

    #[test]
    fn requests_leave_the_table_and_ids_keep_their_type() {
        let table = Arc::new(InFlight::default());
        let (a, b) = (CancellationToken::new(), CancellationToken::new());
        let guard = table.enter(&RequestId::from(1), &a).unwrap();
        assert_eq!(table.enter(&RequestId::from(1), &b).unwrap_err(), NotEntered::InUse);
        let other = table.enter(&RequestId::from("1"), &b).unwrap();
        table.cancel(&RequestId::from("1"));
        table.cancel(&RequestId::from("2"));
        assert!(b.is_cancelled() && !a.is_cancelled());
        // The id of a cancelled request is free, and the old guard leaves its new owner alone.
        let again = table.enter(&RequestId::from("1"), &a).unwrap();
        drop(other);
        assert_eq!(table.enter(&RequestId::from("1"), &a).unwrap_err(), NotEntered::InUse);
        drop((guard, again));
        assert!(table.lock().requests.is_empty());
    }

    #[test]
    fn a_request_that_comes_after_the_end_does_not_begin() {
        let table = Arc::new(InFlight::default());
        let (before, after) = (CancellationToken::new(), CancellationToken::new());
        let _guard = table.enter(&RequestId::from(1), &before).unwrap();
        table.close();
        assert!(before.is_cancelled());
        assert_eq!(table.enter(&RequestId::from(2), &after).unwrap_err(), NotEntered::Over);
        assert!(table.lock().requests.is_empty());
    }
}
