//! The requests of a connection that wait for answers: a bounded table.

use std::{
    collections::{BTreeMap, VecDeque},
    pin::pin,
    sync::{Arc, Weak, atomic::Ordering},
};

use bytes::Bytes;
use mcp_protocol::{Method as _, ProgressParams, RequestId, method};
use mcp_transport::{Route, TransportError};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::{
    Asker, RunningCall, StreamReceiver,
    cancelled_calls::CancelledCalls,
    sync::{AtomicBool, AtomicU64, Mutex, MutexGuard},
};
use crate::retry::RequestFailure;

/// The outcome of a request: the raw result, or the reason for its absence.
pub(crate) type RequestOutcome = Result<Bytes, RequestFailure>;

/// The progress notifications that wait for the caller. The oldest are dropped beyond this number.
const PROGRESS: usize = 64;
/// The bytes of their messages. The newest message is always kept.
const PROGRESS_TEXTS: usize = 64 * 1024;

/// The requests of one connection that wait for answers.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    table: Mutex<Table>,
    permits: Arc<Semaphore>,
    answered: AtomicU64,
    /// The caller relays tasks, so it sends the requests for their results when its own client does.
    relays_tasks: AtomicBool,
    /// A call that the server can ask for input has begun.
    begun: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// Ordered, so that a random schedule repeats the order in which the end of a connection wakes the callers.
    waiting: BTreeMap<i64, Arc<ReplySlot>>,
    /// Answered requests whose progress is still delivered.
    followed: BTreeMap<i64, Weak<ReplySlot>>,
    /// The running calls that the server can ask for input, by their numbers. A call that became a task waits between its
    /// requests.
    calls: BTreeMap<u64, Weak<RunningCall>>,
    cancelled: CancelledCalls,
    /// The server sent an input request that names no call.
    has_asked: bool,
    end: Option<Option<TransportError>>,
}

impl PendingRequests {
    pub(crate) fn new(cap: usize) -> Self {
        let permits = Arc::new(Semaphore::new(cap.clamp(1, Semaphore::MAX_PERMITS)));
        Self {
            table: Mutex::default(),
            permits,
            answered: AtomicU64::new(0),
            relays_tasks: AtomicBool::new(false),
            begun: Notify::new(),
        }
    }

    /// Waits for capacity.
    pub(crate) async fn permit(&self) -> Result<OwnedSemaphorePermit, RequestFailure> {
        let closed = |_| RequestFailure::Lost { was_sent: false, fault: None };
        Arc::clone(&self.permits).acquire_owned().await.map_err(closed)
    }

    /// Adds a request.
    pub(crate) fn insert(&self, id: i64, slot: Arc<ReplySlot>) -> Result<(), RequestFailure> {
        let mut table = self.table();
        if let Some(fault) = &table.end {
            return Err(RequestFailure::Lost { was_sent: false, fault: fault.clone() });
        }
        let can_ask = slot.questions.is_some();
        if let Some(call) = &slot.questions {
            table.run(id, call);
        }
        table.waiting.insert(id, slot);
        drop(table);
        if can_ask {
            self.begun.notify_waiters();
        }
        Ok(())
    }

    /// Lets the questions of tasks wait for the requests for their results.
    pub(crate) fn relay_tasks(&self) {
        self.relays_tasks.store(true, Ordering::Relaxed);
    }

    /// Whether the questions of tasks wait for the requests for their results.
    pub(crate) fn relays_tasks(&self) -> bool {
        self.relays_tasks.load(Ordering::Relaxed)
    }

    /// Returns the running request for the result of a task.
    pub(crate) fn call_of_task(&self, task: &str) -> Option<Arc<RunningCall>> {
        self.table().running().find(|call| call.waits_for_task(task))
    }

    /// Waits for a request for the result of a task.
    pub(crate) async fn next_call_of_task(&self, task: &str) -> Arc<RunningCall> {
        loop {
            // A request that begins after the search wakes this future.
            let mut begun = pin!(self.begun.notified());
            begun.as_mut().enable();
            if let Some(call) = self.call_of_task(task) {
                return call;
            }
            begun.await;
        }
    }

    /// Records that a call has ended, although its progress is still delivered. It causes no further question.
    pub(crate) fn end_call(&self, slot: &ReplySlot) {
        if let Some(call) = &slot.questions {
            self.table().calls.remove(&call.number());
        }
    }

