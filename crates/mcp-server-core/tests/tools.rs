//! Tool calls: extractors of handlers, authorization, and rejections before a handler runs.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::json_client::{Client, code_and_text, refused, request_with_scope};
use mcp_protocol::{ClientCapabilities, ElicitationCapability, ErrorCode, Message, Meta, Principal, ProtocolVersion};
use mcp_server_core::{
    Args, CacheHint, Cancelled, Context, Extension, Extensions, FromRef, Progress, RawArgs, Server, State, ToolError,
    ToolRoute,
    engine::{Engine as _, Refusal, Scope},
    resource, tool,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Clone)]
struct Settings {
    greeting: &'static str,
    retries: Retries,
}

#[derive(Clone)]
struct Retries(u8);

impl FromRef<Settings> for Retries {
    fn from_ref(whole: &Settings) -> Self {
        whole.retries.clone()
    }
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

fn serve(route: ToolRoute) -> Server {
    Server::builder("t", "1").tool(route).build()
}

async fn text_of(server: &Server, tool: &str, arguments: Value) -> String {
    let result = server.call_tool(tool, arguments).await.unwrap();
    result.content[0].as_text().unwrap().to_owned()
}

#[tokio::test]
async fn handlers_receive_the_state_and_its_parts() {
    let server = Server::builder("t", "1")
        .tool(tool("whole", async |State(all): State<Settings>, Args(Name { name }): Args<Name>| {
            format!("{} {name}", all.greeting)
        }))
        .tool(tool("part", async |State(Retries(n)): State<Retries>| n.to_string()))
        .with_state(Settings { greeting: "hello", retries: Retries(3) })
        // A tool added later may have another state.
        .tool(tool("other", async |State(n): State<u64>| n.to_string()))
        .with_state(7_u64)
        .build();
    assert_eq!(text_of(&server, "whole", json!({ "name": "you" })).await, "hello you");
    assert_eq!(text_of(&server, "part", json!({})).await, "3");
    assert_eq!(text_of(&server, "other", json!({})).await, "7");
    server.tools().add(tool("later", async |State(s): State<&'static str>| s).with_state("mine")).unwrap();
    assert_eq!(text_of(&server, "later", json!({})).await, "mine");
}

#[tokio::test]
async fn handlers_have_up_to_eight_parameters() {
    let server = Server::builder("t", "1")
        .tool(tool("none", async || "0"))
        .tool(tool("one", async |_: Context| "1"))
        .tool(tool(
            "eight",
            async |_: State<u8>,
                   _: State<u8>,
                   _: Context,
                   _: Progress,
                   _: Meta,
                   _: Cancelled,
                   _: Option<Principal>,
                   Args(Name { name }): Args<Name>| { name },
        ))
        .with_state(0_u8)
        .build();
    assert_eq!(text_of(&server, "none", json!({})).await, "0");
    assert_eq!(text_of(&server, "one", json!({})).await, "1");
    assert_eq!(text_of(&server, "eight", json!({ "name": "8" })).await, "8");
}

#[tokio::test]
async fn raw_arguments_are_unchanged() {
    let route = tool("raw", async |RawArgs(args): RawArgs| json!(args)).input_schema(json!({ "type": "object" }));
    let sent = json!({ "z": 1, "a": { "b": [null, 1.50, "é"] }, "big": 9_007_199_254_740_993_i64 });
    assert_eq!(text_of(&serve(route), "raw", sent.clone()).await, sent.to_string());
}

#[tokio::test]
async fn the_context_describes_the_request_and_its_client() {
    let handler = async |context: Context, meta: Meta| {
        json!({
            "version": context.version().as_str(),
            "client": context.client_info().map(|info| info.name.clone()),
            "id": context.request_id(),
            "roots": context.client_capabilities().supports_roots(),
            "meta": meta.get("example.com/k"),
            "same": context.meta() == &meta,
        })
    };
    let server = serve(tool("who", handler));
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect_with(&server, version, json!({ "roots": {} })).await;
        client.meta = json!({ "io.modelcontextprotocol/clientInfo": { "name": "kit", "version": "1" } });
        client.meta["example.com/k"] = 5.into();
        let params = json!({ "name": "who", "_meta": { "example.com/k": 5 } });
        let result = client.result("tools/call", params).await;
        let seen: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        let expected =
            json!({ "version": version.as_str(), "client": "kit", "id": 2, "roots": true, "meta": 5, "same": true });
        assert_eq!(seen, expected);
    }
    let seen: Value = serde_json::from_str(&text_of(&server, "who", json!({})).await).unwrap();
    assert_eq!((&seen["client"], &seen["meta"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn handlers_extract_the_extensions_of_the_request() {
    #[derive(Clone)]
    struct Tenant(&'static str);
    let server = Server::builder("t", "1")
        .tool(tool("needs", async |Extension(Tenant(name)): Extension<Tenant>| name))
        .tool(tool("may", async |tenant: Option<Extension<Tenant>>| tenant.map_or("nobody", |Extension(t)| t.0)))
        .build();
    let mut attached = Extensions::default();
    attached.insert(Tenant("acme"));
    for name in ["needs", "may"] {
        let reply = request_with_scope(&server, "tools/call", json!({ "name": name }), |scope| {
            scope.extensions(attached.clone())
        });
        assert_eq!(reply.await.unwrap()["result"]["content"][0]["text"], "acme", "{name}");
    }
    let reply = request_with_scope(&server, "tools/call", json!({ "name": "may" }), |scope| scope).await.unwrap();
    assert_eq!(reply["result"]["content"][0]["text"], "nobody");
    let reply = request_with_scope(&server, "tools/call", json!({ "name": "needs" }), |scope| scope).await.unwrap();
    let (code, text) = code_and_text(&reply["error"]);
    assert_eq!(code, -32603);
    assert!(!text.contains("Tenant"), "the error discloses a type of the server: {text}");
}

#[tokio::test]
async fn a_handler_receives_the_principal() {
    let server = Server::builder("t", "1")
        .tool(tool("needs", async |principal: Principal| principal.subject))
        .tool(tool("may", async |principal: Option<Principal>| principal.map_or("nobody".into(), |p| p.subject)))
        .build();
    let alice = Some(Arc::new(Principal::new("alice")));
    for name in ["needs", "may"] {
        let reply =
            request_with_scope(&server, "tools/call", json!({ "name": name }), |scope| scope.principal(alice.clone()));
        assert_eq!(reply.await.unwrap()["result"]["content"][0]["text"], "alice", "{name}");
    }
    assert_eq!(text_of(&server, "may", json!({})).await, "nobody");
    let error = server.call_tool("needs", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::INVALID_REQUEST);
    assert!(error.message.contains("authenticated"), "{}", error.message);
}

#[tokio::test]
async fn progress_and_cancellation_work_without_a_progress_token() {
    let handler = async |progress: Progress, cancelled: Cancelled| {
        progress.report(1.0, None, None).await;
        format!("{} {}", progress.is_wanted(), cancelled.is_cancelled())
    };
    assert_eq!(text_of(&serve(tool("t", handler)), "t", json!({})).await, "false false");
}

#[tokio::test]
async fn sends_requested_progress_before_the_response() {
    let handler = async |progress: Progress| {
        progress.report(0.5, Some(1.0), "half").await;
        progress.is_wanted().to_string()
    };
    let server = serve(tool("t", handler));
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        client.meta = json!({ "progressToken": "p" });
        let result = client.result("tools/call", json!({ "name": "t", "_meta": { "progressToken": "p" } })).await;
        assert_eq!(result["content"][0]["text"], "true", "{version}");
        let [notice] = client.notifications.as_slice() else { panic!("{version}: {:?}", client.notifications) };
        assert_eq!(notice["params"]["progressToken"], "p", "{version}");
    }
}

#[tokio::test]
async fn a_cancelled_call_notifies_the_handler_and_gets_no_response() {
    let notified = Arc::new(tokio::sync::Notify::new());
    let server = Server::builder("t", "1")
        .tool(tool(
            "wait",
            async |State(notified): State<Arc<tokio::sync::Notify>>, cancelled: Cancelled, p: Progress| {
                // A spawned task observes the cancellation, too.
                tokio::spawn(async move {
                    cancelled.await;
                    notified.notify_one();
                });
                p.report(1.0, None, None).await;
                std::future::pending::<&str>().await
            },
        ))
        .tool(tool("next", async || "next"))
        .with_state(notified.clone())
        .build();
    let mut client = Client::connect(&server, ProtocolVersion::V2025_11_25).await;
    let call = json!({ "name": "wait", "_meta": { "progressToken": 1 } });
    client.send(json!({ "jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": call })).await;
    client.notification("notifications/progress").await;
    let params = json!({ "requestId": "w" });
    client.send(json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })).await;
    tokio::time::timeout(Duration::from_secs(10), notified.notified()).await.unwrap();
    // A client would reject a response to `w` here.
    client.result("tools/call", json!({ "name": "next" })).await;
}

#[tokio::test]
async fn unknown_tools_are_a_protocol_error_in_every_revision() {
    let server = serve(tool("known", async || "x"));
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        for (name, shown) in [("nope", "Unknown tool: nope".to_owned()), ("Known", "Unknown tool: Known".into())] {
            let error = client.error("tools/call", json!({ "name": name })).await;
            assert_eq!(code_and_text(&error), (-32602, &*shown), "{version}");
        }
        let long = client.error("tools/call", json!({ "name": "n".repeat(10_000) })).await;
        assert!(long["message"].as_str().unwrap().len() < 200);
        for params in [json!({}), json!({ "name": 7 }), json!({ "name": "known", "arguments": [] })] {
            let error = client.error("tools/call", params).await;
            assert_eq!(error["code"], -32602, "{version}");
        }
        let result = client.result("tools/call", json!({ "name": "known", "arguments": null })).await;
        assert_eq!(result["content"][0]["text"], "x", "{version}");
    }
}

#[tokio::test]
async fn a_panic_ends_only_its_own_call() {
    let server = Server::builder("t", "1")
        .tool(tool("panics", async || -> String { panic!("/secret/path.rs") }))
        .tool(tool("fails", async || -> Result<String, ToolError> { Ok("x".parse::<u8>()?.to_string()) }))
        .tool(tool("works", async || "works"))
        .build();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        for name in ["panics", "fails"] {
            let result = client.result("tools/call", json!({ "name": name })).await;
            assert_eq!(result["isError"], true, "{version}");
            let text = result["content"][0]["text"].as_str().unwrap();
            assert!(text.contains("(reference ") && text.len() < 80, "{text}");
            for secret in ["secret", "digit", "panicked", ".rs"] {
                assert!(!text.contains(secret), "{text}");
            }
        }
        let result = client.result("tools/call", json!({ "name": "works" })).await;
        assert_eq!(result["content"][0]["text"], "works", "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_times_out() {
    let forever = || tool("t", async || std::future::pending::<&str>().await);
    for (route, expected_text) in [
        (forever(), "the tool `t` took longer than 60s"),
        (forever().timeout(Duration::from_nanos(1_499_871_234)), "the tool `t` took longer than 1.5s"),
    ] {
        let result = serve(route).call_tool("t", json!({})).await.unwrap();
        assert!(result.is_error);
        assert!(result.content[0].as_text().unwrap().contains(expected_text), "{result:?}");
    }
}

#[tokio::test]
async fn reports_a_missing_client_capability_before_the_handler_runs() {
    let runs = Arc::new(AtomicUsize::new(0));
    let mut needed = ClientCapabilities::new();
    needed.elicitation = Some(ElicitationCapability::url());
    let server = Server::builder("t", "1")
        .tool(
            tool("asks", async |State(runs): State<Arc<AtomicUsize>>| {
                runs.fetch_add(1, Ordering::Relaxed);
                "asked"
            })
            .requires_client(needed),
        )
        .with_state(runs.clone())
        .build();
    for &version in ProtocolVersion::ALL {
        for lacking in [json!({}), json!({ "elicitation": {} }), json!({ "roots": {}, "sampling": {} })] {
            let mut client = Client::connect_with(&server, version, lacking.clone()).await;
            let error = client.error("tools/call", json!({ "name": "asks" })).await;
            assert_eq!(error["code"], -32021, "{version} {lacking}");
            let required = &error["data"]["requiredCapabilities"];
            assert_eq!(required, &json!({ "elicitation": { "url": {} } }), "{version} {lacking}");
        }
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    let mut able = 0;
    for &version in ProtocolVersion::ALL {
        let has = json!({ "elicitation": { "form": {}, "url": {} } });
        let mut client = Client::connect_with(&server, version, has).await;
        let response = client.request("tools/call", json!({ "name": "asks" })).await;
        // A capability that the revision does not define does not count.
        let is_known = version.has_elicitation_modes();
        assert_eq!(response["error"]["code"] == -32021, !is_known, "{version}: {response}");
        able += usize::from(is_known);
    }
    assert_eq!(runs.load(Ordering::Relaxed), able);
    let error = server.call_tool("asks", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, "a local caller can answer nothing");
}

#[tokio::test]
async fn enforces_scopes_of_remote_callers() {
    let server = Server::builder("t", "1")
        .requires_scopes(["mcp"])
        .tool(tool("open", async || "ran"))
        .tool(tool("write", async || "ran").requires_scopes(["files:write", "mcp"]))
        .resource(resource("a:r", async || "ran"))
        .build();
    let call = |name: &str| ("tools/call", json!({ "name": name }));
    for (granted, (method, params), lacks) in [
        (None, call("open"), Some(vec!["mcp"])),
        (Some(vec![]), call("open"), Some(vec!["mcp"])),
        (Some(vec!["files:write"]), call("write"), Some(vec!["mcp"])),
        (Some(vec!["mcp"]), call("write"), Some(vec!["mcp", "files:write"])),
        (None, ("tools/list", json!({})), Some(vec!["mcp"])),
        (None, ("resources/read", json!({ "uri": "a:r" })), Some(vec!["mcp"])),
        (Some(vec!["mcp"]), call("open"), None),
        (Some(vec!["mcp"]), ("resources/read", json!({ "uri": "a:r" })), None),
        (Some(vec!["mcp", "files:write", "more"]), call("write"), None),
    ] {
        let principal = granted.clone().map(|scopes| Arc::new(Principal::new("alice").with_scopes(scopes)));
        let outcome = request_with_scope(&server, method, params, |scope| scope.principal(principal)).await;
        match (outcome, lacks) {
            (Ok(reply), None) => assert!(reply["error"].is_null(), "{granted:?} {method}: {reply}"),
            (Err(Refusal::Denied(denied)), Some(lacks)) => assert_eq!(denied.scopes, lacks, "{granted:?} {method}"),
            (outcome, _) => panic!("{granted:?} {method}: {outcome:?}"),
        }
    }
    // Local callers need no scopes: memory, stdio, and calls without a transport.
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    client.result("tools/call", json!({ "name": "write" })).await;
    assert_eq!(text_of(&server, "write", json!({})).await, "ran");
}

/// Lists all pages as a remote caller: the names of the tools, and the cache scopes of the pages.
async fn listed(server: &Server, version: ProtocolVersion, granted: Option<&[&str]>) -> (Vec<String>, Vec<Value>) {
    let principal = || granted.map(|scopes| Arc::new(Principal::new("ada").with_scopes(scopes.iter().copied())));
    let (mut names, mut scopes, mut params) = (Vec::new(), Vec::new(), json!({}));
    loop {
        let reply = if version.is_stateless() {
            request_with_scope(server, "tools/list", params, |scope| scope.principal(principal())).await.unwrap()
        } else {
            let text = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params }).to_string();
            let Message::Request(request) = Message::parse(text.as_bytes()).unwrap() else { panic!("{text}") };
            let scope = Scope::sessionless(version).principal(principal());
            let reply = server.prepare(&request, scope).unwrap().run().await.unwrap();
            serde_json::from_slice(&reply.payload.into_bytes()).unwrap()
        };
        let page = &reply["result"];
        names.extend(page["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        scopes.push(page["cacheScope"].clone());
        match &page["nextCursor"] {
            Value::Null => return (names, scopes),
            cursor => params = json!({ "cursor": cursor }),
        }
    }
}

#[tokio::test]
async fn a_list_contains_the_tools_that_the_caller_may_call() {
    let build = |lists_forbidden: bool| {
        let mut builder = Server::builder("t", "1").page_size(2).list_cache(CacheHint::public(Duration::from_secs(60)));
        if lists_forbidden {
            builder = builder.list_forbidden_entries();
        }
        for n in 0..9 {
            let route = tool(format!("t{n}"), async || "ran");
            builder = builder.tool(match n % 3 {
                0 => route,
                1 => route.requires_scopes(["read"]),
                _ => route.requires_scopes(["read", "write"]),
            });
        }
        builder.build()
    };
    let (hides, shows) = (build(false), build(true));
    let names = |numbers: &[u8]| numbers.iter().map(|n| format!("t{n}")).collect::<Vec<_>>();
    let all = names(&[0, 1, 2, 3, 4, 5, 6, 7, 8]);
    for &version in ProtocolVersion::ALL {
        for (granted, expected) in [
            (None, names(&[0, 3, 6])),
            (Some(&[][..]), names(&[0, 3, 6])),
            (Some(&["write"][..]), names(&[0, 3, 6])),
            (Some(&["read"][..]), names(&[0, 1, 3, 4, 6, 7])),
            (Some(&["write", "read"][..]), all.clone()),
        ] {
            let (found, scopes) = listed(&hides, version, granted).await;
            assert_eq!(found, expected, "{version} {granted:?}");
            assert_eq!(scopes.len(), expected.len().div_ceil(2), "{version} {granted:?}");
            let private = if version.has_cache_hints() { json!("private") } else { Value::Null };
            assert!(scopes.iter().all(|scope| *scope == private), "{version} {scopes:?}");
            let (found, scopes) = listed(&shows, version, granted).await;
            assert_eq!((&found, scopes.len()), (&all, 5), "{version} {granted:?}");
            assert!(scopes.iter().all(|scope| *scope != json!("private")), "{version} {scopes:?}");
        }
        // A local caller sees all tools.
        let mut client = Client::connect(&hides, version).await;
        let first = client.result("tools/list", json!({})).await;
        assert_eq!(first["tools"][1]["name"], "t1", "{version}");
    }
    // A hidden tool still answers with the scopes that it needs.
    let call = json!({ "name": "t2", "arguments": {} });
    let Err(refusal) = request_with_scope(&hides, "tools/call", call, |scope| scope).await else { panic!("it ran") };
    assert_eq!(refusal.into_error().message, "insufficient scope: this request needs `read`, `write`");
}

#[tokio::test]
async fn checks_scopes_before_arguments() {
    let server = serve(tool("t", async |_: Args<Name>| "x").requires_scopes(["s"]));
    let outcome =
        request_with_scope(&server, "tools/call", json!({ "name": "t", "arguments": {} }), |scope| scope).await;
    assert!(matches!(outcome, Err(Refusal::Denied(_))), "{outcome:?}");
    let outcome = request_with_scope(&server, "tools/call", json!({ "name": "nope" }), |scope| scope).await;
    assert_eq!(refused(outcome.unwrap_err()).code, ErrorCode::INVALID_PARAMS);
}

#[tokio::test]
async fn rejects_calls_above_the_limit_without_queueing() {
    let release = Arc::new(tokio::sync::Semaphore::new(0));
    let running = Arc::new(Mutex::new(tokio::sync::mpsc::unbounded_channel::<()>()));
    let entered = running.lock().unwrap().0.clone();
    let server = Server::builder("t", "1")
        .limits(|limits| limits.handlers = 1)
        .tool(tool("t", async move |State(release): State<Arc<tokio::sync::Semaphore>>| {
            entered.send(()).unwrap();
            release.acquire().await.unwrap().forget();
            "done"
        }))
        .with_state(release.clone())
        .build();
    let first = tokio::spawn({
        let server = server.clone();
        async move { server.call_tool("t", json!({})).await }
    });
    let mut receiver = std::mem::replace(&mut running.lock().unwrap().1, tokio::sync::mpsc::unbounded_channel().1);
    receiver.recv().await.unwrap();
    let error = server.call_tool("t", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::INTERNAL_ERROR);
    assert!(error.message.starts_with("busy"), "{}", error.message);
    release.add_permits(2);
    assert!(!first.await.unwrap().unwrap().is_error);
    assert!(!server.call_tool("t", json!({})).await.unwrap().is_error, "the place is free again");
}
