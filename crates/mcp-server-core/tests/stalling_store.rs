//! A store that a test can stall.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_store::{KeyPage, KeyValue, Log, LogPage, MemoryStore, PubSub, Retain, StoreFuture, Subscription, Swap};
use tokio::sync::watch;

/// A store that does not respond for some records while it is stalled.
#[derive(Debug, Clone)]
pub(crate) struct StallingStore {
    store: MemoryStore,
    pub(crate) is_stalled: watch::Sender<bool>,
    /// Whether a write takes effect but its response is lost.
    loses_responses: bool,
    /// Whether cancellations do not reach other nodes.
    pub(crate) drops_cancellations: bool,
    /// Whether the next swap stays pending until the test releases the store.
    delays_next_swap: Arc<AtomicBool>,
    delays_first_swap: bool,
    /// The value that another node writes when the next swap finds that its record has expired.
    pub(crate) replaces_expired: Arc<Mutex<Option<&'static [u8]>>>,
    /// The part of their names.
    part: &'static str,
    /// How many of them were read.
    pub(crate) gets: Arc<AtomicUsize>,
}

impl StallingStore {
    pub(crate) fn of(part: &'static str) -> Self {
        Self {
            store: MemoryStore::new(),
            loses_responses: false,
            drops_cancellations: false,
            delays_next_swap: Arc::default(),
            delays_first_swap: false,
            replaces_expired: Arc::default(),
            part,
            is_stalled: watch::Sender::new(false),
            gets: Arc::default(),
        }
    }

    /// Executes swaps before the stall, and delays only their responses.
    pub(crate) fn losing_responses(mut self) -> Self {
        self.loses_responses = true;
        self
    }

    /// Delays only the first swap. It takes effect after the stall.
    pub(crate) fn delaying_first_swap(mut self) -> Self {
        self.delays_next_swap.store(true, Ordering::SeqCst);
        self.delays_first_swap = true;
        self
    }

    /// The number of records.
    pub(crate) fn usage(&self) -> usize {
        self.store.usage().entries
    }

    async fn pass(&self, key: &str) {
        if key.contains(self.part) {
            self.is_stalled.subscribe().wait_for(|is_stalled| !is_stalled).await.unwrap();
        }
    }
}

impl KeyValue for StallingStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(async move {
            if !self.loses_responses {
                self.pass(key).await;
            }
            if key.contains(self.part) {
                self.gets.fetch_add(1, Ordering::SeqCst);
            }
            self.store.get(key).await
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            // The write takes effect before its response.
            self.store.put(key, value, ttl).await?;
            if !self.loses_responses {
                self.pass(key).await;
            }
            Ok(())
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
            if key.contains(self.part) && self.delays_next_swap.swap(false, Ordering::SeqCst) {
                let (store, key, expected) = (self.clone(), key.to_owned(), expected.map(<[u8]>::to_vec));
                let late = tokio::spawn(async move {
                    store.pass(&key).await;
                    store.store.compare_and_swap(&key, expected.as_deref(), new, ttl).await
                });
                return late.await.unwrap();
            }
            if expected.is_some() && key.contains(self.part) {
                let value = self.replaces_expired.lock().unwrap().take();
                if let Some(value) = value {
                    self.store.delete(key).await?;
                    let lost = self.store.compare_and_swap(key, expected, new, ttl).await;
                    self.store.put(key, value.into(), None).await?;
                    return lost;
                }
            }
            if !self.loses_responses && !self.delays_first_swap {
                self.pass(key).await;
            }
            let swapped = self.store.compare_and_swap(key, expected, new, ttl).await;
            if self.loses_responses {
                self.pass(key).await;
            }
            swapped
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        self.store.delete(key)
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        self.store.list(prefix, after, limit)
    }
}

impl Log for StallingStore {
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        self.store.append(log, data, ttl)
    }

    fn append_once<'a>(
        &'a self,
        log: &'a str,
        writer: u64,
        number: u64,
        data: Arc<[u8]>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Option<u64>> {
        self.store.append_once(log, writer, number, data, ttl)
    }

    fn extend<'a>(&'a self, log: &'a str, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        self.store.extend(log, ttl)
    }

    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage> {
        self.store.read_after(log, after, limit)
    }

    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64> {
        self.store.trim(log, retain)
    }

    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool> {
        self.store.delete_log(log)
    }
}

impl PubSub for StallingStore {
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> StoreFuture<'a, ()> {
        if self.drops_cancellations && String::from_utf8_lossy(&message).contains("cancelled") {
            return Box::pin(async { Ok(()) });
        }
        self.store.publish(topic, message)
    }

    fn subscribe<'a>(&'a self, topic: &'a str, capacity: usize) -> StoreFuture<'a, Subscription> {
        self.store.subscribe(topic, capacity)
    }
}
