//! The open requests of one HTTP/1.1 connection, and how the connection has to end.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Counts the open requests of a connection and records its shutdown.
#[derive(Debug, Default)]
pub(super) struct RequestTracker {
    open: AtomicUsize,
    is_shutting_down: AtomicBool,
    /// A request body was dropped before its end.
    has_unread_body: AtomicBool,
}

impl RequestTracker {
    /// Counts a request as open until the caller drops the guard.
    pub(super) fn open(self: &Arc<Self>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::AcqRel);
        OpenRequest(self.clone())
    }

    /// Accepts no further requests. The caller has to poll the connection once after this call.
    pub(super) fn shut_down(&self) {
        self.is_shutting_down.store(true, Ordering::Release);
    }

    /// Whether the connection reads no more: it shuts down, and no request is open.
    pub(super) fn is_finished(&self) -> bool {
        self.is_shutting_down.load(Ordering::Acquire) && self.open.load(Ordering::Acquire) == 0
    }

    /// Records that the server dropped a request body before its end.
    pub(super) fn set_unread_body(&self) {
        self.has_unread_body.store(true, Ordering::Release);
    }

    /// Whether the client may still be sending a body that the server does not read.
    pub(super) fn has_unread_body(&self) -> bool {
        self.has_unread_body.load(Ordering::Acquire)
    }
}

/// A request whose answer is not written completely.
#[derive(Debug)]
pub(super) struct OpenRequest(Arc<RequestTracker>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}
