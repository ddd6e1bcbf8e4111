//! Subscriptions to resources: the subscribers of a resource share a subscription if they share the connection to its server.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_client::{Subscription, Update};
use mcp_protocol::{Excerpt, RpcError};
use mcp_server_core::source::{SourceCall, SourceSession, SourceSubscription, UpdateNotifier};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, OnceCell, watch},
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

use super::{
    Core,
    caller::Downstream,
    fault::{self, Fault},
    links::Owner,
    reach::{Reached, in_turn},
};
use crate::{policy::PolicyInput, registry::ConnectionKey};

/// The waits before a lost subscription is opened again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The time between two records about one lost subscription.
const RECORDS: Duration = Duration::from_secs(600);

/// How long an ended subscription of a user is remembered. The client unsubscribes at the server in this time, and the server can report
/// the resource meanwhile.
const REMEMBERED: Duration = Duration::from_secs(30);
/// The largest number of remembered subscriptions, and of those of a principal. Beyond it, the gateway forgets the oldest subscription.
const ENDED: usize = 1024;
const ENDED_OF_PRINCIPAL: usize = 64;
/// The longest URI of a remembered subscription, in bytes. The client receives no update with a longer URI.
const LONGEST: usize = 8 * 1024;

/// The open subscriptions, and those that have ended.
#[derive(Default)]
pub(super) struct Subscriptions {
    open: Mutex<HashMap<Key, Weak<Shared>>>,
    ended: Arc<Mutex<VecDeque<Ended>>>,
}

/// A subscription whose last subscriber was this principal.
struct Ended {
    key: Key,
    principal: Option<Arc<str>>,
    until: Instant,
}

/// The resource, and the connection of its subscribers.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    server: Arc<str>,
    uri: Box<str>,
    connection: ConnectionKey,
    /// The definition of the server. Another server under its name needs subscriptions of its own.
    fingerprint: Arc<str>,
}

impl Key {
    /// Whether another subscription is on the same connection.
    fn is_beside(&self, other: &Self) -> bool {
        self.connection == other.connection && self.server == other.server && self.fingerprint == other.fingerprint
    }

    /// Whether the URI fits an update better than that of another subscription of the connection.
    fn is_closer(&self, other: &Self, updated: &str) -> bool {
        self.uri.len() > other.uri.len() && updated.starts_with(&*self.uri) && self.is_beside(other)
    }
}

/// A subscription whose URI fits an update better.
struct Closer {
    /// The update is about this URI.
    is_exact: bool,
    shared: Arc<Shared>,
}

/// A subscription at a server. It ends with the last subscriber.
struct Shared {
    key: Key,
    ended: Arc<Mutex<VecDeque<Ended>>>,
    following: OnceCell<Following>,
    /// The subscriber with the newest token, which opens a lost subscription again. The tokens of the others can have expired.
    newest: Mutex<Downstream>,
    subscribers: Mutex<Subscribers>,
    /// Whether the subscription is open at the server.
    is_open: watch::Sender<bool>,
    /// A new subscriber needs a subscription that is lost.
    wanted: Arc<Notify>,
}

#[derive(Default)]
struct Subscribers {
    last: u64,
    open: BTreeMap<u64, Notified>,
}

/// A subscriber and its principal.
#[derive(Clone)]
struct Notified {
    notifier: UpdateNotifier,
    principal: Option<Arc<str>>,
    session: Option<SourceSession>,
    owner: Arc<Owner>,
}

/// A subscriber. The drop of the value ends its subscription.
struct Subscriber {
    shared: Arc<Shared>,
    number: u64,
}

impl Subscriber {
    fn new(shared: Arc<Shared>, notified: Notified) -> Self {
        let number = {
            let mut subscribers = shared.subscribers.lock();
            subscribers.last += 1;
            let number = subscribers.last;
            subscribers.open.insert(number, notified);
            number
        };
        Self { shared, number }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let mut subscribers = self.shared.subscribers.lock();
        let Some(removed) = subscribers.open.remove(&self.number) else { return };
        if subscribers.open.is_empty() {
            self.shared.remember(removed.principal);
        }
    }
}

