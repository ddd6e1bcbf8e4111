//! The sessions of callers that use a connection with a session: the level of their log records, and the changes of their roots.

use std::{collections::HashMap, time::Duration};

use mcp_client::Client;
use mcp_protocol::{LoggingLevel, NotificationMethod as _, notification::RootsListChanged};
use mcp_server_core::source::SourceSession;
use tokio::{sync::Mutex, time::timeout};

/// How long a call waits for a server to accept the state of its session.
const LIMIT: Duration = Duration::from_secs(5);

/// The sessions that use a connection.
#[derive(Default)]
pub(crate) struct Sessions {
    /// Held while a server receives a change: it receives the changes in their order.
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    sessions: HashMap<SourceSession, Passed>,
    /// The server rejected a level, or did not answer in time. It receives no further level.
    is_rejected: bool,
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
    /// Passes the state of a caller on to the server before a request. A fault of the server changes nothing, because no request
    /// depends on it.
    pub(crate) async fn prepare(&self, client: &Client, caller: Asking) {
        let negotiated = client.negotiated();
        if !negotiated.version.has_session_methods() {
            return;
        }
        let mut known = self.known.lock().await;
        if let Asking::Session(session) = &caller
            && known.has_new_roots(session)
            && !matches!(timeout(LIMIT, Box::pin(client.notify(RootsListChanged::NAME, ()))).await, Ok(Ok(())))
        {
            tracing::debug!("a server was not notified of changed roots");
        }
        let Some(level) = known.next_level(client.log_level(), caller) else { return };
        if negotiated.capabilities.logging.is_none() {
            return;
        }
        match timeout(LIMIT, client.set_log_level(level)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                known.is_rejected = error.rpc().is_some();
                tracing::debug!(%error, %level, "a server did not accept the level of log records");
            }
            Err(_) => {
                known.is_rejected = true;
                tracing::debug!(%level, "a server did not accept the level of log records in time");
            }
        }
    }
}

impl Known {
    /// Whether the roots of a session have changed since its last request on this connection.
    fn has_new_roots(&mut self, session: &SourceSession) -> bool {
        let changes = session.roots_changes();
        let passed = self.sessions.get_mut(session);
        passed.is_some_and(|passed| std::mem::replace(&mut passed.roots_changes, changes) != changes)
    }

    /// Returns the level that the server needs next. `current` is the level that the server accepted last.
    fn next_level(&mut self, current: Option<LoggingLevel>, caller: Asking) -> Option<LoggingLevel> {
        let level = match caller {
            Asking::Session(session) => {
                let level = session.log_level()?;
                let is_first = current.is_none() && !session.has_set_log_level();
                let passed = Passed { level, roots_changes: session.roots_changes() };
                let is_changed = self.sessions.insert(session, passed).is_none_or(|former| former.level != level);
                let is_enough = !is_changed && current.is_some_and(|current| current <= level);
                // Without a level of a session, the server chooses.
                if is_first || is_enough {
                    if is_changed && self.sessions.len().is_power_of_two() {
                        self.update();
                    }
                    return None;
                }
                self.update()?
            }
            // The request of a stateless client does not raise the level of the sessions.
            Asking::Request(level) => level.filter(|level| current.is_none_or(|current| *level < current))?,
        };
        (current != Some(level) && !self.is_rejected).then_some(level)
    }

    /// Reads the levels of all sessions, and removes the sessions that have ended. Returns the lowest level.
    fn update(&mut self) -> Option<LoggingLevel> {
        self.sessions.retain(|session, passed| session.log_level().inspect(|level| passed.level = *level).is_some());
        self.sessions.values().map(|passed| passed.level).min()
    }
}
