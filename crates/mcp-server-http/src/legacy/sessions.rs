//! The table of sessions: their owners, their activity and their event logs.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_protocol::Principal;
use mcp_server_core::engine::{Peer, Session};
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{
    event_log::{Budget, EventLog, STANDALONE},
    followers::Taken,
    owner::Owner,
    shared::SharedSession,
};

/// A session with its state of HTTP.
#[derive(Debug)]
pub(crate) struct HttpSession {
    pub(crate) session: Arc<Session>,
    pub(crate) peer: Peer,
    pub(crate) log: Arc<EventLog>,
    /// The principal that opened the session, or that used the session of an anonymous caller first. Only this
    /// principal may use it.
    owner: OnceLock<Owner>,
    activity: Mutex<Activity>,
    /// The part that belongs to the record in the shared store. Empty if nodes share no store.
    shared: OnceLock<Box<SharedSession>>,
}

#[derive(Debug)]
struct Activity {
    last: Instant,
    /// Whether the client has sent a request after `initialize`.
    opened: bool,
    /// The number of open requests and streams. A session with one of them is not idle.
    open: usize,
}

impl HttpSession {
    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock()
    }

    /// Whether the session belongs to this caller: a principal, or an anonymous caller.
    pub(crate) fn has_owner(&self, caller: Option<&Principal>) -> bool {
        Owner::is_same(self.owner.get(), caller)
    }

    pub(crate) fn owner(&self) -> Option<&Owner> {
        self.owner.get()
    }

    /// Sets the owner that another node stored. Returns false if the session has another owner here.
    pub(crate) fn set_owner(&self, owner: Option<&Owner>) -> bool {
        let Some(owner) = owner else { return true };
        let is_new = self.owner.get().is_none();
        let is_same = self.owner.get_or_init(|| owner.clone()) == owner;
        if is_new && is_same {
            // The anonymous caller must not read the messages for the principal.
            self.end_readers(STANDALONE, u64::MAX);
        }
        is_same
    }

    pub(crate) fn shared(&self) -> Option<&SharedSession> {
        self.shared.get().map(|shared| &**shared)
    }

    /// Records that this node may lack a change of the session, so the next request compares the record.
    pub(super) fn mark_stale(&self) {
        if let Some(shared) = self.shared() {
            shared.mark_stale();
        }
    }

    /// Sets the part that belongs to the record in the shared store. A session of another node has it before a caller finds the
    /// session.
    pub(super) fn share(&self, shared: Box<SharedSession>) {
        // Each session is shared once, when it is opened or adopted.
        drop(self.shared.set(shared));
    }

    /// Whether a principal has become the owner, and the shared store does not have it yet.
    pub(crate) fn owner_is_new(&self) -> bool {
        self.owner.get().is_some() && self.shared().is_some_and(|shared| !shared.has_stored_owner())
    }

    /// Whether the shared store has the whole state of the session, and no request or stream of it is open here.
    fn can_leave(&self) -> bool {
        let is_stored = self.shared().is_some() && !self.owner_is_new() && !self.session.has_changes();
        is_stored && !self.is_open() && self.log.is_idle()
    }

    /// Whether a request or a stream is open.
    pub(crate) fn is_open(&self) -> bool {
        self.activity().open > 0
    }

    /// Registers a reader of a stream, and ends older readers here. The order of readers is that of all nodes.
    pub(crate) fn attach_follower(&self, stream: u64, order: u64, taken: Arc<Taken>) {
        let Some(followers) = self.shared().map(SharedSession::followers) else { return };
        self.end_readers(stream, order);
        followers.attach(stream, order, taken);
        if stream == STANDALONE {
            self.log.set_followed(true);
        }
    }

    /// Removes a reader of a stream.
    pub(crate) fn detach_follower(&self, stream: u64, order: u64) {
        let Some(followers) = self.shared().map(SharedSession::followers) else { return };
        followers.detach(stream, order);
        if stream == STANDALONE {
            self.log.set_followed(followers.order(STANDALONE).is_some());
        }
    }

    /// Waits until a reader is replaced.
    pub(crate) async fn follower_ends(&self, stream: u64, order: u64) {
        let Some(followers) = self.shared().map(SharedSession::followers) else { return };
        followers.ended(stream, order).await;
    }

    /// Ends the readers of a stream here that have a lower order. Returns the position up to which they have taken its events.
    pub(crate) fn end_readers(&self, stream: u64, order: u64) -> Option<u64> {
        self.log.remove_reader(stream);
        self.shared()?.followers().remove(stream, order)
    }

    /// The client reads a stream at another node. An older reader here ends.
    pub(crate) fn read_elsewhere(&self, stream: u64, order: u64) {
        self.end_readers(stream, order);
        if stream == STANDALONE {
            self.session.send_waiting_changes();
        }
    }

    /// Counts a request or stream as open until the caller drops the guard.
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

    /// Cancels the requests of the session, and ends its streams.
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

