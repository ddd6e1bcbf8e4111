//! The cache hints of a gateway.

use std::time::Duration;

use mcp_agent::{
    Gateway, Host, Names, ServerOptions,
    policy::{Effect, Policy, Rule},
};
use mcp_client::{Round, transport::BoxFuture};
use mcp_protocol::{ProtocolVersion, RpcError};
use mcp_server::{
    CacheHint, Server, prompt, resource,
    source::{Source, SourceCall, SourceList, SourceOutcome, SourcePage, SourceResult},
    tool,
};
use serde_json::json;

use crate::common::{REVISIONS, complete, connect, gateway, page, raw};

const MINUTE: CacheHint = CacheHint::public(Duration::from_secs(60));

/// A server with a tool, whose lists have a hint.
fn server(version: ProtocolVersion, hint: CacheHint) -> Server {
    Server::builder("s", "1").versions([version]).list_cache(hint).tool(tool("t", async || "t")).build()
}

#[tokio::test]
async fn a_list_has_the_smallest_ttl_and_is_public_only_if_each_of_its_lists_is() {
    let modern = |hint| server(REVISIONS[1], hint);
    let no_tools = || Server::builder("s", "1").prompt(prompt("p", async || "p")).build();
    for (servers, expected) in [
        (vec![modern(MINUTE)], (60_000, "public")),
        (vec![modern(MINUTE), modern(CacheHint::public(Duration::from_secs(10)))], (10_000, "public")),
        (vec![modern(MINUTE), modern(CacheHint::private(Duration::from_secs(90)))], (60_000, "private")),
        (vec![modern(CacheHint::NONE), modern(MINUTE)], (0, "private")),
        // A server without tools has no part in the list.
        (vec![modern(MINUTE), no_tools()], (60_000, "public")),
        // A list of the session era has no hint.
        (vec![modern(MINUTE), server(REVISIONS[0], MINUTE)], (0, "private")),
    ] {
        let names = ["a", "b"];
        let named: Vec<(&str, &Server)> = names.into_iter().zip(&servers).collect();
        let client = connect(gateway(&named).await, REVISIONS[1]).await;
        let page = raw(&client, "tools/list", json!({})).await.unwrap();
        assert_eq!((page["ttlMs"].as_u64().unwrap(), page["cacheScope"].as_str().unwrap()), expected);
    }
}

#[tokio::test]
async fn a_read_that_a_policy_decides_is_private() {
    let docs = Server::builder("docs", "1")
        .versions([REVISIONS[1]])
        .read_cache(MINUTE)
        .resource(resource("x:a", async || "a"))
        .build();
    let rule = || Rule::new(Effect::Deny).principal("guest-*".parse().unwrap()).resource("x:*".parse().unwrap());
    for (names, uri) in [(Names::Raw, "x:a"), (Names::Provider, "mcp://docs/x:a")] {
        let policies = [
            (Policy::new(), ServerOptions::new(), "public"),
            (Policy::new().rule(rule()), ServerOptions::new(), "private"),
            (Policy::new(), ServerOptions::new().rule(rule()), "private"),
        ];
        for (policy, options, expected) in policies {
            let mut host = Host::builder("gateway", "1").server_with("docs", &docs, options);
            if !policy.rules().is_empty() {
                host = host.policy(policy);
            }
            let client = connect(Gateway::builder(host.start().await.unwrap()).names(names), REVISIONS[1]).await;
            let read = raw(&client, "resources/read", json!({ "uri": uri })).await.unwrap();
            assert_eq!((&read["cacheScope"], &read["ttlMs"]), (&json!(expected), &json!(60_000)), "{names:?}");
        }
    }
}

/// A server of 2026-07-28 with a tool that returns a link. Each read is public, and asks first if its URI begins with `ask:`.
struct Linking(&'static str);

impl Source for Linking {
    fn list(&self, list: SourceList, _call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let json = match list {
            SourceList::Tools => format!(r#"{{"name":"{}","inputSchema":{{"type":"object"}}}}"#, self.0),
            SourceList::Resources => format!(r#"{{"name":"a","uri":"{}:listed"}}"#, self.0),
            SourceList::ResourceTemplates => format!(r#"{{"name":"b","uriTemplate":"{}:of/{{b}}"}}"#, self.0),
            _ => return page([]),
        };
        page([&*json])
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let links: Vec<_> = ["one:linked", "ask:linked", "one:listed", "one:of/b"]
            .map(|uri| json!({ "type": "resource_link", "uri": uri, "name": "n" }))
            .into();
        complete(json!({ "content": links }).to_string(), call.context().version())
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let (version, uri) = (call.context().version(), call.name());
        if uri.starts_with("ask:") && call.round().is_ok_and(|round| round.request_state().is_none()) {
            let asks = json!({ "resultType": "input_required", "requestState": "s" });
            let asks = SourceResult::new(asks.to_string(), version);
            return Box::pin(std::future::ready(Ok(SourceOutcome::InputRequired(asks))));
        }
        let contents = json!([{ "uri": uri, "text": self.0 }]);
        let read = json!({ "contents": contents, "cacheScope": "public", "ttlMs": 60_000 });
        complete(read.to_string(), version)
    }
}

#[tokio::test]
async fn a_read_by_the_link_of_a_client_is_private() {
    let server = |name| Server::builder::<()>(name, "1").versions([REVISIONS[1]]).source(Linking(name)).build();
    let client = gateway(&[("one", &server("one")), ("two", &server("two"))]).await.names(Names::Raw);
    let client = connect(client, REVISIONS[1]).await;
    client.call_tool("one", ()).await.unwrap();
    for (uri, expected) in
        [("one:linked", "private"), ("ask:linked", "private"), ("one:listed", "public"), ("one:of/b", "public")]
    {
        let mut params = json!({ "uri": uri });
        if uri.starts_with("ask:") {
            let asked = client.request_raw("resources/read", params.clone()).raw_result().raw_inputs().await.unwrap();
            let Round::InputRequired(asked) = asked else { panic!("the server asks") };
            params["requestState"] = json!(asked.into_result().request_state);
        }
        let read = raw(&client, "resources/read", params).await.unwrap();
        assert_eq!((&read["contents"][0]["text"], &read["cacheScope"]), (&json!("one"), &json!(expected)), "{uri}");
    }
}
