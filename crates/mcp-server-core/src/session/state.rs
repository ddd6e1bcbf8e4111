//! The state of a session that the nodes of a fleet share, and its changes.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use mcp_protocol::{ClientCapabilities, Implementation, LoggingLevel, ProtocolVersion};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Session, outbox::Removed};

/// The most changes that wait until they are stored.
const WAITING: usize = 1024;

/// The state of a session that its nodes share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionState {
    version: String,
    client_info: Implementation,
    client_capabilities: ClientCapabilities,
    is_initialized: bool,
    log_level: Option<LoggingLevel>,
    subscriptions: BTreeSet<String>,
    #[serde(default)]
    roots_changes: u64,
}

impl SessionState {
    /// Applies a change.
    pub fn apply(&mut self, change: &SessionChange) {
        match change {
            SessionChange::Initialized => self.is_initialized = true,
            SessionChange::LogLevel(level) => self.log_level = Some(*level),
            SessionChange::Subscribed(uri) => drop(self.subscriptions.insert(uri.clone())),
            SessionChange::Unsubscribed(uri) => drop(self.subscriptions.remove(uri)),
            SessionChange::RootsChanged => self.roots_changes = self.roots_changes.saturating_add(1),
        }
    }

    /// Whether the client subscribed to resources.
    pub(crate) fn has_subscriptions(&self) -> bool {
        !self.subscriptions.is_empty()
    }

    /// Returns the negotiated revision. `None` if this build of the library does not know it.
    pub(crate) fn version(&self) -> Option<ProtocolVersion> {
        ProtocolVersion::parse(&self.version)
    }

    pub(crate) fn client(&self) -> (Implementation, ClientCapabilities) {
        (self.client_info.clone(), self.client_capabilities.clone())
    }
}

/// A change of a session that a message of its client caused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_enums, reason = "the interface for transports of the workspace")]
pub enum SessionChange {
    /// `notifications/initialized` arrived.
    Initialized,
    /// The client set the level of log records.
    LogLevel(LoggingLevel),
    /// The client subscribed to a resource.
    Subscribed(String),
    /// The client unsubscribed from a resource.
    Unsubscribed(String),
    /// The roots of the client have changed.
    RootsChanged,
}

impl SessionChange {
    /// Whether a later change makes this change meaningless.
    fn is_replaced_by(&self, later: &Self) -> bool {
        match (self, later) {
            (Self::Initialized, Self::Initialized) | (Self::LogLevel(_), Self::LogLevel(_)) => true,
            (Self::Subscribed(uri) | Self::Unsubscribed(uri), Self::Subscribed(of) | Self::Unsubscribed(of)) => {
                uri == of
            }
            _ => false,
        }
    }

    /// Whether the change can replace an earlier change.
    fn replaces(&self) -> bool {
        !matches!(self, Self::Initialized | Self::RootsChanged)
    }
}

/// The part of a session that belongs to its record in a shared store.
#[derive(Debug, Default)]
pub(super) struct Unstored(Mutex<Changes>);

#[derive(Debug, Default)]
struct Changes {
    /// The number of the last write of the record whose changes the session has.
    write: u64,
    /// The state without the changes that are not stored. Empty if all changes are stored.
    base: Option<Box<SessionState>>,
    /// The changes that are being stored.
    sent: Vec<Change>,
    /// The later changes.
    waiting: Vec<Change>,
    /// The number of all changes by messages of the client.
    made: u64,
    /// How often changes were discarded.
    discards: u64,
    /// Whether the other nodes do not have the stored changes yet.
    is_announcing: bool,
}

/// A change that is not stored yet.
#[derive(Debug)]
struct Change {
    number: u64,
    change: SessionChange,
}

impl Changes {
    fn add(&mut self, change: SessionChange) {
        if self.waiting.len() >= WAITING {
            self.waiting.retain(|earlier| !earlier.change.is_replaced_by(&change));
        }
        if self.waiting.len() >= WAITING {
            tracing::warn!("a change of a session is not stored, because the store was unavailable for too long");
            self.waiting.remove(0);
        }
        self.waiting.push(Change { number: self.made, change });
        self.made += 1;
    }

    fn iter(&self) -> impl Iterator<Item = &SessionChange> {
        self.sent.iter().chain(&self.waiting).map(|unstored| &unstored.change)
    }

    fn are_stored(&self) -> bool {
        self.sent.is_empty() && self.waiting.is_empty()
    }
}

