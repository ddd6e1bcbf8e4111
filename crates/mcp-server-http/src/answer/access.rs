//! The access log of HTTP requests that the endpoint rejects without a JSON-RPC request. The core logs JSON-RPC requests.

use std::sync::Arc;

use http::{Method, Request, Response};
use mcp_protocol::Principal;
use tokio::time::Instant;
use tracing::Level;

/// The target of the access log.
const ACCESS: &str = "mcp_server::access";
/// The most characters of a text of a caller.
const SHOWN: usize = 256;

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
    caller: Option<String>,
}

impl AccessRecord {
    /// Starts the record of an HTTP request. Returns `None` if the event is disabled.
    pub(crate) fn start<B>(request: &Request<B>) -> Option<Box<Self>> {
        if !tracing::enabled!(target: ACCESS, Level::INFO) {
            return None;
        }
        let extensions = request.extensions();
        let shared = extensions.get::<Arc<Principal>>().map(|principal| &**principal);
        let principal = shared.or_else(|| extensions.get::<Principal>());
        Some(Box::new(Self {
            start: Instant::now(),
            method: request.method().clone(),
            caller: principal.map(|principal| principal.subject.chars().take(SHOWN).collect()),
        }))
    }

    /// Writes the event of a rejected HTTP request, if the record was started.
    pub(crate) fn finish<B>(record: Option<Box<Self>>, response: &mut Response<B>) {
        let Some(record) = record else { return };
        if response.extensions_mut().remove::<Rejection>().is_none() {
            return;
        }
        let status = response.status();
        tracing::info!(
            target: ACCESS,
            {
                http.request.method = known(&record.method),
                http.response.status_code = status.as_u16(),
                enduser.id = record.caller.as_deref(),
                network.transport = "tcp",
                duration_ms = record.start.elapsed().as_secs_f64() * 1e3,
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
