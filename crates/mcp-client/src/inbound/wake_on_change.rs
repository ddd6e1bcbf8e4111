//! State behind a lock that one reader polls. Each change wakes the reader.

use std::task::{Context, Poll, Waker};

use crate::connection::sync::{Mutex, MutexGuard};

/// State that wakes its reader when it changes.
#[derive(Debug, Default)]
pub(crate) struct WakeOnChange<S> {
    inner: Mutex<Inner<S>>,
}

#[derive(Debug, Default)]
struct Inner<S> {
    state: S,
    reader: Option<Waker>,
}

impl<S> WakeOnChange<S> {
    /// Accesses the state without waking the reader.
    pub(crate) fn with<T>(&self, look: impl FnOnce(&mut S) -> T) -> T {
        look(&mut self.lock().state)
    }

    /// Changes the state, then wakes the reader after releasing the lock.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        let mut inner = self.lock();
        let changed = change(&mut inner.state);
        let reader = inner.reader.take();
        drop(inner);
        if let Some(reader) = reader {
            reader.wake();
        }
        changed
    }

    /// Takes a value from the state, or registers the task to be woken by the next change.
    pub(crate) fn poll<T>(&self, cx: &Context<'_>, take: impl FnOnce(&mut S) -> Poll<T>) -> Poll<T> {
        let mut inner = self.lock();
        let taken = take(&mut inner.state);
        let is_known = inner.reader.as_ref().is_some_and(|reader| reader.will_wake(cx.waker()));
        let former = match taken.is_pending() && !is_known {
            true => inner.reader.replace(cx.waker().clone()),
            false => None,
        };
        // Dropping a waker can run code that uses the state.
        drop(inner);
        drop(former);
        taken
    }

    #[cfg(test)]
    pub(crate) fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<S>> {
        self.inner.lock()
    }
}