/// Changes of a session that are being stored. If the value is dropped before [`Storing::stored`], the session stores them again later.
/// The changes count as unstored until the drop, so the other requests of the session wait for it.
#[derive(Debug)]
pub struct Storing<'a> {
    session: &'a Arc<Session>,
}

impl Storing<'_> {
    /// Returns the changes in their order. A request that fails meanwhile removes its changes.
    #[must_use]
    pub fn changes(&self) -> Vec<SessionChange> {
        let Some(unstored) = self.session.unstored.get() else { return Vec::new() };
        unstored.0.lock().sent.iter().map(|sent| sent.change.clone()).collect()
    }

    /// Replaces the state of the session by the record that the store has, with the number of its last write. Later changes that are not
    /// stored stay. Returns false if the session had the changes of a later write, so the record must be read again.
    #[must_use]
    pub fn stored(&self, record: &SessionState, write: u64) -> bool {
        let Some(unstored) = self.session.unstored.get() else { return true };
        // Held until the end, so that no request and no message changes the session meanwhile.
        let mut changes = unstored.0.lock();
        let is_last = changes.write <= write;
        changes.write = write;
        changes.is_announcing = !changes.sent.is_empty();
        changes.sent.clear();
        changes.base = Some(Box::new(record.clone()));
        let removed = self.session.show(&mut changes);
        drop(changes);
        // The values run code of the application when they are dropped.
        drop(removed);
        self.session.send_early_changes();
        is_last
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        let Some(unstored) = self.session.unstored.get() else { return };
        let mut changes = unstored.0.lock();
        changes.is_announcing = false;
        let sent = std::mem::take(&mut changes.sent);
        changes.waiting.splice(0..0, sent);
    }
}

/// The begin of a message of the client that may change its session.
#[derive(Debug, Clone, Copy)]
pub struct ChangeMark {
    made: u64,
    discards: u64,
}

/// The changes by one message of the client.
#[derive(Debug, Clone, Copy)]
pub struct MadeChanges {
    since: ChangeMark,
    end: u64,
}

impl Session {
    /// Returns the state that the nodes of a fleet share.
    #[must_use]
    pub fn state(&self) -> SessionState {
        SessionState {
            version: self.version.as_str().to_owned(),
            client_info: self.client_info().clone(),
            client_capabilities: self.client_capabilities().clone(),
            is_initialized: self.is_initialized(),
            log_level: self.chosen_log_level(),
            subscriptions: self.subscriptions(),
            roots_changes: self.roots_changes.load(Ordering::Acquire),
        }
    }

