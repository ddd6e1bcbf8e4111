//! A cache of results that the server declares to be fresh for a while (2026-07-28, utilities/caching).
//!
//! Each client has its own cache, so private results stay with its credentials. The cache is bounded. A notification of
//! a change evicts the results that it affects, and a new connection evicts all.

use std::{collections::HashMap, time::Duration};

use mcp_protocol::{Method, NotificationMethod, ResourceUpdatedParams, method, notification};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use tokio::time::Instant;

use super::Reply;
use crate::{Notification, connection::Request};

/// The largest number of results, and of their bytes.
const ENTRIES: usize = 512;
const BYTES: usize = 8 << 20;
/// The longest time that a result stays in the cache.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

#[derive(Default)]
pub(crate) struct ResultCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    bytes: usize,
    /// The number of evictions. A result that was requested before an eviction is not stored after it.
    forgotten: u64,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    method: Box<str>,
    params: Box<str>,
}

struct Entry {
    reply: Reply,
    expires: Instant,
}

/// The number of evictions when a result was requested.
#[derive(Clone, Copy)]
pub(crate) struct CacheMarker(u64);

impl ResultCache {
    /// Returns true if results of the method can be cached.
    pub(crate) fn takes(method: &str) -> bool {
        matches!(
            method,
            method::Discover::NAME
                | method::ListTools::NAME
                | method::ListPrompts::NAME
                | method::ListResources::NAME
                | method::ListResourceTemplates::NAME
                | method::ReadResource::NAME
        )
    }

    /// Returns the fresh result of an equal request, or else a marker for [`ResultCache::keep`].
    pub(crate) fn find(&self, request: &Request) -> Result<Reply, CacheMarker> {
        let state = self.state();
        match state.entries.get(&key(request)) {
            Some(entry) if Instant::now() < entry.expires => Ok(entry.reply.clone()),
            _ => Err(CacheMarker(state.forgotten)),
        }
    }

    /// Stores a result for the time that it declares, unless something was evicted since it was requested.
    pub(crate) fn keep(&self, request: &Request, reply: &Reply, marker: CacheMarker) {
        let Some(ttl) = ttl(reply) else { return };
        let key = key(request);
        let size = reply.bytes.len() + key.params.len();
        let mut state = self.state();
        if state.forgotten != marker.0 || size > BYTES / 8 {
            return;
        }
        let now = Instant::now();
        state.remove(&key);
        if state.entries.len() >= ENTRIES || state.bytes + size > BYTES {
            state.retain(|_, entry| now < entry.expires);
        }
        while state.entries.len() >= ENTRIES || state.bytes + size > BYTES {
            // The result that expires first is evicted first.
            let oldest = state.entries.values().map(|entry| entry.expires).min();
            state.retain(|_, entry| Some(entry.expires) != oldest);
        }
        state.bytes += size;
        state.entries.insert(key, Entry { reply: reply.clone(), expires: now + ttl });
    }

    /// Evicts the results that a notification affects.
    pub(crate) fn invalidate(&self, notification: &Notification) {
        match notification.method() {
            notification::ToolListChanged::NAME => self.forget(method::ListTools::NAME),
            notification::PromptListChanged::NAME => self.forget(method::ListPrompts::NAME),
            notification::ResourceListChanged::NAME => {
                self.forget(method::ListResources::NAME);
                self.forget(method::ListResourceTemplates::NAME);
            }
            notification::ResourceUpdated::NAME => {
                let Ok(updated) = notification.decode::<ResourceUpdatedParams>() else { return };
                // The update can concern a part of a resource that was read as a whole.
                let is_about = |read: &str| updated.uri.starts_with(read);
                self.drop_where(|key, entry| {
                    &*key.method == method::ReadResource::NAME && entry.reply.name.as_deref().is_some_and(is_about)
                });
            }
            _ if notification.is_missed() => self.clear(),
            _ => {}
        }
    }

    /// Evicts all results of a method, such as all pages of a list.
    pub(crate) fn forget(&self, method: &str) {
        self.drop_where(|key, _| &*key.method == method);
    }

