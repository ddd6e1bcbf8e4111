//! The sessions that the nodes of a fleet share. Each node can adopt each session from its record in the store.

mod other_nodes;
mod record;

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{Principal, RequestId};
use mcp_server_core::{
    Caller, Server,
    engine::{Engine as _, HandlerGuard, Node, Peer, SessionChange},
};
use mcp_store::{Delivery, StoreError, Swap};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use self::record::{Event, Message, Record, digest};
use super::{
    event_log::{
        EventLog,
        batch::{BatchId, BatchWriter},
    },
    owner::Owner,
    session_store::SessionStore,
    sessions::{self, Followers, HttpSession, Sessions, Unusable},
};
use crate::config::HttpConfig;

/// The most attempts to change a record that other nodes change too.
const ATTEMPTS: usize = 8;
/// How long a request waits until this node receives the messages of the other nodes.
const CONNECT: Duration = Duration::from_secs(3);
/// The first and the longest pause between retries of a failing store.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// The part of a session that belongs to its record.
#[derive(Debug)]
pub(crate) struct SharedSession {
    digest: Box<str>,
    /// The record, as this node knows it.
    stored: tokio::sync::Mutex<Arc<[u8]>>,
    /// When this node extended the life of the record. `None` if it never did.
    touched: Mutex<Option<Instant>>,
    /// The epoch in which this node last compared the record.
    verified: AtomicU64,
    has_stored_owner: AtomicBool,
    followers: Followers,
}

impl SharedSession {
    fn new(digest: Box<str>, record: Arc<[u8]>, epoch: u64) -> Box<Self> {
        let verified = AtomicU64::new(epoch);
        Box::new(Self {
            digest,
            stored: tokio::sync::Mutex::new(record),
            touched: Mutex::new(None),
            verified,
            has_stored_owner: AtomicBool::new(false),
            followers: Followers::default(),
        })
    }

