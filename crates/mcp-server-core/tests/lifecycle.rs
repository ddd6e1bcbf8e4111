//! The handshake of the older revisions and the envelope of every message.

use crate::common;
use crate::common::{Connection, LEGACY, call, code, initialize, legacy, modern, notification, text_of};
use mcp_protocol::{Icon, ProtocolVersion};
use mcp_server_core::{Context, Server, prompt, resource, template, tool};
use serde_json::{Value, json};

fn server() -> Server {
    Server::builder("library", "1.2.3")
        .title("The Library")
        .description("Books.")
        .website_url("https://example.com/")
        .icon(Icon::new("https://example.com/icon.png"))
        .instructions("Ask for a title.")
        .tool(tool("version", async |context: Context| context.version().to_string()).title("Version").read_only())
        .build()
}

#[tokio::test(start_paused = true)]
async fn negotiates_every_revision_and_answers_unknown_ones_with_the_latest() {
    let unknown = ["1999-01-01", "2024-10-07", "2026-07-28", "2025-11-25 ", "v1", ""];
    for (offered, chosen) in LEGACY.map(|v| (v, v)).into_iter().chain(unknown.map(|v| (v, "2025-11-25"))) {
        let mut connection = Connection::connect(&server());
        let result = connection.open(offered).await;
        assert_eq!(result["protocolVersion"], chosen, "{offered:?}");
        let version = connection.exchange(legacy(1, "tools/call", call("version"))).await;
        assert_eq!(text_of(&version), chosen, "the session uses the negotiated revision");
    }
}

