//! Notices that something changed: one publisher, and its readers. Legacy sessions and `subscriptions/listen` streams each
//! have a filter of their own and a set of what they were not told yet.

mod filter;
mod fleet;
mod listener;
mod notice;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
};

use mcp_protocol::{
    ElicitationCompleteParams, LoggingLevel, LoggingMessageParams, NotificationMethod as _, Principal, jsonrpc,
    notification,
};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;

pub(crate) use self::{
    filter::{Filter, add_uri},
    fleet::Fleet,
    listener::{Listener, Listening, Stream},
    notice::{LISTS, Notice, Pending, subscription_meta},
};
use crate::{Limits, Server, Session};

/// Tells clients that something changed: `server.notify().resource_updated("config://app")`.
///
/// Sessions are told of every list, and of the resources that they subscribed to; `subscriptions/listen` streams of what
/// they asked for. Nothing here waits for a client. A notice says that there is something new to ask for, and not what:
/// while a client does not read, equal notices become one, which it gets when it reads again.
///
/// What [`Server::tools`] and its siblings add and remove is told without this.
#[derive(Debug)]
pub struct Notices<'a> {
    server: &'a Server,
}

impl Notices<'_> {
    /// The list of tools changed.
    pub fn tools_changed(&self) {
        self.server.publish(Notice::Tools);
    }

    /// The list of prompts changed.
    pub fn prompts_changed(&self) {
        self.server.publish(Notice::Prompts);
    }

    /// The list of resources, or that of resource templates, changed.
    pub fn resources_changed(&self) {
        self.server.publish(Notice::Resources);
    }

    /// A resource changed. Those are told that subscribed to this very URI: a server with resources inside of others names
    /// both, the part and the whole, if subscribers of the whole are meant to know.
    pub fn resource_updated(&self, uri: &str) {
        self.server.publish(Notice::Updated(uri.into()));
    }

    /// The user is done on the page that [`Inputs::elicit_page`](crate::Inputs::elicit_page), or an error `-32042`, sent
    /// them to under this id. The client that was asked is told, once, in a session of 2025-11-25 on this node; nothing
    /// happens otherwise. A session that does not read misses it: clients do not rely on it.
    pub fn elicitation_complete(&self, page: &str) {
        let params = ElicitationCompleteParams::new(page);
        let Ok(message) = jsonrpc::notification(notification::ElicitationComplete::NAME, &params) else { return };
        for session in self.server.inner.publisher.sessions() {
            if session.forget_page(page) && session.version().has_elicitation_complete() {
                session.send(message.clone());
            }
        }
    }

    /// Sends a log record that belongs to no request to every session whose level lets it through. A session that leaves
    /// no room for it misses it. Clients without a session get log records with the answers to their requests only
    /// ([`Context::log`](crate::Context::log)). Everybody reads it: nothing secret and nothing personal belongs in it.
    pub fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(level, None, data);
    }

    /// Like [`Notices::log`], under the name of a logger.
    pub fn log_as(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        let Ok(data) = serde_json::to_value(data) else {
            tracing::warn!("a log record cannot be written as JSON");
            return;
        };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = logger.map(str::to_owned);
        self.log_params(&params);
    }

    fn log_params(&self, params: &LoggingMessageParams) {
        let Ok(message) = jsonrpc::notification(notification::LoggingMessage::NAME, params) else { return };
        let message = bytes::Bytes::from(message);
        for session in self.server.inner.publisher.sessions() {
            session.log_record(params.level, &message);
        }
    }

    /// The same for a record that is put together only if somebody wants it.
    #[cfg(feature = "log-layer")]
    pub(crate) fn log_if_wanted(&self, level: LoggingLevel, record: impl FnOnce() -> LoggingMessageParams) {
        if self.server.inner.publisher.sessions().iter().any(|session| session.wants_record(level)) {
            self.log_params(&record());
        }
    }
}

