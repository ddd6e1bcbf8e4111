//! The spans of requests as a subscriber observes them, and the parent traces of clients.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_protocol::{CreateMessageParams, ProtocolVersion, RpcError, SamplingMessage, TraceContext};
use mcp_server_core::{
    Args, Caller, Context, Inputs, Propagate, Server, TaskPolicy, TaskSupport, ToolError,
    engine::{Engine as _, Peer},
    prompt, resource, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::{
    Span, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{
    Layer,
    layer::{Context as LayerContext, SubscriberExt as _},
    registry::LookupSpan,
};

use crate::{
    common::{Connection, call, cancel, code, hold, initialize, legacy, modern, notification, slow, subscribe},
    json_client::request_with_scope,
    stalling_store::StallingStore,
};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const OURS: &str = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

/// One recorded span with its parent.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    fields: BTreeMap<String, String>,
    parent: Option<String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let twice = self.fields.insert(field.name().to_owned(), format!("{value:?}"));
        assert_eq!(twice, None, "{field} is recorded twice");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// The spans that have closed, in that order.
#[derive(Debug, Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Seen>>>);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: LayerContext<'_, S>) {
        if attributes.metadata().target() == "mcp_server" {
            let span = context.span(id).unwrap();
            let parent =
                span.parent().and_then(|span| span.extensions().get::<Seen>()?.fields.get("otel.name").cloned());
            let mut seen = Seen { parent, ..Seen::default() };
            attributes.record(&mut seen);
            span.extensions_mut().insert(seen);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: LayerContext<'_, S>) {
        if let Some(seen) = context.span(id).unwrap().extensions_mut().get_mut::<Seen>() {
            values.record(seen);
        }
    }

    fn on_close(&self, id: Id, context: LayerContext<'_, S>) {
        self.0.lock().unwrap().extend(context.span(&id).unwrap().extensions_mut().remove::<Seen>());
    }
}

impl Recorder {
    fn listen() -> (Self, DefaultGuard) {
        let recorder = Self::default();
        let guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
        (recorder, guard)
    }

    /// This thread has no subscriber, unlike the threads of other tests.
    fn silence() -> DefaultGuard {
        subscribe(tracing::subscriber::NoSubscriber::new())
    }

    /// The spans that closed since the last look, once all that is done is dropped.
    async fn take(&self) -> Vec<Seen> {
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        std::mem::take(&mut self.0.lock().unwrap())
    }

    async fn one(&self) -> Seen {
        let mut seen = self.take().await;
        assert_eq!(seen.len(), 1, "{seen:?}");
        seen.remove(0)
    }
}

#[derive(Deserialize, JsonSchema)]
struct Wanted {
    ok: bool,
}

fn server() -> Server {
    Server::builder("traced", "1")
        .tool(tool("echo", async |Args(Wanted { ok }): Args<Wanted>| ok.then_some("ok").ok_or(ToolError::new("no"))))
        .tool(tool("broken", async || Err::<(), _>(ToolError::protocol(RpcError::internal("broken")))))
        .tool(tool("asks", async |inputs: Inputs| -> Result<String, ToolError> {
            let params = CreateMessageParams::new(vec![SamplingMessage::user("?")], 10);
            Ok(inputs.sample("sum", params).await?.content.text())
        }))
        .tool(tool("later", async || "later").task(TaskSupport::Required))
        .tool(tool("where", async |context: Context| {
            let at = context.trace_context();
            let parts = at.as_ref().map(|at| [at.trace_id(), at.tracestate(), at.baggage()]);
            format!("{parts:?} {}", context.span().is_disabled())
        }))
        .resource(resource("x:a", async || "a"))
        .prompt(prompt("intro", async || "hello"))
        .build()
}

fn expect(seen: &Seen, expected: &[(&str, &str)]) {
    let expected: BTreeMap<_, _> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(seen.fields, expected);
}

#[tokio::test]
async fn every_request_has_a_span_by_the_conventions() {
    let server = server();
    let (recorder, _guard) = Recorder::listen();
    let mut connection = Connection::connect(&server);
    let all = |method: &str, name: &str, version: &str, id: &str| {
        [
            ("otel.kind", "server"),
            ("otel.name", name),
            ("mcp.method.name", method),
            ("mcp.protocol.version", version),
            ("jsonrpc.request.id", id),
            ("network.transport", "pipe"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
    };
    let fails = |code: &'static str| vec![("error.type", code), ("otel.status_code", "ERROR")];
    let status = |code: &'static str| [fails(code), vec![("rpc.response.status_code", code)]].concat();
    let tool = |name: &'static str| vec![("gen_ai.operation.name", "execute_tool"), ("gen_ai.tool.name", name)];
    let cases = [
        ("tools/list", json!({}), "tools/list", vec![]),
        ("tools/call", json!({ "name": "echo", "arguments": { "ok": true } }), "tools/call echo", tool("echo")),
        (
            "tools/call",
            json!({ "name": "echo", "arguments": { "ok": false } }),
            "tools/call echo",
            [tool("echo"), fails("tool_error")].concat(),
        ),
        ("tools/call", call("broken"), "tools/call broken", [tool("broken"), status("-32603")].concat()),
        ("tools/call", call("later"), "tools/call later", [tool("later"), status("-32021")].concat()),
        // Unknown names of clients do not become span names.
        ("tools/call", call("none"), "tools/call", status("-32602")),
        ("none/such", json!({}), "_OTHER", status("-32601")),
        ("prompts/get", json!({ "name": "intro" }), "prompts/get intro", vec![("gen_ai.prompt.name", "intro")]),
        ("resources/read", json!({ "uri": "x:a" }), "resources/read", vec![("mcp.resource.uri", "x:a")]),
        ("resources/read", json!({ "uri": "x:b" }), "resources/read", status("-32602")),
    ];
    for (method, params, name, more) in cases {
        connection.exchange(modern("r", method, params)).await;
        let seen = recorder.one().await;
        let known = if method == "none/such" { "_OTHER" } else { method };
        let common = all(known, name, "2026-07-28", "r");
        let common = common.iter().map(|(name, value)| (*name, value.as_str()));
        expect(&seen, &common.chain(more).collect::<Vec<_>>());
    }
    connection.exchange(initialize("2025-06-18")).await;
    let seen = recorder.one().await;
    let common = all("initialize", "initialize", "2025-06-18", "open");
    expect(&seen, &common.iter().map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_span_of_a_local_call_has_no_transport() {
    let server = server();
    let (recorder, _guard) = Recorder::listen();
    server.read_resource("x:a").await.unwrap();
    let seen = recorder.one().await;
    assert_eq!(seen.fields["otel.name"], "resources/read");
    assert!(!seen.fields.contains_key("network.transport") && !seen.fields.contains_key("network.protocol.name"));
}

#[tokio::test]
async fn spans_distinguish_sessions_without_disclosing_their_ids() {
    let (recorder, _guard) = Recorder::listen();
    let server = server();
    let peer = Peer::new(mcp_transport::Transport::sender(&mcp_transport::memory::duplex(1).0), 1);
    let mut seen = Vec::new();
    for id in ["mcp_secret", "mcp_secret", "mcp_other"] {
        let text = initialize("2025-11-25").to_string();
        let Ok(mcp_protocol::Message::Request(request)) = mcp_protocol::Message::parse(text.as_bytes()) else {
            panic!()
        };
        server.initialize(&request, &Caller::remote().session_id(id), &peer).unwrap();
        let fields = recorder.one().await.fields;
        assert_eq!((&*fields["network.transport"], &*fields["network.protocol.name"]), ("tcp", "http"));
        seen.push(fields["mcp.session.id"].clone());
    }
    assert!(seen[0] == seen[1] && seen[1] != seen[2] && seen.iter().all(|id| id.len() == 16), "{seen:?}");
}

/// A trace propagator with its own trace id.
struct Bridge(Arc<Mutex<Vec<String>>>);

impl Propagate for Bridge {
    fn extract(&self, parent: &TraceContext, span: &Span) {
        assert!(!span.is_disabled());
        self.0.lock().unwrap().push(parent.traceparent().unwrap_or("none").to_owned());
    }

    fn inject(&self, _span: &Span) -> Option<TraceContext> {
        TraceContext::new(OURS)
    }
}

#[tokio::test]
async fn input_requests_carry_the_trace_of_their_call() {
    let bridged = Arc::new(Mutex::new(Vec::new()));
    let with_bridge = {
        let params = || CreateMessageParams::new(vec![SamplingMessage::user("?")], 10);
        Server::builder("bridged", "1").propagate(Bridge(bridged.clone())).tool(tool(
            "asks",
            async move |inputs: Inputs| -> Result<String, ToolError> {
                Ok(inputs.sample("sum", params()).await?.content.text())
            },
        ))
    }
    .build();
    let sent_meta = json!({ "traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2" });
    for (server, listens, sent_meta, carried) in [
        (server(), false, sent_meta.clone(), sent_meta.clone()),
        (server(), true, sent_meta.clone(), sent_meta.clone()),
        (server(), true, json!({ "traceparent": "x", "tracestate": "a=1" }), Value::Null),
        (server(), true, json!({}), Value::Null),
        (with_bridge.clone(), true, sent_meta.clone(), json!({ "traceparent": OURS })),
        // Without a subscriber there is no span.
        (with_bridge, false, sent_meta.clone(), sent_meta),
    ] {
        let _silence = Recorder::silence();
        let listening = listens.then(Recorder::listen);
        let (near, mut far) = mcp_transport::memory::duplex(8);
        let serving = tokio::spawn(async move { server.serve(near).await });
        let mut legacy_client = Client(&mut far);
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": { "sampling": {} },
            "clientInfo": { "name": "c", "version": "1" },
        });
        legacy_client.send(legacy(0, "initialize", params)).await;
        legacy_client.receive().await;
        legacy_client.send(notification("notifications/initialized", json!({}))).await;
        legacy_client
            .send(legacy(1, "tools/call", json!({ "name": "asks", "arguments": {}, "_meta": sent_meta })))
            .await;
        let question = legacy_client.receive().await;
        assert_eq!(question["method"], "sampling/createMessage");
        assert_eq!(question["params"]["_meta"], carried, "{sent_meta}");
        let refusal = json!({ "code": -1, "message": "User rejected" });
        legacy_client.send(json!({ "jsonrpc": "2.0", "id": question["id"], "error": refusal })).await;
        assert_eq!(legacy_client.receive().await["result"]["isError"], true);
        if let Some((recorder, _guard)) = &listening {
            let seen = recorder.take().await;
            let [question, call] = &seen[1..] else { panic!("{seen:?}") };
            let (name, parent) = ("sampling/createMessage", Some("tools/call asks"));
            assert_eq!((&*question.fields["otel.name"], question.parent.as_deref()), (name, parent));
            assert_eq!((&*question.fields["otel.kind"], &*question.fields["error.type"]), ("client", "-1"));
            let followed = call.fields.get("traceparent").map(String::as_str);
            assert_eq!(followed, Some(PARENT).filter(|_| sent_meta["traceparent"] == PARENT));
        }
        serving.abort();
    }
    assert_eq!(*bridged.lock().unwrap(), [PARENT]);
}

/// A connection whose client also receives requests.
struct Client<'a>(&'a mut mcp_transport::memory::MemoryTransport);

impl Client<'_> {
    async fn send(&mut self, message: Value) {
        let sender = mcp_transport::Transport::sender(&*self.0);
        sender.send(mcp_transport::Frame::new(message.to_string())).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        serde_json::from_slice(&mcp_transport::recv(&mut *self.0).await.unwrap().unwrap().message).unwrap()
    }
}

#[tokio::test]
async fn a_handler_receives_its_trace_and_spans_exist_only_with_a_subscriber() {
    let _silence = Recorder::silence();
    let sent_meta = json!({ "traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2" });
    let mut connection = Connection::connect(&server());
    let text = async |connection: &mut Connection, meta: Value| {
        let mut params = call("where");
        params["_meta"] = meta;
        connection.exchange(modern(1, "tools/call", params)).await["result"]["content"][0]["text"].clone()
    };
    let known = r#"Some([Some("0af7651916cd43dd8448eb211c80319c"), Some("a=1"), Some("b=2")])"#;
    assert_eq!(text(&mut connection, sent_meta.clone()).await, format!("{known} true"));
    assert_eq!(text(&mut connection, json!({ "traceparent": PARENT.to_uppercase() })).await, "None true");
    let (_recorder, _guard) = Recorder::listen();
    assert_eq!(text(&mut connection, sent_meta).await, format!("{known} false"));
}

#[tokio::test]
async fn a_call_that_becomes_a_task_keeps_its_span() {
    let server = server();
    let (recorder, _guard) = Recorder::listen();
    let mut params = call("later");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let created = request_with_scope(&server, "tools/call", params, |scope| scope).await.unwrap();
    assert_eq!((&created["result"]["resultType"], code(&created)), (&json!("task"), None));
    let seen = recorder.one().await;
    assert_eq!(seen.fields["otel.name"], "tools/call later");
    assert_eq!(seen.fields.get("error.type"), None);
    // The version of a request that is refused is that of the request.
    assert_eq!(seen.fields["mcp.protocol.version"], ProtocolVersion::LATEST.as_str());
}

/// The ends of a call whose handler does not return.
#[derive(Debug, Clone, Copy)]
enum End {
    Shutdown,
    Cancellation,
    Disconnect,
}

#[tokio::test(start_paused = true)]
async fn the_span_of_a_stopped_call_records_its_end() {
    let internal = ("-32603", Some("-32603"));
    let cancelled = ("cancelled", None);
    let later = TaskPolicy::After(Duration::from_secs(3600));
    let cases = [
        // The handler runs.
        (None, false, End::Shutdown, internal),
        (None, false, End::Cancellation, cancelled),
        (None, false, End::Disconnect, cancelled),
        (Some(later), false, End::Shutdown, internal),
        (Some(later), false, End::Cancellation, cancelled),
        (Some(later), false, End::Disconnect, cancelled),
        // The store does not create the task.
        (Some(TaskPolicy::Immediately), true, End::Shutdown, internal),
        (Some(TaskPolicy::Immediately), true, End::Cancellation, cancelled),
        (Some(TaskPolicy::Immediately), true, End::Disconnect, cancelled),
        // The call is a task.
        (Some(TaskPolicy::Immediately), false, End::Shutdown, internal),
    ];
    for (policy, is_held, end, (kind, status)) in cases {
        let store = StallingStore::of("/task/");
        store.is_stalled.send_replace(is_held);
        let route = hold().0;
        let route = match policy {
            Some(policy) => route.task(TaskSupport::Optional).task_policy(policy),
            None => route,
        };
        let server = Server::builder("traced", "1").store(Arc::new(store)).tool(route).build();
        let (recorder, _guard) = Recorder::listen();
        let connection = Connection::connect(&server);
        let mut params = call("hold");
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
            json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
        connection.send(modern(1, "tools/call", params)).await;
        // The paused clock advances when no task can run: the handler or the store waits.
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(recorder.take().await, [], "{policy:?} {end:?}");
        match end {
            End::Shutdown => server.shutdown(),
            End::Cancellation => connection.send(cancel(1)).await,
            End::Disconnect => connection.served.abort(),
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        let seen = recorder.one().await;
        let field = |name: &str| seen.fields.get(name).map(String::as_str);
        let is_held = if is_held { "held" } else { "" };
        assert_eq!(field("error.type"), Some(kind), "{policy:?} {is_held} {end:?}");
        assert_eq!(field("rpc.response.status_code"), status, "{policy:?} {is_held} {end:?}");
        assert_eq!(field("otel.status_code"), Some("ERROR"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_out_or_cancelled_call_records_its_error_type_in_both_eras() {
    let limit = Duration::from_secs(1);
    let server = Server::builder("traced", "1")
        .tool(slow().timeout(limit))
        .tool(hold().0)
        .resource(resource("x:slow", async || std::future::pending::<String>().await))
        .limits(|limits| {
            (limits.read_timeout, limits.handlers_per_session, limits.listen_streams) = (limit, 1, 1);
        })
        .build();
    let (recorder, _guard) = Recorder::listen();
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    recorder.take().await;
    for request in
        [|id, method, params| legacy(id, method, params), |id: u64, method, params| modern(id, method, params)]
    {
        connection.exchange(request(1, "tools/call", call("slow"))).await;
        let timed_out = recorder.one().await;
        connection.exchange(request(2, "resources/read", json!({ "uri": "x:slow" }))).await;
        let failed_read = recorder.one().await;
        connection.send(request(3, "tools/call", call("hold"))).await;
        connection.exchange(request(4, "tools/call", call("slow"))).await;
        let busy = recorder.one().await;
        connection.send(cancel(3)).await;
        let cancelled = recorder.one().await;
        for (seen, kind, status) in [
            (timed_out, "timeout", None),
            (failed_read, "timeout", Some("-32603")),
            (busy, "busy", Some("-32603")),
            (cancelled, "cancelled", None),
        ] {
            let field = |name: &str| seen.fields.get(name).map(String::as_str);
            assert_eq!(field("error.type"), Some(kind), "{seen:?}");
            assert_eq!(field("rpc.response.status_code"), status, "{seen:?}");
            assert_eq!(field("otel.status_code"), Some("ERROR"), "{seen:?}");
        }
    }
    // A second subscription is above the limit. The client cancels the first one.
    let params = json!({ "notifications": { "resourcesListChanged": true } });
    connection.send(modern(5, "subscriptions/listen", params.clone())).await;
    assert!(connection.recv().await.get("method").is_some());
    connection.exchange(modern(6, "subscriptions/listen", params)).await;
    let busy = recorder.one().await.fields;
    assert_eq!((&*busy["error.type"], &*busy["rpc.response.status_code"]), ("busy", "-32603"));
    connection.send(cancel(5)).await;
    assert_eq!(recorder.one().await.fields["error.type"], "cancelled");
}
