//! `server.notify()`: the application announces changes and sends log records to clients.

use mcp_protocol::{LoggingLevel, LoggingMessageParams, NotificationMethod as _, jsonrpc, notification};
use serde::Serialize;

use crate::{Server, change::Change};

/// Announces changes to clients.
///
/// A session receives the changes of every list, and of the resources that it subscribed to. A `subscriptions/listen`
/// stream receives the changes that it subscribed to. These methods do not wait. While a client does not read, equal
/// changes are merged.
///
/// [`Server::tools`] and its siblings announce their changes themselves.
///
/// # Example
/// ```
/// use mcp_protocol::LoggingLevel;
/// use mcp_server_core::Server;
///
/// let server = Server::builder("config", "1.0").build();
/// let notices = server.notify();
/// notices.resource_updated("config://app");
/// notices.resources_changed();
/// notices.tools_changed();
/// notices.prompts_changed();
/// notices.elicitation_complete("page-7");
/// notices.log(LoggingLevel::Info, "the configuration changed");
/// notices.log_as(LoggingLevel::Info, Some("config"), "the configuration changed");
/// ```
#[derive(Debug)]
pub struct Notices<'a> {
    server: &'a Server,
}

impl Notices<'_> {
    /// Announces a change of the list of tools.
    ///
    /// See the [example](Self#example).
    pub fn tools_changed(&self) {
        self.server.data.publisher.publish(Change::Tools);
    }

    /// Announces a change of the list of prompts.
    ///
    /// See the [example](Self#example).
    pub fn prompts_changed(&self) {
        self.server.data.publisher.publish(Change::Prompts);
    }

    /// Announces a change of the list of resources or resource templates.
    ///
    /// See the [example](Self#example).
    pub fn resources_changed(&self) {
        self.server.data.publisher.publish(Change::Resources);
    }

    /// Announces a change of one resource. Clients receive it if they subscribed to exactly this URI. When a resource
    /// contains another, announce both.
    ///
    /// See the [example](Self#example).
    pub fn resource_updated(&self, uri: &str) {
        self.server.data.publisher.publish(Change::Updated(uri.into()));
    }

    /// Announces that the user is done on a page of [`Inputs::elicit_page`](crate::Inputs::elicit_page), or of an error
    /// `-32042`.
    ///
    /// The client is notified once, in a session of 2025-11-25. The session can belong to any node of a fleet. In all other
    /// cases this has no effect. A client that does not read misses the notification, so clients do not depend on it.
    ///
    /// See the [example](Self#example).
    pub fn elicitation_complete(&self, page: &str) {
        self.server.data.publisher.complete_page(page);
    }

    /// Sends a log record that belongs to no request to every session of this node with a matching level. A session without
    /// capacity misses it.
    ///
    /// Clients without a session only receive log records of their requests ([`Context::log`](crate::Context::log)).
    /// All sessions receive the record: it must not contain secrets or personal data.
    ///
    /// See the [example](Self#example).
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(level, None, data);
    }

    /// Sends a log record with the name of a logger, like [`Notices::log`].
    ///
    /// See the [example](Self#example).
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

    /// Sends a log record that is only built if a session wants it.
    #[cfg(feature = "log-layer")]
    pub(crate) fn log_if_wanted(&self, level: LoggingLevel, record: impl FnOnce() -> LoggingMessageParams) {
        if self.server.data.publisher.sessions().iter().any(|session| session.wants_record(level)) {
            self.log_params(&record());
        }
    }
}

impl Server {
    /// Returns the methods that announce changes and send log records.
    ///
    /// ```
    /// use mcp_server_core::Server;
    ///
    /// let server = Server::builder("news", "1.0.0").build();
    /// server.notify().resource_updated("news://1");
    /// server.notify().prompts_changed();
    /// ```
    #[must_use]
    pub fn notify(&self) -> Notices<'_> {
        Notices { server: self }
    }
}
