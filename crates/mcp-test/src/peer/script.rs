//! The script, its progress, and the received messages.

use std::{
    collections::HashMap,
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};

use super::{Reply, TIMEOUT};

/// The number of messages that the script stores.
const MAX_MESSAGES: usize = 100_000;

/// The replies of each method with the state that all connections share.
#[derive(Debug, Default)]
pub(super) struct Script {
    replies: HashMap<String, Rule>,
    seen: Mutex<Vec<Value>>,
    opened: AtomicUsize,
    open: AtomicUsize,
    /// Notified after each change of the other fields.
    changed: watch::Sender<()>,
    /// The number of crashes.
    crashes: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Rule {
    replies: Vec<Reply>,
    used: AtomicUsize,
}

/// Counts an open connection until it is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection<'a>(&'a Script);

impl Script {
    pub(super) fn add(&mut self, method: &str, reply: Reply) {
        self.replies.entry(method.to_owned()).or_default().replies.push(reply);
    }

    pub(super) fn needs_http(&self) -> bool {
        self.replies.values().flat_map(|rule| &rule.replies).any(Reply::needs_http)
    }

    /// Stores a message, and returns its reply.
    pub(super) fn take(&self, message: &Value) -> Reply {
        let reply = message["method"].as_str().and_then(|method| self.replies.get(method)).map(|rule| {
            let used = rule.used.fetch_add(1, Ordering::Relaxed);
            rule.replies[used.min(rule.replies.len() - 1)].clone()
        });
        let mut seen = self.lock();
        if seen.len() < MAX_MESSAGES {
            seen.push(message.clone());
        }
        drop(seen);
        self.changed.send_replace(());
        reply.unwrap_or_default()
    }

    pub(super) fn seen(&self) -> Vec<Value> {
        self.lock().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.opened.load(Ordering::Relaxed)
    }

    pub(super) fn open_connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) fn open(&self) -> OpenConnection<'_> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        self.changed.send_replace(());
        OpenConnection(self)
    }

    pub(super) fn crash(&self) {
        self.crashes.send_modify(|crashes| *crashes += 1);
    }

    /// Returns a future that waits for the next crash.
    pub(super) fn crashed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut crashes = self.crashes.subscribe();
        async move {
            // An error means that the script was dropped.
            let _ = crashes.changed().await;
        }
    }

    /// Wakes all waiters.
    #[cfg(feature = "http")]
    pub(super) fn notify_change(&self) {
        self.changed.send_replace(());
    }

    /// Waits until `find` returns a value.
    pub(super) async fn wait_for_script<T>(&self, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let found = timeout(TIMEOUT, async {
            loop {
                if let Some(found) = find() {
                    return found;
                }
                // `self` owns the sender, so this cannot fail.
                let _ = changed.changed().await;
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not arrive within {TIMEOUT:?}; received: {:#?}", self.seen()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Value>> {
        self.seen.lock()
    }
}

impl Drop for OpenConnection<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.send_replace(());
    }
}
