//! The end of a visit to a page, which a source asked the user of a session to visit.

use std::{
    fmt,
    sync::{Arc, Weak},
};

use crate::Session;

/// Notifies the client of one session that the user is done on a page ([`SourceCall::page_notifier`](super::SourceCall::page_notifier)).
///
/// ```
/// use mcp_server_core::source::SourceCall;
///
/// /// Returns a future that outlives the call, for a task of the application.
/// fn watch<F: Future<Output = ()>>(call: &SourceCall, done: F) -> impl Future<Output = ()> + use<F> {
///     let notifier = call.page_notifier();
///     async move {
///         done.await;
///         notifier.complete("page-7");
///     }
/// }
/// # fn unused(call: &SourceCall) {
/// #     drop(watch(call, std::future::ready(())));
/// # }
/// # let _ = unused;
/// ```
#[derive(Clone)]
pub struct PageNotifier {
    session: Weak<Session>,
}

impl PageNotifier {
    pub(super) fn new(session: Option<&Arc<Session>>) -> Self {
        Self { session: session.map(Arc::downgrade).unwrap_or_default() }
    }

    /// Notifies the client once that the user is done on the page with this `elicitationId`, also after the end of the call.
    ///
    /// It has no effect without a session of 2025-11-25, and for a page to which the source has not sent the user. A client that
    /// does not read misses the notification, so clients do not depend on it.
    ///
    /// See the example of the [type](Self).
    pub fn complete(&self, page: &str) {
        if let Some(session) = self.session.upgrade() {
            session.complete_page(page);
        }
    }
}

impl fmt::Debug for PageNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageNotifier").finish_non_exhaustive()
    }
}