/// The server omits members that the revision does not define.
#[tokio::test(start_paused = true)]
async fn introduces_itself_in_the_form_of_the_revision() {
    for version in LEGACY {
        let mut connection = Connection::connect(&server());
        let mut result = connection.open(version).await;
        let mut info = json!({ "name": "library", "version": "1.2.3" });
        if version >= "2025-06-18" {
            info["title"] = json!("The Library");
        }
        if version >= "2025-11-25" {
            info["description"] = json!("Books.");
            info["websiteUrl"] = json!("https://example.com/");
            info["icons"] = json!([{ "src": "https://example.com/icon.png" }]);
        }
        assert_eq!(result["serverInfo"].take(), info, "{version}");
        assert_eq!(
            result,
            json!({
                "protocolVersion": version,
                "capabilities": { "logging": {}, "tools": { "listChanged": true } },
                "serverInfo": null,
                "instructions": "Ask for a title.",
            }),
            "{version}"
        );
        let tools = connection.exchange(legacy(1, "tools/list", json!({}))).await;
        let tool = &tools["result"]["tools"][0];
        assert_eq!(tool.get("annotations").is_some(), version >= "2025-03-26", "{tool}");
        assert_eq!(tool.get("title").is_some(), version >= "2025-06-18", "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn declares_registered_capabilities_and_serves_no_other_methods() {
    let text = || async { "text" };
    let server = || Server::builder::<()>("test", "1");
    let everything = json!({
        "logging": {},
        "tools": { "listChanged": true },
        "resources": { "subscribe": true, "listChanged": true },
        "prompts": { "listChanged": true },
        "completions": {},
    });
    let only = |names: &[&str]| {
        let mut capabilities = everything.clone();
        capabilities.as_object_mut().unwrap().retain(|name, _| name == "logging" || names.contains(&name.as_str()));
        capabilities
    };
    let methods = [
        ("tools", "tools/list"),
        ("tools", "tools/call"),
        ("resources", "resources/list"),
        ("resources", "resources/templates/list"),
        ("resources", "resources/read"),
        ("prompts", "prompts/list"),
        ("prompts", "prompts/get"),
        ("completions", "completion/complete"),
    ];
    for (builder, names) in [
        (server(), &[] as &[&str]),
        (server().tool(tool("t", text)), &["tools"]),
        (server().resource(resource("x://r", text)), &["resources"]),
        (server().resource_template(template("x://{+t}", text)), &["resources"]),
        (server().prompt(prompt("p", text)), &["prompts"]),
        (server().dynamic_tools(), &["tools"]),
        (server().dynamic_resources().dynamic_prompts(), &["resources", "prompts"]),
        (
            server().resource_template(template("x://{+t}", text).complete_from("t", ["a"])),
            &["resources", "completions"],
        ),
    ] {
        let server = builder.build();
        for version in LEGACY {
            let mut connection = Connection::connect(&server);
            let mut expected = only(names);
            if version == "2024-11-05" {
                // The server has completions and does not declare them.
                expected.as_object_mut().unwrap().remove("completions");
            }
            assert_eq!(connection.open(version).await["capabilities"], expected, "{version} {names:?}");
            for (capability, method) in methods {
                let there = code(&connection.exchange(legacy(1, method, json!({}))).await) != Some(-32601);
                assert_eq!(there, names.contains(&capability), "{version} {method} {names:?}");
            }
        }
        let mut connection = Connection::connect(&server);
        for (capability, method) in methods {
            let there = code(&connection.exchange(modern(1, method, json!({}))).await) != Some(-32601);
            assert_eq!(there, names.contains(&capability), "{method} {names:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn initialize_requires_its_parameters_and_may_be_repeated() {
    let mut connection = Connection::connect(&server());
    for missing in ["protocolVersion", "capabilities", "clientInfo"] {
        let mut request = initialize("2025-11-25");
        request["params"].as_object_mut().unwrap().remove(missing);
        let response = connection.exchange(request).await;
        assert_eq!(code(&response), Some(-32602), "{response}");
        assert!(response["error"]["message"].as_str().unwrap().contains(missing), "{response}");
    }
    for params in [json!({}), json!(null), json!([]), json!({ "protocolVersion": 7 })] {
        assert_eq!(code(&connection.exchange(legacy(1, "initialize", params)).await), Some(-32602));
    }
    assert_eq!(
        code(&connection.exchange(legacy(1, "tools/list", json!({}))).await),
        Some(-32602),
        "nothing was opened"
    );
    assert_eq!(connection.open("2025-11-25").await["protocolVersion"], "2025-11-25");
    assert_eq!(connection.open("2025-03-26").await["protocolVersion"], "2025-03-26");
    assert_eq!(text_of(&connection.exchange(legacy(1, "tools/call", call("version"))).await), "2025-03-26");
}

#[tokio::test(start_paused = true)]
async fn answers_only_ping_before_initialize() {
    let mut connection = Connection::connect(&server());
    assert_eq!(connection.exchange(legacy(1, "ping", json!({}))).await["result"], json!({}));
    for method in ["tools/list", "tools/call", "logging/setLevel", "no/such", "server/discover"] {
        let response = connection.exchange(legacy(2, method, json!({}))).await;
        assert_eq!(code(&response), Some(-32602), "{response}");
        let message = response["error"]["message"].as_str().unwrap();
        assert!(message.contains("io.modelcontextprotocol/protocolVersion") && message.contains("initialize"));
    }
    connection.send(notification("notifications/initialized", json!({}))).await;
    assert_eq!(code(&connection.exchange(legacy(3, "tools/list", json!({}))).await), Some(-32602));

    // The response of `initialize` opens the session: requests need not wait for the notification.
    assert!(connection.exchange(initialize("2025-11-25")).await.get("result").is_some());
    assert!(connection.exchange(legacy(4, "tools/list", json!({}))).await.get("result").is_some());
    assert_eq!(connection.exchange(legacy(5, "ping", json!({}))).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn sends_list_changes_after_initialized_and_only_to_the_latest_session() {
    let server = server();
    let mut connection = Connection::connect(&server);
    server.tools().add(tool("a", async || "a")).unwrap();
    connection.exchange(initialize("2025-11-25")).await;
    server.tools().add(tool("b", async || "b")).unwrap();
    assert_eq!(connection.exchange(legacy(1, "ping", json!({}))).await["id"], 1, "nothing came before the answer");
    connection.send(notification("notifications/initialized", json!({}))).await;
    // The client may have listed the tools before the change.
    assert_eq!(connection.recv().await["method"], "notifications/tools/list_changed");
    connection.quiet().await;
    server.tools().add(tool("c", async || "c")).unwrap();
    assert_eq!(connection.recv().await["method"], "notifications/tools/list_changed");

    // A call keeps the former session alive. That session receives no more changes.
    let (hold, mut seen) = common::hold();
    server.tools().add(hold).unwrap();
    assert_eq!(connection.recv().await["method"], "notifications/tools/list_changed");
    connection.send(legacy(2, "tools/call", call("hold"))).await;
    assert_eq!(common::event(&mut seen).await, "entered");
    connection.open("2025-06-18").await;
    connection.quiet().await;
    assert!(server.tools().remove("c"));
    assert_eq!(connection.recv().await["method"], "notifications/tools/list_changed");
    connection.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn unknown_methods_are_errors_and_unknown_notifications_are_ignored() {
    let mut connection = Connection::connect(&server());
    connection.open("2025-11-25").await;
    for method in [
        "no/such",
        "",
        "Ping",
        "tools/List",
        "notifications/initialized",
        "roots/list",
        "sampling/createMessage",
        "elicitation/create",
        "server/discover",
        "subscriptions/listen",
        "tasks/update",
    ] {
        let response = connection.exchange(legacy(1, method, json!({}))).await;
        assert_eq!(code(&response), Some(-32601), "{response}");
        assert_eq!(response["error"]["message"], format!("Method not found: {method}"));
    }
    let long = "x".repeat(10_000);
    let response = connection.exchange(legacy(1, &long, json!({}))).await;
    assert!(response["error"]["message"].as_str().unwrap().len() < 200);
    for method in ["notifications/no_such", "initialized", "tools/call", "notifications/roots/list_changed", "ping"] {
        connection.send(notification(method, json!({ "any": ["thing"] }))).await;
    }
    // These responses belong to no request.
    connection.send(json!({ "jsonrpc": "2.0", "id": 1, "result": {} })).await;
    connection.send(json!({ "jsonrpc": "2.0", "id": 2, "error": { "code": -1, "message": "no" } })).await;
    connection.send(json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -1, "message": "no" } })).await;
    connection.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn returns_ids_unchanged() {
    let mut connection = Connection::connect(&server());
    connection.open("2025-11-25").await;
    let ids = [
        json!(0),
        json!(-7),
        json!(i64::MAX),
        json!(i64::MIN),
        json!(9_007_199_254_740_993_i64),
        json!(""),
        json!("1"),
        json!("a \"b\" \\ \n é 🦀"),
        json!("x".repeat(256)),
    ];
    for id in ids {
        for request in [
            legacy(id.clone(), "ping", json!({})),
            legacy(id.clone(), "tools/list", json!({})),
            legacy(id.clone(), "tools/call", call("version")),
            legacy(id.clone(), "no/such", json!({})),
            modern(id.clone(), "server/discover", json!({})),
            modern(id.clone(), "tools/call", call("version")),
            modern(id.clone(), "tools/call", json!({})),
        ] {
            connection.exchange(request).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn answers_invalid_envelopes_and_continues() {
    let mut connection = Connection::connect(&server());
    connection.open("2025-11-25").await;
    let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let cases: Vec<(String, i64, Value)> = vec![
        ("{".into(), -32700, Value::Null),
        ("nonsense".into(), -32700, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#.into(), -32700, Value::Null),
        ("[]".into(), -32600, Value::Null),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#.into(), -32600, json!(1)),
        ("7".into(), -32600, Value::Null),
        ("null".into(), -32600, Value::Null),
        (r#""ping""#.into(), -32600, Value::Null),
        ("{}".into(), -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":4}"#.into(), -32600, json!(4)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#.into(), -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#.into(), -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"ping"}"#.into(), -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#.into(), -32600, Value::Null),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#.into(), -32600, Value::Null),
        (legacy("x".repeat(257), "ping", json!({})).to_string(), -32600, Value::Null),
        (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#.into(), -32600, json!("a")),
        (r#"{"id":"a","method":"ping"}"#.into(), -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":"a","method":7}"#.into(), -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":"a","method":"ping","result":{}}"#.into(), -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":"a","result":{},"error":{"code":1,"message":"m"}}"#.into(), -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":[]}"#.into(), -32602, json!("a")),
        (r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":7}"#.into(), -32602, json!("a")),
        (r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":7}}"#.into(), -32602, json!("a")),
        (
            format!(r#"{{"jsonrpc":"2.0","id":"a","method":"ping","params":{{"x":{}}}}}"#, deep(127)),
            -32700,
            Value::Null,
        ),
    ];
    for (text, expected, id) in cases {
        connection.text(text.clone()).await;
        let response = connection.recv().await;
        assert_eq!((code(&response), &response["id"]), (Some(expected), &id), "{text}: {response}");
        connection.quiet().await;
    }
    // The deepest that is read.
    connection.text(format!(r#"{{"jsonrpc":"2.0","id":"a","method":"ping","params":{{"x":{}}}}}"#, deep(126))).await;
    assert_eq!(connection.recv().await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn ignores_unknown_members() {
    let mut connection = Connection::connect(&server());
    let mut request = initialize("2025-11-25");
    request["extra"] = json!({ "a": 1 });
    request["params"]["extra"] = json!([1]);
    request["params"]["capabilities"] =
        json!({ "fancy": { "x": 1 }, "experimental": { "y": {} }, "roots": { "z": 1 } });
    request["params"]["clientInfo"]["shoe"] = json!(42);
    request["params"]["_meta"] = json!({ "com.example/a": 1, "plain": null });
    assert_eq!(connection.exchange(request).await["result"]["protocolVersion"], "2025-11-25");
    let params = json!({ "name": "version", "extra": 1, "arguments": {}, "_meta": { "com.example/b": { "c": [] } } });
    assert_eq!(text_of(&connection.exchange(legacy(1, "tools/call", params.clone())).await), "2025-11-25");
    assert_eq!(text_of(&connection.exchange(modern(2, "tools/call", params)).await), "2026-07-28");
}

#[tokio::test(start_paused = true)]
async fn a_server_can_support_fewer_revisions() {
    let some = |versions: &[ProtocolVersion]| {
        let versions = versions.to_vec();
        Server::builder::<()>("test", "1").versions(versions).tool(tool("t", async || "t")).build()
    };
    // With older revisions only, the newest of them answers an unsupported offer.
    let server = some(&[ProtocolVersion::V2024_11_05, ProtocolVersion::V2025_06_18]);
    for (offered, chosen) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-06-18"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-06-18"),
    ] {
        let mut connection = Connection::connect(&server);
        assert_eq!(connection.open(offered).await["protocolVersion"], chosen);
        let response = connection.exchange(modern(1, "tools/list", json!({}))).await;
        assert_eq!(code(&response), Some(-32022));
        assert_eq!(
            response["error"]["data"],
            json!({ "supported": ["2025-06-18", "2024-11-05"], "requested": "2026-07-28" })
        );
    }
    // With the newest revision alone there is no handshake. The error lists the supported revisions.
    let mut connection = Connection::connect(&some(&[ProtocolVersion::V2026_07_28]));
    let response = connection.exchange(initialize("2025-11-25")).await;
    assert_eq!(code(&response), Some(-32022), "{response}");
    assert_eq!(response["error"]["data"], json!({ "supported": ["2026-07-28"], "requested": "2025-11-25" }));
    for method in ["ping", "tools/list"] {
        assert_eq!(code(&connection.exchange(legacy(1, method, json!({}))).await), Some(-32602), "{method}");
    }
    assert!(connection.exchange(modern(2, "tools/list", json!({}))).await.get("result").is_some());
}

/// The client data of a session is bounded. The session does not store inline images.
#[tokio::test]
async fn accepts_a_client_with_large_icons_and_bounds_its_other_data() {
    let server = Server::builder("test", "1")
        .tool(tool("icons", async |context: Context| {
            let icons = context.client_info().map(|info| info.icons.len());
            format!("{icons:?}")
        }))
        .build();
    let large = "x".repeat(20 << 10);
    for (inline, other, expected) in [
        ("data:image/png;base64,AAAA".to_owned(), "", Some("Some(2)")),
        (format!("data:image/png;base64,{large}"), "", Some("Some(1)")),
        (format!("DATA:image/png;base64,{large}"), "", Some("Some(1)")),
        ("data:,".to_owned(), &*large, None),
    ] {
        let mut connection = Connection::connect(&server);
        let mut opening = initialize("2025-11-25");
        opening["params"]["clientInfo"]["icons"] = json!([{ "src": inline }, { "src": "https://a.example/icon.png" }]);
        opening["params"]["clientInfo"]["description"] = other.into();
        let opened = connection.exchange(opening).await;
        let Some(expected) = expected else {
            assert_eq!(code(&opened), Some(-32602), "{opened}");
            continue;
        };
        assert!(opened["result"].is_object(), "{opened}");
        assert_eq!(text_of(&connection.exchange(legacy(2, "tools/call", call("icons"))).await), expected);
    }
}
