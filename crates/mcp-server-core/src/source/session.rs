//! The session of a call, as a source passes its state on to the servers behind it.

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::{Arc, Weak},
};

use mcp_protocol::{LoggingLevel, LoggingMessageParams, NotificationMethod as _, jsonrpc, notification};

use crate::Session;

/// The session of a call ([`SourceCall::session`](super::SourceCall::session)): the level of its log records and the changes of its
/// roots.
///
/// Two values are equal if they belong to the same session. A value does not keep the session.
///
/// ```
/// use mcp_protocol::LoggingLevel;
/// use mcp_server_core::source::SourceSession;
///
/// /// Returns the level for a server that these sessions share.
/// fn lowest(sessions: &mut Vec<SourceSession>) -> Option<LoggingLevel> {
///     sessions.retain(|session| session.log_level().is_some());
///     if !sessions.iter().any(SourceSession::has_set_log_level) {
///         return None;
///     }
///     sessions.iter().filter_map(SourceSession::log_level).min()
/// }
///
/// /// Returns whether the server needs a notification about changed roots.
/// fn is_outdated(session: &SourceSession, notified: u64) -> bool {
///     session.roots_changes() > notified
/// }
/// # let _ = (lowest, is_outdated);
/// ```
#[derive(Clone)]
pub struct SourceSession {
    session: Weak<Session>,
}

impl SourceSession {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::downgrade(session) }
    }

    /// Returns a number that no other session has while this value exists.
    #[doc(hidden)]
    #[must_use]
    pub fn number(&self) -> usize {
        self.session.as_ptr().addr()
    }

    /// Returns the lowest level of log records that the client receives: `info` if the client has set none; `None` after the end
    /// of the session.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn log_level(&self) -> Option<LoggingLevel> {
        Some(self.session.upgrade().filter(|session| !session.is_closed())?.log_level())
    }

    /// Whether the client has set the level (`logging/setLevel`).
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn has_set_log_level(&self) -> bool {
        self.session.upgrade().is_some_and(|session| session.chosen_log_level().is_some())
    }

    /// Returns the number of notifications about changed roots (`notifications/roots/list_changed`). It is 0 if the client does not
    /// declare changes.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn roots_changes(&self) -> u64 {
        self.session.upgrade().map_or(0, |session| session.roots_changes())
    }

    /// Forwards a log record of another server that belongs to no request. The client receives it on the stream of the session, if it
    /// receives records of this level. A client that does not read misses the record.
    ///
    /// ```
    /// use mcp_protocol::{LoggingLevel, LoggingMessageParams};
    /// use mcp_server_core::source::SourceSession;
    ///
    /// fn report(session: &SourceSession) {
    ///     session.forward_log(&LoggingMessageParams::new(LoggingLevel::Warning, "the disk is almost full"));
    /// }
    /// # let _ = report;
    /// ```
    pub fn forward_log(&self, record: &LoggingMessageParams) {
        if let Some(session) = self.session.upgrade().filter(|session| session.wants_record(record.level))
            && let Ok(message) = jsonrpc::notification(notification::LoggingMessage::NAME, record)
        {
            session.log_record(record.level, &message.into());
        }
    }
}

impl PartialEq for SourceSession {
    fn eq(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.session, &other.session)
    }
}

impl Eq for SourceSession {}

impl Hash for SourceSession {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.session.as_ptr().hash(state);
    }
}

impl fmt::Debug for SourceSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceSession").field("log_level", &self.log_level()).finish_non_exhaustive()
    }
}
