//! The error that requests the visit of pages before the call (`-32042`, 2025-11-25).
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use mcp_client::{
    ClientBuilder, InputContext,
    protocol::{ElicitResult, ErrorCode, ProtocolVersion, RpcError, UrlElicitParams},
};
use mcp_server::prelude::*;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::common::{builder, connected_as, start, tool_result};

const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;

fn page(id: &str) -> Value {
    let url = format!("https://example.com/{id}");
    json!({ "mode": "url", "message": "Sign in.", "url": url, "elicitationId": id })
}

fn required(pages: &[Value]) -> Value {
    json!({ "code": -32042, "message": "sign in first", "data": { "elicitations": pages } })
}

/// A client whose user accepts every page, and the list of shown pages.
fn agreeing() -> (ClientBuilder, Arc<Mutex<Vec<String>>>) {
    let shown = Arc::new(Mutex::new(Vec::new()));
    let seen = shown.clone();
    let builder = builder().on_elicit_url(move |input: InputContext<UrlElicitParams>| {
        seen.lock().unwrap().push(input.url.clone());
        async { Ok(ElicitResult::new(mcp_client::protocol::ElicitAction::Accept)) }
    });
    (builder, shown)
}

#[tokio::test(start_paused = true)]
async fn opens_pages_and_repeats_the_call_after_completion() {
    let (builder, shown) = agreeing();
    let (client, mut peer, _peers) = connected_as(builder, LEGACY).await;
    let call = start(client.call_tool("t", json!({ "a": 1 })));
    let first = peer.recv().await;
    peer.refuse(first["id"].clone(), required(&[page("x"), page("y")])).await;
    crate::common::wait_until(|| shown.lock().unwrap().len() == 2).await;
    for id in ["other", "y", "x"] {
        assert!(!call.is_finished());
        peer.notify("notifications/elicitation/complete", json!({ "elicitationId": id })).await;
    }
    let started = Instant::now();
    let second = peer.recv().await;
    assert!(started.elapsed() < Duration::from_secs(1), "nothing is waited for any more");
    assert_eq!(second["params"]["arguments"], json!({ "a": 1 }));
    assert_ne!(first["id"], second["id"]);
    peer.answer(second["id"].clone(), tool_result("signed in")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "signed in");
}

#[tokio::test(start_paused = true)]
async fn repeats_the_call_without_a_notification_and_shows_no_page_twice() {
    let (builder, shown) = agreeing();
    let (client, mut peer, _peers) = connected_as(builder.limits(|limits| limits.rounds = 3), LEGACY).await;
    let started = Instant::now();
    let call = start(client.call_tool("t", ()));
    for _ in 0..3 {
        let id = peer.expect("tools/call").await;
        peer.refuse(id, required(&[page("x")])).await;
    }
    assert_eq!(started.elapsed().as_secs(), 5 + 10);
    let id = peer.expect("tools/call").await;
    peer.refuse(id, required(&[page("x")])).await;
    let error = call.await.unwrap().unwrap_err();
    assert!(error.is_url_elicitation_required(), "{error}");
    assert_eq!(*shown.lock().unwrap(), ["https://example.com/x"]);

    // The time limit of the call applies.
    let started = Instant::now();
    let call = start(client.call_tool("t", ()).total_timeout(Duration::from_secs(12)));
    for _ in 0..2 {
        let id = peer.expect("tools/call").await;
        peer.refuse(id, required(&[page("x")])).await;
    }
    assert!(call.await.unwrap().unwrap_err().is_timeout());
    assert_eq!(started.elapsed().as_secs(), 12);
}

#[tokio::test(start_paused = true)]
async fn without_consent_the_error_carries_the_pages() {
    let declining = builder().on_elicit_url(async |_| Ok(ElicitResult::decline()));
    let failing = builder().on_elicit_url(async |_| Err(RpcError::internal("no screen")));
    for (builder, version, is_unanswered) in [
        (builder(), LEGACY, false),
        (declining, LEGACY, false),
        (failing, LEGACY, true),
        // No other revision has the error.
        (agreeing().0, ProtocolVersion::V2025_06_18, false),
        (agreeing().0, ProtocolVersion::V2026_07_28, false),
    ] {
        let (client, mut peer, _peers) = connected_as(builder, version).await;
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.refuse(id, required(&[page("x")])).await;
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.is_unanswered_input(), is_unanswered, "{version}: {error}");
        assert_eq!(error.is_url_elicitation_required(), !is_unanswered, "{version}: {error}");
        let urls: Vec<String> = error.url_elicitations().into_iter().map(|page| page.url).collect();
        assert_eq!(urls.is_empty(), is_unanswered, "{version}: {urls:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_of_this_library_can_request_a_page_visit() {
    let signed_in = Arc::new(Mutex::new(false));
    let known = signed_in.clone();
    let server = Server::builder("real", "1")
        .versions([LEGACY])
        .tool(tool("private", move || {
            let is_known = *known.lock().unwrap();
            async move {
                if is_known {
                    return Ok("yours");
                }
                let page = UrlElicitParams::new("Sign in.", "https://example.com/in").with_elicitation_id("in");
                Err(ToolError::protocol(RpcError::url_elicitation_required([page])))
            }
        }))
        .build();
    let visiting = builder().on_elicit_url(move |input: InputContext<UrlElicitParams>| {
        assert_eq!((&*input.url, input.server().name.as_str()), ("https://example.com/in", "real"));
        *signed_in.lock().unwrap() = true;
        async { Ok(ElicitResult::new(mcp_client::protocol::ElicitAction::Accept)) }
    });
    let blind = builder().connect(&server).await.unwrap().call_tool("private", ()).await.unwrap_err();
    assert_eq!(blind.rpc().unwrap().code, ErrorCode::URL_ELICITATION_REQUIRED);
    assert_eq!(blind.url_elicitations()[0].elicitation_id.as_deref(), Some("in"));
    let client = visiting.connect(&server).await.unwrap();
    assert_eq!(client.call_tool("private", ()).await.unwrap().text(), "yours");
}
