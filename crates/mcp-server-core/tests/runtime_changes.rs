//! Changes of a running server, and their effect on clients.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::sync::atomic::{AtomicBool, Ordering};

use crate::json_client::{Client, names, request_with_scope};
use mcp_protocol::{Principal, ProtocolVersion};
use mcp_server_core::{Args, RawArgs, Server, ToolRoute, prompt, resource, template, tool};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

fn named(name: &str) -> ToolRoute {
    let text = name.to_owned();
    tool(name, async move || text.clone())
}

fn one_of_each() -> Server {
    Server::builder("t", "1")
        .tool(named("x"))
        .resource(resource("x:r", async || "resource"))
        .resource_template(template("x:t/{x}", async || "template"))
        .prompt(prompt("x", async || "prompt"))
        .build()
}

#[tokio::test]
async fn adds_and_removes_entries_while_the_server_runs() {
    let server = one_of_each();
    server.tools().add(named("later")).unwrap();
    server.resources().add(resource("x:later", async || "later")).unwrap();
    server.resource_templates().add(template("x:later/{x}", async || "later")).unwrap();
    server.prompts().add(prompt("later", async || "later")).unwrap();
    assert_eq!(server.tools().names(), ["x", "later"]);
    assert_eq!(server.resources().names(), ["x:r", "x:later"]);
    assert_eq!(server.resource_templates().names(), ["x:t/{x}", "x:later/{x}"]);
    assert_eq!(server.prompts().names(), ["x", "later"]);
    server.call_tool("later", json!({})).await.unwrap();
    server.read_resource("x:later").await.unwrap();
    server.read_resource("x:later/1").await.unwrap();
    server.get_prompt("later", [("", ""); 0]).await.unwrap();

    assert!(server.tools().remove("later") && !server.tools().remove("later"));
    assert!(server.resources().remove("x:later") && !server.resources().remove("x:nope"));
    assert!(server.resource_templates().remove("x:later/{x}") && !server.resource_templates().remove("x:later/1"));
    assert!(server.prompts().remove("later") && !server.prompts().remove(""));
    server.call_tool("later", json!({})).await.unwrap_err();
    server.read_resource("x:later").await.unwrap_err();
    server.read_resource("x:later/1").await.unwrap_err();
    server.get_prompt("later", [("", ""); 0]).await.unwrap_err();
    // The name of a removed tool is free. A tool with this name is added at the end.
    server.tools().extend([named("y"), named("later")]).unwrap();
    assert_eq!(server.tools().names(), ["x", "y", "later"]);
}

#[tokio::test]
async fn names_are_separate_for_each_kind() {
    let server = one_of_each();
    assert_eq!(server.call_tool("x", json!({})).await.unwrap().content[0].as_text(), Some("x"));
    let prompted = server.get_prompt("x", [("", ""); 0]).await.unwrap();
    assert_eq!(prompted.messages[0].content.as_text(), Some("prompt"));
    assert!(server.tools().remove("x"));
    server.get_prompt("x", [("", ""); 0]).await.unwrap();
}

#[tokio::test]
async fn a_rejected_registration_changes_nothing() {
    let server = one_of_each();
    for (routes, text) in [
        (vec![named("new"), named("x")], "the tool `x` is already registered"),
        (vec![named("new"), named("new")], "the tool `new` is already registered"),
        (vec![named("new"), named("not valid")], "a name has"),
        (vec![tool("raw", async |_: RawArgs| "x")], "`RawArgs` needs"),
    ] {
        let error = server.tools().extend(routes).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        assert_eq!(server.tools().names(), ["x"], "all or none");
    }
    assert!(server.resources().add(resource("x:r", async || "x")).is_err());
    assert!(server.resource_templates().add(template("x:t/{x}", async || "x")).is_err());
    assert!(server.prompts().add(prompt("x", async || "x")).is_err());
    assert_eq!(server.call_tool("x", json!({})).await.unwrap().content[0].as_text(), Some("x"));
}

