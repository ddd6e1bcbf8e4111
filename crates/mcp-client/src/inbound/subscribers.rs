//! The subscriptions of a session: all share one stream of notifications, and each resource is subscribed to by a request.

use std::{
    collections::{HashMap, HashSet},
    pin::pin,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::UpdateQueue;
use crate::connection::Notification;

/// The subscriptions of a session, and how many of them want each resource.
#[derive(Default)]
pub(crate) struct SessionSubscribers {
    state: Mutex<SubscriberState>,
    /// The end of each request that unsubscribes.
    left: Notify,
}

#[derive(Default)]
struct SubscriberState {
    queues: Vec<Weak<UpdateQueue>>,
    /// The number of subscriptions for each resource.
    wanted: HashMap<String, usize>,
    /// The resources of the requests that unsubscribe and have no answer yet.
    leaving: HashSet<String>,
}

/// A request that unsubscribes from a resource. New subscriptions to the resource wait for its end.
pub(crate) struct Unsubscribing<'a> {
    subscribers: &'a SessionSubscribers,
    uri: &'a str,
}

impl Drop for Unsubscribing<'_> {
    fn drop(&mut self) {
        self.subscribers.state.lock().leaving.remove(self.uri);
        self.subscribers.left.notify_waiters();
    }
}

impl SessionSubscribers {
    /// Hands a notification to every subscription. Each filters for itself.
    pub(crate) fn publish(&self, notification: &Notification) {
        let queues: Vec<_> = self.state.lock().queues.iter().filter_map(Weak::upgrade).collect();
        for queue in queues {
            queue.receive(notification);
        }
    }

    /// Adds a subscription. Does nothing if it was added before.
    pub(crate) fn join(&self, queue: &Arc<UpdateQueue>) {
        let mut state = self.state.lock();
        state.queues.retain(|other| other.strong_count() > 0);
        if state.queues.iter().any(|other| other.as_ptr() == Arc::as_ptr(queue)) {
            return;
        }
        state.queues.push(Arc::downgrade(queue));
        for uri in &queue.filter().resource_subscriptions {
            *state.wanted.entry(uri.clone()).or_default() += 1;
        }
    }

    /// Removes a subscription. Returns the resources that no other subscription wants.
    pub(crate) fn leave(&self, queue: &Arc<UpdateQueue>) -> Vec<String> {
        let mut unwanted = Vec::new();
        let mut state = self.state.lock();
        let before = state.queues.len();
        state.queues.retain(|other| other.as_ptr() != Arc::as_ptr(queue));
        if state.queues.len() == before {
            return unwanted;
        }
        for uri in &queue.filter().resource_subscriptions {
            if let Some(count) = state.wanted.get_mut(uri) {
                *count -= 1;
                if *count == 0 {
                    state.wanted.remove(uri);
                    unwanted.push(uri.clone());
                }
            }
        }
        unwanted
    }

    /// Begins to unsubscribe from a resource. `None` if a subscription wants the resource, or if another request unsubscribes.
    pub(crate) fn unsubscribe<'a>(&'a self, uri: &'a str) -> Option<Unsubscribing<'a>> {
        let mut state = self.state.lock();
        let begins = !state.wanted.contains_key(uri) && state.leaving.insert(uri.to_owned());
        begins.then(|| Unsubscribing { subscribers: self, uri })
    }

    /// Waits until no request unsubscribes from a resource. A subscription that was added before prevents further ones.
    pub(crate) async fn left(&self, uri: &str) {
        loop {
            let mut left = pin!(self.left.notified());
            left.as_mut().enable();
            if !self.state.lock().leaving.contains(uri) {
                return;
            }
            left.await;
        }
    }
}
