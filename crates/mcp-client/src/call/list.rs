//! Lists: one page, all of them, or entry by entry.

use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures_core::Stream;
use mcp_protocol::{CacheScope, Meta, PaginatedParams, Prompt, Resource, ResourceTemplate, Tool, tasks::Task};
use mcp_transport::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Call, ClientCore, ClientHandle, Reply};
use crate::{Error, connection::Request, error::Kind};

/// What servers list: tools, resources, resource templates, prompts, tasks; with the feature `skills`, skills.
pub trait ListItem: DeserializeOwned + Send + Unpin + sealed::Learn + 'static {
    /// The method that lists it.
    const METHOD: &'static str;
    /// The member of the result that holds it.
    const MEMBER: &'static str;
}

mod sealed {
    use super::{ClientCore, Prompt, Reply, Resource, ResourceTemplate, Task, Tool};

    #[expect(unnameable_types, reason = "nobody else implements it")]
    pub trait Learn: Sized {
        /// Looks at what was listed.
        fn learn(_: &mut Vec<Self>, _: Listing<'_>) {}
    }

    /// Where a page was listed.
    #[expect(unnameable_types, missing_debug_implementations, reason = "nobody else sees one")]
    pub struct Listing<'a> {
        pub(super) core: &'a ClientCore,
        pub(super) reply: &'a Reply,
    }

    impl Learn for Resource {}
    impl Learn for ResourceTemplate {}
    impl Learn for Prompt {}
    impl Learn for Task {}
    #[cfg(feature = "skills")]
    impl Learn for mcp_protocol::skills::Skill {}
    impl Learn for Tool {
        fn learn(tools: &mut Vec<Self>, listing: Listing<'_>) {
            listing.core.inbound.catalog.learn(tools, listing.reply.is_mirrored);
        }
    }
}