    /// Removes a request whose caller does not wait any more. Returns true if it was waiting. The server can already have
    /// sent a question on behalf of its call.
    pub(crate) fn remove(&self, id: i64) -> bool {
        let mut table = self.table();
        table.followed.remove(&id);
        let Some(slot) = table.waiting.remove(&id) else { return false };
        if let Some(call) = slot.questions.as_ref().filter(|call| !call.waits_for_result()) {
            table.cancelled.add(id, call);
        }
        true
    }

    /// Completes a request. Returns true if it was waiting.
    pub(crate) fn complete(&self, id: i64, outcome: RequestOutcome) -> bool {
        let slot = {
            let mut table = self.table();
            table.cancelled.answered(id);
            table.take(id)
        };
        let Some(slot) = slot else { return false };
        self.answered.fetch_add(1, Ordering::Relaxed);
        slot.complete(outcome);
        true
    }

    /// Returns the number of requests that were completed.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Completes the only request that waits for an answer, if there is exactly one. A message without an id belongs to
    /// it.
    pub(crate) fn complete_only(&self, outcome: RequestOutcome) -> bool {
        let only = {
            let table = self.table();
            let mut waiting = table.waiting.iter().filter(|(_, slot)| slot.waits_for_answer());
            match (waiting.next(), waiting.next()) {
                (Some((id, _)), None) => *id,
                _ => return false,
            }
        };
        self.complete(only, outcome)
    }

    /// Returns the slot of a waiting request.
    pub(crate) fn find(&self, id: &RequestId) -> Option<Arc<ReplySlot>> {
        self.table().waiting.get(&number(id)?).cloned()
    }

    /// Whether a request waits for its answer.
    pub(crate) fn is_waiting(&self, id: i64) -> bool {
        self.table().waiting.contains_key(&id)
    }

    /// Whether no other request waits for an answer. The stream of a subscription waits as long as the connection.
    pub(crate) fn is_only_call(&self, id: i64) -> bool {
        self.table().waiting.iter().all(|(other, slot)| *other == id || slot.receiver.is_some())
    }

    /// Returns the slot that receives the progress of a request.
    pub(crate) fn find_progress(&self, id: &RequestId) -> Option<Arc<ReplySlot>> {
        let (id, table) = (number(id)?, self.table());
        table.waiting.get(&id).cloned().or_else(|| table.followed.get(&id)?.upgrade())
    }

    /// Returns whether the server has sent an input request that names no call, and whether no running or cancelled call can
    /// cause another one.
    pub(crate) fn unnamed_questions(&self) -> (bool, bool) {
        let mut table = self.table();
        let is_free = table.running().all(|call| call.waits_for_result())
            && table.cancelled.handlers().is_some_and(|calls| calls.is_empty());
        (table.has_asked, is_free)
    }

    /// Returns the origin of a request of the server that came on this route. If requests have streams of their own, a
    /// request on the stream of the connection belongs to no call.
    pub(crate) fn asker(&self, route: &Route, method: &str, has_request_streams: bool) -> Asker {
        let mut table = self.table();
        let followed = |id: &i64| table.followed.get(id).and_then(Weak::upgrade);
        if let Route::Request(id) = route {
            let slot = number(id).and_then(|id| table.waiting.get(&id).cloned().or_else(|| followed(&id)));
            let Some(slot) = slot else {
                let is_sender = |call: &Arc<RunningCall>| number(id).is_some_and(|id| call.has_sent(id));
                return table.running().find(is_sender).map_or(Asker::Ended, Asker::Call);
            };
            return slot.questions.clone().map_or(Asker::Server { calls: None }, Asker::Call);
        }
        if has_request_streams {
            return Asker::Server { calls: None };
        }
        table.has_asked |= is_input_request(method);
        match table.cancelled.handlers() {
            Some(cancelled) => Asker::among(method, table.candidates().into_iter(), &cancelled),
            None => Asker::Ambiguous,
        }
    }

    /// Accepts no more requests. Waiting requests are not affected.
    pub(crate) fn refuse(&self) {
        self.permits.close();
    }

