//! Results that the server says are fresh for a while (2026-07-28, utilities/caching).
//!
//! The cache belongs to one client and so to its credentials: what is private stays where it is. It is bounded, forgets what a
//! notification is about, and everything when the connection is another one.

use std::{collections::HashMap, time::Duration};

use mcp_protocol::{Method, NotificationMethod, ResourceUpdatedParams, method, notification};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use tokio::time::Instant;

use super::Reply;
use crate::{Notification, connection::Request};

/// Results that are kept, and their bytes in all.
const ENTRIES: usize = 512;
const BYTES: usize = 8 << 20;
/// No result is kept for longer, whatever the server says.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

#[derive(Default)]
pub(crate) struct ResultCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<Key, Entry>,
    bytes: usize,
    /// Counts what was forgotten, so that a result that was on its way meanwhile is not kept.
    forgotten: u64,
}

#[derive(PartialEq, Eq, Hash)]
struct Key {
    method: Box<str>,
    params: Box<str>,
}

struct Entry {
    reply: Reply,
    until: Instant,
}

/// When a result was asked for.
#[derive(Clone, Copy)]
pub(crate) struct CacheMarker(u64);

impl ResultCache {
    /// Whether results of a method may be kept at all.
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

    /// The result of an equal request that is still fresh; otherwise a note of when it is asked for.
    pub(crate) fn find(&self, request: &Request) -> Result<Reply, CacheMarker> {
        let state = self.state();
        match state.entries.get(&key(request)) {
            Some(entry) if Instant::now() < entry.until => Ok(entry.reply.clone()),
            _ => Err(CacheMarker(state.forgotten)),
        }
    }

    /// Keeps a result for as long as it says it is fresh, unless something was forgotten since it was asked for.
    pub(crate) fn keep(&self, request: &Request, reply: &Reply, asked: CacheMarker) {
        let Some(ttl) = ttl(reply) else { return };
        let key = key(request);
        let size = reply.bytes.len() + key.params.len();
        let mut state = self.state();
        if state.forgotten != asked.0 || size > BYTES / 8 {
            return;
        }
        let now = Instant::now();
        state.remove(&key);
        if state.entries.len() >= ENTRIES || state.bytes + size > BYTES {
            state.retain(|_, entry| now < entry.until);
        }
        while state.entries.len() >= ENTRIES || state.bytes + size > BYTES {
            // What is stale first goes first.
            let oldest = state.entries.values().map(|entry| entry.until).min();
            state.retain(|_, entry| Some(entry.until) != oldest);
        }
        state.bytes += size;
        state.entries.insert(key, Entry { reply: reply.clone(), until: now + ttl });
    }

    /// Forgets what a notification says is another one now.
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
                // What was updated may be a part of what was read.
                let is_about = |read: &str| updated.uri.starts_with(read);
                self.drop_where(|key, entry| {
                    &*key.method == method::ReadResource::NAME && entry.reply.name.as_deref().is_some_and(is_about)
                });
            }
            _ if notification.is_missed() => self.clear(),
            _ => {}
        }
    }

    /// Forgets every result of a method: all pages of a list.
    pub(crate) fn forget(&self, method: &str) {
        self.drop_where(|key, _| &*key.method == method);
    }

    /// Forgets everything.
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

/// For how long a result says that it is fresh.
fn ttl(reply: &Reply) -> Option<Duration> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Hints {
        #[serde(default)]
        ttl_ms: Option<f64>,
    }
    let hints: Hints = serde_json::from_slice(&reply.bytes).ok()?;
    // The cast saturates, and what is negative is nothing.
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
            is_mirrored: false,
            task: None,
        }
    }

    fn asked(cache: &ResultCache, request: &Request) -> CacheMarker {
        cache.find(request).err().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_fresh_for_as_long_as_they_say() {
        let cache = ResultCache::default();
        for (ttl, millis) in [("0", 0), ("-5", 0), ("null", 0), ("20", 20), ("20.7", 20), ("\"20\"", 0)] {
            cache.clear();
            let note = asked(&cache, &request(1));
            cache.keep(&request(1), &reply(ttl, 0), note);
            assert_eq!(cache.find(&request(1)).is_ok(), millis > 0, "{ttl}");
            assert!(cache.find(&request(2)).is_err());
            tokio::time::advance(Duration::from_millis(millis)).await;
            assert!(cache.find(&request(1)).is_err(), "{ttl}");
        }
        let note = asked(&cache, &request(1));
        cache.keep(&request(1), &Reply { bytes: r#"{"tools":[]}"#.into(), ..reply("0", 0) }, note);
        assert!(cache.find(&request(1)).is_err(), "a time that is missing");
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_on_its_way_when_it_was_forgotten_is_not_kept() {
        let cache = ResultCache::default();
        let note = asked(&cache, &request(1));
        cache.forget("tools/list");
        cache.keep(&request(1), &reply("1000", 0), note);
        assert!(cache.find(&request(1)).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn it_never_grows_beyond_its_caps() {
        let cache = ResultCache::default();
        for n in 0..(2 * ENTRIES) {
            let note = asked(&cache, &request(n));
            cache.keep(&request(n), &reply(&(1000 + n).to_string(), 100_000), note);
            let state = cache.state();
            assert!(state.entries.len() <= ENTRIES && state.bytes <= BYTES);
        }
        assert!(cache.find(&request(2 * ENTRIES - 1)).is_ok(), "the newest is there");
        let note = asked(&cache, &request(0));
        cache.keep(&request(0), &reply("1000", BYTES), note);
        assert!(cache.find(&request(0)).is_err(), "one alone may not fill it");
        cache.clear();
        let state = cache.state();
        assert_eq!((state.entries.len(), state.bytes), (0, 0));
    }
}
