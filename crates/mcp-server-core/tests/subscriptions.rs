//! List changes and resource updates: receivers, frequency, and clients that do not read.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::sync::Arc;

use mcp_protocol::{LoggingLevel, Principal};
use mcp_server_core::{Server, engine::Refusal, prompt, resource, template, tool};
use mcp_store::MemoryStore;
use mcp_transport::memory::duplex;
use serde_json::{Value, json};

use crate::{
    common::{Connection, LEGACY, call, cancel, code, hold, initialize, legacy, modern, notification},
    json_client,
};

const ID: &str = "io.modelcontextprotocol/subscriptionId";

fn server() -> Server {
    Server::builder("test", "1")
        .tool(tool("t", async || "t"))
        .resource(resource("x:a", async || "a"))
        .prompt(prompt("p", async || "p"))
        .build()
}

fn listen(id: impl Into<Value>, notifications: Value) -> Value {
    modern(id, "subscriptions/listen", json!({ "notifications": notifications }))
}

fn all(uris: &[&str]) -> Value {
    json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": uris,
    })
}

/// Opens a stream and returns its acknowledgement.
async fn open(connection: &mut Connection, id: impl Into<Value>, filter: Value) -> Value {
    let id = id.into();
    connection.send(listen(id.clone(), filter)).await;
    let first = connection.recv().await;
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
    assert_eq!(first["params"]["_meta"], json!({ ID: id }));
    first["params"]["notifications"].clone()
}

/// The subject of a notification, and its subscription.
type SubjectAndId = (String, Value);

fn subject_and_id(message: &Value) -> SubjectAndId {
    let method = message["method"].as_str().unwrap_or_else(|| panic!("no notification: {message}"));
    let subject = message["params"]["uri"].as_str().unwrap_or(method).to_owned();
    (subject, message["params"]["_meta"][ID].clone())
}

async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn acknowledges_a_stream_with_the_accepted_filter() {
    let full = server();
    let tools_only = Server::builder("test", "1").tool(tool("t", async || "t")).build();
    for (server, requested, honoured) in [
        (&full, json!({}), json!({})),
        (&full, json!({ "toolsListChanged": false, "resourceSubscriptions": [] }), json!({})),
        (&full, json!({ "promptsListChanged": true, "later": [1] }), json!({ "promptsListChanged": true })),
        (&full, all(&["x:a", "x:b", "x:a"]), all(&["x:a", "x:b"])),
        (&full, json!({ "taskIds": ["t"], "toolsListChanged": true }), json!({ "toolsListChanged": true })),
        (&tools_only, all(&["x:a"]), json!({ "toolsListChanged": true })),
    ] {
        let mut connection = Connection::connect(server);
        assert_eq!(open(&mut connection, 1, requested.clone()).await, honoured, "{requested}");
    }
    let nothing = Server::builder("test", "1").build();
    let response = Connection::connect(&nothing).exchange(listen(1, json!({}))).await;
    assert_eq!(code(&response), Some(-32601), "a server without lists and resources has no subscriptions");
}