    /// Evicts everything.
    pub(crate) fn clear(&self) {
        self.drop_where(|_, _| true);
    }

    fn drop_where(&self, is_old: impl Fn(&Key, &Entry) -> bool) {
        let mut state = self.state();
        state.forgotten += 1;
        state.retain(|key, entry| !is_old(key, entry));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.reply.bytes.len() + key.params.len();
        }
    }

    fn retain(&mut self, is_kept: impl Fn(&Key, &Entry) -> bool) {
        self.entries.retain(|key, entry| is_kept(key, entry));
        self.bytes = self.entries.iter().map(|(key, entry)| entry.reply.bytes.len() + key.params.len()).sum();
    }
}

fn key(request: &Request) -> Key {
    Key { method: (*request.method).into(), params: request.body.text.as_str().into() }
}

/// Returns the time for which a result declares to be fresh.
fn ttl(reply: &Reply) -> Option<Duration> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Hints {
        #[serde(default)]
        ttl_ms: Option<f64>,
    }
    let hints: Hints = serde_json::from_slice(&reply.bytes).ok()?;
    // The cast saturates. Values below one are not fresh.
    let millis = hints.ttl_ms.filter(|millis| *millis >= 1.0)? as u64;
    Some(Duration::from_millis(millis).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use mcp_protocol::ProtocolVersion;
    use serde_json::json;

    use super::*;

    fn request(cursor: usize) -> Request {
        Request::new("tools/list", &json!({ "cursor": cursor.to_string() })).unwrap()
    }

    fn reply(ttl: &str, size: usize) -> Reply {
        let padding = " ".repeat(size);
        Reply {
            bytes: format!(r#"{{"tools":[],"ttlMs":{ttl}{padding}}}"#).into(),
            method: "tools/list".into(),
            name: None,
            version: ProtocolVersion::LATEST,
            connection: 1,
            is_mirrored: false,
            task: None,
            requires_input: false,
        }
    }

    fn marker(cache: &ResultCache, request: &Request) -> CacheMarker {
        cache.find(request).err().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_fresh_for_their_declared_time() {
        let cache = ResultCache::default();
        for (ttl, millis) in [("0", 0), ("-5", 0), ("null", 0), ("20", 20), ("20.7", 20), ("\"20\"", 0)] {
            cache.clear();
            let note = marker(&cache, &request(1));
            cache.keep(&request(1), &reply(ttl, 0), note);
            assert_eq!(cache.find(&request(1)).is_ok(), millis > 0, "{ttl}");
            assert!(cache.find(&request(2)).is_err());
            tokio::time::advance(Duration::from_millis(millis)).await;
            assert!(cache.find(&request(1)).is_err(), "{ttl}");
        }
        let note = marker(&cache, &request(1));
        cache.keep(&request(1), &Reply { bytes: r#"{"tools":[]}"#.into(), ..reply("0", 0) }, note);
        assert!(cache.find(&request(1)).is_err(), "a time that is missing");
    }

    #[tokio::test(start_paused = true)]
    async fn results_requested_before_an_eviction_are_not_cached() {
        let cache = ResultCache::default();
        let note = marker(&cache, &request(1));
        cache.forget("tools/list");
        cache.keep(&request(1), &reply("1000", 0), note);
        assert!(cache.find(&request(1)).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_cache_stays_within_its_limits() {
        let cache = ResultCache::default();
        for n in 0..(2 * ENTRIES) {
            let note = marker(&cache, &request(n));
            cache.keep(&request(n), &reply(&(1000 + n).to_string(), 100_000), note);
            let state = cache.state();
            assert!(state.entries.len() <= ENTRIES && state.bytes <= BYTES);
        }
        assert!(cache.find(&request(2 * ENTRIES - 1)).is_ok(), "the newest result is cached");
        let note = marker(&cache, &request(0));
        cache.keep(&request(0), &reply("1000", BYTES), note);
        assert!(cache.find(&request(0)).is_err(), "one alone may not fill it");
        cache.clear();
        let state = cache.state();
        assert_eq!((state.entries.len(), state.bytes), (0, 0));
    }
}
