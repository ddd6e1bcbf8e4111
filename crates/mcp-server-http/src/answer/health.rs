//! The health route: it reports to monitoring whether the server accepts requests.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header};
use mcp_server_core::engine::Node;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    body::Body,
    cors::{AllowedHeaders, preflight},
    respond,
};

pub(crate) const METHODS: &str = "GET, HEAD, OPTIONS";

/// How long the health document waits for the shared store, and how long it shows a result.
const PROBE: Duration = Duration::from_secs(1);
/// The lifetime of the record that a probe writes.
const TTL: Duration = Duration::from_secs(60);

/// The state of the shared store, as a probe found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreState {
    Working,
    /// The store rejects writes, because its memory is full.
    Full,
    Unavailable,
}

/// The state of the shared store, as the last probe found it.
#[derive(Debug, Default)]
pub(crate) struct StoreHealth {
    /// The start of the last probe, and its result when it ends.
    last: Mutex<Option<(Instant, watch::Receiver<Option<StoreState>>)>>,
}

impl StoreHealth {
    /// Probes the store, at most once in a second. Requests at the same time wait for one probe.
    ///
    /// A probe writes a record, because a store that is full or read-only still answers reads. It subscribes to a topic, because a
    /// node without messages receives no answers and cancellations of the other nodes.
    pub(crate) async fn state(&self, node: &Node) -> StoreState {
        loop {
            let result = match self.last_or_next() {
                Ok(mut last) => last.wait_for(Option::is_some).await.ok().and_then(|result| *result),
                Err(next) => {
                    let (probe, store) = (node.name("health"), node.store());
                    let written = store.put(&probe, Arc::from(*b"probe"), Some(TTL));
                    let probed = async { tokio::join!(written, store.subscribe(&probe, 1)) };
                    let state = match timeout(PROBE, probed).await {
                        Ok((Ok(()), Ok(_))) => StoreState::Working,
                        Ok((Err(error), _)) if error.is_full() => StoreState::Full,
                        _ => StoreState::Unavailable,
                    };
                    next.send_replace(Some(state));
                    Some(state)
                }
            };
            // The request of a probe can end before the probe.
            if let Some(state) = result {
                return state;
            }
        }
    }

    /// Returns the probe of this second, or else the sender for the result of the next probe.
    fn last_or_next(&self) -> Result<watch::Receiver<Option<StoreState>>, watch::Sender<Option<StoreState>>> {
        let mut last = self.last.lock();
        if let Some((at, result)) = &*last
            && at.elapsed() < PROBE
            && (result.borrow().is_some() || result.has_changed().is_ok())
        {
            return Ok(result.clone());
        }
        let (sender, result) = watch::channel(None);
        *last = Some((Instant::now(), result));
        Err(sender)
    }
}

/// The health of a server.
pub(crate) struct Health {
    pub(crate) is_shutting_down: bool,
    /// The state of the shared store, if there is one.
    pub(crate) store: Option<StoreState>,
    /// Whether a failing store changes the status. Otherwise it does not, because stateless requests need no store.
    pub(crate) is_readiness: bool,
}

impl Health {
    /// Answers 200 while the server accepts requests, and 503 after a shutdown began.
    pub(crate) fn answer(self, method: &Method, headers: &http::HeaderMap, cors: &AllowedHeaders) -> Response<Body> {
        let is_head = match *method {
            Method::GET => false,
            Method::HEAD => true,
            Method::OPTIONS => return preflight(headers, METHODS, cors),
            _ => return respond::wrong_method(METHODS),
        };
        let text = match (self.is_shutting_down, self.store) {
            (true, _) => r#"{"status":"shutting down"}"#,
            (false, None) => r#"{"status":"ok"}"#,
            (false, Some(StoreState::Working)) => r#"{"status":"ok","store":"ok"}"#,
            (false, Some(StoreState::Full)) => r#"{"status":"ok","store":"full"}"#,
            (false, Some(StoreState::Unavailable)) => r#"{"status":"ok","store":"unavailable"}"#,
        };
        let has_failed = self.store.is_some_and(|store| store != StoreState::Working);
        let is_unavailable = self.is_shutting_down || self.is_readiness && has_failed;
        let mut response = document(is_head, text.into());
        *response.status_mut() = if is_unavailable { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        response
    }
}

/// A JSON document that no cache stores. A response to HEAD has no body.
pub(crate) fn document(is_head: bool, text: Bytes) -> Response<Body> {
    let body = if is_head { Body::empty() } else { Body::whole(text) };
    respond::with_header(respond::json(body), header::CACHE_CONTROL, HeaderValue::from_static("no-store"))
}

#[cfg(test)]
mod tests {
    use mcp_server_core::{Server, engine::Engine as _};
    use mcp_store::MemoryStore;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_one_probe_in_a_second() {
        let health = StoreHealth::default();
        let server = Server::builder("health", "1").store(Arc::new(MemoryStore::new())).build();
        let node = server.node().unwrap();
        let probe = health.last_or_next().unwrap_err();
        let mut waiting = std::pin::pin!(health.state(node));
        assert!(timeout(Duration::from_millis(10), waiting.as_mut()).await.is_err());
        assert!(health.last_or_next().is_ok());
        probe.send_replace(Some(StoreState::Full));
        assert_eq!(waiting.await, StoreState::Full);
        drop(probe);
        assert_eq!(health.state(node).await, StoreState::Full, "the result of this second");
        tokio::time::advance(PROBE).await;
        // A probe that ends without a result is repeated.
        drop(health.last_or_next().unwrap_err());
        assert_eq!(health.state(node).await, StoreState::Working);
    }
}
