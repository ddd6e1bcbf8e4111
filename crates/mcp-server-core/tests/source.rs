//! Servers whose lists and results come from a source.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{future::pending, sync::Arc, time::Duration};

use mcp_protocol::{InputRequest, LoggingLevel, Principal, ProtocolVersion, RpcError, jsonrpc::Message};
use mcp_server_core::{
    CacheHint, Caller, Invocation, Next, Server,
    engine::{Engine as _, Peer, Scope, Session},
    from_fn,
    source::{
        Source, SourceCall, SourceDefinition, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult,
        SourceSubscription,
    },
    tool,
};
use mcp_transport::{
    BoxFuture, Frame, Transport,
    memory::{MemoryTransport, duplex},
    recv,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::{
    common::{Connection, Dropped, LEGACY, cancel, code, event, initialize, legacy, modern, notification, text_of},
    input_client::{Client, accept, everything, text},
};

const V25: ProtocolVersion = ProtocolVersion::V2025_11_25;
const LATEST: ProtocolVersion = ProtocolVersion::LATEST;

/// A definition with members that the library does not know, and with numbers in unusual forms.
const TOOL: &str = concat!(
    r#"{"vendor":{"price":1.50,"big":1.0E2},"name":"t","inputSchema":{"type":"object","x":2.0},"#,
    r#""icons":[{"src":"data:,","extra":1}],"execution":{"taskSupport":"optional"},"_meta":{"a/b":[1.0]}}"#
);

type Answer = BoxFuture<'static, Result<SourceOutcome, RpcError>>;

/// A source whose tools run a function of the test.
struct Scripted<F>(F, UnboundedSender<&'static str>);

impl<F: Fn(SourceCall) -> Answer + Send + Sync + 'static> Source for Scripted<F> {
    fn find(&self, list: SourceList, name: &str, _caller: Option<&Principal>) -> Option<SourceDefinition> {
        (list == SourceList::Tools && name == "t").then(|| SourceDefinition::new(TOOL).unwrap())
    }

    fn list(&self, list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let who = call.context().principal().map_or("all", |principal| &principal.subject).to_owned();
        let page = match (list, call.cursor()) {
            (SourceList::Tools, None) => {
                let own = SourceDefinition::of(&json!({ "name": who, "inputSchema": { "type": "object" } })).unwrap();
                let tool = SourceDefinition::new(TOOL).unwrap();
                Ok(SourcePage::new([tool, own]).next_cursor("\"2\"".to_owned()))
            }
            (SourceList::Tools, Some("\"2\"")) => {
                Ok(SourcePage::new([]).cache(CacheHint::private(Duration::from_secs(5))))
            }
            (SourceList::Tools, Some(_)) => Err(RpcError::invalid_params("an unknown cursor")),
            _ => Ok(SourcePage::new([])),
        };
        Box::pin(std::future::ready(page))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        (self.0)(call)
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let json = format!(r#"{{"contents":[{{"uri":"{}","text":"{}"}}],"vendor":1.0}}"#, call.name(), call.method());
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(SourceResult::new(json, V25)))))
    }

    fn get_prompt(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let json = format!(
            r#"{{"messages":[{{"role":"user","content":{{"type":"text","text":"{} {}"}}}}]}}"#,
            call.name(),
            call.method()
        );
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(SourceResult::new(json, V25)))))
    }

    fn complete(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        let json = format!(r#"{{"completion":{{"values":["{}"]}}}}"#, call.name());
        Box::pin(std::future::ready(Ok(SourceResult::new(json, V25))))
    }

    fn subscribe(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        if call.name() == "a:none" {
            return Box::pin(std::future::ready(Err(RpcError::invalid_params("no such resource"))));
        }
        self.1.send("subscribed").ok();
        let guard = SourceSubscription::new(Dropped(self.1.clone()));
        Box::pin(std::future::ready(Ok(guard)))
    }
}