    /// Fails all requests, because the connection has ended. Returns those that can be cancelled on the server.
    pub(crate) fn end(&self, fault: Option<&TransportError>) -> Vec<i64> {
        let waiting = {
            let mut table = self.table();
            table.end.get_or_insert_with(|| fault.cloned());
            table.followed.clear();
            std::mem::take(&mut table.waiting)
        };
        self.permits.close();
        let mut cancelled = Vec::new();
        for (id, slot) in waiting {
            slot.complete(Err(RequestFailure::Lost { was_sent: true, fault: fault.cloned() }));
            if slot.is_cancelled_by_drop() {
                cancelled.push(id);
            }
        }
        cancelled
    }

    pub(crate) fn len(&self) -> usize {
        self.table().waiting.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Table {
    /// Adds a request of a call that the server can ask for input.
    fn run(&mut self, id: i64, call: &Arc<RunningCall>) {
        call.sent(id);
        if self.calls.len() > 2 * self.waiting.len() + 16 {
            self.calls.retain(|_, call| call.strong_count() > 0);
        }
        self.calls.insert(call.number(), Arc::downgrade(call));
    }

    /// Returns the running calls.
    fn running(&self) -> impl Iterator<Item = Arc<RunningCall>> {
        self.calls.values().filter_map(Weak::upgrade)
    }

    /// Returns the running calls that can cause a message without a name. Requests for the results of tasks can cause it only if no
    /// other call runs, because the messages of a task name it (2025-11-25).
    fn candidates(&self) -> Vec<Arc<RunningCall>> {
        let (of_tasks, others): (Vec<_>, Vec<_>) = self.running().partition(|call| call.waits_for_result());
        if others.is_empty() { of_tasks } else { others }
    }

    /// Removes a request and returns its slot.
    fn take(&mut self, id: i64) -> Option<Arc<ReplySlot>> {
        let slot = self.waiting.remove(&id)?;
        if slot.follows {
            self.followed.insert(id, Arc::downgrade(&slot));
            // The request does not use capacity any more.
            slot.permit.lock().take();
        }
        Some(slot)
    }
}

/// Returns the bytes of the message, the metadata and the unknown members of a progress notification.
fn text(notice: &ProgressParams) -> usize {
    let message = notice.message.as_ref().map_or(0, String::len);
    let meta = notice.meta.as_ref().filter(|meta| !meta.is_empty()).map(|meta| &meta.0);
    let objects = meta.into_iter().chain(Some(&notice.extra).filter(|extra| !extra.is_empty()));
    message + objects.map(|object| serde_json::to_vec(object).map_or(0, |json| json.len())).sum::<usize>()
}

/// Returns whether a method of the server is an input request.
pub(super) fn is_input_request(name: &str) -> bool {
    matches!(name, method::Elicit::NAME | method::CreateMessage::NAME | method::ListRoots::NAME)
}

/// Returns the number of a request of this client. Some servers send numbers of progress tokens as strings.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Integer(id) => Some(*id),
        RequestId::String(text) => text.parse().ok(),
    }
}

/// The outcome and the progress of one request.
pub(crate) struct ReplySlot {
    received: Mutex<Received>,
    changed: Notify,
    /// The request was sent, and can be cancelled.
    is_cancellable: AtomicBool,
    /// The capacity of the request. It is released when no notification about the request is due.
    pub(crate) permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// Receives the notifications on the stream of the request.
    pub(crate) receiver: Option<Arc<dyn StreamReceiver>>,
    /// Progress is delivered after the answer too.
    follows: bool,
    /// The call, if the server can ask it for input.
    questions: Option<Arc<RunningCall>>,
}

impl std::fmt::Debug for ReplySlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplySlot").field("listens", &self.receiver.is_some()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Received {
    outcome: Option<RequestOutcome>,
    /// The caller has taken the outcome.
    is_read: bool,
    progress: VecDeque<ProgressParams>,
    /// The bytes of the messages in `progress`.
    texts: usize,
}

impl ReplySlot {
    pub(crate) fn new(
        permit: impl Into<Option<OwnedSemaphorePermit>>,
        receiver: Option<Arc<dyn StreamReceiver>>,
        follows: bool,
    ) -> Arc<Self> {
        Arc::new(Self::unshared(permit.into(), receiver, follows))
    }

