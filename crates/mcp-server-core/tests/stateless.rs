//! Requests of 2026-07-28: each is independent, also beside a session of an older revision on the same connection.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use crate::common::{Connection, LEGACY, call, code, initialize, legacy, modern, notification, text_of};
use mcp_protocol::{CacheScope, ClientCapabilities, LoggingLevel, Meta, meta::keys};
use mcp_server_core::{CacheHint, Context, Server, WithMeta, prompt, resource, template, tool};
use serde_json::{Value, json};

fn server() -> Server {
    let sampling: ClientCapabilities = serde_json::from_value(json!({ "sampling": {} })).unwrap();
    Server::builder("test", "1")
        .instructions("Ask.")
        .tool(tool("client", async |context: Context| {
            let sampling = context.client_capabilities().sampling.is_some();
            let name = context.client_info().map_or("nobody", |info| &info.name).to_owned();
            context.log(LoggingLevel::Info, "asked").await;
            format!("{} {name} {sampling}", context.version())
        }))
        .tool(tool("needs", async || "sampled").requires_client(sampling))
        .resource(resource("x://a", async || "a"))
        .resource_template(template("y://{+path}", async || "y").complete_from("path", ["one", "two"]))
        .prompt(prompt("greet", async || "hello"))
        .build()
}

/// Every method that returns a result.
fn every_method() -> Vec<(&'static str, Value)> {
    vec![
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("tools/call", call("client")),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "x://a" })),
        ("resources/read", json!({ "uri": "y://b/c" })),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "greet" })),
        (
            "completion/complete",
            json!({
                "ref": { "type": "ref/resource", "uri": "y://{+path}" },
                "argument": { "name": "path", "value": "o" },
            }),
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn every_result_carries_its_type_and_the_server_identity() {
    let mut connection = Connection::connect(&server());
    for (method, params) in every_method() {
        let response = connection.exchange(modern(1, method, params)).await;
        let result = &response["result"];
        assert_eq!(result["resultType"], "complete", "{method}: {response}");
        assert_eq!(result["_meta"][keys::SERVER_INFO], json!({ "name": "test", "version": "1" }), "{method}");
        let caches = !matches!(method, "tools/call" | "prompts/get" | "completion/complete");
        assert_eq!(result.get("ttlMs").is_some(), caches, "{method}: {result}");
        assert_eq!(result.get("cacheScope").is_some(), caches, "{method}: {result}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_of_a_handler_accompanies_the_identity() {
    let meta = || Meta::new().with("com.example/trace", 7);
    let server = Server::builder("test", "1")
        .tool(tool("own", async move || WithMeta("own", meta())))
        .tool(tool("other", async || {
            WithMeta("other", Meta::new().with(keys::SERVER_INFO, json!({ "name": "proxy" })))
        }))
        .build();
    let mut connection = Connection::connect(&server);
    let own = connection.exchange(modern(1, "tools/call", call("own"))).await;
    assert_eq!(
        own["result"],
        json!({
            "resultType": "complete",
            "content": [{ "type": "text", "text": "own" }],
            "_meta": { "com.example/trace": 7, keys::SERVER_INFO: { "name": "test", "version": "1" } },
        })
    );
    // A forwarded result keeps the identity of its server.
    let other = connection.exchange(modern(1, "tools/call", call("other"))).await;
    assert_eq!(other["result"]["_meta"], json!({ keys::SERVER_INFO: { "name": "proxy" } }));
}

#[tokio::test(start_paused = true)]
async fn older_revisions_receive_no_identity() {
    for version in LEGACY {
        let mut connection = Connection::connect(&server());
        assert!(connection.exchange(initialize(version)).await["result"].get("resultType").is_none());
        connection.send(legacy(0, "logging/setLevel", json!({ "level": "emergency" }))).await;
        assert_eq!(connection.recv().await["result"], json!({}));
        for (method, params) in every_method().split_off(1) {
            let response = connection.exchange(legacy(1, method, params)).await;
            for member in ["resultType", "ttlMs", "cacheScope", "_meta"] {
                assert!(response["result"].is_object(), "{response}");
                assert!(response["result"].get(member).is_none(), "{version} {method}: {response}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn checks_metadata_before_the_method_and_the_method_before_its_parameters() {
    let mut connection = Connection::connect(&server());
    let with = |key: &str, value: Value| json!({ "_meta": { key: value } });
    for (what, method, params, expected, expected_text) in [
        ("no version", "tools/list", with(keys::PROTOCOL_VERSION, Value::Null), -32602, keys::PROTOCOL_VERSION),
        (
            "no version, discover",
            "server/discover",
            with(keys::PROTOCOL_VERSION, Value::Null),
            -32602,
            keys::PROTOCOL_VERSION,
        ),
        ("version type", "tools/list", with(keys::PROTOCOL_VERSION, json!(7)), -32602, keys::PROTOCOL_VERSION),
        (
            "no capabilities",
            "tools/list",
            with(keys::CLIENT_CAPABILITIES, Value::Null),
            -32602,
            keys::CLIENT_CAPABILITIES,
        ),
        (
            "capabilities type",
            "tools/list",
            with(keys::CLIENT_CAPABILITIES, json!([])),
            -32602,
            keys::CLIENT_CAPABILITIES,
        ),
        (
            "capability type",
            "tools/list",
            with(keys::CLIENT_CAPABILITIES, json!({ "sampling": 7 })),
            -32602,
            keys::CLIENT_CAPABILITIES,
        ),
        ("info type", "tools/list", with(keys::CLIENT_INFO, json!("me")), -32602, keys::CLIENT_INFO),
        ("log level", "tools/list", with(keys::LOG_LEVEL, json!("loud")), -32602, keys::LOG_LEVEL),
        ("progress token", "tools/list", with("progressToken", json!({})), -32602, "progressToken"),
        ("unknown version", "no/such", with(keys::PROTOCOL_VERSION, json!("2099-01-01")), -32022, "2099-01-01"),
        ("older version", "tools/list", with(keys::PROTOCOL_VERSION, json!("2025-11-25")), -32022, "2025-11-25"),
        ("unknown method", "no/such", json!({ "cursor": 7 }), -32601, "no/such"),
        ("bad parameters", "tools/list", json!({ "cursor": 7 }), -32602, "tools/list"),
        ("capability not declared", "tools/call", call("needs"), -32021, "sampling"),
    ] {
        let response = connection.exchange(modern("i", method, params)).await;
        assert_eq!(code(&response), Some(expected), "{what}: {response}");
        assert!(response["error"]["message"].as_str().unwrap().contains(expected_text), "{what}: {response}");
        let data = &response["error"]["data"];
        match expected {
            -32022 => assert_eq!(
                *data,
                json!({
                    "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
                    "requested": expected_text,
                })
            ),
            -32021 => assert_eq!(*data, json!({ "requiredCapabilities": { "sampling": {} } })),
            _ => assert!(data.is_null(), "{what}: {response}"),
        }
    }
    let nameless = modern(1, "tools/call", json!({ "name": "client", "_meta": { keys::CLIENT_INFO: null } }));
    assert_eq!(
        text_of(&connection.exchange(nameless).await),
        "2026-07-28 nobody false",
        "the client information is optional"
    );
}

#[tokio::test(start_paused = true)]
async fn methods_of_sessions_are_unknown() {
    let mut connection = Connection::connect(&server());
    connection.open("2025-11-25").await;
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/result",
        "tasks/list",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
    ] {
        let mut params = initialize("2025-11-25")["params"].clone();
        params["level"] = json!("debug");
        params["uri"] = json!("x://a");
        let response = connection.exchange(modern(1, method, params)).await;
        assert_eq!(code(&response), Some(-32601), "{method}: {response}");
        let text = response["error"]["message"].as_str().unwrap();
        let start = format!("Method not found: {method}. It does not exist in 2026-07-28: ");
        assert!(text.len() > start.len() && text.starts_with(&start), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn discovery_returns_everything_and_is_optional() {
    let mut connection = Connection::connect(&server());
    assert_eq!(
        text_of(&connection.exchange(modern(1, "tools/call", call("client"))).await),
        "2026-07-28 modern-client false"
    );
    let response = connection.exchange(modern(2, "server/discover", json!({}))).await;
    assert_eq!(
        response["result"],
        json!({
            "resultType": "complete",
            "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
            "capabilities": {
                "logging": {},
                "tools": { "listChanged": true },
                "resources": { "subscribe": true, "listChanged": true },
                "prompts": { "listChanged": true },
                "completions": {},
            },
            "instructions": "Ask.",
            "ttlMs": 0,
            "cacheScope": "private",
            "_meta": { keys::SERVER_INFO: { "name": "test", "version": "1" } },
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_can_allow_caching_of_responses() {
    let hour = std::time::Duration::from_secs(3600);
    let server = Server::builder("test", "1")
        .tool(tool("t", async || "t"))
        .discover_cache(CacheHint::public(hour))
        .list_cache(CacheHint::private(hour / 60))
        .build();
    let mut connection = Connection::connect(&server);
    for (method, ttl, scope) in
        [("server/discover", 3_600_000, CacheScope::Public), ("tools/list", 60_000, CacheScope::Private)]
    {
        let result = connection.exchange(modern(1, method, json!({}))).await["result"].clone();
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(ttl), &json!(scope)), "{method}");
    }
}

/// The server forgets the client data of a request after its response.
#[tokio::test(start_paused = true)]
async fn requests_are_independent_of_each_other() {
    let mut connection = Connection::connect(&server());
    let able = json!({
        keys::CLIENT_CAPABILITIES: { "sampling": {} },
        keys::CLIENT_INFO: { "name": "able", "version": "1" },
        keys::LOG_LEVEL: "debug",
    });
    let able = |name: &str| json!({ "name": name, "_meta": able });
    for _ in 0..2 {
        assert_eq!(text_of(&connection.exchange(modern(1, "tools/call", able("needs"))).await), "sampled");
        assert_eq!(code(&connection.exchange(modern(2, "tools/call", call("needs"))).await), Some(-32021));
        connection.send(modern(3, "tools/call", able("client"))).await;
        assert_eq!(connection.recv().await["method"], "notifications/message");
        assert_eq!(text_of(&connection.recv().await), "2026-07-28 able true");
        assert_eq!(
            text_of(&connection.exchange(modern(4, "tools/call", call("client"))).await),
            "2026-07-28 modern-client false"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn extensions_that_only_one_peer_declares_change_nothing() {
    let mut connection = Connection::connect(&server());
    let plain = connection.exchange(modern(1, "tools/list", json!({}))).await;
    let capabilities = json!({ "extensions": { "com.example/fancy": { "level": 3 } }, "experimental": { "x": {} } });
    for info in [json!({ "name": "other", "version": "9" }), Value::Null] {
        let meta = json!({ keys::CLIENT_CAPABILITIES: capabilities, keys::CLIENT_INFO: info, "com.example/key": [1] });
        let fancy = connection.exchange(modern(1, "tools/list", json!({ "_meta": meta }))).await;
        assert_eq!(fancy, plain, "the client information has no effect");
    }
    let discovered = connection.exchange(modern(1, "server/discover", json!({}))).await;
    assert!(discovered["result"]["capabilities"].get("extensions").is_none());
}

#[tokio::test(start_paused = true)]
async fn both_eras_interleave_on_one_connection() {
    let mut connection = Connection::connect(&server());
    // A stateless request works before the handshake and does not open a session.
    assert_eq!(
        text_of(&connection.exchange(modern(1, "tools/call", call("client"))).await),
        "2026-07-28 modern-client false"
    );
    assert_eq!(code(&connection.exchange(legacy(2, "tools/list", json!({}))).await), Some(-32602));
    connection.open("2025-03-26").await;
    let quiet = json!({ "level": "error" });
    assert_eq!(connection.exchange(legacy(3, "logging/setLevel", quiet)).await["result"], json!({}));
    for round in 0..3 {
        let loud = json!({ "name": "client", "_meta": {
            keys::LOG_LEVEL: "debug",
            keys::CLIENT_CAPABILITIES: { "sampling": {}, "elicitation": {} },
        } });
        connection.send(modern("m", "tools/call", loud)).await;
        assert_eq!(connection.recv().await["params"]["data"], "asked");
        let response = connection.recv().await;
        assert_eq!(text_of(&response), "2026-07-28 modern-client true");
        assert_eq!(response["result"]["resultType"], "complete");
        assert_eq!(
            code(&connection.exchange(modern("r", "resources/read", json!({ "uri": "z://" }))).await),
            Some(-32602)
        );
        // A failed stateless request has no effect on the session.
        assert_eq!(code(&connection.exchange(modern("x", "initialize", json!({}))).await), Some(-32601));

        let response = connection.exchange(legacy(round, "tools/call", call("client"))).await;
        assert_eq!(text_of(&response), "2025-03-26 legacy-client false", "no log record, and the session's own client");
        assert!(response["result"].get("resultType").is_none());
        assert_eq!(
            code(&connection.exchange(legacy("r", "resources/read", json!({ "uri": "z://" }))).await),
            Some(-32002)
        );
        connection.send(notification("notifications/initialized", json!({}))).await;
    }
}
