//! The time of day, which tests replace.

use std::{sync::Arc, time::SystemTime};

#[derive(Clone)]
pub(crate) struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    pub(crate) fn system() -> Self {
        Self(Arc::new(SystemTime::now))
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.0)()
    }

    /// A clock that a test moves.
    #[cfg(test)]
    pub(crate) fn manual(start: SystemTime) -> (Self, impl Fn(std::time::Duration)) {
        let time = Arc::new(parking_lot::Mutex::new(start));
        let read = Arc::clone(&time);
        (Self(Arc::new(move || *read.lock())), move |step| *time.lock() += step)
    }
}
