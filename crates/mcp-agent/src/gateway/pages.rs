//! The pages that servers ask the users of sessions to visit, and the notifications that the users are done (2025-11-25).

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_client::{Client, Notifications};
use mcp_protocol::{ErrorCode, RpcError, notification::ElicitationComplete};
use mcp_server_core::source::{SourceCall, SourceSession};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{caller::identity, fault::Fault};

/// How long the gateway waits for the notification of a server.
const LONGEST: Duration = Duration::from_secs(3600);
/// The most pages that the gateway watches, and the most of a principal. The completion of further pages is not forwarded.
const PAGES: usize = 1024;
const OF_PRINCIPAL: usize = 256;
/// The most pages of one error that the gateway watches.
const OF_ERROR: usize = 8;

/// The pages that are watched now.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    watched: HashMap<Arc<PageKey>, Watch>,
    /// The number of watches that have begun.
    begun: u64,
}

/// A page of a server for the user of a session. `id` is the id at the server.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PageKey {
    session: SourceSession,
    server: Box<str>,
    id: Box<str>,
}

/// The watch of a page. A server that names the page again renews it.
#[derive(Debug)]
struct Watch {
    /// Distinguishes the watch from later ones of the same page.
    number: u64,
    /// All users without a principal count as one.
    principal: Option<Arc<str>>,
    /// The number of questions about the page that the user has not answered.
    open: usize,
    /// The user agreed to visit the page, or an error named it.
    is_kept: bool,
    /// Ends the task that waits for the notification.
    stop: CancellationToken,
}

/// A page that the user has not agreed to visit.
pub(super) struct OpenPage {
    pages: Pages,
    key: Arc<PageKey>,
    number: u64,
}

/// The task that waits for the notification. The drop of the value makes room for another page, unless the watch was renewed.
struct Waiting {
    pages: Pages,
    key: Arc<PageKey>,
    stop: CancellationToken,
}

impl Pages {
    /// Watches a page, or renews its watch. `None` if too many pages are open.
    fn watch(&self, key: PageKey, principal: Option<Arc<str>>) -> Option<(Waiting, OpenPage)> {
        let (key, stop) = (Arc::new(key), CancellationToken::new());
        let mut table = self.0.lock();
        let number = if let Some(known) = table.watched.get_mut(&key) {
            // The connection of the server can be another one than before, so another task waits.
            std::mem::replace(&mut known.stop, stop.clone()).cancel();
            known.open += 1;
            known.number
        } else {
            let all = table.watched.len();
            let of_principal = table.watched.values().filter(|watch| watch.principal == principal).count();
            if all >= PAGES || of_principal >= OF_PRINCIPAL {
                tracing::debug!(
                    all,
                    of_principal,
                    "too many pages are open: the completion of a page is not forwarded"
                );
                return None;
            }
            table.begun += 1;
            let number = table.begun;
            let watch = Watch { number, principal, open: 1, is_kept: false, stop: stop.clone() };
            table.watched.insert(Arc::clone(&key), watch);
            number
        };
        drop(table);
        let open = OpenPage { pages: self.clone(), key: Arc::clone(&key), number };
        Some((Waiting { pages: self.clone(), key, stop }, open))
    }

    /// Forwards the notification about the completion of a page to the session of its call, with the id for clients. `id` is the id at
    /// the server. `notices` are those of the connection that asked. The drop of the returned value ends this, unless the page is kept.
    /// `None` if too many pages are open, and for a call without a session.
    pub(super) fn forward(
        &self,
        server: &str,
        id: &str,
        mut notices: Notifications,
        call: &SourceCall,
    ) -> Option<OpenPage> {
        let key = PageKey { session: call.session()?, server: server.into(), id: id.into() };
        let (waiting, open) = self.watch(key, identity(call.context().principal()))?;
        let notifier = call.page_notifier();
        tokio::spawn(async move {
            let Waiting { key, stop, .. } = &waiting;
            let completed = async {
                while let Some(notice) = notices.next().await {
                    let done = notice.params::<ElicitationComplete>().and_then(Result::ok);
                    if done.is_some_and(|done| *done.elicitation_id == *key.id) {
                        return true;
                    }
                }
                // The notifications end with the connection.
                false
            };
            let is_completed = tokio::select! {
                biased;
                // The notifications before the renewal of the watch come first.
                completed = timeout(LONGEST, completed) => completed == Ok(true),
                () = stop.cancelled() => false,
            };
            if is_completed {
                notifier.complete(&renamed(&key.server, &key.id));
            }
        });
        Some(open)
    }

