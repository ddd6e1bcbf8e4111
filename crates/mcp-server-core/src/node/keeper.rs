//! The background task of a node: it acquires a lease, renews it, receives messages, and starts again when the lease is lost.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mcp_store::{Delivery, Subscription, Swap};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

use super::{
    Lease, Shared, key,
    members::{self, Sweep},
    message,
    requests::Running,
    topic,
};
use crate::random;

/// The most messages that wait to be received.
const QUEUE: usize = 4096;
/// The pause after a failed operation of the store.
const PAUSE: Duration = Duration::from_millis(250);

/// The interval of log records while an operation fails.
const NEWS: Duration = Duration::from_secs(30);

/// An operation that is repeated while it fails. The log has its first failure, and then one record in 30 seconds.
#[derive(Debug, Default)]
pub struct Failing {
    logged: Option<Instant>,
}

impl Failing {
    /// Records a failure. Returns whether the log needs a record of it.
    #[must_use]
    pub fn record_failure(&mut self) -> bool {
        let now = Instant::now();
        let is_news = self.logged.is_none_or(|logged| now >= logged + NEWS);
        if is_news {
            self.logged = Some(now);
        }
        is_news
    }

    /// Records a success. Returns whether failures came before it.
    pub fn record_success(&mut self) -> bool {
        self.logged.take().is_some()
    }
}

/// The background task of a node. Dropping it ends the lease on this node.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    number: u64,
}

impl Keeper {
    pub(super) fn new(shared: Arc<Shared>, number: u64) -> Self {
        Self { shared, number }
    }

    pub(super) async fn run(self) {
        loop {
            let (lease, released, subscription) = self.acquire().await;
            let lost = {
                let id = lease.id().to_owned();
                self.change_lease(Some(lease.clone()));
                tokio::select! {
                    biased;
                    () = self.renew(&lease) => {}
                    () = self.receive(&lease, subscription) => {}
                    () = Sweep::default().run(&self.shared, &lease) => {}
                }
                id
            };
            tracing::warn!(node = lost, "this node lost its lease, and its running work ends");
            self.lose();
            drop(lease);
            self.release(&lost, released).await;
        }
    }

    /// Ends the work of the lease.
    fn lose(&self) {
        let Some(earlier) = self.change_lease(None) else { return };
        if let Some(lease) = earlier {
            lease.lose();
        }
        self.shared.pending.clear();
    }

    /// Replaces the lease of the node, and returns the earlier lease. Returns `None` without a change if this task was stopped,
    /// because the lease then belongs to a later task.
    fn change_lease(&self, lease: Option<Lease>) -> Option<Option<Lease>> {
        let mut earlier = None;
        self.shared.lease.send_if_modified(|current| {
            let is_current = self.shared.keeper.load(Ordering::Acquire) == self.number;
            if is_current {
                earlier = Some(std::mem::replace(current, lease));
            }
            is_current
        });
        earlier
    }

    /// Waits until the work of a lost lease has ended, and deletes the lease.
    async fn release(&self, id: &str, mut released: mpsc::Receiver<Infallible>) {
        if timeout(self.shared.limits.lease, released.recv()).await.is_err() {
            tracing::warn!("work of an earlier identity of this node still runs");
        }
        // A late renewal may have extended the lease. Otherwise it expires.
        if let Err(error) = self.shared.store.delete(&key(id)).await {
            tracing::debug!(%error, "the lost lease is not deleted");
        }
    }

    /// Acquires a lease under a new id. The node receives messages before other nodes can see its lease.
    async fn acquire(&self) -> (Lease, mpsc::Receiver<Infallible>, Subscription) {
        let mut failing = Failing::default();
        loop {
            match self.try_acquire().await {
                Ok(acquired) => return acquired,
                Err(error) => {
                    if failing.record_failure() {
                        tracing::warn!(error, "this node cannot acquire a lease yet");
                    }
                }
            }
            sleep(PAUSE).await;
        }
    }

