//! The health route: it reports to monitoring whether the server accepts requests.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use mcp_server_core::engine::Node;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{
    body::Body,
    cors::{AllowedHeaders, preflight},
    respond,
};

pub(crate) const METHODS: &str = "GET, HEAD, OPTIONS";

/// How long the health document waits for the shared store, and how long it shows a result.
const PROBE: Duration = Duration::from_secs(1);

/// Whether the shared store works, as the last probe found.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    last: Mutex<Option<(Instant, bool)>>,
}

impl StoreHealth {
    /// Probes the store, at most once in a second.
    pub(crate) async fn is_available(&self, node: &Node) -> bool {
        let last = *self.last.lock();
        if let Some((at, is_available)) = last
            && at.elapsed() < PROBE
        {
            return is_available;
        }
        let probe = node.name("health");
        let is_available = matches!(timeout(PROBE, node.store().get(&probe)).await, Ok(Ok(_)));
        *self.last.lock() = Some((Instant::now(), is_available));
        is_available
    }
}

/// Answers 200 while the server accepts requests, and 503 after a shutdown began. `store` is whether the shared store works,
/// if there is one. Its failure keeps the status, because stateless requests need no store.
pub(crate) fn answer(
    is_shutting_down: bool,
    store: Option<bool>,
    method: &Method,
    headers: &http::HeaderMap,
    cors: &AllowedHeaders,
) -> Response<Body> {
    let is_head = match *method {
        Method::GET => false,
        Method::HEAD => true,
        Method::OPTIONS => return preflight(headers, METHODS, cors),
        _ => return respond::wrong_method(METHODS),
    };
    let (status, text) = match (is_shutting_down, store) {
        (true, _) => (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"shutting down"}"#),
        (false, None) => (StatusCode::OK, r#"{"status":"ok"}"#),
        (false, Some(true)) => (StatusCode::OK, r#"{"status":"ok","store":"ok"}"#),
        (false, Some(false)) => (StatusCode::OK, r#"{"status":"ok","store":"unavailable"}"#),
    };
    let mut response = document(is_head, text.into());
    *response.status_mut() = status;
    response
}

/// A JSON document that no cache stores. A response to HEAD has no body.
pub(crate) fn document(is_head: bool, text: Bytes) -> Response<Body> {
    let body = if is_head { Body::empty() } else { Body::whole(text) };
    respond::with_header(respond::json(body), header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
}
