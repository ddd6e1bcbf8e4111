//! The context of a handler in every era: request, client, caller and log messages.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::sync::Arc;

use crate::common::{Connection, LEGACY, call, code, initialize, legacy, modern, text_of};
use mcp_protocol::{LoggingLevel, Message, Meta, Principal, ProtocolVersion, meta::keys};
use mcp_server_core::{
    Caller, Context, Extension, Extensions, Json, Server, State,
    engine::{Engine as _, Era, Peer, Scope, StatelessCall},
    tool,
};
use mcp_transport::{Transport, memory::duplex};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The parts of a context that the tool `context` returns.
async fn seen(context: Context, meta: Meta, principal: Option<Principal>, shoe: Option<Extension<u32>>) -> Json<Value> {
    let logs = [LoggingLevel::Debug, LoggingLevel::Info, LoggingLevel::Emergency].map(|level| context.logs(level));
    Json(json!({
        "version": context.version().as_str(),
        "id": context.request_id().map(ToString::to_string),
        "client": context.client_info().map(|info| &info.name),
        "roots": context.client_capabilities().roots.is_some(),
        "session": context.session_id(),
        "meta": meta.get("com.example/key"),
        "progress": context.progress().is_wanted(),
        "logs": logs,
        "subject": principal.map(|principal| principal.subject),
        "same": context.principal().map(|principal| principal.scopes.len()),
        "shoe": shoe.map(|Extension(size)| size),
        "structured": context.version().has_structured_content(),
    }))
}

fn server() -> Server {
    Server::builder("test", "1").tool(tool("context", seen)).build()
}

