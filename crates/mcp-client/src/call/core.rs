//! The state that all handles, calls and subscriptions of a client share.

use std::sync::{Arc, OnceLock, Weak};

use mcp_protocol::{LoggingMessageParams, RpcError};
use mcp_transport::{BoxFuture, Connect};
use serde_json::{Value, value::RawValue};

use super::{OwnedTasks, ResultCache, ToolCatalog};
use crate::{
    config::Config,
    connection::{Asker, Connection, ConnectionManager, Notification, Receiver, RunningCall},
    inbound::{HandlerSet, NotificationHub, RequestSource, SessionSubscribers, log_of_call},
};

/// The state that all handles, calls and subscriptions of a client share.
pub(crate) struct ClientCore {
    pub(crate) config: Arc<Config>,
    pub(crate) connections: Arc<ConnectionManager>,
    pub(crate) inbound: Arc<InboundState>,
    pub(crate) owned_tasks: OwnedTasks,
    handle: OnceLock<Weak<ClientHandle>>,
}

/// Everything that messages of the server reach: handlers, streams of notifications, and caches.
pub(crate) struct InboundState {
    config: Arc<Config>,
    pub(crate) handlers: HandlerSet,
    pub(crate) hub: NotificationHub,
    pub(crate) subscribers: SessionSubscribers,
    pub(crate) cache: ResultCache,
    pub(crate) catalog: ToolCatalog,
}

impl ClientCore {
    pub(crate) fn new(config: Config, handlers: HandlerSet, connector: Arc<dyn Connect>) -> Arc<Self> {
        let config = Arc::new(config);
        let inbound = Arc::new(InboundState {
            hub: NotificationHub::new(config.limits.notifications, config.limits.notification_bytes),
            config: Arc::clone(&config),
            handlers,
            subscribers: SessionSubscribers::default(),
            cache: ResultCache::default(),
            catalog: ToolCatalog::default(),
        });
        let receiver: Arc<dyn Receiver> = inbound.clone();
        let connections = ConnectionManager::new(Arc::clone(&config), connector, receiver);
        Arc::new(Self { config, connections, inbound, owned_tasks: OwnedTasks::default(), handle: OnceLock::new() })
    }

    /// Returns a handle that keeps the client open; `None` when it is being closed.
    pub(crate) fn handle(&self) -> Option<Arc<ClientHandle>> {
        self.handle.get()?.upgrade()
    }
}

impl Receiver for InboundState {
    fn request(
        &self,
        connection: &Arc<Connection>,
        method: &str,
        params: Option<&RawValue>,
        asker: &Asker,
    ) -> BoxFuture<'static, Result<Value, RpcError>> {
        let source = RequestSource::on(connection).during(asker.call());
        let handlers = self.handlers.during(asker.questions());
        let request = handlers.request(method, params, source, self.config.limits.server_request_timeout);
        Box::pin(request.with_progress(connection).answer())
    }

    fn notification(&self, notification: &Notification, of_session: bool) {
        if of_session {
            self.subscribers.publish(notification);
        }
        self.cache.invalidate(notification);
        self.hub.publish(notification);
    }

    fn log(&self, call: Option<&RunningCall>, record: LoggingMessageParams) {
        match (call, &self.handlers.handler) {
            (Some(call), _) => log_of_call(call, record),
            (None, Some(handler)) => handler.log_without_call(record),
            (None, None) => {}
        }
    }

    fn connected(&self) {
        self.cache.clear();
        self.catalog.clear();
    }

    fn closed(&self) {
        self.hub.close();
    }
}

/// Keeps a client open. The connection closes when the last handle is dropped.
pub(crate) struct ClientHandle {
    pub(crate) core: Arc<ClientCore>,
}

impl ClientHandle {
    pub(crate) fn new(core: &Arc<ClientCore>) -> Arc<Self> {
        let handle = Arc::new(Self { core: Arc::clone(core) });
        // The first handle lives as long as the client.
        let _ = core.handle.set(Arc::downgrade(&handle));
        handle
    }
}

impl Drop for ClientHandle {
    fn drop(&mut self) {
        self.core.connections.closing.cancel();
    }
}
