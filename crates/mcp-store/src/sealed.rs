//! [`SealedStore`]: authenticated encryption of the values of another store.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    KeyPage, KeyValue, Log, LogPage, PubSub, Record, Retain, StoreError, StoreFuture, Subscription, Swap, limits,
};

mod keys;
#[cfg(test)]
mod tests;

pub use self::keys::SealKeys;

/// The number of attempts of a compare-and-swap whose record other writers replace by the same value.
const ATTEMPTS: usize = 16;
/// The maximum number of pages of the inner store that one page of a listing reads.
const SCANNED_PAGES: usize = 16;

/// A store that encrypts values, log records and messages before another store receives them, and hashes their names.
///
/// The operator of the inner store reads neither names nor values, and cannot change a value or move it to another key.
/// The operator does see the number of records, the sizes of values, the times to live, and which keys share a parent. The
/// operator can also delete records, return an earlier value of the same key, and reorder the records of a log.
///
/// | call | difference to the inner store |
/// |---|---|
/// | [`list`](KeyValue::list) | The order is that of the hashes: stable, but not the byte order of the keys. The cursor is a hash. A prefix that ends with `/` reads its own records alone. Another prefix also reads the other records below its last `/`. A page can be empty and have a cursor |
/// | [`compare_and_swap`](KeyValue::compare_and_swap) | reads the record first, because two encryptions of a value differ |
/// | [`trim`](Log::trim) | counts the bytes of the encryption: [`OVERHEAD`](Self::OVERHEAD) more for each record |
/// | [`publish`](PubSub::publish) | a message is at most [`OVERHEAD`](Self::OVERHEAD) bytes shorter than [`MAX_MESSAGE_BYTES`](limits::MAX_MESSAGE_BYTES) |
///
/// A value that no key opens is [invalid](StoreError::is_invalid): it was changed, or its key was removed.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_store::{KeyValue, MemoryStore, SealKeys, SealedStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_store::StoreError> {
/// let inner = Arc::new(MemoryStore::new());
/// let (names, new, old) = ([1; 32], [3; 32], [2; 32]); // secrets of the fleet
/// let store = SealedStore::new(inner.clone(), SealKeys::new(names, [new, old]));
/// store.put("tokens/alice", Arc::from(*b"secret"), None).await?;
/// assert_eq!(store.get("tokens/alice").await?.as_deref(), Some(&b"secret"[..]));
/// // The inner store has neither the name nor the value.
/// assert_eq!(inner.get("tokens/alice").await?, None);
/// # Ok(())
/// # }
/// ```
pub struct SealedStore<S: ?Sized> {
    inner: Arc<S>,
    keys: SealKeys,
}

impl<S: ?Sized> SealedStore<S> {
    /// The bytes that the encryption adds to a log record and to a message. A record of a key also contains its key.
    pub const OVERHEAD: usize = keys::OVERHEAD;

    /// Returns a store over another. All processes need the same keys.
    pub fn new(inner: Arc<S>, keys: SealKeys) -> Self {
        Self { inner, keys }
    }
}

impl<S: ?Sized> Clone for SealedStore<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), keys: self.keys.clone() }
    }
}

impl<S: fmt::Debug + ?Sized> fmt::Debug for SealedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealedStore").field("inner", &self.inner).field("keys", &self.keys).finish()
    }
}

