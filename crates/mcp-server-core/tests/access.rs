//! Access rules of tools, resources, templates and prompts, for each way to reach them.

use mcp_protocol::Principal;
use mcp_server_core::{
    Args, Caller, Server, TaskSupport,
    engine::{Refusal, Scope},
    prompt, resource, template, tool,
};
use serde_json::{Value, json};

use crate::{
    common::{Connection, initialize, legacy, notification},
    json_client::request_with_scope,
};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Name {
    name: String,
}

fn server() -> Server {
    Server::builder("test", "1")
        .tool(tool("open", async || "open"))
        .tool(tool("scoped", async || "scoped").requires_scopes(["s"]))
        .tool(tool("known", async || "known").requires_authentication().task(TaskSupport::Optional))
        .resource(resource("open://r", async || "open"))
        .resource(resource("scoped://r", async || "scoped").requires_scopes(["s"]))
        .resource(resource("known://r", async || "known").requires_authentication())
        .resource_template(
            template("scoped-t://{name}", async |Args(Name { name }): Args<Name>| name)
                .requires_scopes(["s"])
                .complete_from("name", ["a"]),
        )
        .resource_template(
            template("known-t://{name}", async |Args(Name { name }): Args<Name>| name).requires_authentication(),
        )
        .prompt(
            prompt("scoped", async |Args(Name { name }): Args<Name>| name)
                .requires_scopes(["s", "t"])
                .complete_from("name", ["a"]),
        )
        .prompt(prompt("known", async || "p").requires_authentication())
        .build()
}

/// The result of a request: `None` if it has access, and otherwise the scopes that it needs.
async fn denied(
    server: &Server,
    caller: Option<&Principal>,
    method: &str,
    params: Value,
) -> Option<(Vec<String>, bool)> {
    let with = |scope: Scope| scope.principal(caller.cloned().map(Into::into));
    match request_with_scope(server, method, params, with).await {
        Err(Refusal::Denied(denied)) => Some((denied.scopes, denied.is_anonymous)),
        _ => None,
    }
}

