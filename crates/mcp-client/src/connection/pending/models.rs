//! Models of the table of pending requests: each order of the threads that answer, end, drop and wait.

use mcp_schedule::model::{block_on, check, spawn};

use super::*;

/// Returns a table with one request.
fn waiting() -> (Arc<PendingRequests>, Arc<ReplySlot>) {
    let (pending, slot) = (Arc::new(PendingRequests::new(1)), Arc::new(ReplySlot::unshared(None, None, false)));
    pending.insert(1, slot.clone()).unwrap();
    (pending, slot)
}

/// Waits for the outcome, as a call does. Returns it with the number of the reports.
async fn outcome(slot: &ReplySlot) -> (RequestOutcome, usize) {
    let mut reports = 0;
    loop {
        // A call takes the outcome first: the reports before the answer are complete then.
        let outcome = slot.take_outcome();
        reports += slot.take_progress().len();
        match outcome {
            Some(outcome) => return (outcome, reports),
            None => slot.changed().await,
        }
    }
}

#[test]
fn an_answer_and_the_end_of_the_connection_wake_the_caller_once() {
    check(|| {
        let (pending, slot) = waiting();
        let (answering, ending) = (pending.clone(), pending.clone());
        let answering = spawn(move || answering.complete(1, Ok(Bytes::new())));
        let ending = spawn(move || ending.end(None));
        let (outcome, _) = block_on(outcome(&slot));
        let is_answered = answering.join().unwrap();
        ending.join().unwrap();
        assert_eq!((outcome.is_ok(), pending.len()), (is_answered, 0));
        assert!(slot.take_outcome().is_none(), "a second outcome");
    });
}

#[test]
fn all_reports_of_progress_precede_the_answer() {
    check(|| {
        let (pending, slot) = waiting();
        let answering = spawn({
            let slot = slot.clone();
            move || {
                slot.progress(ProgressParams::new(1, 1.0));
                slot.progress(ProgressParams::new(1, 2.0));
                assert!(pending.complete(1, Ok(Bytes::new())));
            }
        });
        let (outcome, reports) = block_on(outcome(&slot));
        answering.join().unwrap();
        assert_eq!((outcome.is_ok(), reports), (true, 2));
    });
}

#[test]
fn a_dropped_request_is_cancelled_or_has_its_answer() {
    check(|| {
        let (pending, slot) = waiting();
        let (answering, dropping) = (pending.clone(), pending.clone());
        let answering = spawn(move || answering.complete(1, Ok(Bytes::new())));
        let dropping = spawn(move || dropping.remove(1));
        let (is_answered, is_cancelled) = (answering.join().unwrap(), dropping.join().unwrap());
        assert_ne!(is_answered, is_cancelled);
        assert_eq!((slot.take_outcome().is_some(), pending.len()), (is_answered, 0));
    });
}

#[test]
fn a_request_after_the_end_of_the_connection_is_refused() {
    check(|| {
        let pending = Arc::new(PendingRequests::new(1));
        let ending = spawn({
            let pending = pending.clone();
            move || pending.end(None)
        });
        let slot = Arc::new(ReplySlot::unshared(None, None, false));
        if pending.insert(1, slot.clone()).is_ok() {
            assert!(block_on(outcome(&slot)).0.is_err());
        }
        ending.join().unwrap();
        assert_eq!(pending.len(), 0);
    });
}

#[test]
fn a_question_of_a_task_finds_the_request_for_its_result() {
    check(|| {
        let pending = Arc::new(PendingRequests::new(1));
        let call = RunningCall::new("tasks/result", Some("task"), None);
        let beginning = spawn({
            let (pending, call) = (pending.clone(), call.clone());
            move || {
                let slot = ReplySlot { questions: Some(call), ..ReplySlot::unshared(None, None, false) };
                pending.insert(1, Arc::new(slot)).unwrap();
            }
        });
        let found = block_on(pending.next_call_of_task("task"));
        assert!(Arc::ptr_eq(&found, &call));
        beginning.join().unwrap();
    });
}
