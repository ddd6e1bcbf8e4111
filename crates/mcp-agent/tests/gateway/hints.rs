//! The cache hints of a gateway.

use std::time::Duration;

use mcp_agent::{
    Gateway, Host, Names, ServerOptions,
    policy::{Effect, Policy, Rule},
};
use mcp_protocol::ProtocolVersion;
use mcp_server::{CacheHint, Server, prompt, resource, tool};
use serde_json::json;

use crate::common::{REVISIONS, connect, gateway, raw};

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
