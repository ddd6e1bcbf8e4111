//! Cache hints on six results of the newest revision.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::time::Duration;

use crate::json_client::{Client, request_with_scope};
use mcp_protocol::{CacheScope, ProtocolVersion, ReadResourceResult, ResourceContents};
use mcp_server_core::{CacheHint, Server, ServerBuilder, engine::Refusal, prompt, resource, template, tool};
use serde_json::{Value, json};

const SIX: [(&str, &str); 6] = [
    ("server/discover", ""),
    ("tools/list", ""),
    ("resources/list", ""),
    ("resources/templates/list", ""),
    ("prompts/list", ""),
    ("resources/read", "a:r"),
];

fn builder() -> ServerBuilder {
    Server::builder("t", "1")
        .tool(tool("t", async || "x"))
        .resource(resource("a:r", async || "x"))
        .resource_template(template("b:{x}", async || "x"))
        .prompt(prompt("p", async || "x"))
}

fn params(uri: &str) -> Value {
    if uri.is_empty() { json!({}) } else { json!({ "uri": uri }) }
}

#[tokio::test]
async fn six_results_carry_cache_hints_in_the_newest_revision_only() {
    let server = builder().build();
    for &version in ProtocolVersion::ALL {
        let mut client = Client::connect(&server, version).await;
        for (method, uri) in SIX {
            if method == "server/discover" && version.has_handshake() {
                continue;
            }
            let result = client.result(method, params(uri)).await;
            if version.is_stateless() {
                assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(0), &json!("private")), "{method}");
            } else {
                assert!(result.get("ttlMs").is_none() && result.get("cacheScope").is_none(), "{version}: {result}");
            }
        }
        for (method, params) in [("tools/call", json!({ "name": "t" })), ("prompts/get", json!({ "name": "p" }))] {
            let result = client.result(method, params).await;
            assert!(result.get("ttlMs").is_none() && result.get("cacheScope").is_none(), "{version}: {result}");
        }
    }
}

#[tokio::test]
async fn cache_hints_apply_to_lists_reads_discovery_and_single_resources() {
    let own = async || {
        let mut result = ReadResourceResult::new(vec![ResourceContents::text("", "x")]);
        result.ttl_ms = Some(5);
        result.cache_scope = Some(CacheScope::Public);
        result
    };
    let server = builder()
        .list_cache(CacheHint::public(Duration::from_secs(60)))
        .read_cache(CacheHint::private(Duration::from_secs(1)))
        .discover_cache(CacheHint::public(Duration::from_secs(3600)))
        .resource(resource("a:long", async || "x").cache(CacheHint::public(Duration::from_millis(1500))))
        .resource(resource("a:own", own).cache(CacheHint::NONE))
        .resource_template(template("c:{x}", async || "x").cache(CacheHint::public(Duration::MAX)))
        .build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    for (method, uri, ttl, scope) in [
        ("tools/list", "", 60_000, "public"),
        ("resources/list", "", 60_000, "public"),
        ("resources/templates/list", "", 60_000, "public"),
        ("prompts/list", "", 60_000, "public"),
        ("server/discover", "", 3_600_000, "public"),
        ("resources/read", "a:r", 1000, "private"),
        ("resources/read", "b:1", 1000, "private"),
        ("resources/read", "a:long", 1500, "public"),
        ("resources/read", "a:own", 5, "public"),
        // No number that a double cannot hold.
        ("resources/read", "c:1", (1_u64 << 53) - 1, "public"),
    ] {
        let result = client.result(method, params(uri)).await;
        assert_eq!((&result["ttlMs"], &result["cacheScope"]), (&json!(ttl), &json!(scope)), "{method} {uri}");
    }
}

#[tokio::test]
async fn all_pages_of_a_list_have_the_same_cache_scope() {
    let server = (0..25)
        .fold(builder(), |builder, n| builder.tool(tool(format!("t{n}"), async || "x")))
        .page_size(4)
        .list_cache(CacheHint::public(Duration::from_secs(1)))
        .build();
    let mut client = Client::connect(&server, ProtocolVersion::LATEST).await;
    let mut params = json!({});
    let mut pages = 0;
    loop {
        let page = client.result("tools/list", params).await;
        assert_eq!((&page["cacheScope"], &page["ttlMs"]), (&json!("public"), &json!(1000)));
        pages += 1;
        match &page["nextCursor"] {
            Value::Null => break,
            cursor => params = json!({ "cursor": cursor }),
        }
    }
    assert_eq!(pages, 7);
}

#[tokio::test]
async fn the_cache_hint_does_not_grant_access() {
    let public = CacheHint::public(Duration::from_secs(60));
    let server =
        builder().list_cache(public).read_cache(public).discover_cache(public).requires_scopes(["mcp"]).build();
    for (method, uri) in SIX {
        let outcome = request_with_scope(&server, method, params(uri), |scope| scope).await;
        assert!(matches!(outcome, Err(Refusal::Denied(_))), "{method}: {outcome:?}");
    }
}
