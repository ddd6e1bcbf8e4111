//! Calls over a transport whose requests run in the future of their caller.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use mcp_client::{
    Client,
    protocol::{ProtocolVersion, RequestId},
    transport::{BoxFuture, Connect, Exchange, Frame, FrameSender, Transport, TransportError, TrySendError},
};
use serde_json::{Value, json};
use tokio::{sync::oneshot, time::Instant};

use crate::common::{
    Peer, Scripted, builder, scripted,
    scripted_site::{ERAS, outcome},
    start, tool_result,
};

/// The running exchanges. Each returns the message that the test sends, or `None`.
type Running = Arc<Mutex<Vec<oneshot::Sender<Option<String>>>>>;

/// Opens connections whose tool calls are exchanges.
struct Exchanges(Scripted, Running);

struct ExchangeTransport(Box<dyn Transport>, Running);

struct ExchangeSender(Arc<dyn FrameSender>, Running);

impl Connect for Exchanges {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        Box::pin(async {
            let inner = self.0.connect().await?;
            Ok(Box::new(ExchangeTransport(inner, Arc::clone(&self.1))) as Box<dyn Transport>)
        })
    }

    fn describe(&self) -> String {
        "exchanges".into()
    }
}

impl Transport for ExchangeTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        self.0.poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        Arc::new(ExchangeSender(self.0.sender(), Arc::clone(&self.1)))
    }
}

impl FrameSender for ExchangeSender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.send(frame)
    }

    fn exchange(&self, frame: Frame) -> BoxFuture<'_, Result<Option<Exchange>, TransportError>> {
        Box::pin(async move {
            let route = frame.route.clone();
            self.0.send(frame).await?;
            let (respond, response) = oneshot::channel();
            self.1.lock().unwrap().push(respond);
            let exchange = async move { Some(Frame::new(response.await.ok()??).with_route(route)) };
            Ok(Some(Box::pin(exchange) as Exchange))
        })
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        self.0.try_send(frame)
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.ready(len)
    }

    fn close(&self, id: &RequestId) {
        self.0.close(id);
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.shutdown()
    }
}

async fn connect(version: ProtocolVersion) -> (Client, Peer, Running) {
    let (inner, mut peers) = scripted();
    let running = Running::default();
    let connecting = start(builder().connect(Exchanges(inner, Arc::clone(&running))));
    let mut peer = peers.next().await;
    peer.open_any(version).await;
    (connecting.await.unwrap().unwrap(), peer, running)
}

fn take(running: &Running) -> oneshot::Sender<Option<String>> {
    running.lock().unwrap().pop().unwrap()
}

fn response(id: &Value, members: Value) -> String {
    let Value::Object(mut message) = members else { panic!("{members} is not an object") };
    message.insert("jsonrpc".to_owned(), "2.0".into());
    message.insert("id".to_owned(), id.clone());
    Value::Object(message).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_call_reads_the_response_of_its_exchange_as_the_reader_does() {
    for version in ERAS {
        let (client, mut peer, running) = connect(version).await;
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        for (what, message, expected) in [
            ("a result", (|id| response(id, json!({ "result": tool_result("done") }))) as fn(&Value) -> _, "ok: done"),
            ("an error", |id| response(id, json!({ "error": { "code": 1, "message": "m" } })), ""),
            ("a request", |id| response(id, json!({ "method": "ping" })), "invalid"),
            ("a notification", |_| json!({ "jsonrpc": "2.0", "method": "m" }).to_string(), "invalid"),
            ("another text", |_| "x".to_owned(), "invalid"),
            ("an id as a text", |id| response(&id.to_string().into(), json!({ "result": {} })), "invalid"),
        ] {
            let call = start(client.call_tool("t", ()));
            let id = peer.expect("tools/call").await;
            take(&running).send(Some(message(&id))).unwrap();
            assert_eq!(outcome(call.await.unwrap()), expected, "{version} {what}");
        }
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        let message = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"x":{deep}}}}}"#);
        take(&running).send(Some(message)).unwrap();
        assert!(call.await.unwrap().unwrap_err().is_invalid_response(), "{version}");
        assert_eq!(client.pending(), 0, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_the_transport_reach_a_call_with_an_exchange() {
    for version in ERAS {
        for has_ended in [true, false] {
            let (client, mut peer, running) = connect(version).await;
            let call = start(client.call_tool("t", ()).idle_timeout(Duration::from_secs(10)));
            let id = peer.expect("tools/call").await;
            let mut respond = Some(take(&running));
            if has_ended {
                respond.take().unwrap().send(None).unwrap();
            }
            let began = Instant::now();
            for progress in 1..4 {
                tokio::time::sleep(Duration::from_secs(8)).await;
                peer.notify("notifications/progress", json!({ "progressToken": id, "progress": progress })).await;
            }
            peer.answer(id, tool_result("done")).await;
            assert_eq!(outcome(call.await.unwrap()), "ok: done", "{version} {has_ended}");
            assert!(began.elapsed() >= Duration::from_secs(24), "each report restarts the idle timeout");
            assert!(respond.is_none_or(|respond| respond.is_closed()), "the exchange ends with the call");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_early_drops_its_exchange() {
    for version in ERAS {
        for how in ["drop", "timeout", "close", "loss"] {
            let (client, mut peer, running) = connect(version).await;
            let call = start(client.call_tool("t", ()).idle_timeout(Duration::from_secs(10)));
            let id = peer.expect("tools/call").await;
            let mut respond = take(&running);
            match how {
                "drop" => call.abort(),
                "close" => client.close().await,
                "loss" => {
                    peer.close();
                    respond.closed().await;
                    assert!(call.await.unwrap().unwrap_err().is_closed(), "{version}");
                    continue;
                }
                _ => {}
            }
            respond.closed().await;
            let cancelled = peer.recv().await;
            assert_eq!(cancelled["method"], "notifications/cancelled", "{version} {how}");
            assert_eq!(cancelled["params"]["requestId"], id, "{version} {how}");
            assert_eq!(client.pending(), 0, "{version} {how}");
            if how == "timeout" {
                assert!(call.await.unwrap().unwrap_err().is_timeout(), "{version}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_has_an_exchange_unless_another_call_waits() {
    let (client, mut peer, running) = connect(ProtocolVersion::V2026_07_28).await;
    let subscribing = tokio::spawn({
        let client = client.clone();
        async move { client.subscribe(["a:b"]).await }
    });
    let listen = peer.expect("subscriptions/listen").await;
    let meta = json!({ "io.modelcontextprotocol/subscriptionId": listen });
    let params = json!({ "notifications": { "resourceSubscriptions": ["a:b"] }, "_meta": meta });
    peer.notify("notifications/subscriptions/acknowledged", params).await;
    let _subscription = subscribing.await.unwrap().unwrap();
    let first = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    let second = start(client.call_tool("t", ()));
    let other = peer.expect("tools/call").await;
    assert_eq!(running.lock().unwrap().len(), 1);
    take(&running).send(Some(response(&id, json!({ "result": tool_result("first") })))).unwrap();
    assert_eq!(outcome(first.await.unwrap()), "ok: first");
    peer.answer(other, tool_result("second")).await;
    assert_eq!(outcome(second.await.unwrap()), "ok: second");
}