    /// Returns the fault of a request for its client. If the fault sends the user to pages first (`-32042`), their ids have the form of
    /// the ids in questions, and the gateway forwards the completion of the first ones.
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
        let pages = error.data.as_mut()?.get_mut("elicitations")?.as_array_mut()?;
        let ids = pages.iter_mut().filter_map(|page| match page.get_mut("elicitationId") {
            Some(Value::String(id)) => Some(id),
            _ => None,
        });
        for (number, id) in ids.enumerate() {
            // The user can visit the page as long as the client shows the error.
            if number < OF_ERROR
                && let Some(open) = self.forward(server, id, upstream.notifications(), call)
            {
                open.keep();
            }
            *id = renamed(server, id);
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
    pub(super) fn keep(self) {
        self.change(|watch| watch.is_kept = true);
    }

    fn change(&self, change: impl FnOnce(&mut Watch)) {
        let mut table = self.pages.0.lock();
        let Some(watch) = table.watched.get_mut(&self.key).filter(|watch| watch.number == self.number) else { return };
        change(watch);
        if watch.open == 0 && !watch.is_kept {
            watch.stop.cancel();
            table.watched.remove(&self.key);
        }
    }
}

impl Drop for OpenPage {
    fn drop(&mut self) {
        self.change(|watch| watch.open -= 1);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut table = self.pages.0.lock();
        // Another task has the watch, or the watch has ended.
        if !self.stop.is_cancelled() {
            table.watched.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use mcp_client::transport::BoxFuture;
    use mcp_protocol::ProtocolVersion;
    use mcp_server_core::{
        Server,
        source::{Source, SourceList, SourceOutcome, SourcePage},
    };

    use super::*;

    /// Keeps the session of the last request for a list.
    struct Listed(Arc<Mutex<Option<SourceSession>>>);

    impl Source for Listed {
        fn list(&self, _list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
            *self.0.lock() = call.session();
            Box::pin(ready(Ok(SourcePage::new([]))))
        }

        fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
            Box::pin(ready(Err(RpcError::internal("the server has no tools"))))
        }
    }

    /// Returns a session of its own.
    async fn session() -> SourceSession {
        let listed = Arc::default();
        let server = Server::builder::<()>("s", "1").versions([ProtocolVersion::V2025_11_25]);
        let client = Client::connect(&server.source(Listed(Arc::clone(&listed))).build()).await.unwrap();
        client.list_tools().await.unwrap();
        let session = listed.lock().take();
        session.unwrap()
    }

    fn key(session: &SourceSession, server: &str, id: &str) -> PageKey {
        PageKey { session: session.clone(), server: server.into(), id: id.into() }
    }

    #[tokio::test]
    async fn the_pages_of_a_principal_leave_pages_for_others_and_all_of_them_are_bounded() {
        let (pages, session) = (Pages::default(), session().await);
        let watch = |user: Option<&str>, number: usize| -> Vec<(Waiting, OpenPage)> {
            let key = |page| key(&session, "s", &format!("{user:?} {page}"));
            (0..number).map_while(|page| pages.watch(key(page), user.map(Arc::from))).collect()
        };
        let ada = watch(Some("ada"), PAGES);
        let (anonymous, grace) = (watch(None, PAGES), watch(Some("grace"), 1));
        assert_eq!((ada.len(), anonymous.len(), grace.len()), (OF_PRINCIPAL, OF_PRINCIPAL, 1));
        let others: Vec<_> = (0..PAGES).flat_map(|n| watch(Some(&format!("user-{n}")), 1)).collect();
        assert_eq!(others.len(), PAGES - 2 * OF_PRINCIPAL - 1);
        // The end of a page makes room for another page.
        drop(ada);
        assert_eq!(watch(Some("ada"), PAGES).len(), OF_PRINCIPAL);
        drop((anonymous, grace, others));
        assert!(pages.0.lock().watched.is_empty());
    }

    #[tokio::test]
    async fn a_page_has_one_watch_in_a_session() {
        let (pages, first, second) = (Pages::default(), session().await, session().await);
        let watch = |key| pages.watch(key, None).unwrap();
        let count = || pages.0.lock().watched.len();
        let (agreed, open) = watch(key(&first, "s", "a"));
        open.keep();
        // Each repetition renews the watch, also at the bound of the principal.
        let others: Vec<_> = (1..OF_PRINCIPAL).map(|page| watch(key(&first, "s", &page.to_string()))).collect();
        let (renewed, open) = watch(key(&first, "s", "a"));
        assert_eq!(count(), OF_PRINCIPAL);
        assert!(agreed.stop.is_cancelled() && !renewed.stop.is_cancelled());
        drop(others);
        // The end of the former task does not end the renewed watch, and neither does a question that the user declines.
        drop(agreed);
        drop(open);
        assert_eq!(count(), 1);
        assert!(!renewed.stop.is_cancelled());
        // Another server and another session have pages of their own.
        let others = [watch(key(&first, "t", "a")), watch(key(&second, "s", "a"))];
        assert_eq!(count(), 3);
        drop(others);
        drop(renewed);
        assert_eq!(count(), 0);
    }

    #[tokio::test]
    async fn the_last_declined_question_ends_the_watch() {
        let (pages, session) = (Pages::default(), session().await);
        let watch = || pages.watch(key(&session, "s", "a"), None).unwrap();
        let (first, second) = (watch(), watch());
        drop(first);
        assert!(!second.0.stop.is_cancelled());
        let (waiting, open) = second;
        // The watch of a question that ended meanwhile is another one.
        drop(waiting);
        let (waiting, later) = watch();
        drop(open);
        assert!(!waiting.stop.is_cancelled());
        drop(later);
        assert!(waiting.stop.is_cancelled() && pages.0.lock().watched.is_empty());
    }
}
