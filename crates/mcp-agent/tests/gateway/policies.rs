//! The policies of a host, for each caller of its gateway.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_agent::{
    Gateway, Host,
    policy::{AuditEvent, Decision, Effect, Outcome, PendingApproval, Policy, PolicyHook, PolicyInput, Rule},
};
use mcp_client::transport::BoxFuture;
use mcp_protocol::{CacheScope, CompletionReference};
use mcp_server::{
    CacheHint,
    prelude::*,
    prompt, resource,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage},
    template, tool,
};
use serde_json::{json, value::RawValue};

use crate::common::{REVISIONS, complete, connect_as, page};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

#[tokio::test]
async fn each_caller_has_the_items_that_the_policies_allow() {
    let events: Arc<Mutex<Vec<AuditEvent>>> = Arc::default();
    let sink = Arc::clone(&events);
    let public = CacheHint::public(Duration::from_secs(60));
    let files = Server::builder("files", "1")
        .list_cache(public)
        .tool(tool("read", async || "read"))
        .tool(tool("write", async || "written"))
        .resource(resource("secret:a", async || "secret"))
        .resource_template(
            template("secret:{name}", async |Args(Name { name }): Args<Name>| name).complete_from("name", ["b"]),
        )
        .prompt(prompt("plan", async |Args(Name { name }): Args<Name>| name).complete_from("name", ["c"]))
        .build();
    let deny = |rule: Rule| rule.principal("guest-*".parse().unwrap()).reason("Guests only read.");
    let policy = Policy::new()
        .rule(deny(Rule::new(Effect::Deny).tool("write".parse().unwrap())))
        .rule(deny(Rule::new(Effect::Deny).resource("secret:*".parse().unwrap())))
        .rule(deny(Rule::new(Effect::Deny).prompt("plan".parse().unwrap())));
    let host = Host::builder("gateway", "1")
        .server("files", &files)
        .policy(policy)
        .audit(move |event: &AuditEvent| sink.lock().unwrap().push(event.clone()))
        .start()
        .await
        .unwrap();
    for version in REVISIONS {
        let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
        let (ada, guest) = (connect_as(&server, "ada").await, connect_as(&server, "guest-7").await);
        for (client, expected, resources) in
            [(&ada, &["files__read", "files__write"][..], 1), (&guest, &["files__read"][..], 0)]
        {
            let page = client.list_tools().page().await.unwrap();
            assert_eq!(page.items.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), expected, "{version}");
            assert_ne!(page.cache_scope, Some(CacheScope::Public));
            assert_eq!(client.list_resources().await.unwrap().len(), resources);
            assert_eq!(client.list_resource_templates().await.unwrap().len(), resources);
            assert_eq!(client.list_prompts().await.unwrap().len(), resources);
        }
        assert_eq!(ada.call_tool("files__write", ()).await.unwrap().text(), "written");
        assert!(ada.read_resource("mcp://files/secret:a").await.is_ok());
        assert!(ada.get_prompt("files__plan", json!({ "name": "x" })).await.is_ok());
        for (reference, expected) in references("files__plan", "secret:{name}").into_iter().zip(["c", "b"]) {
            let completed = ada.complete(reference, "name", "").await.unwrap();
            assert_eq!(completed.completion.values, [expected], "{version}");
        }
        let opened = ada.subscribe(["mcp://files/secret:a"]).await.unwrap();
        assert_eq!(opened.honoured().resource_subscriptions, ["mcp://files/secret:a"], "{version}");
    }
    let events = events.lock().unwrap();
    assert!(events.iter().all(|event| event.outcome == Outcome::Allowed));
    // The client of each revision called a tool, completed two arguments, and so on.
    let completions: Vec<_> = events.iter().filter(|event| event.is_completion).map(|event| &*event.tool).collect();
    assert_eq!(completions, ["plan", "secret:{name}", "plan", "secret:{name}"]);
}

fn references(prompt: &str, template: &str) -> [CompletionReference; 2] {
    let template = CompletionReference::resource_template(format!("mcp://files/{template}"));
    [CompletionReference::prompt(prompt), template]
}

/// Returns an error without the name that the client sent.
fn without(name: &str, error: &mcp_client::Error) -> (i64, String) {
    let error = error.rpc().unwrap();
    assert!(!format!("{error:?}").contains("Guests"), "{error:?}");
    (error.code.0, format!("{} {:?}", error.message, error.data).replace(name, "NAME"))
}

