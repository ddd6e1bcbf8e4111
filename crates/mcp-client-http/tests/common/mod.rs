//! A scripted server, and frames for it.

pub(crate) mod byte_server;

use std::{cell::Cell, time::Duration};

use mcp_client_http::Http;
use mcp_protocol::ProtocolVersion;
use mcp_transport::{Connect, Frame, FrameSender, Hints, Route, Transport, TransportError, recv};
use serde_json::{Value, json};

thread_local! {
    /// The longest that a test waits for something that has to happen.
    static DEADLINE: Cell<Duration> = const { Cell::new(Duration::from_secs(20)) };
}

/// Pauses the clock, so that time advances when all tasks are idle. Extends each deadline.
pub(crate) fn pause() {
    tokio::time::pause();
    DEADLINE.set(Duration::from_secs(24 * 60 * 60));
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(DEADLINE.get(), future).await;
    waited.unwrap_or_else(|_| panic!("{what} did not happen"))
}

/// An open transport with helpers for tests.
pub(crate) struct Peer {
    pub(crate) transport: Box<dyn Transport>,
}

pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const LEGACY: &str = "2025-11-25";

/// A received frame: the route and the message.
pub(crate) type Received = (Route, Value);

impl Peer {
    pub(crate) async fn connect(url: &str) -> Self {
        Self::open(&Http::new(url).unwrap()).await
    }

    pub(crate) async fn open(http: &Http) -> Self {
        Self { transport: within("the connection", http.connect()).await.unwrap() }
    }

    /// A peer in a session: the handshake is done.
    pub(crate) async fn in_session(url: &str) -> Self {
        let mut peer = Self::connect(url).await;
        peer.initialize().await;
        peer
    }

    pub(crate) async fn initialize(&mut self) {
        self.request(LEGACY, 0, "initialize").await;
        let (route, answer) = self.next().await.unwrap();
        assert_eq!((route, &answer["id"]), (Route::Request(0.into()), &json!(0)), "{answer}");
        self.notify(LEGACY, "notifications/initialized").await;
    }

    pub(crate) fn sender(&self) -> std::sync::Arc<dyn FrameSender> {
        self.transport.sender()
    }

    pub(crate) async fn send(&self, frame: Frame) {
        within("sending", self.sender().send(frame)).await.unwrap();
    }

    pub(crate) async fn request(&self, version: &str, id: i64, method: &str) {
        self.send(request(version, id, method)).await;
    }

    pub(crate) async fn notify(&self, version: &str, method: &str) {
        let message = json!({ "jsonrpc": "2.0", "method": method });
        self.send(Frame::new(message.to_string()).with_hints(hints(version, method))).await;
    }

    /// Receives the next message as JSON.
    pub(crate) async fn next(&mut self) -> Result<Received, TransportError> {
        let frame = within("an answer", recv(&mut self.transport)).await.expect("the transport has ended")?;
        let message = serde_json::from_slice(&frame.message).unwrap_or_else(|_| {
            // A message that is not JSON becomes a string.
            Value::String(String::from_utf8_lossy(&frame.message).into_owned())
        });
        Ok((frame.route, message))
    }

    /// Receives the next fault, which must belong to this request.
    pub(crate) async fn fault(&mut self, id: i64) -> TransportError {
        let error = self.next().await.unwrap_err();
        assert_eq!(error.request(), Some(&id.into()), "{error}");
        error
    }

    /// The end.
    pub(crate) async fn ended(&mut self) {
        let next = within("the end", recv(&mut self.transport)).await;
        assert!(next.is_none(), "{next:?}");
    }

    /// Checks that no received frame is left.
    pub(crate) async fn nothing(&mut self) {
        tokio::select! {
            biased;
            next = recv(&mut self.transport) => panic!("{next:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
}

pub(crate) fn hints(version: &str, method: &str) -> Hints {
    let mut hints = Hints::default();
    hints.version = ProtocolVersion::parse(version);
    hints.method = Some(method.into());
    hints
}

pub(crate) fn request(version: &str, id: i64, method: &str) -> Frame {
    let mut params = json!({});
    if version == MODERN {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    } else if method == "initialize" {
        params =
            json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    }
    request_with(version, id, method, params)
}

pub(crate) fn request_with(version: &str, id: i64, method: &str, params: Value) -> Frame {
    let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let name = message["params"]["name"].as_str().map(Into::into);
    let mut hints = hints(version, method);
    hints.name = name;
    Frame::new(message.to_string()).with_hints(hints).with_route(Route::Request(id.into()))
}

/// The answer to a request.
pub(crate) fn answer(id: i64) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": {} }).to_string()
}

/// A notification of the server.
pub(crate) fn notice(number: i64) -> String {
    json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": { "data": number } }).to_string()
}
