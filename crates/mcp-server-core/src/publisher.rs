//! The publisher: it delivers list changes and resource updates to sessions and `subscriptions/listen` streams.

mod failed_fetches;
mod filter;
mod fleet;
mod listener;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Weak},
};

use mcp_protocol::Principal;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::{
    filter::{Filter, Offered},
    fleet::{Fleet, PAUSES},
    listener::{Fetches, ListenStream, Listener, Listening, TaskState},
};
use crate::{Limits, Session, change::Change};

/// The key of a principal. All callers without a principal share `None`.
type Owner = Option<String>;

/// Delivers changes to the sessions and streams of this node, and to the other nodes of the fleet.
pub(crate) struct Publisher {
    readers: Arc<Readers>,
    fleet: Option<Fleet>,
}

/// The sessions and streams of this node.
#[derive(Default)]
pub(crate) struct Readers {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    sessions: Vec<Weak<Session>>,
    /// Ordered by their age, so that a random schedule repeats the order of the deliveries.
    listeners: BTreeMap<u64, (Arc<Listener>, Owner)>,
    /// Open streams of each owner.
    streams: HashMap<Owner, usize>,
    last: u64,
}

impl Publisher {
    pub(crate) fn new(readers: Arc<Readers>, fleet: Option<Fleet>) -> Self {
        Self { readers, fleet }
    }

    /// Delivers a change to the readers of all nodes. Does not wait.
    pub(crate) fn publish(&self, change: Change) {
        self.readers.deliver(&change);
        if let Some(fleet) = self.fleet() {
            fleet.publish(change);
        }
    }

    /// Notifies the client whose session sent its user to a page, on all nodes. Does not wait.
    pub(crate) fn complete_page(&self, page: &str) {
        self.readers.complete_page(page);
        if let Some(fleet) = self.fleet() {
            fleet.publish_page(page);
        }
    }

    /// The connection to the other nodes, where nodes share a store. Starts it if it does not run.
    pub(crate) fn fleet(&self) -> Option<&Fleet> {
        let fleet = self.fleet.as_ref()?;
        fleet.start();
        Some(fleet)
    }

    /// Whether the connection to the other nodes runs.
    #[cfg(test)]
    pub(crate) fn is_connected(&self) -> bool {
        self.fleet.as_ref().is_some_and(Fleet::is_running)
    }

    /// Adds a session to the readers.
    pub(crate) fn join(&self, session: &Arc<Session>) {
        self.readers.join(session);
        self.fleet();
    }

    /// Opens a stream; `None` when the principal, or all callers without one, have as many as the limits allow.
    pub(crate) fn listen(&self, filter: Filter, principal: Option<&Principal>, limits: &Limits) -> Option<Listening> {
        let (number, listener) = self.readers.listen(filter, principal, limits)?;
        self.fleet();
        Some(Listening::new(self.readers.clone(), number, listener))
    }

    /// The open sessions.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.readers.sessions()
    }
}

impl Readers {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }

    fn join(&self, session: &Arc<Session>) {
        let sessions = &mut self.table().sessions;
        // Dead entries are dropped when the vector would grow, so its size follows the number of live sessions.
        if sessions.len() == sessions.capacity() {
            sessions.retain(|weak| weak.strong_count() > 0);
        }
        sessions.push(Arc::downgrade(session));
    }

    fn listen(&self, filter: Filter, principal: Option<&Principal>, limits: &Limits) -> Option<(u64, Arc<Listener>)> {
        let owner = principal.map(Principal::key);
        let cap = if owner.is_some() { limits.listen_streams_per_principal } else { limits.listen_streams };
        let mut table = self.table();
        let streams = table.streams.get(&owner).copied().unwrap_or_default();
        if streams >= cap {
            return None;
        }
        table.streams.insert(owner.clone(), streams + 1);
        table.last += 1;
        let number = table.last;
        let listener = Arc::new(Listener::new(filter));
        table.listeners.insert(number, (listener.clone(), owner));
        Some((number, listener))
    }

    fn leave(&self, number: u64) {
        let mut table = self.table();
        let Some((_, owner)) = table.listeners.remove(&number) else { return };
        match table.streams.get_mut(&owner) {
            Some(streams) if *streams > 1 => *streams -= 1,
            _ => {
                table.streams.remove(&owner);
            }
        }
    }

    fn sessions(&self) -> Vec<Arc<Session>> {
        self.table().sessions.iter().filter_map(Weak::upgrade).collect()
    }

    fn listeners(&self) -> Vec<Arc<Listener>> {
        self.table().listeners.values().map(|(listener, _)| listener.clone()).collect()
    }

    /// Delivers a change to the readers of this node.
    fn deliver(&self, change: &Change) {
        for session in self.sessions() {
            session.notify(change);
        }
        for listener in self.listeners() {
            listener.notify(change);
        }
    }

    /// Notifies the client whose session on this node sent its user to a page.
    fn complete_page(&self, page: &str) {
        for session in self.sessions() {
            session.complete_page(page);
        }
    }

    /// Changes of other nodes were lost: delivers every change that a reader subscribed to.
    fn deliver_all(&self) {
        for session in self.sessions() {
            session.notify_all();
        }
        for listener in self.listeners() {
            listener.notify_all();
        }
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("fleet", &self.fleet.is_some()).finish_non_exhaustive()
    }
}
