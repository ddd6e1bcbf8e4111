//! The status of each server, and the stream of its changes.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
    time::SystemTime,
};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::broadcast::{self, error::RecvError};

use super::Slot;
use crate::catalog::{ServerEntries, estimate};

/// The number of changes that wait for a slow reader. A reader that misses changes receives the current status of each server.
const WAITING: usize = 256;

/// The state of a server in a host.
///
/// ```
/// use mcp_agent::ServerState;
///
/// assert_eq!(ServerState::NeedsLogin.to_string(), "needs-login");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ServerState {
    /// The host knows the server and has not started it. The next call starts it.
    Configured,
    /// The server waits for an approval of its definition.
    NeedsApproval,
    /// The host opens a connection.
    Starting,
    /// The start takes longer than the host waited. The server joins when it is ready.
    Waiting,
    /// The server needs a login of the user.
    NeedsLogin,
    /// Calls reach the server.
    Ready,
    /// Calls reach the server, but a list is incomplete, or the connection is being opened again.
    Degraded,
    /// The server did not start, or was lost. A call makes another attempt.
    Failed,
    /// The host stopped the server, because it was idle or was removed.
    Stopped,
}

impl std::fmt::Display for ServerState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Configured => "configured",
            Self::NeedsApproval => "needs-approval",
            Self::Starting => "starting",
            Self::Waiting => "waiting",
            Self::NeedsLogin => "needs-login",
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        })
    }
}

/// The status of a server.
///
/// ```
/// # fn example(host: &mcp_agent::Host) {
/// for status in host.statuses() {
///     println!("{} is {}: {}", status.name, status.state, status.reason.as_deref().unwrap_or("no fault"));
///     println!("{} tools, ~{} tokens", status.tools, status.estimated_tokens);
/// }
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerStatus {
    /// The name of the server.
    pub name: Arc<str>,
    /// The state.
    pub state: ServerState,
    /// The time of the last change of the state.
    pub since: SystemTime,
    /// The reason of the state, for example the error of the last attempt.
    pub reason: Option<String>,
    /// The faults of the lists of the server, and the parts of its filter without an effect.
    pub diagnostics: Vec<String>,
    /// The parts of the filter without an effect, such as a pattern that matches no tool.
    pub filter_notes: Vec<String>,
    /// The last lines that a child process wrote to its standard error, oldest first.
    pub stderr: Vec<String>,
    /// The number of tools in the catalog.
    pub tools: usize,
    /// An estimate of the tokens of the definitions.
    pub estimated_tokens: usize,
    /// The host does not start without this server.
    pub is_required: bool,
    /// The definitions of tools that changed since their pin, and the invisible characters of tools: at most 20 texts.
    pub notes: Vec<String>,
}

impl ServerStatus {
    fn count(&mut self, entries: &ServerEntries) {
        self.tools = entries.tools.len();
        self.estimated_tokens = estimate(entries.bytes());
        self.notes = entries.notes();
    }
}

/// The status of each server, in the order of their registration.
pub(crate) struct StatusTable {
    statuses: Mutex<Vec<ServerStatus>>,
    changes: broadcast::Sender<ServerStatus>,
}

impl Default for StatusTable {
    fn default() -> Self {
        Self { statuses: Mutex::default(), changes: broadcast::Sender::new(WAITING) }
    }
}

impl StatusTable {
    pub(super) fn add(&self, slot: &Slot) {
        let mut status = ServerStatus {
            name: Arc::clone(&slot.name),
            state: slot.state(),
            since: SystemTime::now(),
            reason: slot.reason(),
            diagnostics: slot.diagnostics(),
            filter_notes: slot.filter_notes(),
            stderr: slot.connector.stderr(),
            tools: 0,
            estimated_tokens: 0,
            is_required: slot.options.is_required,
            notes: Vec::new(),
        };
        status.count(&slot.entries());
        let mut statuses = self.statuses.lock();
        match statuses.iter_mut().find(|other| other.name == slot.name) {
            Some(place) => *place = status.clone(),
            None => statuses.push(status.clone()),
        }
        // Without a reader the change is dropped.
        let _ = self.changes.send(status);
    }

    pub(super) fn remove(&self, slot: &Slot) {
        let mut statuses = self.statuses.lock();
        if let Some(index) = statuses.iter().position(|status| status.name == slot.name) {
            let mut status = statuses.remove(index);
            (status.state, status.since, status.tools, status.estimated_tokens) =
                (ServerState::Stopped, SystemTime::now(), 0, 0);
            let _ = self.changes.send(status);
        }
    }

    /// Publishes the state of a server.
    pub(super) fn update(&self, slot: &Slot) {
        let mut statuses = self.statuses.lock();
        // Read inside the lock, so that an older state does not replace a newer one.
        let (state, reason, stderr, entries) = (slot.state(), slot.reason(), slot.connector.stderr(), slot.entries());
        let Some(status) = statuses.iter_mut().find(|status| status.name == slot.name) else { return };
        let former = status.clone();
        if status.state != state {
            (status.state, status.since) = (state, SystemTime::now());
        }
        (status.reason, status.stderr, status.diagnostics) = (reason, stderr, slot.diagnostics());
        status.filter_notes = slot.filter_notes();
        status.count(&entries);
        if *status != former {
            let _ = self.changes.send(status.clone());
        }
    }

    pub(crate) fn all(&self) -> Vec<ServerStatus> {
        self.statuses.lock().clone()
    }

    pub(crate) fn events(self: &Arc<Self>) -> StatusEvents {
        let changes = self.changes.subscribe();
        StatusEvents { waiting: self.all().into(), changes, table: Arc::downgrade(self) }
    }
}

/// A stream of the changes of all servers. It begins with the current status of each server.
///
/// A reader that is slower than the changes misses some of them. It then receives the current status of each server.
///
/// ```
/// # async fn example(host: mcp_agent::Host) {
/// let mut events = host.status_events();
/// while let Some(status) = events.next().await {
///     println!("{} is {}", status.name, status.state);
/// }
/// # }
/// ```
pub struct StatusEvents {
    waiting: VecDeque<ServerStatus>,
    changes: broadcast::Receiver<ServerStatus>,
    table: Weak<StatusTable>,
}

impl StatusEvents {
    /// Returns the next status; `None` after the end of the host. Cancel safe.
    ///
    /// See the example of the [type](Self).
    pub async fn next(&mut self) -> Option<ServerStatus> {
        loop {
            if let Some(status) = self.waiting.pop_front() {
                return Some(status);
            }
            match self.changes.recv().await {
                Ok(status) => return Some(status),
                Err(RecvError::Lagged(_)) => self.waiting = self.table.upgrade()?.all().into(),
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

impl std::fmt::Debug for StatusEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StatusEvents").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}
