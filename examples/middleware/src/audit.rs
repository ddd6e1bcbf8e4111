//! A custom layer that logs the caller, the outcome and the duration of each call.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Instant,
};

use mcp_server::layer::{Invocation, Outcome};
use tower::Service;

/// Logs one record for each call. `layer_fn(Audit)` makes a layer of this service.
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
        let caller = call.context().principal().map(|principal| principal.subject.clone());
        let start = Instant::now();
        let response = self.0.call(call);
        Box::pin(async move {
            let outcome = response.await;
            let failed = outcome.as_ref().map_or(true, Outcome::is_error);
            tracing::info!(target: "audit", method, name, caller, failed, duration = ?start.elapsed());
            outcome
        })
    }
}