    /// Returns the slot of a call that the server can ask for input.
    pub(crate) fn of_call(
        permit: OwnedSemaphorePermit,
        follows: bool,
        questions: Option<Arc<RunningCall>>,
    ) -> Arc<Self> {
        Arc::new(Self { questions, ..Self::unshared(Some(permit), None, follows) })
    }

    fn unshared(
        permit: Option<OwnedSemaphorePermit>,
        receiver: Option<Arc<dyn StreamReceiver>>,
        follows: bool,
    ) -> Self {
        Self {
            received: Mutex::default(),
            changed: Notify::new(),
            is_cancellable: AtomicBool::new(false),
            permit: Mutex::new(permit),
            receiver,
            follows,
            questions: None,
        }
    }

    /// Returns true if an answer is due. An acknowledged stream delivers notifications instead.
    fn waits_for_answer(&self) -> bool {
        self.receiver.as_ref().is_none_or(|receiver| !receiver.is_acknowledged())
    }

    /// Records that the request was sent.
    pub(crate) fn sent(&self, is_cancellable: bool) {
        self.is_cancellable.store(is_cancellable, Ordering::Release);
    }

    /// Returns the reason for which the caller drops the call of the request, if the call has one.
    pub(crate) fn cancellation_reason(&self) -> Option<String> {
        self.questions.as_ref()?.cancellation_reason()
    }

    /// Returns true if dropping the guard cancels the request on the server.
    pub(crate) fn is_cancelled_by_drop(&self) -> bool {
        self.is_cancellable.load(Ordering::Acquire)
    }

    pub(crate) fn progress(&self, notice: ProgressParams) {
        let mut received = self.received();
        if received.outcome.is_some() && !self.follows {
            return;
        }
        received.texts += text(&notice);
        received.progress.push_back(notice);
        while received.progress.len() > 1 && (received.progress.len() > PROGRESS || received.texts > PROGRESS_TEXTS) {
            let oldest = received.progress.pop_front();
            received.texts -= oldest.as_ref().map_or(0, text);
        }
        drop(received);
        self.changed.notify_one();
    }

    /// Waits for an outcome or progress. Cancel safe.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn take_progress(&self) -> VecDeque<ProgressParams> {
        let mut received = self.received();
        received.texts = 0;
        std::mem::take(&mut received.progress)
    }

    pub(crate) fn take_outcome(&self) -> Option<RequestOutcome> {
        let mut received = self.received();
        let outcome = received.outcome.take();
        received.is_read |= outcome.is_some();
        outcome
    }

    /// Returns true if the caller has taken the outcome.
    pub(crate) fn is_read(&self) -> bool {
        self.received().is_read
    }

    fn complete(&self, outcome: RequestOutcome) {
        self.received().outcome.get_or_insert(outcome);
        self.changed.notify_one();
    }

    fn received(&self) -> MutexGuard<'_, Received> {
        self.received.lock()
    }
}

#[cfg(test)]
mod models;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod tests {
    use super::*;

    async fn waiting(pending: &PendingRequests, id: i64) -> Arc<ReplySlot> {
        let slot = ReplySlot::new(pending.permit().await.unwrap(), None, false);
        pending.insert(id, slot.clone()).unwrap();
        slot
    }

    #[tokio::test]
    async fn a_response_completes_its_request_once() {
        let pending = PendingRequests::new(4);
        let slot = waiting(&pending, 1).await;
        assert!(!pending.complete(2, Ok(Bytes::new())));
        assert!(pending.complete(1, Ok(Bytes::from_static(b"{}"))));
        assert!(!pending.complete(1, Ok(Bytes::new())));
        slot.changed().await;
        assert_eq!(slot.take_outcome().unwrap().unwrap(), "{}");
        assert_eq!(pending.len(), 0);
    }

    #[tokio::test]
    async fn ending_the_connection_fails_all_requests() {
        let pending = PendingRequests::new(4);
        let slot = waiting(&pending, 1).await;
        pending.end(Some(&TransportError::closed()));
        assert!(matches!(slot.take_outcome(), Some(Err(RequestFailure::Lost { was_sent: true, fault: Some(_) }))));
        assert!(matches!(pending.permit().await, Err(RequestFailure::Lost { was_sent: false, .. })));
        assert!(matches!(pending.insert(2, slot), Err(RequestFailure::Lost { was_sent: false, .. })));
    }

