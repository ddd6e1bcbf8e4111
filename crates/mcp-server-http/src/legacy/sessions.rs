//! The table of legacy sessions: who they belong to, when they were last heard of, what is said to them.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_server_core::{Peer, Session};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::event_log::{Budget, EventLog};

/// One session as HTTP sees it.
#[derive(Debug)]
pub(crate) struct HttpSession {
    pub(crate) session: Arc<Session>,
    pub(crate) peer: Peer,
    pub(crate) log: Arc<EventLog>,
    /// Who opened it; nobody else may use it.
    owner: Option<String>,
    activity: Mutex<Activity>,
}

#[derive(Debug)]
struct Activity {
    last: Instant,
    /// Whether anything came after `initialize`.
    opened: bool,
    /// Requests and streams that are open; a session is not idle while there are any.
    open: usize,
}

impl HttpSession {
    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock()
    }

    /// Marks a request or stream as open until the guard is dropped.
    pub(crate) fn open(self: &Arc<Self>) -> Open {
        let mut activity = self.activity();
        activity.open += 1;
        activity.opened = true;
        activity.last = Instant::now();
        drop(activity);
        Open { session: self.clone() }
    }

    fn is_expired(&self, now: Instant, limits: &SessionLimits) -> bool {
        let activity = self.activity();
        let limit = if activity.opened { limits.idle } else { limits.opening };
        activity.open == 0 && now.duration_since(activity.last) >= limit
    }

    /// Cancels what runs for it, and ends its streams.
    pub(crate) fn end(&self) {
        self.session.close();
        self.log.close();
    }
}

/// An open request or stream of a session.
#[derive(Debug)]
pub(crate) struct Open {
    session: Arc<HttpSession>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut activity = self.session.activity();
        activity.open -= 1;
        activity.last = Instant::now();
    }
}

/// What bounds the table.
#[derive(Debug, Clone)]
pub(crate) struct SessionLimits {
    pub(crate) count: usize,
    pub(crate) idle: Duration,
    pub(crate) opening: Duration,
    /// Bytes of events that all logs may hold together.
    pub(crate) event_bytes: usize,
}

/// All sessions of one endpoint.
#[derive(Debug)]
pub(crate) struct Sessions {
    limits: SessionLimits,
    table: Arc<Mutex<Table>>,
    budget: Arc<Budget>,
    born: Instant,
    /// When somebody who comes by sweeps the table, in milliseconds of its life.
    due: AtomicU64,
}

#[derive(Debug)]
struct Table {
    sessions: HashMap<Box<str>, Arc<HttpSession>>,
    swept: Instant,
}

/// How often the table is searched for expired sessions while it is not full.
pub(crate) const SWEEP: Duration = Duration::from_secs(10);

impl Sessions {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        let table = Arc::new(Mutex::new(Table { sessions: HashMap::new(), swept: Instant::now() }));
        let listed = Arc::downgrade(&table);
        let logs = move || {
            let Some(table) = listed.upgrade() else { return Vec::new() };
            let table = table.lock();
            table.sessions.values().map(|session| session.log.clone()).collect()
        };
        let budget = Arc::new(Budget::new(limits.event_bytes, logs));
        Self { limits, table, budget, born: Instant::now(), due: AtomicU64::new(0) }
    }

    /// What the logs of all sessions share.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Whether there is room for one more beside `others`, after expired ones made theirs.
    pub(crate) fn has_room(&self, others: usize) -> bool {
        self.sweep();
        self.table().sessions.len().saturating_add(others) < self.limits.count
    }

    /// Enters a session; false when there is no room.
    pub(crate) fn insert(
        &self,
        id: Box<str>,
        session: Arc<Session>,
        peer: Peer,
        log: Arc<EventLog>,
        owner: Option<String>,
    ) -> bool {
        let activity = Mutex::new(Activity { last: Instant::now(), opened: false, open: 0 });
        let mut table = self.table();
        if table.sessions.len() >= self.limits.count {
            return false;
        }
        table.sessions.insert(id, Arc::new(HttpSession { session, peer, log, owner, activity }));
        true
    }

    /// The session of that id, if it lives and belongs to the caller. To anybody else it does not exist.
    pub(crate) fn find(&self, id: &str, caller: Option<&str>) -> Option<Arc<HttpSession>> {
        self.sweep();
        let found = self.table().sessions.get(id).cloned()?;
        if found.owner.as_deref() != caller {
            return None;
        }
        if found.is_expired(Instant::now(), &self.limits) {
            self.remove(id);
            return None;
        }
        Some(found)
    }

    /// Ends a session: what runs for it is cancelled, its streams end.
    pub(crate) fn remove(&self, id: &str) {
        let removed = self.table().sessions.remove(id);
        if let Some(session) = removed {
            session.end();
        }
    }

    /// How many sessions there are.
    pub(crate) fn len(&self) -> usize {
        self.sweep();
        self.table().sessions.len()
    }

    /// Ends all sessions.
    pub(crate) fn clear(&self) {
        let sessions = std::mem::take(&mut self.table().sessions);
        for session in sessions.values() {
            session.end();
        }
    }

    /// Ends expired sessions if it is time to, for whoever comes by without asking for any: it costs next to nothing.
    pub(crate) fn tick(&self) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let now = millis(self.born.elapsed());
        if now >= self.due.load(Ordering::Relaxed) {
            self.due.store(now.saturating_add(millis(SWEEP)), Ordering::Relaxed);
            self.sweep();
        }
    }

    /// How many sessions there are, dead or alive.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> usize {
        self.table().sessions.len()
    }

    fn sweep(&self) {
        let now = Instant::now();
        let expired: Vec<_> = {
            let mut table = self.table();
            let full = table.sessions.len() >= self.limits.count;
            // A full table is searched at most once a second: who floods it must not buy a search with every request.
            let pause = if full { Duration::from_secs(1) } else { SWEEP };
            if now.duration_since(table.swept) < pause {
                return;
            }
            table.swept = now;
            table.sessions.extract_if(|_, session| session.is_expired(now, &self.limits)).collect()
        };
        for (_, session) in expired {
            session.end();
        }
        self.budget.review();
    }
}

/// A session id: 128 random bits as visible ASCII.
///
/// # Errors
/// When the system has no random numbers.
pub(crate) fn new_id() -> Result<Box<str>, getrandom::Error> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("mcp_{:032x}", u128::from_be_bytes(bytes)).into())
}
