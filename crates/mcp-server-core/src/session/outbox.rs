//! The change notifications of a session. They are sent while the client reads and the transport has capacity.
//! Otherwise they wait as a set.

use std::{
    any::Any,
    collections::{BTreeSet, HashSet},
    fmt,
    sync::Arc,
};

use bytes::Bytes;
use mcp_protocol::{LoggingLevel, RpcError, ServerCapabilities};
use mcp_transport::{BoxFuture, Frame, TrySendError};
use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, task::AbortHandle};

use super::{Session, SessionChange};
use crate::{
    change::{Change, LISTS, PendingChanges, add_uri, can_add_uri},
    log_guard::hold_records,
};

/// The value that keeps a subscription of a source alive.
struct SubscriptionGuard(Box<dyn Any + Send + Sync>);

impl fmt::Debug for SubscriptionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The type of the value is not known.
        f.debug_tuple("SubscriptionGuard").field(&Any::type_id(&*self.0)).finish()
    }
}

/// A removed subscription. Its value runs code of the application when it is dropped.
#[derive(Debug)]
pub(crate) struct Removed {
    _guard: Option<(Arc<str>, SubscriptionGuard)>,
}

/// The subscriptions of a session and the changes that wait to be sent.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// The lists for which the server declared `listChanged`.
    lists: [bool; LISTS.len()],
    /// The runtime on which the session was opened. Waiting changes are sent there.
    runtime: Option<Handle>,
}

#[derive(Debug, Default)]
struct State {
    uris: HashSet<Arc<str>>,
    pending: PendingChanges,
    /// Values of a source that keep its subscriptions alive.
    guards: Vec<(Arc<str>, SubscriptionGuard)>,
    /// Values of a source that end with the session.
    kept: Vec<SubscriptionGuard>,
    /// The task that waits for a reader or for capacity.
    flusher: Option<AbortHandle>,
    /// Another node had a reader before the end of the handshake.
    has_reader_elsewhere: bool,
}

/// The condition that a waiting change needs.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Reader,
    /// Capacity for this many bytes.
    Room(usize),
}

impl Outbox {
    pub(super) fn new(declared: &ServerCapabilities) -> Self {
        let lists = LISTS.map(|list| {
            let changes = match list {
                Change::Tools => declared.tools.as_ref().and_then(|tools| tools.list_changed),
                Change::Prompts => declared.prompts.as_ref().and_then(|prompts| prompts.list_changed),
                Change::Resources => declared.resources.as_ref().and_then(|resources| resources.list_changed),
                Change::Updated(_) | Change::Part { .. } => None,
            };
            changes == Some(true)
        });
        Self { state: Mutex::default(), lists, runtime: Handle::try_current().ok() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Drops all subscriptions and waiting changes when the session ends.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.pending.clear();
        state.uris = HashSet::new();
        if let Some(flusher) = state.flusher.take() {
            flusher.abort();
        }
        let guards = (std::mem::take(&mut state.guards), std::mem::take(&mut state.kept));
        // The values run code of the application when they are dropped.
        drop(state);
        drop(guards);
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.close();
    }
}

impl Session {
    /// Subscribes to a resource. A repeated subscription has no effect.
    ///
    /// # Errors
    /// `-32602` when the session has the most subscriptions that the limits allow.
    pub(crate) fn subscribe(&self, uri: &str, cap: usize) -> Result<(), RpcError> {
        self.change(SessionChange::Subscribed(uri.to_owned()), || {
            let added = add_uri(&mut self.outbox.state().uris, uri, cap);
            (matches!(added, Ok(true)), added.map(drop))
        })
    }

    /// Adds a subscription that another node accepted.
    pub(super) fn add_subscription(&self, uri: &str) {
        let mut state = self.outbox.state();
        if !state.uris.contains(uri) {
            state.uris.insert(uri.into());
        }
    }

    pub(super) fn subscriptions(&self) -> BTreeSet<String> {
        self.outbox.state().uris.iter().map(|uri| (**uri).to_owned()).collect()
    }

    /// Returns false if the session subscribes to this resource.
    ///
    /// # Errors
    /// `-32602` when the session has the most subscriptions that the limits allow.
    pub(crate) fn can_subscribe(&self, uri: &str, cap: usize) -> Result<bool, RpcError> {
        can_add_uri(&self.outbox.state().uris, uri, cap)
    }

    /// Returns true if this node keeps a value of a source for the subscription.
    pub(crate) fn keeps_subscription(&self, uri: &str) -> bool {
        self.outbox.state().guards.iter().any(|(subscribed, _)| **subscribed == *uri)
    }