impl<S: KeyValue + ?Sized> KeyValue for SealedStore<S> {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(async move {
            limits::name(key)?;
            let sealed = self.inner.get(&self.keys.key(key)).await?;
            sealed.map(|sealed| self.keys.open_value(key, &sealed)).transpose()
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            limits::name(key)?;
            limits::ttl(ttl)?;
            self.inner.put(&self.keys.key(key), self.keys.seal_value(key, &value)?, ttl).await
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
            let name = self.keys.key(key);
            // A record that should not exist needs no read: the inner swap compares its absence.
            let mut current = if expected.is_some() { self.inner.get(&name).await? } else { None };
            for _ in 0..ATTEMPTS {
                let plain = current.as_ref().map(|sealed| self.keys.open_value(key, sealed)).transpose()?;
                if plain.as_deref() != expected {
                    return Ok(Swap::Lost { current: plain });
                }
                let sealed = new.as_ref().map(|new| self.keys.seal_value(key, new)).transpose()?;
                match self.inner.compare_and_swap(&name, current.as_deref(), sealed, ttl).await? {
                    Swap::Done => return Ok(Swap::Done),
                    // Another writer was faster. It may have written the same value again.
                    Swap::Lost { current: now } => current = now,
                }
            }
            Err(StoreError::conflict(format!("other writers replaced the record during {ATTEMPTS} attempts")))
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            limits::name(key)?;
            self.inner.delete(&self.keys.key(key)).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        Box::pin(async move {
            limits::prefix(prefix)?;
            limits::prefix(after.unwrap_or_default())?;
            let limit = limits::page(limit)?;
            let parent = self.keys.parent(prefix);
            let mut position = after.map(|after| self.keys.position(after));
            let mut entries = Vec::new();
            for _ in 0..SCANNED_PAGES {
                let inner = self.inner.list(&parent, position.as_deref(), limit).await?;
                for (name, sealed) in inner.entries {
                    let (key, value) = self.keys.open_entry(&name, &sealed)?;
                    if key.starts_with(prefix) {
                        entries.push((key, value));
                    }
                }
                position = inner.next;
                if position.is_none() || !entries.is_empty() {
                    break;
                }
            }
            Ok(KeyPage::new(entries, position))
        })
    }
}

impl<S: Log + ?Sized> Log for SealedStore<S> {
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            limits::ttl(ttl)?;
            let name = self.keys.log(log);
            let sealed = self.keys.seal(&name, &data)?;
            self.inner.append(&name, sealed, ttl).await
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
            let name = self.keys.log(log);
            let sealed = self.keys.seal(&name, &data)?;
            self.inner.append_once(&name, writer, number, sealed, ttl).await
        })
    }

    fn extend<'a>(&'a self, log: &'a str, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            limits::ttl(ttl)?;
            self.inner.extend(&self.keys.log(log), ttl).await
        })
    }

    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage> {
        Box::pin(async move {
            limits::name(log)?;
            let name = self.keys.log(log);
            let mut page = self.inner.read_after(&name, after, limit).await?;
            for record in &mut page.records {
                *record = Record::new(record.sequence, self.keys.open(&name, &record.data)?.into());
            }
            Ok(page)
        })
    }

    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            limits::name(log)?;
            self.inner.trim(&self.keys.log(log), retain).await
        })
    }

    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            limits::name(log)?;
            self.inner.delete_log(&self.keys.log(log)).await
        })
    }
}

impl<S: PubSub + ?Sized> PubSub for SealedStore<S> {
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            limits::name(topic)?;
            if message.len() > limits::MAX_MESSAGE_BYTES - keys::OVERHEAD {
                let (len, most) = (message.len(), limits::MAX_MESSAGE_BYTES - keys::OVERHEAD);
                return Err(StoreError::invalid(format!("a sealed message of {len} bytes is larger than {most}")));
            }
            let name = self.keys.topic(topic);
            self.inner.publish(&name, self.keys.seal(&name, &message)?).await
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str, capacity: usize) -> StoreFuture<'a, Subscription> {
        Box::pin(async move {
            limits::name(topic)?;
            let name = self.keys.topic(topic);
            let keys = self.keys.clone();
            let inner = self.inner.subscribe(&name, capacity).await?;
            // A message that no key opens is a loss for the reader, as a message that never arrived.
            Ok(inner.opened_by(move |message| keys.open(&name, &message).ok().map(Arc::from)))
        })
    }
}
