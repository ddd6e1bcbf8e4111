//! The distance of two cores: the time until one core has a value that the other core wrote.
//!
//! A virtual machine can move its cores between the caches of the processor. Two cores without a common cache need several times as
//! long to pass on a byte. Calls with large responses are then slower.

use std::{
    hint::spin_loop,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use crate::cpu;

/// The exchanges of a measurement, and those before it.
const EXCHANGES: u64 = 10_000;
const WARM_UP: u64 = 500;
/// The longest measurement: another process can use one of the cores.
const LIMIT: Duration = Duration::from_millis(200);
/// The reads of the value between two checks of the limit.
const SPINS: usize = 1 << 12;

/// Whether cores have no common cache, from the nanoseconds of a handover. Common caches have 20 to 60, and other cores 90 to 200.
pub(crate) fn is_distant(nanoseconds: f64) -> bool {
    nanoseconds > 80.0
}

/// Measures the nanoseconds of a handover between this thread, which runs on its own core, and another core. `None` if another process
/// used one of the cores for too long.
pub(crate) fn to(core: usize) -> Option<f64> {
    let deadline = Instant::now() + LIMIT;
    let value = Arc::new(AtomicU64::new(0));
    let (ready, started) = mpsc::channel();
    let shared = Arc::clone(&value);
    let answering = thread::spawn(move || {
        if cpu::pin(core).is_err() || ready.send(()).is_err() {
            return;
        }
        for number in 0..WARM_UP + EXCHANGES {
            if !wait(&shared, 2 * number + 1, deadline) {
                return;
            }
            shared.store(2 * number + 2, Ordering::Release);
        }
    });
    let elapsed = started.recv_timeout(LIMIT).ok().and_then(|()| {
        let mut start = Instant::now();
        for number in 0..WARM_UP + EXCHANGES {
            if number == WARM_UP {
                start = Instant::now();
            }
            value.store(2 * number + 1, Ordering::Release);
            if !wait(&value, 2 * number + 2, deadline) {
                return None;
            }
        }
        Some(start.elapsed())
    });
    // The thread ends at the deadline at the latest.
    let _ = answering.join();
    Some(elapsed?.as_secs_f64() * 1e9 / (2 * EXCHANGES) as f64)
}

/// Waits for a value. Returns false after the deadline.
fn wait(value: &AtomicU64, expected: u64, deadline: Instant) -> bool {
    loop {
        for _ in 0..SPINS {
            if value.load(Ordering::Acquire) == expected {
                return true;
            }
            spin_loop();
        }
        if Instant::now() > deadline {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handover_ends_in_time() {
        let start = Instant::now();
        let measured = cpu::pair().and_then(|(server, _)| to(server));
        assert!(measured.is_none_or(|nanoseconds| nanoseconds > 0.0), "{measured:?}");
        assert!(start.elapsed() < LIMIT * 50);
        assert!(!wait(&AtomicU64::new(1), 2, start));
    }

    #[test]
    fn distant_cores_have_no_common_cache() {
        for (nanoseconds, expected) in [(26.6, false), (60.0, false), (90.0, true), (167.0, true), (f64::NAN, false)] {
            assert_eq!(is_distant(nanoseconds), expected, "{nanoseconds}");
        }
    }
}