    async fn try_acquire(&self) -> Result<(Lease, mpsc::Receiver<Infallible>, Subscription), String> {
        let Shared { store, limits, .. } = &*self.shared;
        let id = random::id().map_err(|error| error.to_string())?;
        let subscription = store.subscribe(&topic(&id), QUEUE).await.map_err(|error| error.to_string())?;
        // An entry without a lease is harmless, and a lease without an entry is not.
        members::add(store, &id).await.map_err(|error| error.to_string())?;
        let asked = Instant::now();
        let swap = store.compare_and_swap(&key(&id), None, Some(self.value(&id)), Some(limits.lease)).await;
        match swap.map_err(|error| error.to_string())? {
            Swap::Done => {}
            _ => return Err("the id of this node is taken".to_owned()),
        }
        let (lease, released) = Lease::new(id, asked + limits.lease);
        Ok((lease, released, subscription))
    }

    /// Returns the value of a lease: the id of the node, and the ids of its state keys.
    fn value(&self, id: &str) -> Arc<[u8]> {
        let keys = self.shared.keys.iter().map(String::as_str);
        std::iter::once(id).chain(keys).collect::<Vec<_>>().join(" ").into_bytes().into()
    }

    /// Renews the lease until it is lost: the record does not exist, or the store did not accept a renewal in time.
    async fn renew(&self, lease: &Lease) {
        let Shared { store, limits, .. } = &*self.shared;
        let (key, value) = (key(lease.id()), self.value(lease.id()));
        let (mut next, mut failing) = (Instant::now() + limits.renewal, Failing::default());
        loop {
            sleep_until(next.min(lease.until())).await;
            let asked = Instant::now();
            // A process that was stopped must not renew an expired lease.
            if asked >= lease.until() {
                return;
            }
            let mut swap = pin!(store.compare_and_swap(&key, Some(&value), Some(value.clone()), Some(limits.lease)));
            let in_time = timeout_at(lease.until().min(asked + limits.renewal), &mut swap).await;
            let swapped = match in_time {
                Ok(swapped) => Ok(swapped),
                Err(_) => {
                    if failing.record_failure() {
                        tracing::warn!("the store did not renew the lease of this node in time");
                    }
                    // A late renewal counts from the time before its write, so it is as safe as an early one.
                    timeout_at(lease.until(), swap).await
                }
            };
            match swapped {
                Ok(Ok(Swap::Done)) => {
                    lease.renewed(asked, limits.lease);
                    next = asked + limits.renewal;
                    if Instant::now() < next && failing.record_success() {
                        tracing::info!("the store renews the lease of this node again");
                    }
                }
                Ok(Err(error)) => {
                    if failing.record_failure() {
                        tracing::warn!(%error, "the lease of this node is not renewed yet");
                    }
                    next = Instant::now() + PAUSE;
                }
                Ok(Ok(_)) | Err(_) => return,
            }
        }
    }

    /// Receives messages while the lease is valid.
    async fn receive(&self, lease: &Lease, mut subscription: Subscription) {
        let mut running = Running::default();
        loop {
            let delivery = tokio::select! {
                delivery = subscription.recv() => delivery,
                () = running.ended() => continue,
            };
            match delivery {
                Some(Delivery::Message(message)) => match message::parse(&message) {
                    Some((head, inline)) => running.receive(&self.shared, lease, head, inline),
                    // A newer version of this library may send other messages.
                    None => tracing::debug!("a message of another node cannot be read"),
                },
                // The senders time out.
                Some(_) => tracing::warn!("messages of other nodes were lost"),
                None => subscription = self.subscribe(lease).await,
            }
        }
    }

    async fn subscribe(&self, lease: &Lease) -> Subscription {
        let mut failing = Failing::default();
        loop {
            sleep(PAUSE).await;
            match self.shared.store.subscribe(&topic(lease.id()), QUEUE).await {
                Ok(subscription) => return subscription,
                Err(error) => {
                    if failing.record_failure() {
                        tracing::warn!(%error, "messages of other nodes cannot be received yet");
                    }
                }
            }
        }
    }
}

impl Drop for Keeper {
    /// The node or the runtime ended.
    fn drop(&mut self) {
        self.lose();
    }
}