fn of<F, R>(run: F) -> (Server, UnboundedReceiver<&'static str>)
where
    F: Fn(SourceCall) -> R + Send + Sync + 'static,
    R: Future<Output = Result<SourceOutcome, RpcError>> + Send + 'static,
{
    let (events, seen) = unbounded_channel();
    let run = move |call: SourceCall| Box::pin(run(call)) as Answer;
    (Server::builder::<()>("source", "1").source(Scripted(run, events)).build(), seen)
}

fn complete(json: impl Into<String>, version: ProtocolVersion) -> Result<SourceOutcome, RpcError> {
    Ok(SourceOutcome::Complete(SourceResult::new(json.into(), version)))
}

fn said(text: &str) -> Result<SourceOutcome, RpcError> {
    complete(json!({ "content": [{ "type": "text", "text": text }] }).to_string(), V25)
}

/// A connection whose messages are texts.
struct Wire(MemoryTransport);

impl Wire {
    async fn open(server: &Server, version: &str) -> Self {
        let (near, far) = duplex(64);
        let server = server.clone();
        tokio::spawn(async move { server.serve(far).await });
        let mut wire = Self(near);
        if version != LATEST.as_str() {
            let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "c", "version": "1" } });
            wire.exchange(legacy(1, "initialize", params)).await;
            wire.send(notification("notifications/initialized", json!({}))).await;
        }
        wire
    }

    async fn send(&mut self, message: Value) {
        self.0.sender().send(Frame::new(message.to_string())).await.unwrap();
    }

    async fn exchange(&mut self, request: Value) -> String {
        self.send(request).await;
        let received = tokio::time::timeout(Duration::from_secs(20), recv(&mut self.0)).await;
        String::from_utf8(received.unwrap().unwrap().unwrap().message.to_vec()).unwrap()
    }

    /// Sends a request in the form of a revision, and returns the text of its response.
    async fn request(&mut self, version: &str, method: &str, params: Value) -> String {
        let request = if version == LATEST.as_str() { modern(7, method, params) } else { legacy(7, method, params) };
        self.exchange(request).await
    }
}