#[tokio::test]
async fn an_item_that_the_policies_deny_is_unknown_and_the_audit_has_the_reason() {
    let events: Arc<Mutex<Vec<AuditEvent>>> = Arc::default();
    let sink = Arc::clone(&events);
    let files = Server::builder("files", "1")
        .tool(tool("write", async || "written"))
        .resource(resource("secret:a", async || "secret"))
        .prompt(prompt("plan", async |Args(Name { name }): Args<Name>| name).complete_from("name", ["c"]))
        .build();
    let policy = Policy::new().rule(Rule::new(Effect::Deny).reason("Guests only read."));
    let host = Host::builder("gateway", "1")
        .server("files", &files)
        .policy(policy)
        .audit(move |event: &AuditEvent| sink.lock().unwrap().push(event.clone()))
        .start()
        .await
        .unwrap();
    for version in REVISIONS {
        let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
        let guest = connect_as(&server, "guest-7").await;
        let call = async |name: &str| guest.call_tool(name, ()).await.map(drop).unwrap_err();
        let unknown = without("files__other", &call("files__other").await);
        assert_eq!(without("files__write", &call("files__write").await), unknown, "{version}");
        let read = async |uri: &str| guest.read_resource(uri).await.map(drop).unwrap_err();
        let unknown = without("secret:b", &read("mcp://nowhere/secret:b").await).0;
        let hidden = read("mcp://files/secret:a").await;
        assert!(hidden.is_resource_not_found(), "{version} {hidden}");
        assert_eq!(without("secret:a", &hidden).0, unknown, "{version}");
        let prompt = async |name: &str| guest.get_prompt(name, json!({ "name": "x" })).await.map(drop).unwrap_err();
        let unknown = without("files__other", &prompt("files__other").await);
        assert_eq!(without("files__plan", &prompt("files__plan").await), unknown, "{version}");
        for (hidden, other) in references("files__plan", "secret:a").into_iter().zip(references("other", "other:a")) {
            let complete = async |reference| guest.complete(reference, "name", "").await.map(drop).unwrap_err();
            let (hidden, other) = (complete(hidden).await, complete(other).await);
            assert_eq!(without("", &hidden).0, without("", &other).0, "{version}");
        }
        // Each name of these parameters leads to the same error, also if they cannot be read.
        for (method, params) in [
            ("prompts/get", r#"{"name":"NAME","arguments":{"name":"x","name":"y"}}"#),
            (
                "completion/complete",
                r#"{"ref":{"type":"ref/prompt","name":"NAME","x":1,"x":2},"argument":{"name":"name","value":""}}"#,
            ),
        ] {
            let error = async |name: &str| {
                let params: Box<RawValue> = RawValue::from_string(params.replace("NAME", name)).unwrap();
                let sent = guest.request_raw(method, &*params).raw_result().into_future();
                without(name, &sent.await.map(drop).unwrap_err())
            };
            // The error can have a position in the parameters, so the names have one length.
            assert_eq!(error("files__plan").await, error("files__none").await, "{version} {method}");
        }
        let subscribed = guest.subscribe(["mcp://files/secret:a"]).await;
        assert!(subscribed.map_or(true, |open| open.honoured().resource_subscriptions.is_empty()), "{version}");
    }
    let events = events.lock().unwrap();
    let denied = |name: &str| {
        let is_denied = |event: &&AuditEvent| {
            event.tool == name
                && event.outcome != Outcome::Allowed
                && event.reason.as_deref() == Some("Guests only read.")
        };
        events.iter().filter(is_denied).count()
    };
    // The tool, the read with its completion and its subscription, and two requests for the prompt with its completion: in two
    // revisions.
    assert_eq!((denied("write"), denied("secret:a"), denied("plan")), (2, 6, 6), "{events:?}");
}

#[tokio::test]
async fn an_item_that_needs_an_approval_is_hidden_if_the_gateway_has_no_approver() {
    let files = Server::builder("files", "1")
        .tool(tool("read", async || "read"))
        .tool(tool("write", async || "written"))
        .resource(resource("secret:a", async || "secret"))
        .prompt(prompt("plan", async || "plan"))
        .build();
    let ask = || Rule::new(Effect::Ask).reason("Guests only read.");
    let by_rules = Policy::new()
        .rule(ask().tool("write".parse().unwrap()))
        .rule(ask().resource("*".parse().unwrap()))
        .rule(ask().prompt("*".parse().unwrap()));
    let by_default = Policy::parse("p", "default = \"ask\"\n[[rule]]\ntool = \"read\"\neffect = \"allow\"\n").unwrap();
    for (policy, has_approver) in
        [(by_rules.clone(), false), (by_rules, true), (by_default.clone(), false), (by_default, true)]
    {
        let builder = Host::builder("gateway", "1").server("files", &files).policy(policy);
        let builder = if has_approver { builder.approver(|_: PendingApproval| async { true }) } else { builder };
        let host = builder.start().await.unwrap();
        for version in REVISIONS {
            let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
            let user = connect_as(&server, "ada").await;
            let tools = user.list_tools().await.unwrap();
            let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
            let others = usize::from(has_approver);
            assert_eq!(names, ["files__read", "files__write"][..1 + others], "{version} {has_approver}");
            assert_eq!(user.list_resources().await.unwrap().len(), others, "{version} {has_approver}");
            assert_eq!(user.list_prompts().await.unwrap().len(), others, "{version} {has_approver}");
            let called = user.call_tool("files__write", ()).await;
            if has_approver {
                assert_eq!(called.unwrap().text(), "written", "{version}");
                continue;
            }
            let unknown = user.call_tool("files__other", ()).await.unwrap_err();
            let unknown = without("files__other", &unknown);
            assert_eq!(without("files__write", &called.unwrap_err()), unknown, "{version}");
        }
    }
}

#[tokio::test]
async fn the_text_of_a_refusal_names_the_gateway() {
    struct Asks;

    impl PolicyHook for Asks {
        fn decide<'a>(&'a self, _: &'a PolicyInput) -> BoxFuture<'a, Option<Decision>> {
            Box::pin(async { Some(Decision::new(Effect::Ask)) })
        }
    }

    let files = Server::builder("files", "1").tool(tool("read", async || "read")).build();
    // The decision of a hook can depend on the arguments, so the tool is visible.
    let host = Host::builder("gateway", "1").server("files", &files).policy_hook(Asks).start().await.unwrap();
    let server = Gateway::builder(host).build().unwrap().build();
    let refused = connect_as(&server, "ada").await.call_tool("files__read", ()).await.unwrap();
    let text =
        "a policy requires an approval for the call of \"read\" of \"files\" (`ask`), and the gateway has no approver";
    assert_eq!((refused.is_error, refused.text().as_str()), (true, text));
}

#[tokio::test]
async fn arguments_that_the_policies_cannot_read_do_not_reach_the_server() {
    let calls = Arc::<AtomicUsize>::default();
    let counter = Arc::clone(&calls);
    let read = tool("read", move || {
        counter.fetch_add(1, Ordering::SeqCst);
        std::future::ready("read")
    });
    let files = Server::builder("files", "1").tool(read).build();
    let policy = Policy::new().rule(Rule::new(Effect::Allow).tool("read".parse().unwrap()));
    let host = Host::builder("gateway", "1").server("files", &files).policy(policy).start().await.unwrap();
    for version in REVISIONS {
        let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
        let ada = connect_as(&server, "ada").await;
        let call = |arguments: &str| {
            let params = format!(r#"{{"name":"files__read","arguments":{arguments}}}"#);
            let params: Box<RawValue> = RawValue::from_string(params).unwrap();
            ada.request_raw("tools/call", &*params).raw_result().into_future()
        };
        assert!(call("null").await.is_ok() && call(r#"{"x":1}"#).await.is_ok());
        let valid = calls.load(Ordering::SeqCst);
        assert!(valid > 0, "{version}");
        for invalid in [r#"{"path":"/etc/passwd","x":1e400}"#, r#"{"x":"\ud800"}"#, "[1]"] {
            let error = call(invalid).await.unwrap_err();
            assert_eq!(error.rpc().unwrap().code.0, -32602, "{invalid} {error}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), valid, "{version}: the server received invalid arguments");
    }
}

/// Answers a read of each URI.
struct EachUri(Arc<Mutex<Vec<String>>>);

impl Source for EachUri {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        page((list == SourceList::ResourceTemplates).then_some(r#"{"name":"user","uriTemplate":"users/{id}"}"#))
    }

    fn call_tool(&self, _call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(std::future::ready(Err(RpcError::internal("the server has no tools"))))
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        self.0.lock().unwrap().push(call.name().to_owned());
        let result = json!({ "contents": [{ "uri": call.name(), "text": "read" }] });
        complete(result.to_string(), call.context().version())
    }
}

#[tokio::test]
async fn another_spelling_of_a_denied_uri_does_not_reach_its_server() {
    let read = Arc::<Mutex<Vec<String>>>::default();
    let docs = Server::builder::<()>("docs", "1").source(EachUri(Arc::clone(&read))).build();
    let policy = Policy::new().rule(Rule::new(Effect::Deny).resource("res://a".parse().unwrap()));
    let host = Host::builder("gateway", "1").server("docs", &docs).policy(policy).start().await.unwrap();
    for version in REVISIONS {
        read.lock().unwrap().clear();
        let server = Gateway::builder(host.clone()).build().unwrap().versions([version]).build();
        let client = connect_as(&server, "ada").await;
        for (uri, is_read) in [
            ("mcp://docs/res://a", false),
            ("mcp://docs//res://a", false),
            ("mcp://docs/res%3A//a", false),
            ("mcp://d%6Fcs/res://a", false),
            ("mcp://d%6Fcs/res://b", false),
            ("mcp://docs/res://b", true),
            ("mcp://docs/users/7", true),
        ] {
            let result = client.read_resource(uri).await;
            assert_eq!(result.is_ok(), is_read, "{version} {uri}");
            assert!(is_read || result.unwrap_err().is_resource_not_found(), "{version} {uri}");
        }
        assert_eq!(*read.lock().unwrap(), ["res://b", "users/7"], "{version}");
    }
}
