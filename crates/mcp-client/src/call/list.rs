//! A list request: all pages, one page, or item by item.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    hash::{BuildHasher, RandomState},
    ops::Deref,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use mcp_protocol::{CacheScope, PaginatedParams};
use mcp_transport::BoxFuture;
use serde::{Serialize, Serializer};

use super::{
    Call, ClientHandle, OmittedItem,
    omitted::MAX_OMITTED,
    page::{ListItem, Page, read_page},
};
use crate::{Error, connection::Request, error::Kind};

/// A list request. Awaiting it reads all pages into a [`Listing`].
///
/// # Errors
/// As for every [`Call`]. [`Error::is_too_large`] if the list has more pages or bytes than [`Limits`](crate::Limits) allow.
///
/// # Example
/// ```
/// # use mcp_client::Client;
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
/// let client = Client::connect(&server).await?;
/// let tools = client.list_tools().await?;
/// assert_eq!(tools[0].name, "greet");
///
/// // One page, past the cache of the client:
/// let page = client.list_tools().fresh().idle_timeout(std::time::Duration::from_secs(5)).page().await?;
/// if let Some(cursor) = page.next_cursor {
///     println!("{} more", client.list_tools().cursor(cursor).await?.len());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a list request is not sent until it is awaited"]
pub struct List<T> {
    handle: Arc<ClientHandle>,
    cursor: Option<String>,
    idle_timeout: Option<Duration>,
    is_fresh: bool,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T: ListItem> List<T> {
    pub(crate) fn new(handle: &Arc<ClientHandle>) -> Self {
        let item = std::marker::PhantomData;
        let idle_timeout = handle.core.config.idle_timeout;
        Self { handle: Arc::clone(handle), cursor: None, idle_timeout, is_fresh: false, item }
    }

    /// Starts at the page with this cursor ([`Page::next_cursor`]).
    ///
    /// See the [example](Self#example).
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// Sets the idle timeout of the request for each page. `None`: no limit. The default is that of the client.
    ///
    /// See the [example](Self#example).
    pub fn idle_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.idle_timeout = limit.into();
        self
    }

    /// Sends the requests also if cached pages are still fresh.
    ///
    /// See the [example](Self#example).
    pub fn fresh(mut self) -> Self {
        self.is_fresh = true;
        self
    }

    /// Returns a call for one page: the first, or the one with the cursor.
    ///
    /// See the [example](Self#example).
    pub fn page(self) -> Call<Page<T>> {
        self.request()
    }

    /// Returns the items as a stream, which requests a page when the items before it are consumed. It ends after an error.
    ///
    /// ```
    /// # use mcp_client::Client;
    /// # use mcp_server::{Server, tool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
    /// let client = Client::connect(&server).await?;
    /// let mut tools = client.list_tools().stream();
    /// while let Some(tool) = tools.next().await {
    ///     println!("{}", tool?.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn stream(self) -> Items<T> {
        let pages = self.handle.core.config.limits.pages;
        let mut cursors = SeenCursors::default();
        if let Some(cursor) = &self.cursor {
            cursors.insert(cursor);
        }
        Items {
            read: VecDeque::new(),
            state: Paging::Next(self),
            cursors,
            warning: None,
            pages_left: pages,
            pages,
            bytes: 0,
            omitted: Vec::new(),
            length: 0,
            hint: None,
        }
    }

    /// Returns this request for another form of the items.
    pub(super) fn of_items<U: ListItem>(self) -> List<U> {
        let Self { handle, cursor, idle_timeout, is_fresh, .. } = self;
        List { handle, cursor, idle_timeout, is_fresh, item: std::marker::PhantomData }
    }

    fn request(&self) -> Call<Page<T>> {
        let mut params = PaginatedParams::new();
        params.cursor.clone_from(&self.cursor);
        let mut call = Call::with(&self.handle, Request::new(T::METHOD, &params), read_page::<T>);
        call.options.is_fresh = self.is_fresh;
        call.idle_timeout(self.idle_timeout)
    }
}

