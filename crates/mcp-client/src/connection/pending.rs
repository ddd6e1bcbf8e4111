//! Requests that wait for their answers: a bounded table, and what one request hears until then.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use mcp_protocol::{ProgressParams, RequestId};
use mcp_transport::TransportError;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use super::StreamReceiver;
use crate::retry::RequestFailure;

/// How a request ended: the raw result, or why there is none.
pub(crate) type RequestOutcome = Result<Bytes, RequestFailure>;

/// Notices of progress that wait for the caller. The oldest go first: a newer one says more.
const PROGRESS: usize = 64;
/// Bytes of their messages; one message is kept in any case.
const PROGRESS_TEXTS: usize = 64 * 1024;

/// The requests of one connection that wait.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    table: Mutex<Table>,
    room: Arc<Semaphore>,
    answered: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<i64, Arc<ReplySlot>>,
    /// Requests that were answered, and whose progress is still heard.
    followed: HashMap<i64, Weak<ReplySlot>>,
    end: Option<Option<TransportError>>,
}

impl PendingRequests {
    pub(crate) fn new(cap: usize) -> Self {
        let room = Arc::new(Semaphore::new(cap.clamp(1, Semaphore::MAX_PERMITS)));
        Self { table: Mutex::default(), room, answered: AtomicU64::new(0) }
    }

    /// Waits for room.
    pub(crate) async fn room(&self) -> Result<OwnedSemaphorePermit, RequestFailure> {
        let closed = |_| RequestFailure::Lost { was_sent: false, fault: None };
        Arc::clone(&self.room).acquire_owned().await.map_err(closed)
    }

    /// Begins to wait for the answer to a request.
    pub(crate) fn insert(&self, id: i64, slot: Arc<ReplySlot>) -> Result<(), RequestFailure> {
        let mut table = self.table();
        if let Some(fault) = &table.end {
            return Err(RequestFailure::Lost { was_sent: false, fault: fault.clone() });
        }
        table.waiting.insert(id, slot);
        Ok(())
    }

    /// Waits no more. Returns whether the request was still waiting.
    pub(crate) fn remove(&self, id: i64) -> bool {
        let mut table = self.table();
        table.followed.remove(&id);
        table.waiting.remove(&id).is_some()
    }

    /// The answer came. Returns whether anybody waited for it.
    pub(crate) fn complete(&self, id: i64, outcome: RequestOutcome) -> bool {
        let Some(slot) = self.table().take(id) else { return false };
        self.answered.fetch_add(1, Ordering::Relaxed);
        slot.complete(outcome);
        true
    }

    /// How many requests were answered so far, in whatever way.
    pub(crate) fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// Ends the only request that waits for an answer, when there is exactly one: whatever nobody can be told apart must be about
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

    /// What waits under an id.
    pub(crate) fn find(&self, id: &RequestId) -> Option<Arc<ReplySlot>> {
        self.table().waiting.get(&number(id)?).cloned()
    }

    /// What hears of the progress of a request.
    pub(crate) fn hears(&self, id: &RequestId) -> Option<Arc<ReplySlot>> {
        let (id, table) = (number(id)?, self.table());
        table.waiting.get(&id).cloned().or_else(|| table.followed.get(&id)?.upgrade())
    }

    /// Nothing new is let in; what waits goes on.
    pub(crate) fn refuse(&self) {
        self.room.close();
    }

    /// The connection has ended: so has everything that waits, and nothing new can. Returns the requests that the server could
    /// be told to cancel.
    pub(crate) fn end(&self, fault: Option<&TransportError>) -> Vec<i64> {
        let waiting = {
            let mut table = self.table();
            table.end.get_or_insert_with(|| fault.cloned());
            table.followed.clear();
            std::mem::take(&mut table.waiting)
        };
        self.room.close();
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
    /// What waits under an id, and waits no more.
    fn take(&mut self, id: i64) -> Option<Arc<ReplySlot>> {
        let slot = self.waiting.remove(&id)?;
        if slot.follows {
            self.followed.insert(id, Arc::downgrade(&slot));
            // It takes no place from others any more.
            slot.permit.lock().take();
        }
        Some(slot)
    }
}

/// The number of a request of ours. Some servers write the numbers of tokens as strings.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Integer(id) => Some(*id),
        RequestId::String(text) => text.parse().ok(),
    }
}

/// What one request hears.
pub(crate) struct ReplySlot {
    heard: Mutex<Heard>,
    news: Notify,
    /// It was sent, and is one that may be cancelled.
    is_cancellable: AtomicBool,
    /// Its place in the table; held until the server need not be told anything about it any more.
    pub(crate) permit: Mutex<Option<OwnedSemaphorePermit>>,
    /// Where its notifications go, when it is a request whose stream brings some.
    pub(crate) receiver: Option<Arc<dyn StreamReceiver>>,
    /// Its progress is heard after its answer too.
    follows: bool,
}

