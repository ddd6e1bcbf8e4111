//! The end of a session of a client: its own connections to servers end with it.

use std::{collections::HashSet, sync::Arc};

use mcp_server_core::source::SourceCall;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::{Core, caller::Downstream};
use crate::{Caller, Host, Sharing};

/// The sessions with connections of their own.
#[derive(Default)]
pub(super) struct Sessions {
    known: Arc<Mutex<HashSet<Arc<str>>>>,
}

/// Ends the connections of a session when the value is dropped.
struct Connections {
    host: Host,
    caller: Caller,
    session: Arc<str>,
    known: Arc<Mutex<HashSet<Arc<str>>>>,
    runtime: Handle,
}

impl Drop for Connections {
    fn drop(&mut self) {
        self.known.lock().remove(&self.session);
        let (host, caller) = (self.host.clone(), self.caller.clone());
        self.runtime.spawn(async move { host.disconnect(&caller).await });
    }
}

impl Core {
    /// Ends the connections of a session to a server with its session, if the server has connections for single sessions.
    pub(super) fn end_with_session(&self, call: &SourceCall, downstream: &Downstream, server: &str) {
        let Some(session) = &downstream.session else { return };
        let slot = self.host.shared().registry.slot(server);
        if slot.is_none_or(|slot| slot.options.sharing != Sharing::Session) {
            return;
        }
        let known = &self.sessions.known;
        if !known.lock().insert(Arc::clone(session)) {
            return;
        }
        call.keep_until_session_ends(Connections {
            host: self.host.without_guard(),
            caller: downstream.caller(true),
            session: Arc::clone(session),
            known: Arc::clone(known),
            runtime: Handle::current(),
        });
    }
}
