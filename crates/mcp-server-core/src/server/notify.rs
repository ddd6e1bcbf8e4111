//! `server.notify()`: the application announces changes and sends log records to clients.

use mcp_protocol::{
    ElicitationCompleteParams, LoggingLevel, LoggingMessageParams, NotificationMethod as _, jsonrpc, notification,
};
use serde::Serialize;

use crate::{Server, change::Change};

/// Tells clients that something changed: `server.notify().resource_updated("config://app")`.
///
/// Sessions are told of every list, and of the resources that they subscribed to; `subscriptions/listen` streams of what
/// they asked for. Nothing here waits for a client. A notice says that there is something new to ask for, and not what:
/// while a client does not read, equal notices become one, which it gets when it reads again.
///
/// What [`Server::tools`] and its siblings add and remove is told without this.
#[derive(Debug)]
pub struct Notices<'a> {
    server: &'a Server,
}

impl Notices<'_> {
    /// The list of tools changed.
    pub fn tools_changed(&self) {
        self.server.data.publisher.publish(Change::Tools);
    }

    /// The list of prompts changed.
    pub fn prompts_changed(&self) {
        self.server.data.publisher.publish(Change::Prompts);
    }

    /// The list of resources, or that of resource templates, changed.
    pub fn resources_changed(&self) {
        self.server.data.publisher.publish(Change::Resources);
    }

    /// A resource changed. Those are told that subscribed to this very URI: a server with resources inside of others names
    /// both, the part and the whole, if subscribers of the whole are meant to know.
    pub fn resource_updated(&self, uri: &str) {
        self.server.data.publisher.publish(Change::Updated(uri.into()));
    }

    /// The user is done on the page that [`Inputs::elicit_page`](crate::Inputs::elicit_page), or an error `-32042`, sent
    /// them to under this id. The client that was asked is told, once, in a session of 2025-11-25 on this node; nothing
    /// happens otherwise. A session that does not read misses it: clients do not rely on it.
    pub fn elicitation_complete(&self, page: &str) {
        let params = ElicitationCompleteParams::new(page);
        let Ok(message) = jsonrpc::notification(notification::ElicitationComplete::NAME, &params) else { return };
        for session in self.server.data.publisher.sessions() {
            if session.forget_page(page) && session.version().has_elicitation_complete() {
                session.send(message.clone());
            }
        }
    }

    /// Sends a log record that belongs to no request to every session whose level lets it through. A session that leaves
    /// no room for it misses it. Clients without a session get log records with the answers to their requests only
    /// ([`Context::log`](crate::Context::log)). Everybody reads it: nothing secret and nothing personal belongs in it.
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(level, None, data);
    }

    /// Like [`Notices::log`], under the name of a logger.
    pub fn log_as(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        let Ok(data) = serde_json::to_value(data) else {
            tracing::warn!("a log record cannot be written as JSON");
            return;
        };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = logger.map(str::to_owned);
        self.log_params(&params);
    }

    fn log_params(&self, params: &LoggingMessageParams) {
        let Ok(message) = jsonrpc::notification(notification::LoggingMessage::NAME, params) else { return };
        let message = bytes::Bytes::from(message);
        for session in self.server.data.publisher.sessions() {
            session.log_record(params.level, &message);
        }
    }

    /// The same for a record that is put together only if somebody wants it.
    #[cfg(feature = "log-layer")]
    pub(crate) fn log_if_wanted(&self, level: LoggingLevel, record: impl FnOnce() -> LoggingMessageParams) {
        if self.server.data.publisher.sessions().iter().any(|session| session.wants_record(level)) {
            self.log_params(&record());
        }
    }
}

impl Server {
    /// Tells clients that something changed.
    #[must_use]
    pub fn notify(&self) -> Notices<'_> {
        Notices { server: self }
    }
}
