//! What a session is state of unasked: notices go into its outbox while somebody reads it and there is room, and
//! wait as a set otherwise.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use mcp_protocol::{LoggingLevel, RpcError, ServerCapabilities};
use mcp_transport::{Frame, TrySendError};
use parking_lot::{Mutex, MutexGuard};
use tokio::{runtime::Handle, task::AbortHandle};

use super::Session;
use crate::{
    change::{Change, LISTS, PendingChanges, add_uri},
    log_guard::hold_records,
};

/// The subscriptions of a session, and what it was not state yet.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    /// The lists whose changes the client was promised to hear of.
    lists: Vec<Change>,
    /// Where the session was opened: there its notices wait for room.
    runtime: Option<Handle>,
}

#[derive(Debug, Default)]
struct State {
    uris: HashSet<Arc<str>>,
    pending: PendingChanges,
    /// Waits for a reader of the outbox, or for room in it.
    pump: Option<AbortHandle>,
}

/// What a notice waits for.
#[derive(Debug, Clone, Copy)]
enum Wait {
    Reader,
    /// Room for so many bytes.
    Room(usize),
}

impl Outbox {
    pub(super) fn new(promised: &ServerCapabilities) -> Self {
        let lists = [
            (Change::Tools, promised.tools.as_ref().and_then(|tools| tools.list_changed)),
            (Change::Prompts, promised.prompts.as_ref().and_then(|prompts| prompts.list_changed)),
            (Change::Resources, promised.resources.as_ref().and_then(|resources| resources.list_changed)),
        ];
        let lists = lists.into_iter().filter(|(_, changes)| *changes == Some(true)).map(|(list, _)| list).collect();
        Self { state: Mutex::default(), lists, runtime: Handle::try_current().ok() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Forgets everything: the session is over.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.pending.clear();
        state.uris = HashSet::new();
        if let Some(pump) = state.pump.take() {
            pump.abort();
        }
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.close();
    }
}

impl Session {
    /// Subscribes to a resource; once more changes nothing.
    ///
    /// # Errors
    /// `-32602` when there are as many as there may be.
    pub(crate) fn subscribe(&self, uri: &str, cap: usize) -> Result<(), RpcError> {
        add_uri(&mut self.outbox.state().uris, uri, cap).map(drop)
    }

    /// Takes a subscription back; where there is none, nothing changes.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        let mut state = self.outbox.state();
        if state.uris.remove(uri) {
            state.pending.forget(uri);
        }
    }

    /// Tells the client of a change, now or when it has room for it.
    pub(crate) fn tell(self: &Arc<Self>, notice: &Change) {
        let _guard = hold_records();
        let mut state = self.outbox.state();
        let is_wanted = match notice {
            Change::Updated(uri) => state.uris.contains(uri),
            list => self.outbox.lists.contains(list),
        };
        if !is_wanted || !self.is_initialized() {
            return;
        }
        state.pending.insert(notice.clone());
        if state.pump.is_none()
            && let Some(wait) = self.flush(&mut state)
        {
            state.pump = self.pump(wait);
        }
    }

    /// Tells the client that whatever it wants to hear of may have changed.
    pub(crate) fn tell_all(self: &Arc<Self>) {
        for notice in &LISTS {
            self.tell(notice);
        }
        let uris: Vec<_> = self.outbox.state().uris.iter().cloned().collect();
        for uri in uris {
            self.tell(&Change::Updated(uri));
        }
    }

    /// Whether a log record of this level that belongs to no request would be sent.
    pub(crate) fn wants_record(&self, level: LoggingLevel) -> bool {
        self.is_initialized() && level >= self.log_level()
    }

    /// Sends a log record that belongs to no request, if its level lets it through and there is room.
    pub(crate) fn log_record(&self, level: LoggingLevel, message: &Bytes) {
        if !self.wants_record(level) {
            return;
        }
        let _guard = hold_records();
        if self.sender.try_send(Frame::new(message.clone())).is_err() {
            tracing::debug!("a session does not read: a log record was dropped");
        }
    }

    /// Hands what waits to the outbox, until something has to be waited for.
    fn flush(&self, state: &mut State) -> Option<Wait> {
        while let Some(notice) = state.pending.first() {
            // Another session may have taken its place meanwhile.
            if !self.is_initialized() {
                state.pending.clear();
                return None;
            }
            // What nobody reads stays in the set, where equal notices are one.
            if self.sender.unread().is_some() {
                return Some(Wait::Reader);
            }
            let message = notice.message(None);
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

    /// Flushes whenever it can, until nothing waits any more or the session is gone.
    fn pump(self: &Arc<Self>, first: Wait) -> Option<AbortHandle> {
        let (session, sender) = (Arc::downgrade(self), self.sender.clone());
        let pumping = async move {
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
                        state.pump = None;
                        return;
                    }
                }
            }
        };
        Some(self.outbox.runtime.as_ref()?.spawn(pumping).abort_handle())
    }
}