impl Shared {
    fn new(key: Key, ended: Arc<Mutex<VecDeque<Ended>>>, newest: Downstream) -> Self {
        let (following, subscribers, is_open) = (OnceCell::new(), Mutex::default(), watch::Sender::default());
        Self { key, ended, following, newest: newest.into(), subscribers, is_open, wanted: Arc::default() }
    }

    /// Remembers the subscription for its last subscriber.
    fn remember(&self, principal: Option<Arc<str>>) {
        if self.key.uri.len() > LONGEST {
            return;
        }
        let (now, mut ended) = (Instant::now(), self.ended.lock());
        let is_same = |other: &Ended| other.key == self.key && other.principal == principal;
        ended.retain(|other| other.until > now && !is_same(other));
        let mut of_principal = ended.iter().enumerate().filter(|(_, other)| other.principal == principal);
        let oldest = of_principal.next().map(|(at, _)| at);
        if let Some(oldest) = oldest.filter(|_| of_principal.count() + 1 >= ENDED_OF_PRINCIPAL) {
            ended.remove(oldest);
        } else if ended.len() >= ENDED {
            ended.pop_front();
        }
        ended.push_back(Ended { key: self.key.clone(), principal, until: now + REMEMBERED });
    }

    fn subscribers(&self) -> Vec<Notified> {
        self.subscribers.lock().open.values().cloned().collect()
    }

    /// Whether the subscription is open at the server, for a subscriber that this function accepts.
    fn is_open_for(&self, accepts: impl Fn(&Notified) -> bool) -> bool {
        *self.is_open.borrow() && self.has_subscriber(accepts)
    }

    /// Whether this function accepts a subscriber. The subscription need not be open.
    fn has_subscriber(&self, accepts: impl Fn(&Notified) -> bool) -> bool {
        self.subscribers.lock().open.values().any(accepts)
    }

    /// Waits until the subscription is open. Returns false if it is not open at this time.
    async fn opened_until(&self, end: Instant) -> bool {
        let mut is_open = self.is_open.subscribe();
        if !*is_open.borrow() {
            self.wanted.notify_one();
        }
        let opened = timeout_at(end, is_open.wait_for(|is_open| *is_open)).await;
        opened.is_ok_and(|opened| opened.is_ok())
    }
}

/// The task that forwards the updates.
struct Following(JoinHandle<()>);

impl Drop for Following {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Core {
    /// Subscribes a client to a resource. The first subscriber subscribes at the server.
    pub(super) async fn subscribe(self: &Arc<Self>, call: &SourceCall) -> Result<SourceSubscription, Fault> {
        // The server notifies the connection on which the calls of the client run.
        let mut began = Instant::now();
        let downstream = Downstream::of(call).beside_calls();
        let not_found = || RpcError::resource_not_found(call.context().version(), call.name());
        let (server, uri, _) = self.find_resource(call, call.name()).await.ok_or_else(not_found)?;
        let asked = Instant::now();
        let turn = call.turn_at(&server).await;
        let slot = self.slot(&server)?;
        self.permit(&slot, PolicyInput::resource(&*server, &*uri), &downstream).await?;
        // The wait for a turn does not count, and the wait for an approval has a limit of its own.
        began += asked.elapsed();
        let end = began + self.wait_for(&slot);
        let connection = self.connection_key(&slot, &downstream, end).await?;
        let key = Key { server, uri, connection, fingerprint: Arc::clone(&slot.fingerprint) };
        let shared = self.subscriptions.shared(&key, &downstream);
        // An update before the end of this function reaches the subscriber too.
        let (notifier, principal) = (call.update_notifier(), downstream.principal.clone());
        let notified = Notified { notifier, principal, session: call.session(), owner: Arc::new(Owner::of(call)) };
        let subscriber = Subscriber::new(Arc::clone(&shared), notified);
        let late = |_| fault::of_subscription(&key.server, "the server did not accept the subscription in time");
        // The task of another subscriber opens a lost subscription again.
        if !shared.following.initialized() {
            let reaching = Box::pin(self.reach_current(began, call, &slot, &downstream));
            let reached = timeout_at(end, reaching).await.map_err(late)??;
            let client = reached.client.clone();
            let opening = || async {
                let (reached, subscription) = self.open_subscription(&key, reached).await?;
                shared.is_open.send_replace(true);
                let wanted = Arc::clone(&shared.wanted);
                let (core, shared, key) = (Arc::downgrade(self), Arc::downgrade(&shared), key.clone());
                let follower = Follower { core, shared, wanted, key };
                Ok::<_, Fault>(Following(tokio::spawn(follower.follow(reached, subscription))))
            };
            let opened = async {
                timeout_at(end, shared.following.get_or_try_init(opening)).await.map_err(late)??;
                Ok(())
            };
            in_turn(&turn, &client, Box::pin(opened)).await?;
        }
        // The wait for a lost subscription is no request of this stream.
        drop(turn);
        if !shared.opened_until(end).await {
            return Err(fault::of_subscription(&key.server, "the subscription at the server is lost"));
        }
        Ok(SourceSubscription::new(subscriber))
    }

