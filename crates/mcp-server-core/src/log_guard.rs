//! A guard that keeps the log records of a thread from clients while the thread sends a message.
//!
//! The code that sends a message may hold a lock that sending needs. A record that it logs meanwhile must not be sent.

#[cfg(feature = "log-layer")]
use std::cell::Cell;

#[cfg(feature = "log-layer")]
thread_local! {
    static IS_HELD: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the records of this thread from clients until it is dropped.
#[cfg(feature = "log-layer")]
#[derive(Debug)]
pub(crate) struct LogGuard(());

#[cfg(feature = "log-layer")]
impl LogGuard {
    /// Returns `None` when this thread holds a guard already.
    pub(crate) fn enter() -> Option<Self> {
        (!IS_HELD.replace(true)).then(|| Self(()))
    }
}

#[cfg(feature = "log-layer")]
impl Drop for LogGuard {
    fn drop(&mut self) {
        IS_HELD.set(false);
    }
}

/// Keeps the records of this thread from clients until the returned guard is dropped.
#[cfg(feature = "log-layer")]
pub(crate) fn hold_records() -> Option<LogGuard> {
    LogGuard::enter()
}

/// Without the feature `log-layer` no records are sent, so there is nothing to hold.
#[cfg(not(feature = "log-layer"))]
pub(crate) fn hold_records() -> Option<std::convert::Infallible> {
    None
}