/// The limits of the table.
#[derive(Debug, Clone)]
pub(crate) struct SessionLimits {
    pub(crate) count: usize,
    /// The sessions of all anonymous callers together. Known principals need the rest of the table.
    pub(crate) anonymous: usize,
    pub(crate) idle: Duration,
    pub(crate) opening: Duration,
    /// The bytes of events of all sessions together.
    pub(crate) event_bytes: usize,
    /// The sessions of one principal, with its streams of HTTP+SSE.
    pub(crate) per_principal: usize,
    /// Whether the session of an anonymous caller becomes that of the first principal that uses it.
    pub(crate) adopts: bool,
}

/// All sessions of one endpoint.
#[derive(Debug)]
pub(crate) struct Sessions {
    limits: SessionLimits,
    table: Arc<Mutex<Table>>,
    budget: Arc<Budget>,
    created: Instant,
    /// When the next request sweeps the table, in milliseconds since its creation.
    due: AtomicU64,
}

#[derive(Debug)]
struct Table {
    sessions: HashMap<Box<str>, Arc<HttpSession>>,
    /// The reserved places, by the id of the session, with the owner of the session.
    reserved: HashMap<Box<str>, Option<Owner>>,
    swept: Instant,
}

impl Table {
    /// Returns the number of sessions and of reserved places.
    fn len(&self) -> usize {
        self.sessions.len() + self.reserved.len()
    }

    /// Whether one owner, or all anonymous callers together, have as many sessions and reserved places as the limit allows.
    fn is_full_for(&self, owner: Option<&Owner>, limit: usize) -> bool {
        // A table below the limit needs no count.
        if self.len() < limit {
            return false;
        }
        let sessions = self.sessions.values().filter(|session| session.owner.get() == owner).count();
        let reserved = self.reserved.values().filter(|reserved| reserved.as_ref() == owner).count();
        sessions + reserved >= limit
    }
}

impl Table {
    /// Removes the least recently used session that another node can adopt. A table below its limit has sessions to evict only
    /// of the same owner.
    fn evict(&mut self, owner: Option<&Owner>, limit: usize) -> Option<Arc<HttpSession>> {
        let is_full = self.len() >= limit;
        let can_leave = |session: &&Arc<HttpSession>| (is_full || session.owner.get() == owner) && session.can_leave();
        let oldest = self.sessions.values().filter(can_leave).min_by_key(|session| session.activity().last)?.clone();
        self.sessions.retain(|_, session| !Arc::ptr_eq(session, &oldest));
        Some(oldest)
    }
}

/// A reserved place of the table: the place of a session that is being opened, or of an open stream of HTTP+SSE. Dropping it
/// frees the place.
#[derive(Debug)]
pub(crate) struct Reservation {
    table: Arc<Mutex<Table>>,
    id: Box<str>,
}

impl Reservation {
    /// Inserts the session in its reserved place.
    pub(crate) fn insert(self, session: Arc<Session>, peer: Peer, log: Arc<EventLog>) -> Arc<HttpSession> {
        self.insert_after(session, peer, log, |_| ())
    }

    /// Inserts the session in its reserved place. `prepare` runs before a caller can find the session.
    pub(crate) fn insert_after(
        self,
        session: Arc<Session>,
        peer: Peer,
        log: Arc<EventLog>,
        prepare: impl FnOnce(&Arc<HttpSession>),
    ) -> Arc<HttpSession> {
        let activity = Mutex::new(Activity { last: Instant::now(), opened: false, open: 0 });
        let owner = self.table.lock().reserved.get(&self.id).cloned().flatten();
        let owner = owner.map(OnceLock::from).unwrap_or_default();
        let session = Arc::new(HttpSession { session, peer, log, owner, activity, shared: OnceLock::new() });
        prepare(&session);
        let mut table = self.table.lock();
        table.reserved.remove(&self.id);
        table.sessions.insert(self.id.clone(), session.clone());
        drop(table);
        session
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.table.lock().reserved.remove(&self.id);
    }
}

/// The reason for which a caller cannot use a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// The session does not exist for the caller.
    Unknown,
    /// The session is anonymous, and the caller already owns as many sessions as the limit allows.
    TooMany,
    /// The shared store failed.
    StoreFailed,
}

/// The interval between two sweeps of a table that is not full.
pub(crate) const SWEEP: Duration = Duration::from_secs(10);

