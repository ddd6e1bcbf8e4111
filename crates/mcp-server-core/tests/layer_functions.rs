//! Layers from async functions, and the layer that limits the rate of calls.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{CallToolResult, ContentBlock, Principal, RpcError};
use mcp_server_core::{Invocation, Next, Outcome, RateLimit, Server, from_fn, prompt, tool};
use serde_json::json;
use tokio::time::{Instant, advance};

use crate::json_client::request_with_scope;

const WINDOW: Duration = Duration::from_secs(60);

async fn mark(invocation: Invocation, next: Next) -> Result<Outcome, RpcError> {
    if invocation.name() == "forbidden" {
        return Err(RpcError::invalid_params("forbidden by the layer"));
    }
    if invocation.name() == "cached" {
        return Ok(CallToolResult::new(vec![ContentBlock::text("from the cache")]).into());
    }
    let mut outcome = next.run(invocation).await?;
    if let Some(result) = outcome.tool_result_mut() {
        result.content.push(ContentBlock::text("marked"));
    }
    Ok(outcome)
}

#[tokio::test]
async fn a_function_layer_changes_rejects_and_replaces_outcomes() {
    let mut builder = Server::builder("test", "1").prompt(prompt("greeting", async || "hi"));
    for name in ["plain", "forbidden", "cached"] {
        builder = builder.tool(tool(name, async || "from the handler"));
    }
    let server = builder.layer(from_fn(mark)).build();
    for (name, expected) in [
        ("plain", Ok(vec!["from the handler", "marked"])),
        ("forbidden", Err("forbidden by the layer")),
        ("cached", Ok(vec!["from the cache"])),
    ] {
        let result = server.call_tool(name, json!({})).await;
        let texts = result.as_ref().map(|r| r.content.iter().filter_map(ContentBlock::as_text).collect::<Vec<_>>());
        assert_eq!(texts.map_err(|e| e.message.as_str()), expected, "{name}");
    }
    assert!(server.get_prompt("greeting", BTreeMap::<String, String>::new()).await.is_ok());
}

#[tokio::test]
async fn a_fault_of_a_function_layer_discloses_nothing() {
    let fault = from_fn(async |_: Invocation, _: Next| Err::<Outcome, _>(std::io::Error::other("secret path")));
    let server = Server::builder("test", "1").tool(tool("t", async || "t").layer(fault)).build();
    let message = server.call_tool("t", json!({})).await.unwrap_err().message;
    assert!(message.starts_with("the call failed on the server (reference "), "{message}");
}

/// A server whose tool is limited, and the number of its runs.
fn limited(limit: RateLimit) -> (Server, Arc<AtomicUsize>) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = runs.clone();
    let handler = async move || {
        counter.fetch_add(1, Ordering::Relaxed);
        "done"
    };
    (Server::builder("test", "1").tool(tool("t", handler).layer(limit)).build(), runs)
}

/// Calls the tool, and returns the time to wait in milliseconds if the limit is reached. No time ends a limit of zero.
async fn call(server: &Server, subject: Option<&str>) -> Result<(), u64> {
    let principal = subject.map(|subject| Arc::new(Principal::new(subject)));
    let reply = request_with_scope(server, "tools/call", json!({ "name": "t" }), |scope| scope.principal(principal))
        .await
        .unwrap();
    let error = &reply["error"];
    if error.is_null() {
        return Ok(());
    }
    if error["data"].is_null() {
        assert_eq!(error["message"], "the limit of the server allows no calls");
        return Err(u64::MAX);
    }
    assert_eq!(error["data"]["reason"], "busy");
    assert!(error["message"].as_str().unwrap().contains("retry in"), "{error}");
    Err(error["data"]["retryAfterMs"].as_u64().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_shared_rate_limit_rejects_with_the_time_to_wait() {
    let (server, runs) = limited(RateLimit::shared(3, WINDOW));
    for caller in [None, Some("ada"), Some("bob")] {
        assert_eq!(call(&server, caller).await, Ok(()));
    }
    assert_eq!(call(&server, None).await, Err(20_000));
    // A rejected call takes no token.
    assert_eq!(call(&server, Some("ada")).await, Err(20_000));
    advance(Duration::from_millis(19_999)).await;
    assert_eq!(call(&server, None).await, Err(1));
    advance(Duration::from_millis(1)).await;
    assert_eq!(call(&server, None).await, Ok(()));
    assert_eq!(call(&server, None).await, Err(20_000));
    assert_eq!(runs.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_per_principal_limits_each_caller_alone() {
    let (server, _) = limited(RateLimit::per_principal(1, WINDOW));
    for caller in [Some("ada"), Some("bob"), None] {
        assert_eq!(call(&server, caller).await, Ok(()), "{caller:?}");
        assert_eq!(call(&server, caller).await, Err(60_000), "{caller:?}");
    }
    advance(WINDOW).await;
    assert_eq!(call(&server, Some("ada")).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn extreme_rates_neither_panic_nor_wait() {
    for (limit, expected) in [
        (RateLimit::shared(0, WINDOW), Err(u64::MAX)),
        (RateLimit::shared(0, Duration::ZERO), Err(u64::MAX)),
        (RateLimit::shared(1, Duration::ZERO), Ok(())),
        (RateLimit::per_principal(u32::MAX, Duration::from_nanos(1)), Ok(())),
        (RateLimit::shared(1, Duration::MAX), Ok(())),
    ] {
        let shown = format!("{limit:?}");
        let (server, _) = limited(limit);
        let start = Instant::now();
        assert_eq!(call(&server, Some("ada")).await, expected, "{shown}");
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
