//! What a session is told of unasked: notices go into its outbox while somebody reads it and there is room, and
//! wait as a set otherwise.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use mcp_protocol::{LoggingLevel, RpcError, ServerCapabilities};
use mcp_transport::{Frame, TrySendError};
use parking_lot::{Mutex, MutexGuard};
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
    /// The lists whose changes the client was promised to hear of.
    lists: Vec<Notice>,
    /// Where the session was opened: there its notices wait for room.
    runtime: Option<Handle>,
}

#[derive(Debug, Default)]
struct State {
    uris: HashSet<Arc<str>>,
    pending: Pending,
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

impl Told {
    pub(super) fn new(promised: &ServerCapabilities) -> Self {
        let lists = [
            (Notice::Tools, promised.tools.as_ref().and_then(|tools| tools.list_changed)),
            (Notice::Prompts, promised.prompts.as_ref().and_then(|prompts| prompts.list_changed)),
            (Notice::Resources, promised.resources.as_ref().and_then(|resources| resources.list_changed)),
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
        let is_wanted = match notice {
            Notice::Updated(uri) => told.uris.contains(uri),
            list => self.told.lists.contains(list),
        };
        if !is_wanted || !self.is_initialized() {
            return;
        }
        told.pending.insert(notice.clone());
        if told.pump.is_none()
            && let Some(wait) = self.flush(&mut told)
        {
            told.pump = self.pump(wait);
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

    /// Hands what waits to the outbox, until something has to be waited for.
    fn flush(&self, told: &mut State) -> Option<Wait> {
        while let Some(notice) = told.pending.first() {
            // Another session may have taken its place meanwhile.
            if !self.is_initialized() {
                told.pending.clear();
                return None;
            }
            // What nobody reads stays in the set, where equal notices are one.
            if self.outbox.unread().is_some() {
                return Some(Wait::Reader);
            }
            let message = notice.message(None);
            let len = message.len();
            match self.outbox.try_send(Frame::new(message)) {
                Err(TrySendError::Full(_)) => return Some(Wait::Room(len)),
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

    /// Flushes whenever it can, until nothing waits any more or the session is gone.
    fn pump(self: &Arc<Self>, first: Wait) -> Option<AbortHandle> {
        let (session, outbox) = (Arc::downgrade(self), self.outbox.clone());
        let pumping = async move {
            let mut wait = first;
            loop {
                let has_room = match wait {
                    Wait::Room(len) => outbox.ready(len).await.is_ok(),
                    Wait::Reader => {
                        if let Some(read) = outbox.unread() {
                            read.await;
                        }
                        true
                    }
                };
                let Some(session) = session.upgrade() else { return };
                let mut told = session.told.state();
                if !has_room {
                    told.pending.clear();
                }
                match session.flush(&mut told) {
                    Some(next) => wait = next,
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
