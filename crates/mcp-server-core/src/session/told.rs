//! What a session is told of unasked: notices go into its outbox while there is room, and wait as a set while there is none.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use mcp_protocol::{LoggingLevel, RpcError};
use mcp_transport::{Frame, TrySendError};
use tokio::{runtime::Handle, task::AbortHandle};

use super::Session;
use crate::{
    notices::{LISTS, Notice, Pending, add_uri},
    trace::quiet,
};

/// The subscriptions of a session, and what it was not told yet.
#[derive(Debug)]
pub(super) struct Told {
    state: Mutex<State>,
    /// Where the session was opened: there its notices wait for room.
    runtime: Option<Handle>,
}

#[derive(Debug, Default)]
struct State {
    uris: HashSet<Arc<str>>,
    pending: Pending,
    /// Waits for room in the outbox.
    pump: Option<AbortHandle>,
}

impl Told {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), runtime: Handle::try_current().ok() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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

impl Drop for Told {
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
        add_uri(&mut self.told.state().uris, uri, cap).map(drop)
    }

    /// Takes a subscription back; where there is none, nothing changes.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        let mut told = self.told.state();
        if told.uris.remove(uri) {
            told.pending.forget(uri);
        }
    }

    /// Tells the client of a change, now or when it has room for it.
    pub(crate) fn tell(self: &Arc<Self>, notice: &Notice) {
        let _quiet = quiet();
        let mut told = self.told.state();
        if let Notice::Updated(uri) = notice
            && !told.uris.contains(uri)
        {
            return;
        }
        if !self.is_initialized() {
            return;
        }
        told.pending.insert(notice.clone());
        if told.pump.is_none()
            && let Some(len) = self.flush(&mut told)
        {
            told.pump = self.pump(len);
        }
    }

    /// Tells the client that whatever it wants to hear of may have changed.
    pub(crate) fn tell_all(self: &Arc<Self>) {
        for notice in &LISTS {
            self.tell(notice);
        }
        let uris: Vec<_> = self.told.state().uris.iter().cloned().collect();
        for uri in uris {
            self.tell(&Notice::Updated(uri));
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
        let _quiet = quiet();
        if self.outbox.try_send(Frame::new(message.clone())).is_err() {
            tracing::debug!("a session does not read: a log record was dropped");
        }
    }

    /// Hands what waits to the outbox; the length of the first that found no room.
    fn flush(&self, told: &mut State) -> Option<usize> {
        while let Some(notice) = told.pending.first() {
            // Another session may have taken its place meanwhile.
            if !self.is_initialized() {
                told.pending.clear();
                return None;
            }
            let message = notice.message(None);
            let len = message.len();
            match self.outbox.try_send(Frame::new(message)) {
                Err(TrySendError::Full(_)) => return Some(len),
                Err(TrySendError::Closed(_)) => {
                    told.pending.clear();
                    return None;
                }
                Ok(()) | Err(_) => {
                    told.pending.pop();
                }
            }
        }
        None
    }

    /// Flushes whenever there is room, until nothing waits any more or the session is gone.
    fn pump(self: &Arc<Self>, len: usize) -> Option<AbortHandle> {
        let (session, outbox) = (Arc::downgrade(self), self.outbox.clone());
        let pumping = async move {
            let mut len = len;
            loop {
                let has_room = outbox.ready(len).await.is_ok();
                let Some(session) = session.upgrade() else { return };
                let mut told = session.told.state();
                if !has_room {
                    told.pending.clear();
                }
                match session.flush(&mut told) {
                    Some(next) => len = next,
                    None => {
                        told.pump = None;
                        return;
                    }
                }
            }
        };
        Some(self.told.runtime.as_ref()?.spawn(pumping).abort_handle())
    }
}
