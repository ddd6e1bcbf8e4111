//! Faults that a transport reports, as the HTTP transport does: about one request or about the session.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use mcp_client::{
    Client, Reconnect, State,
    protocol::{Message, ProtocolVersion, RequestId, notification},
    transport::{BoxFuture, Connect, Frame, FrameSender, Transport, TransportError, TrySendError},
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::common::{builder, discovery, initialized, tool_result};

type Inbound = Result<Frame, TransportError>;

/// The outcome of a request: a response or a fault.
type Answering = Arc<dyn Fn(&str, usize) -> Result<Value, TransportError> + Send + Sync>;

/// Answers each request by its method and the number of earlier requests with that method.
#[derive(Clone)]
struct Faulty {
    answering: Answering,
    seen: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

struct FaultyTransport {
    inbound: UnboundedReceiver<Inbound>,
    sender: Arc<FaultySender>,
}

struct FaultySender {
    faulty: Faulty,
    inbound: UnboundedSender<Inbound>,
}

impl Faulty {
    fn new(answering: impl Fn(&str, usize) -> Result<Value, TransportError> + Send + Sync + 'static) -> Self {
        Self { answering: Arc::new(answering), seen: Arc::default(), connections: Arc::default() }
    }

    fn count_of(&self, method: &str) -> usize {
        self.seen.lock().unwrap().iter().filter(|known| *known == method).count()
    }
}

impl Connect for Faulty {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        self.connections.fetch_add(1, Ordering::SeqCst);
        let (sender, inbound) = unbounded_channel();
        let sender = Arc::new(FaultySender { faulty: self.clone(), inbound: sender });
        let transport: Box<dyn Transport> = Box::new(FaultyTransport { inbound, sender });
        Box::pin(std::future::ready(Ok(transport)))
    }

    fn describe(&self) -> String {
        "faults".into()
    }
}

impl Transport for FaultyTransport {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Inbound>> {
        self.inbound.poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        self.sender.clone()
    }
}

impl FrameSender for FaultySender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        if let Ok(Message::Request(request)) = Message::parse(&frame.message) {
            let times = self.faulty.count_of(&request.method);
            self.faulty.seen.lock().unwrap().push(request.method.to_string());
            let inbound = match (self.faulty.answering)(&request.method, times) {
                Ok(mut result) => {
                    // A member `code` marks the answer as an error.
                    let outcome = if result.get("code").is_some() { "error" } else { "result" };
                    let answer = json!({ "jsonrpc": "2.0", "id": request.id, outcome: result.take() });
                    Ok(Frame::new(answer.to_string()))
                }
                Err(fault) => Err(fault.of_request(request.id)),
            };
            self.inbound.send(inbound).unwrap();
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn try_send(&self, _: Frame) -> Result<(), TrySendError> {
        Ok(())
    }

