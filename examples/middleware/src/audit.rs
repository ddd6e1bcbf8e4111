//! A layer of one's own: who called what, how it ended, and how long it took.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use mcp_server::{Invocation, Outcome};
use tower::Service;

/// Writes a record for each call. `layer_fn(Audit)` is the layer.
#[derive(Debug, Clone)]
pub(crate) struct Audit<S>(pub(crate) S);

impl<S> Service<Invocation> for Audit<S>
where
    S: Service<Invocation, Response = Outcome, Future: Send + 'static>,
{
    type Response = Outcome;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, call: Invocation) -> Self::Future {
        let (method, name) = (call.method(), call.name().to_owned());
        let who = call.context().principal().map(|principal| principal.subject.clone());
        let start = Instant::now();
        let answering = self.0.call(call);
        Box::pin(async move {
            let outcome = answering.await;
            let failed = outcome.as_ref().map_or(true, Outcome::is_error);
            tracing::info!(target: "audit", method, name, who, failed, took = ?start.elapsed());
            outcome
        })
    }
}
