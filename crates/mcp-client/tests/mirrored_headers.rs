//! Arguments that HTTP mirrors in headers. The test transport has one stream per request, as HTTP has.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::{Arc, Mutex};

use mcp_client::{
    protocol::{ProtocolVersion, RequestId},
    transport::{BoxFuture, Connect, Frame, FrameSender, Hints, Transport, TransportError, TrySendError},
};
use serde_json::{Value, json};
use std::task::{Context, Poll};

use crate::common::{Peer, Scripted, builder, scripted, start, tool_result};

/// The header hints of the sent frames.
#[derive(Clone, Default)]
struct Seen {
    hints: Arc<Mutex<Vec<Hints>>>,
    closed: Arc<Mutex<Vec<RequestId>>>,
}

/// A transport like HTTP: requests have streams.
struct Streams {
    inner: Scripted,
    seen: Seen,
}

struct StreamTransport(Box<dyn Transport>, Seen);

struct StreamSender(Arc<dyn FrameSender>, Seen);

impl Connect for Streams {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async {
            let inner = self.inner.connect().await?;
            Ok(Box::new(StreamTransport(inner, self.seen.clone())) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        "streams".into()
    }
}

impl Transport for StreamTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        self.0.poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        Arc::new(StreamSender(self.0.sender(), self.1.clone()))
    }
}

impl FrameSender for StreamSender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        self.1.hints.lock().unwrap().push(frame.hints.clone());
        self.0.send(frame)
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        self.0.try_send(frame)
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.ready(len)
    }

    fn close(&self, id: &RequestId) {
        self.1.closed.lock().unwrap().push(id.clone());
    }

    fn has_request_streams(&self) -> bool {
        true
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.shutdown()
    }
}

async fn connect(version: ProtocolVersion) -> (mcp_client::Client, Peer, Seen) {
    let (inner, mut peers) = scripted();
    let seen = Seen::default();
    let connecting = start(builder().connect(Streams { inner, seen: seen.clone() }));
    let mut peer = peers.next().await;
    peer.open_any(version).await;
    (connecting.await.unwrap().unwrap(), peer, seen)
}

fn tool(name: &str, header: &str) -> Value {
    let region = json!({ "type": "string", "x-mcp-header": header });
    json!({ "name": name, "inputSchema": { "type": "object", "properties": { "region": region } } })
}

async fn list(client: &mcp_client::Client, peer: &mut Peer, tools: Value) -> Vec<String> {
    let listing = start(client.list_tools());
    let id = peer.expect("tools/list").await;
    peer.answer(id, json!({ "resultType": "complete", "tools": tools })).await;
    listing.await.unwrap().unwrap().into_iter().map(|tool| tool.name).collect()
}

#[tokio::test(start_paused = true)]
async fn mirrors_names_and_annotated_arguments_and_omits_invalid_tools() {
    let (client, mut peer, seen) = connect(ProtocolVersion::V2026_07_28).await;
    assert_eq!(list(&client, &mut peer, json!([tool("t", "Region"), tool("bad", "a b")])).await, ["t"]);
    let call = start(client.call_tool("t", json!({ "region": "eu" })));
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("done")).await;
    call.await.unwrap().unwrap();
    let hints = seen.hints.lock().unwrap().pop().unwrap();
    assert_eq!((hints.method.as_deref(), hints.name.as_deref()), (Some("tools/call"), Some("t")));
    assert_eq!(hints.version, Some(ProtocolVersion::V2026_07_28));
    assert_eq!(hints.params, [("Region".into(), "eu".into())]);
}

#[tokio::test(start_paused = true)]
async fn repeats_a_call_with_a_header_that_the_server_misses() {
    let (client, mut peer, seen) = connect(ProtocolVersion::V2026_07_28).await;
    let call = start(client.call_tool("t", json!({ "region": "eu" })));
    let id = peer.expect("tools/call").await;
    let mismatch = json!({ "code": -32020, "message": "Mcp-Param-Region is missing" });
    peer.refuse(id, mismatch.clone()).await;
    let id = peer.expect("tools/list").await;
    peer.answer(id, json!({ "resultType": "complete", "tools": [tool("t", "Region")] })).await;
    let id = peer.expect("tools/call").await;
    assert_eq!(seen.hints.lock().unwrap().last().unwrap().params, [("Region".into(), "eu".into())]);
    // Once is enough.
    peer.refuse(id, mismatch).await;
    assert_eq!(call.await.unwrap().unwrap_err().rpc().unwrap().code.0, -32020);
}

#[tokio::test(start_paused = true)]
async fn older_revisions_mirror_nothing_and_keep_every_tool() {
    let (client, mut peer, seen) = connect(ProtocolVersion::V2025_11_25).await;
    assert_eq!(list(&client, &mut peer, json!([tool("t", "Region"), tool("bad", "a b")])).await, ["t", "bad"]);
    let call = start(client.call_tool("t", json!({ "region": "eu" })));
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("done")).await;
    call.await.unwrap().unwrap();
    let hints = seen.hints.lock().unwrap();
    assert!(hints.last().unwrap().params.is_empty() && hints.last().unwrap().name.is_none());
    // The first request of a session names no revision. All later messages do.
    let opening = hints.iter().find(|hints| hints.method.as_deref() == Some("initialize")).unwrap();
    assert_eq!(opening.version, None);
    assert_eq!(hints.last().unwrap().version, Some(ProtocolVersion::V2025_11_25));
}

#[tokio::test(start_paused = true)]
async fn closing_a_stream_cancels_its_call() {
    for version in [ProtocolVersion::V2026_07_28, ProtocolVersion::V2025_11_25] {
        let (client, mut peer, seen) = connect(version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        call.abort();
        if version.has_handshake() {
            peer.expect("notifications/cancelled").await;
        }
        let ping = start(async move { client.ping().await });
        let next = peer.recv().await;
        assert_ne!(next["method"], "notifications/cancelled", "{version}");
        assert_eq!(seen.closed.lock().unwrap().last(), Some(&RequestId::from(id.as_i64().unwrap())), "{version}");
        ping.abort();
    }
}