    /// Returns the digest of the session id, which is its name in the store.
    pub(crate) fn digest(&self) -> &str {
        &self.digest
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
    adopting: Mutex<()>,
    connected: watch::Sender<bool>,
    task: Mutex<Option<AbortHandle>>,
    /// The handler of answers that other nodes pass to this node.
    answers: OnceLock<HandlerGuard>,
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
            store: SessionStore::new(node),
            server: server.clone(),
            sessions: sessions.clone(),
            name,
            idle: config.session_idle_timeout,
            opening: config.session_opening,
            retry: Some(config.retry_delay.max(Duration::from_millis(1))),
            known: Mutex::default(),
            epoch: AtomicU64::new(1),
            unknown: AtomicU64::new(0),
            adopting: Mutex::new(()),
            connected: watch::Sender::new(false),
            task: Mutex::new(None),
            answers: OnceLock::new(),
        }))
    }

    /// The time to live of a record. Each node extends it after a tenth of the idle timeout at the latest.
    pub(crate) fn ttl(&self) -> Duration {
        self.idle.saturating_add(self.idle / 10).saturating_add(Duration::from_secs(1))
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
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
        let record = Record { owner: http.owner().cloned(), state: http.session.state() };
        let (digest, bytes) = (digest(id), Arc::<[u8]>::from(record.write()));
        let ttl = self.opening.saturating_add(Duration::from_secs(1));
        let created = match self.connect().await {
            Ok(()) => self.store.compare_and_swap(&digest, None, bytes.clone(), ttl).await,
            Err(error) => Err(error),
        };
        match created {
            Ok(Swap::Done) => {
                self.know(http, SharedSession::new(digest, bytes, self.epoch()));
                Ok(())
            }
            failed => {
                if let Err(error) = failed {
                    tracing::warn!(%error, "a session cannot be stored");
                }
                self.sessions.remove(id);
                Err(Unusable::StoreFailed)
            }
        }
    }

    fn know(&self, http: &Arc<HttpSession>, shared: Box<SharedSession>) {
        let mut known = self.known.lock();
        if known.len() == known.capacity() {
            known.retain(|_, session| session.strong_count() > 0);
        }
        known.insert(shared.digest.clone(), Arc::downgrade(http));
        drop(known);
        http.session.record_changes();
        http.session.ask_as(&self.store.node);
        if http.owner().is_some() {
            shared.owner_is_stored();
        }
        http.share(shared);
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

    /// Ends the readers of a stream at the other nodes, and lets them send the changes that waited for a reader.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn announce_reader(&self, http: &HttpSession, stream: u64, order: u64) -> Result<(), Unusable> {
        let Some(shared) = http.shared() else { return Ok(()) };
        let is_sent = self.announce(&shared.digest, Event::Reads { stream, order }).await;
        if is_sent { Ok(()) } else { Err(Unusable::StoreFailed) }
    }

    /// Appends a batch without events, and returns its sequence. It extends the life of the events.
    pub(crate) async fn append_mark(&self, session: &str) -> Result<u64, StoreError> {
        let id = BatchId { writer: 0, number: 0 };
        let mark = BatchWriter::new(id, "").into_bytes();
        self.store.append(session, mark.into(), self.ttl()).await
    }

    /// Whether a request of a session has to wait for the store. Otherwise the life of its record is extended in the background.
    pub(crate) fn needs_store(self: &Arc<Self>, http: &Arc<HttpSession>) -> bool {
        let Some(shared) = http.shared() else { return false };
        if shared.verified.load(Ordering::Acquire) != self.epoch() || http.owner_is_new() {
            return true;
        }
        self.touch(http, shared);
        false
    }

    /// Extends the life of a record in the background, at most once in a tenth of the idle timeout.
    fn touch(self: &Arc<Self>, http: &Arc<HttpSession>, shared: &SharedSession) {
        {
            let now = Instant::now();
            let mut touched = shared.touched.lock();
            if touched.is_some_and(|touched| now.duration_since(touched) < self.idle / 10) {
                return;
            }
            *touched = Some(now);
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
        self.connect().await.map_err(failed)?;
        match found {
            Err(Unusable::Unknown) if !self.sessions.contains(id) => self.adopt(id).await?,
            Err(reason) => return Err(reason),
            Ok(_) => {}
        }
        // The rules about the owner are those of a session that was opened here.
        let http = self.sessions.find(id, caller)?;
        let is_verified = http.shared().is_none_or(|of| of.verified.load(Ordering::Acquire) == self.epoch());
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
        let bytes = self.store.get(&digest).await.map_err(failed)?.ok_or(Unusable::Unknown)?;
        let Some(record) = Record::read(&bytes) else {
            tracing::warn!("the record of a session cannot be read");
            return Err(Unusable::Unknown);
        };
        let _adopting = self.adopting.lock();
        if self.sessions.contains(id) {
            return Ok(());
        }
        let reserved = self.sessions.reserve(id.into(), record.owner).ok_or(Unusable::TooMany)?;
        let log = self.log(id).map_err(|_| Unusable::Unknown)?;
        let peer = Peer::new(log.clone(), self.server.limits().handlers_per_session);
        let caller = Caller::remote().session_id(id);
        let session = self.server.restore_session(&record.state, &caller, &peer).map_err(|error| {
            tracing::warn!(%error, "a session of another node cannot be adopted");
            Unusable::Unknown
        })?;
        log.set_retry(self.retry.filter(|_| session.version().has_sse_polling()));
        let http = reserved.insert(session, peer, log);
        self.know(&http, SharedSession::new(digest, bytes, epoch));
        // A message about the session may have arrived after the record was read. The record is then compared again.
        if self.unknown.load(Ordering::Acquire) != unknown
            && let Some(shared) = http.shared()
        {
            shared.verified.store(0, Ordering::Release);
        }
        Ok(())
    }

    /// Stores the changes of a session, and extends the life of its record.
    ///
    /// # Errors
    /// If the session has ended on another node, or the store fails.
    pub(crate) async fn save(&self, http: &HttpSession) -> Result<(), Unusable> {
        let Some(shared) = http.shared() else { return Ok(()) };
        let mut stored = shared.stored.lock().await;
        let changes = http.session.take_changes();
        let saved = self.write(http, shared, &mut stored, &changes).await;
        // The events live as long as the session, so that their numbers keep growing.
        if saved.is_ok() && changes.is_empty() && http.log.is_used() {
            self.append_mark(&shared.digest).await.map_err(failed)?;
        }
        if let Err(Unusable::StoreFailed) = saved {
            http.session.return_changes(changes);
        }
        saved
    }

    async fn write(
        &self,
        http: &HttpSession,
        shared: &SharedSession,
        stored: &mut Arc<[u8]>,
        changes: &[SessionChange],
    ) -> Result<(), Unusable> {
        let epoch = self.epoch();
        for _ in 0..ATTEMPTS {
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
                record.write().into()
            } else {
                stored.clone()
            };
            let swap = self.store.compare_and_swap(&shared.digest, Some(stored), new.clone(), self.ttl());
            match swap.await.map_err(failed)? {
                Swap::Lost { current: Some(current) } => {
                    if let Some(record) = Record::read(&current) {
                        http.session.replace(&record.state);
                        changes.iter().for_each(|change| http.session.apply(change));
                    }
                    *stored = current;
                }
                Swap::Done => {
                    *stored = new;
                    shared.verified.store(epoch, Ordering::Release);
                    *shared.touched.lock() = Some(Instant::now());
                    if http.owner().is_some() {
                        shared.owner_is_stored();
                    }
                    if let Some(owner) = owned {
                        self.announce(&shared.digest, Event::Owned(owner)).await;
                    }
                    if !changes.is_empty() {
                        self.announce(&shared.digest, Event::Changed(changes.to_vec())).await;
                    }
                    return Ok(());
                }
                _ => return Err(self.gone(http)),
            }
        }
        tracing::warn!("other nodes change a session too often");
        Err(Unusable::StoreFailed)
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
    /// If the store fails.
    pub(crate) async fn delete(&self, http: &HttpSession) -> Result<(), Unusable> {
        let Some(shared) = http.shared() else { return Ok(()) };
        // A write of another request must not run between the deletion and the end.
        let _stored = shared.stored.lock().await;
        self.store.delete(&shared.digest).await.map_err(failed)?;
        self.announce(&shared.digest, Event::Ended).await;
        Ok(())
    }

    /// Sends the cancellation of a request to the node that runs it.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn cancel(&self, http: &HttpSession, request: RequestId) -> Result<(), Unusable> {
        let Some(shared) = http.shared() else { return Ok(()) };
        if self.announce(&shared.digest, Event::Cancelled(request)).await { Ok(()) } else { Err(Unusable::StoreFailed) }
    }

    /// Sends an event of a session to all nodes. Returns false if the store fails.
    async fn announce(&self, session: &str, event: Event) -> bool {
        let message = |event| {
            let message = Message { sender: self.name.to_string(), session: session.to_owned(), event };
            // Strings, flags and numbers always serialize.
            serde_json::to_vec(&message).unwrap_or_default()
        };
        let bytes = message(event);
        let bytes = if SessionStore::fits(&bytes) { bytes } else { message(Event::Reload) };
        match self.store.publish(bytes.into()).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "the other nodes receive an event of a session late");
                false
            }
        }
    }

    /// Waits until this node receives the messages of the other nodes. Starts the task that receives them.
    async fn connect(self: &Arc<Self>) -> Result<(), StoreError> {
        if *self.connected.borrow() {
            return Ok(());
        }
        self.receive_answers();
        self.start();
        let mut connected = self.connected.subscribe();
        match timeout(CONNECT, connected.wait_for(|connected| *connected)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StoreError::unavailable("this node does not receive the messages of the other nodes")),
        }
    }

    fn start(self: &Arc<Self>) {
        let mut task = self.task.lock();
        // The runtime of an earlier start may have ended.
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let sessions = self.clone();
        *task = Some(runtime.spawn(async move { sessions.receive().await }).abort_handle());
    }

    /// Receives the messages of the other nodes.
    async fn receive(&self) {
        let mut pause = PAUSES.0;
        loop {
            match self.store.subscribe().await {
                Ok(mut messages) => {
                    pause = PAUSES.0;
                    self.connected.send_replace(true);
                    while let Some(delivery) = messages.recv().await {
                        match delivery {
                            Delivery::Message(message) => self.received(&message),
                            // Each session may have changed.
                            _ => drop(self.epoch.fetch_add(1, Ordering::AcqRel)),
                        }
                    }
                }
                Err(error) => tracing::warn!(%error, "the sessions of other nodes cannot be followed yet"),
            }
            self.connected.send_replace(false);
            self.epoch.fetch_add(1, Ordering::AcqRel);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    fn received(&self, message: &[u8]) {
        let message = match serde_json::from_slice::<Message>(message) {
            Ok(message) if *message.sender == *self.name => return,
            Ok(message) => message,
            Err(error) => {
                // A newer version of this library may send other messages.
                tracing::debug!(%error, "a message of another node cannot be read");
                self.epoch.fetch_add(1, Ordering::AcqRel);
                return;
            }
        };
        let known = self.known.lock().get(&*message.session).and_then(Weak::upgrade);
        let Some(http) = known else {
            self.unknown.fetch_add(1, Ordering::AcqRel);
            return;
        };
        match message.event {
            Event::Changed(changes) => changes.iter().for_each(|change| http.session.apply(change)),
            Event::Owned(owner) => {
                if !http.set_owner(Some(&owner)) {
                    self.gone(&http);
                }
            }
            Event::Reload => {
                if let Some(shared) = http.shared() {
                    shared.verified.store(0, Ordering::Release);
                }
            }
            Event::Ended => drop(self.gone(&http)),
            Event::Reads { stream, order } => http.read_elsewhere(stream, order),
            Event::Cancelled(request) => http.peer.cancel(&request),
        }
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the form of `map_err`")]
fn failed(error: StoreError) -> Unusable {
    tracing::warn!(%error, "a request of a session fails, because it needs the shared store");
    Unusable::StoreFailed
}