impl<T: ListItem> IntoFuture for List<T> {
    type Output = Result<Listing<T>, Error>;
    type IntoFuture = BoxFuture<'static, Result<Listing<T>, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        let cap = self.handle.core.config.limits.list_bytes;
        let mut stream = self.stream();
        Box::pin(async move {
            let mut items = Vec::new();
            while let Some(item) = stream.next().await {
                items.push(item?);
                if stream.bytes > cap {
                    return Err(Kind::ListBytes(cap).into());
                }
            }
            Ok(Listing { items, warning: stream.warning, omitted: stream.omitted })
        })
    }
}

impl<T> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// The items of all pages of a list. It derefs to a slice.
///
/// # Example
/// ```
/// # use mcp_client::Client;
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
/// let client = Client::connect(&server).await?;
/// let tools = client.list_tools().await?;
/// assert_eq!(tools.len(), 1);
/// if let Some(warning) = tools.warning() {
///     eprintln!("the list may be incomplete: {warning}");
/// }
/// let tools: Vec<mcp_client::protocol::Tool> = tools.into_vec();
/// # let _ = tools;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Listing<T> {
    items: Vec<T>,
    warning: Option<ListWarning>,
    omitted: Vec<OmittedItem>,
}

impl<T> Listing<T> {
    /// Returns the reason why the list may be incomplete; `None` if the server ended it.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn warning(&self) -> Option<ListWarning> {
        self.warning
    }

    /// Returns the invalid items, which are left out. At most 100.
    ///
    /// See the example of [`OmittedItem`].
    #[must_use]
    pub fn omitted(&self) -> &[OmittedItem] {
        &self.omitted
    }

    /// Returns the items as a vector.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.items
    }
}

impl<T> Deref for Listing<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> Default for Listing<T> {
    fn default() -> Self {
        Self { items: Vec::new(), warning: None, omitted: Vec::new() }
    }
}

impl<T: Serialize> Serialize for Listing<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.items.serialize(serializer)
    }
}

impl<T> From<Listing<T>> for Vec<T> {
    fn from(listing: Listing<T>) -> Self {
        listing.items
    }
}

impl<T> IntoIterator for Listing<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Listing<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.iter()
    }
}

/// A reason why a list ended early.
///
/// ```
/// use mcp_client::ListWarning;
///
/// let warning = ListWarning::RepeatedCursor;
/// assert_eq!(warning.to_string(), "the server returned the same cursor twice");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListWarning {
    /// The server returned a cursor for the second time. The list ended before the repeated page.
    RepeatedCursor,
}

impl fmt::Display for ListWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RepeatedCursor => f.write_str("the server returned the same cursor twice"),
        }
    }
}

/// The items of a list, as a stream ([`List::stream`]).
///
/// # Example
/// ```
/// # use mcp_client::Client;
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
/// let client = Client::connect(&server).await?;
/// let mut tools = client.list_tools().stream();
/// while let Some(tool) = tools.next().await {
///     println!("{}", tool?.name);
/// }
/// assert!(tools.warning().is_none());
/// # Ok(())
/// # }
/// ```
#[must_use = "a stream is not read until it is polled"]
pub struct Items<T> {
    read: VecDeque<T>,
    state: Paging<T>,
    cursors: SeenCursors,
    warning: Option<ListWarning>,
    pages_left: usize,
    pages: usize,
    /// The bytes of all pages so far.
    bytes: usize,
    omitted: Vec<OmittedItem>,
    /// The number of all items so far, with the invalid ones.
    length: usize,
    /// The smallest time of the pages so far, and the scope that holds for all of them.
    hint: Option<(Duration, CacheScope)>,
}

enum Paging<T> {
    Next(List<T>),
    Reading(List<T>, BoxFuture<'static, Result<Page<T>, Error>>),
    Done,
}

impl<T: ListItem> Items<T> {
    /// Returns the next item; `None` after the last one. Cancel safe.
    ///
    /// See the [example](Self#example).
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        std::future::poll_fn(|cx| self.poll_item(cx)).await
    }

