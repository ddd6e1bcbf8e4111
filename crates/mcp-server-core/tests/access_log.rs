//! The access log: one event for each request, on every way that a request can end.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    collections::BTreeMap,
    fmt, io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use mcp_protocol::Principal;
use mcp_server_core::{
    Caller, RawArgs, RegistrationError, Server, TaskPolicy, TaskSupport, ToolError, ToolRoute,
    extension::{MethodRoute, Registrar, ServerExtension},
    prompt, template, tool,
};
use mcp_transport::{Frame, Transport as _, ndjson::Ndjson, recv};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, DuplexStream, ReadBuf};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    Layer,
    filter::LevelFilter,
    layer::{Context as LayerContext, SubscriberExt as _},
};

use crate::{
    common::{Connection, call, cancel, code, hold, initialize, legacy, modern, notification, slow, subscribe},
    log_text::LogText,
};

type Fields = BTreeMap<String, String>;

struct Reader(Fields);

impl Visit for Reader {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }
}

/// The events of the access log.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Fields>>>);

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _context: LayerContext<'_, S>) {
        if event.metadata().target() == "mcp_server::access" {
            let mut reader = Reader(Fields::new());
            event.record(&mut reader);
            self.0.lock().unwrap().push(reader.0);
        }
    }
}

impl Recorder {
    /// The events since the last look.
    async fn take(&self) -> Vec<Fields> {
        for _ in 0..64 {
            tokio::task::yield_now().await;
        }
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// The only event since the last look: method, subject, outcome and `error.type`, and the other fields.
    async fn one(&self) -> (String, Fields) {
        let mut seen = self.take().await;
        assert_eq!(seen.len(), 1, "{seen:?}");
        (short(&seen[0]), seen.remove(0))
    }
}

fn short(fields: &Fields) -> String {
    let names =
        ["mcp.method.name", "gen_ai.tool.name", "gen_ai.prompt.name", "mcp.resource.uri", "outcome", "error.type"];
    names.iter().filter_map(|name| fields.get(*name)).cloned().collect::<Vec<_>>().join(" ")
}

fn server() -> Server {
    Server::builder("logged", "1")
        .tool(tool("ok", async |_: RawArgs| "secret result").input_schema(json!({ "type": "object" })))
        .tool(tool("fails", async || Err::<(), _>(ToolError::new("no"))))
        .tool(hold().0)
        .tool(slow().timeout(Duration::from_secs(1)))
        .tool(tool("later", async || "later").task(TaskSupport::Required).task_policy(TaskPolicy::Immediately))
        .tool(tool("scoped", async || "scoped").requires_scopes(["admin"]))
        .resource_template(template("x:{name}{?key}", async || "text"))
        .prompt(prompt("intro", async || "hello"))
        .limits(|limits| (limits.handlers_per_session, limits.listen_streams) = (1, 1))
        .build()
}

#[tokio::test]
async fn a_local_call_has_no_access_event() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    let server = server();
    server.call_tool("ok", json!({})).await.unwrap();
    server.get_prompt("intro", BTreeMap::<String, String>::new()).await.unwrap();
    server.read_resource("x:a").await.unwrap();
    server.call_tool("none", json!({})).await.unwrap_err();
    assert_eq!(recorder.take().await, Vec::<Fields>::new());
    // A client that is connected within the process has the same events as any client.
    Connection::connect(&server).exchange(modern(1, "tools/call", call("ok"))).await;
    assert_eq!(recorder.one().await.0, "tools/call ok ok");
}

