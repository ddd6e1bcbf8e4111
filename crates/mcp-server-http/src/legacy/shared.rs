//! The sessions that the nodes of a fleet share. Each node can adopt each session from its record in the store.

mod answers;
mod broadcasts;
mod messages;
mod readers;
mod record;

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_protocol::Principal;
use mcp_server_core::{
    Caller, Server,
    engine::{Engine as _, Failing, HandlerGuard, MadeChanges, Node, Peer, SessionChange, Storing},
};
use mcp_store::{StoreError, Swap};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::AbortHandle,
    time::{Instant, timeout_at},
};

pub(crate) use self::broadcasts::Passed;
use self::{
    messages::Unsent,
    record::{Event, Record, digest},
};
use super::{
    event_log::{EventLog, STANDALONE},
    followers::Followers,
    owner::Owner,
    session_store::{ATTEMPTS, SessionStore},
    sessions::{self, HttpSession, Sessions, Unusable},
};
use crate::config::HttpConfig;

/// How long a request waits for the record of its session, and for the requests that change it before.
const RECORD: Duration = Duration::from_secs(3);

/// The part of a session that belongs to its record.
#[derive(Debug)]
pub(crate) struct SharedSession {
    digest: Box<str>,
    /// The record, as this node knows it.
    stored: tokio::sync::Mutex<Arc<[u8]>>,
    /// When this node extended the life of the record. `None` if it never did.
    touched: Mutex<Option<Instant>>,
    /// When this node extended the life of the events.
    extended: Mutex<Option<Instant>>,
    /// How often this node may have lacked a change of the session. The record is then compared again.
    stale: AtomicU64,
    /// The age of the session at which this node last compared the record.
    verified: AtomicU64,
    has_stored_owner: AtomicBool,
    followers: Followers,
}

impl SharedSession {
    fn new(digest: Box<str>, record: Arc<[u8]>, epoch: u64) -> Box<Self> {
        Box::new(Self {
            digest,
            stored: tokio::sync::Mutex::new(record),
            touched: Mutex::new(None),
            extended: Mutex::new(None),
            stale: AtomicU64::new(0),
            verified: AtomicU64::new(epoch),
            has_stored_owner: AtomicBool::new(false),
            followers: Followers::default(),
        })
    }

    /// Returns the digest of the session id, which is its name in the store.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
    }

    /// Records that this node may lack a change. The next request compares the record.
    pub(super) fn mark_stale(&self) {
        self.stale.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the connections of this node that read from the store.
    pub(super) fn followers(&self) -> &Followers {
        &self.followers
    }

    /// Whether the store has the owner of the session.
    pub(crate) fn has_stored_owner(&self) -> bool {
        self.has_stored_owner.load(Ordering::Acquire)
    }

    fn owner_is_stored(&self) {
        self.has_stored_owner.store(true, Ordering::Release);
    }
}

/// A record that was written.
struct Written {
    /// The owner, if the record had none before.
    owned: Option<Owner>,
    /// The number of the last write that changed the state.
    write: u64,
    /// The changes of this write.
    changes: Vec<SessionChange>,
}

/// The changes by a message of the client. The session takes them back at the drop.
struct Unsaved<'a> {
    http: &'a HttpSession,
    made: Option<MadeChanges>,
}

impl Drop for Unsaved<'_> {
    fn drop(&mut self) {
        if let Some(made) = &self.made
            && self.http.session.discard_changes(made)
        {
            // The store may have the changes nevertheless.
            self.http.mark_stale();
        }
    }
}

/// The sessions of an endpoint in the shared store.
pub(crate) struct SharedSessions {
    pub(crate) store: SessionStore,
    server: Server,
    sessions: Arc<Sessions>,
    /// A random name, by which this node ignores its own messages.
    name: Box<str>,
    idle: Duration,
    opening: Duration,
    /// The delay in the first event of a stream.
    retry: Option<Duration>,
    /// The sessions of this node by their digests.
    known: Mutex<HashMap<Box<str>, Weak<HttpSession>>>,
    /// Increases when messages of other nodes may have been lost. Records are then compared again.
    epoch: AtomicU64,
    /// The number of messages about sessions that this node has not adopted.
    unknown: AtomicU64,
    /// Notified when a session with an open request or stream may lack a change.
    stale: Notify,
    adopting: Mutex<()>,
    connected: watch::Sender<bool>,
    /// The messages that the other nodes did not receive yet.
    unsent: Unsent,
    /// The failures of the store that requests caused.
    failing: Mutex<Failing>,
    task: Mutex<Option<AbortHandle>>,
    /// The handlers of the requests of other nodes.
    handlers: OnceLock<[HandlerGuard; 5]>,
}

