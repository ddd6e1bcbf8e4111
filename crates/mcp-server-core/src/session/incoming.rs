//! Client notifications that the application receives through its hook.

use std::{collections::VecDeque, fmt, future::Future, sync::Arc, time::Duration};

use mcp_protocol::{Implementation, ProtocolVersion, jsonrpc::Notification};
use mcp_transport::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Peer, Session};
use crate::error::report_background;

/// The most notifications of one peer that wait.
const QUEUE: usize = 64;
/// The most bytes of waiting notifications. A single notification may be larger.
const QUEUE_BYTES: usize = 1 << 20;

/// A notification from a client, for example `notifications/roots/list_changed`.
///
/// # Example
/// ```
/// use mcp_server_core::{ClientNotification, Server};
///
/// let server = Server::builder::<()>("watcher", "1.0.0")
///     .on_notification(async |notification: ClientNotification| {
///         let version = notification.version();
///         println!("{} {:?} {version:?}", notification.method(), notification.params());
///         println!("{:?} {:?}", notification.session_id(), notification.client_info());
///     })
///     .build();
/// # let _: Server = server;
/// ```
#[derive(Debug, Clone)]
pub struct ClientNotification {
    method: String,
    params: Option<Value>,
    session: Option<Arc<Session>>,
}

impl ClientNotification {
    /// Returns the method name.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// Returns the parameters without any validation.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn params(&self) -> Option<&Value> {
        self.params.as_ref()
    }

    /// Returns the id of the HTTP session; `None` on other transports, and in the stateless era. It identifies a session,
    /// not a user.
    #[must_use]
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_deref().and_then(Session::id)
    }

    /// Returns the negotiated revision; `None` in the stateless era.
    #[must_use]
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.session.as_deref().map(Session::version)
    }

    /// Returns the name and version of the client; `None` in the stateless era. They are not authenticated.
    #[must_use]
    pub fn client_info(&self) -> Option<&Implementation> {
        self.session.as_deref().map(Session::client_info)
    }

    /// Whether the other notification has the same method, parameters and session.
    fn is_same(&self, other: &Self) -> bool {
        let session = |it: &Self| it.session.as_ref().map(Arc::as_ptr);
        self.method == other.method && self.params == other.params && session(self) == session(other)
    }
}

/// The application's callback for client notifications.
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

/// A bounded queue of notifications of one peer. The hook processes them one at a time.
#[derive(Debug, Default)]
pub(crate) struct NotificationQueue {
    state: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Each notification with its length in bytes.
    queue: VecDeque<(ClientNotification, usize)>,
    bytes: usize,
    /// Whether a task is processing the queue.
    is_taken: bool,
}

/// The result of adding a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Added {
    /// The queue was idle: the caller starts a task that processes it.
    First,
    /// The notification waits, or equals one that waits.
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
        // A notification of any size fits into an empty queue.
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
            Added::First => {
                let delivering = deliver(self.notifications().clone(), hook, limit, shutdown);
                drop(runtime.spawn(Box::pin(delivering) as BoxFuture<'static, ()>));
            }
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
            running.spawn(Box::pin(async move { tokio::time::timeout(limit, (hook.0)(notification)).await.is_ok() })
                as BoxFuture<'static, bool>);
            match running.join_next().await {
                Some(Ok(false)) => tracing::warn!(?limit, "a notification hook did not finish in time"),
                Some(Err(error)) => report_background("a notification hook failed", &error),
                Some(Ok(true)) | None => {}
            }
        }
    };
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = delivering => {}
    }
}
