//! Subscriptions to resources: the subscribers of a resource share a subscription if they share the connection to its server.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_client::{Subscription, Update};
use mcp_protocol::{Excerpt, RpcError};
use mcp_server_core::source::{SourceCall, SourceSubscription, UpdateNotifier};
use parking_lot::Mutex;
use tokio::{sync::OnceCell, task::JoinHandle, time::sleep};

use super::{
    Core,
    caller::Downstream,
    fault::{self, Fault},
    reach::Reached,
};
use crate::{policy::PolicyInput, registry::ConnectionKey};

/// The waits before a lost subscription is opened again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(60);

/// The open subscriptions.
#[derive(Default)]
pub(super) struct Subscriptions {
    open: Mutex<HashMap<Key, Weak<Shared>>>,
}

/// The resource, and the connection of its subscribers.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    server: Arc<str>,
    uri: Box<str>,
    connection: ConnectionKey,
}

/// A subscription at a server. It ends with the last subscriber.
#[derive(Default)]
struct Shared {
    following: OnceCell<Following>,
    subscribers: Mutex<Subscribers>,
}

#[derive(Default)]
struct Subscribers {
    last: u64,
    open: BTreeMap<u64, UpdateNotifier>,
}

/// A subscriber. The drop of the value ends its subscription.
struct Subscriber {
    shared: Arc<Shared>,
    number: u64,
}

impl Subscriber {
    fn new(shared: Arc<Shared>, notifier: UpdateNotifier) -> Self {
        let number = {
            let mut subscribers = shared.subscribers.lock();
            subscribers.last += 1;
            let number = subscribers.last;
            subscribers.open.insert(number, notifier);
            number
        };
        Self { shared, number }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.shared.subscribers.lock().open.remove(&self.number);
    }
}

impl Shared {
    /// Notifies the subscribers, and no other client that subscribed to the URI.
    fn updated(&self) {
        let open: Vec<UpdateNotifier> = self.subscribers.lock().open.values().cloned().collect();
        open.iter().for_each(UpdateNotifier::updated);
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
        let downstream = Downstream::of(call.context());
        let not_found = || RpcError::resource_not_found(call.context().version(), call.name());
        let (server, uri) = self.find_resource(call, call.name()).await.ok_or_else(not_found)?;
        let mut input = PolicyInput::resource(&*server, &*uri);
        input.principal = downstream.principal.as_deref().map(str::to_owned);
        self.permit(&server, &input).await?;
        let connection = self.connection_key(&server, &downstream)?;
        let key = Key { server, uri, connection };
        let shared = self.subscriptions.shared(&key);
        // An update before the end of this function reaches the subscriber too.
        let subscriber = Subscriber::new(Arc::clone(&shared), call.update_notifier());
        let opening = || async {
            let (reached, subscription) = self.open_subscription(&key, &downstream).await?;
            let (core, shared, key) = (Arc::downgrade(self), Arc::downgrade(&shared), key.clone());
            let follower = Follower { core, shared, key, downstream: downstream.clone() };
            Ok::<_, Fault>(Following(tokio::spawn(follower.follow(reached, subscription))))
        };
        shared.following.get_or_try_init(opening).await?;
        self.end_with_session(call, &downstream, &key.server);
        Ok(SourceSubscription::new(subscriber))
    }

    async fn open_subscription(&self, key: &Key, downstream: &Downstream) -> Result<(Reached, Subscription), Fault> {
        // A connection that can ask its user would stay in use for the life of the subscription.
        let downstream = downstream.without_capabilities();
        let reached = self.reach_server(&key.server, None, &downstream).await?;
        let failed = |error| fault::of_request(&key.server, &*key.uri, error);
        let subscription = reached.client.subscribe([&*key.uri]).await.map_err(failed)?;
        if !subscription.honoured().resource_subscriptions.iter().any(|uri| *uri == *key.uri) {
            let text = format!("the server does not report changes of {}", Excerpt::new(&key.uri));
            return Err(RpcError::invalid_params(text).into());
        }
        Ok((reached, subscription))
    }
}

impl Subscriptions {
    /// Returns the subscription of a resource, which may not be open yet.
    fn shared(&self, key: &Key) -> Arc<Shared> {
        let mut open = self.open.lock();
        if let Some(shared) = open.get(key).and_then(Weak::upgrade) {
            return shared;
        }
        open.retain(|_, shared| shared.strong_count() > 0);
        let shared = Arc::<Shared>::default();
        open.insert(key.clone(), Arc::downgrade(&shared));
        shared
    }
}

/// Forwards the updates of a resource to its subscribers.
struct Follower {
    core: Weak<Core>,
    shared: Weak<Shared>,
    key: Key,
    downstream: Downstream,
}

impl Follower {
    async fn follow(self, reached: Reached, subscription: Subscription) {
        let (mut open, mut wait) = ((reached, subscription), FIRST_RETRY);
        loop {
            while let Some(update) = open.1.next().await {
                match update {
                    Ok(Update::ResourceUpdated { .. } | Update::Missed) => {
                        wait = FIRST_RETRY;
                        self.announce();
                    }
                    Ok(_) => {}
                    Err(error) => {
                        tracing::debug!(%error, "a subscription to a resource ended");
                        break;
                    }
                }
            }
            // The connection must be free for the next one.
            drop(open);
            open = loop {
                sleep(wait).await;
                wait = (wait * 2).min(LONGEST_RETRY);
                let Some(core) = self.core.upgrade() else { return };
                if let Ok(opened) = core.open_subscription(&self.key, &self.downstream).await {
                    break opened;
                }
            };
            // The resource can have changed in between.
            self.announce();
        }
    }

    fn announce(&self) {
        if let Some(shared) = self.shared.upgrade() {
            shared.updated();
        }
    }
}