#[tokio::test(start_paused = true)]
async fn every_request_has_one_access_event() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    let mut connection = Connection::connect(&server());
    let secret = json!({ "name": "ok", "arguments": { "password": "hidden" } });
    let unknown_version = json!({ "_meta": { "io.modelcontextprotocol/protocolVersion": "1999-01-01" } });
    let no_capabilities = json!({ "_meta": { "io.modelcontextprotocol/clientCapabilities": null } });
    for (method, params, expected) in [
        ("tools/list", json!({}), "tools/list ok"),
        ("server/discover", json!({}), "server/discover ok"),
        ("tools/call", secret, "tools/call ok ok"),
        ("tools/call", call("fails"), "tools/call fails tool_error tool_error"),
        ("tools/call", call("slow"), "tools/call slow timeout timeout"),
        // The client did not declare the extension.
        ("tools/call", call("later"), "tools/call later error -32021"),
        // The name that a client invents is not in the log.
        ("tools/call", call("none"), "tools/call refused -32602"),
        ("none/such", json!({}), "_OTHER refused -32601"),
        ("prompts/get", json!({ "name": "intro" }), "prompts/get intro ok"),
        ("resources/read", json!({ "uri": "x:a?key=secret" }), "resources/read x:a ok"),
        ("resources/read", json!({ "uri": "y:a" }), "resources/read refused -32602"),
        ("tools/list", unknown_version, "tools/list refused -32022"),
        ("tools/list", no_capabilities, "tools/list refused -32602"),
    ] {
        connection.exchange(modern(1, method, params)).await;
        let (seen, fields) = recorder.one().await;
        assert_eq!(seen, expected);
        assert!(fields["duration_ms"].parse::<f64>().unwrap() >= 0.0, "{fields:?}");
        assert_eq!((&*fields["network.transport"], &*fields["message"]), ("pipe", "request finished"));
        let text = format!("{fields:?}");
        assert!(!text.contains("hidden") && !text.contains("secret"), "{text}");
        if expected.contains("timeout") {
            assert_eq!(fields["duration_ms"].parse::<f64>().unwrap().round(), 1000.0);
        }
    }
    // The session era, with a request before the handshake, and with a batch.
    connection.exchange(legacy(1, "tools/list", json!({}))).await;
    assert_eq!(recorder.one().await.0, "tools/list refused -32602");
    connection.exchange(initialize("2025-03-26")).await;
    let (seen, fields) = recorder.one().await;
    assert_eq!((&*seen, &*fields["mcp.protocol.version"]), ("initialize ok", "2025-03-26"));
    connection.send(notification("notifications/initialized", json!({}))).await;
    connection.exchange(legacy(1, "ping", json!({}))).await;
    assert_eq!(recorder.one().await.0, "ping ok");
    let batch = json!([legacy(1, "ping", json!({})), initialize("2025-03-26"), legacy(2, "tools/call", call("ok"))]);
    connection.send(batch).await;
    let mut seen: Vec<_> = recorder.take().await.iter().map(short).collect();
    seen.sort();
    assert_eq!(seen, ["initialize refused -32600", "ping ok", "tools/call ok ok"]);
    // A message that is not a request has no method.
    for (message, expected) in [
        (json!([]), vec!["_OTHER refused -32600"]),
        (json!([{ "id": 1 }, legacy(2, "ping", json!({}))]), vec!["_OTHER refused -32600", "ping ok"]),
        (json!({ "id": 1 }), vec!["_OTHER refused -32600"]),
        (notification("notifications/none", json!({})), vec![]),
    ] {
        connection.send(message.clone()).await;
        let seen: Vec<_> = recorder.take().await.iter().map(short).collect();
        assert_eq!(seen, expected, "{message}");
    }
    // A batch has a call that holds the only permit of the session.
    connection.send(json!([legacy(3, "tools/call", call("hold")), legacy(4, "tools/call", call("ok"))])).await;
    assert_eq!(recorder.one().await.0, "tools/call ok busy busy");
    connection.send(cancel(3)).await;
    assert_eq!(recorder.one().await.0, "tools/call hold cancelled cancelled");
    // The later revisions have no batches.
    connection.send(initialize("2025-11-25")).await;
    assert_eq!(recorder.one().await.0, "initialize ok");
    connection.send(json!([legacy(1, "ping", json!({}))])).await;
    assert_eq!(recorder.one().await.0, "_OTHER refused -32600");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_becomes_a_task_has_an_event_for_its_response_and_for_its_end() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    let immediate = |route: ToolRoute| route.task(TaskSupport::Optional).task_policy(TaskPolicy::Immediately);
    let server = Server::builder("tasks", "1")
        .tool(immediate(slow()))
        .tool(immediate(tool("fails", async || Err::<(), _>(ToolError::new("no")))))
        .tool(immediate(hold().0))
        .build();
    let mut connection = Connection::connect(&server);
    let with_tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": with_tasks });
    let events = async || -> Vec<_> {
        let seen = recorder.take().await;
        seen.iter().map(|fields| format!("{}: {}", fields["message"], short(fields))).collect()
    };
    for (name, expected) in [("fails", "tools/call fails tool_error tool_error"), ("slow", "tools/call slow ok")] {
        let mut params = call(name);
        params["_meta"] = meta.clone();
        connection.exchange(modern(1, "tools/call", params)).await;
        let mut seen = events().await;
        tokio::time::sleep(Duration::from_secs(11)).await;
        seen.extend(events().await);
        let response = format!("request finished: tools/call {name} task");
        assert_eq!(seen, [response, format!("task finished: {expected}")]);
    }
    for ends_by_expiry in [false, true] {
        let mut params = call("hold");
        params["_meta"] = meta.clone();
        let created = connection.exchange(modern(1, "tools/call", params)).await;
        assert_eq!(events().await, ["request finished: tools/call hold task"]);
        let params = json!({ "taskId": created["result"]["taskId"], "_meta": meta.clone() });
        let expected = if ends_by_expiry {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            vec!["task finished: tools/call hold timeout timeout"]
        } else {
            connection.exchange(modern(2, "tasks/cancel", params)).await;
            vec!["request finished: tasks/cancel ok", "task finished: tools/call hold cancelled cancelled"]
        };
        let mut seen = events().await;
        seen.sort();
        assert_eq!(seen, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_required_task_has_the_events_of_its_response() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    let required = |route: ToolRoute, policy| route.task(TaskSupport::Required).task_policy(policy);
    let later = TaskPolicy::After(Duration::from_secs(1));
    let server = Server::builder("tasks", "1")
        .tool(required(tool("quick", async || "quick"), later))
        .tool(required(tool("fails", async || Err::<(), _>(ToolError::new("no"))), later))
        .tool(required(hold().0, later))
        .tool(required(tool("immediate", async || "done"), TaskPolicy::Immediately))
        .limits(|limits| (limits.tasks.per_principal, limits.tasks.unauthenticated) = (2, 2))
        .build();
    let with_tasks = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let meta = json!({ "io.modelcontextprotocol/clientCapabilities": with_tasks });
    for is_legacy in [false, true] {
        let caller = Caller::remote().principal(Some(Arc::new(Principal::new(if is_legacy { "old" } else { "new" }))));
        let mut connection = Connection::connect_as(&server, caller);
        if is_legacy {
            connection.open("2025-11-25").await;
            recorder.take().await;
        }
        for (name, is_created, expected) in [
            ("quick", true, vec!["request finished: tools/call quick task", "task finished: tools/call quick ok"]),
            (
                "fails",
                true,
                vec![
                    "request finished: tools/call fails task",
                    "task finished: tools/call fails tool_error tool_error",
                ],
            ),
            // The caller has its maximum of tasks.
            ("quick", false, vec!["request finished: tools/call quick error -32603"]),
            ("immediate", false, vec!["request finished: tools/call immediate error -32603"]),
            ("hold", false, vec!["request finished: tools/call hold error -32603"]),
        ] {
            let request = if is_legacy {
                legacy(1, "tools/call", json!({ "name": name, "arguments": {}, "task": {} }))
            } else {
                let mut params = call(name);
                params["_meta"] = meta.clone();
                modern(1, "tools/call", params)
            };
            connection.send(request).await;
            let mut response = connection.recv().await;
            while response.get("method").is_some() {
                response = connection.recv().await;
            }
            assert_eq!(response.get("result").is_some(), is_created, "{response}");
            let seen = recorder.take().await;
            let seen: Vec<_> = seen.iter().map(|fields| format!("{}: {}", fields["message"], short(fields))).collect();
            assert_eq!(seen, expected, "{is_legacy}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_request_has_one_access_event() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    let server = server();
    let mut connection = Connection::connect(&server);
    connection.send(modern(1, "tools/call", call("hold"))).await;
    // The limit of running calls is reached.
    connection.exchange(modern(2, "tools/call", call("ok"))).await;
    assert_eq!(recorder.one().await.0, "tools/call ok busy busy");
    connection.send(cancel(1)).await;
    assert_eq!(recorder.one().await.0, "tools/call hold cancelled cancelled");
    // The client ends its subscription.
    let params = json!({ "notifications": { "toolsListChanged": true } });
    connection.send(modern(3, "subscriptions/listen", params.clone())).await;
    assert!(connection.recv().await.get("method").is_some());
    assert_eq!(recorder.take().await, Vec::<Fields>::new());
    // The limit of subscriptions is reached.
    connection.exchange(modern(4, "subscriptions/listen", params)).await;
    assert_eq!(recorder.one().await.0, "subscriptions/listen busy busy");
    connection.send(cancel(3)).await;
    assert_eq!(recorder.one().await.0, "subscriptions/listen cancelled cancelled");
    // The client disconnects.
    connection.send(modern(4, "tools/call", call("hold"))).await;
    assert_eq!(recorder.take().await, Vec::<Fields>::new());
    connection.served.abort();
    assert_eq!(recorder.one().await.0, "tools/call hold cancelled cancelled");
    // The id of a running request is in use.
    let params = json!({ "notifications": { "toolsListChanged": true } });
    connection = Connection::connect(&server);
    connection.send(modern(5, "subscriptions/listen", params)).await;
    assert!(connection.recv().await.get("method").is_some());
    connection.exchange(modern(5, "prompts/get", json!({ "name": "intro" }))).await;
    assert_eq!(recorder.one().await.0, "prompts/get intro refused -32600");
    connection.send(cancel(5)).await;
    assert_eq!(recorder.one().await.0, "subscriptions/listen cancelled cancelled");
    // The server ends a subscription.
    let mut connection = Connection::connect(&server);
    let params = json!({ "notifications": { "toolsListChanged": true } });
    connection.send(modern(5, "subscriptions/listen", params)).await;
    assert!(connection.recv().await.get("method").is_some());
    server.shutdown();
    assert_eq!(recorder.one().await.0, "subscriptions/listen ok");
}

#[tokio::test]
async fn an_access_event_has_the_fields_of_its_request() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    let (alice, local) = (true, false);
    let tool = ("gen_ai.tool.name", "ok");
    let fails = ("gen_ai.tool.name", "fails");
    let (intro, read) = (json!({ "name": "intro" }), json!({ "uri": "x:a?key=hidden" }));
    for (is_alice, version, method, params, expected) in [
        (alice, "2026-07-28", "tools/call", call("ok"), vec![tool, ("outcome", "ok")]),
        (alice, "2025-11-25", "tools/call", call("ok"), vec![tool, ("outcome", "ok")]),
        (local, "2026-07-28", "tools/call", call("ok"), vec![tool, ("outcome", "ok")]),
        (local, "2025-11-25", "tools/call", call("ok"), vec![tool, ("outcome", "ok")]),
        (
            alice,
            "2026-07-28",
            "tools/call",
            call("fails"),
            vec![fails, ("outcome", "tool_error"), ("error.type", "tool_error")],
        ),
        (local, "2026-07-28", "tools/call", call("none"), vec![("outcome", "refused"), ("error.type", "-32602")]),
        (alice, "2025-11-25", "prompts/get", intro, vec![("gen_ai.prompt.name", "intro"), ("outcome", "ok")]),
        (alice, "2026-07-28", "resources/read", read, vec![("mcp.resource.uri", "x:a"), ("outcome", "ok")]),
        (local, "2024-11-05", "tools/list", json!({}), vec![("outcome", "ok")]),
    ] {
        let (caller, of_caller) = if is_alice {
            let alice = Some(Arc::new(Principal::new("alice")));
            let caller = Caller::remote().session_id("mcp_secret").principal(alice);
            (caller, vec![("enduser.id", "alice"), ("network.transport", "tcp")])
        } else {
            (Caller::local(), vec![("network.transport", "pipe")])
        };
        let has_session = version != "2026-07-28";
        let mut connection = Connection::connect_as(&server(), caller);
        if has_session {
            connection.open(version).await;
            recorder.take().await;
        }
        let request = if has_session { legacy(1, method, params) } else { modern(1, method, params) };
        connection.exchange(request).await;
        let (_, mut fields) = recorder.one().await;
        assert!(fields.remove("duration_ms").unwrap().parse::<f64>().unwrap() >= 0.0);
        let session = fields.remove("mcp.session.id");
        assert_eq!(session.as_ref().map(String::len), (is_alice && has_session).then_some(16), "{session:?}");
        let common = [("message", "request finished"), ("mcp.method.name", method), ("mcp.protocol.version", version)];
        let expected = common.iter().chain(&of_caller).chain(&expected);
        let expected: Fields = expected.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(fields, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn calls_on_a_pipe_record_their_ends_in_both_eras() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    let server = server();
    for is_legacy in [false, true] {
        for read_fails in [false, true] {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let (end, ended) = tokio::io::duplex(1);
            let (reader, writer) = tokio::io::split(theirs);
            let served = {
                let server = server.clone();
                let reader = InputEnd { reader, ended, read_fails };
                tokio::spawn(async move { server.serve_io(reader, writer).await })
            };
            let (reader, writer) = tokio::io::split(ours);
            let mut client = Ndjson::new(reader, writer);
            let sender = client.sender();
            let send = async |message: Value| sender.send(Frame::new(message.to_string())).await.unwrap();
            if is_legacy {
                send(initialize("2025-11-25")).await;
                recv(&mut client).await.unwrap().unwrap();
                send(notification("notifications/initialized", json!({}))).await;
                recorder.take().await;
            }
            let request = |id: u64, name: &str| match is_legacy {
                true => legacy(id, "tools/call", call(name)),
                false => modern(id, "tools/call", call(name)),
            };
            send(request(1, "slow")).await;
            recv(&mut client).await.unwrap().unwrap();
            assert_eq!(recorder.one().await.0, "tools/call slow timeout timeout");
            send(request(2, "hold")).await;
            send(request(3, "ok")).await;
            recv(&mut client).await.unwrap().unwrap();
            assert_eq!(recorder.one().await.0, "tools/call ok busy busy");
            send(cancel(2)).await;
            assert_eq!(recorder.one().await.0, "tools/call hold cancelled cancelled");
            send(request(4, "hold")).await;
            assert_eq!(recorder.take().await, Vec::<Fields>::new());
            drop(end);
            // The call receives an error after the grace period.
            let answer = recv(&mut client).await.unwrap().unwrap();
            assert_eq!(code(&serde_json::from_slice(&answer.message).unwrap()), Some(-32603));
            assert_eq!(recorder.one().await.0, "tools/call hold cancelled cancelled");
            assert_eq!(served.await.unwrap().is_err(), read_fails);
        }
    }
}

/// An extension with the method `example/wait`, which never returns.
struct Waits;

impl ServerExtension for Waits {
    fn register(&mut self, registrar: &mut Registrar<'_>) -> Result<(), RegistrationError> {
        registrar.method(MethodRoute::new("example/wait", async |_| std::future::pending().await))
    }
}

#[tokio::test(start_paused = true)]
async fn methods_of_tasks_and_extensions_record_their_ends() {
    #[derive(Debug, Clone, Copy)]
    enum End {
        Cancellation,
        Disconnect,
        Shutdown,
        TimeLimit,
    }
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    for (is_task, end, expected) in [
        (true, End::Cancellation, "tasks/result cancelled cancelled"),
        (true, End::Disconnect, "tasks/result cancelled cancelled"),
        (true, End::Shutdown, "tasks/result error -32603"),
        (false, End::Cancellation, "_OTHER cancelled cancelled"),
        (false, End::Disconnect, "_OTHER cancelled cancelled"),
        (false, End::Shutdown, "_OTHER error -32603"),
        (false, End::TimeLimit, "_OTHER timeout timeout"),
    ] {
        let held = hold().0.task(TaskSupport::Required).task_policy(TaskPolicy::Immediately);
        let server = Server::builder("waits", "1").tool(held).extension(Waits).build();
        let mut connection = Connection::connect(&server);
        connection.open("2025-11-25").await;
        let request = if is_task {
            let params = json!({ "name": "hold", "arguments": {}, "task": {} });
            let created = connection.exchange(legacy(1, "tools/call", params)).await;
            legacy(2, "tasks/result", json!({ "taskId": created["result"]["task"]["taskId"] }))
        } else {
            legacy(2, "example/wait", json!({}))
        };
        connection.send(request).await;
        recorder.take().await;
        match end {
            End::Cancellation => connection.send(cancel(2)).await,
            End::Disconnect => drop(connection.close().await),
            End::Shutdown => server.shutdown(),
            End::TimeLimit => {}
        }
        tokio::time::sleep(Duration::from_secs(120)).await;
        let seen: Vec<_> = recorder.take().await.iter().map(short).collect();
        let seen: Vec<_> = seen.iter().filter(|event| !event.starts_with("tools/call")).collect();
        assert_eq!(seen, [expected], "{end:?}");
    }
}

/// An input that ends, or fails, when the other end of `ended` is dropped.
struct InputEnd<R> {
    reader: R,
    ended: DuplexStream,
    read_fails: bool,
}

impl<R: AsyncRead + Unpin> AsyncRead for InputEnd<R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut nothing = [0];
        match Pin::new(&mut self.ended).poll_read(cx, &mut ReadBuf::new(&mut nothing)) {
            Poll::Ready(_) if self.read_fails => Poll::Ready(Err(io::Error::other("the pipe broke"))),
            Poll::Ready(_) => Poll::Ready(Ok(())),
            Poll::Pending => Pin::new(&mut self.reader).poll_read(cx, buffer),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn texts_of_the_peer_have_a_bounded_length() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    let mut connection = Connection::connect(&server());
    let long = "é".repeat(100_000);
    connection.exchange(modern(1, "resources/read", json!({ "uri": format!("x:{}", "a".repeat(1000)) }))).await;
    let (_, fields) = recorder.one().await;
    assert_eq!(fields["mcp.resource.uri"].chars().count(), 256);
    for (method, params) in [(&*long, json!({})), ("tools/call", call(&long)), ("prompts/get", json!({ "name": long }))]
    {
        connection.exchange(modern(1, method, params)).await;
        let (_, fields) = recorder.one().await;
        let bytes: usize = fields.values().map(String::len).sum();
        assert!(bytes < 500, "{fields:?}");
    }
}

#[tokio::test]
async fn the_access_event_names_the_caller() {
    let recorder = Recorder::default();
    let _guard = subscribe(tracing_subscriber::registry().with(recorder.clone()));
    for (principal, expected) in [(Some("alice"), Some("alice")), (None, None)] {
        let caller = Caller::remote().principal(principal.map(|name| Arc::new(Principal::new(name))));
        let mut connection = Connection::connect_as(&server(), caller);
        assert!(connection.exchange(modern(1, "tools/call", call("scoped"))).await.get("error").is_some());
        let (seen, fields) = recorder.one().await;
        assert_eq!(seen, "tools/call scoped refused insufficient_scope");
        assert_eq!(fields.get("enduser.id").map(String::as_str), expected);
        assert_eq!(fields["network.transport"], "tcp");
    }
}

#[tokio::test]
async fn a_plain_subscriber_prints_a_fault_on_one_line() {
    let text = LogText::default();
    let writer = text.clone();
    let _guard = subscribe(tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish());
    let fails = async || -> Result<String, ToolError> { Err(io::Error::other("a disk\nforged\u{1b}[2J"))? };
    let panics = async || -> String { panic!("a lock\nforged") };
    let server = Server::builder("faults", "1").tool(tool("fails", fails)).tool(tool("panics", panics)).build();
    let mut connection = Connection::connect(&server);
    for name in ["fails", "panics"] {
        connection.exchange(modern(1, "tools/call", call(name))).await;
    }
    let text = text.text();
    for details in [
        r#"error="a disk\nforged\u{1b}[2J" item.kind="tool" item.name="fails""#,
        r#"error="a lock\nforged" item.kind="tool" item.name="panics""#,
    ] {
        assert_eq!(text.lines().filter(|line| line.contains("ERROR") && line.contains(details)).count(), 1, "{text}");
    }
    assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
}

#[tokio::test]
async fn a_plain_subscriber_prints_the_access_log() {
    for (level, is_printed) in [(LevelFilter::INFO, true), (LevelFilter::WARN, false)] {
        let text = LogText::default();
        let writer = text.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(level)
            .with_writer(move || writer.clone())
            .finish();
        let _guard = subscribe(subscriber);
        let mut connection = Connection::connect(&server());
        // A line break of a client does not forge a line of the log.
        connection.exchange(modern(1, "resources/read", json!({ "uri": "x:a\nforged" }))).await;
        connection.exchange(modern(1, "tools/call", call("ok"))).await;
        let text = text.text();
        let line = "request finished mcp.method.name=\"tools/call\" gen_ai.tool.name=\"ok\"";
        assert_eq!(text.contains(line), is_printed, "{text}");
        assert!(!text.lines().any(|line| line.starts_with("forged")), "{text}");
    }
}
