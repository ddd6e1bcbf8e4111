//! Tests of the event log in memory.

use super::*;

fn log() -> EventLog {
    EventLog::new("session", Arc::new(Budget::new(1 << 30, Vec::new)))
}

fn take(log: &EventLog, stream: u64, number: u64) -> String {
    match log.poll_take(stream, number, &Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(events)) => String::from_utf8(events.to_vec()).unwrap(),
        Poll::Ready(None) => "the end".into(),
        Poll::Pending => "nothing".into(),
    }
}

/// Returns the id of the last of some events.
fn last_id(events: &str) -> &str {
    events.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap()
}

#[test]
fn an_event_id_is_the_same_in_each_build() {
    // The first bytes of the SHA-256 of `session`.
    assert_eq!(log().id(Place { stream: 1, seq: 2 }), "3f3af1ec-1-2");
}

#[test]
fn an_ended_or_unknown_stream_rejects_messages() {
    let log = log();
    let ended = log.open(None).unwrap();
    let (number, _) = log.attach(ended, None);
    log.end(ended, Some("answer".into()));
    for stream in [ended, ended + 1] {
        assert!(matches!(log.try_record(stream, Frame::new("late")), Err(TrySendError::Closed(_))));
    }
    log.try_record(STANDALONE, Frame::new("unasked")).unwrap();
    assert!(take(&log, ended, number).contains("data: answer\n"));
    assert_eq!(take(&log, ended, number), "the end");
}

#[test]
fn a_client_with_the_response_receives_no_notice_of_a_removed_stream() {
    let log = log();
    let (answered, unanswered) = (log.open(None).unwrap(), log.open(None).unwrap());
    let mut seen = Vec::new();
    for stream in [answered, unanswered] {
        log.try_record(stream, Frame::new("word")).unwrap();
        let (number, _) = log.attach(stream, None);
        seen.push(last_id(&take(&log, stream, number)).to_owned());
        log.end(stream, Some("answer".into()));
        if stream == answered {
            seen.push(last_id(&take(&log, stream, number)).to_owned());
            // A client that resumes at the end receives the same id.
            let (number, place) = log.attach(stream, None);
            seen.push(log.id(place));
            log.detach(stream, number);
        }
        log.detach(stream, number);
    }
    log.drop_up_to(Priority::AwaitedResponse);
    assert!(!log.knows(answered) && !log.knows(unanswered));
    for (id, misses) in [(&seen[0], true), (&seen[1], false), (&seen[2], false), (&seen[3], true)] {
        assert_eq!(log.lost(log.place(id).unwrap()).is_some(), misses, "{id}");
    }
}

#[test]
fn the_loss_of_a_response_is_reported_once() {
    let log = log();
    let stream = log.open(None).unwrap();
    let (first, place) = log.attach(stream, None);
    log.end(stream, Some(vec![b'x'; 2 * BYTES].into()));
    assert!(take(&log, stream, first).len() > 2 * BYTES);
    // The response was above the limit, so it was dropped after the read. The client lost it.
    let (second, _) = log.attach(stream, Some(place.seq));
    let replay = take(&log, stream, second);
    assert!(replay.contains("replay_truncated"), "{replay}");
    log.detach(stream, second);
    let again = log.place(last_id(&replay)).unwrap();
    assert!(!log.knows(stream) && log.lost(again).is_none());
}

#[test]
fn an_open_stream_has_no_end_position() {
    let log = log();
    let stream = log.open(None).unwrap();
    log.try_record(stream, Frame::new("word")).unwrap();
    let end = log.id(Place { stream, seq: END });
    assert_eq!(log.place(&end), None);
    log.end(stream, Some("answer".into()));
    assert_eq!(log.place(&end), Some(Place { stream, seq: END }));
}

