//! Access to the store of a server: names in the namespace of the server, with a timeout for every operation.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{ErrorCode, RpcError};
use mcp_store::{KeyPage, Store, StoreError, StoreFuture, Subscription, Swap};
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// The longest time that one operation of the store may take.
pub(crate) const STORE_TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of the server's name in a namespace.
const NAME_BYTES: usize = 64;
/// The bytes of the hash of a long name.
const HASH_BYTES: usize = 16;

/// The store of a server. An operation fails as unavailable after [`STORE_TIMEOUT`].
///
/// Each name gets the prefix `mcp/{server}/`, so servers with different names can use one store.
#[derive(Debug, Clone)]
pub(crate) struct ServerStore {
    store: Arc<dyn Store>,
    namespace: Arc<str>,
}

impl ServerStore {
    pub(crate) fn new(store: Arc<dyn Store>, server: &str) -> Self {
        Self { store, namespace: format!("mcp/{}/", segment(server)).into() }
    }

    /// Returns the store itself. Its names need [`ServerStore::full`], and its operations have no timeout.
    pub(crate) fn raw(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns a name with the namespace.
    pub(crate) fn full(&self, name: &str) -> String {
        format!("{}{name}", self.namespace)
    }

    /// Returns a name without the namespace, for example a key of a page.
    pub(crate) fn local<'a>(&self, name: &'a str) -> &'a str {
        name.strip_prefix(&*self.namespace).unwrap_or(name)
    }

    pub(crate) async fn get(&self, key: &str) -> Result<Option<Arc<[u8]>>, StoreError> {
        in_time(self.store.get(&self.full(key))).await
    }

    pub(crate) async fn put(&self, key: &str, value: Arc<[u8]>, ttl: Option<Duration>) -> Result<(), StoreError> {
        in_time(self.store.put(&self.full(key), value, ttl)).await
    }

    pub(crate) async fn compare_and_swap(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> Result<Swap, StoreError> {
        in_time(self.store.compare_and_swap(&self.full(key), expected, new, ttl)).await
    }

    pub(crate) async fn delete(&self, key: &str) -> Result<bool, StoreError> {
        in_time(self.store.delete(&self.full(key))).await
    }

    /// Lists records after the cursor of a page. The keys of the page and the cursor have the namespace.
    pub(crate) async fn list(&self, prefix: &str, cursor: Option<&str>, limit: usize) -> Result<KeyPage, StoreError> {
        in_time(self.store.list(&self.full(prefix), cursor, limit)).await
    }

    pub(crate) async fn publish(&self, topic: &str, message: Arc<[u8]>) -> Result<(), StoreError> {
        in_time(self.store.publish(&self.full(topic), message)).await
    }

    pub(crate) async fn subscribe(&self, topic: &str, capacity: usize) -> Result<Subscription, StoreError> {
        in_time(self.store.subscribe(&self.full(topic), capacity)).await
    }
}

async fn in_time<T>(answer: StoreFuture<'_, T>) -> Result<T, StoreError> {
    let late = |_| Err(StoreError::unavailable("the store did not answer in time"));
    tokio::time::timeout(STORE_TIMEOUT, answer).await.unwrap_or_else(late)
}

/// Returns the name of a server as one segment of a key. Different names have different segments: bytes other than letters,
/// digits, `.`, `-` and `_` are escaped, and a cryptographic hash replaces the end of a long name.
fn segment(server: &str) -> String {
    let mut segment = String::with_capacity(server.len());
    for byte in server.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => segment.push(char::from(byte)),
            _ => segment.push_str(&format!("%{byte:02X}")),
        }
    }
    if segment.len() > NAME_BYTES {
        let digest = Sha256::digest(server.as_bytes());
        segment.truncate(NAME_BYTES - 1 - 2 * HASH_BYTES);
        segment.push('~');
        segment.extend(digest.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")));
    }
    segment
}

/// Returns the FNV-1a hash of bytes. It is the same on all nodes and in all builds.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv)
}

/// The error of a request that needs the store while it is unavailable. No handler has run, so the client can repeat the request.
///
/// ```
/// let error = mcp_server_core::engine::store_unavailable();
/// let data = serde_json::json!({ "reason": "busy", "unavailable": "store", "retryable": true, "retryAfterMs": 1000 });
/// assert_eq!(error.data, Some(data));
/// ```
#[must_use]
pub fn unavailable() -> RpcError {
    let data = json!({ "reason": "busy", "unavailable": "store", "retryable": true, "retryAfterMs": 1000 });
    RpcError::internal("busy: the shared store is unavailable, try again later").with_data(data)
}

/// Whether a store cannot take an operation now: it does not respond, or it is full. A repetition can succeed.
pub(crate) fn is_away(error: &StoreError) -> bool {
    error.is_unavailable() || error.is_full()
}

/// The error of a request that a failed store ended after its handler has run. A repetition could repeat its effects.
pub(crate) fn not_taken(text: &'static str) -> RpcError {
    RpcError::internal(text).with_data(json!({ "reason": "store_unavailable", "retryable": false }))
}

/// Whether an error is [`unavailable`].
pub(crate) fn is_unavailable(error: &RpcError) -> bool {
    error.code == ErrorCode::INTERNAL_ERROR && error.data.as_ref().is_some_and(|data| data["unavailable"] == "store")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers_are_one_segment() {
        for (server, expected) in
            [("jobs", "jobs"), ("a b/c", "a%20b%2Fc"), ("Zürich", "Z%C3%BCrich"), ("a%20b", "a%2520b")]
        {
            assert_eq!(segment(server), expected);
        }
        let (long, longer) = ("x".repeat(100), "x".repeat(101));
        assert_eq!((segment(&long).len(), segment(&longer).len()), (NAME_BYTES, NAME_BYTES));
        assert_ne!(segment(&long), segment(&longer));
        assert_eq!(segment(&"x".repeat(NAME_BYTES)), "x".repeat(NAME_BYTES));
        // The segment is the same in each build, because nodes of two builds share the store.
        assert_eq!(segment(&long), format!("{}~09ecb6ebc8bcefc733f6f2ec44f791ab", "x".repeat(31)));
    }

    #[test]
    fn only_the_error_of_the_store_is_unavailable() {
        assert!(is_unavailable(&unavailable()));
        assert!(!is_unavailable(&RpcError::internal("busy").with_data(json!({ "reason": "busy" }))));
        assert!(!is_unavailable(&RpcError::internal("broken")));
    }
}
