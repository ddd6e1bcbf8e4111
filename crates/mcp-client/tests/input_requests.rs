//! Requests of servers: pings, forms, pages, sampling, roots and unknown methods.

use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use mcp_client::{
    ClientBuilder, Handler, InputContext,
    protocol::{ClientCapabilities, ElicitResult, JsonObject, ProtocolVersion, Root, RpcError, UrlElicitParams},
    transport::BoxFuture,
};
use serde_json::{Value, json};

use crate::common::{builder, connected, connected_as, start, tool_result};

const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;
const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;

fn form() -> Value {
    let properties = json!({ "name": { "type": "string" }, "shout": { "type": "boolean", "default": true } });
    json!({ "message": "Who?", "requestedSchema": { "type": "object", "properties": properties } })
}

fn forms() -> ClientBuilder {
    builder().on_elicit(async |_| Ok(ElicitResult::accept(JsonObject::new().with("name", "Ada"))))
}

#[tokio::test(start_paused = true)]
async fn answers_input_requests() {
    let (_client, mut peer, _peers) = connected(LEGACY).await;
    assert_eq!(peer.exchange(json!("a"), "ping", json!({})).await["result"], json!({}));
    for method in ["roots/list", "sampling/createMessage", "elicitation/create", "x/y"] {
        assert_eq!(peer.exchange(json!(1), method, form()).await["error"]["code"], -32601, "{method}");
    }

    let (_client, mut peer, _peers) = connected_as(forms(), LEGACY).await;
    let answer = peer.exchange(json!(1), "elicitation/create", form()).await;
    assert_eq!(answer["result"], json!({ "action": "accept", "content": { "name": "Ada", "shout": true } }));
    let url = json!({ "mode": "url", "message": "Go", "url": "https://example.com", "elicitationId": "e" });
    assert_eq!(peer.exchange(json!(2), "elicitation/create", url).await["error"]["code"], -32602);
    assert_eq!(peer.exchange(json!(3), "elicitation/create", json!({ "mode": "form" })).await["error"]["code"], -32602);

    let visiting = builder().on_elicit_url(async |input: InputContext<UrlElicitParams>| {
        assert_eq!(input.url, "https://example.com");
        Ok(ElicitResult::accept(JsonObject::new().with("secret", "no")))
    });
    let (_client, mut peer, _peers) = connected_as(visiting, LEGACY).await;
    let url = json!({ "mode": "url", "message": "Go", "url": "https://example.com", "elicitationId": "e" });
    assert_eq!(peer.exchange(json!(1), "elicitation/create", url).await["result"], json!({ "action": "accept" }));
    assert_eq!(peer.exchange(json!(2), "elicitation/create", form()).await["error"]["code"], -32602);

    let eliciting = builder()
        .on_request(async |input| Ok(json!({ "method": input.method() })))
        .on_sample(async |_| Err(RpcError::new(mcp_client::protocol::ErrorCode(-1), "the user said no")));
    let (_client, mut peer, _peers) = connected_as(eliciting, LEGACY).await;
    assert_eq!(peer.exchange(json!(1), "x/y", json!({})).await["result"]["method"], "x/y");
    let prompt = json!({ "messages": [], "maxTokens": 5 });
    assert_eq!(peer.exchange(json!(2), "sampling/createMessage", prompt).await["error"]["code"], -1);
    let tools = json!({ "messages": [], "maxTokens": 5, "tools": [] });
    assert_eq!(peer.exchange(json!(3), "sampling/createMessage", tools).await["error"]["code"], -32602);
}

#[tokio::test(start_paused = true)]
async fn declares_the_configured_capabilities() {
    for (builder, expected) in [
        (builder(), json!({})),
        (forms(), json!({ "elicitation": {} })),
        (
            forms().on_elicit_url(async |_| Ok(ElicitResult::decline())),
            json!({ "elicitation": { "form": {}, "url": {} } }),
        ),
        (builder().on_sample(async |_| Err(RpcError::internal("no"))), json!({ "sampling": {} })),
        (
            builder().on_sample_with_tools(async |_| Err(RpcError::internal("no"))),
            json!({ "sampling": { "tools": {} } }),
        ),
        (builder().roots([]), json!({ "roots": { "listChanged": true } })),
        (builder().handler(Lister), json!({ "roots": {} })),
        (builder().experimental("x", JsonObject::new()), json!({ "experimental": { "x": {} } })),
    ] {
        let (connector, mut peers) = crate::common::scripted();
        let _connecting = start(builder.prefer(LEGACY).connect(connector));
        let params = peers.next().await.open("2025-11-25").await;
        assert_eq!(params["capabilities"], expected);
    }
}

