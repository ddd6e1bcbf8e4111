//! The sessions of callers that use a connection with a session: the level of their log records, and the changes of their roots.

use std::{collections::HashMap, time::Duration};

use mcp_client::Client;
use mcp_protocol::{LoggingLevel, NotificationMethod as _, notification::RootsListChanged};
use mcp_server_core::source::SourceSession;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

/// How long a call waits for a server to accept the state of its session. A call with a time limit waits for half of it at most.
const LIMIT: Duration = Duration::from_secs(5);

/// The sessions that use a connection.
#[derive(Default)]
pub(crate) struct Sessions {
    known: Mutex<Known>,
    /// One request at a time sends changes, so the server receives them in their order. Requests without a change do not wait.
    sending: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<SourceSession, Passed>,
    /// The server rejected a level, or did not answer within [`LIMIT`]. This connection passes no further level.
    is_rejected: bool,
    /// How long requests have waited for answers since the server accepted a level. A request with a short time limit waits for a part
    /// of the limit only.
    waited: Duration,
}

/// The state of a session that the server has received.
#[derive(Clone, Copy)]
struct Passed {
    level: LoggingLevel,
    roots_changes: u64,
}

/// The caller of a request.
pub(crate) enum Asking {
    /// A caller with a session.
    Session(SourceSession),
    /// A request of the stateless revision, with the level of its log records. `None`: no log records.
    Request(Option<LoggingLevel>),
}

impl Sessions {
    /// Lets the server of a new connection receive levels. It can be another process, which accepts levels.
    pub(super) fn reconnected(&self) {
        let mut known = self.known.lock();
        (known.is_rejected, known.waited) = (false, Duration::ZERO);
    }

    /// Passes the state of a caller on to the server before a request. A fault of the server changes nothing, because no request
    /// depends on it. `limit` is the time limit of the request.
    pub(crate) async fn prepare(&self, client: &Client, caller: &Asking, limit: Option<Duration>) {
        if !client.negotiated().version.has_session_methods() {
            return;
        }
        let (has_changed, is_new_level) = {
            let mut known = self.known.lock();
            let is_new_level = known.note(caller);
            let needs_level = known.next_level(client, caller, is_new_level).is_some();
            (needs_level || known.new_roots(caller).is_some(), is_new_level)
        };
        if has_changed {
            // Few requests follow a change. Boxing keeps the futures of the others small.
            Box::pin(self.send_changes(client, caller, is_new_level, limit)).await;
        }
    }

    async fn send_changes(&self, client: &Client, caller: &Asking, is_new_level: bool, limit: Option<Duration>) {
        let wait = limit.map_or(LIMIT, |limit| LIMIT.min(limit / 2));
        let end = Instant::now() + wait;
        let Ok(_turn) = timeout_at(end, self.sending.lock()).await else {
            tracing::debug!("a request did not wait until a server had accepted the state of other sessions");
            return;
        };
        // Another request can have sent the changes meanwhile.
        let roots = self.known.lock().new_roots(caller);
        if let Some((session, changes)) = roots {
            if let Ok(Ok(())) = timeout_at(end, client.notify(RootsListChanged::NAME, ())).await {
                self.known.lock().pass_roots(session, changes);
            } else {
                tracing::debug!("a server was not notified of changed roots");
            }
        }
        let level = self.known.lock().next_level(client, caller, is_new_level);
        let Some(level) = level else { return };
        let began = Instant::now();
        let answered = timeout_at(end, client.set_log_level(level)).await;
        let mut known = self.known.lock();
        match answered {
            Ok(Ok(())) => known.waited = Duration::ZERO,
            Ok(Err(error)) => {
                tracing::debug!(%error, %level, "a server did not accept the level of log records");
                known.is_rejected |= error.rpc().is_some();
            }
            Err(_) => {
                tracing::debug!(%level, "a server did not accept the level of log records in time");
                known.waited += began.elapsed();
                // A part of a wait passes before the request.
                known.is_rejected |= known.waited >= LIMIT * 9 / 10;
            }
        }
    }
}

impl Known {
    /// Keeps the level of the caller. Returns whether the level of its session is new.
    fn note(&mut self, caller: &Asking) -> bool {
        let Asking::Session(session) = caller else { return false };
        let Some(level) = session.log_level() else { return false };
        if let Some(passed) = self.sessions.get_mut(session) {
            return std::mem::replace(&mut passed.level, level) != level;
        }
        self.sessions.insert(session.clone(), Passed { level, roots_changes: session.roots_changes() });
        if self.sessions.len().is_power_of_two() {
            self.update();
        }
        true
    }

    /// Returns the level that the server needs next. `is_new_level`: the caller has changed its level, or is new.
    fn next_level(&mut self, client: &Client, caller: &Asking, is_new_level: bool) -> Option<LoggingLevel> {
        if self.is_rejected || client.negotiated().capabilities.logging.is_none() {
            return None;
        }
        // The level that the server accepted last.
        let current = client.log_level();
        let level = match caller {
            Asking::Session(session) => {
                let level = session.log_level()?;
                // Without a level of a session, the server chooses.
                let is_first = current.is_none() && !session.has_set_log_level();
                let is_enough = !is_new_level && current.is_some_and(|current| current <= level);
                if is_first || is_enough {
                    return None;
                }
                self.update()?
            }
            // The request of a stateless client does not raise the level of the sessions.
            Asking::Request(level) => level.filter(|level| current.is_none_or(|current| *level < current))?,
        };
        (current != Some(level)).then_some(level)
    }

    /// Returns the session of a caller and the number of changes of its roots, if they have changed since the server was notified.
    fn new_roots<'a>(&self, caller: &'a Asking) -> Option<(&'a SourceSession, u64)> {
        let Asking::Session(session) = caller else { return None };
        let changes = session.roots_changes();
        self.sessions.get(session).filter(|passed| passed.roots_changes != changes).map(|_| (session, changes))
    }

    fn pass_roots(&mut self, session: &SourceSession, changes: u64) {
        if let Some(passed) = self.sessions.get_mut(session) {
            passed.roots_changes = changes;
        }
    }

    /// Reads the levels of all sessions, and removes the sessions that have ended. Returns the lowest level.
    fn update(&mut self) -> Option<LoggingLevel> {
        self.sessions.retain(|session, passed| session.log_level().inspect(|level| passed.level = *level).is_some());
        self.sessions.values().map(|passed| passed.level).min()
    }
}
