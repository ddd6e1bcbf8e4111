//! Waiting for something that others bring about.

use std::pin::pin;

use tokio::sync::Notify;

/// Looks whenever something has changed until there is something to be found.
pub(crate) async fn wait_until<T>(changed: &Notify, mut look: impl FnMut() -> Option<T>) -> T {
    loop {
        let mut changed = pin!(changed.notified());
        // Registered before looking, so that a change in between is noticed.
        changed.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        changed.await;
    }
}