/// Lists one root.
struct Lister;

impl Handler for Lister {
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::new();
        capabilities.roots = Some(mcp_client::protocol::RootsCapability::new());
        capabilities
    }

    fn list_roots(&self) -> BoxFuture<'_, Result<Vec<Root>, RpcError>> {
        Box::pin(async { Ok(vec![Root::new("file:///listed")]) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_answers_requests_without_a_closure() {
    let (_client, mut peer, _peers) = connected_as(forms().handler(Lister), LEGACY).await;
    assert_eq!(peer.exchange(json!(1), "roots/list", json!({})).await["result"]["roots"][0]["uri"], "file:///listed");
    assert_eq!(peer.exchange(json!(2), "elicitation/create", form()).await["result"]["action"], "accept");
    assert_eq!(peer.exchange(json!(3), "x/y", json!({})).await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn answers_pings_during_many_input_requests() {
    let stuck = builder().limits(|limits| limits.server_requests = 1).on_elicit(async |_| pending().await);
    let (_client, mut peer, _peers) = connected_as(stuck, LEGACY).await;
    peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form() })).await;
    assert_eq!(peer.exchange(json!(2), "elicitation/create", form()).await["error"]["code"], -32603);
    assert_eq!(peer.exchange(json!(3), "ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn the_requests_of_the_server_leave_a_place_for_each_call() {
    let asked = AtomicUsize::new(0);
    let first_is_stuck = builder().limits(|limits| limits.server_requests = 1).on_elicit(move |_| {
        let is_first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if is_first { pending().await } else { Ok(ElicitResult::decline()) } }
    });
    let (client, mut peer, _peers) = connected_as(first_is_stuck, LEGACY).await;
    peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form() })).await;
    assert_eq!(peer.exchange(json!(2), "elicitation/create", form()).await["error"]["code"], -32603);
    let calling = tokio::spawn(async move { client.call_tool("t", json!({})).await });
    assert_eq!(peer.recv().await["method"], "tools/call");
    assert_eq!(peer.exchange(json!(3), "elicitation/create", form()).await["result"]["action"], "decline");
    calling.abort();
}

#[tokio::test(start_paused = true)]
async fn a_question_during_a_call_pauses_the_time_limits_of_this_call_alone() {
    let (client, mut peer, _peers) = connected_as(builder().on_elicit(async |_| pending().await), LEGACY).await;
    let limit = Duration::from_secs(5);
    let caller = client.clone();
    let calling = tokio::spawn(async move { caller.call_tool("t", json!({})).idle_timeout(limit).await });
    assert_eq!(peer.recv().await["method"], "tools/call");
    peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form() })).await;
    let error = client.request_raw("x/y", ()).idle_timeout(limit).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    assert!(!calling.is_finished(), "the call waits for the user");
    calling.abort();
}

#[tokio::test(start_paused = true)]
async fn answers_with_an_error_if_a_handler_panics_or_never_returns() {
    let stuck = builder()
        .limits(|limits| limits.server_request_timeout = Duration::from_secs(30))
        .on_elicit(async |_| pending().await)
        .on_request(async |_| panic!("a handler that fails on purpose"));
    let (_client, mut peer, _peers) = connected_as(stuck, LEGACY).await;
    let answer = peer.exchange(json!(1), "x/y", json!({})).await;
    assert_eq!(answer["error"]["code"], -32603);
    assert!(!answer.to_string().contains("purpose"));
    assert_eq!(peer.exchange(json!(2), "elicitation/create", form()).await["error"]["code"], -32603);
}

