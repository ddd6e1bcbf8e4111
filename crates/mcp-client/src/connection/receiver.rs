//! The interfaces that receive messages of the server which are not answers to requests.

use std::sync::Arc;

use mcp_protocol::{LoggingMessageParams, RpcError};
use mcp_transport::BoxFuture;
use serde_json::{Value, value::RawValue};

use super::{Asker, Connection, Notification, RunningCall};

/// Receives requests and notifications of the server, and changes of the connection.
pub(crate) trait Receiver: Send + Sync + 'static {
    /// Prepares the answer to a request of the server. The answer is made when the future is polled.
    fn request(
        &self,
        connection: &Arc<Connection>,
        method: &str,
        params: Option<&RawValue>,
        asker: &Asker,
    ) -> BoxFuture<'static, Result<Value, RpcError>>;

    /// Handles a notification. `of_session` is true when it can belong to any subscription of the session.
    fn notification(&self, notification: &Notification, of_session: bool);

    /// Receives a log record, and its call if it belongs to a call.
    fn log(&self, call: Option<&RunningCall>, record: LoggingMessageParams);

    /// Discards everything that was read over earlier connections: the new one may lead to another server.
    fn connected(&self);

    /// Ends all streams of notifications: the client is closed.
    fn closed(&self);
}

/// Receives the notifications on the stream of one request, such as `subscriptions/listen`.
pub(crate) trait StreamReceiver: Send + Sync + 'static {
    /// Handles one notification of the stream. Returns true if it opens the stream again, so that notifications may be lost.
    fn notification(&self, notification: &Notification) -> bool;

    /// Returns true once the server has acknowledged the stream. From then on no answer is due.
    fn is_acknowledged(&self) -> bool;
}
