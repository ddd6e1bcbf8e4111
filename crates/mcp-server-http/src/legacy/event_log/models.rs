//! Models of the event log: each order of the threads that write, read, replace readers and close.

use std::future::poll_fn;

use mcp_schedule::model::{block_on, check, spawn};

use super::*;

/// The capacity of a log above the limit of its budget.
static FULL: [u8; PIECE] = [b'x'; PIECE];

/// Returns a log with the stream of a call, and the reader of the stream.
fn log() -> (Arc<EventLog>, u64, u64) {
    // The first event exceeds the budget, so each log has the small capacity.
    let log = Arc::new(EventLog::new("session", Arc::new(Budget::new(1, Vec::new))));
    let stream = log.open(None).unwrap();
    let (number, _) = log.attach(stream, None);
    (log, stream, number)
}

/// Reads until the stream ends for this reader. Returns the messages.
async fn read(log: &EventLog, stream: u64, number: u64) -> Vec<String> {
    let mut messages = Vec::new();
    while let Some(events) = poll_fn(|cx| log.poll_take(stream, number, cx)).await {
        let events = std::str::from_utf8(&events).unwrap();
        messages.extend(events.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned));
    }
    messages
}

#[test]
fn a_reader_receives_each_event_and_the_response() {
    check(|| {
        let (log, stream, number) = log();
        let writing = spawn({
            let log = log.clone();
            move || {
                log.try_record(stream, Frame::new("event")).unwrap();
                log.end(stream, Some("answer".into()));
            }
        });
        assert_eq!(block_on(read(&log, stream, number)), ["event", "answer"]);
        writing.join().unwrap();
    });
}

#[test]
fn a_writer_without_capacity_continues_after_a_read() {
    check(|| {
        let (log, stream, number) = log();
        log.try_record(stream, Frame::new(Bytes::from_static(&FULL))).unwrap();
        let writing = spawn({
            let log = log.clone();
            move || {
                block_on(log.room(stream, 5)).unwrap();
                log.try_record(stream, Frame::new("event")).unwrap();
                log.end(stream, None);
            }
        });
        let messages = block_on(read(&log, stream, number));
        writing.join().unwrap();
        assert_eq!(messages.iter().map(String::len).collect::<Vec<_>>(), [PIECE, 5]);
    });
}

#[test]
fn the_end_of_a_session_ends_its_reader_and_its_writer() {
    check(|| {
        let (log, stream, number) = log();
        log.try_record(stream, Frame::new(Bytes::from_static(&FULL))).unwrap();
        let (closing, writing) = (log.clone(), log.clone());
        let closing = spawn(move || EventLog::close(&closing));
        let writing = spawn(move || block_on(writing.room(stream, 1)).is_ok());
        let has_read = !block_on(read(&log, stream, number)).is_empty();
        closing.join().unwrap();
        let has_room = writing.join().unwrap();
        assert!(has_read || !has_room, "the log has capacity for a message without a read");
        assert_eq!(log.budget.used(), 0);
    });
}

#[test]
fn a_replaced_reader_and_the_next_one_share_no_event() {
    check(|| {
        let (log, stream, number) = log();
        let (writing, replacing) = (log.clone(), log.clone());
        let writing = spawn(move || writing.try_record(stream, Frame::new("event")).unwrap());
        let replacing = spawn(move || replacing.attach(stream, None).0);
        let mut messages = block_on(read(&log, stream, number));
        writing.join().unwrap();
        let next = replacing.join().unwrap();
        log.end(stream, None);
        messages.extend(block_on(read(&log, stream, next)));
        assert_eq!(messages, ["event"]);
    });
}

#[test]
fn a_sender_that_waits_for_a_reader_continues_when_one_connects() {
    check(|| {
        let log = Arc::new(EventLog::new("session", Arc::new(Budget::new(1, Vec::new))));
        let (attaching, following) = (log.clone(), log.clone());
        let attaching = spawn(move || {
            let (number, _) = attaching.attach(STANDALONE, None);
            attaching.detach(STANDALONE, number);
        });
        let following = spawn(move || following.set_followed(true));
        if let Some(read) = log.unread() {
            block_on(read);
        }
        attaching.join().unwrap();
        following.join().unwrap();
        assert!(log.unread().is_none(), "a connection follows the stream");
    });
}
