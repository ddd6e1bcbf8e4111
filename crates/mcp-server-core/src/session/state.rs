//! The state of a session that the nodes of a fleet share, and its changes.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use mcp_protocol::{ClientCapabilities, Implementation, LoggingLevel, ProtocolVersion};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Session;

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
}

/// The changes of a session that are not stored yet.
#[derive(Debug, Default)]
pub(super) struct Unstored(Mutex<Changes>);

#[derive(Debug, Default)]
struct Changes {
    /// The changes that are being stored.
    sent: Vec<SessionChange>,
    /// The later changes.
    waiting: Vec<SessionChange>,
}

impl Changes {
    fn add(&mut self, change: SessionChange) {
        self.waiting.retain(|earlier| !earlier.is_replaced_by(&change));
        if self.waiting.len() >= WAITING {
            tracing::warn!("a change of a session is not stored, because the store was unavailable for too long");
            self.waiting.remove(0);
        }
        self.waiting.push(change);
    }

    fn iter(&self) -> impl Iterator<Item = &SessionChange> {
        self.sent.iter().chain(&self.waiting)
    }
}

/// Changes of a session that are being stored. They count as unstored until [`Storing::stored`]. If the value is dropped before, the
/// session stores them again later.
#[derive(Debug)]
pub struct Storing<'a> {
    session: &'a Session,
    changes: Vec<SessionChange>,
}

impl Storing<'_> {
    /// Returns the changes in their order.
    #[must_use]
    pub fn changes(&self) -> &[SessionChange] {
        &self.changes
    }

    /// Records that the store has the changes, and that the other nodes receive them.
    pub fn stored(self) {
        if let Some(unstored) = self.session.unstored.get() {
            unstored.0.lock().sent.clear();
        }
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        let Some(unstored) = self.session.unstored.get() else { return };
        let mut changes = unstored.0.lock();
        let later = std::mem::take(&mut changes.waiting);
        for change in std::mem::take(&mut changes.sent).into_iter().chain(later) {
            changes.add(change);
        }
    }
}

impl Session {
    /// Returns the state that the nodes of a fleet share.
    #[must_use]
    pub fn state(&self) -> SessionState {
        SessionState {
            version: self.version.as_str().to_owned(),
            client_info: self.client_info.clone(),
            client_capabilities: self.client_capabilities.clone(),
            is_initialized: self.is_initialized(),
            log_level: self.chosen_log_level(),
            subscriptions: self.subscriptions(),
            roots_changes: self.roots_changes.load(Ordering::Acquire),
        }
    }

