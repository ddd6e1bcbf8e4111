//! What clients tell unasked reaches the application.

use std::{collections::VecDeque, fmt, future::Future, sync::Arc, time::Duration};

use mcp_protocol::jsonrpc::Notification;
use mcp_transport::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Peer, Session};

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
pub(crate) struct NotificationHook(Arc<dyn Fn(ClientNotification) -> BoxFuture<'static, ()> + Send + Sync>);

impl NotificationHook {
    pub(crate) fn new<F, R>(hook: F) -> Self
    where
        F: Fn(ClientNotification) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move |notification| Box::pin(hook(notification))))
    }
}

impl fmt::Debug for NotificationHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NotificationHook")
    }
}

/// Notifications of one peer that wait for the application, which takes them one after the other.
#[derive(Debug, Default)]
pub(crate) struct NotificationQueue {
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

impl NotificationQueue {
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

impl Peer {
    /// Queues a notification for the application. A task of its own passes the queue to the hook, one at a time.
    pub(crate) fn receive(
        &self,
        message: &Notification<'_>,
        session: Option<&Arc<Session>>,
        hook: NotificationHook,
        limit: Duration,
        shutdown: CancellationToken,
    ) {
        let notification = ClientNotification {
            method: message.method.to_string(),
            params: message.params.and_then(|params| serde_json::from_str(params.get()).ok()),
            session: session.cloned(),
        };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::warn!("a notification was dropped: it arrived outside of a Tokio runtime");
            return;
        };
        let len = message.method.len() + message.params.map_or(0, |params| params.get().len());
        match self.notifications().add(notification, len) {
            Added::First => drop(runtime.spawn(deliver(self.notifications().clone(), hook, limit, shutdown))),
            Added::Waits => {}
            Added::Full => {
                tracing::warn!(method = &*message.method, "a notification was dropped: the queue is full");
            }
        }
    }
}

/// Passes queued notifications to the hook until the queue is empty or the server shuts down.
async fn deliver(queue: Arc<NotificationQueue>, hook: NotificationHook, limit: Duration, shutdown: CancellationToken) {
    // Each run of the hook has a task of its own, so a panic does not stop the queue. Dropping the set ends the task.
    let mut running = JoinSet::new();
    let delivering = async {
        while let Some(notification) = queue.next() {
            let hook = hook.clone();
            running.spawn(async move { tokio::time::timeout(limit, (hook.0)(notification)).await.is_ok() });
            match running.join_next().await {
                Some(Ok(false)) => tracing::warn!(?limit, "a notification hook did not finish in time"),
                Some(Err(error)) => tracing::error!(%error, "a notification hook failed"),
                Some(Ok(true)) | None => {}
            }
        }
    };
    tokio::select! {
        () = delivering => {}
        () = shutdown.cancelled() => {}
    }
}
