//! Subscriptions: streams of what changes on the server, which open again by themselves.

mod keeper;

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll},
};

use futures_core::Stream;
use mcp_protocol::{SubscribeParams, SubscriptionFilter, method, tasks::ext::DetailedTask};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinHandle;

use crate::{
    Client, Error, Notification,
    call::{Options, drive},
    connection::{Request, Shared},
    inbound::Inbox,
};

/// Something changed on the server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// The list of tools is another one.
    ToolsChanged,
    /// The list of prompts is another one.
    PromptsChanged,
    /// The list of resources is another one.
    ResourcesChanged,
    /// A resource is another one. The URI may be that of a part of what was subscribed to.
    ResourceUpdated {
        /// The resource.
        uri: String,
    },
    /// A task moved on (tasks extension).
    Task(Box<DetailedTask>),
    /// Anything may have changed: the subscription was opened anew, what was told is lost on the way, or nobody read it for too
    /// long.
    Missed,
}

/// A stream of what changes on the server. It goes on over reconnections. It ends after an error: when the server refuses it, or
/// when as many attempts in a row have failed as [`Reconnect`](crate::Reconnect) allows (then whoever still wants it subscribes
/// again). It also ends when the client is closed. Dropping it ends the subscription on the server.
///
/// An update says that something is to be read again, so two equal ones that wait are one.
pub struct Subscription {
    inbox: Arc<Inbox>,
    keeping: JoinHandle<()>,
    /// Keeps the client open.
    _client: Client,
}

impl Subscription {
    /// Subscribes, and waits until the server has said what it will tell.
    pub(crate) async fn open(client: &Client, filter: SubscriptionFilter) -> Result<Self, Error> {
        let inbox = Arc::new(Inbox::new(filter));
        let shared = client.shared();
        let keeping = tokio::spawn(keeper::keep(Arc::clone(shared), Arc::clone(&inbox)));
        let subscription = Self { inbox, keeping, _client: client.clone() };
        subscription.inbox.opened().await?;
        Ok(subscription)
    }

    /// The next update; `None` at the end. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<Update, Error>> {
        std::future::poll_fn(|cx| self.inbox.poll(cx)).await
    }

    /// What the server said it will tell, of what was asked for.
    #[must_use]
    pub fn honoured(&self) -> SubscriptionFilter {
        self.inbox.honoured()
    }
}

impl Stream for Subscription {
    type Item = Result<Update, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.inbox.poll(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("filter", self.inbox.filter()).finish_non_exhaustive()
    }
}

/// Keeps a subscription for callbacks alone, until the client is closed or the server refuses it.
pub(crate) async fn keep_for_callbacks(shared: Arc<Shared>, filter: SubscriptionFilter) {
    let closing = shared.closing.clone();
    if let Some(error) = closing.run_until_cancelled(keeper::keep_on(&shared, &filter)).await {
        tracing::debug!(%error, "the server does not tell what changes");
    }
}

/// Who is subscribed in a session, where all notices come on one stream and each resource is subscribed to by a request.
#[derive(Default)]
pub(crate) struct Subscribers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inboxes: Vec<Weak<Inbox>>,
    /// How many want to hear of a resource.
    wanted: HashMap<String, usize>,
}

impl Subscribers {
    /// A notification that belongs to no subscription in particular.
    pub(crate) fn hear(&self, notification: &Notification) {
        let inboxes: Vec<_> = self.state().inboxes.iter().filter_map(Weak::upgrade).collect();
        for inbox in inboxes {
            inbox.hear(notification);
        }
    }

    fn join(&self, inbox: &Arc<Inbox>) {
        let mut state = self.state();
        state.inboxes.retain(|other| other.strong_count() > 0);
        if state.inboxes.iter().any(|other| other.as_ptr() == Arc::as_ptr(inbox)) {
            return;
        }
        state.inboxes.push(Arc::downgrade(inbox));
        for uri in &inbox.filter().resource_subscriptions {
            *state.wanted.entry(uri.clone()).or_default() += 1;
        }
    }

    /// Whoever was the last one to want a resource unsubscribes.
    fn leave(&self, shared: &Arc<Shared>, inbox: &Arc<Inbox>) {
        let mut unwanted = Vec::new();
        {
            let mut state = self.state();
            let before = state.inboxes.len();
            state.inboxes.retain(|other| other.as_ptr() != Arc::as_ptr(inbox));
            if state.inboxes.len() == before {
                return;
            }
            for uri in &inbox.filter().resource_subscriptions {
                if let Some(count) = state.wanted.get_mut(uri) {
                    *count -= 1;
                    if *count == 0 {
                        state.wanted.remove(uri);
                        unwanted.push(uri.clone());
                    }
                }
            }
        }
        // A session that is gone has no subscriptions any more.
        let has_session = shared.current().and_then(|link| link.version()).is_some_and(|v| v.has_session_methods());
        if unwanted.is_empty() || !has_session {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (shared, idle) = (Arc::clone(shared), shared.config.idle);
        runtime.spawn(async move {
            let options = || Options { idle, total: idle, ..Options::default() };
            for uri in unwanted {
                let is_wanted = || shared.subscribers.state().wanted.contains_key(&uri);
                if is_wanted() {
                    continue;
                }
                let params = SubscribeParams::new(&uri);
                let Ok(request) = Request::of::<method::Unsubscribe>(&params) else { return };
                if let Err(error) = drive(&shared, request, options()).await {
                    tracing::debug!(%error, "a subscription could not be taken back");
                    return;
                }
                // Whoever came meanwhile may have subscribed before this was taken back.
                if is_wanted()
                    && let Ok(request) = Request::of::<method::Subscribe>(&params)
                    && let Err(error) = drive(&shared, request, options()).await
                {
                    tracing::debug!(%error, "a subscription could not be made again");
                }
            }
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
