//! The pages that servers ask the users of sessions to visit, and the notifications that the users are done (2025-11-25).

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
    sync::Arc,
    time::Duration,
};

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
/// The most pages that the gateway watches, and the most of a principal. Beyond them, the gateway forgets the oldest page of the server
/// with the most pages.
const PAGES: usize = 1024;
const OF_PRINCIPAL: usize = 256;
/// The longest id of a watched page for clients, in bytes.
const LONGEST_ID: usize = 1024;
/// The most pages of one error that the gateway watches.
const OF_ERROR: usize = 8;

/// The pages that are watched now.
#[derive(Debug, Clone, Default)]
pub(super) struct Pages(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    watched: HashMap<Arc<PageKey>, Watch>,
    /// The number of watches that have begun or were renewed.
    begun: u64,
}

impl Table {
    /// Makes room for a page of a server and a principal. The pages of one server cannot displace those of all others, and neither can the
    /// pages of one principal.
    fn make_room(&mut self, server: &str, principal: Option<&Arc<str>>) {
        let watches = || self.watched.iter().map(|(key, watch)| (watch.principal.as_ref(), &*key.server, key, watch));
        let full = if watches().filter(|(of, ..)| *of == principal).count() >= OF_PRINCIPAL {
            HashSet::from([principal])
        } else if self.watched.len() >= PAGES {
            with_most(watches().map(|(of, ..)| of).chain([principal]))
        } else {
            return;
        };
        let groups = watches().map(|(of, server, ..)| (of, server)).chain([(principal, server)]);
        let most = with_most(groups.filter(|(of, _)| full.contains(of)));
        let candidates = watches().filter(|(of, server, ..)| most.contains(&(*of, *server)));
        let oldest = candidates.min_by_key(|(.., watch)| watch.renewed).map(|(.., key, _)| Arc::clone(key));
        if let Some(removed) = oldest.and_then(|key| self.watched.remove(&key)) {
            tracing::debug!("too many pages are open: the completion of the oldest page is not forwarded");
            removed.stop.cancel();
        }
    }
}

/// Returns the values that occur the most times.
fn with_most<T: Copy + Eq + Hash>(values: impl Iterator<Item = T>) -> HashSet<T> {
    let mut counts = HashMap::<T, usize>::new();
    values.for_each(|value| *counts.entry(value).or_default() += 1);
    let most = counts.values().max().copied();
    counts.into_iter().filter(|(_, count)| Some(*count) == most).map(|(value, _)| value).collect()
}

/// A page of a server for the user of a session. `id` is the id at the server.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PageKey {
    session: SourceSession,
    server: Box<str>,
    id: Box<str>,
}

impl PageKey {
    /// Returns the key of a page. `None` for a long id.
    fn new(session: SourceSession, server: &str, id: &str) -> Option<Self> {
        let length = server.len() + "/".len() + id.len();
        (length <= LONGEST_ID).then(|| Self { session, server: server.into(), id: id.into() })
    }
}

/// The watch of a page. A server that names the page again renews it.
#[derive(Debug)]
struct Watch {
    /// Distinguishes the watch from later ones of the same page.
    number: u64,
    /// Grows with each renewal of a watch.
    renewed: u64,
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
    /// Watches a page, or renews its watch.
    fn watch(&self, key: PageKey, principal: Option<Arc<str>>) -> (Waiting, OpenPage) {
        let (key, stop) = (Arc::new(key), CancellationToken::new());
        let mut table = self.0.lock();
        table.begun += 1;
        let renewed = table.begun;
        let number = if let Some(known) = table.watched.get_mut(&key) {
            // The connection of the server can be another one than before, so another task waits.
            std::mem::replace(&mut known.stop, stop.clone()).cancel();
            known.open += 1;
            known.renewed = renewed;
            known.number
        } else {
            table.make_room(&key.server, principal.as_ref());
            let watch = Watch { number: renewed, renewed, principal, open: 1, is_kept: false, stop: stop.clone() };
            table.watched.insert(Arc::clone(&key), watch);
            renewed
        };
        drop(table);
        let open = OpenPage { pages: self.clone(), key: Arc::clone(&key), number };
        (Waiting { pages: self.clone(), key, stop }, open)
    }

