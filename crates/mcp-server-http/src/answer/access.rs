//! The access log of HTTP requests that the endpoint rejects without a JSON-RPC request. The core logs JSON-RPC requests.

use std::sync::Arc;

use http::{Method, Request, Response};
use mcp_protocol::Principal;
use mcp_server_core::engine::access_log;
use tokio::time::Instant;
use tracing::level_filters::LevelFilter;

use crate::request::caller;

/// The mark of a response that rejects an HTTP request without an event of the core.
#[derive(Debug, Clone, Default)]
struct Rejection {
    /// The caller that the endpoint has authenticated.
    caller: Option<Arc<Principal>>,
}

/// Marks a response that rejects an HTTP request, so that [`AccessRecord::finish`] writes its event.
pub(crate) fn mark<B>(mut response: Response<B>) -> Response<B> {
    response.extensions_mut().insert(Rejection::default());
    response
}

/// Names the authenticated caller in the event of a marked response.
pub(crate) fn name_caller<B>(response: &mut Response<B>, caller: Option<Arc<Principal>>) {
    if let Some(rejection) = response.extensions_mut().get_mut::<Rejection>() {
        rejection.caller = caller;
    }
}

/// The data of the event, from the start of the HTTP request. `None` if no subscriber enables the level of the event.
pub(crate) struct AccessRecord(Option<Start>);

struct Start {
    time: Instant,
    method: Method,
    /// The caller that a layer of the application has authenticated.
    caller: Option<Arc<Principal>>,
}

impl AccessRecord {
    /// Starts the record of an HTTP request.
    pub(crate) fn start<B>(request: &Request<B>) -> Self {
        // The core explains why its access log checks the level in this way.
        if LevelFilter::current() < LevelFilter::INFO {
            return Self(None);
        }
        let caller = caller::principal(request.extensions());
        Self(Some(Start { time: Instant::now(), method: request.method().clone(), caller }))
    }

    /// Writes the event of a rejected HTTP request. An accepted request has no event.
    pub(crate) fn finish<B>(self, response: &mut Response<B>) {
        let Some(Rejection { caller }) = response.extensions_mut().remove::<Rejection>() else { return };
        let Some(start) = self.0 else { return };
        let caller = caller.or(start.caller);
        let status = response.status();
        tracing::info!(
            target: access_log::TARGET,
            {
                http.request.method = known(&start.method),
                http.response.status_code = status.as_u16(),
                enduser.id = caller.as_deref().map(access_log::caller),
                network.transport = "tcp",
                duration_ms = start.time.elapsed().as_secs_f64() * 1e3,
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
