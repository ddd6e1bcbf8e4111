//! The clocks of a process, which tests replace.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

/// One moment on both clocks of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The time of day, with which the times in credentials are compared. It may be set back.
    pub(crate) time: SystemTime,
    /// The monotonic time, for ages, rates and lifetimes.
    pub(crate) instant: Instant,
}

#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    pub(crate) fn system() -> Self {
        Self(Arc::new(|| Moment { time: SystemTime::now(), instant: Instant::now() }))
    }

    pub(crate) fn moment(&self) -> Moment {
        (self.0)()
    }

    /// Returns the time of day.
    pub(crate) fn now(&self) -> SystemTime {
        self.moment().time
    }

    /// A clock that a test moves.
    #[cfg(test)]
    pub(crate) fn manual(start: SystemTime) -> (Self, impl Fn(std::time::Duration)) {
        let elapsed = Arc::new(parking_lot::Mutex::new(std::time::Duration::ZERO));
        let (read, instant) = (Arc::clone(&elapsed), Instant::now());
        let moment = move || {
            let elapsed = *read.lock();
            Moment { time: start + elapsed, instant: instant + elapsed }
        };
        (Self(Arc::new(moment)), move |step| *elapsed.lock() += step)
    }

    /// The same clock with another time of day.
    #[cfg(feature = "oauth")]
    #[cfg(test)]
    pub(crate) fn with_time(&self, time: SystemTime) -> Self {
        let clock = self.clone();
        Self(Arc::new(move || Moment { time, ..clock.moment() }))
    }
}
