//! A store in memory whose operations pause and fail at random.

use std::{sync::Arc, time::Duration};

use mcp_store::{
    KeyPage, KeyValue, Log, LogPage, MemoryStore, PubSub, Retain, Store, StoreError, StoreFuture, Subscription, Swap,
};

use super::Schedule;

#[derive(Debug)]
struct ScheduledStore {
    inner: MemoryStore,
    schedule: Schedule,
    /// The percentage of the operations that fail.
    failures: usize,
}

/// Returns a store whose operations pause before and after their effect.
pub(super) fn store(schedule: Schedule, failures: usize) -> impl Store + 'static {
    ScheduledStore { inner: MemoryStore::new(), schedule, failures }
}

impl ScheduledStore {
    /// Runs an operation between two pauses. Half of the failures occur before its effect, and half of them lose its response.
    fn run<'a, T: Send + 'a>(&'a self, operation: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        Box::pin(async move {
            self.schedule.pause().await;
            let failure = self.schedule.chance(self.failures).then(|| self.schedule.chance(50));
            if failure == Some(false) {
                return Err(StoreError::unavailable("the schedule rejects the operation"));
            }
            let outcome = operation.await;
            self.schedule.pause().await;
            if failure == Some(true) {
                return Err(StoreError::unavailable("the schedule loses the response"));
            }
            outcome
        })
    }
}

impl KeyValue for ScheduledStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        self.run(self.inner.get(key))
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        self.run(self.inner.put(key, value, ttl))
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        self.run(self.inner.compare_and_swap(key, expected, new, ttl))
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        self.run(self.inner.delete(key))
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        self.run(self.inner.list(prefix, after, limit))
    }
}

impl Log for ScheduledStore {
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        self.run(self.inner.append(log, data, ttl))
    }

    fn append_once<'a>(
        &'a self,
        log: &'a str,
        writer: u64,
        number: u64,
        data: Arc<[u8]>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Option<u64>> {
        self.run(self.inner.append_once(log, writer, number, data, ttl))
    }

    fn extend<'a>(&'a self, log: &'a str, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        self.run(self.inner.extend(log, ttl))
    }

    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage> {
        self.run(self.inner.read_after(log, after, limit))
    }

    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64> {
        self.run(self.inner.trim(log, retain))
    }

    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool> {
        self.run(self.inner.delete_log(log))
    }
}

impl PubSub for ScheduledStore {
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> StoreFuture<'a, ()> {
        self.run(self.inner.publish(topic, message))
    }

    fn subscribe<'a>(&'a self, topic: &'a str, capacity: usize) -> StoreFuture<'a, Subscription> {
        self.run(self.inner.subscribe(topic, capacity))
    }
}
