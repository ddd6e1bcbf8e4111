//! The log records of a server that belong to no call: the session of the connection receives them.

use std::sync::OnceLock;

use mcp_protocol::LoggingMessageParams;
use mcp_server_core::source::{SourceCall, SourceSession};

use super::metadata::forward_meta;

/// The receiver of the records of a connection without a call. A connection with several users has none, because a record can be about
/// a request of each of them.
#[derive(Default)]
pub(crate) struct Records(OnceLock<SourceSession>);

impl Records {
    /// Sets the receiver: the session of a call on a connection that only this session uses.
    pub(super) fn forward_to(&self, call: &SourceCall) {
        if self.0.get().is_none()
            && let Some(session) = call.session()
        {
            self.0.get_or_init(|| session);
        }
    }

    /// Forwards a record without a call to the session of the connection.
    pub(super) fn forward(&self, server: &str, record: &LoggingMessageParams) {
        let Some(session) = self.0.get() else {
            let level = record.level;
            tracing::debug!(server, %level, "a log record without a call was dropped: the connection belongs to no session");
            return;
        };
        let mut record = record.clone();
        record.meta = record.meta.as_ref().and_then(forward_meta);
        session.forward_log(&record);
    }
}
