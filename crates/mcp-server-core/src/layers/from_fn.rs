//! Layers from async functions.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context as TaskContext, Poll},
};

use mcp_protocol::RpcError;
use tower_layer::Layer;
use tower_service::Service;

use super::{BoxError, HandlerService, Invocation, Outcome};

/// Creates a layer from an async function.
///
/// The function receives each [`Invocation`] and the [`Next`] service. It may change the invocation, reject it with an
/// error, answer it with an [`Outcome`] of its own, or change the outcome of [`Next::run`]. The client receives an
/// [`RpcError`] as it is. For any other error the client receives a reference number, and `tracing` records the details.
///
/// ```
/// use mcp_protocol::RpcError;
/// use mcp_server_core::{Invocation, Next, Outcome, Server, from_fn, tool};
///
/// async fn log(invocation: Invocation, next: Next) -> Result<Outcome, RpcError> {
///     let name = invocation.name().to_owned();
///     let outcome = next.run(invocation).await?;
///     println!("{name} failed: {}", outcome.is_error());
///     Ok(outcome)
/// }
///
/// let server = Server::builder("logged", "1.0.0").tool(tool("hello", async || "hi")).layer(from_fn(log)).build();
/// # let _: Server = server;
/// ```
pub fn from_fn<F, Fut, E>(function: F) -> FromFn<F>
where
    F: Fn(Invocation, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
    E: Into<BoxError>,
{
    FromFn { function: Arc::new(function) }
}

/// The layer that [`from_fn`] creates. It is cheap to clone.
///
/// ```
/// use mcp_server_core::{FromFn, Invocation, Next, Server, from_fn};
///
/// let pass = from_fn(async |invocation: Invocation, next: Next| next.run(invocation).await);
/// let first = Server::builder("first", "1.0.0").layer(pass.clone()).build();
/// let second = Server::builder("second", "1.0.0").layer(pass).build();
/// # let _: (Server, Server) = (first, second);
/// ```
pub struct FromFn<F> {
    function: Arc<F>,
}

impl<F> Clone for FromFn<F> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone() }
    }
}

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFn").field("function", &std::any::type_name::<F>()).finish()
    }
}

impl<F> Layer<HandlerService> for FromFn<F> {
    type Service = FromFnService<F>;

    fn layer(&self, inner: HandlerService) -> Self::Service {
        FromFnService { function: self.function.clone(), inner }
    }
}

/// The service of a layer that [`from_fn`] creates.
pub struct FromFnService<F> {
    function: Arc<F>,
    inner: HandlerService,
}

impl<F> Clone for FromFnService<F> {
    fn clone(&self) -> Self {
        Self { function: self.function.clone(), inner: self.inner.clone() }
    }
}

impl<F> fmt::Debug for FromFnService<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromFnService").field("function", &std::any::type_name::<F>()).finish_non_exhaustive()
    }
}

impl<F, Fut, E> Service<Invocation> for FromFnService<F>
where
    F: Fn(Invocation, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Outcome, E>> + Send + 'static,
    E: Into<BoxError>,
{
    type Response = Outcome;
    type Error = E;
    type Future = Fut;

    fn poll_ready(&mut self, _cx: &mut TaskContext<'_>) -> Poll<Result<(), E>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, invocation: Invocation) -> Fut {
        (self.function)(invocation, Next { inner: self.inner.clone() })
    }
}

/// The rest of the layers and the handler behind them, for the function of [`from_fn`].
#[derive(Debug)]
pub struct Next {
    inner: HandlerService,
}

impl Next {
    /// Runs the remaining layers and the handler. Dropping the future cancels the handler.
    ///
    /// ```
    /// use mcp_protocol::RpcError;
    /// use mcp_server_core::{Invocation, Next, Outcome, from_fn};
    ///
    /// /// Logs the end of each call.
    /// async fn log(invocation: Invocation, next: Next) -> Result<Outcome, RpcError> {
    ///     let outcome = next.run(invocation).await;
    ///     tracing::debug!(failed = outcome.is_err(), "the call has ended");
    ///     outcome
    /// }
    /// # let _ = from_fn(log);
    /// ```
    ///
    /// # Errors
    /// The JSON-RPC error of the handler or of a layer.
    pub fn run(mut self, invocation: Invocation) -> Pin<Box<dyn Future<Output = Result<Outcome, RpcError>> + Send>> {
        // A `HandlerService` is always ready.
        self.inner.call(invocation)
    }
}
