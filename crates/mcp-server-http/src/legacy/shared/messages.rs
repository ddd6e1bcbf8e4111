//! The messages about sessions between the nodes, and the lease of this node.

use std::{
    collections::HashMap,
    sync::{Arc, Weak, atomic::Ordering},
    time::Duration,
};

use mcp_server_core::engine::{Failing, Lease};
use mcp_store::{Delivery, StoreError};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};

use super::{
    SharedSessions,
    record::{Event, Message},
};
use crate::legacy::{session_store::SessionStore, sessions::Unusable};

/// How long a request waits until this node receives the messages of the other nodes.
const CONNECT: Duration = Duration::from_secs(3);
/// The first and the longest pause between retries of a failing store.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));
/// The most sessions whose last message is repeated.
const UNSENT: usize = 4096;

/// The messages that could not be sent, by the digest of the session id.
#[derive(Debug, Default)]
pub(super) struct Unsent(Mutex<HashMap<String, Event>>);

impl Unsent {
    /// Adds the message of a session. Returns whether it is the only message, so that the caller sends it again.
    fn insert(&self, session: &str, event: Event) -> bool {
        let mut unsent = self.0.lock();
        let is_first = unsent.is_empty();
        if unsent.len() >= UNSENT && !unsent.contains_key(session) {
            tracing::warn!("too many messages about sessions wait, so other nodes compare a record late");
            return false;
        }
        let later = match (unsent.remove(session), event) {
            // Nothing follows the end.
            (Some(Event::Ended), _) => Event::Ended,
            (Some(Event::Owned(owner)), event) if !matches!(event, Event::Ended) => Event::Owned(owner),
            // Later changes may have been sent before. The other nodes therefore read the record.
            (_, Event::Changed { .. }) => Event::Reload,
            (_, event) => event,
        };
        unsent.insert(session.to_owned(), later);
        is_first
    }

    fn next(&self) -> Option<(String, Event)> {
        let unsent = self.0.lock();
        unsent.iter().next().map(|(session, event)| (session.clone(), event.clone()))
    }

    fn sent(&self, session: &str, event: &Event) {
        let mut unsent = self.0.lock();
        if unsent.get(session) == Some(event) {
            unsent.remove(session);
        }
    }
}

/// An event that is sent in the background when the value is dropped.
pub(super) struct AnnounceLater<'a> {
    sessions: &'a Arc<SharedSessions>,
    session: &'a str,
    event: Option<Event>,
}

impl AnnounceLater<'_> {
    pub(super) fn cancel(&mut self) {
        self.event = None;
    }
}

impl Drop for AnnounceLater<'_> {
    fn drop(&mut self) {
        let Some(event) = self.event.take() else { return };
        if self.sessions.unsent.insert(self.session, event)
            && let Ok(runtime) = Handle::try_current()
        {
            let sessions = Arc::downgrade(self.sessions);
            runtime.spawn(async move { SharedSessions::repeat(sessions).await });
        }
    }
}

impl SharedSessions {
    /// Sends an event of a session to all nodes. Returns false if the store fails. The event is then sent again in the
    /// background, until the store works. A drop of the future has the same effect.
    pub(super) async fn announce_or_repeat(self: &Arc<Self>, session: &str, event: Event) -> bool {
        let mut later = self.announce_later(session, event.clone());
        let is_sent = self.announce(session, &event).await;
        if is_sent {
            later.cancel();
        }
        is_sent
    }

    /// Sends an event of a session to all nodes in the background when the value is dropped.
    pub(super) fn announce_later<'a>(self: &'a Arc<Self>, session: &'a str, event: Event) -> AnnounceLater<'a> {
        AnnounceLater { sessions: self, session, event: Some(event) }
    }

    async fn repeat(sessions: Weak<Self>) {
        let mut pause = PAUSES.0;
        loop {
            sleep(pause).await;
            let Some(sessions) = sessions.upgrade() else { return };
            let Some((session, event)) = sessions.unsent.next() else { return };
            if sessions.announce(&session, &event).await {
                sessions.unsent.sent(&session, &event);
                pause = Duration::ZERO;
            } else {
                pause = (pause * 2).clamp(PAUSES.0, PAUSES.1);
            }
        }
    }