#[tokio::test(start_paused = true)]
async fn only_readers_without_progress_become_slow() {
    let limit = Duration::from_secs(5);
    let log = log();
    let streams = [log.open(None).unwrap(), log.open(None).unwrap()];
    let numbers = streams.map(|stream| log.attach(stream, None).0);
    let say = |at: usize| log.try_record(streams[at], Frame::new("word")).unwrap();
    let take = |at: usize| take(&log, streams[at], numbers[at]);
    let slow = || streams.map(|stream| log.lock().streams.get(stream).unwrap().is_slow);
    say(0);
    say(1);
    tokio::time::advance(Duration::from_secs(3)).await;
    take(0);
    say(0);
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(log.mark_slow_readers(limit), Instant::now() + Duration::from_secs(3));
    assert_eq!(slow(), [false, true]);
    take(1);
    assert_eq!(slow(), [false, false]);
    say(1);
    assert_eq!(log.mark_slow_readers(limit), Instant::now() + Duration::from_secs(3));
    assert_eq!(slow(), [false, false]);
}

#[test]
fn a_response_for_a_connected_client_does_not_count_towards_the_capacity() {
    let log = log();
    let large = || Bytes::from(vec![b'x'; 600 << 10]);
    let streams = [log.open(None).unwrap(), log.open(None).unwrap(), log.open(None).unwrap()];
    log.try_record(streams[2], Frame::new("word")).unwrap();
    let numbers = streams.map(|stream| log.attach(stream, None).0);
    log.end(streams[0], Some(large()));
    log.end(streams[1], Some(large()));
    log.try_record(streams[2], Frame::new(large())).unwrap();
    assert!(matches!(log.try_record(streams[2], Frame::new(large())), Err(TrySendError::Full(_))));
    // The exception holds only while the client is connected.
    log.detach(streams[0], numbers[0]);
    let lens: Vec<_> = log.state.lock().events.iter().map(|event| event.message.len()).collect();
    assert_eq!(lens, [4, 600 << 10, 600 << 10]);
    assert!(take(&log, streams[1], numbers[1]).len() > 600 << 10);
    let events = take(&log, streams[2], numbers[2]);
    assert!(events.contains("data: word\n") && !events.contains("truncated"));
}

/// Records messages of a stream up to this number, and fewer if the log has no capacity.
fn fill(log: &EventLog, stream: u64, count: usize) {
    for _ in 0..count {
        let _ = log.try_record(stream, Frame::new("unread"));
    }
}

#[test]
fn events_without_a_reader_leave_capacity_for_events_that_a_client_requests_again() {
    for is_standalone in [true, false] {
        let log = log();
        let unread = if is_standalone { STANDALONE } else { log.open(None).unwrap() };
        log.detach(unread, EXPECTED);
        fill(&log, unread, 2 * EVENTS);
        let call = log.open(None).unwrap();
        let (number, _) = log.attach(call, None);
        for step in 1..=40 {
            log.try_record(call, Frame::new(format!("step {step}"))).unwrap();
            assert!(take(&log, call, number).contains(&format!("data: step {step}\n")));
            fill(&log, unread, 1);
        }
        log.end(call, Some("answer".into()));
        assert!(take(&log, call, number).contains("data: answer\n"));
        // The connection broke. Its client has received 10 events.
        log.detach(call, number);
        fill(&log, unread, 40);
        let (number, _) = log.attach(call, Some(10));
        let again = take(&log, call, number);
        assert!(!again.contains("truncated") && again.contains("data: answer\n"), "{is_standalone}: {again}");
        assert!((11..=40).all(|step| again.contains(&format!("data: step {step}\n"))), "{is_standalone}: {again}");
        assert_eq!(log.lock().events.len(), EVENTS, "{is_standalone}");
    }
}

#[test]
fn messages_that_wait_for_a_reader_replace_delivered_events_above_their_share() {
    // The delivered events are older or newer than the messages that wait.
    for (older, newer, expected) in [(0, 0, 256), (200, 0, 256), (0, 50, 206), (0, 256, 128), (256, 256, 128)] {
        let log = log();
        let call = log.open(None).unwrap();
        let (number, _) = log.attach(call, None);
        let deliver = |count: usize| {
            for _ in 0..count {
                log.try_record(call, Frame::new("word")).unwrap();
                take(&log, call, number);
            }
        };
        deliver(older);
        log.try_record(STANDALONE, Frame::new("first")).unwrap();
        deliver(newer);
        fill(&log, STANDALONE, 2 * EVENTS);
        let (reader, _) = log.attach(STANDALONE, None);
        let waited = take(&log, STANDALONE, reader);
        let count = waited.matches("data: ").count();
        assert_eq!((count, waited.contains("truncated")), (expected, false), "{older} {newer}");
    }
}