    fn ready(&self, _: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn close(&self, _: &RequestId) {}

    fn has_request_streams(&self) -> bool {
        true
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Opens in the era of a revision, and answers all other requests by `rest`.
fn server(
    version: ProtocolVersion,
    rest: impl Fn(&str, usize) -> Result<Value, TransportError> + Send + Sync + 'static,
) -> Faulty {
    Faulty::new(move |method, times| match method {
        "server/discover" if version.has_handshake() => Err(TransportError::http(400, None, "what?")),
        "server/discover" => Ok(discovery(&["2026-07-28"])),
        "initialize" => Ok(initialized(version.as_str())),
        _ => rest(method, times),
    })
}

async fn connect(faulty: &Faulty) -> Client {
    builder().connect(faulty).await.unwrap()
}

const ERAS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

#[tokio::test(start_paused = true)]
async fn http_statuses_determine_the_era_or_are_errors() {
    for (status, is_legacy) in
        [(400, true), (404, true), (405, true), (401, false), (403, false), (500, false), (503, false)]
    {
        let faulty = Faulty::new(move |method, _| match method {
            "server/discover" => Err(TransportError::http(status, Some(Duration::from_secs(7)), "no")),
            _ => Ok(initialized("2025-11-25")),
        });
        match builder().connect(&faulty).await {
            Ok(client) => assert!(is_legacy && client.version().has_handshake(), "{status}"),
            Err(error) => {
                assert!(!is_legacy, "{status}: {error}");
                assert_eq!((error.http_status(), error.is_unauthorized()), (Some(status), status == 401));
                assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
                assert_eq!(faulty.count_of("initialize"), 0);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_fall_back_after_a_stateless_error_with_status_400() {
    // The transport returns the body of such a 400 as an ordinary response.
    let refusal = json!({ "code": -32022, "message": "no", "data": { "supported": ["2026-07-28"], "requested": "x" } });
    let faulty = Faulty::new(move |method, times| match (method, times) {
        ("server/discover", 0) => Ok(refusal.clone()),
        ("server/discover", _) => Ok(discovery(&["2026-07-28"])),
        _ => Ok(tool_result("done")),
    });
    assert!(connect(&faulty).await.version().is_stateless());
    assert_eq!((faulty.count_of("server/discover"), faulty.count_of("initialize")), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn reopens_a_lost_session_and_repeats_the_call() {
    let version = ProtocolVersion::V2025_11_25;
    let faulty = server(version, |_, times| match times {
        0 => Err(TransportError::session_lost()),
        _ => Ok(tool_result("again")),
    });
    let client = connect(&faulty).await;
    assert_eq!(client.call_tool("t", ()).await.unwrap().text(), "again");
    assert_eq!((faulty.count_of("initialize"), faulty.count_of("tools/call")), (2, 2));
    assert_eq!(faulty.connections.load(Ordering::SeqCst), 2);
    assert_eq!(client.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn repeats_a_request_whose_stream_ended_if_it_is_safe() {
    for version in ERAS {
        let faulty = server(version, |method, times| match (method, times) {
            (_, 0) => Err(TransportError::unanswered()),
            ("prompts/list", _) => Ok(json!({ "resultType": "complete", "prompts": [] })),
            _ => Ok(tool_result("again")),
        });
        let client = connect(&faulty).await;
        assert!(client.list_prompts().await.unwrap().is_empty());
        let error = client.call_tool("t", ()).await.unwrap_err();
        assert!(error.is_retryable(), "{version}: {error}");
        assert_eq!((faulty.count_of("prompts/list"), faulty.count_of("tools/call")), (2, 1), "{version}");
        assert_eq!(faulty.connections.load(Ordering::SeqCst), 1, "the connection stays open");
    }
}

#[tokio::test(start_paused = true)]
async fn an_http_status_fails_only_its_own_call() {
    for version in ERAS {
        for (status, is_retryable) in [(401, false), (403, false), (429, true), (500, false), (503, true)] {
            let faulty = server(version, move |_, times| match times {
                0 => Err(TransportError::http(status, Some(Duration::from_secs(2)), "no")),
                _ => Ok(tool_result("fine")),
            });
            let client = connect(&faulty).await;
            let error = client.call_tool("t", ()).await.unwrap_err();
            assert_eq!((error.http_status(), error.is_retryable()), (Some(status), is_retryable), "{version}");
            assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
            assert_eq!(client.call_tool("t", ()).await.unwrap().text(), "fine", "{version}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_http_status_answers_a_ping_except_from_a_gateway() {
    for version in ERAS {
        for (status, is_life) in [(404, true), (429, true), (500, true), (503, true), (502, false), (504, false)] {
            // The first one opens the connection in the newest era.
            let opened = usize::from(version.is_stateless());
            let faulty = Faulty::new(move |method, times| match method {
                "server/discover" if version.has_handshake() => Err(TransportError::http(400, None, "what?")),
                "server/discover" if times < opened => Ok(discovery(&["2026-07-28"])),
                "initialize" => Ok(initialized(version.as_str())),
                _ => Err(TransportError::http(status, None, "")),
            });
            let pinging = builder().ping_interval(Duration::from_secs(10)).ping_threshold(2);
            let client = pinging.connect(&faulty).await.unwrap();
            tokio::time::sleep(Duration::from_secs(45)).await;
            let connections = faulty.connections.load(Ordering::SeqCst);
            assert_eq!(connections == 1, is_life, "{status}, {version}: {connections}");
            drop(client);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn detects_a_server_that_returns_to_sessions() {
    let http = |status| Err(TransportError::http(status, None, "no session"));
    let rpc = |code: i64| Ok(json!({ "code": code, "message": "no session", "data": { "supported": ["2025-11-25"] } }));
    for (what, refusal, is_made_again) in [
        ("400", http(400), true),
        ("405", http(405), true),
        ("-32600", rpc(-32600), true),
        ("-32601", rpc(-32601), true),
        ("-32022", rpc(-32022), true),
        // The status is ambiguous: the request may have failed halfway.
        ("-32000", rpc(-32000), false),
    ] {
        let (is_back, in_session) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (back, session) = (Arc::clone(&is_back), Arc::clone(&in_session));
        let faulty = Faulty::new(move |method, _| match method {
            "initialize" => {
                session.store(true, Ordering::SeqCst);
                Ok(initialized("2025-11-25"))
            }
            "server/discover" if !back.load(Ordering::SeqCst) => Ok(discovery(&["2026-07-28"])),
            _ if back.load(Ordering::SeqCst) && !session.load(Ordering::SeqCst) => refusal.clone(),
            "subscriptions/listen" => Err(TransportError::http(500, None, "not here")),
            "resources/subscribe" => Ok(json!({})),
            _ => Ok(tool_result("done")),
        });
        let client = connect(&faulty).await;
        assert_eq!(client.call_tool("t", ()).await.unwrap().text(), "done", "{what}");
        is_back.store(true, Ordering::SeqCst);
        let called = client.call_tool("t", ()).await;
        assert_eq!(called.is_ok(), is_made_again, "{what}");
        assert_eq!(client.call_tool("t", ()).await.unwrap().text(), "done", "{what}");
        assert_eq!(client.version(), ProtocolVersion::V2025_11_25, "{what}");

        // The same holds for a subscription.
        in_session.store(false, Ordering::SeqCst);
        is_back.store(false, Ordering::SeqCst);
        let client = connect(&faulty).await;
        is_back.store(true, Ordering::SeqCst);
        client.subscribe(["a:b"]).await.unwrap();
        assert_eq!(client.version(), ProtocolVersion::V2025_11_25, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn does_not_probe_an_unchanged_server_for_every_rejection() {
    let faulty = server(ProtocolVersion::V2026_07_28, |method, _| match method {
        "subscriptions/listen" => Ok(json!({ "code": -32022, "message": "no" })),
        _ => Ok(json!({ "code": -32601, "message": "no" })),
    });
    let client = connect(&faulty).await;
    for _ in 0..10 {
        assert_eq!(client.call_tool("t", ()).await.unwrap_err().rpc().unwrap().code.0, -32601);
    }
    assert_eq!((faulty.count_of("tools/call"), faulty.count_of("server/discover")), (10, 2));
    // The number of connections is limited, too.
    assert_eq!(client.subscribe(["a:b"]).await.unwrap_err().rpc().unwrap().code.0, -32022);
    assert!(faulty.connections.load(Ordering::SeqCst) < 10);
}

/// A client with a callback that has to be subscribed for.
async fn listening(faulty: &Faulty) -> Client {
    let policy = Reconnect::default().attempts(3);
    builder().reconnect(policy).on::<notification::ToolListChanged>(|_| {}).connect(faulty).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn renews_callback_subscriptions_unless_the_server_rejects_them() {
    let http = |status| Err(TransportError::http(status, None, "no"));
    for (what, first, is_refused) in [
        ("500", http(500), false),
        ("503", http(503), false),
        ("no result", Ok(json!({ "resultType": "complete" })), false),
        ("403", http(403), true),
        ("no such method", Ok(json!({ "code": -32601, "message": "no" })), true),
    ] {
        let faulty = server(ProtocolVersion::V2026_07_28, move |_, _| first.clone());
        let client = listening(&faulty).await;
        tokio::time::sleep(Duration::from_secs(300)).await;
        let count = faulty.count_of("subscriptions/listen");
        assert_eq!(count == 1, is_refused, "{what}: {count}");
        assert!(count < 20, "{what}: {count}");
        drop(client);
    }
}

#[tokio::test(start_paused = true)]
async fn renews_callback_subscriptions_when_the_server_recovers() {
    for status in [401, 500] {
        let is_ill = Arc::new(AtomicBool::new(false));
        let ill = Arc::clone(&is_ill);
        let faulty = Faulty::new(move |method, _| match method {
            "server/discover" if ill.load(Ordering::SeqCst) => Err(TransportError::http(status, None, "it burns")),
            "server/discover" => Ok(discovery(&["2026-07-28"])),
            "subscriptions/listen" => Err(TransportError::unanswered()),
            _ => Ok(tool_result("well")),
        });
        let client = listening(&faulty).await;
        let mut states = client.states();
        is_ill.store(true, Ordering::SeqCst);
        client.reconnect();
        states.wait_for(|state| *state == State::Down).await.unwrap();
        // No subscription and no call needs the server, so the client does not reconnect.
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let (before, probes) = (faulty.count_of("subscriptions/listen"), faulty.count_of("server/discover"));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(faulty.count_of("server/discover"), probes, "{status}");
        is_ill.store(false, Ordering::SeqCst);
        assert_eq!(client.call_tool("t", ()).await.unwrap().text(), "well", "{status}");
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(faulty.count_of("subscriptions/listen") > before, "{status}");
    }
}
