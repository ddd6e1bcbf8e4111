//! The table of pending requests in random schedules: each request has one outcome, and its capacity returns.

use std::sync::atomic::AtomicUsize;

use mcp_test::schedule::{Schedule, explore};
use mcp_transport::BoxFuture;

use super::*;

const SEEDS: u64 = 32;
const REQUESTS: i64 = 12;
/// The capacity of the table.
const CAPACITY: usize = 4;

/// The end of a request.
#[derive(Debug, PartialEq)]
enum End {
    Answered,
    Lost { was_sent: bool },
    Dropped,
}

/// A request that is removed if its future is dropped.
struct Removed<'a>(&'a PendingRequests, i64);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        self.0.remove(self.1);
    }
}

/// Waits for the outcome of a request, and checks its reports of progress.
async fn request(pending: &PendingRequests, schedule: &Schedule, id: i64) -> End {
    let waiting = async {
        let Ok(permit) = pending.permit().await else { return End::Lost { was_sent: false } };
        schedule.pause().await;
        let slot = ReplySlot::new(permit, None, false);
        if pending.insert(id, slot.clone()).is_err() {
            return End::Lost { was_sent: false };
        }
        let _removed = Removed(pending, id);
        assert!(pending.len() <= CAPACITY);
        let mut reports = Vec::new();
        loop {
            reports.extend(slot.take_progress().into_iter().map(|report| report.progress));
            assert!(reports.iter().copied().eq((0..reports.len()).map(|report| report as f64)), "{id}: {reports:?}");
            match slot.take_outcome() {
                Some(Ok(answer)) => {
                    assert_eq!(answer, id.to_string(), "the answer of another request");
                    // All reports come before the answer.
                    assert_eq!(reports.len(), 3, "{id}");
                    return End::Answered;
                }
                Some(Err(RequestFailure::Lost { was_sent, .. })) => return End::Lost { was_sent },
                Some(Err(failure)) => panic!("{failure:?}"),
                None => slot.changed().await,
            }
            schedule.pause().await;
        }
    };
    schedule.pause().await;
    if schedule.chance(30) {
        return schedule.run_or_drop(waiting).await.unwrap_or(End::Dropped);
    }
    waiting.await
}

/// Reports the progress of a request, and answers it twice. Counts the answers that the table has accepted.
async fn answer(pending: &PendingRequests, schedule: &Schedule, id: i64, answers: &AtomicUsize) {
    // Without this bound, a request that was dropped early would have a waiter for ever.
    for _ in 0..400 {
        let Some(slot) = pending.find(&id.into()) else {
            schedule.pause().await;
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            continue;
        };
        for report in 0..3 {
            slot.progress(ProgressParams::new(id, f64::from(report)));
            schedule.pause().await;
        }
        for _ in 0..2 {
            if pending.complete(id, Ok(Bytes::from(id.to_string()))) {
                answers.fetch_add(1, Ordering::Relaxed);
            }
            schedule.pause().await;
        }
        return;
    }
}

async fn table(schedule: Schedule, ends: bool) {
    let (pending, answers) = (PendingRequests::new(CAPACITY), AtomicUsize::new(0));
    let requests = (0..REQUESTS).map(|id| {
        let (pending, schedule) = (&pending, &schedule);
        Box::pin(async move { Some(request(pending, schedule, id).await) }) as BoxFuture<'_, _>
    });
    let answering = (0..REQUESTS).map(|id| {
        let (pending, schedule, answers) = (&pending, &schedule, &answers);
        Box::pin(async move {
            answer(pending, schedule, id, answers).await;
            None
        }) as BoxFuture<'_, _>
    });
    let ending = ends.then(|| {
        let (pending, schedule) = (&pending, &schedule);
        Box::pin(async move {
            for _ in 0..schedule.below(20) {
                schedule.pause().await;
            }
            pending.end(None);
            None
        }) as BoxFuture<'_, _>
    });
    let found = schedule.run_all(requests.chain(answering).chain(ending)).await;
    let found: Vec<End> = found.into_iter().flatten().collect();
    assert_eq!(found.len(), usize::try_from(REQUESTS).unwrap());
    let is_answered = |end: &&End| **end == End::Answered;
    let (answered, accepted) = (found.iter().filter(is_answered).count(), answers.load(Ordering::Relaxed));
    // A request can be dropped or lost after its answer, but no answer is accepted twice.
    assert!(answered <= accepted && accepted <= found.len(), "{answered} of {accepted} answers: {found:?}");
    if !ends {
        assert!(found.iter().all(|end| matches!(end, End::Answered | End::Dropped)), "{found:?}");
        // Each request has returned its capacity.
        assert_eq!((pending.len(), pending.permits.available_permits()), (0, CAPACITY));
    }
    assert_eq!(pending.len(), 0);
}

#[test]
fn each_request_has_one_outcome_and_returns_its_capacity() {
    explore(SEEDS, async |schedule: Schedule| table(schedule, false).await);
}

#[test]
fn each_request_ends_with_its_connection() {
    explore(SEEDS, async |schedule: Schedule| table(schedule, true).await);
}