    async fn open_subscription(&self, key: &Key, reached: Reached) -> Result<(Reached, Subscription), Fault> {
        if reached.fingerprint != key.fingerprint {
            return Err(fault::of_subscription(&key.server, "another server has the name of the server now"));
        }
        let failed = |error| reached.fault(&*key.uri, error);
        let subscription = reached.client.subscribe([&*key.uri]).await.map_err(failed)?;
        if !subscription.honoured().resource_subscriptions.iter().any(|uri| *uri == *key.uri) {
            let text = format!("the server does not report changes of {}", Excerpt::new(&key.uri));
            return Err(RpcError::invalid_params(text).into());
        }
        Ok((reached, subscription))
    }
}

impl Subscriptions {
    /// Returns the subscription of a resource for a new subscriber. It may not be open yet.
    fn shared(&self, key: &Key, subscriber: &Downstream) -> Arc<Shared> {
        let mut open = self.open.lock();
        if let Some(shared) = open.get(key).and_then(Weak::upgrade) {
            shared.newest.lock().renew(subscriber);
            return shared;
        }
        open.retain(|_, shared| shared.strong_count() > 0);
        let shared = Arc::new(Shared::new(key.clone(), Arc::clone(&self.ended), subscriber.clone()));
        open.insert(key.clone(), Arc::downgrade(&shared));
        shared
    }

    /// Returns the subscriptions of the connection that are a better cause of an update: their URIs are longer, and the update is about
    /// them or about parts of them. They can be opening or lost.
    fn closer(&self, key: &Key, updated: &str) -> Vec<Closer> {
        let open = self.open.lock();
        let closer = open.iter().filter(|(other, _)| other.is_closer(key, updated));
        closer
            .filter_map(|(other, shared)| Some(Closer { is_exact: *other.uri == *updated, shared: shared.upgrade()? }))
            .collect()
    }