fn text_json(response: &Value) -> Value {
    serde_json::from_str(text_of(response)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_handler_receives_its_request_in_every_revision() {
    for version in LEGACY {
        let mut connection = Connection::connect(&server());
        connection.open(version).await;
        let mut params = call("context");
        params["_meta"] = json!({ "com.example/key": [1, { "a": null }], "progressToken": "t" });
        assert_eq!(
            text_json(&connection.exchange(legacy("i", "tools/call", params)).await),
            json!({
                "version": version, "id": "\"i\"", "client": "legacy-client", "roots": true, "session": null,
                "meta": [1, { "a": null }], "progress": true, "logs": [false, true, true],
                "subject": null, "same": null, "shoe": null, "structured": version >= "2025-06-18",
            })
        );
    }
    let mut connection = Connection::connect(&server());
    let mut params = call("context");
    params["_meta"] = json!({ "com.example/key": 7, keys::CLIENT_CAPABILITIES: { "roots": {} } });
    assert_eq!(
        text_json(&connection.exchange(modern(9, "tools/call", params)).await),
        json!({
            "version": "2026-07-28", "id": "9", "client": "modern-client", "roots": true, "session": null,
            "meta": 7, "progress": false, "logs": [false, false, false],
            "subject": null, "same": null, "shoe": null, "structured": true,
        })
    );
    let result = server().call_tool("context", json!({})).await.unwrap();
    assert_eq!(result.structured_content.unwrap()["version"], "2026-07-28");
}

/// The extensions of a transport belong to one request.
#[tokio::test(start_paused = true)]
async fn a_handler_receives_the_caller_and_extensions() {
    let server = server();
    let run = |subject: &'static str, size: u32| {
        let server = server.clone();
        async move {
            let text = modern(1, "tools/call", call("context")).to_string();
            let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else { unreachable!() };
            let Ok(Era::Stateless(meta)) = Era::of(&request) else { unreachable!() };
            let mut principal = Principal::new(subject);
            principal.scopes.insert("read".into());
            let mut extensions = Extensions::default();
            extensions.insert(size);
            let scope = Scope::stateless(StatelessCall::read(&meta).unwrap().supported(&server).unwrap())
                .principal(Some(Arc::new(principal)))
                .extensions(extensions);
            assert_eq!(scope.version(), ProtocolVersion::V2026_07_28);
            let prepared = server.prepare(&request, scope).unwrap();
            tokio::task::yield_now().await;
            let reply = prepared.run().await.unwrap();
            let response: Value = serde_json::from_slice(&reply.payload.into_bytes()).unwrap();
            text_json(&response)
        }
    };
    let (one, two) = tokio::join!(run("alice", 42), run("bob", 36));
    assert_eq!((&one["subject"], &one["same"], &one["shoe"]), (&json!("alice"), &json!(1), &json!(42)));
    assert_eq!((&two["subject"], &two["same"], &two["shoe"]), (&json!("bob"), &json!(1), &json!(36)));
}

/// The id that a transport gave a session reaches the handler, and no log.
#[tokio::test(start_paused = true)]
async fn a_handler_receives_the_id_of_its_session() {
    let server = server();
    let (_ours, theirs) = duplex(4);
    let peer = Peer::new(theirs.sender(), 4);
    let text = initialize("2025-11-25").to_string();
    let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else { unreachable!() };
    let (session, _) = server.initialize(&request, &Caller::remote().session_id("secret"), &peer).unwrap();
    assert!(!format!("{session:?}").contains("secret"));
    let text = legacy(1, "tools/call", call("context")).to_string();
    let Ok(Message::Request(request)) = Message::parse(text.as_bytes()) else { unreachable!() };
    let prepared = server.prepare(&request, Scope::session(session).peer(peer)).unwrap();
    let reply = prepared.run().await.unwrap();
    let response: Value = serde_json::from_slice(&reply.payload.into_bytes()).unwrap();
    assert_eq!(text_json(&response)["session"], "secret");
}

/// The server does not add members to the arguments.
#[tokio::test(start_paused = true)]
async fn arguments_are_exactly_those_of_the_client() {
    let echo =
        tool("echo", async |mcp_server_core::RawArgs(arguments): mcp_server_core::RawArgs| Json(json!(arguments)))
            .input_schema(json!({ "type": "object" }));
    let mut connection = Connection::connect(&Server::builder("test", "1").tool(echo).build());
    let params = json!({ "name": "echo", "arguments": { "a": 1, "_auth": "mine" }, "_meta": { "com.example/x": 1 } });
    let response = connection.exchange(modern(1, "tools/call", params)).await;
    assert_eq!(text_json(&response), json!({ "a": 1, "_auth": "mine" }));
}

/// The sessions share only the state that the application provides.
#[tokio::test(start_paused = true)]
async fn handlers_share_the_state_across_sessions() {
    let count = async |State(count): State<Arc<Mutex<u32>>>, context: Context| {
        let mut count = count.lock().await;
        *count += 1;
        format!("{} {}", *count, context.version())
    };
    let server =
        Server::builder("test", "1").tool(tool("count", count)).with_state(Arc::<Mutex<u32>>::default()).build();
    let (mut one, mut two) = (Connection::connect(&server), Connection::connect(&server));
    one.open("2025-03-26").await;
    two.open("2025-11-25").await;
    assert_eq!(text_of(&one.exchange(legacy(1, "tools/call", call("count"))).await), "1 2025-03-26");
    assert_eq!(text_of(&two.exchange(legacy(1, "tools/call", call("count"))).await), "2 2025-11-25");
    assert_eq!(text_of(&one.exchange(legacy(2, "tools/call", call("count"))).await), "3 2025-03-26");
}

/// The levels that reach the client for a requested level. `None` requests no log records.
async fn levels(connection: &mut Connection, request: Value) -> Vec<String> {
    connection.send(request).await;
    let mut levels = Vec::new();
    loop {
        let message = connection.recv().await;
        if message.get("method").is_none() {
            assert_eq!(text_of(&message), "logged");
            return levels;
        }
        assert_eq!(message["method"], "notifications/message");
        assert_eq!(message["params"]["logger"], "test");
        assert_eq!(message["params"]["data"], json!({ "secret": false }));
        levels.push(message["params"]["level"].as_str().unwrap().to_owned());
    }
}

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

fn chatty() -> Server {
    let log = async |context: Context| {
        for level in LEVELS {
            context.log_as(level.parse().unwrap(), Some("test"), json!({ "secret": false })).await;
        }
        "logged"
    };
    Server::builder("test", "1").tool(tool("log", log)).build()
}

#[tokio::test(start_paused = true)]
async fn a_session_receives_log_messages_of_its_level_and_info_by_default() {
    for version in LEGACY {
        let server = chatty();
        let (mut connection, mut other) = (Connection::connect(&server), Connection::connect(&server));
        connection.open(version).await;
        other.open(version).await;
        assert_eq!(levels(&mut connection, legacy(1, "tools/call", call("log"))).await, LEVELS[1..]);
        for (at, level) in LEVELS.into_iter().enumerate() {
            let response = connection.exchange(legacy(2, "logging/setLevel", json!({ "level": level }))).await;
            assert_eq!(response["result"], json!({}));
            assert_eq!(levels(&mut connection, legacy(3, "tools/call", call("log"))).await, LEVELS[at..], "{level}");
        }
        for bad in [json!({ "level": "loud" }), json!({ "level": "Debug" }), json!({ "level": 7 }), json!({})] {
            assert_eq!(code(&connection.exchange(legacy(4, "logging/setLevel", bad)).await), Some(-32602));
        }
        assert_eq!(
            levels(&mut connection, legacy(5, "tools/call", call("log"))).await,
            LEVELS[7..],
            "nothing has changed"
        );
        assert_eq!(levels(&mut other, legacy(5, "tools/call", call("log"))).await, LEVELS[1..], "it is this session's");
        // A new session starts anew.
        connection.exchange(initialize(version)).await;
        assert_eq!(levels(&mut connection, legacy(6, "tools/call", call("log"))).await, LEVELS[1..]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_receives_log_messages_of_its_level_and_none_by_default() {
    let mut connection = Connection::connect(&chatty());
    assert!(levels(&mut connection, modern(1, "tools/call", call("log"))).await.is_empty());
    for (at, level) in LEVELS.into_iter().enumerate() {
        let mut params = call("log");
        params["_meta"] = json!({ keys::LOG_LEVEL: level });
        assert_eq!(levels(&mut connection, modern(2, "tools/call", params)).await, LEVELS[at..], "{level}");
        assert!(levels(&mut connection, modern(3, "tools/call", call("log"))).await.is_empty(), "it is this request's");
    }
}
