//! What clients tell unasked reaches the application.

use std::{fmt, future::Future, sync::Arc};

use mcp_protocol::jsonrpc::Notification;
use mcp_transport::BoxFuture;
use serde_json::Value;

use crate::{Peer, Server, Session, session::Pass};

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

impl Server {
    /// Hands a notification to the application, on a task of its own: nobody waits for it, and it may fail in peace.
    pub(crate) fn heard(&self, session: Option<&Arc<Session>>, peer: &Peer, message: &Notification<'_>) {
        let Some(hook) = self.inner.config.on_notification.clone() else { return };
        let Some(places) = self.places(peer) else {
            tracing::warn!(method = &*message.method, "too much runs already: a notification was dropped");
            return;
        };
        let notification = ClientNotification {
            method: message.method.to_string(),
            params: message.params.and_then(|params| serde_json::from_str(params.get()).ok()),
            session: session.cloned(),
        };
        let (limit, shutdown) = (self.limits().read_timeout, self.shutdown_token());
        let running = async move {
            let _places = places;
            tokio::select! {
                outcome = tokio::time::timeout(limit, (hook.0)(notification)) => if outcome.is_err() {
                    tracing::warn!(?limit, "a handler of notifications did not finish in time");
                },
                () = shutdown.cancelled() => {}
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(running)),
            Err(_) => tracing::warn!("a notification came outside of a runtime and was dropped"),
        }
    }

    fn places(&self, peer: &Peer) -> Option<(Pass, Pass)> {
        Some((self.inner.gate.enter()?, peer.gate().enter()?))
    }
}
