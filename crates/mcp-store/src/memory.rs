//! [`MemoryStore`]: all three traits inside one process.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::{KeyPage, KeyValue, Log, LogPage, PubSub, Retain, StoreFuture, Subscription, Swap, limits, subscription};

mod records;
#[cfg(test)]
mod tests;
mod topics;

use self::{records::Records, topics::Topics};

/// A store in the memory of this process. Clones are cheap and share their content.
///
/// It is bounded by [`MemoryLimits`]. A write over a bound is rejected, and only expired records are evicted. The
/// store removes expired records when they are accessed, a few with each write, and all of them before it rejects a
/// write.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{KeyValue, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_store::StoreError> {
/// let store = MemoryStore::new();
/// let clone = store.clone();
/// clone.put("key", Arc::from(*b"value"), None).await?;
/// assert_eq!(store.get("key").await?.as_deref(), Some(&b"value"[..]));
/// assert_eq!(store.usage().entries, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

/// The bounds of a [`MemoryStore`].
///
/// # Example
/// ```
/// use mcp_store::MemoryLimits;
///
/// let limits = MemoryLimits::default().bytes(16 << 20).subscriptions(1_000);
/// assert_eq!((limits.entries, limits.bytes), (1_000_000, 16 << 20));
/// let limits = limits.entries(10);
/// assert_eq!(limits.entries, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryLimits {
    /// The maximum number of keys, logs and log records together. Default: 1,000,000.
    pub entries: usize,
    /// The maximum bytes of names and data together. Default: 256 MiB.
    pub bytes: usize,
    /// The maximum number of open subscriptions. Default: 100,000.
    pub subscriptions: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { entries: 1_000_000, bytes: 256 * 1024 * 1024, subscriptions: 100_000 }
    }
}

impl MemoryLimits {
    /// Sets the maximum number of keys, logs and log records together.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn entries(mut self, entries: usize) -> Self {
        self.entries = entries;
        self
    }

    /// Sets the maximum bytes of names and data together.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets the maximum number of open subscriptions.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn subscriptions(mut self, subscriptions: usize) -> Self {
        self.subscriptions = subscriptions;
        self
    }
}

impl MemoryStore {
    /// Returns an empty store with the default bounds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty store with these bounds.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_store::{KeyValue, MemoryLimits, MemoryStore};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_store::StoreError> {
    /// let store = MemoryStore::with_limits(MemoryLimits::default().entries(1));
    /// store.put("first", Arc::from(*b""), None).await?;
    /// assert!(store.put("second", Arc::from(*b""), None).await.unwrap_err().is_full());
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_limits(limits: MemoryLimits) -> Self {
        Self { shared: Arc::new(Shared { limits, ..Shared::default() }) }
    }

    /// Returns the part of [`MemoryLimits`] in use, including expired records that were not swept yet.
    pub fn usage(&self) -> MemoryLimits {
        let (entries, bytes) = self.shared.records().usage();
        MemoryLimits { entries, bytes, subscriptions: self.shared.topics().count() }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("limits", &self.shared.limits).field("usage", &self.usage()).finish()
    }
}

impl KeyValue for MemoryStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(async move {
            limits::name(key)?;
            Ok(self.shared.records().get(key, Instant::now()))
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            limits::name(key)?;
            limits::ttl(ttl)?;
            self.shared.records().put(key, value, ttl, Instant::now(), &self.shared.limits)
        })
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(async move {
            limits::name(key)?;
            limits::ttl(ttl)?;
            let now = Instant::now();
            let mut records = self.shared.records();
            let current = records.get(key, now);
            if current.as_deref() != expected {
                return Ok(Swap::Lost { current });
            }
            match new {
                Some(value) => records.put(key, value, ttl, now, &self.shared.limits)?,
                None => {
                    records.delete(key, now);
                }
            }
            Ok(Swap::Done)
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            limits::name(key)?;
            Ok(self.shared.records().delete(key, Instant::now()))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        Box::pin(async move {
            limits::prefix(prefix)?;
            limits::prefix(after.unwrap_or_default())?;
            let limit = limits::page(limit)?;
            Ok(self.shared.records().list(prefix, after, limit, Instant::now()))
        })
    }
}

impl Log for MemoryStore {
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            limits::ttl(ttl)?;
            self.shared.records().append(log, data, ttl, Instant::now(), &self.shared.limits)
        })
    }

    fn append_once<'a>(
        &'a self,
        log: &'a str,
        writer: u64,
        number: u64,
        data: Arc<[u8]>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Option<u64>> {
        Box::pin(async move {
            limits::name(log)?;
            limits::number(number)?;
            limits::ttl(ttl)?;
            let (now, mut records) = (Instant::now(), self.shared.records());
            match records.last_of_writer(log, writer, now) {
                Some((last, sequence)) if last == number => {
                    records.extend(log, ttl, now);
                    Ok(Some(sequence))
                }
                Some((last, _)) if last > number => Ok(None),
                _ => {
                    let sequence = records.append(log, data, ttl, now, &self.shared.limits)?;
                    records.record_writer(log, writer, number, sequence);
                    Ok(Some(sequence))
                }
            }
        })
    }

    fn extend<'a>(&'a self, log: &'a str, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            limits::ttl(ttl)?;
            Ok(self.shared.records().extend(log, ttl, Instant::now()))
        })
    }

    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage> {
        Box::pin(async move {
            limits::name(log)?;
            let limit = limits::page(limit)?;
            Ok(self.shared.records().read_after(log, after, limit, Instant::now()))
        })
    }

    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            Ok(self.shared.records().trim(log, retain, Instant::now()))
        })
    }

    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            limits::name(log)?;
            Ok(self.shared.records().delete_log(log, Instant::now()))
        })
    }
}

impl PubSub for MemoryStore {
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            limits::name(topic)?;
            limits::message(&message)?;
            let readers = self.shared.topics().readers(topic);
            for (_, sender) in readers.iter() {
                sender.send(message.clone());
            }
            Ok(())
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str, capacity: usize) -> StoreFuture<'a, Subscription> {
        Box::pin(async move {
            limits::name(topic)?;
            let (sender, reader) = subscription(capacity)?;
            let id = self.shared.topics().insert(topic, sender, self.shared.limits.subscriptions)?;
            let (shared, topic) = (Arc::downgrade(&self.shared), Box::<str>::from(topic));
            Ok(reader.on_drop(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.topics().remove(&topic, id);
                }
            }))
        })
    }
}

#[derive(Default)]
struct Shared {
    limits: MemoryLimits,
    records: Mutex<Records>,
    topics: Mutex<Topics>,
}

impl Shared {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock()
    }

    fn topics(&self) -> MutexGuard<'_, Topics> {
        self.topics.lock()
    }
}
