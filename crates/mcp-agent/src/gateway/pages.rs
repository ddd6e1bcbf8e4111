//! The pages that servers ask the users of sessions to visit, and the notifications that the users are done (2025-11-25).

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_client::Notifications;
use mcp_protocol::notification::ElicitationComplete;
use mcp_server_core::source::PageNotifier;
use tokio::{task::AbortHandle, time::timeout};

/// How long the gateway waits for the notification of a server.
const LONGEST: Duration = Duration::from_secs(3600);
/// The most pages that the gateway watches. The completion of further pages is not forwarded.
const PAGES: usize = 1024;

/// The number of pages that are watched now.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages(Arc<AtomicUsize>);

/// A page that the user has not agreed to visit.
pub(super) struct OpenPage {
    task: Option<AbortHandle>,
}

/// One of the watched pages.
struct Watched(Pages);

impl Pages {
    fn watch(&self) -> Option<Watched> {
        let watched = Watched(self.clone());
        (self.0.fetch_add(1, Ordering::Relaxed) < PAGES).then_some(watched)
    }

    /// Forwards the notification about the completion of a page to the session of its call, with the id for clients. `notices` are
    /// those of the connection that asked. The drop of the returned value ends this.
    pub(super) fn forward(
        &self,
        original: String,
        renamed: String,
        mut notices: Notifications,
        notifier: PageNotifier,
    ) -> Option<OpenPage> {
        let watched = self.watch()?;
        let completed = async move {
            while let Some(notice) = notices.next().await {
                let done = notice.params::<ElicitationComplete>().and_then(Result::ok);
                if done.is_some_and(|done| done.elicitation_id == original) {
                    return true;
                }
            }
            false
        };
        let task = tokio::spawn(async move {
            let _watched = watched;
            // The notifications end with the connection.
            if timeout(LONGEST, completed).await == Ok(true) {
                notifier.complete(&renamed);
            }
        });
        Some(OpenPage { task: Some(task.abort_handle()) })
    }
}

impl OpenPage {
    /// Waits for the completion also after the drop, because the user agreed to visit the page.
    pub(super) fn keep(mut self) {
        self.task = None;
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
