//! The pages that servers ask the users of sessions to visit, and the notifications that the users are done (2025-11-25).

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_client::{Client, Notifications};
use mcp_protocol::{ErrorCode, RpcError, notification::ElicitationComplete};
use mcp_server_core::source::SourceCall;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{task::AbortHandle, time::timeout};

use super::{caller::identity, fault::Fault};

/// How long the gateway waits for the notification of a server.
const LONGEST: Duration = Duration::from_secs(3600);
/// The most pages that the gateway watches, and the most of a principal. The completion of further pages is not forwarded.
const PAGES: usize = 1024;
const OF_PRINCIPAL: usize = 256;

/// The numbers of pages that are watched now, by the principals of their users. All users without a principal count as one.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages(Arc<Mutex<HashMap<Option<Arc<str>>, usize>>>);

/// A page that the user has not agreed to visit.
pub(super) struct OpenPage {
    task: Option<AbortHandle>,
}

/// One of the watched pages.
struct Watched {
    pages: Pages,
    principal: Option<Arc<str>>,
}

impl Pages {
    fn watch(&self, principal: Option<Arc<str>>) -> Option<Watched> {
        let mut watched = self.0.lock();
        let all: usize = watched.values().sum();
        let of_principal = watched.get(&principal).copied().unwrap_or_default();
        if all >= PAGES || of_principal >= OF_PRINCIPAL {
            tracing::debug!(all, of_principal, "too many pages are open: the completion of a page is not forwarded");
            return None;
        }
        watched.insert(principal.clone(), of_principal + 1);
        Some(Watched { pages: self.clone(), principal })
    }

    /// Forwards the notification about the completion of a page to the session of its call, with the id for clients. `notices` are
    /// those of the connection that asked. The drop of the returned value ends this. `None` if too many pages are open.
    pub(super) fn forward(
        &self,
        original: String,
        renamed: String,
        mut notices: Notifications,
        call: &SourceCall,
    ) -> Option<OpenPage> {
        let (watched, notifier) = (self.watch(identity(call.context().principal()))?, call.page_notifier());
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

impl Pages {
    /// Returns the fault of a request for its client. If the fault sends the user to pages first (`-32042`), their ids have the form of
    /// the ids in questions, and the gateway forwards their completion.
    pub(super) fn of_fault(&self, fault: Fault, upstream: &Client, call: &SourceCall) -> Fault {
        let named = match &fault {
            Fault::Request { server, error, .. } => self.of_error(server, error.rpc(), upstream, call),
            _ => None,
        };
        named.map_or(fault, Fault::from)
    }

    fn of_error(
        &self,
        server: &str,
        error: Option<&RpcError>,
        upstream: &Client,
        call: &SourceCall,
    ) -> Option<RpcError> {
        let mut error = error.filter(|error| error.code == ErrorCode::URL_ELICITATION_REQUIRED)?.clone();
        if !call.context().version().has_elicitation_complete() {
            return None;
        }
        for page in error.data.as_mut()?.get_mut("elicitations")?.as_array_mut()? {
            let Some(Value::String(id)) = page.get_mut("elicitationId") else { continue };
            let renamed = renamed(server, id);
            let original = std::mem::replace(id, renamed.clone());
            // The user can visit the page as long as the client shows the error.
            if let Some(open) = self.forward(original, renamed, upstream.notifications(), call) {
                open.keep();
            }
        }
        Some(error)
    }
}

/// Returns the id of a page for clients, which no other server uses.
pub(super) fn renamed(server: &str, original: &str) -> String {
    format!("{server}/{original}")
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
        let mut watched = self.pages.0.lock();
        if let Some(of_principal) = watched.get_mut(&self.principal) {
            *of_principal -= 1;
            if *of_principal == 0 {
                watched.remove(&self.principal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_a_principal_leave_pages_for_others_and_all_of_them_are_bounded() {
        let pages = Pages::default();
        let watch = |user: Option<&str>, number: usize| -> Vec<Watched> {
            (0..number).map_while(|_| pages.watch(user.map(Arc::from))).collect()
        };
        let ada = watch(Some("ada"), PAGES);
        let (anonymous, grace) = (watch(None, PAGES), watch(Some("grace"), 1));
        assert_eq!((ada.len(), anonymous.len(), grace.len()), (OF_PRINCIPAL, OF_PRINCIPAL, 1));
        let others: Vec<Watched> = (0..PAGES).flat_map(|n| watch(Some(&format!("user-{n}")), 1)).collect();
        assert_eq!(others.len(), PAGES - 2 * OF_PRINCIPAL - 1);
        // The end of a page makes room for another page.
        drop(ada);
        assert_eq!(watch(Some("ada"), PAGES).len(), OF_PRINCIPAL);
        drop((anonymous, grace, others));
        assert!(pages.0.lock().is_empty());
    }
}