impl Server {
    /// Tells clients that something changed.
    #[must_use]
    pub fn notify(&self) -> Notices<'_> {
        Notices { server: self }
    }

    pub(crate) fn publish(&self, notice: Notice) {
        let publisher = &self.inner.publisher;
        publisher.deliver(&notice);
        if let Some(fleet) = self.fleet() {
            fleet.tell(notice);
        }
    }

    /// This node's end of the bus, where nodes share a store. From now on it hears the others.
    pub(crate) fn fleet(&self) -> Option<&Fleet> {
        let fleet = self.inner.publisher.fleet.as_ref()?;
        fleet.start(&self.inner);
        Some(fleet)
    }

    /// Makes a session one of the readers.
    pub(crate) fn join(&self, session: &Arc<Session>) {
        #[cfg(feature = "fs")]
        self.start_watching();
        self.inner.publisher.join(session);
        self.fleet();
    }

    /// Opens a stream of notices; `None` when this caller, or everybody together, has as many as there may be.
    pub(crate) fn listen(&self, filter: Filter, principal: Option<&Principal>) -> Option<Listening> {
        #[cfg(feature = "fs")]
        self.start_watching();
        let listener = self.inner.publisher.listen(filter, principal, self.limits())?;
        self.fleet();
        Some(Listening::new(self.clone(), listener))
    }
}

/// The key of who authenticated: everybody who did not is one.
type Owner = Option<String>;

/// Hands notices to their readers.
pub(crate) struct Publisher {
    readers: Mutex<Readers>,
    pub(crate) fleet: Option<Fleet>,
}

#[derive(Default)]
struct Readers {
    sessions: Vec<Weak<Session>>,
    listeners: HashMap<u64, (Arc<Listener>, Owner)>,
    streams: HashMap<Owner, usize>,
    last: u64,
}

impl Publisher {
    pub(crate) fn new(fleet: Option<Fleet>) -> Self {
        Self { readers: Mutex::default(), fleet }
    }

    fn readers(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock()
    }

    fn join(&self, session: &Arc<Session>) {
        let sessions = &mut self.readers().sessions;
        // Dead entries are dropped when the vector would grow, so that it stays as large as the living need.
        if sessions.len() == sessions.capacity() {
            sessions.retain(|weak| weak.strong_count() > 0);
        }
        sessions.push(Arc::downgrade(session));
    }

    fn listen(&self, filter: Filter, principal: Option<&Principal>, limits: &Limits) -> Option<(u64, Arc<Listener>)> {
        let owner = principal.map(Principal::key);
        let cap = if owner.is_some() { limits.listen_streams_per_principal } else { limits.listen_streams };
        let mut readers = self.readers();
        let streams = readers.streams.get(&owner).copied().unwrap_or_default();
        if streams >= cap {
            return None;
        }
        readers.streams.insert(owner.clone(), streams + 1);
        readers.last += 1;
        let number = readers.last;
        let listener = Arc::new(Listener::new(filter));
        readers.listeners.insert(number, (listener.clone(), owner));
        Some((number, listener))
    }

    fn leave(&self, number: u64) {
        let mut readers = self.readers();
        let Some((_, owner)) = readers.listeners.remove(&number) else { return };
        match readers.streams.get_mut(&owner) {
            Some(streams) if *streams > 1 => *streams -= 1,
            _ => {
                readers.streams.remove(&owner);
            }
        }
    }

    fn sessions(&self) -> Vec<Arc<Session>> {
        self.readers().sessions.iter().filter_map(Weak::upgrade).collect()
    }

    fn listeners(&self) -> Vec<Arc<Listener>> {
        self.readers().listeners.values().map(|(listener, _)| listener.clone()).collect()
    }

    /// Tells the readers of this process.
    fn deliver(&self, notice: &Notice) {
        for session in self.sessions() {
            session.tell(notice);
        }
        for listener in self.listeners() {
            listener.tell(notice);
        }
    }

    /// Notices of other nodes were lost: whatever a reader wants to hear of may have changed.
    fn deliver_all(&self) {
        for session in self.sessions() {
            session.tell_all();
        }
        for listener in self.listeners() {
            listener.tell_all();
        }
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("fleet", &self.fleet.is_some()).finish_non_exhaustive()
    }
}
