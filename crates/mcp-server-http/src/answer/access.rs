//! The access log of HTTP requests that the endpoint rejects without a JSON-RPC request. The core logs JSON-RPC requests.

use std::sync::Arc;

use http::{Method, Request, Response};
use mcp_protocol::Principal;
use mcp_server_core::engine::access_log;
use tokio::time::Instant;

use crate::request::caller;

/// The mark of a response that rejects an HTTP request without an event of the core.
#[derive(Debug, Clone, Copy)]
struct Rejection;

/// Marks a response that rejects an HTTP request, so that [`AccessRecord::finish`] writes its event.
pub(crate) fn mark<B>(mut response: Response<B>) -> Response<B> {
    response.extensions_mut().insert(Rejection);
    response
}

/// The data of the event, from the start of the HTTP request.
pub(crate) struct AccessRecord {
    start: Instant,
    method: Method,
    caller: Option<Arc<Principal>>,
}

impl AccessRecord {
    /// Starts the record of an HTTP request.
    pub(crate) fn start<B>(request: &Request<B>) -> Self {
        Self {
            start: Instant::now(),
            method: request.method().clone(),
            caller: caller::principal(request.extensions()),
        }
    }

    /// Writes the event of a rejected HTTP request. An accepted request has no event.
    pub(crate) fn finish<B>(self, response: &mut Response<B>) {
        if response.extensions_mut().remove::<Rejection>().is_none() {
            return;
        }
        let status = response.status();
        tracing::info!(
            target: access_log::TARGET,
            {
                http.request.method = known(&self.method),
                http.response.status_code = status.as_u16(),
                enduser.id = self.caller.as_deref().map(access_log::caller),
                network.transport = "tcp",
                duration_ms = self.start.elapsed().as_secs_f64() * 1e3,
                outcome = "refused",
                error.type = status.as_str()
            },
            "request finished"
        );
    }
}

/// Returns a standard method. Other names would create unbounded metric labels.
fn known(method: &Method) -> &str {
    match *method {
        Method::GET | Method::POST | Method::PUT | Method::DELETE | Method::HEAD | Method::OPTIONS | Method::PATCH => {
            method.as_str()
        }
        _ => "_OTHER",
    }
}