impl Sessions {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        let table =
            Arc::new(Mutex::new(Table { sessions: HashMap::new(), reserved: HashMap::new(), swept: Instant::now() }));
        let listed = Arc::downgrade(&table);
        let logs = move || {
            let Some(table) = listed.upgrade() else { return Vec::new() };
            let table = table.lock();
            table.sessions.values().map(|session| session.log.clone()).collect()
        };
        let budget = Arc::new(Budget::new(limits.event_bytes, logs));
        Self { limits, table, budget, created: Instant::now(), due: AtomicU64::new(0) }
    }

    /// Returns the budget of all event logs.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    /// Reserves a place after a sweep. Returns `None` if the table is full, or if the caller may not open one more session.
    pub(crate) fn reserve(&self, id: Box<str>, owner: Option<Owner>) -> Option<Reservation> {
        self.sweep();
        let mut table = self.table();
        let limit = if owner.is_some() { self.limits.per_principal } else { self.limits.anonymous };
        if table.len() >= self.limits.count || table.is_full_for(owner.as_ref(), limit) {
            return None;
        }
        table.reserved.insert(id.clone(), owner);
        Some(Reservation { table: self.table.clone(), id })
    }

    /// Reserves a place for a session of another node. If the limits leave no place, the session that was used least recently
    /// leaves this node, because any node can adopt it again.
    pub(crate) fn reserve_adopted(&self, id: &str, owner: Option<&Owner>) -> Option<Reservation> {
        let reserve = || self.reserve(id.into(), owner.cloned());
        reserve().or_else(|| {
            let evicted = self.table().evict(owner, self.limits.count)?;
            evicted.end();
            reserve()
        })
    }

    /// Returns the session with an id, if it has not expired and belongs to the caller. The first principal that uses an
    /// anonymous session becomes its owner.
    pub(crate) fn find(&self, id: &str, caller: Option<&Principal>) -> Result<Arc<HttpSession>, Unusable> {
        self.sweep();
        let table = self.table();
        let found = table.sessions.get(id).cloned().ok_or(Unusable::Unknown)?;
        if found.is_expired(Instant::now(), &self.limits) {
            drop(table);
            self.remove(id);
            return Err(Unusable::Unknown);
        }
        if let Some(caller) = caller.filter(|_| self.limits.adopts && found.has_owner(None)) {
            let caller = Owner::of(caller);
            // The lock of the table is held, so that two adoptions at once do not exceed the limit.
            if table.is_full_for(Some(&caller), self.limits.per_principal) {
                return Err(Unusable::TooMany);
            }
            found.owner.get_or_init(|| caller);
            drop(table);
            // The anonymous caller must not read the messages for the principal.
            found.end_readers(STANDALONE, u64::MAX);
        }
        if found.has_owner(caller) { Ok(found) } else { Err(Unusable::Unknown) }
    }

    /// Whether this node has a session with an id.
    pub(crate) fn contains(&self, id: &str) -> bool {
        self.table().sessions.contains_key(id)
    }

    /// Whether the caller can use the session with an id. The session of an anonymous caller keeps its owner.
    pub(crate) fn is_usable(&self, id: &str, caller: Option<&Principal>) -> bool {
        let is_usable = |session: &Arc<HttpSession>| {
            let has_owner = session.has_owner(caller) || self.limits.adopts && session.has_owner(None);
            has_owner && !session.is_expired(Instant::now(), &self.limits)
        };
        self.table().sessions.get(id).is_some_and(is_usable)
    }

    /// Removes a session, cancels its requests and ends its streams.
    pub(crate) fn remove(&self, id: &str) {
        let removed = self.table().sessions.remove(id);
        if let Some(session) = removed {
            session.end();
        }
    }

    /// Returns the number of sessions and of reserved places after a sweep.
    pub(crate) fn len(&self) -> usize {
        self.sweep();
        self.table().len()
    }

    /// Ends all sessions.
    pub(crate) fn clear(&self) {
        let sessions = std::mem::take(&mut self.table().sessions);
        for session in sessions.values() {
            session.end();
        }
    }

    /// Sweeps the table if the sweep interval is over, and returns whether it is. Each request calls this, so it is cheap.
    pub(crate) fn tick(&self) -> bool {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let now = millis(self.created.elapsed());
        let is_due = now >= self.due.load(Ordering::Relaxed);
        if is_due {
            self.due.store(now.saturating_add(millis(SWEEP)), Ordering::Relaxed);
            self.sweep();
        }
        is_due
    }

    /// Returns the number of sessions, with expired ones.
    #[cfg(test)]
    pub(crate) fn listed(&self) -> usize {
        self.table().sessions.len()
    }

    fn sweep(&self) {
        let now = Instant::now();
        let expired: Vec<_> = {
            let mut table = self.table();
            let full = table.len() >= self.limits.count;
            // A full table is swept at most once a second. A client that floods it must not cause a sweep with each request.
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

/// Returns a new session id: 128 random bits as visible ASCII.
///
/// # Errors
/// If the system provides no random numbers.
pub(crate) fn new_id() -> Result<Box<str>, getrandom::Error> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(format!("mcp_{:032x}", u128::from_be_bytes(bytes)).into())
}