macro_rules! listed {
    ($($(#[$cfg:meta])? $item:ty: $method:literal, $member:literal;)*) => {$(
        $(#[$cfg])?
        impl ListItem for $item {
            const METHOD: &'static str = $method;
            const MEMBER: &'static str = $member;
        }
    )*};
}

listed! {
    Tool: "tools/list", "tools";
    Resource: "resources/list", "resources";
    ResourceTemplate: "resources/templates/list", "resourceTemplates";
    Prompt: "prompts/list", "prompts";
    Task: "tasks/list", "tasks";
    #[cfg(feature = "skills")]
    mcp_protocol::skills::Skill: "skills/list", "skills";
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries, without those that make no sense: one bad entry does not spoil a list.
    pub items: Vec<T>,
    /// Where the next page starts; `None` on the last one.
    pub next_cursor: Option<String>,
    /// For how long the page is fresh (2026-07-28).
    pub ttl: Option<Duration>,
    /// Who may share it (2026-07-28).
    pub cache_scope: Option<CacheScope>,
    /// Metadata of the page.
    pub meta: Option<Meta>,
    /// How long it was.
    bytes: usize,
}

/// A list that is still to be read. Awaited, it is all entries of all pages, up to the cap of pages.
///
/// # Errors
/// As for every [`Call`]; also when the list has more pages or bytes than [`Limits`](crate::Limits) let be read
/// ([`Error::is_too_large`]).
#[must_use = "a list is not read until it is awaited"]
pub struct List<T> {
    handle: Arc<ClientHandle>,
    cursor: Option<String>,
    timeout: Option<Duration>,
    is_fresh: bool,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T: ListItem> List<T> {
    pub(crate) fn new(handle: &Arc<ClientHandle>) -> Self {
        Self {
            handle: Arc::clone(handle),
            cursor: None,
            timeout: None,
            is_fresh: false,
            item: std::marker::PhantomData,
        }
    }

    /// Starts at a page that an earlier one named.
    pub fn cursor(mut self, cursor: impl Into<String>) -> Self {
        self.cursor = Some(cursor.into());
        self
    }

    /// How long the server may be silent for each page.
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Asks the server, also when pages are cached that are still fresh.
    pub fn fresh(mut self) -> Self {
        self.is_fresh = true;
        self
    }

    /// One page: the first, or that of the cursor.
    pub fn page(self) -> Call<Page<T>> {
        self.ask()
    }

    /// Entry by entry; each page is read when the one before is used up. Ends after the first error.
    pub fn stream(self) -> Items<T> {
        let pages = self.handle.core.config.limits.pages;
        Items { read: VecDeque::new(), state: Paging::Next(self), pages_left: pages, pages, bytes: 0 }
    }

    fn ask(&self) -> Call<Page<T>> {
        let mut params = PaginatedParams::new();
        params.cursor.clone_from(&self.cursor);
        let mut call = Call::with(&self.handle, Request::new(T::METHOD, &params), read_page::<T>);
        call.options.is_fresh = self.is_fresh;
        match self.timeout {
            Some(limit) => call.idle_timeout(limit),
            None => call,
        }
    }
}

impl<T: ListItem> IntoFuture for List<T> {
    type Output = Result<Vec<T>, Error>;
    type IntoFuture = BoxFuture<'static, Result<Vec<T>, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        let cap = self.handle.core.config.limits.list_bytes;
        let mut stream = self.stream();
        Box::pin(async move {
            let mut all = Vec::new();
            while let Some(item) = stream.next().await {
                all.push(item?);
                if stream.bytes > cap {
                    return Err(Kind::ListBytes(cap).into());
                }
            }
            Ok(all)
        })
    }
}

impl<T> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("List").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// The entries of a list, as a stream.
#[must_use = "a stream is not read until it is polled"]
pub struct Items<T> {
    read: VecDeque<T>,
    state: Paging<T>,
    pages_left: usize,
    pages: usize,
    /// Of the pages that were read.
    bytes: usize,
}

enum Paging<T> {
    Next(List<T>),
    Reading(List<T>, BoxFuture<'static, Result<Page<T>, Error>>),
    Done,
}

impl<T: ListItem> Items<T> {
    /// The next entry; `None` after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<T, Error>> {
        std::future::poll_fn(|cx| self.poll_item(cx)).await
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
                    let page = list.ask().into_future();
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
                    self.read = page.items.into();
                    self.bytes = self.bytes.saturating_add(page.bytes);
                    if let Some(next) = page.next_cursor {
                        if list.cursor.as_ref() == Some(&next) {
                            let problem = format!("{} names the same page again", T::METHOD);
                            return Poll::Ready(Some(Err(Error::invalid(problem))));
                        }
                        self.state = Paging::Next(list.cursor(next));
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

pub(crate) fn read_page<T: ListItem>(core: &ClientCore, reply: &Reply) -> Result<Page<T>, Error> {
    let mut members: HashMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(&reply.bytes)
        .map_err(|error| Error::invalid(format!("the result of {}: {error}", T::METHOD)))?;
    let missing = || Error::invalid(format!("the result of {} has no {:?}", T::METHOD, T::MEMBER));
    let raw = members.remove(T::MEMBER).ok_or_else(missing)?;
    let entries: Option<Vec<&RawValue>> = serde_json::from_str(raw.get())
        .map_err(|error| Error::invalid(format!("{:?} of {}: {error}", T::MEMBER, T::METHOD)))?;
    let entries = entries.unwrap_or_default();
    let mut items = Vec::with_capacity(entries.len());
    for entry in entries {
        match serde_json::from_str(entry.get()) {
            Ok(item) => items.push(item),
            Err(error) => {
                tracing::warn!(%error, method = T::METHOD, "an entry of a list makes no sense, and is left out")
            }
        }
    }
    T::learn(&mut items, sealed::Listing { core, reply });
    let next_cursor: Option<String> = optional(&members, "nextCursor")?;
    let ttl: Option<f64> = optional(&members, "ttlMs")?;
    Ok(Page {
        items,
        // Before it was said that an empty cursor is one like any other, servers sent it on the last page.
        next_cursor: next_cursor.filter(|cursor| !cursor.is_empty() || reply.version.has_empty_cursors()),
        ttl: ttl.map(|millis| Duration::from_millis(millis.max(0.0) as u64)),
        cache_scope: optional(&members, "cacheScope")?,
        meta: optional(&members, "_meta")?,
        bytes: reply.bytes.len(),
    })
}

fn optional<T: DeserializeOwned>(members: &HashMap<Cow<'_, str>, &RawValue>, name: &str) -> Result<Option<T>, Error> {
    let Some(raw) = members.get(name) else { return Ok(None) };
    serde_json::from_str(raw.get()).map_err(|error| Error::invalid(format!("{name:?}: {error}")))
}

#[cfg(test)]
mod tests {
    use mcp_protocol::ProtocolVersion;

    use super::*;

    fn page(version: ProtocolVersion, wire: &'static str) -> Result<Page<Tool>, Error> {
        let connector = Arc::new(crate::OpenTransport::new(mcp_transport::memory::duplex(1).0));
        let config = crate::config::Config::new(mcp_protocol::Implementation::default());
        let core = ClientCore::new(config, Default::default(), connector);
        let method = "tools/list".into();
        read_page(
            &core,
            &Reply { bytes: wire.as_bytes().into(), method, name: None, version, is_mirrored: false, task: None },
        )
    }

    #[test]
    fn one_bad_entry_does_not_spoil_a_page() {
        let read = page(
            ProtocolVersion::LATEST,
            r#"{"tools":[{"name":"a","inputSchema":{}},{"name":7},{"name":"b","inputSchema":{}}],"ttlMs":5.5,"cacheScope":"public"}"#,
        )
        .unwrap();
        let names: Vec<&str> = read.items.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!((read.ttl, read.cache_scope), (Some(Duration::from_millis(5)), Some(CacheScope::Public)));
        assert!(page(ProtocolVersion::LATEST, r#"{"tools":null}"#).unwrap().items.is_empty());
        for bad in ["{}", "[]", r#"{"tools":{}}"#, r#"{"tools":[],"nextCursor":7}"#] {
            assert!(page(ProtocolVersion::LATEST, bad).unwrap_err().is_invalid_response(), "{bad}");
        }
    }

    #[test]
    fn an_empty_cursor_ends_older_lists() {
        for (version, wire, expected) in [
            (ProtocolVersion::V2025_11_25, r#"{"tools":[],"nextCursor":""}"#, None),
            (ProtocolVersion::V2026_07_28, r#"{"tools":[],"nextCursor":""}"#, Some("")),
            (ProtocolVersion::V2026_07_28, r#"{"tools":[],"nextCursor":null}"#, None),
            (ProtocolVersion::V2024_11_05, r#"{"tools":[],"nextCursor":"x"}"#, Some("x")),
        ] {
            assert_eq!(page(version, wire).unwrap().next_cursor.as_deref(), expected, "{version} {wire}");
        }
    }
}