impl SharedSessions {
    /// Returns `None` if the system has no random numbers for the name of the node.
    pub(crate) fn new(
        node: &Arc<Node>,
        server: &Server,
        sessions: &Arc<Sessions>,
        config: &HttpConfig,
    ) -> Option<Arc<Self>> {
        let Ok(name) = sessions::new_id() else {
            tracing::error!("the system has no random numbers, so other nodes cannot adopt the sessions of this node");
            return None;
        };
        Some(Arc::new(Self {
            store: SessionStore::new(node, server.work()),
            server: server.clone(),
            sessions: sessions.clone(),
            name,
            idle: config.session_idle_timeout,
            opening: config.session_opening,
            retry: Some(config.retry_delay.max(Duration::from_millis(1))),
            known: Mutex::default(),
            epoch: AtomicU64::new(1),
            unknown: AtomicU64::new(0),
            stale: Notify::new(),
            adopting: Mutex::new(()),
            connected: watch::Sender::new(false),
            unsent: Unsent::default(),
            failing: Mutex::default(),
            task: Mutex::new(None),
            handlers: OnceLock::new(),
        }))
    }

    /// The time to live of a record. Each node extends it after a tenth of the idle timeout at the latest.
    pub(crate) fn ttl(&self) -> Duration {
        self.idle.saturating_add(self.idle / 10).saturating_add(Duration::from_secs(1))
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Returns the age of a session. It increases when this node may lack a change of the session.
    fn age(&self, shared: &SharedSession) -> u64 {
        self.epoch() + shared.stale.load(Ordering::Acquire)
    }

    /// Whether this node has compared the record since it may have lacked a change.
    fn is_verified(&self, shared: &SharedSession) -> bool {
        shared.verified.load(Ordering::Acquire) == self.age(shared)
    }

    /// Stops the task that receives messages.
    pub(crate) fn stop(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }

    /// Stores a session that was opened here.
    ///
    /// # Errors
    /// If the store fails. The session is then removed.
    pub(crate) async fn create(self: &Arc<Self>, http: &Arc<HttpSession>, id: &str) -> Result<(), Unusable> {
        http.log.set_retry(self.retry.filter(|_| http.session.version().has_sse_polling()));
        let record = Record { owner: http.owner().cloned(), state: http.session.state(), writes: 0 };
        let (digest, bytes) = (digest(id), Arc::<[u8]>::from(record.write()));
        let ttl = self.opening.saturating_add(Duration::from_secs(1));
        let created = match self.connect().await {
            Ok(()) => self.store.compare_and_swap(&digest, None, bytes.clone(), ttl).await,
            Err(error) => Err(error),
        };
        match created {
            Ok(Swap::Done) => {
                self.know(http, SharedSession::new(digest, bytes, self.epoch()), 0);
                Ok(())
            }
            created => {
                self.sessions.remove(id);
                Err(created.err().map_or(Unusable::StoreFailed, |error| self.failed(&error)))
            }
        }
    }

    /// Shares a session, with the number of the last write of its record.
    fn know(&self, http: &Arc<HttpSession>, shared: Box<SharedSession>, write: u64) {
        let digest = shared.digest.clone();
        http.session.record_changes(write);
        http.session.ask_as(&self.store.node);
        if http.owner().is_some() {
            shared.owner_is_stored();
        }
        http.share(shared);
        // A message finds the session from now on.
        let mut known = self.known.lock();
        if known.len() == known.capacity() {
            known.retain(|_, session| session.strong_count() > 0);
        }
        known.insert(digest, Arc::downgrade(http));
    }

    /// Returns the event log of a session.
    ///
    /// # Errors
    /// If the system has no random numbers.
    pub(crate) fn log(&self, id: &str) -> Result<Arc<EventLog>, getrandom::Error> {
        let budget = self.sessions.budget().clone();
        EventLog::shared(id, budget, self.store.clone(), digest(id), self.ttl())
    }

    /// Extends the life of a session that has an open stream.
    pub(crate) fn touch_open_session(self: &Arc<Self>, http: &Arc<HttpSession>) {
        if let Some(shared) = http.shared() {
            self.touch(http, shared);
        }
    }

    /// Returns a session of this node by the digest of its id.
    fn find_known(&self, session: &str) -> Option<Arc<HttpSession>> {
        self.known.lock().get(session).and_then(Weak::upgrade)
    }

    /// Whether a request of a session has to wait for the store. Otherwise the life of its record is extended in the background.
    pub(crate) fn needs_store(self: &Arc<Self>, http: &Arc<HttpSession>) -> bool {
        let Some(shared) = http.shared() else { return false };
        if !self.is_verified(shared) || http.owner_is_new() {
            return true;
        }
        self.touch(http, shared);
        false
    }

    /// Extends the life of a record in the background, at most once in a tenth of the idle timeout.
    fn touch(self: &Arc<Self>, http: &Arc<HttpSession>, shared: &SharedSession) {
        if !self.is_due(&shared.touched) {
            return;
        }
        let (sessions, http) = (self.clone(), http.clone());
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                if let Err(Unusable::StoreFailed) = sessions.save(&http).await
                    && let Some(shared) = http.shared()
                {
                    // The next request tries again.
                    *shared.touched.lock() = None;
                }
            });
        }
    }

    /// Extends the records of the sessions with open requests or streams, which send no further requests.
    pub(crate) fn touch_open(self: &Arc<Self>) {
        let known: Vec<_> = self.known.lock().values().filter_map(Weak::upgrade).collect();
        for http in known.iter().filter(|http| http.is_open()) {
            if let Some(shared) = http.shared() {
                self.touch(http, shared);
            }
        }
    }

    /// Returns a session that this node has to compare with its record, or to adopt.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(crate) async fn open(
        self: &Arc<Self>,
        id: &str,
        caller: Option<&Principal>,
        found: Result<Arc<HttpSession>, Unusable>,
    ) -> Result<Arc<HttpSession>, Unusable> {
        self.connect().await.map_err(|error| self.failed(&error))?;
        match found {
            Err(Unusable::Unknown) if !self.sessions.contains(id) => self.adopt(id).await?,
            Err(reason) => return Err(reason),
            Ok(_) => {}
        }
        // The rules about the owner are those of a session that was opened here.
        let http = self.sessions.find(id, caller)?;
        let is_verified = http.shared().is_none_or(|shared| self.is_verified(shared));
        if !is_verified || http.owner_is_new() {
            self.save(&http).await?;
        }
        if http.has_owner(caller) { Ok(http) } else { Err(Unusable::Unknown) }
    }

    /// Whether the caller can use a session that this node has not adopted.
    pub(crate) async fn exists(&self, id: &str, caller: Option<&Principal>) -> bool {
        let record = self.store.get(&digest(id)).await;
        let record = record.ok().flatten().and_then(|bytes| Record::read(&bytes));
        record.is_some_and(|record| Owner::is_same(record.owner.as_ref(), caller))
    }

    /// Opens a session with the state of its record.
    async fn adopt(self: &Arc<Self>, id: &str) -> Result<(), Unusable> {
        let (digest, epoch, unknown) = (digest(id), self.epoch(), self.unknown.load(Ordering::Acquire));
        let bytes = self.store.get(&digest).await.map_err(|error| self.failed(&error))?.ok_or(Unusable::Unknown)?;
        let Some(record) = Record::read(&bytes) else {
            tracing::warn!("the record of a session cannot be read");
            return Err(Unusable::Unknown);
        };
        let _adopting = self.adopting.lock();
        if self.sessions.contains(id) {
            return Ok(());
        }
        let reserved = self.sessions.reserve_adopted(id, record.owner.as_ref()).ok_or(Unusable::TooMany)?;
        let log = self.log(id).map_err(|_| Unusable::Unknown)?;
        let peer = Peer::new(log.clone(), self.server.limits().handlers_per_session);
        let caller = Caller::remote().session_id(id);
        let session = self.server.restore_session(&record.state, &caller, &peer).map_err(|error| {
            tracing::warn!(%error, "a session of another node cannot be adopted");
            Unusable::Unknown
        })?;
        log.set_retry(self.retry.filter(|_| session.version().has_sse_polling()));
        let shared = SharedSession::new(digest, bytes, epoch);
        let http = reserved.insert_after(session, peer, log, |http| self.know(http, shared, record.writes));
        // A message about the session may have arrived after the record was read. The record is then compared again.
        if self.unknown.load(Ordering::Acquire) != unknown {
            http.mark_stale();
        }
        Ok(())
    }

    /// Stores the changes of a session, and extends the life of its record. If the client reads here and the session lacked a change,
    /// the other nodes send their waiting changes, because this node ignored changes of new subscriptions.
    ///
    /// # Errors
    /// If the session has ended on another node, or the store fails.
    pub(crate) async fn save(self: &Arc<Self>, http: &Arc<HttpSession>) -> Result<(), Unusable> {
        let Some(shared) = http.shared() else { return Ok(()) };
        let reader = shared.followers().order(STANDALONE).filter(|_| !self.is_verified(shared));
        let reader = reader.map(|order| (order, http.session.state()));
        let deadline = Instant::now() + RECORD;
        let Ok(mut stored) = timeout_at(deadline, shared.stored.lock()).await else {
            return Err(self.failed(&StoreError::unavailable("earlier requests of the session wait for the store")));
        };
        self.store_once(http, shared, &mut stored, deadline).await?;
        if !self.is_verified(shared) {
            // A message arrived meanwhile, so the record is read again. If this fails, the next request reads it.
            let _ = self.store_once(http, shared, &mut stored, deadline).await;
        }
        if let Some((order, state)) = reader
            && state != http.session.state()
        {
            // If the store fails here, the nodes treat each resource as changed when it works again.
            let _ =
                timeout_at(deadline, self.announce(&shared.digest, &Event::Reads { stream: STANDALONE, order })).await;
        }
        Ok(())
    }

    async fn store_once(
        self: &Arc<Self>,
        http: &Arc<HttpSession>,
        shared: &SharedSession,
        stored: &mut Arc<[u8]>,
        deadline: Instant,
    ) -> Result<(), Unusable> {
        let storing = http.session.store_changes();
        // If the request ends early, the other nodes read the record.
        let mut announced = self.announce_later(&shared.digest, Event::Reload);
        if storing.changes().is_empty() {
            announced.cancel();
        }
        let written = timeout_at(deadline, self.write(http, shared, stored, &storing)).await;
        let Written { owned, write, changes } = written.unwrap_or(Err(Unusable::StoreFailed))?;
        self.extend_events(http, shared);
        announced.cancel();
        if !changes.is_empty() {
            self.announce_or_repeat(&shared.digest, Event::Changed { write, changes }).await;
        }
        drop(storing);
        // The anonymous caller must lose its access at all nodes before the principal receives an answer.
        let is_announced = match owned {
            Some(owner) => self.announce_or_repeat(&shared.digest, Event::Owned(owner)).await,
            None => true,
        };
        if is_announced { Ok(()) } else { Err(Unusable::StoreFailed) }
    }

    /// Stores the changes by a message of the client. If this fails, or the client disconnects, the session takes back the changes.
    /// Returns false if the store does not have them.
    pub(crate) async fn save_changes(self: &Arc<Self>, http: &Arc<HttpSession>, made: MadeChanges) -> bool {
        let mut unsaved = Unsaved { http, made: Some(made) };
        // Another message may have taken back a change on which this message relies.
        let is_saved = self.save(http).await.is_ok() && !http.session.has_discarded_since(&made);
        if is_saved {
            unsaved.made = None;
        }
        is_saved
    }

    /// Extends the life of the events in the background, so that they live as long as the session and their numbers keep growing.
    fn extend_events(self: &Arc<Self>, http: &Arc<HttpSession>, shared: &SharedSession) {
        if !self.is_due(&shared.extended) {
            return;
        }
        let (sessions, http) = (self.clone(), http.clone());
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                let Some(shared) = http.shared() else { return };
                let (store, ttl) = (&sessions.store, sessions.ttl());
                let mut extended = store.extend_events(&shared.digest, ttl).await;
                if let (Ok(()), Some((writer, lease))) = (&extended, http.log.writer_of_calls()) {
                    extended = store.put_writer(&shared.digest, writer, &lease, ttl).await;
                }
                if let Err(error) = extended {
                    tracing::debug!(%error, "the life of the events of a session is not extended yet");
                    *shared.extended.lock() = None;
                    // The next request tries again.
                    *shared.touched.lock() = None;
                }
            });
        }
    }

    /// Whether a tenth of the idle timeout is over since a time. The time is then set to now.
    fn is_due(&self, last: &Mutex<Option<Instant>>) -> bool {
        let now = Instant::now();
        let mut last = last.lock();
        let is_due = last.is_none_or(|last| now.duration_since(last) >= self.idle / 10);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    /// Writes the record of a session.
    async fn write(
        &self,
        http: &HttpSession,
        shared: &SharedSession,
        stored: &mut Arc<[u8]>,
        storing: &Storing<'_>,
    ) -> Result<Written, Unusable> {
        for _ in 0..ATTEMPTS {
            let (age, changes) = (self.age(shared), storing.changes());
            let Some(mut record) = Record::read(stored) else { return Err(self.gone(http)) };
            if !http.set_owner(record.owner.as_ref()) {
                // Another principal owns the session since it was anonymous.
                return Err(self.gone(http));
            }
            let owned = if record.owner.is_none() { http.owner().cloned() } else { None };
            let is_changed = owned.is_some() || !changes.is_empty();
            let new = if is_changed {
                changes.iter().for_each(|change| record.state.apply(change));
                record.owner = http.owner().cloned();
                record.writes += u64::from(!changes.is_empty());
                record.write().into()
            } else {
                stored.clone()
            };
            let swap = self.store.compare_and_swap(&shared.digest, Some(stored), new.clone(), self.ttl());
            match swap.await.map_err(|error| self.failed(&error))? {
                Swap::Lost { current: Some(current) } => *stored = current,
                Swap::Done => {
                    *stored = new;
                    shared.verified.store(age, Ordering::Release);
                    if !storing.stored(&record.state, record.writes) {
                        shared.mark_stale();
                    }
                    *shared.touched.lock() = Some(Instant::now());
                    if http.owner().is_some() {
                        shared.owner_is_stored();
                    }
                    return Ok(Written { owned, write: record.writes, changes });
                }
                _ => return Err(self.gone(http)),
            }
        }
        tracing::warn!("other nodes change a session too often");
        Err(Unusable::StoreFailed)
    }

    /// Returns the error of a request for which the store failed. Each client can repeat such a request, so the log has one record in
    /// an interval.
    fn failed(&self, error: &StoreError) -> Unusable {
        if self.failing.lock().record_failure() {
            tracing::warn!(%error, "a request of a session fails, because it needs the shared store");
        }
        Unusable::StoreFailed
    }

    /// Ends a session here that has ended in the store.
    fn gone(&self, http: &HttpSession) -> Unusable {
        if let Some(id) = http.session.id() {
            self.sessions.remove(id);
        }
        Unusable::Unknown
    }

    /// Deletes a session on all nodes.
    ///
    /// # Errors
    /// If the store fails. If the record is deleted already, the other nodes receive the message later.
    pub(crate) async fn delete(self: &Arc<Self>, http: &Arc<HttpSession>) -> Result<(), Unusable> {
        let Some(shared) = http.shared() else { return Ok(()) };
        // A write of another request must not run between the deletion and the end.
        let locked = timeout_at(Instant::now() + RECORD, shared.stored.lock()).await;
        let _stored = locked.map_err(|_| Unusable::StoreFailed)?;
        self.store.delete(&shared.digest).await.map_err(|error| self.failed(&error))?;
        self.gone(http);
        let is_sent = self.announce_or_repeat(&shared.digest, Event::Ended).await;
        if let Err(error) = self.store.delete_events(&shared.digest).await {
            tracing::debug!(%error, "the events of a deleted session expire later");
        }
        if is_sent { Ok(()) } else { Err(Unusable::StoreFailed) }
    }
}
