//! Subscriptions: streams of what changes on the server, which open again by themselves.

mod keeper;
mod unsubscribe;

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_core::Stream;
use mcp_protocol::SubscriptionFilter;
use tokio::task::JoinHandle;

use crate::{
    Error,
    call::{ClientCore, ClientHandle},
    inbound::{Update, UpdateQueue},
};

/// A stream of what changes on the server. It goes on over reconnections. It ends after an error: when the server refuses it, or
/// when as many attempts in a row have failed as [`Reconnect`](crate::Reconnect) allows (then whoever still wants it subscribes
/// again). It also ends when the client is closed. Dropping it ends the subscription on the server.
///
/// An update says that something is to be read again, so two equal ones that wait are one.
pub struct Subscription {
    inbox: Arc<UpdateQueue>,
    keeping: JoinHandle<()>,
    /// Keeps the client open.
    _handle: Arc<ClientHandle>,
}

impl Subscription {
    /// Subscribes, and waits until the server has said what it will tell.
    pub(crate) async fn open(handle: &Arc<ClientHandle>, filter: SubscriptionFilter) -> Result<Self, Error> {
        let inbox = Arc::new(UpdateQueue::new(filter));
        let core = &handle.core;
        let keeping = tokio::spawn(keeper::keep(Arc::clone(core), Arc::clone(&inbox)));
        let subscription = Self { inbox, keeping, _handle: Arc::clone(handle) };
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
pub(crate) async fn keep_for_callbacks(core: Arc<ClientCore>, filter: SubscriptionFilter) {
    let closing = core.connections.closing.clone();
    if let Some(error) = closing.run_until_cancelled(keeper::keep_on(&core, &filter)).await {
        tracing::debug!(%error, "the server does not tell what changes");
    }
}