#[tokio::test(start_paused = true)]
async fn a_session_receives_changes_of_the_declared_lists() {
    let empty = || Server::builder::<()>("test", "1");
    for (server, promised) in [
        (empty().build(), &[] as &[&str]),
        (empty().tool(tool("first", async || "")).build(), &["tools"]),
        (
            empty().resource_template(template("x:{a}", async || "")).dynamic_prompts().build(),
            &["prompts", "resources"],
        ),
        (empty().dynamic_tools().build(), &["tools"]),
        (empty().dynamic_tools().dynamic_resources().dynamic_prompts().build(), &["tools", "prompts", "resources"]),
    ] {
        for version in LEGACY {
            let mut connection = Connection::connect(&server);
            connection.open(version).await;
            connection.quiet().await;
            server.notify().tools_changed();
            server.notify().prompts_changed();
            server.notify().resources_changed();
            for list in promised {
                assert_eq!(
                    connection.recv().await["method"],
                    format!("notifications/{list}/list_changed"),
                    "{version}"
                );
            }
            connection.quiet().await;
        }
    }
    // A later session declares list changes of a kind that was registered at runtime.
    let server = empty().build();
    let (mut before, mut after) = (Connection::connect(&server), Connection::connect(&server));
    before.open("2025-11-25").await;
    before.quiet().await;
    server.tools().add(tool("t", async || "")).unwrap();
    assert_eq!(after.open("2025-11-25").await["capabilities"]["tools"], json!({ "listChanged": true }));
    after.quiet().await;
    server.tools().remove("t");
    assert_eq!(after.recv().await["method"], "notifications/tools/list_changed");
    before.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn rejects_an_invalid_filter() {
    let mut connection = Connection::connect(&server());
    let many = |count: usize| (0..count).map(|n| format!("x:{n}")).collect::<Vec<_>>();
    for (params, expected) in [
        (json!({}), Some(-32602)),
        (json!({ "notifications": null }), Some(-32602)),
        (json!({ "notifications": [] }), Some(-32602)),
        (json!({ "notifications": { "toolsListChanged": "yes" } }), Some(-32602)),
        (json!({ "notifications": { "resourceSubscriptions": "x:a" } }), Some(-32602)),
        (json!({ "notifications": { "resourceSubscriptions": [7] } }), Some(-32602)),
        (json!({ "notifications": { "resourceSubscriptions": many(257) } }), Some(-32602)),
        (json!({ "notifications": { "resourceSubscriptions": ["x".repeat(65_537)] } }), Some(-32602)),
        (json!({ "notifications": { "resourceSubscriptions": ["x".repeat(65_536)] } }), None),
        (json!({ "notifications": { "resourceSubscriptions": many(256) } }), None),
    ] {
        connection.send(modern("l", "subscriptions/listen", params)).await;
        let response = connection.recv().await;
        assert_eq!(code(&response), expected, "{response}");
        connection.send(cancel("l")).await;
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_streams_have_their_own_filter_and_id() {
    let server = server();
    let mut connection = Connection::connect(&server);
    open(&mut connection, 1, json!({ "toolsListChanged": true, "resourceSubscriptions": ["x:a"] })).await;
    open(&mut connection, "1", json!({ "promptsListChanged": true, "resourceSubscriptions": ["x:a", "x:b"] })).await;
    open(&mut connection, "none", json!({})).await;
    let both = |subject: &str| vec![(subject.to_owned(), json!(1)), (subject.to_owned(), json!("1"))];
    let one = |subject: &str, id: Value| vec![(subject.to_owned(), id)];
    let changes: [(&dyn Fn(), Vec<SubjectAndId>); 7] = [
        (&|| server.notify().tools_changed(), one("notifications/tools/list_changed", json!(1))),
        (&|| assert!(server.tools().remove("t")), one("notifications/tools/list_changed", json!(1))),
        (&|| server.notify().prompts_changed(), one("notifications/prompts/list_changed", json!("1"))),
        (&|| server.notify().resources_changed(), vec![]),
        (&|| server.notify().resource_updated("x:a"), both("x:a")),
        (&|| server.notify().resource_updated("x:b"), one("x:b", json!("1"))),
        (&|| server.notify().resource_updated("x:a/below"), vec![]),
    ];
    for (change, expected) in changes {
        change();
        settle().await;
        let mut received = Vec::new();
        while connection.has_more() {
            received.push(subject_and_id(&connection.recv().await));
        }
        received.sort_by_key(|(_, id)| id.is_string());
        assert_eq!(received, expected);
    }
    server.notify().log(LoggingLevel::Emergency, "no log record belongs on a stream");
    settle().await;
    assert!(!connection.has_more());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_stream_gets_no_response_and_its_id_is_free() {
    let server = server();
    let mut connection = Connection::connect(&server);
    open(&mut connection, 1, json!({ "toolsListChanged": true })).await;
    connection.send(listen(1, json!({}))).await;
    assert_eq!(code(&connection.recv().await), Some(-32600), "an id has one stream");
    connection.send(cancel("1")).await;
    settle().await;
    server.notify().tools_changed();
    assert_eq!(subject_and_id(&connection.recv().await), ("notifications/tools/list_changed".into(), json!(1)));
    connection.send(cancel(1)).await;
    settle().await;
    server.notify().tools_changed();
    settle().await;
    assert!(!connection.has_more());
    open(&mut connection, 1, json!({})).await;
}

#[tokio::test(start_paused = true)]
async fn shutdown_sends_a_cancellation_and_a_result() {
    for by_client in [true, false] {
        let server = server();
        let mut connection = Connection::connect(&server);
        open(&mut connection, "l", json!({ "toolsListChanged": true })).await;
        let rest = if by_client {
            connection.close().await
        } else {
            server.notify().tools_changed();
            server.shutdown();
            assert_eq!(connection.recv().await["method"], "notifications/tools/list_changed");
            vec![connection.recv().await, connection.recv().await]
        };
        let [cancelled, result] = &rest[..] else { panic!("{rest:?}") };
        assert_eq!(cancelled["method"], "notifications/cancelled");
        assert_eq!(cancelled["params"]["requestId"], "l");
        assert_eq!((&result["id"], &result["result"]["resultType"]), (&json!("l"), &json!("complete")));
        assert_eq!(result["result"]["_meta"][ID], "l");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_have_their_own_limit_besides_calls() {
    let (hold, mut seen) = hold();
    let server = Server::builder("test", "1")
        .tool(hold)
        .limits(|limits| {
            limits.handlers = 1;
            limits.handlers_per_session = 1;
            limits.listen_streams = 5;
        })
        .build();
    let mut connection = Connection::connect(&server);
    for id in 0..5 {
        open(&mut connection, id, json!({ "toolsListChanged": true })).await;
    }
    assert_eq!(code(&connection.exchange(listen(5, json!({}))).await), Some(-32603));
    connection.send(modern("call", "tools/call", call("hold"))).await;
    assert_eq!(seen.recv().await, Some("entered"), "a permit for the handler is free");
    let mut other = Connection::connect(&server);
    assert_eq!(code(&other.exchange(listen(5, json!({}))).await), Some(-32603), "the bound is the server's");
    connection.send(cancel(3)).await;
    settle().await;
    open(&mut other, 5, json!({})).await;
    drop(connection);
    for _ in 0..1000 {
        settle().await;
        other.send(listen("again", json!({}))).await;
        if other.recv().await.get("method").is_some() {
            return;
        }
    }
    panic!("a closed connection keeps its streams");
}

/// Streams are counted per principal, and separately for anonymous callers.
#[tokio::test(start_paused = true)]
async fn each_principal_has_its_own_limit() {
    let server = Server::builder("test", "1")
        .tool(tool("t", async || "t"))
        .limits(|limits| {
            limits.listen_streams = 1;
            limits.listen_streams_per_principal = 2;
        })
        .build();
    let mut open = Vec::new();
    for (caller, expected) in
        [(None, true), (None, false), (Some("a"), true), (Some("a"), true), (Some("a"), false), (Some("b"), true)]
    {
        let (near, far) = duplex(8);
        let principal = caller.map(|caller| Arc::new(Principal::new(caller)));
        let sink = mcp_transport::Transport::sender(&near);
        let server = server.clone();
        let task = tokio::spawn(async move {
            let params = json!({ "notifications": {} });
            json_client::request_with_scope(&server, "subscriptions/listen", params, |scope| {
                scope.principal(principal).sink(sink)
            })
            .await
        });
        settle().await;
        assert_eq!(!task.is_finished(), expected, "{caller:?}");
        open.push((task, near, far));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_requires_a_transport_with_notifications() {
    let requested =
        json_client::request_with_scope(&server(), "subscriptions/listen", json!({ "notifications": {} }), |scope| {
            scope
        })
        .await;
    let Err(Refusal::Error(error)) = requested else { panic!("{requested:?}") };
    assert_eq!(error.code, mcp_protocol::ErrorCode::INVALID_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_session_can_subscribe_and_unsubscribe_repeatedly() {
    let server = server();
    for version in LEGACY {
        let mut connection = Connection::connect(&server);
        let mut other = Connection::connect(&server);
        assert_eq!(connection.open(version).await["capabilities"]["resources"]["subscribe"], true);
        other.open(version).await;
        other.quiet().await;
        let updates_after = async |connection: &mut Connection, method: &str| {
            let response = connection.exchange(legacy(1, method, json!({ "uri": "x:never-registered" }))).await;
            assert_eq!(response["result"], json!({}));
            server.notify().resource_updated("x:never-registered");
            server.notify().resource_updated("x:never-registered/below");
            let mut count = 0;
            while connection.has_more() {
                let message = connection.recv().await;
                assert_eq!(message["params"], json!({ "uri": "x:never-registered" }));
                count += 1;
            }
            count
        };
        for (method, expected) in [
            ("resources/unsubscribe", 0),
            ("resources/subscribe", 1),
            ("resources/subscribe", 1),
            ("resources/unsubscribe", 0),
            ("resources/unsubscribe", 0),
            ("resources/subscribe", 1),
        ] {
            assert_eq!(updates_after(&mut connection, method).await, expected, "{version} {method}");
        }
        assert!(!other.has_more(), "a session without a subscription receives no update");
        assert_eq!(code(&connection.exchange(legacy(2, "resources/subscribe", json!({}))).await), Some(-32602));
    }
}

#[tokio::test(start_paused = true)]
async fn limits_the_subscriptions_of_a_session() {
    let server = Server::builder("test", "1")
        .resource(resource("x:a", async || "a"))
        .limits(|limits| limits.subscribed_uris = 3)
        .build();
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    for (method, uri, expected) in [
        ("resources/subscribe", "x:1", None),
        ("resources/subscribe", "x:2", None),
        ("resources/subscribe", "x:3", None),
        ("resources/subscribe", "x:4", Some(-32602)),
        ("resources/subscribe", "x:3", None),
        ("resources/unsubscribe", "x:1", None),
        ("resources/subscribe", "x:4", None),
    ] {
        assert_eq!(
            code(&connection.exchange(legacy(1, method, json!({ "uri": uri }))).await),
            expected,
            "{method} {uri}"
        );
    }
    // Subscriptions belong to the session, and go with it.
    connection.open("2025-06-18").await;
    connection.quiet().await;
    server.notify().resource_updated("x:2");
    connection.quiet().await;
    let nothing = Server::builder("test", "1").build();
    let mut connection = Connection::connect(&nothing);
    connection.open("2025-11-25").await;
    let response = connection.exchange(legacy(1, "resources/subscribe", json!({ "uri": "x:a" }))).await;
    assert_eq!(code(&response), Some(-32601), "a server without resources has no subscriptions");
}

/// A client that does not read receives each changed resource once, however often it changed.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_loses_nothing_at_bounded_cost() {
    let server = server();
    let uris: Vec<String> = (0..50).map(|n| format!("x:{n}")).collect();
    let (mut session, mut stream) = (Connection::with_capacity(&server, 4), Connection::with_capacity(&server, 4));
    session.open("2025-11-25").await;
    for uri in &uris {
        session.exchange(legacy(1, "resources/subscribe", json!({ "uri": uri }))).await;
    }
    open(&mut stream, 7, all(&uris.iter().map(String::as_str).collect::<Vec<_>>())).await;
    let change = || {
        for uri in &uris {
            server.notify().resource_updated(uri);
        }
        server.notify().tools_changed();
        server.notify().prompts_changed();
        server.notify().resources_changed();
    };
    for _ in 0..2_000 {
        change();
    }
    for connection in [&mut session, &mut stream] {
        let mut received = std::collections::BTreeMap::<String, usize>::new();
        settle().await;
        while connection.has_more() {
            *received.entry(subject_and_id(&connection.recv().await).0).or_default() += 1;
            settle().await;
        }
        assert_eq!(received.len(), uris.len() + 3);
        let sent: usize = received.values().sum();
        assert!(sent <= uris.len() + 3 + 8, "at most one update each, besides the queued ones: {sent}");
    }
    // The server announces the next change at once.
    server.notify().resource_updated("x:7");
    assert_eq!(subject_and_id(&session.recv().await).0, "x:7");
    assert_eq!(subject_and_id(&stream.recv().await).0, "x:7");
}

#[tokio::test(start_paused = true)]
async fn sends_no_update_after_unsubscribing() {
    let server = server();
    let mut connection = Connection::with_capacity(&server, 1);
    connection.open("2025-11-25").await;
    for uri in ["x:a", "x:b"] {
        connection.exchange(legacy(1, "resources/subscribe", json!({ "uri": uri }))).await;
    }
    server.notify().tools_changed();
    settle().await;
    server.notify().resource_updated("x:a");
    server.notify().resource_updated("x:b");
    connection.send(legacy(2, "resources/unsubscribe", json!({ "uri": "x:a" }))).await;
    settle().await;
    let mut received = Vec::new();
    for _ in 0..3 {
        received.push(connection.recv().await);
        settle().await;
    }
    assert!(!connection.has_more());
    assert!(!received.iter().any(|message| message["params"]["uri"] == "x:a"), "{received:?}");
    assert!(received.iter().any(|message| message["params"]["uri"] == "x:b"), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn changes_before_the_end_of_the_handshake_arrive_after_it() {
    let server = server();
    let mut connection = Connection::connect(&server);
    connection.exchange(initialize("2025-11-25")).await;
    // Over HTTP this request can arrive before the notification.
    connection.exchange(legacy(1, "resources/subscribe", json!({ "uri": "x:a" }))).await;
    for _ in 0..2 {
        server.notify().resource_updated("x:a");
    }
    connection.quiet().await;
    connection.send(notification("notifications/initialized", json!({}))).await;
    let message = connection.recv().await;
    assert_eq!(
        (&message["method"], &message["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("x:a"))
    );
    connection.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn log_messages_without_a_request_go_to_sessions_by_level() {
    let server = server();
    let mut connection = Connection::connect(&server);
    server.notify().log(LoggingLevel::Emergency, "nobody is there");
    connection.exchange(initialize("2025-11-25")).await;
    server.notify().log(LoggingLevel::Emergency, "not initialized");
    connection.send(notification("notifications/initialized", json!({}))).await;
    connection.quiet().await;
    server.notify().log(LoggingLevel::Debug, "below the level");
    server.notify().log_as(LoggingLevel::Info, Some("db"), json!({ "rows": 3 }));
    assert_eq!(connection.recv().await["params"], json!({ "level": "info", "logger": "db", "data": { "rows": 3 } }));
    connection.exchange(legacy(1, "logging/setLevel", json!({ "level": "error" }))).await;
    server.notify().log(LoggingLevel::Warning, "below the level");
    connection.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_of_a_fleet_exchange_changes() {
    let store = MemoryStore::new();
    let node = |name: &str| {
        Server::builder(name, "1")
            .tool(tool("t", async || "t"))
            .resource(resource("x:a", async || "a"))
            .store(Arc::new(store.clone()))
            .build()
    };
    let (here, there, other_fleet) = (node("fleet"), node("fleet"), node("other"));
    let (mut near, mut far, mut apart) =
        (Connection::connect(&here), Connection::connect(&there), Connection::connect(&other_fleet));
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": ["x:a"] });
    for connection in [&mut near, &mut far, &mut apart] {
        open(connection, 1, filter.clone()).await;
    }
    let mut session = Connection::connect(&there);
    session.open("2025-11-25").await;
    session.quiet().await;
    assert_eq!(store.usage().subscriptions, 3);
    let many = || (0..300).for_each(|n| here.notify().resource_updated(&format!("x:{n}")));
    let changes: [(&dyn Fn(), &str); 4] = [
        // Above the limit of pending changes, one change covers everything.
        (&many, "everything"),
        (&|| here.notify().tools_changed(), "notifications/tools/list_changed"),
        (&|| here.notify().resource_updated("x:a"), "x:a"),
        // A change above the size limit covers everything.
        (&|| here.notify().resource_updated(&"x".repeat(10_000)), "everything"),
    ];
    for (change, subject) in changes {
        change();
        settle().await;
        match subject {
            "everything" => {
                assert!(!near.has_more(), "it knows better");
                assert_eq!(subject_and_id(&far.recv().await).0, "notifications/tools/list_changed");
                assert_eq!(subject_and_id(&far.recv().await).0, "x:a");
            }
            _ => {
                assert_eq!(subject_and_id(&near.recv().await).0, subject);
                assert_eq!(subject_and_id(&far.recv().await).0, subject);
            }
        }
        assert!(!near.has_more() && !far.has_more() && !apart.has_more(), "once each, and to no other fleet");
    }
    // The server has no prompts.
    for list in ["tools", "resources"] {
        assert_eq!(subject_and_id(&session.recv().await).0, format!("notifications/{list}/list_changed"));
    }
    drop((near, far, apart, session));
    drop((here, there, other_fleet));
    settle().await;
    assert_eq!(store.usage().subscriptions, 0, "a dropped server has no subscription");
}
