//! The subscriptions that begin at a server: a limited number at the same time for each principal. A `subscriptions/listen` stream begins
//! all of its subscriptions at once.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most subscriptions of a principal that begin at a server at the same time.
const AT_ONCE: usize = 8;

type Key = (Option<Arc<str>>, Arc<str>);

/// The turns of the principals at the servers. All callers without a principal count as one.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<Key, Weak<Semaphore>>>);

impl Turns {
    /// Waits for a turn of a principal at a server. The turn ends with the drop of the value. Cancel safe.
    pub(super) async fn wait(&self, principal: Option<Arc<str>>, server: &Arc<str>) -> Option<OwnedSemaphorePermit> {
        // No code closes the semaphore.
        self.of((principal, Arc::clone(server))).acquire_owned().await.ok()
    }

    fn of(&self, key: Key) -> Arc<Semaphore> {
        let mut turns = self.0.lock();
        if let Some(open) = turns.get(&key).and_then(Weak::upgrade) {
            return open;
        }
        turns.retain(|_, turns| turns.strong_count() > 0);
        let open = Arc::new(Semaphore::new(AT_ONCE));
        turns.insert(key, Arc::downgrade(&open));
        open
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_limited_number_of_subscriptions_of_a_principal_begins_at_a_server() {
        let turns = Turns::default();
        let (ada, grace) = (Some(Arc::from("ada")), Some(Arc::from("grace")));
        let wait = async |principal: &Option<Arc<str>>, server: &str| {
            let turn = timeout(Duration::from_secs(1), turns.wait(principal.clone(), &server.into())).await;
            turn.ok().flatten()
        };
        let mut running = Vec::new();
        for _ in 0..AT_ONCE {
            running.push(wait(&ada, "s").await.unwrap());
        }
        assert!(wait(&ada, "s").await.is_none());
        // Other principals and other servers do not wait.
        for (principal, server) in [(&ada, "t"), (&grace, "s"), (&None, "s")] {
            running.push(wait(principal, server).await.unwrap());
        }
        drop(running.swap_remove(0));
        running.push(wait(&ada, "s").await.unwrap());
        drop(running);
        drop(wait(&ada, "u").await.unwrap());
        assert_eq!(turns.0.lock().len(), 1, "ended turns are forgotten");
    }
}
