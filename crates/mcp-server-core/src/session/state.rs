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
pub(super) struct Unstored(Mutex<Vec<SessionChange>>);

impl Unstored {
    fn add(&self, change: SessionChange) {
        let mut changes = self.0.lock();
        changes.retain(|earlier| !earlier.is_replaced_by(&change));
        if changes.len() >= WAITING {
            tracing::warn!("a change of a session is not stored, because the store was unavailable for too long");
            changes.remove(0);
        }
        changes.push(change);
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

    /// Takes the changes by messages of the client that are not stored yet. A session without a shared store has none.
    #[must_use]
    pub fn take_changes(&self) -> Vec<SessionChange> {
        self.unstored.get().map(|unstored| std::mem::take(&mut *unstored.0.lock())).unwrap_or_default()
    }

    /// Whether the session has changes that are not stored yet.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        self.unstored.get().is_some_and(|unstored| !unstored.0.lock().is_empty())
    }

    /// Returns changes that could not be stored.
    pub fn return_changes(&self, changes: Vec<SessionChange>) {
        let Some(unstored) = self.unstored.get() else { return };
        let later = std::mem::take(&mut *unstored.0.lock());
        for change in changes.into_iter().chain(later) {
            unstored.add(change);
        }
    }

    /// Applies a change that another node stored.
    pub fn apply(&self, change: &SessionChange) {
        match change {
            SessionChange::Initialized => self.mark_open(),
            SessionChange::LogLevel(level) => *self.log_level.lock() = Some(*level),
            SessionChange::Subscribed(uri) => self.add_subscription(uri),
            SessionChange::Unsubscribed(uri) => drop(self.remove_subscription(uri)),
            SessionChange::RootsChanged => self.count_roots_change(),
        }
    }

    /// Replaces the state by the stored state, because changes of other nodes may have been lost.
    pub fn replace(&self, state: &SessionState) {
        if state.is_initialized {
            self.mark_open();
        }
        *self.log_level.lock() = state.log_level;
        self.roots_changes.fetch_max(state.roots_changes, Ordering::AcqRel);
        for uri in self.subscriptions().difference(&state.subscriptions) {
            self.remove_subscription(uri);
        }
        for uri in &state.subscriptions {
            self.add_subscription(uri);
        }
    }

    /// Records a change by a message of the client.
    pub(super) fn changed(&self, change: impl FnOnce() -> SessionChange) {
        if let Some(unstored) = self.unstored.get() {
            unstored.add(change());
        }
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
        let changes = first.take_changes();
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
    fn changes_that_are_returned_keep_their_order() {
        let session = session();
        session.record_changes();
        session.set_log_level(LoggingLevel::Error);
        let failed = session.take_changes();
        session.set_log_level(LoggingLevel::Debug);
        session.return_changes(failed);
        assert_eq!(session.take_changes(), [SessionChange::LogLevel(LoggingLevel::Debug)]);
    }
}