#[tokio::test]
async fn announces_a_change_once_to_each_session() {
    let server = one_of_each();
    for version in ProtocolVersion::ALL.iter().copied().filter(|version| version.has_handshake()) {
        let mut first = Client::connect(&server, version).await;
        let mut second = Client::connect(&server, version).await;
        // Both sessions have a response, so the server has processed `notifications/initialized`.
        first.result("ping", json!({})).await;
        second.result("ping", json!({})).await;
        let changes: [(&str, &dyn Fn()); 7] = [
            ("tools", &|| server.tools().extend([named("a"), named("b")]).unwrap()),
            ("tools", &|| assert!(server.tools().remove("a"))),
            ("tools", &|| assert!(server.tools().remove("b"))),
            ("resources", &|| server.resources().add(resource("x:a", async || "x")).unwrap()),
            ("resources", &|| assert!(server.resources().remove("x:a"))),
            ("resources", &|| server.resource_templates().add(template("x:{a}", async || "x")).unwrap()),
            ("prompts", &|| server.prompts().add(prompt("a", async || "x")).unwrap()),
        ];
        for (kind, change) in changes {
            change();
            for client in [&mut first, &mut second] {
                client.result("ping", json!({})).await;
                let received = std::mem::take(&mut client.notifications);
                assert_eq!(names(&received, "method"), [format!("notifications/{kind}/list_changed")], "{version}");
            }
        }
        // A call without effect sends no notification.
        assert!(!server.tools().remove("gone"));
        server.tools().add(named("x")).unwrap_err();
        server.tools().extend([]).unwrap();
        first.result("ping", json!({})).await;
        assert!(first.notifications.is_empty(), "{:?}", first.notifications);
        assert!(server.resource_templates().remove("x:{a}") && server.prompts().remove("a"));
    }
}

#[tokio::test]
async fn a_capability_remains_when_its_list_becomes_empty() {
    let server = one_of_each();
    let mut clients = Vec::new();
    for &version in ProtocolVersion::ALL {
        clients.push((version, Client::connect(&server, version).await));
    }
    assert!(server.tools().remove("x") && server.prompts().remove("x"));
    assert!(server.resources().remove("x:r") && server.resource_templates().remove("x:t/{x}"));
    for (version, client) in &mut clients {
        for (method, member) in [
            ("tools/list", "tools"),
            ("resources/list", "resources"),
            ("resources/templates/list", "resourceTemplates"),
            ("prompts/list", "prompts"),
        ] {
            assert!(client.list(method, member).await.is_empty(), "{version} {method}");
        }
        assert_eq!(client.error("tools/call", json!({ "name": "x" })).await["code"], -32602, "{version}");
    }
    let late = Client::connect(&server, ProtocolVersion::LATEST).await;
    for capability in ["tools", "resources", "prompts"] {
        assert!(late.opening["capabilities"][capability].is_object(), "{}", late.opening);
    }
}

#[tokio::test]
async fn the_methods_of_a_missing_capability_are_unknown() {
    let nothing = Server::builder("t", "1").build();
    let calls = [
        ("tools/list", json!({}), "tools"),
        ("tools/call", json!({ "name": "x" }), "tools"),
        ("resources/list", json!({}), "resources"),
        ("resources/templates/list", json!({}), "resources"),
        ("resources/read", json!({ "uri": "x:r" }), "resources"),
        ("prompts/list", json!({}), "prompts"),
        ("prompts/get", json!({ "name": "x" }), "prompts"),
    ];
    let full = one_of_each();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&nothing, version).await;
        let mut with_all = Client::connect(&full, version).await;
        for (method, params, capability) in calls.clone() {
            assert!(client.opening["capabilities"].get(capability).is_none(), "{version}: {}", client.opening);
            assert_eq!(client.error(method, params.clone()).await["code"], -32601, "{version} {method}");
            assert!(with_all.opening["capabilities"][capability].is_object(), "{version}");
            with_all.result(method, params).await;
        }
    }
}

