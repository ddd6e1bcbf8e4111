//! The log records of a server that belong to no call: the only session that uses the connection receives them.

use std::time::Duration;

use mcp_protocol::LoggingMessageParams;
use mcp_server_core::source::SourceSession;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::metadata::forward_meta;

/// The most sessions that a connection remembers. A connection with more users forwards no record without a call.
const SESSIONS: usize = 16;

/// How long a session counts after its end and after the time of its tasks: the server can still write records of its cancelled calls.
const AFTER_END: Duration = Duration::from_secs(30);

/// The users of a connection. A record without a call can be about a request of each of them.
#[derive(Default)]
pub(crate) struct Records(Mutex<Users>);

#[derive(Default)]
struct Users {
    sessions: Vec<User>,
    /// The connection had too many sessions, or a caller without a session. The end of such a caller is not known, so the value stays.
    is_shared: bool,
}

struct User {
    session: SourceSession,
    /// The time at which the end of the session was found.
    ended: Option<Instant>,
    /// The end of the last task of the session.
    tasks_until: Instant,
}

impl Users {
    fn add(&mut self, user: Option<&SourceSession>) {
        match user {
            _ if self.is_shared => {}
            Some(session) if self.sessions.iter().any(|user| user.session == *session) => {}
            Some(session) if self.count() < SESSIONS => {
                self.sessions.push(User { session: session.clone(), ended: None, tasks_until: Instant::now() });
            }
            Some(_) | None => *self = Self { sessions: Vec::new(), is_shared: true },
        }
    }

    /// Forgets the sessions that ended long ago, and returns the number of the others.
    fn count(&mut self) -> usize {
        let now = Instant::now();
        self.sessions.retain_mut(|user| {
            if user.session.log_level().is_some() {
                return true;
            }
            let ended = *user.ended.get_or_insert(now);
            now < ended.max(user.tasks_until) + AFTER_END
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
    /// Records the session of a request before the request. `None`: the request has no session.
    pub(super) fn used_by(&self, user: Option<&SourceSession>) {
        self.0.lock().add(user);
    }

    /// Lets a session count for the time of a task, also after its end.
    pub(super) fn keep_for(&self, session: &SourceSession, time: Duration) {
        let until = Instant::now() + time;
        if let Some(user) = self.0.lock().sessions.iter_mut().find(|user| user.session == *session) {
            user.tasks_until = user.tasks_until.max(until);
        }
    }

    /// Forwards a record without a call to the session of the connection.
    pub(super) fn forward(&self, server: &str, record: &LoggingMessageParams) {
        let only = self.0.lock().only();
        let Some(session) = only else {
            let level = record.level;
            tracing::debug!(server, %level, "a log record without a call was dropped: no session alone uses the connection");
            return;
        };
        let mut record = record.clone();
        record.meta = record.meta.as_ref().and_then(forward_meta);
        session.forward_log(&record);
    }
}
