//! A wait for a condition that other tasks change.

use std::pin::pin;

use tokio::sync::Notify;

/// Runs `check` now and after each notification, until it returns a value.
pub(crate) async fn wait_until<T>(changed: &Notify, mut check: impl FnMut() -> Option<T>) -> T {
    loop {
        let mut changed = pin!(changed.notified());
        // Registered before the check, so that a change in between is noticed.
        changed.as_mut().enable();
        if let Some(found) = check() {
            return found;
        }
        changed.await;
    }
}