    /// Keeps the value of a source until the subscription ends. It replaces an earlier value of the subscription.
    pub(crate) fn keep_subscription(&self, uri: &str, guard: Box<dyn Any + Send + Sync>) {
        let guard = SubscriptionGuard(guard);
        let mut state = self.outbox.state();
        let Some(uri) = state.uris.get(uri).cloned() else {
            // The session has ended meanwhile, or has unsubscribed.
            drop(state);
            return drop(guard);
        };
        let earlier = state.guards.iter_mut().find(|(subscribed, _)| *subscribed == uri);
        let replaced = match earlier {
            Some((_, earlier)) => Some(std::mem::replace(earlier, guard)),
            None => {
                state.guards.push((uri, guard));
                None
            }
        };
        drop(state);
        drop(replaced);
    }

    /// Keeps a value of a source until the session ends. Returns false if the session has ended.
    pub(crate) fn keep(&self, value: Box<dyn Any + Send + Sync>) -> bool {
        let value = SubscriptionGuard(value);
        let mut state = self.outbox.state();
        // The session closes its table of requests before its outbox.
        if self.is_closed() {
            // The value runs code of the application when it is dropped.
            drop(state);
            drop(value);
            return false;
        }
        state.kept.push(value);
        true
    }

    /// Ends a subscription. An unknown URI is ignored.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        let removed = self.change(SessionChange::Unsubscribed(uri.to_owned()), || {
            let removed = self.remove_subscription(uri);
            (removed.is_some(), removed)
        });
        // Dropped after the lock of the changes is free.
        drop(removed);
    }

    /// Removes a subscription. `None` if the session does not have it.
    pub(super) fn remove_subscription(&self, uri: &str) -> Option<Removed> {
        let mut state = self.outbox.state();
        if !state.uris.remove(uri) {
            return None;
        }
        state.pending.forget(uri);
        let guards = &mut state.guards;
        let guard = guards.iter().position(|(subscribed, _)| **subscribed == *uri).map(|at| guards.swap_remove(at));
        Some(Removed { _guard: guard })
    }

    /// Sends the waiting changes, because another node has a reader for them. A change without capacity keeps waiting.
    pub fn send_waiting_changes(&self) {
        self.send_elsewhere(&mut self.outbox.state());
    }

    fn send_elsewhere(&self, state: &mut State) {
        if !self.is_initialized() {
            state.has_reader_elsewhere = true;
            return;
        }
        while let Some(change) = state.pending.first() {
            if self.sender.try_send(Frame::new(change.message(None))).is_err() {
                return;
            }
            state.pending.pop();
        }
    }

    /// Sends a change to the client, now or when the transport has capacity.
    pub(crate) fn notify(self: &Arc<Self>, change: &Change) {
        let _guard = hold_records();
        let mut state = self.outbox.state();
        let is_wanted = match change {
            Change::Updated(uri) | Change::Part { of: uri, .. } => state.uris.contains(uri),
            list => LISTS.iter().zip(self.outbox.lists).any(|(known, declared)| declared && known == list),
        };
        if is_wanted && !self.is_closed() {
            state.pending.insert(change.clone());
            self.send_pending(state);
        }
    }

    /// Sends the changes that waited for the end of the handshake.
    pub(super) fn send_early_changes(self: &Arc<Self>) {
        let _guard = hold_records();
        let mut state = self.outbox.state();
        if self.is_initialized() && std::mem::take(&mut state.has_reader_elsewhere) {
            self.send_elsewhere(&mut state);
        }
        self.send_pending(state);
    }

    /// Sends the waiting changes, now or when the transport has capacity.
    fn send_pending(self: &Arc<Self>, mut state: MutexGuard<'_, State>) {
        if state.flusher.is_none()
            && let Some(wait) = self.flush(&mut state)
        {
            state.flusher = self.flusher(wait);
        }
    }

    /// Sends every change that the client subscribed to, because changes may have been lost.
    pub(crate) fn notify_all(self: &Arc<Self>) {
        for change in &LISTS {
            self.notify(change);
        }
        let mut uris: Vec<_> = self.outbox.state().uris.iter().cloned().collect();
        uris.sort_unstable();
        for uri in uris {
            self.notify(&Change::Updated(uri));
        }
    }

    /// Whether the session receives a log record of this level that belongs to no request.
    pub(crate) fn wants_record(&self, level: LoggingLevel) -> bool {
        self.is_initialized() && level >= self.log_level()
    }

    /// Sends a log record that belongs to no request, if the level allows it and the transport has capacity.
    pub(crate) fn log_record(&self, level: LoggingLevel, message: &Bytes) {
        if !self.wants_record(level) {
            return;
        }
        let _guard = hold_records();
        if self.sender.try_send(Frame::new(message.clone())).is_err() {
            tracing::debug!("a session does not read: a log record was dropped");
        }
    }

    /// Sends waiting changes. Returns the condition on which the next one waits.
    fn flush(&self, state: &mut State) -> Option<Wait> {
        while let Some(change) = state.pending.first() {
            // A client can subscribe before its `notifications/initialized` arrives. Its changes wait.
            if !self.is_initialized() {
                return None;
            }
            // Without a reader the change stays in the set, where equal changes are merged.
            if self.sender.unread().is_some() {
                return Some(Wait::Reader);
            }
            let message = change.message(None);
            let len = message.len();
            match self.sender.try_send(Frame::new(message)) {
                Err(TrySendError::Full(_)) => return Some(Wait::Room(len)),
                Err(TrySendError::Closed(_)) => {
                    state.pending.clear();
                    return None;
                }
                Ok(()) | Err(_) => {
                    state.pending.pop();
                }
            }
        }
        None
    }

    /// Starts a task that sends waiting changes until none is left or the session ends.
    fn flusher(self: &Arc<Self>, first: Wait) -> Option<AbortHandle> {
        let (session, sender) = (Arc::downgrade(self), self.sender.clone());
        let flushing: BoxFuture<'static, ()> = Box::pin(async move {
            let mut wait = first;
            loop {
                let has_room = match wait {
                    Wait::Room(len) => sender.ready(len).await.is_ok(),
                    Wait::Reader => {
                        if let Some(read) = sender.unread() {
                            read.await;
                        }
                        true
                    }
                };
                let Some(session) = session.upgrade() else { return };
                let mut state = session.outbox.state();
                if !has_room {
                    state.pending.clear();
                }
                match session.flush(&mut state) {
                    Some(next) => wait = next,
                    None => {
                        state.flusher = None;
                        return;
                    }
                }
            }
        });
        Some(self.outbox.runtime.as_ref()?.spawn(flushing).abort_handle())
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, future::pending};

    use mcp_protocol::{Implementation, ProtocolVersion, RequestId};
    use mcp_transport::{BoxFuture, FrameSender, TransportError};

    use super::*;
    use crate::{Peer, session::ClientIdentity};

    /// A connection that stores its messages. If another node has the reader, this node has none.
    #[derive(Debug, Default)]
    struct Sent {
        messages: Mutex<Vec<Bytes>>,
        is_read_elsewhere: bool,
    }

    impl FrameSender for Sent {
        fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
            self.messages.lock().push(frame.message);
            Box::pin(std::future::ready(Ok(())))
        }

        fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
            self.messages.lock().push(frame.message);
            Ok(())
        }

        fn ready(&self, _len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
            Box::pin(std::future::ready(Ok(())))
        }

        fn close(&self, _id: &RequestId) {}

        fn unread(&self) -> Option<BoxFuture<'_, ()>> {
            self.is_read_elsewhere.then(|| Box::pin(pending()) as BoxFuture<'_, ()>)
        }

        fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[tokio::test]
    async fn changes_wait_until_a_message_or_a_record_ends_the_handshake() {
        let uri = "x:a";
        type End = fn(&Arc<Session>);
        let ends: [(&str, End); 3] = [
            ("a message", |session| session.mark_initialized()),
            ("a change at another node", |session| assert!(session.apply(1, &[SessionChange::Initialized]))),
            ("a record", |session| {
                let mut record = session.state();
                record.apply(&SessionChange::Initialized);
                assert!(session.store_changes().stored(&record, 1));
            }),
        ];
        for (name, end) in ends {
            for is_read_elsewhere in [false, true] {
                let sent = Arc::new(Sent { is_read_elsewhere, ..Sent::default() });
                let identity = Arc::new(ClientIdentity::new(Implementation::new("client", "1"), Default::default()));
                let peer = Peer::new(sent.clone(), 1);
                let version = ProtocolVersion::LATEST_LEGACY;
                let session = Arc::new(Session::new(None, version, identity, &ServerCapabilities::default(), &peer));
                session.record_changes(0);
                session.subscribe(uri, 10).unwrap();
                session.notify(&Change::Updated(uri.into()));
                if is_read_elsewhere {
                    session.send_waiting_changes();
                }
                assert!(sent.messages.lock().is_empty(), "{name}");
                end(&session);
                assert_eq!(sent.messages.lock().len(), 1, "{name}, elsewhere: {is_read_elsewhere}");
                assert_eq!(session.subscriptions(), BTreeSet::from([uri.to_owned()]), "{name}");
            }
        }
    }
}