    /// Sends an event of a session to all nodes. Returns false if the store fails.
    pub(super) async fn announce(&self, session: &str, event: &Event) -> bool {
        let message = |event: &Event| {
            let message = Message { sender: self.name.to_string(), session: session.to_owned(), event: event.clone() };
            // Strings, flags and numbers always serialize.
            serde_json::to_vec(&message).unwrap_or_default()
        };
        let bytes = message(event);
        let bytes = if SessionStore::fits(&bytes) { bytes } else { message(&Event::Reload) };
        match self.store.publish(bytes.into()).await {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "the other nodes receive an event of a session late");
                false
            }
        }
    }

    /// Waits until this node receives the messages of the other nodes. Starts the task that receives them.
    pub(super) async fn connect(self: &Arc<Self>) -> Result<(), StoreError> {
        if *self.connected.borrow() {
            return Ok(());
        }
        // The node outlives the endpoint, and the server can have several endpoints.
        self.handlers.get_or_init(|| {
            let [readers, streams] = self.receive_questions();
            [self.receive_answers(), self.receive_cancellations(), self.receive_progress(), readers, streams]
        });
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
        let run = async move {
            tokio::join!(sessions.receive(), sessions.watch_lease(), sessions.compare_open());
        };
        *task = Some(runtime.spawn(run).abort_handle());
    }

    /// Ends the calls that have streams when this node loses its lease, because other nodes then end these streams.
    async fn watch_lease(&self) {
        loop {
            self.store.lease_used.notified().await;
            let lease = self.store.node.current();
            self.keep_lease(lease.as_ref().map(Lease::id));
            if let Some(lease) = lease {
                lease.lost().await;
                drop(lease);
                self.keep_lease(None);
            }
        }
    }

    fn keep_lease(&self, lease: Option<&str>) {
        let known: Vec<_> = self.known.lock().values().filter_map(Weak::upgrade).collect();
        known.iter().for_each(|http| http.log.keep_lease(lease));
    }

    /// Receives the messages of the other nodes.
    async fn receive(&self) {
        // A node with a lease receives the cancellations of its requests. The node replaces a lost lease itself.
        if let Err(error) = self.store.node.lease().await {
            tracing::warn!(%error, "this node receives no cancellations of other nodes yet");
        }
        let (mut pause, mut failing) = (PAUSES.0, Failing::default());
        loop {
            match self.store.subscribe().await {
                Ok(mut messages) => {
                    pause = PAUSES.0;
                    failing.record_success();
                    self.connected.send_replace(true);
                    while let Some(delivery) = messages.recv().await {
                        match delivery {
                            Delivery::Message(message) => self.received(&message),
                            _ => self.messages_lost(),
                        }
                    }
                }
                Err(error) => {
                    if failing.record_failure() {
                        tracing::warn!(%error, "the sessions of other nodes cannot be followed yet");
                    }
                }
            }
            self.connected.send_replace(false);
            self.messages_lost();
            sleep(pause).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Records that each session may have changed.
    fn messages_lost(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
        self.stale.notify_one();
    }

    /// Compares the sessions with open requests and streams, because their clients may send no further request.
    async fn compare_open(self: &Arc<Self>) {
        loop {
            self.stale.notified().await;
            let mut pause = PAUSES.0;
            while self.compare_each_open().await.is_err() {
                sleep(pause).await;
                pause = (pause * 2).min(PAUSES.1);
            }
        }
    }

    async fn compare_each_open(self: &Arc<Self>) -> Result<(), Unusable> {
        // A message after the comparison must reach this node.
        self.connect().await.map_err(|_| Unusable::StoreFailed)?;
        let known: Vec<_> = self.known.lock().values().filter_map(Weak::upgrade).collect();
        for http in known.iter().filter(|http| http.is_open()) {
            if http.shared().is_some_and(|shared| !self.is_verified(shared))
                && self.save(http).await == Err(Unusable::StoreFailed)
            {
                return Err(Unusable::StoreFailed);
            }
        }
        Ok(())
    }

    fn received(&self, message: &[u8]) {
        let message = match serde_json::from_slice::<Message>(message) {
            Ok(message) if *message.sender == *self.name => return,
            Ok(message) => message,
            Err(error) => {
                // A newer version of this library may send other messages.
                tracing::debug!(%error, "a message of another node cannot be read");
                return self.messages_lost();
            }
        };
        let Some(http) = self.find_known(&message.session) else {
            self.unknown.fetch_add(1, Ordering::AcqRel);
            return;
        };
        let is_complete = match message.event {
            Event::Changed { write, changes } => http.session.apply(write, &changes),
            Event::Owned(owner) => {
                let has_other_owner = !http.set_owner(Some(&owner));
                if has_other_owner {
                    self.gone(&http);
                }
                // The message may replace one about changes.
                has_other_owner
            }
            Event::Reload => false,
            Event::Ended => {
                self.gone(&http);
                true
            }
            Event::Reads { stream, order } => {
                http.read_elsewhere(stream, order);
                true
            }
        };
        if !is_complete {
            http.mark_stale();
            if http.is_open() {
                self.stale.notify_one();
            }
        }
    }
}