#[tokio::test]
async fn definitions_reach_each_revision_byte_for_byte() {
    let (server, _seen) = of(async |_| said("unused"));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"] {
        let mut wire = Wire::open(&server, version).await;
        let listed = wire.request(version, "tools/list", json!({})).await;
        let only_in_v25 = r#""execution":{"taskSupport":"optional"},"#;
        if version == "2025-11-25" {
            assert!(listed.contains(TOOL), "{version} {listed}");
        } else if version > "2025-11-25" {
            assert!(listed.contains(&TOOL.replace(only_in_v25, "")), "{version} {listed}");
        } else {
            let read: Value = serde_json::from_str(&listed).unwrap();
            let tool = &read["result"]["tools"][0];
            assert!(tool.get("icons").is_none() && tool.get("execution").is_none(), "{version} {tool}");
            assert_eq!(
                (&tool["vendor"]["price"], &tool["_meta"]),
                (&json!(1.5), &json!({ "a/b": [1.0] })),
                "{version}"
            );
        }
        assert!(listed.contains(r#""nextCursor":"\"2\"""#), "{version} {listed}");
        assert_eq!(listed.contains(r#""ttlMs":0,"cacheScope":"private""#), version == "2026-07-28", "{listed}");
        let last = wire.request(version, "tools/list", json!({ "cursor": "\"2\"" })).await;
        assert!(last.contains(r#""tools":[]"#) && !last.contains("nextCursor"), "{version} {last}");
        assert_eq!(last.contains(r#""ttlMs":5000"#), version == "2026-07-28");
        let unknown = wire.request(version, "tools/list", json!({ "cursor": "9" })).await;
        assert!(unknown.contains("an unknown cursor") && unknown.contains("-32602"), "{version} {unknown}");
    }
}

#[tokio::test]
async fn a_list_depends_on_its_caller() {
    let (server, _seen) = of(async |_| said("unused"));
    for user in ["ada", "bob"] {
        let caller = Caller::remote().principal(Some(Arc::new(Principal::new(user))));
        let mut connection = Connection::connect_as(&server, caller);
        let listed = connection.exchange(modern(1, "tools/list", json!({}))).await;
        assert_eq!(listed["result"]["tools"][1]["name"], user);
    }
}

#[tokio::test]
async fn a_result_of_the_revision_of_the_caller_is_unchanged() {
    let result = r#"{ "n":1.50, "big":1e400,"resultType":"complete","content":[{"type":"hologram","x":[]}] }"#;
    for (version, text) in [(V25, "2025-11-25"), (LATEST, "2026-07-28")] {
        let (server, _seen) = of(move |_| async move { complete(result, version) });
        let response = Wire::open(&server, text).await.request(text, "tools/call", json!({ "name": "t" })).await;
        assert_eq!(response, format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#));
    }
}

#[tokio::test]
async fn results_of_other_revisions_are_translated() {
    let result =
        r#"{"content":[{"type":"audio","data":"AAE=","mimeType":"a/b"}],"structuredContent":{"a":1},"n":1.50}"#;
    let (server, _seen) = of(move |_| async move { complete(result, V25) });
    for version in LEGACY.into_iter().chain(["2026-07-28"]) {
        let mut wire = Wire::open(&server, version).await;
        let called = wire.request(version, "tools/call", json!({ "name": "t" })).await;
        assert!(called.contains(r#""n":1.50"#), "{called}");
        assert_eq!(called.contains(r#""type":"audio""#), version >= "2025-03-26", "{called}");
        assert_eq!(called.contains("structuredContent"), version >= "2025-06-18", "{called}");
        let is_modern = version == "2026-07-28";
        for (method, params, expected) in [
            ("tools/call", json!({ "name": "t" }), "content"),
            ("resources/read", json!({ "uri": "a:b" }), r#""uri":"a:b","text":"resources/read""#),
            ("prompts/get", json!({ "name": "p" }), r#""text":"p prompts/get""#),
            (
                "completion/complete",
                json!({ "ref": { "type": "ref/prompt", "name": "p" }, "argument": { "name": "arg", "value": "" } }),
                r#""values":["arg"]"#,
            ),
        ] {
            let response = wire.request(version, method, params).await;
            let read: Value = serde_json::from_str(&response).unwrap();
            assert!(response.contains(expected), "{version} {response}");
            assert_eq!(read["result"]["resultType"] == "complete", is_modern, "{version} {response}");
            assert_eq!(read["result"]["_meta"].is_object(), is_modern, "the result names the server: {response}");
            assert_eq!(response.contains("ttlMs"), is_modern && method == "resources/read", "{version} {response}");
        }
    }
}

#[tokio::test]
async fn parameters_reach_the_source_as_the_client_sent_them() {
    let (server, _seen) = of(|call: SourceCall| async move {
        let params = call.params().get().to_owned();
        complete(json!({ "content": [{ "type": "text", "text": params }] }).to_string(), V25)
    });
    let sent = r#"{"name":"t","arguments":{"n":1.50,"big":1e400},"x":1,"inputResponses":{"a":1},"requestState":"s","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}"#;
    let mut connection = Connection::connect(&server);
    connection.text(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{sent}}}"#)).await;
    assert_eq!(text_of(&connection.recv().await), sent);
    // A client of an older revision cannot send input responses.
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    let params = json!({ "name": "t", "inputResponses": {}, "requestState": "s", "x": 1 });
    let response = connection.exchange(legacy(1, "tools/call", params)).await;
    assert_eq!(text_of(&response), r#"{"name":"t","x":1}"#);
}

/// Asks for a name in a result, and then returns the input responses and the state.
async fn asks(call: SourceCall) -> Result<SourceOutcome, RpcError> {
    let params: Value = serde_json::from_str(call.params().get()).unwrap();
    if params.get("inputResponses").is_some() {
        let name = &params["inputResponses"]["who"]["content"]["name"];
        assert_eq!(params["requestState"], "sealed");
        return said(name.as_str().unwrap());
    }
    let form = json!({ "message": "Name?", "requestedSchema": { "type": "object", "properties": { "name": { "type": "string" } } } });
    let requests = json!({ "who": { "method": "elicitation/create", "params": form } });
    let result =
        json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "sealed", "later": 1 });
    Ok(SourceOutcome::InputRequired(SourceResult::new(result.to_string(), LATEST)))
}

#[tokio::test]
async fn input_requests_of_a_source_reach_each_revision() {
    let (server, _seen) = of(asks);
    for version in ["2025-06-18", "2025-11-25", "2026-07-28"] {
        let mut client = Client::connect(&server, version, everything()).await;
        let response = client.tool("t", vec![accept(json!({ "name": "Ada" }))]).await;
        assert_eq!(text(&response), "Ada", "{version}");
    }
    let mut wire = Wire::open(&server, "2026-07-28").await;
    let passed = wire.request("2026-07-28", "tools/call", json!({ "name": "t" })).await;
    assert!(passed.contains(r#""later":1"#) && passed.contains(r#""requestState":"sealed""#), "{passed}");
    // The session declared no elicitation, so the call fails at once.
    let mut wire = Wire::open(&server, "2025-11-25").await;
    let refused = wire.request("2025-11-25", "tools/call", json!({ "name": "t" })).await;
    assert!(refused.contains("-32601") && refused.contains("elicitation/create"), "{refused}");
}

#[tokio::test]
async fn a_source_asks_the_client_of_a_session_during_a_call() {
    let (server, _seen) = of(async |call: SourceCall| match call.ask(InputRequest::list_roots()).await {
        Ok(answer) => said(answer["roots"][0]["uri"].as_str().unwrap()),
        Err(error) => said(&format!("{} {}", error.code, error.message)),
    });
    for version in ["2024-11-05", "2025-11-25"] {
        let mut client = Client::connect(&server, version, everything()).await;
        let roots = ("roots/list", json!({ "roots": [{ "uri": "file:///a" }] }));
        assert_eq!(text(&client.tool("t", vec![roots]).await), "file:///a");
        let refused = ("roots/list", json!({ "code": -32099, "message": "busy now" }));
        assert!(text(&client.tool("t", vec![refused]).await).starts_with("-32099 "));
    }
    let mut connection = Connection::connect(&server);
    let response = connection.exchange(modern(1, "tools/call", json!({ "name": "t" }))).await;
    assert!(text_of(&response).contains("-32600"), "{response}");
}

#[tokio::test(start_paused = true)]
async fn the_time_in_which_the_client_answers_does_not_count() {
    let (server, _seen) = of(async |call: SourceCall| {
        let answer = call.ask(InputRequest::list_roots()).await.unwrap();
        said(&answer["roots"].to_string())
    });
    let limit = server.limits().tool_timeout;
    let mut client = Client::connect(&server, "2025-11-25", everything()).await;
    client.send("tools/call", json!({ "name": "t" })).await;
    let asked = client.receive().await;
    // Roots have a time limit of their own.
    tokio::time::sleep(server.limits().inputs.roots / 2).await;
    client.write(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [] } })).await;
    assert_eq!(text(&client.receive().await), "[]");
    let (server, _seen) = of(async |_| pending().await);
    let mut connection = Connection::connect(&server);
    let started = tokio::time::Instant::now();
    let late = connection.exchange(modern(1, "tools/call", json!({ "name": "t" }))).await;
    assert!(started.elapsed() >= limit && code(&late) == Some(-32603), "{late}");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_late_source_has_a_time_limit_with_few_digits() {
    let (events, _seen) = unbounded_channel();
    let late = Scripted(|_: SourceCall| Box::pin(pending()) as Answer, events);
    let server = Server::builder::<()>("source", "1").source(late);
    let server = server.limits(|limits| limits.tool_timeout = Duration::from_nanos(59_999_871_234)).build();
    let mut connection = Connection::connect(&server);
    let late = connection.exchange(modern(1, "tools/call", json!({ "name": "t" }))).await;
    assert_eq!(late["error"]["message"], "tools/call took longer than 60s", "{late}");
}

#[tokio::test(start_paused = true)]
async fn each_round_of_a_call_has_the_whole_time_limit_and_no_more() {
    let (server, _seen) = of(async |call: SourceCall| match call.params().get().contains("inputResponses") {
        false => asks(call).await,
        true => pending().await,
    });
    let (limit, pause) = (server.limits().tool_timeout, 4 * server.limits().tool_timeout);
    let mut client = Client::connect(&server, "2025-11-25", everything()).await;
    client.send("tools/call", json!({ "name": "t" })).await;
    let asked = client.receive().await;
    tokio::time::sleep(pause).await;
    let answered = tokio::time::Instant::now();
    let answer = json!({ "action": "accept", "content": { "name": "Ada" } });
    client.write(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer })).await;
    let late = client.receive().await;
    assert_eq!(code(&late), Some(-32603), "{late}");
    assert!(answered.elapsed() < 2 * limit, "the time of the answer does not extend the second round");
}

#[tokio::test]
async fn a_cancelled_request_drops_the_future_of_the_source() {
    let (events, mut seen) = unbounded_channel();
    let (server, _) = of(move |_| {
        let events = events.clone();
        async move {
            let _guard = Dropped(events.clone());
            events.send("entered").ok();
            pending().await
        }
    });
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    connection.send(legacy(1, "tools/call", json!({ "name": "t" }))).await;
    assert_eq!(event(&mut seen).await, "entered");
    connection.send(cancel(1)).await;
    assert_eq!(event(&mut seen).await, "dropped");
    connection.quiet().await;
}

#[tokio::test]
async fn a_question_ends_with_its_call_also_on_another_task() {
    let (events, mut seen) = unbounded_channel();
    let (server, _) = of(move |call: SourceCall| {
        let events = events.clone();
        tokio::spawn(async move {
            let _guard = Dropped(events.clone());
            events.send("asked").ok();
            call.ask(InputRequest::list_roots()).await.unwrap_err();
        });
        pending()
    });
    let mut client = Client::connect(&server, "2025-11-25", everything()).await;
    let id = client.send("tools/call", json!({ "name": "t" })).await;
    assert_eq!(event(&mut seen).await, "asked");
    let question = client.receive().await;
    assert_eq!(question["method"], "roots/list");
    client.write(cancel(id)).await;
    assert_eq!(event(&mut seen).await, "dropped");
    let cancelled = client.receive().await;
    assert_eq!(
        (&cancelled["method"], &cancelled["params"]["requestId"]),
        (&json!("notifications/cancelled"), &question["id"])
    );
}

#[tokio::test]
async fn a_source_sends_progress_log_records_and_changes() {
    let (server, _seen) = of(async |call: SourceCall| {
        call.context().progress().report(1, 2, "half").await;
        call.context().log(LoggingLevel::Info, "logged").await;
        call.context().server().notify().tools_changed();
        said("done")
    });
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    let params = json!({ "name": "t", "_meta": { "progressToken": "p" } });
    connection.send(legacy(1, "tools/call", params)).await;
    let mut methods = Vec::new();
    let mut is_answered = false;
    while methods.len() < 3 || !is_answered {
        let message = connection.recv().await;
        match message["method"].as_str() {
            Some(method) => methods.push(method.to_owned()),
            None => is_answered = text_of(&message) == "done",
        }
    }
    methods.sort_unstable();
    assert_eq!(methods, ["notifications/message", "notifications/progress", "notifications/tools/list_changed"]);
}

#[tokio::test]
async fn subscriptions_of_sessions_begin_and_end_at_the_source() {
    let (server, mut seen) = of(async |_| said("unused"));
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    let subscribe = |id: i64, uri: &str| legacy(id, "resources/subscribe", json!({ "uri": uri }));
    assert_eq!(connection.exchange(subscribe(1, "a:b")).await["result"], json!({}));
    assert_eq!(event(&mut seen).await, "subscribed");
    server.notify().resource_updated("a:b");
    assert_eq!(connection.recv().await["params"]["uri"], "a:b");
    assert_eq!(connection.exchange(subscribe(5, "a:b")).await["result"], json!({}));
    assert!(seen.try_recv().is_err(), "a repeated subscription has no effect");
    assert_eq!(code(&connection.exchange(subscribe(2, "a:none")).await), Some(-32602));
    let ended = connection.exchange(legacy(3, "resources/unsubscribe", json!({ "uri": "a:b" }))).await;
    assert_eq!(ended["result"], json!({}));
    assert_eq!(event(&mut seen).await, "dropped");
    connection.exchange(subscribe(4, "a:c")).await;
    assert_eq!(event(&mut seen).await, "subscribed");
    connection.close().await;
    assert_eq!(event(&mut seen).await, "dropped", "the end of the session ends its subscriptions");
}

#[tokio::test]
async fn a_repeated_subscription_of_a_session_of_another_node_begins_at_the_source_of_this_node() {
    let new = || {
        let (server, seen) = of(async |_| said("unused"));
        (server, seen, Peer::new(duplex(4).1.sender(), 4))
    };
    let ((first, mut seen_first, peer), (second, mut seen_second, peer_of_second)) = (new(), new());
    async fn exchange(server: &Server, session: &Arc<Session>, peer: &Peer, message: Value) -> Value {
        let text = message.to_string();
        let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else { unreachable!() };
        let scope = Scope::session(Arc::clone(session)).peer(peer.clone());
        let reply = server.prepare(&request, scope).unwrap().run().await.unwrap();
        serde_json::from_slice(&reply.payload.into_bytes()).unwrap()
    }
    let caller = Caller::remote().session_id("s");
    let text = initialize("2025-11-25").to_string();
    let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else { unreachable!() };
    let (session, _) = first.initialize(&request, &caller, &peer).unwrap();
    let subscribe = || legacy(1, "resources/subscribe", json!({ "uri": "a:b" }));
    assert_eq!(exchange(&first, &session, &peer, subscribe()).await["result"], json!({}));
    assert_eq!(event(&mut seen_first).await, "subscribed");
    let restored = second.restore_session(&session.state(), &caller, &peer_of_second).unwrap();
    assert!(seen_second.try_recv().is_err());
    for _ in 0..2 {
        assert_eq!(exchange(&second, &restored, &peer_of_second, subscribe()).await["result"], json!({}));
    }
    assert_eq!(event(&mut seen_second).await, "subscribed");
    assert!(seen_second.try_recv().is_err(), "a repeated subscription has no effect");
    let unsubscribe = legacy(2, "resources/unsubscribe", json!({ "uri": "a:b" }));
    exchange(&second, &restored, &peer_of_second, unsubscribe).await;
    assert_eq!(event(&mut seen_second).await, "dropped");
}

#[tokio::test]
async fn subscriptions_of_a_stream_begin_and_end_at_the_source() {
    let (server, mut seen) = of(async |_| said("unused"));
    let mut connection = Connection::connect(&server);
    let filter = json!({ "notifications": { "resourceSubscriptions": ["a:b", "a:none"], "toolsListChanged": true } });
    connection.send(modern(1, "subscriptions/listen", filter)).await;
    let acknowledged = connection.recv().await;
    assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], json!(["a:b"]), "{acknowledged}");
    assert_eq!(event(&mut seen).await, "subscribed");
    server.notify().resource_updated("a:none");
    server.notify().resource_updated("a:b");
    assert_eq!(
        connection.recv().await["params"]["uri"],
        "a:b",
        "the stream does not send updates of a refused resource"
    );
    connection.send(cancel(1)).await;
    assert_eq!(event(&mut seen).await, "dropped");
}

#[tokio::test]
async fn a_panic_of_a_source_ends_its_request_alone() {
    let (server, _seen) = of(async |call: SourceCall| match call.name() {
        "panic" => panic!("secret"),
        "invalid" => complete("[]", V25),
        "forged" => Ok(SourceOutcome::InputRequired(SourceResult::new(r#"{"requestState":"s"}"#, LATEST))),
        name => said(name),
    });
    let mut connection = Connection::connect(&server);
    for name in ["panic", "invalid", "forged"] {
        let response = connection.exchange(modern(1, "tools/call", json!({ "name": name }))).await;
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.contains("reference") && !message.contains("secret"), "{response}");
    }
    let response = connection.exchange(modern(2, "tools/call", json!({ "name": "t" }))).await;
    assert_eq!(text_of(&response), "t");
    let missing = connection.exchange(modern(3, "tools/call", json!({}))).await;
    assert_eq!(code(&missing), Some(-32602));
}

#[tokio::test]
async fn layers_wrap_the_calls_of_a_source() {
    let (events, mut seen) = unbounded_channel();
    let run =
        |_: SourceCall| Box::pin(async { complete(r#"{"content":[],"isError":true}"#, V25).map(failed) }) as Answer;
    let (sender, _unused) = unbounded_channel();
    let server = Server::builder::<()>("source", "1")
        .source(Scripted(run, sender))
        .layer(from_fn(move |call: Invocation, next: Next| {
            let (name, events) = (format!("{} {}", call.method(), call.name()), events.clone());
            async move {
                let outcome = next.run(call).await?;
                events.send((name, outcome.is_error())).ok();
                Ok::<_, RpcError>(outcome)
            }
        }))
        .build();
    let mut connection = Connection::connect(&server);
    connection.exchange(modern(1, "tools/list", json!({}))).await;
    connection.exchange(modern(2, "tools/call", json!({ "name": "t" }))).await;
    assert_eq!(seen.recv().await.unwrap(), ("tools/call t".to_owned(), true));
}

fn failed(outcome: SourceOutcome) -> SourceOutcome {
    match outcome {
        SourceOutcome::Complete(result) => SourceOutcome::Complete(result.failed()),
        other => other,
    }
}

struct ToolsOnly;

impl Source for ToolsOnly {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::NONE.with_tools()
    }
}

#[tokio::test]
async fn a_server_declares_the_features_of_its_source_only() {
    let server = Server::builder::<()>("source", "1").source(ToolsOnly).build();
    let mut connection = Connection::connect(&server);
    let opened = connection.open("2025-11-25").await;
    assert!(opened["capabilities"]["tools"].is_object(), "{opened}");
    assert!(opened["capabilities"].get("prompts").is_none() && opened["capabilities"].get("resources").is_none());
    for method in ["prompts/list", "resources/list", "tools/list"] {
        let response = connection.exchange(legacy(1, method, json!({}))).await;
        assert_eq!(code(&response), Some(-32601), "{method}: the source has no such list, or no such function");
    }
    let added = server.tools().add(tool("late", async || "late"));
    assert!(added.unwrap_err().to_string().contains("source"));
    assert!(server.call_tool("t", json!({})).await.is_err());
}

#[test]
#[should_panic(expected = "the server has a source")]
fn a_server_with_a_source_takes_no_registered_handlers() {
    let _ = Server::builder::<()>("source", "1").tool(tool("t", async || "t")).source(ToolsOnly).build();
}