    /// Forwards the notification about the completion of a page to the session of its call, with the id for clients. `id` is the id at
    /// the server. `notices` are those of the connection that asked. The drop of the returned value ends this, unless the page is kept.
    /// `None` for a long id, and for a call without a session.
    pub(super) fn forward(
        &self,
        server: &str,
        id: &str,
        mut notices: Notifications,
        call: &SourceCall,
    ) -> Option<OpenPage> {
        let key = PageKey::new(call.session()?, server, id)?;
        let (waiting, open) = self.watch(key, identity(call.context().principal()));
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

    /// Returns an error of a server for the client, as [`Pages::of_fault`] does; `None` if the error stays as it is.
    pub(super) fn of_error(
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
        PageKey::new(session.clone(), server, id).unwrap()
    }

    #[tokio::test]
    async fn a_page_with_a_long_id_has_no_watch() {
        let session = session().await;
        for (length, is_watched) in [(LONGEST_ID, true), (LONGEST_ID + 1, false)] {
            let id = "i".repeat(length - "s/".len());
            assert_eq!(renamed("s", &id).len(), length);
            assert_eq!(PageKey::new(session.clone(), "s", &id).is_some(), is_watched, "{length}");
        }
    }

    /// Returns the places of the watches that the table has.
    fn open(watches: &[(Waiting, OpenPage)]) -> Vec<usize> {
        let open = watches.iter().enumerate().filter(|(_, (waiting, _))| !waiting.stop.is_cancelled());
        open.map(|(place, _)| place).collect()
    }

    #[tokio::test]
    async fn the_pages_of_a_principal_leave_pages_for_others_and_all_of_them_are_bounded() {
        let (pages, session) = (Pages::default(), session().await);
        let watch = |user: Option<&str>, number: usize| -> Vec<(Waiting, OpenPage)> {
            let key = |page| key(&session, "s", &format!("{user:?} {page}"));
            (0..number).map(|page| pages.watch(key(page), user.map(Arc::from))).collect()
        };
        let count = || pages.0.lock().watched.len();
        let ada = watch(Some("ada"), PAGES);
        let (anonymous, grace) = (watch(None, PAGES), watch(Some("grace"), 1));
        // The newest pages stay.
        let newest: Vec<usize> = (PAGES - OF_PRINCIPAL..PAGES).collect();
        assert_eq!((open(&ada), open(&anonymous), open(&grace)), (newest.clone(), newest, vec![0]));
        let others: Vec<_> = (0..PAGES / 2 + 100).map(|n| watch(Some(&format!("user-{n}")), 1)).collect();
        assert_eq!(count(), PAGES);
        // The principals with the most pages lose their oldest ones.
        assert!(others.iter().chain([&grace]).all(|of_user| open(of_user).len() == 1));
        for of_user in [&ada, &anonymous] {
            let (open, least) = (open(of_user), OF_PRINCIPAL - 101);
            assert!((least..OF_PRINCIPAL).contains(&open.len()) && open.contains(&(PAGES - 1)), "{}", open.len());
        }
        // A principal without pages has a page if all others have one page.
        drop((ada, anonymous));
        let others: Vec<_> = (0..PAGES).map(|n| watch(Some(&format!("later-{n}")), 1)).collect();
        assert!(count() == PAGES && open(&others[PAGES - 1]) == [0]);
        drop((grace, others));
        assert_eq!(pages.0.lock().watched.values().filter(|watch| watch.open > 1).count(), 0);
    }

    #[tokio::test]
    async fn the_pages_of_one_server_do_not_displace_those_of_all_other_servers() {
        let (pages, session) = (Pages::default(), session().await);
        let watch = |server: &str, page: usize| pages.watch(key(&session, server, &page.to_string()), None);
        let healthy: Vec<_> = ["a", "b"].into_iter().flat_map(|server| [watch(server, 1), watch(server, 2)]).collect();
        let hostile: Vec<_> = (0..10 * OF_PRINCIPAL).map(|page| watch("hostile", page)).collect();
        let later = vec![watch("c", 1)];
        assert_eq!((open(&healthy).len(), open(&later).len()), (4, 1));
        let newest: Vec<usize> = (hostile.len() - (OF_PRINCIPAL - 5)..hostile.len()).collect();
        assert_eq!(open(&hostile), newest);
    }

    #[tokio::test]
    async fn a_page_has_one_watch_in_a_session() {
        let (pages, first, second) = (Pages::default(), session().await, session().await);
        let watch = |key| pages.watch(key, None);
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
        let watch = || pages.watch(key(&session, "s", "a"), None);
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