    /// Whether the better cause of an update can be the ended subscription of another principal.
    fn was_of_other(&self, key: &Key, updated: &str, principal: Option<&Arc<str>>) -> bool {
        let now = Instant::now();
        let is_cause = |ended: &Ended| {
            ended.until > now && ended.principal.as_ref() != principal && ended.key.is_closer(key, updated)
        };
        self.ended.lock().iter().any(is_cause)
    }
}

/// Whether a URI is below another URI in the hierarchy of URIs.
fn is_below(uri: &str, above: &str) -> bool {
    const DELIMITERS: [char; 3] = ['/', '?', '#'];
    uri.strip_prefix(above).is_some_and(|rest| above.ends_with(DELIMITERS) || rest.starts_with(DELIMITERS))
}

/// Forwards the updates of a resource to its subscribers.
struct Follower {
    core: Weak<Core>,
    shared: Weak<Shared>,
    /// A new subscriber needs the lost subscription.
    wanted: Arc<Notify>,
    key: Key,
}

impl Follower {
    async fn follow(self, reached: Reached, subscription: Subscription) {
        let (mut open, mut wait) = ((reached, subscription), FIRST_RETRY);
        let mut reported = None::<Instant>;
        loop {
            let mut states = open.1.open_states();
            loop {
                tokio::select! {
                    update = open.1.next() => match update {
                        Some(Ok(Update::ResourceUpdated { uri })) => {
                            wait = FIRST_RETRY;
                            self.forward(&open.0, &uri);
                        }
                        Some(Ok(Update::Missed)) => {
                            wait = FIRST_RETRY;
                            self.announce();
                        }
                        Some(Ok(_)) => {}
                        Some(Err(error)) => {
                            tracing::debug!(%error, "a subscription to a resource ended");
                            break;
                        }
                        None => break,
                    },
                    // The client opens the subscription again on its next connection.
                    Some(is_open) = states.changed() => self.set_open(is_open),
                }
            }
            // The connection must be free for the next one.
            drop(open);
            self.set_open(false);
            open = loop {
                let _ = timeout(wait, self.wanted.notified()).await;
                wait = (wait * 2).min(LONGEST_RETRY);
                let Some(core) = self.core.upgrade() else { return };
                if core.fingerprint(&self.key.server).is_some_and(|now| now != self.key.fingerprint) {
                    // Another server has the name. A subscription at it belongs to another key, but the definition can change back.
                    continue;
                }
                // The policies decide again, because they can have changed.
                if self.permitted(&core).is_empty() {
                    continue;
                }
                let newest = self.shared.upgrade().map(|shared| shared.newest.lock().clone());
                let Some(newest) = newest else { return };
                let Ok(reached) = core.reach_again(&self.key.server, &newest).await else { continue };
                match core.open_subscription(&self.key, reached).await {
                    Ok(opened) => break opened,
                    Err(_) if reported.is_some_and(|at| at.elapsed() < RECORDS) => {}
                    Err(error) => {
                        let uri = Excerpt::new(&self.key.uri);
                        tracing::warn!(server = &*self.key.server, %uri, %error, "a lost subscription cannot be opened again");
                        reported = Some(Instant::now());
                    }
                }
            };
            self.set_open(true);
            // The resource can have changed in between.
            self.announce();
        }
    }

    fn set_open(&self, is_open: bool) {
        if let Some(shared) = self.shared.upgrade() {
            shared.is_open.send_replace(is_open);
        }
    }

    /// Returns the subscribers from which the policies do not hide the resource.
    fn permitted(&self, core: &Core) -> Vec<Notified> {
        let mut subscribers = self.shared.upgrade().map(|shared| shared.subscribers()).unwrap_or_default();
        let Key { server, uri, .. } = &self.key;
        subscribers.retain(|to| !core.hides_resource(server, uri, to.principal.as_deref()));
        subscribers
    }

    /// Forwards an update of the resource, or of a part of it.
    fn forward(&self, reached: &Reached, updated: &str) {
        let Key { server, uri, .. } = &self.key;
        if *updated == **uri {
            return self.announce();
        }
        let Some(core) = self.core.upgrade() else { return };
        // A server with a session reports each update once for all subscriptions of the session.
        let is_stateless = reached.client.version().is_stateless();
        let closer = if is_stateless { Vec::new() } else { core.subscriptions.closer(&self.key, updated) };
        if !is_below(updated, uri) && closer.iter().any(|closer| closer.shared.is_open_for(|_| true)) {
            return;
        }
        let part = core.names.uri(server, updated);
        let subscribers = self.permitted(&core);
        let permitted = subscribers.iter().filter(|to| !core.hides_resource(server, updated, to.principal.as_deref()));
        for to in permitted {
            let is_of_session = |other: &Notified| other.session.is_some() && other.session == to.session;
            if closer.iter().any(|closer| closer.is_exact && closer.shared.is_open_for(is_of_session)) {
                // The session receives the update of its exact subscription.
                continue;
            }
            // The server can have reported the resource only for the subscription of another user, whose URI can be secret. The server
            // can report it before the subscription is open here, and after its end.
            let is_of_other = |other: &Notified| other.principal != to.principal;
            let was_of_other =
                || !is_stateless && core.subscriptions.was_of_other(&self.key, updated, to.principal.as_ref());
            if closer.iter().any(|closer| closer.shared.has_subscriber(is_of_other)) || was_of_other() {
                to.notifier.updated();
                continue;
            }
            core.learn_part(&to.owner, server, updated);
            to.notifier.part_updated(&part);
        }
    }

    /// Notifies the subscribers, and no other client that subscribed to the URI.
    fn announce(&self) {
        let Some(core) = self.core.upgrade() else { return };
        self.permitted(&core).iter().for_each(|to| to.notifier.updated());
    }
}