impl std::fmt::Debug for ReplySlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReplySlot").field("listens", &self.receiver.is_some()).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct Heard {
    outcome: Option<RequestOutcome>,
    progress: VecDeque<ProgressParams>,
    /// Bytes of the messages of `progress`.
    texts: usize,
}

impl ReplySlot {
    pub(crate) fn new(
        permit: impl Into<Option<OwnedSemaphorePermit>>,
        receiver: Option<Arc<dyn StreamReceiver>>,
        follows: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            heard: Mutex::default(),
            news: Notify::new(),
            is_cancellable: AtomicBool::new(false),
            permit: Mutex::new(permit.into()),
            receiver,
            follows,
        })
    }

    /// Whether its next word is an answer: a subscription that is open brings notifications, for as long as it likes.
    fn waits_for_answer(&self) -> bool {
        self.receiver.as_ref().is_none_or(|receiver| !receiver.is_acknowledged())
    }

    /// The request was handed over.
    pub(crate) fn sent(&self, is_cancellable: bool) {
        self.is_cancellable.store(is_cancellable, Ordering::Release);
    }

    /// Whether the server is told when nobody waits for it any more.
    pub(crate) fn is_cancelled_by_drop(&self) -> bool {
        self.is_cancellable.load(Ordering::Acquire)
    }

    pub(crate) fn progress(&self, notice: ProgressParams) {
        let mut heard = self.heard();
        if heard.outcome.is_some() && !self.follows {
            return;
        }
        let text = |notice: &ProgressParams| notice.message.as_ref().map_or(0, String::len);
        heard.texts += text(&notice);
        heard.progress.push_back(notice);
        while heard.progress.len() > 1 && (heard.progress.len() > PROGRESS || heard.texts > PROGRESS_TEXTS) {
            let oldest = heard.progress.pop_front();
            heard.texts -= oldest.as_ref().map_or(0, text);
        }
        drop(heard);
        self.news.notify_one();
    }

    /// Waits until there is something to take. Cancel safe.
    pub(crate) async fn news(&self) {
        self.news.notified().await;
    }

    pub(crate) fn take_progress(&self) -> VecDeque<ProgressParams> {
        let mut heard = self.heard();
        heard.texts = 0;
        std::mem::take(&mut heard.progress)
    }

    pub(crate) fn take_outcome(&self) -> Option<RequestOutcome> {
        self.heard().outcome.take()
    }

    fn complete(&self, outcome: RequestOutcome) {
        self.heard().outcome.get_or_insert(outcome);
        self.news.notify_one();
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn waiting(pending: &PendingRequests, id: i64) -> Arc<ReplySlot> {
        let slot = ReplySlot::new(pending.room().await.unwrap(), None, false);
        pending.insert(id, slot.clone()).unwrap();
        slot
    }

    #[tokio::test]
    async fn an_answer_finds_its_request_once() {
        let pending = PendingRequests::new(4);
        let slot = waiting(&pending, 1).await;
        assert!(!pending.complete(2, Ok(Bytes::new())));
        assert!(pending.complete(1, Ok(Bytes::from_static(b"{}"))));
        assert!(!pending.complete(1, Ok(Bytes::new())));
        slot.news().await;
        assert_eq!(slot.take_outcome().unwrap().unwrap(), "{}");
        assert_eq!(pending.len(), 0);
    }

    #[tokio::test]
    async fn the_end_of_the_connection_is_the_end_of_all() {
        let pending = PendingRequests::new(4);
        let slot = waiting(&pending, 1).await;
        pending.end(Some(&TransportError::closed()));
        assert!(matches!(slot.take_outcome(), Some(Err(RequestFailure::Lost { was_sent: true, fault: Some(_) }))));
        assert!(matches!(pending.room().await, Err(RequestFailure::Lost { was_sent: false, .. })));
        assert!(matches!(pending.insert(2, slot), Err(RequestFailure::Lost { was_sent: false, .. })));
    }

    #[tokio::test]
    async fn progress_keeps_the_newest() {
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
    async fn what_names_nobody_is_for_the_only_one() {
        let pending = PendingRequests::new(4);
        assert!(!pending.complete_only(Ok(Bytes::new())));
        let (first, _second) = (waiting(&pending, 1).await, waiting(&pending, 2).await);
        assert!(!pending.complete_only(Ok(Bytes::new())));
        assert!(pending.remove(2));
        assert!(pending.complete_only(Ok(Bytes::new())));
        assert!(first.take_outcome().is_some());
    }

    /// A stream whose acknowledgement the test decides on.
    #[derive(Default)]
    struct Stream {
        is_acknowledged: AtomicBool,
    }

    impl StreamReceiver for Stream {
        fn notification(&self, _: &super::super::Notification) {}

        fn is_acknowledged(&self) -> bool {
            self.is_acknowledged.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn a_reply_without_an_id_completes_the_only_call_beside_acknowledged_streams() {
        let pending = PendingRequests::new(4);
        let stream = Arc::new(Stream::default());
        let receiver: Arc<dyn StreamReceiver> = stream.clone();
        let subscription = ReplySlot::new(pending.room().await.unwrap(), Some(receiver), false);
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
