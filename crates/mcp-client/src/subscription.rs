//! Subscriptions: streams of changes on the server, which the client reopens after a reconnection.

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
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    Error,
    call::{ClientCore, ClientHandle},
    inbound::{Update, UpdateQueue},
};

/// A stream of changes on the server. It continues after reconnections. Dropping it ends the subscription on the
/// server.
///
/// The stream ends when the client is closed, and after an error: when the server rejects the subscription, or when as
/// many consecutive attempts have failed as [`Reconnect`](crate::Reconnect) allows. A program can then subscribe again.
///
/// An update means that something should be read again, so equal waiting updates are merged.
///
/// # Example
/// ```no_run
/// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
/// let mut changes = client.subscribe(["config://app"]).await?;
/// println!("the server reports {:?}", changes.honoured());
/// while let Some(update) = changes.next().await {
///     println!("{:?}", update?);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Subscription {
    queue: Arc<UpdateQueue>,
    keeping: JoinHandle<()>,
    /// Keeps the client open.
    _handle: Arc<ClientHandle>,
}

impl Subscription {
    /// Subscribes, and waits for the acknowledgement of the server.
    pub(crate) async fn open(handle: &Arc<ClientHandle>, filter: SubscriptionFilter) -> Result<Self, Error> {
        let queue = Arc::new(UpdateQueue::new(filter));
        let core = &handle.core;
        let keeping = tokio::spawn(keeper::keep(Arc::clone(core), Arc::clone(&queue)));
        let subscription = Self { queue, keeping, _handle: Arc::clone(handle) };
        subscription.queue.opened().await?;
        Ok(subscription)
    }

    /// Returns the next update; `None` at the end. Cancel safe.
    ///
    /// See the [example](Self#example).
    pub async fn next(&mut self) -> Option<Result<Update, Error>> {
        std::future::poll_fn(|cx| self.queue.poll(cx)).await
    }

    /// Returns the part of the filter that the server agreed to report.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn honoured(&self) -> SubscriptionFilter {
        self.queue.honoured()
    }

    /// Returns a receiver of whether the subscription is open on the server.
    ///
    /// The value is false as soon as the connection or the stream of the subscription is lost, and true when the client
    /// has reopened the subscription. Its sender is dropped with the subscription.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let changes = client.subscribe(["config://app"]).await?;
    /// let mut states = changes.open_states();
    /// while states.changed().await.is_ok() {
    ///     println!("open: {}", *states.borrow_and_update());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn open_states(&self) -> watch::Receiver<bool> {
        self.queue.open_states()
    }
}

impl Stream for Subscription {
    type Item = Result<Update, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.queue.poll(cx)
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.keeping.abort();
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("filter", self.queue.filter()).finish_non_exhaustive()
    }
}

/// Keeps a subscription open for callbacks, until the client is closed or the server rejects it.
pub(crate) async fn keep_for_callbacks(core: Arc<ClientCore>, filter: SubscriptionFilter) {
    let closing = core.connections.closing.clone();
    if let Some(error) = closing.run_until_cancelled(keeper::keep_on(&core, &filter)).await {
        tracing::debug!(%error, "the server does not report changes");
    }
}
