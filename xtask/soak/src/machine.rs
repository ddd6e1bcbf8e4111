//! The memory of the processes over time, and the delays of the machine itself.

use std::{
    collections::VecDeque,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The growth of memory that counts as noise in any run, and in a run whose judged part is shorter than [`SHORT`].
const NOISE: [f64; 2] = [4.0 * MIB, 16.0 * MIB];
/// The seconds in which caches and pools can still grow.
const SHORT: f64 = 120.0;
pub(crate) const MIB: f64 = 1024.0 * 1024.0;
/// The memory that a process can keep after the load: pages of its program, and free memory of its allocator.
const RETAINED: f64 = 48.0 * MIB;
/// The interval of the thread that measures delays.
const TICK: Duration = Duration::from_millis(5);
/// The time for which delays are stored.
const KEPT: Duration = Duration::from_secs(10);

/// The straight line through samples, from the second third of the run on. The first third fills caches and pools.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    /// The growth in the judged part of the run, in bytes.
    pub(crate) growth: f64,
    /// The growth that counts as noise.
    pub(crate) noise: f64,
    /// The growth in one hour, in bytes.
    pub(crate) hourly: f64,
    pub(crate) first: f64,
    pub(crate) last: f64,
}

impl Trend {
    /// Fits samples of bytes, each with its time in seconds. Returns `None` for fewer than four samples.
    pub(crate) fn of(samples: &[(f64, f64)]) -> Option<Self> {
        let judged = samples.get(samples.len() / 3..).filter(|judged| judged.len() >= 4)?;
        let (first, last) = (judged.first()?, judged.last()?);
        let count = judged.len() as f64;
        let mean = |value: fn(&(f64, f64)) -> f64| judged.iter().map(value).sum::<f64>() / count;
        let (time, bytes) = (mean(|sample| sample.0), mean(|sample| sample.1));
        let spread: f64 = judged.iter().map(|sample| (sample.0 - time).powi(2)).sum();
        let together: f64 = judged.iter().map(|sample| (sample.0 - time) * (sample.1 - bytes)).sum();
        let slope = if spread > 0.0 { together / spread } else { 0.0 };
        let rest = |sample: &(f64, f64)| (sample.1 - slope.mul_add(sample.0 - time, bytes)).powi(2);
        let deviation = (judged.iter().map(rest).sum::<f64>() / count).sqrt();
        let [long, short] = NOISE;
        let least = if last.0 - first.0 < SHORT { short } else { long };
        let noise = least.max(4.0 * deviation);
        Some(Self { growth: slope * (last.0 - first.0), noise, hourly: slope * 3600.0, first: first.1, last: last.1 })
    }

    pub(crate) fn is_growing(&self) -> bool {
        self.growth > self.noise
    }

    /// Whether the memory after the load is that of the warm-up again, and near that before the load.
    pub(crate) fn returns(&self, before: f64, settled: f64) -> bool {
        settled <= self.first + self.noise && settled <= before + RETAINED
    }
}

/// The delays of a thread that only sleeps. They show the load of the machine by other programs.
#[derive(Clone, Default)]
pub(crate) struct Delays(Arc<Mutex<VecDeque<(Instant, Duration)>>>);

impl Delays {
    /// Starts the thread. It ends with the process.
    pub(crate) fn measure() -> Self {
        let delays = Self::default();
        let stored = Arc::downgrade(&delays.0);
        thread::spawn(move || {
            let mut before = Instant::now();
            loop {
                thread::sleep(TICK);
                let Some(stored) = stored.upgrade() else { return };
                let now = Instant::now();
                let delay = now.duration_since(before).saturating_sub(TICK);
                before = now;
                let mut stored = stored.lock();
                if delay > TICK {
                    stored.push_back((now, delay));
                }
                while stored.front().is_some_and(|(at, _)| now.duration_since(*at) > KEPT) {
                    stored.pop_front();
                }
            }
        });
        delays
    }

    /// The sum of the delays since an instant, at most [`KEPT`] ago.
    pub(crate) fn since(&self, start: Instant) -> Duration {
        self.0.lock().iter().filter(|(at, _)| *at >= start).map(|(_, delay)| *delay).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_growth_above_the_noise_counts() {
        let samples = |value: fn(f64) -> f64| -> Vec<(f64, f64)> {
            (0..300).map(|second| (f64::from(second), MIB * (30.0 + value(f64::from(second))))).collect()
        };
        for (name, value, is_growing) in [
            ("a constant", (|_| 0.0) as fn(f64) -> f64, false),
            ("a leak", |second| second * 0.1, true),
            ("a slow leak below the noise", |second| second * 0.01, false),
            ("a sawtooth", |second| (second % 10.0) * 2.0, false),
            ("a warm-up", |second| (second * 0.5).min(40.0), false),
        ] {
            let trend = Trend::of(&samples(value)).unwrap();
            assert_eq!(trend.is_growing(), is_growing, "{name}: {trend:?}");
        }
        assert_eq!(Trend::of(&[(0.0, 1.0); 4]), None);
    }

    #[test]
    fn memory_above_the_warm_up_or_far_above_the_start_does_not_return() {
        let samples: Vec<_> = (0..300).map(|second| (f64::from(second), 60.0 * MIB)).collect();
        let trend = Trend::of(&samples).unwrap();
        for (before, settled, returns) in
            [(30.0, 50.0, true), (30.0, 63.0, true), (30.0, 65.0, false), (10.0, 59.0, false)]
        {
            assert_eq!(trend.returns(before * MIB, settled * MIB), returns, "{before}, {settled}");
        }
    }
}