    #[tokio::test]
    async fn the_progress_queue_keeps_the_newest_reports() {
        let pending = PendingRequests::new(4);
        let slot = waiting(&pending, 1).await;
        for n in 0..(PROGRESS + 2) {
            slot.progress(ProgressParams::new(1, n as f64));
        }
        let kept = slot.take_progress();
        assert_eq!((kept.len(), kept[0].progress), (PROGRESS, 2.0));
        for n in 0..3 {
            let mut notice = ProgressParams::new(1, f64::from(n));
            notice.message = Some("x".repeat(PROGRESS_TEXTS / 2));
            slot.progress(notice);
        }
        let kept = slot.take_progress();
        assert_eq!((kept.len(), kept[0].progress), (2, 1.0));
        let mut large = ProgressParams::new(1, 4.0);
        large.message = Some("x".repeat(2 * PROGRESS_TEXTS));
        slot.progress(large);
        assert_eq!(slot.take_progress().len(), 1);
    }

    #[tokio::test]
    async fn a_response_without_an_id_completes_the_only_request() {
        let pending = PendingRequests::new(4);
        assert!(!pending.complete_only(Ok(Bytes::new())));
        let (first, _second) = (waiting(&pending, 1).await, waiting(&pending, 2).await);
        assert!(!pending.complete_only(Ok(Bytes::new())));
        assert!(pending.remove(2));
        assert!(pending.complete_only(Ok(Bytes::new())));
        assert!(first.take_outcome().is_some());
    }

    #[tokio::test]
    async fn a_request_for_the_result_of_a_task_causes_no_unnamed_question() {
        let pending = PendingRequests::new(4);
        let of_call = async |id: i64, method: &str| {
            let call = RunningCall::new(method, Some("t"), None);
            let slot = ReplySlot::of_call(pending.permit().await.unwrap(), false, Some(Arc::clone(&call)));
            pending.insert(id, slot).unwrap();
            call
        };
        let asker = || match pending.asker(&Route::Connection, "elicitation/create", false) {
            Asker::Call(call) => Some(call),
            _ => None,
        };
        let waiting = of_call(1, "tasks/result").await;
        assert_eq!(pending.unnamed_questions(), (false, true));
        assert!(Arc::ptr_eq(&asker().unwrap(), &waiting), "a server can omit the name if no other call runs");
        let call = of_call(2, "tools/call").await;
        assert_eq!(pending.unnamed_questions(), (true, false));
        assert!(Arc::ptr_eq(&asker().unwrap(), &call));
        pending.complete(2, Ok(Bytes::new()));
        drop(call);
        // A cancelled request for a result does not count as a cancelled call either.
        assert!(pending.remove(1));
        drop(waiting);
        assert_eq!(pending.unnamed_questions(), (true, true));
    }

    /// A stream whose acknowledgement the test decides on.
    #[derive(Default)]
    struct Stream {
        is_acknowledged: AtomicBool,
    }

    impl StreamReceiver for Stream {
        fn notification(&self, _: &super::super::Notification) -> bool {
            false
        }

        fn is_acknowledged(&self) -> bool {
            self.is_acknowledged.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn a_response_without_an_id_completes_the_only_call_besides_acknowledged_streams() {
        let pending = PendingRequests::new(4);
        let stream = Arc::new(Stream::default());
        let receiver: Arc<dyn StreamReceiver> = stream.clone();
        let subscription = ReplySlot::new(pending.permit().await.unwrap(), Some(receiver), false);
        pending.insert(1, subscription.clone()).unwrap();
        stream.is_acknowledged.store(true, Ordering::Relaxed);
        assert!(!pending.complete_only(Ok(Bytes::new())));
        let call = waiting(&pending, 2).await;
        assert!(pending.complete_only(Ok(Bytes::new())));
        assert!(call.take_outcome().is_some() && subscription.take_outcome().is_none());
        assert_eq!((pending.len(), pending.answered()), (1, 1));
        // A stream without an acknowledgement waits for an answer.
        stream.is_acknowledged.store(false, Ordering::Relaxed);
        assert!(pending.complete_only(Ok(Bytes::new())));
        assert!(subscription.take_outcome().is_some());
    }
}
