//! The log records of a server that belong to no call: the only session that uses the connection receives them.

use std::time::Duration;

use mcp_protocol::{LoggingMessageParams, Meta, meta::keys};
use mcp_server_core::source::SourceSession;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::sessions::Asking;

/// The most sessions that a connection remembers. A connection with more users forwards no record without a call.
const SESSIONS: usize = 16;

/// How long a session counts after its end: the server can still write records of its cancelled calls.
const AFTER_END: Duration = Duration::from_secs(30);

/// The users of a connection. A record without a call can be about a call of each of them.
#[derive(Default)]
pub(crate) struct Records(Mutex<Users>);

#[derive(Default)]
struct Users {
    sessions: Vec<User>,
    /// The connection had too many sessions, or a caller without a session.
    is_shared: bool,
}

struct User {
    session: SourceSession,
    /// The time at which the end of the session was found.
    ended: Option<Instant>,
}

impl Users {
    fn add(&mut self, caller: &Asking) {
        match caller {
            _ if self.is_shared => {}
            Asking::Session(session) if self.sessions.iter().any(|user| user.session == *session) => {}
            Asking::Session(session) if self.count() < SESSIONS => {
                self.sessions.push(User { session: session.clone(), ended: None });
            }
            Asking::Session(_) | Asking::Request(_) => *self = Self { sessions: Vec::new(), is_shared: true },
        }
    }

    /// Forgets the sessions that ended long ago, and returns the number of the others.
    fn count(&mut self) -> usize {
        self.sessions.retain_mut(|user| {
            if user.session.log_level().is_none() {
                return user.ended.get_or_insert_with(Instant::now).elapsed() < AFTER_END;
            }
            true
        });
        self.sessions.len()
    }

    /// Returns the session that alone uses the connection.
    fn only(&mut self) -> Option<SourceSession> {
        let is_single = self.count() == 1;
        self.sessions.first().filter(|_| is_single).map(|user| user.session.clone())
    }
}

impl Records {
    /// Records the caller of a request, before the request.
    pub(crate) fn used_by(&self, caller: &Asking) {
        self.0.lock().add(caller);
    }

    /// Forwards a record without a call to the session of the connection.
    pub(super) fn forward(&self, record: &LoggingMessageParams) {
        let only = self.0.lock().only();
        let Some(session) = only else {
            tracing::debug!(level = %record.level, "a log record without a call was dropped: no session alone uses the connection");
            return;
        };
        let mut record = record.clone();
        record.meta = record.meta.as_ref().and_then(forward_meta);
        session.forward_log(&record);
    }
}

/// Whether a gateway forwards a key of metadata: all keys but those of the protocol, and the trace context.
pub(crate) fn is_forwarded(key: &str) -> bool {
    matches!(key, keys::TRACEPARENT | keys::TRACESTATE | keys::BAGGAGE) || !keys::is_reserved_key(key)
}

/// Returns the metadata of a notification for the client, without the keys of the protocol.
pub(crate) fn forward_meta(meta: &Meta) -> Option<Meta> {
    let mut forwarded = meta.clone();
    forwarded.retain(|key, _| is_forwarded(key));
    (!forwarded.is_empty()).then_some(forwarded)
}
