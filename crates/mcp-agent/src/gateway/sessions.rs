//! The end of a session of a client: its own connections to servers end with it.

use std::{collections::HashSet, sync::Arc};

use mcp_server_core::source::SourceCall;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::{Core, caller::Downstream};
use crate::{Caller, Host, Sharing, registry::Slot};

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

/// A request of a session that opens a connection. The session can end meanwhile, so the drop of the value registers the end again.
pub(super) struct Opening<'a> {
    core: &'a Core,
    call: &'a SourceCall,
    downstream: &'a Downstream,
    slot: &'a Slot,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.core.register_end(self.call, self.downstream, self.slot);
    }
}

impl Core {
    /// Ends the connections of a session to a server with its session, if the server has connections for single sessions. The
    /// returned value exists while the request opens a connection.
    pub(super) fn end_with_session<'a>(
        &'a self,
        call: &'a SourceCall,
        downstream: &'a Downstream,
        slot: &'a Slot,
    ) -> Opening<'a> {
        self.register_end(call, downstream, slot);
        Opening { core: self, call, downstream, slot }
    }

    fn register_end(&self, call: &SourceCall, downstream: &Downstream, slot: &Slot) {
        let Some(session) = downstream.session.as_ref().filter(|_| slot.options.sharing == Sharing::Session) else {
            return;
        };
        // The end of the runtime ends the connections.
        let Ok(runtime) = Handle::try_current() else { return };
        let known = &self.sessions.known;
        if !known.lock().insert(Arc::clone(session)) {
            return;
        }
        call.keep_until_session_ends(Connections {
            host: self.host.without_guard(),
            caller: downstream.caller(true),
            session: Arc::clone(session),
            known: Arc::clone(known),
            runtime,
        });
    }
}
