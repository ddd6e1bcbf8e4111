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
    inbound::{OpenState, Update, UpdateQueue},
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

    /// Returns an observer of whether the subscription is open on the server.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let changes = client.subscribe(["config://app"]).await?;
    /// let mut states = changes.open_states();
    /// while let Some(is_open) = states.changed().await {
    ///     println!("{}", if is_open { "open again" } else { "lost" });
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn open_states(&self) -> OpenStates {
        OpenStates::new(self.queue.open_states())
    }
}

/// An observer of whether a subscription is open on the server ([`Subscription::open_states`]).
///
/// The value is false as soon as the connection or the stream of the subscription is lost. It is true when the client has
/// reopened the subscription. The last value is false: the subscription has ended.
///
/// Observers skip values that change faster than the program reads them. If the value changes twice before the program reads
/// it, the program reads the same value again. An observer does not keep the subscription open.
///
/// ```
/// use mcp_client::Client;
/// # use mcp_server::{Server, resource};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_client::Error> {
/// # let server = Server::builder("s", "1").resource(resource("config://app", async || "a")).build();
/// let client = Client::connect(&server).await?;
/// let changes = client.subscribe(["config://app"]).await?;
/// let mut states = changes.open_states();
/// assert!(states.current());
///
/// drop(changes);
/// assert_eq!(states.changed().await, Some(false));
/// assert_eq!(states.changed().await, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "an observer does nothing until the program reads it"]
pub struct OpenStates {
    receiver: watch::Receiver<OpenState>,
    /// The number of changes before the value that the program has read.
    read: u64,
}

impl OpenStates {
    fn new(receiver: watch::Receiver<OpenState>) -> Self {
        let read = receiver.borrow().changes;
        Self { receiver, read }
    }

    /// Returns whether the subscription is open.
    #[must_use]
    pub fn current(&self) -> bool {
        self.receiver.borrow().is_open
    }

    /// Waits until the value changes, and returns the new value. Returns `None` when the subscription has ended and the
    /// program has read the last value. Cancel safe.
    pub async fn changed(&mut self) -> Option<bool> {
        loop {
            let state = *self.receiver.borrow_and_update();
            if std::mem::replace(&mut self.read, state.changes) != state.changes {
                return Some(state.is_open);
            }
            if state.has_ended {
                return None;
            }
            self.receiver.changed().await.ok()?;
        }
    }

    /// Waits for a value that fulfils the condition, and returns it. Returns `None` if the subscription ends before. The
    /// current value counts. Cancel safe.
    ///
    /// ```no_run
    /// # async fn example(changes: mcp_client::Subscription) {
    /// let is_open_again = changes.open_states().wait_for(|is_open| *is_open).await.is_some();
    /// # }
    /// ```
    pub async fn wait_for(&mut self, mut condition: impl FnMut(&bool) -> bool) -> Option<bool> {
        loop {
            let state = *self.receiver.borrow_and_update();
            self.read = state.changes;
            if condition(&state.is_open) {
                return Some(state.is_open);
            }
            if state.has_ended {
                return None;
            }
            self.receiver.changed().await.ok()?;
        }
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
        self.queue.end(None);
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