    /// Returns the changes by messages of the client that are not stored yet, for one writer at a time. A session without a shared
    /// store has none.
    #[must_use]
    pub fn store_changes(&self) -> Storing<'_> {
        let changes = self.unstored.get().map(|unstored| {
            let mut changes = unstored.0.lock();
            let waiting = std::mem::take(&mut changes.waiting);
            changes.sent.extend(waiting);
            changes.sent.clone()
        });
        Storing { session: self, changes: changes.unwrap_or_default() }
    }

    /// Whether the session has changes that are not stored yet.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.unstored.get().is_some_and(|unstored| unstored.0.lock().iter().next().is_some())
    }

    /// Applies a change that another node stored, unless a change that is not stored yet replaces it.
    pub fn apply(&self, change: &SessionChange) {
        // Held until the end, so that no request changes the session meanwhile.
        let unstored = self.unstored.get().map(|unstored| unstored.0.lock());
        if unstored.iter().flat_map(|changes| changes.iter()).any(|later| change.is_replaced_by(later)) {
            return;
        }
        let mut removed = None;
        match change {
            SessionChange::Initialized => self.mark_open(),
            SessionChange::LogLevel(level) => *self.log_level.lock() = Some(*level),
            SessionChange::Subscribed(uri) => self.add_subscription(uri),
            SessionChange::Unsubscribed(uri) => removed = self.remove_subscription(uri),
            SessionChange::RootsChanged => self.count_roots_change(),
        }
        drop(unstored);
        // The value runs code of the application when it is dropped.
        drop(removed);
    }

    /// Replaces the state by the stored state, because changes of other nodes may have been lost. The changes that are not stored yet
    /// stay.
    pub fn replace(&self, stored: &SessionState) {
        let mut state = stored.clone();
        // Held until the end, so that no request changes the session meanwhile.
        let unstored = self.unstored.get().map(|unstored| unstored.0.lock());
        unstored.iter().flat_map(|changes| changes.iter()).for_each(|change| state.apply(change));
        if state.is_initialized {
            self.mark_open();
        }
        *self.log_level.lock() = state.log_level;
        self.roots_changes.fetch_max(state.roots_changes, Ordering::AcqRel);
        let removed: Vec<_> =
            self.subscriptions().difference(&state.subscriptions).map(|uri| self.remove_subscription(uri)).collect();
        for uri in &state.subscriptions {
            self.add_subscription(uri);
        }
        drop(unstored);
        // The values run code of the application when they are dropped.
        drop(removed);
    }

    /// Makes a change by a message of the client, and records it if `make` returns true.
    pub(super) fn change<T>(&self, change: SessionChange, make: impl FnOnce() -> (bool, T)) -> T {
        let mut unstored = self.unstored.get().map(|unstored| unstored.0.lock());
        let (is_changed, value) = make();
        if let Some(changes) = unstored.as_mut().filter(|_| is_changed) {
            changes.add(change);
        }
        value
    }

    /// Records the changes from now on, because the session is in a shared store.
    pub fn record_changes(&self) {
        self.unstored.get_or_init(Box::default);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp_protocol::ServerCapabilities;

    use super::*;
    use crate::{Peer, session::tests::NoSender};

    fn session() -> Session {
        let peer = Peer::new(Arc::new(NoSender), 1);
        let info = Implementation::new("client", "1");
        let version = ProtocolVersion::LATEST_LEGACY;
        let client = serde_json::from_str(r#"{ "roots": { "listChanged": true } }"#).unwrap();
        Session::new(None, version, info, client, &ServerCapabilities::default(), &peer)
    }

    #[test]
    fn a_restored_session_has_the_changes_of_the_first() {
        let first = session();
        first.record_changes();
        let mut stored = first.state();
        first.mark_initialized();
        first.set_log_level(LoggingLevel::Error);
        first.set_log_level(LoggingLevel::Debug);
        for uri in ["a://1", "a://2"] {
            first.subscribe(uri, 10).unwrap();
        }
        first.unsubscribe("a://1");
        first.roots_changed();
        let storing = first.store_changes();
        let changes = storing.changes().to_vec();
        assert!(first.has_changes());
        storing.stored();
        let uri = |uri: &str| uri.to_owned();
        assert_eq!(
            changes,
            [
                SessionChange::Initialized,
                SessionChange::LogLevel(LoggingLevel::Debug),
                SessionChange::Subscribed(uri("a://2")),
                SessionChange::Unsubscribed(uri("a://1")),
                SessionChange::RootsChanged,
            ]
        );
        assert!(!first.has_changes());
        for change in &changes {
            stored.apply(change);
        }
        assert_eq!(stored, first.state());
        let text = serde_json::to_string(&stored).unwrap();
        let second = session();
        second.record_changes();
        second.replace(&serde_json::from_str(&text).unwrap());
        assert_eq!(second.state(), first.state());
        // Changes of other nodes are not stored again.
        second.apply(&SessionChange::Subscribed(uri("a://3")));
        assert!(!second.has_changes());
        second.replace(&stored);
        assert_eq!(second.state(), first.state());
    }

    #[test]
    fn a_change_of_another_node_does_not_replace_a_change_that_the_store_lacks() {
        let session = session();
        session.record_changes();
        session.set_log_level(LoggingLevel::Debug);
        let storing = session.store_changes();
        session.subscribe("a://1", 10).unwrap();
        for change in [
            SessionChange::LogLevel(LoggingLevel::Error),
            SessionChange::Unsubscribed("a://1".to_owned()),
            SessionChange::Subscribed("a://2".to_owned()),
        ] {
            session.apply(&change);
        }
        let state = session.state();
        let expected: BTreeSet<_> = ["a://1", "a://2"].map(str::to_owned).into();
        assert_eq!((state.log_level, state.subscriptions), (Some(LoggingLevel::Debug), expected));
        storing.stored();
        session.apply(&SessionChange::LogLevel(LoggingLevel::Error));
        assert_eq!(session.state().log_level, Some(LoggingLevel::Error));
    }

    #[test]
    fn changes_that_are_not_stored_keep_their_order() {
        let session = session();
        session.record_changes();
        session.set_log_level(LoggingLevel::Error);
        let failed = session.store_changes();
        session.set_log_level(LoggingLevel::Debug);
        drop(failed);
        assert_eq!(session.store_changes().changes(), [SessionChange::LogLevel(LoggingLevel::Debug)]);
        assert!(session.has_changes());
    }

    #[test]
    fn a_stored_state_does_not_remove_the_changes_that_the_store_lacks() {
        let session = session();
        session.record_changes();
        session.subscribe("a://old", 10).unwrap();
        session.store_changes().stored();
        let mut stored = session.state();
        for change in [
            SessionChange::Unsubscribed("a://old".to_owned()),
            SessionChange::Subscribed("a://other".to_owned()),
            SessionChange::LogLevel(LoggingLevel::Error),
            SessionChange::RootsChanged,
        ] {
            stored.apply(&change);
        }
        session.subscribe("a://1", 10).unwrap();
        session.roots_changed();
        let storing = session.store_changes();
        session.subscribe("a://2", 10).unwrap();
        session.set_log_level(LoggingLevel::Debug);
        session.replace(&stored);
        let expected: BTreeSet<_> = ["a://1", "a://2", "a://other"].map(str::to_owned).into();
        let state = session.state();
        assert_eq!(
            (state.subscriptions, state.log_level, state.roots_changes),
            (expected, Some(LoggingLevel::Debug), 2)
        );
        storing.stored();
        let left = session.store_changes();
        let later = SessionChange::Subscribed("a://2".to_owned());
        assert_eq!(left.changes(), [later, SessionChange::LogLevel(LoggingLevel::Debug)]);
    }
}