    /// Returns the reason why the list ended early. It is known after the last item.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn warning(&self) -> Option<ListWarning> {
        self.warning
    }

    /// Returns the invalid items so far, which are left out. At most 100.
    ///
    /// See the example of [`OmittedItem`].
    #[must_use]
    pub fn omitted(&self) -> &[OmittedItem] {
        &self.omitted
    }

    /// Returns the shortest time for which a page so far stays fresh, and `public` if each of them is (2026-07-28). `None` before
    /// the first page. A page without a hint is stale at once, and `private`.
    ///
    /// ```
    /// # use mcp_client::Client;
    /// # use mcp_server::{Server, tool};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_client::Error> {
    /// # let server = Server::builder("s", "1").tool(tool("greet", async || "Hello!")).build();
    /// let mut tools = Client::connect(&server).await?.list_tools().stream();
    /// assert_eq!(tools.cache_hint(), None);
    /// while tools.next().await.is_some() {}
    /// assert!(tools.cache_hint().is_some());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cache_hint(&self) -> Option<(Duration, CacheScope)> {
        self.hint
    }

    fn add_hint(&mut self, ttl: Option<Duration>, scope: Option<CacheScope>) {
        let (ttl, scope) = (ttl.unwrap_or_default(), scope.unwrap_or(CacheScope::Private));
        self.hint = Some(match self.hint {
            None => (ttl, scope),
            Some((former, CacheScope::Public)) => (former.min(ttl), scope),
            Some((former, _)) => (former.min(ttl), CacheScope::Private),
        });
    }

    fn poll_item(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        loop {
            if let Some(item) = self.read.pop_front() {
                return Poll::Ready(Some(Ok(item)));
            }
            match std::mem::replace(&mut self.state, Paging::Done) {
                Paging::Done => return Poll::Ready(None),
                Paging::Next(list) => {
                    if self.pages_left == 0 {
                        return Poll::Ready(Some(Err(Kind::Pages(self.pages).into())));
                    }
                    self.pages_left -= 1;
                    let page = list.request().into_future();
                    self.state = Paging::Reading(list, page);
                }
                Paging::Reading(list, mut page) => {
                    let Poll::Ready(page) = page.as_mut().poll(cx) else {
                        self.state = Paging::Reading(list, page);
                        return Poll::Pending;
                    };
                    let page = match page {
                        Ok(page) => page,
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    };
                    self.add_hint(page.ttl, page.cache_scope);
                    self.read = page.items.into();
                    let (earlier, left) = (self.length, MAX_OMITTED.saturating_sub(self.omitted.len()));
                    self.omitted.extend(page.omitted.into_iter().take(left).map(|item| item.after(earlier)));
                    self.length = earlier.saturating_add(page.length);
                    self.bytes = self.bytes.saturating_add(page.bytes);
                    if let Some(next) = page.next_cursor {
                        if self.cursors.insert(&next) {
                            self.state = Paging::Next(list.cursor(next));
                        } else {
                            tracing::warn!(
                                method = T::METHOD,
                                "the server returned a cursor twice: the list ends here"
                            );
                            self.warning = Some(ListWarning::RepeatedCursor);
                        }
                    }
                }
            }
        }
    }
}

impl<T: ListItem> Stream for Items<T> {
    type Item = Result<T, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(ready!(self.poll_item(cx)))
    }
}

impl<T> fmt::Debug for Items<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items").field("read", &self.read.len()).finish_non_exhaustive()
    }
}

/// The cursors of one listing, as two independent hashes each, so that long cursors take no memory.
#[derive(Default)]
pub(super) struct SeenCursors {
    hashers: [RandomState; 2],
    seen: HashSet<[u64; 2]>,
}

impl SeenCursors {
    /// Adds a cursor. Returns false if it was added before.
    pub(super) fn insert(&mut self, cursor: &str) -> bool {
        self.seen.insert(self.hashers.each_ref().map(|hasher| hasher.hash_one(cursor)))
    }
}
