//! The event log in random schedules: each event arrives once and in order, or its reader receives the report of a gap.

use std::{future::poll_fn, sync::atomic::AtomicUsize};

use mcp_schedule::{Schedule, explore};

use super::*;

const SEEDS: u64 = 24;
const CALLS: usize = 2;
/// The messages of each stream. Together they exceed the capacity of the log.
const MESSAGES: usize = 60;
const LONGEST: usize = 40 << 10;
const ANSWER: &str = "answer";

/// The events that a client has received on one stream.
#[derive(Debug, Default)]
struct Received {
    /// The number of the next message, if no gap comes before.
    next: usize,
    messages: usize,
    gaps: usize,
    /// No message has followed the last gap.
    is_gap_open: bool,
    answers: usize,
}

impl Received {
    fn report_gap(&mut self) {
        (self.gaps, self.is_gap_open) = (self.gaps + 1, true);
    }

    /// Reads encoded events. Returns the position of the last one.
    fn read(&mut self, log: &EventLog, events: &[u8]) -> Option<Place> {
        let events = std::str::from_utf8(events).unwrap();
        for data in events.lines().filter_map(|line| line.strip_prefix("data: ")) {
            if data.as_bytes() == TRUNCATED {
                self.report_gap();
            } else if data == ANSWER {
                assert!(
                    self.answers == 0 && (self.next == MESSAGES || self.is_gap_open),
                    "the response after {self:?}"
                );
                self.answers = 1;
            } else {
                let number: usize = data.trim_end_matches('x').parse().unwrap();
                let is_expected = number == self.next || (number > self.next && self.is_gap_open);
                assert!(is_expected && self.answers == 0, "message {number} after {self:?}");
                (self.next, self.messages, self.is_gap_open) = (number + 1, self.messages + 1, false);
            }
        }
        events.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().and_then(|id| log.place(id))
    }
}

/// Writes the messages of a stream, and then the response of its call.
async fn write(log: &EventLog, schedule: &Schedule, stream: u64) -> Result<(), TransportError> {
    for number in 0..MESSAGES {
        let message = format!("{number}{}", "x".repeat(schedule.below(LONGEST)));
        let mut frame = Frame::new(message);
        loop {
            log.room(stream, frame.message.len()).await?;
            schedule.pause().await;
            match log.try_record(stream, frame) {
                Ok(()) => break,
                Err(TrySendError::Full(again)) => frame = again,
                Err(_) => return Err(TransportError::closed()),
            }
        }
    }
    if stream != STANDALONE {
        log.room_for_answer(stream, ANSWER.len()).await?;
        schedule.pause().await;
        log.end(stream, Some(ANSWER.into()));
    }
    Ok(())
}

/// Reads a stream over connections that break. A break loses the bytes of the last read.
async fn read(log: &EventLog, schedule: &Schedule, stream: u64, writers: &AtomicUsize) -> Received {
    let (mut received, mut last) = (Received::default(), None);
    while !log.is_closed() {
        if !log.knows(stream) {
            if last.is_none_or(|place| log.lost(place).is_some()) {
                received.report_gap();
            }
            break;
        }
        let (number, start) = log.attach(stream, last.map(|place: Place| place.seq));
        let place = last.get_or_insert(start);
        let is_last = stream != STANDALONE || writers.load(Ordering::Relaxed) == 0;
        if stream == STANDALONE && is_last {
            log.disconnect_reader(stream);
        }
        let reading = async {
            while let Some(events) = poll_fn(|cx| log.poll_take(stream, number, cx)).await {
                schedule.pause().await;
                if schedule.chance(20) {
                    return false;
                }
                // The positions of a closed session are gone.
                let Some(last) = received.read(log, &events) else { return false };
                *place = last;
            }
            true
        };
        let is_end = match schedule.chance(40) {
            true => schedule.run_or_drop(reading).await.unwrap_or(false),
            false => reading.await,
        };
        schedule.pause().await;
        log.detach(stream, number);
        if is_end && is_last {
            break;
        }
        schedule.pause().await;
    }
    received
}

async fn session(schedule: Schedule, closes: bool) {
    let budget = Arc::new(Budget::new(1 << 30, Vec::new));
    let log = EventLog::new("session", budget.clone());
    let streams: Vec<u64> = (0..CALLS).map(|_| log.open(None).unwrap()).chain([STANDALONE]).collect();
    let writers = AtomicUsize::new(streams.len());
    let (log_ref, schedule_ref, writers_ref) = (&log, &schedule, &writers);
    let writing = streams.iter().map(|stream| {
        Box::pin(async move {
            let outcome = write(log_ref, schedule_ref, *stream).await;
            assert!(outcome.is_ok() || log_ref.is_closed());
            writers_ref.fetch_sub(1, Ordering::Relaxed);
            log_ref.disconnect_reader(STANDALONE);
            None
        }) as BoxFuture<'_, _>
    });
    let reading = streams.iter().map(|stream| {
        Box::pin(async move { Some(read(log_ref, schedule_ref, *stream, writers_ref).await) }) as BoxFuture<'_, _>
    });
    let closing = closes.then(|| {
        Box::pin(async move {
            for _ in 0..schedule_ref.below(200) {
                schedule_ref.pause().await;
            }
            log_ref.close();
            None
        }) as BoxFuture<'_, _>
    });
    let found = schedule.run_all(writing.chain(reading).chain(closing)).await;
    let found: Vec<Received> = found.into_iter().flatten().collect();
    if !closes {
        for (stream, received) in streams.iter().zip(&found) {
            let has_end = match *stream {
                STANDALONE => received.next == MESSAGES,
                _ => received.answers == 1,
            };
            assert!(has_end || received.is_gap_open, "stream {stream}: {received:?}");
            assert!(received.messages == MESSAGES || received.gaps > 0, "stream {stream}: {received:?}");
        }
    }
    log.close();
    assert_eq!(budget.used(), 0);
}

#[test]
fn each_event_arrives_once_or_its_gap_is_reported() {
    explore(SEEDS, async |schedule: Schedule| session(schedule, false).await);
}

#[test]
fn the_end_of_a_session_ends_its_writers_and_readers() {
    explore(SEEDS, async |schedule: Schedule| session(schedule, true).await);
}