#[tokio::test]
async fn lists_are_in_registration_order_for_every_client() {
    let names_in_order = ["zebra", "apple", "Mango", "a.b", "_", "zz"];
    let server =
        names_in_order.iter().fold(Server::builder::<()>("t", "1"), |builder, name| builder.tool(named(name))).build();
    for &version in ProtocolVersion::ALL {
        let mut first = Client::connect_with(&server, version, json!({ "roots": {} })).await;
        let before = first.list("tools/list", "tools").await;
        assert_eq!(names(&before, "name"), names_in_order, "{version}");
        for name in ["apple", "zz"] {
            first.result("tools/call", json!({ "name": name })).await;
        }
        let mut second = Client::connect(&server, version).await;
        assert_eq!(second.list("tools/list", "tools").await, before, "{version}");
        assert_eq!(first.list("tools/list", "tools").await, before, "{version}");
    }
    let alice = Some(std::sync::Arc::new(Principal::new("alice").with_scopes(["admin"])));
    let hers = request_with_scope(&server, "tools/list", json!({}), |scope| scope.principal(alice)).await.unwrap();
    let anyones = request_with_scope(&server, "tools/list", json!({}), |scope| scope).await.unwrap();
    assert_eq!(hers, anyones);
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    n: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_lists_continue_while_tools_change() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let server = Server::builder("t", "1")
        .tool(tool("stays", async |Args(Number { n }): Args<Number>| (n + 1).to_string()))
        .build();
    let writer = std::thread::spawn({
        let server = server.clone();
        move || {
            let mut rounds = 0;
            while !DONE.load(Ordering::Acquire) || rounds < 20 {
                // At any moment the list has both tools of a pair or neither.
                server.tools().extend([named("left"), named("right")]).unwrap();
                assert!(server.tools().remove("left") && server.tools().remove("right"));
                rounds += 1;
            }
        }
    });
    for n in 0..500 {
        let result = server.call_tool("stays", json!({ "n": n })).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(&*(n + 1).to_string()));
        let names = server.tools().names();
        assert!(
            matches!(
                names.iter().map(String::as_str).collect::<Vec<_>>()[..],
                ["stays"] | ["stays", "right"] | ["stays", "left", "right"]
            ),
            "{names:?}"
        );
    }
    DONE.store(true, Ordering::Release);
    writer.join().unwrap();
    assert_eq!(server.tools().names(), ["stays"]);
}

#[tokio::test]
async fn a_removed_tool_finishes_its_calls() {
    let server = Server::builder("t", "1").build();
    let (entered, mut inside) = tokio::sync::mpsc::channel::<()>(1);
    let release = std::sync::Arc::new(tokio::sync::Notify::new());
    let waits = {
        let release = release.clone();
        async move || {
            entered.send(()).await.unwrap();
            release.notified().await;
            "finished"
        }
    };
    server.tools().add(tool("t", waits)).unwrap();
    let call = tokio::spawn({
        let server = server.clone();
        async move { server.call_tool("t", json!({})).await }
    });
    inside.recv().await.unwrap();
    assert!(server.tools().remove("t"));
    release.notify_one();
    assert_eq!(call.await.unwrap().unwrap().content[0].as_text(), Some("finished"));
}

#[tokio::test]
async fn a_handler_can_change_its_own_server() {
    let server = Server::builder("test", "1")
        .tool(tool("grow", async |server: Server| match server.tools().add(tool("grown", async || "new")) {
            Ok(()) => "added",
            Err(_) => "there already",
        }))
        .build();
    for (name, expected) in [("grow", "added"), ("grown", "new"), ("grow", "there already")] {
        let result = server.call_tool(name, json!({})).await.unwrap();
        assert_eq!(result.content[0].as_text(), Some(expected));
    }
}
