//! What clients tell unasked reaches the application.

use std::{collections::VecDeque, fmt, future::Future, sync::Arc};

use mcp_protocol::jsonrpc::Notification;
use mcp_transport::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::{Peer, Server, Session};

/// So many notifications of one peer may wait.
const QUEUE: usize = 64;
/// The bytes of what may wait, unless it is one.
const QUEUE_BYTES: usize = 1 << 20;

/// A notification of a client, such as `notifications/roots/list_changed`.
#[derive(Debug, Clone)]
pub struct ClientNotification {
    method: String,
    params: Option<Value>,
    session: Option<Arc<Session>>,
}

impl ClientNotification {
    /// The method name on the wire.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The parameters as they came: nothing about them was checked.
    #[must_use]
    pub fn params(&self) -> Option<&Value> {
        self.params.as_ref()
    }

    /// The session that it came in; `None` where the client has none.
    #[must_use]
    pub fn session(&self) -> Option<&Session> {
        self.session.as_deref()
    }

    /// Whether the application would learn nothing new from it.
    fn is_same(&self, other: &Self) -> bool {
        let session = |it: &Self| it.session.as_ref().map(Arc::as_ptr);
        self.method == other.method && self.params == other.params && session(self) == session(other)
    }
}

/// What the application does with notifications of clients.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn(ClientNotification) -> BoxFuture<'static, ()> + Send + Sync>);

impl Hook {
    pub(crate) fn new<F, R>(hook: F) -> Self
    where
        F: Fn(ClientNotification) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move |notification| Box::pin(hook(notification))))
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// Notifications of one peer that wait for the application, which takes them one after the other.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    state: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Each with its length.
    queue: VecDeque<(ClientNotification, usize)>,
    bytes: usize,
    /// Whether somebody takes what waits.
    is_taken: bool,
}

/// What became of a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Added {
    /// It is the first: somebody is to take it.
    First,
    /// It waits, or is as good as one that does.
    Waits,
    Full,
}

impl Heard {
    fn state(&self) -> MutexGuard<'_, Waiting> {
        self.state.lock()
    }

    fn add(&self, notification: ClientNotification, len: usize) -> Added {
        let mut state = self.state();
        if state.queue.iter().any(|(waiting, _)| waiting.is_same(&notification)) {
            return Added::Waits;
        }
        let is_full = state.queue.len() >= QUEUE || state.bytes.saturating_add(len) > QUEUE_BYTES;
        // One always fits.
        if is_full && !state.queue.is_empty() {
            return Added::Full;
        }
        state.queue.push_back((notification, len));
        state.bytes += len;
        if std::mem::replace(&mut state.is_taken, true) { Added::Waits } else { Added::First }
    }

    fn next(&self) -> Option<ClientNotification> {
        let mut state = self.state();
        match state.queue.pop_front() {
            Some((notification, len)) => {
                state.bytes -= len;
                Some(notification)
            }
            None => {
                *state = Waiting::default();
                None
            }
        }
    }
}

impl Server {
    /// Hands a notification to the application, behind those of the same peer that wait: nobody waits for it, it may fail in
    /// peace, and it is no running handler.
    pub(crate) fn heard(&self, session: Option<&Arc<Session>>, peer: &Peer, message: &Notification<'_>) {
        let Some(hook) = self.data.config.on_notification.clone() else { return };
        let notification = ClientNotification {
            method: message.method.to_string(),
            params: message.params.and_then(|params| serde_json::from_str(params.get()).ok()),
            session: session.cloned(),
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::warn!("a notification came outside of a runtime and was dropped");
            return;
        };
        let len = message.method.len() + message.params.map_or(0, |params| params.get().len());
        match peer.heard().add(notification, len) {
            Added::First => drop(runtime.spawn(self.clone().tell_application(hook, peer.heard().clone()))),
            Added::Waits => {}
            Added::Full => {
                tracing::warn!(method = &*message.method, "too many notifications wait: one was dropped");
            }
        }
    }

    async fn tell_application(self, hook: Hook, heard: Arc<Heard>) {
        let (limit, shutdown) = (self.limits().read_timeout, self.shutdown_token());
        // On tasks of their own, so that one that panics does not keep the next from being told; those that run end with
        // this one.
        let mut running = JoinSet::new();
        let telling = async {
            while let Some(notification) = heard.next() {
                let hook = hook.clone();
                running.spawn(async move { tokio::time::timeout(limit, (hook.0)(notification)).await.is_ok() });
                match running.join_next().await {
                    Some(Ok(false)) => tracing::warn!(?limit, "a handler of notifications did not finish in time"),
                    Some(Err(error)) => tracing::error!(%error, "a handler of notifications failed"),
                    Some(Ok(true)) | None => {}
                }
            }
        };
        tokio::select! {
            () = telling => {}
            () = shutdown.cancelled() => {}
        }
    }
}
