//! The connection of one node to a store in memory. A test cuts it, and the node is dead for all other nodes.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_store::{
    Delivery, KeyPage, KeyValue, Log, LogPage, MemoryStore, PubSub, Retain, StoreError, StoreFuture, Subscription,
    Swap, subscription,
};
use tokio::{sync::watch, time::sleep};

/// The state of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Up,
    /// Operations wait until the connection is up again. Messages are lost.
    Stalled,
    /// Operations fail at once. Messages are lost.
    Down,
    /// Writes of records fail, because the store is full.
    Full,
    /// Operations succeed. Messages are lost.
    Deaf,
    /// Operations begin after a delay.
    Slow(Duration),
}

/// The connection of one node to a shared store.
#[derive(Debug, Clone)]
pub(crate) struct CutStore {
    store: MemoryStore,
    link: watch::Sender<Link>,
    operations: Arc<AtomicUsize>,
}

impl CutStore {
    pub(crate) fn to(store: &MemoryStore) -> Self {
        Self { store: store.clone(), link: watch::Sender::new(Link::Up), operations: Arc::default() }
    }

    pub(crate) fn set(&self, link: Link) {
        self.link.send_replace(link);
    }

    /// The number of operations so far.
    pub(crate) fn operations(&self) -> usize {
        self.operations.load(Ordering::SeqCst)
    }

    /// Passes the write of a record.
    async fn pass_write(&self) -> Result<(), StoreError> {
        if *self.link.borrow() == Link::Full {
            return Err(StoreError::full("the store is full"));
        }
        self.pass().await
    }

    async fn pass(&self) -> Result<(), StoreError> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        if *self.link.borrow() == Link::Down {
            return Err(StoreError::unavailable("the connection is down"));
        }
        let link = *self.link.subscribe().wait_for(|link| *link != Link::Stalled).await.unwrap();
        if let Link::Slow(delay) = link {
            sleep(delay).await;
        }
        Ok(())
    }
}

impl KeyValue for CutStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(async move {
            self.pass().await?;
            self.store.get(key).await
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.pass_write().await?;
            self.store.put(key, value, ttl).await
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
            self.pass_write().await?;
            self.store.compare_and_swap(key, expected, new, ttl).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            self.pass().await?;
            self.store.delete(key).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        Box::pin(async move {
            self.pass().await?;
            self.store.list(prefix, after, limit).await
        })
    }
}

impl Log for CutStore {
    fn append<'a>(&'a self, log: &'a str, data: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            self.pass().await?;
            self.store.append(log, data, ttl).await
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
            self.pass().await?;
            self.store.append_once(log, writer, number, data, ttl).await
        })
    }

    fn extend<'a>(&'a self, log: &'a str, ttl: Option<Duration>) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            self.pass().await?;
            self.store.extend(log, ttl).await
        })
    }

    fn read_after<'a>(&'a self, log: &'a str, after: u64, limit: usize) -> StoreFuture<'a, LogPage> {
        Box::pin(async move {
            self.pass().await?;
            self.store.read_after(log, after, limit).await
        })
    }

    fn trim<'a>(&'a self, log: &'a str, retain: Retain) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            self.pass().await?;
            self.store.trim(log, retain).await
        })
    }

    fn delete_log<'a>(&'a self, log: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            self.pass().await?;
            self.store.delete_log(log).await
        })
    }
}

impl PubSub for CutStore {
    fn publish<'a>(&'a self, topic: &'a str, message: Arc<[u8]>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.pass().await?;
            self.store.publish(topic, message).await
        })
    }

    fn subscribe<'a>(&'a self, topic: &'a str, capacity: usize) -> StoreFuture<'a, Subscription> {
        Box::pin(async move {
            self.pass().await?;
            let mut messages = self.store.subscribe(topic, capacity).await?;
            let (sender, reader) = subscription(capacity)?;
            let link = self.link.clone();
            tokio::spawn(async move {
                while let Some(delivery) = messages.recv().await {
                    let is_open = match delivery {
                        Delivery::Message(message) if matches!(*link.borrow(), Link::Up | Link::Full) => {
                            sender.send(message)
                        }
                        _ => sender.lost(1),
                    };
                    if !is_open {
                        break;
                    }
                }
            });
            Ok(reader)
        })
    }
}
