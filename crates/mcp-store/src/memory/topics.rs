//! The subscriptions of this process by topic.

use std::{collections::HashMap, sync::Arc};

use crate::{StoreError, SubscriptionSender};

/// The subscriptions of one topic. The list is shared, so that a message is delivered without the lock of all topics:
/// a waker may run any code, for example drop a subscription.
type Readers = Arc<Vec<(u64, Arc<SubscriptionSender>)>>;

#[derive(Default)]
pub(super) struct Topics {
    by_name: HashMap<Box<str>, Readers>,
    count: usize,
    last_id: u64,
}

impl Topics {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn insert(&mut self, topic: &str, sender: SubscriptionSender, cap: usize) -> Result<u64, StoreError> {
        if self.count >= cap {
            return Err(StoreError::full(format!("the memory store has its {cap} subscriptions")));
        }
        self.last_id += 1;
        self.count += 1;
        Arc::make_mut(self.by_name.entry(topic.into()).or_default()).push((self.last_id, Arc::new(sender)));
        Ok(self.last_id)
    }

    pub(super) fn remove(&mut self, topic: &str, id: u64) {
        let Some(readers) = self.by_name.get_mut(topic) else { return };
        let before = readers.len();
        Arc::make_mut(readers).retain(|(other, _)| *other != id);
        self.count -= before - readers.len();
        if readers.is_empty() {
            self.by_name.remove(topic);
        }
    }

    pub(super) fn readers(&self, topic: &str) -> Readers {
        self.by_name.get(topic).cloned().unwrap_or_default()
    }
}
