//! The extractor that completes when a request is cancelled.

use std::pin::Pin;

use tokio_util::sync::CancellationToken;

/// Completes when the request is cancelled, its time limit is over, or its connection is lost: `cancelled.await`.
///
/// # Example
/// ```
/// use mcp_server_core::{Cancelled, Server, tool};
///
/// async fn watch(cancelled: Cancelled) -> &'static str {
///     tokio::spawn(async move {
///         if !cancelled.is_cancelled() {
///             cancelled.await;
///         }
///         // Stop the work on this task.
///     });
///     "watching"
/// }
///
/// let server = Server::builder("watcher", "1.0").tool(tool("watch", watch)).build();
/// # let _ = server;
/// ```
#[derive(Debug, Clone)]
pub struct Cancelled {
    token: CancellationToken,
}

impl Cancelled {
    pub(crate) fn new(token: CancellationToken) -> Self {
        Self { token }
    }

    /// Whether the request is cancelled already.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled()
    }
}

impl IntoFuture for Cancelled {
    type Output = ();
    type IntoFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.token.cancelled_owned())
    }
}