#[tokio::test(start_paused = true)]
async fn sends_no_response_to_a_cancelled_input_request_and_rejects_excess_ones() {
    let stuck = builder().limits(|limits| limits.server_requests = 2).on_elicit(async |_| pending().await);
    let (_client, mut peer, _peers) = connected_as(stuck, LEGACY).await;
    let elicitation = |id: i64| json!({ "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": form() });
    peer.send(elicitation(1)).await;
    peer.send(elicitation(2)).await;
    peer.send(elicitation(2)).await;
    assert_eq!(peer.recv().await["error"]["code"], -32603, "the client rejects the request above the limit");
    peer.notify("notifications/cancelled", json!({ "requestId": 1 })).await;
    // The next received message is the response to this request.
    assert_eq!(peer.exchange(json!("fence"), "ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_user_does_not_time_out_the_server() {
    let slow = builder().on_elicit(async |_| {
        tokio::time::sleep(Duration::from_secs(300)).await;
        Ok(ElicitResult::decline())
    });
    let (client, mut peer, _peers) = connected_as(slow, LEGACY).await;
    let call = start(client.call_tool("t", ()).total_timeout(Duration::from_secs(90)));
    let id = peer.expect("tools/call").await;
    assert_eq!(peer.exchange(json!("q"), "elicitation/create", form()).await["result"]["action"], "decline");
    tokio::time::sleep(Duration::from_secs(50)).await;
    peer.answer(id, tool_result("patient")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "patient");
}

#[tokio::test(start_paused = true)]
async fn a_handler_reports_the_progress_of_its_answer() {
    let reporting = builder().on_elicit(async |input: InputContext<_>| {
        input.progress(1.0, Some(2.0), Some("thinking"));
        Ok(ElicitResult::cancel())
    });
    let (_client, mut peer, _peers) = connected_as(reporting, LEGACY).await;
    let mut params = form();
    params["_meta"] = json!({ "progressToken": "p" });
    let notification = {
        peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": params })).await;
        peer.recv().await
    };
    let expected = json!({ "progressToken": "p", "progress": 1, "total": 2, "message": "thinking" });
    assert_eq!((&notification["method"], &notification["params"]), (&json!("notifications/progress"), &expected));
    assert_eq!(peer.recv().await["result"]["action"], "cancel");
}

#[tokio::test(start_paused = true)]
async fn rejects_requests_of_a_stateless_server() {
    let (client, mut peer, _peers) = connected_as(forms(), MODERN).await;
    peer.send(json!({ "jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": form() })).await;
    // Polls until all tasks are idle.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let call = start(client.call_tool("t", ()));
    // No response comes before this one.
    let id = peer.expect("tools/call").await;
    peer.answer(id, tool_result("done")).await;
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn collects_inputs_and_returns_the_request_state_unchanged() {
    let (client, mut peer, _peers) = connected_as(forms().roots([Root::new("file:///r")]), MODERN).await;
    let call = start(client.call_tool("t", json!({ "a": 1 })));
    let first = peer.recv().await;
    let questions = json!({
        "who": { "method": "elicitation/create", "params": form() },
        "where": { "method": "roots/list" },
    });
    let state = "s\u{e9}cret \"state\"";
    let required = json!({ "resultType": "input_required", "inputRequests": questions, "requestState": state });
    peer.answer(first["id"].clone(), required).await;
    let second = peer.recv().await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["params"]["name"], "t");
    assert_eq!(second["params"]["arguments"], json!({ "a": 1 }));
    assert_eq!(second["params"]["requestState"], state);
    assert_eq!(
        second["params"]["inputResponses"],
        json!({
            "who": { "action": "accept", "content": { "name": "Ada", "shout": true } },
            "where": { "roots": [{ "uri": "file:///r" }] },
        })
    );
    // The result has only a request state, so the client repeats the call at once without answers.
    peer.answer(second["id"].clone(), json!({ "resultType": "input_required", "requestState": "2" })).await;
    let third = peer.recv().await;
    assert_eq!((third["params"].get("inputResponses"), &third["params"]["requestState"]), (None, &json!("2")));
    // The result has only input requests and no request state.
    let questions = json!({ "where": { "method": "roots/list" } });
    peer.answer(third["id"].clone(), json!({ "resultType": "input_required", "inputRequests": questions })).await;
    let fourth = peer.recv().await;
    assert!(fourth["params"].get("requestState").is_none());
    peer.answer(fourth["id"].clone(), tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_call_starts_anew_once_if_the_server_lost_its_state() {
    let lost = |can_restart: bool| {
        let data = json!({ "reason": "request_state_expired", "canRestart": can_restart });
        json!({ "code": -32602, "message": "lost", "data": data })
    };
    let questions = json!({ "who": { "method": "elicitation/create", "params": form() } });
    let required = json!({ "resultType": "input_required", "inputRequests": questions, "requestState": "s" });
    let (client, mut peer, _peers) = connected_as(forms(), MODERN).await;
    let call = start(client.call_tool("t", json!({ "a": 1 })));
    for _ in 0..2 {
        let first = peer.recv().await;
        let params = first["params"].as_object().unwrap();
        assert!(!params.contains_key("inputResponses") && !params.contains_key("requestState"), "{first}");
        assert_eq!(params["arguments"], json!({ "a": 1 }));
        peer.answer(first["id"].clone(), required.clone()).await;
        let second = peer.recv().await;
        assert_eq!(second["params"]["requestState"], "s");
        peer.refuse(second["id"].clone(), lost(true)).await;
    }
    assert_eq!(call.await.unwrap().unwrap_err().rpc().unwrap().message, "lost");

    // A side effect of the call may have run, so the client does not repeat the call.
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    peer.answer(id, required).await;
    let id = peer.expect("tools/call").await;
    peer.refuse(id, lost(false)).await;
    assert!(call.await.unwrap().unwrap_err().rpc().is_some());

    // A request without a state has no reason to start anew.
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    peer.refuse(id, lost(true)).await;
    assert!(call.await.unwrap().unwrap_err().rpc().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_closed_between_two_rounds_was_sent() {
    let slow = builder().on_elicit(async |_| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(ElicitResult::accept(JsonObject::new()))
    });
    let (client, mut peer, _peers) = connected_as(slow, MODERN).await;
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    let questions = json!({ "who": { "method": "elicitation/create", "params": form() } });
    peer.answer(id, json!({ "resultType": "input_required", "inputRequests": questions })).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    client.close().await;
    let error = call.await.unwrap().unwrap_err();
    assert!(error.is_closed() && error.was_sent(), "{error}");
}

#[tokio::test(start_paused = true)]
async fn fails_on_endless_or_unknown_input_requests() {
    let (client, mut peer, _peers) = connected_as(builder().limits(|limits| limits.rounds = 2), MODERN).await;
    let call = start(client.call_tool("t", ()));
    for _ in 0..3 {
        let id = peer.expect("tools/call").await;
        peer.answer(id, json!({ "resultType": "input_required", "requestState": "again" })).await;
    }
    assert!(call.await.unwrap().unwrap_err().is_unanswered_input());
    for questions in
        [json!({ "k": { "method": "elicitation/create", "params": form() } }), json!({ "k": { "method": "x/y" } })]
    {
        let call = start(client.call_tool("t", ()));
        let id = peer.expect("tools/call").await;
        peer.answer(id, json!({ "resultType": "input_required", "inputRequests": questions })).await;
        assert!(call.await.unwrap().unwrap_err().is_unanswered_input());
    }
    // List requests have no input rounds.
    let call = start(client.list_tools());
    let id = peer.expect("tools/list").await;
    peer.answer(id, json!({ "resultType": "input_required", "requestState": "s" })).await;
    assert!(call.await.unwrap().unwrap_err().is_invalid_response());
}

#[tokio::test(start_paused = true)]
async fn sends_changes_of_roots() {
    let (client, mut peer, _peers) = connected_as(builder().roots([Root::new("file:///a")]), LEGACY).await;
    let roots = client.roots().unwrap();
    assert!(roots.add(Root::new("file:///b")).unwrap());
    peer.expect("notifications/roots/list_changed").await;
    let listed = peer.exchange(json!(1), "roots/list", json!({})).await;
    assert_eq!(listed["result"]["roots"].as_array().unwrap().len(), 2);
    assert!(!roots.add(Root::new("file:///b")).unwrap());
    assert!(roots.remove("file:///a"));
    peer.expect("notifications/roots/list_changed").await;

    let (client, mut peer, _peers) = connected_as(builder().roots([]), MODERN).await;
    client.roots().unwrap().add(Root::new("file:///a")).unwrap();
    let _call = start(client.call_tool("t", ()));
    peer.expect("tools/call").await;

    assert!(builder().roots([Root::new("https://example.com")]).connect(crate::common::scripted().0).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn ignores_the_completion_of_an_unknown_elicitation() {
    let (client, mut peer, _peers) = connected(LEGACY).await;
    let mut notifications = client.notifications();
    peer.notify("notifications/elicitation/complete", json!({ "elicitationId": "unknown" })).await;
    assert_eq!(notifications.next().await.unwrap().method(), "notifications/elicitation/complete");
    assert_eq!(peer.exchange(json!(1), "ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn ignores_the_cancellation_of_an_unknown_request() {
    let (client, mut peer, _peers) = connected(LEGACY).await;
    let call = start(client.call_tool("t", ()));
    let id = peer.expect("tools/call").await;
    peer.notify("notifications/cancelled", json!({ "requestId": id, "reason": "no" })).await;
    peer.answer(id, tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}