    /// Returns the changes by messages of the client that are not stored yet, for one writer at a time. A session without a shared
    /// store has none.
    #[must_use]
    pub fn store_changes(self: &Arc<Self>) -> Storing<'_> {
        if let Some(unstored) = self.unstored.get() {
            let mut changes = unstored.0.lock();
            let waiting = std::mem::take(&mut changes.waiting);
            changes.sent.extend(waiting);
        }
        Storing { session: self }
    }

    /// Whether the session has changes that are not stored yet, or that the other nodes do not have yet.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.unstored.get().is_some_and(|unstored| {
            let changes = unstored.0.lock();
            changes.is_announcing || !changes.are_stored()
        })
    }

    /// Marks the begin of a message of the client.
    #[must_use]
    pub fn mark_changes(&self) -> ChangeMark {
        let Some(unstored) = self.unstored.get() else { return ChangeMark { made: 0, discards: 0 } };
        let changes = unstored.0.lock();
        ChangeMark { made: changes.made, discards: changes.discards }
    }

    /// Returns the changes since the begin of a message.
    #[must_use]
    pub fn changes_since(&self, since: ChangeMark) -> MadeChanges {
        MadeChanges { since, end: self.mark_changes().made }
    }

    /// Whether changes were discarded since the begin of a message. The message may have relied on them.
    #[must_use]
    pub fn has_discarded_since(&self, made: &MadeChanges) -> bool {
        self.mark_changes().discards != made.since.discards
    }

    /// Takes back the changes of a message that are not stored, because its client receives an error. Changes that replace no other
    /// change stay. Returns whether the session has taken back a change.
    pub fn discard_changes(&self, made: &MadeChanges) -> bool {
        let Some(unstored) = self.unstored.get() else { return false };
        let mut changes = unstored.0.lock();
        let Changes { sent, waiting, .. } = &mut *changes;
        let before = sent.len() + waiting.len();
        for list in [sent, waiting] {
            list.retain(|one| !one.change.replaces() || !(made.since.made..made.end).contains(&one.number));
        }
        if changes.sent.len() + changes.waiting.len() == before {
            return false;
        }
        changes.discards += 1;
        let removed = self.show(&mut changes);
        drop(changes);
        // The values run code of the application when they are dropped.
        drop(removed);
        true
    }

    /// Applies the changes of a write by another node, unless changes that are not stored yet replace them. Returns false if the session
    /// may lack a write, so the record must be read again. A late write is not applied.
    #[must_use]
    pub fn apply(self: &Arc<Self>, write: u64, made: &[SessionChange]) -> bool {
        let Some(unstored) = self.unstored.get() else { return true };
        // Held until the end, so that no request and no record changes the session meanwhile.
        let mut changes = unstored.0.lock();
        let last = changes.write;
        if write <= last {
            return false;
        }
        changes.write = write;
        let mut removed = Vec::new();
        for change in made {
            if let Some(base) = &mut changes.base {
                base.apply(change);
            }
            if changes.iter().any(|later| change.is_replaced_by(later)) {
                continue;
            }
            match change {
                SessionChange::Initialized => self.mark_open(),
                SessionChange::LogLevel(level) => *self.log_level.lock() = Some(*level),
                SessionChange::Subscribed(uri) => self.add_subscription(uri),
                SessionChange::Unsubscribed(uri) => removed.extend(self.remove_subscription(uri)),
                SessionChange::RootsChanged => self.count_roots_change(),
            }
        }
        drop(changes);
        // The values run code of the application when they are dropped.
        drop(removed);
        self.send_early_changes();
        write - last == 1
    }

    /// Sets the state to the base and the changes that are not stored. Returns the removed subscriptions.
    fn show(&self, changes: &mut Changes) -> Vec<Removed> {
        let Some(base) = changes.base.take() else { return Vec::new() };
        let mut state = base.clone();
        changes.iter().for_each(|change| state.apply(change));
        if !changes.are_stored() {
            changes.base = Some(base);
        }
        self.restore(&state)
    }

    /// Sets the state. Returns the removed subscriptions, whose values run code of the application when they are dropped.
    pub(crate) fn restore(&self, state: &SessionState) -> Vec<Removed> {
        if state.is_initialized {
            self.mark_open();
        }
        *self.log_level.lock() = state.log_level;
        self.roots_changes.fetch_max(state.roots_changes, Ordering::AcqRel);
        let current = self.subscriptions();
        let removed =
            current.difference(&state.subscriptions).filter_map(|uri| self.remove_subscription(uri)).collect();
        for uri in &state.subscriptions {
            self.add_subscription(uri);
        }
        removed
    }

    /// Makes a change by a message of the client, and records it if `make` returns true.
    pub(super) fn change<T>(&self, change: SessionChange, make: impl FnOnce() -> (bool, T)) -> T {
        let Some(unstored) = self.unstored.get() else { return make().1 };
        let mut changes = unstored.0.lock();
        let base = changes.base.take().unwrap_or_else(|| Box::new(self.state()));
        let (is_changed, value) = make();
        if is_changed {
            changes.add(change);
        }
        changes.base = (!changes.are_stored()).then_some(base);
        value
    }

    /// Records the changes from now on, because the session is in a shared store. `write` is the number of the last write of its record.
    pub fn record_changes(&self, write: u64) {
        self.unstored.get_or_init(|| Box::new(Unstored(Mutex::new(Changes { write, ..Changes::default() }))));
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::ServerCapabilities;

    use super::*;
    use crate::{
        Peer,
        session::{ClientIdentity, tests::NoSender},
    };

    fn session() -> Arc<Session> {
        let peer = Peer::new(Arc::new(NoSender), 1);
        let info = Implementation::new("client", "1");
        let version = ProtocolVersion::LATEST_LEGACY;
        let client = serde_json::from_str(r#"{ "roots": { "listChanged": true } }"#).unwrap();
        let identity = Arc::new(ClientIdentity::new(info, client));
        Arc::new(Session::new(None, version, identity, &ServerCapabilities::default(), &peer))
    }

    fn uri(uri: &str) -> String {
        uri.to_owned()
    }

    fn level(session: &Session) -> Option<LoggingLevel> {
        session.state().log_level
    }

    #[test]
    fn a_restored_session_has_the_changes_of_the_first() {
        let first = session();
        first.record_changes(0);
        let mut stored = first.state();
        first.mark_initialized();
        first.set_log_level(LoggingLevel::Error);
        first.set_log_level(LoggingLevel::Debug);
        for uri in ["a://1", "a://2"] {
            first.subscribe(uri, 10).unwrap();
        }
        first.unsubscribe("a://1");
        first.roots_changed();
        let shown = first.state();
        let storing = first.store_changes();
        let changes = storing.changes();
        assert!(first.has_changes());
        for change in &changes {
            stored.apply(change);
        }
        assert_eq!(stored, shown);
        assert!(storing.stored(&stored, 1));
        // The other nodes do not have the changes yet.
        assert!(first.has_changes());
        drop(storing);
        assert!(!first.has_changes());
        assert_eq!(
            changes,
            [
                SessionChange::Initialized,
                SessionChange::LogLevel(LoggingLevel::Error),
                SessionChange::LogLevel(LoggingLevel::Debug),
                SessionChange::Subscribed(uri("a://1")),
                SessionChange::Subscribed(uri("a://2")),
                SessionChange::Unsubscribed(uri("a://1")),
                SessionChange::RootsChanged,
            ]
        );
        assert_eq!(stored, first.state());
        let text = serde_json::to_string(&stored).unwrap();
        let second = session();
        second.record_changes(0);
        assert!(second.store_changes().stored(&serde_json::from_str(&text).unwrap(), 1));
        assert_eq!(second.state(), first.state());
        // Changes of other nodes are not stored again.
        assert!(second.apply(2, &[SessionChange::Subscribed(uri("a://3"))]));
        assert!(!second.has_changes());
        assert!(second.store_changes().stored(&stored, 2));
        assert_eq!(second.state(), first.state());
    }

    #[test]
    fn a_change_of_another_node_replaces_stored_changes_only() {
        let session = session();
        session.record_changes(2);
        session.set_log_level(LoggingLevel::Debug);
        let storing = session.store_changes();
        let mut record = session.state();
        session.subscribe("a://1", 10).unwrap();
        // The store does not have the changes of this node yet.
        let first = [
            SessionChange::LogLevel(LoggingLevel::Error),
            SessionChange::Unsubscribed(uri("a://1")),
            SessionChange::Subscribed(uri("a://2")),
        ];
        assert!(session.apply(3, &first));
        let subscribed: BTreeSet<_> = ["a://1", "a://2"].map(str::to_owned).into();
        let state = session.state();
        assert_eq!((state.log_level, &state.subscriptions), (Some(LoggingLevel::Debug), &subscribed));
        record.apply(&first[2]);
        assert!(storing.stored(&record, 4));
        // The other nodes do not have the changes of this node yet.
        assert!(session.apply(5, &[SessionChange::LogLevel(LoggingLevel::Error)]));
        let state = session.state();
        assert_eq!((state.log_level, &state.subscriptions), (Some(LoggingLevel::Error), &subscribed));
        drop(storing);
        assert_eq!(session.store_changes().changes(), [SessionChange::Subscribed(uri("a://1"))]);
    }

    #[test]
    fn only_the_write_after_the_last_is_complete() {
        use LoggingLevel::{Debug, Error};
        for (write, is_complete, expected) in
            [(1, false, Debug), (2, false, Debug), (3, true, Error), (4, false, Error), (u64::MAX, false, Error)]
        {
            let session = session();
            session.record_changes(2);
            *session.log_level.lock() = Some(Debug);
            assert_eq!(session.apply(write, &[SessionChange::LogLevel(Error)]), is_complete, "{write}");
            assert_eq!(level(&session), Some(expected), "{write}");
        }
    }

    #[test]
    fn a_record_replaces_the_state_and_the_number_of_the_last_write() {
        use LoggingLevel::{Debug, Error};
        for (write, is_last) in [(2, false), (3, false), (4, true), (5, true)] {
            let session = session();
            session.record_changes(4);
            *session.log_level.lock() = Some(Debug);
            let mut record = session.state();
            record.log_level = Some(Error);
            assert_eq!(session.store_changes().stored(&record, write), is_last, "{write}");
            assert_eq!(level(&session), Some(Error), "{write}");
            assert!(session.apply(write + 1, &[SessionChange::LogLevel(Debug)]), "{write}");
            assert_eq!(level(&session), Some(Debug), "{write}");
        }
    }

    #[test]
    fn changes_that_are_not_stored_keep_their_order() {
        let session = session();
        session.record_changes(0);
        session.set_log_level(LoggingLevel::Error);
        let failed = session.store_changes();
        session.set_log_level(LoggingLevel::Debug);
        drop(failed);
        let levels = [LoggingLevel::Error, LoggingLevel::Debug].map(SessionChange::LogLevel);
        assert_eq!(session.store_changes().changes(), levels);
        assert!(session.has_changes());
    }

    #[test]
    fn too_many_changes_that_are_not_stored_replace_the_oldest() {
        let session = session();
        session.record_changes(0);
        session.set_log_level(LoggingLevel::Error);
        for number in 0..WAITING {
            session.subscribe(&format!("a://{number}"), usize::MAX).unwrap();
        }
        session.unsubscribe("a://5");
        let changes = session.store_changes().changes();
        assert_eq!(changes.len(), WAITING);
        assert_eq!(changes[0], SessionChange::Subscribed(uri("a://0")));
        assert_eq!(changes.last(), Some(&SessionChange::Unsubscribed(uri("a://5"))));
        assert!(!changes.contains(&SessionChange::Subscribed(uri("a://5"))));
    }

    #[test]
    fn discarded_changes_leave_the_other_changes() {
        let session = session();
        session.record_changes(1);
        session.subscribe("a://old", 10).unwrap();
        let storing = session.store_changes();
        assert!(storing.stored(&session.state(), 2));
        drop(storing);
        // The client has received an answer to this change already.
        session.set_log_level(LoggingLevel::Error);
        let other = session.mark_changes();
        let mark = session.mark_changes();
        session.set_log_level(LoggingLevel::Debug);
        session.unsubscribe("a://old");
        session.subscribe("a://1", 10).unwrap();
        session.roots_changed();
        let failed = session.changes_since(mark);
        let other = session.changes_since(other);
        session.subscribe("a://2", 10).unwrap();
        let storing = session.store_changes();
        assert!(session.apply(3, &[SessionChange::Subscribed(uri("a://other"))]));
        assert!(!session.has_discarded_since(&other));
        assert!(session.discard_changes(&failed));
        assert!(session.has_discarded_since(&other));
        assert!(!session.discard_changes(&failed));
        let expected = [
            SessionChange::LogLevel(LoggingLevel::Error),
            SessionChange::RootsChanged,
            SessionChange::Subscribed(uri("a://2")),
        ];
        assert_eq!(storing.changes(), expected);
        let state = session.state();
        let subscribed: BTreeSet<_> = ["a://2", "a://old", "a://other"].map(str::to_owned).into();
        assert_eq!((state.log_level, state.subscriptions), (Some(LoggingLevel::Error), subscribed));
    }

    #[test]
    fn a_stored_state_does_not_remove_the_changes_that_the_store_lacks() {
        let session = session();
        session.record_changes(0);
        session.subscribe("a://old", 10).unwrap();
        let storing = session.store_changes();
        assert!(storing.stored(&session.state(), 1));
        drop(storing);
        let mut stored = session.state();
        for change in [
            SessionChange::Unsubscribed(uri("a://old")),
            SessionChange::Subscribed(uri("a://other")),
            SessionChange::LogLevel(LoggingLevel::Error),
            SessionChange::RootsChanged,
        ] {
            stored.apply(&change);
        }
        session.subscribe("a://1", 10).unwrap();
        session.roots_changed();
        let storing = session.store_changes();
        storing.changes().iter().for_each(|change| stored.apply(change));
        session.subscribe("a://2", 10).unwrap();
        session.set_log_level(LoggingLevel::Debug);
        assert!(storing.stored(&stored, 3));
        drop(storing);
        let expected: BTreeSet<_> = ["a://1", "a://2", "a://other"].map(str::to_owned).into();
        let state = session.state();
        assert_eq!(
            (state.subscriptions, state.log_level, state.roots_changes),
            (expected, Some(LoggingLevel::Debug), 2)
        );
        let left = session.store_changes();
        let later = SessionChange::Subscribed(uri("a://2"));
        assert_eq!(left.changes(), [later, SessionChange::LogLevel(LoggingLevel::Debug)]);
    }
}
