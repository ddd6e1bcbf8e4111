//! The script, how far it was played, and what was sent.

use std::{
    collections::HashMap,
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};

use super::{PATIENCE, Reply};

/// The most messages that are kept: a test that sends more looks at the first of them.
const KEPT: usize = 100_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Script {
    replies: HashMap<String, Rule>,
    seen: Mutex<Vec<Value>>,
    opened: AtomicUsize,
    open: AtomicUsize,
    /// Told whenever anything of the above changes.
    changed: watch::Sender<()>,
    /// How often all connections were broken.
    crashes: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Rule {
    replies: Vec<Reply>,
    used: AtomicUsize,
}

/// An open connection. Counted as long as it lives.
#[derive(Debug)]
pub(super) struct Open<'a>(&'a Script);

impl Script {
    pub(super) fn add(&mut self, method: &str, reply: Reply) {
        self.replies.entry(method.to_owned()).or_default().replies.push(reply);
    }

    pub(super) fn needs_http(&self) -> bool {
        self.replies.values().flat_map(|rule| &rule.replies).any(Reply::needs_http)
    }

    /// Keeps the message and says what is to be done with it.
    pub(super) fn take(&self, message: &Value) -> Reply {
        let reply = message["method"].as_str().and_then(|method| self.replies.get(method)).map(|rule| {
            let used = rule.used.fetch_add(1, Ordering::Relaxed);
            rule.replies[used.min(rule.replies.len() - 1)].clone()
        });
        let mut seen = self.lock();
        if seen.len() < KEPT {
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

    pub(super) fn open(&self) -> Open<'_> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        self.open.fetch_add(1, Ordering::Relaxed);
        self.changed.send_replace(());
        Open(self)
    }

    pub(super) fn crash(&self) {
        self.crashes.send_modify(|crashes| *crashes += 1);
    }

    /// Resolves with the next crash after the call.
    pub(super) fn crashed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut crashes = self.crashes.subscribe();
        async move {
            // An error says that the script is gone, and everything with it.
            let _ = crashes.changed().await;
        }
    }

    /// Tells whoever waits that something has changed.
    #[cfg(feature = "http")]
    pub(super) fn touch(&self) {
        self.changed.send_replace(());
    }

    /// Waits until there is such a thing.
    pub(super) async fn until<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        let found = timeout(PATIENCE, async {
            loop {
                if let Some(found) = look() {
                    return found;
                }
                // The sender is our own: this cannot fail.
                let _ = changed.changed().await;
            }
        });
        match found.await {
            Ok(found) => found,
            Err(_) => panic!("{what} did not come within {PATIENCE:?}; what came: {:#?}", self.seen()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Value>> {
        self.seen.lock()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
        self.0.changed.send_replace(());
    }
}