#[tokio::test]
async fn each_way_to_an_entry_checks_its_access_rule() {
    let server = server();
    let (known, granted) = (Principal::new("ann"), Principal::new("ann").with_scopes(["s", "t"]));
    let complete = |kind: &str, key: &str, value: &str| json!({ "ref": { "type": kind, key: value }, "argument": { "name": "name", "value": "" } });
    let filter = |uri: &str| json!({ "notifications": { "resourceSubscriptions": [uri] } });
    let (none, s, st): (&[&str], &[&str], &[&str]) = (&[], &["s"], &["s", "t"]);
    for (method, params, scopes) in [
        ("tools/call", json!({ "name": "scoped" }), s),
        ("tools/call", json!({ "name": "known" }), none),
        ("resources/read", json!({ "uri": "scoped://r" }), s),
        ("resources/read", json!({ "uri": "known://r" }), none),
        ("resources/read", json!({ "uri": "scoped-t://x" }), s),
        ("resources/read", json!({ "uri": "known-t://x" }), none),
        ("prompts/get", json!({ "name": "scoped", "arguments": { "name": "x" } }), st),
        ("prompts/get", json!({ "name": "known" }), none),
        ("completion/complete", complete("ref/prompt", "name", "scoped"), st),
        ("completion/complete", complete("ref/resource", "uri", "scoped-t://{name}"), s),
        ("subscriptions/listen", filter("scoped://r"), s),
        ("subscriptions/listen", filter("scoped-t://x"), s),
        ("subscriptions/listen", filter("known://r"), none),
    ] {
        let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let anonymous = denied(&server, None, method, params.clone()).await;
        assert_eq!(anonymous, Some((scopes.clone(), true)), "{method} {params} anonymous");
        let expected = (!scopes.is_empty()).then_some((scopes, false));
        assert_eq!(denied(&server, Some(&known), method, params.clone()).await, expected, "{method} {params} known");
        assert_eq!(denied(&server, Some(&granted), method, params.clone()).await, None, "{method} {params} granted");
    }
    for (method, params) in [
        ("tools/call", json!({ "name": "open" })),
        ("tools/call", json!({ "name": "unknown" })),
        ("resources/read", json!({ "uri": "open://r" })),
        ("subscriptions/listen", filter("open://r")),
        ("tools/list", json!({})),
        ("server/discover", json!({})),
    ] {
        assert_eq!(denied(&server, None, method, params.clone()).await, None, "{method} {params}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_of_a_caller_without_the_scopes_of_the_server_opens_no_session() {
    let granted = Principal::new("ann").with_scopes(["s"]);
    for (caller, has_access) in [
        (Caller::remote(), false),
        (Caller::remote().principal(Some(Principal::new("ann").into())), false),
        (Caller::remote().principal(Some(granted.into())), true),
        (Caller::local(), true),
    ] {
        let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
        let server = Server::builder("test", "1")
            .tool(tool("open", async || "open"))
            .on_notification(move |notification| {
                let sent = sender.send(notification.method().to_owned());
                async move { sent.unwrap() }
            })
            .requires_scopes(["s"])
            .build();
        let mut connection = Connection::connect_as(&server, caller);
        connection.send(notification("notifications/x", json!({}))).await;
        let opened = connection.exchange(initialize("2025-11-25")).await;
        let required = if has_access { Value::Null } else { json!(["s"]) };
        assert_eq!(opened["error"]["data"]["requiredScopes"], required, "{opened}");
        for request in [legacy(1, "ping", json!({})), legacy(2, "tools/call", json!({ "name": "open" }))] {
            let response = connection.exchange(request).await;
            assert_eq!(response.get("result").is_some(), has_access, "{response}");
        }
        connection.send(notification("notifications/y", json!({}))).await;
        connection.close().await;
        let mut methods = Vec::new();
        while let Ok(method) = received.try_recv() {
            methods.push(method);
        }
        let expected: &[&str] = if has_access { &["notifications/x", "notifications/y"] } else { &[] };
        assert_eq!(methods, expected);
    }
}

#[tokio::test]
async fn lists_and_caches_depend_on_the_access_of_the_caller() {
    let server = server();
    let granted = Principal::new("ann").with_scopes(["s", "t"]);
    let known = Principal::new("ann");
    for (method, member, key, anonymous, authenticated, all) in [
        ("tools/list", "tools", "name", vec!["open"], vec!["open", "known"], 3),
        ("resources/list", "resources", "uri", vec!["open://r"], vec!["open://r", "known://r"], 3),
        ("resources/templates/list", "resourceTemplates", "uriTemplate", vec![], vec!["known-t://{name}"], 2),
        ("prompts/list", "prompts", "name", vec![], vec!["known"], 2),
    ] {
        for (caller, expected) in [(None, Some(anonymous)), (Some(&known), Some(authenticated)), (Some(&granted), None)]
        {
            let with = |scope: Scope| scope.principal(caller.cloned().map(Into::into));
            let list = request_with_scope(&server, method, json!({}), with).await.unwrap()["result"].take();
            let entries = list[member].as_array().unwrap();
            let keys: Vec<&str> = entries.iter().map(|entry| entry[key].as_str().unwrap()).collect();
            match expected {
                Some(expected) => assert_eq!(keys, expected, "{method} {caller:?}"),
                None => assert_eq!(keys.len(), all, "{method}"),
            }
            assert_eq!(list["cacheScope"], "private", "{method}");
        }
    }
    let public = mcp_server_core::CacheHint::public(std::time::Duration::from_secs(60));
    let cached = Server::builder("test", "1")
        .resource(resource("open://r", async || "open").cache(public))
        .resource(resource("known://r", async || "known").cache(public).requires_authentication())
        .build();
    for (uri, expected) in [("open://r", "public"), ("known://r", "private")] {
        let with = |scope: Scope| scope.principal(Some(known.clone().into()));
        let read = request_with_scope(&cached, "resources/read", json!({ "uri": uri }), with).await.unwrap();
        assert_eq!(read["result"]["cacheScope"], expected, "{uri}");
    }
}
