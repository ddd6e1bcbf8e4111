//! Calls that answer their own input requests, and the relation of an input request to its call.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use mcp_client::{
    Client, ClientBuilder, Handler, InputContext,
    protocol::{
        ClientCapabilities, ElicitResult, ElicitationCapability, FormElicitParams, JsonObject, ProtocolVersion,
        RpcError,
    },
    transport::BoxFuture,
};
use mcp_server::prelude::*;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

use crate::common::{builder, connected, connected_as, start, tool_result};

const LEGACY: ProtocolVersion = ProtocolVersion::V2025_11_25;
const MODERN: ProtocolVersion = ProtocolVersion::V2026_07_28;

/// Answers forms with a name, and with the call that the question names.
struct Named(&'static str);

impl Handler for Named {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
    }

    fn elicit(&self, form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        let call = form.call().and_then(|call| call.name()).unwrap_or("none").to_owned();
        Box::pin(async move { Ok(ElicitResult::accept(JsonObject::new().with("name", self.0).with("call", call))) })
    }
}

fn form() -> Value {
    let properties = json!({ "name": { "type": "string" }, "call": { "type": "string" } });
    json!({ "message": "Your name?", "requestedSchema": { "type": "object", "properties": properties } })
}

fn of_client() -> ClientBuilder {
    builder().handler(Named("client"))
}

#[tokio::test(start_paused = true)]
async fn the_handler_of_a_call_answers_the_input_requests_of_its_result() {
    let (client, mut peer, _peers) = connected(MODERN).await;
    let call = start(client.call_tool("t", ()).answers(Arc::new(Named("call"))));
    let first = peer.recv().await;
    let declared = &first["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared, &json!({ "elicitation": {} }), "the request declares the handler of its call");
    let questions = json!({ "who": { "method": "elicitation/create", "params": form() } });
    peer.answer(first["id"].clone(), json!({ "resultType": "input_required", "inputRequests": questions })).await;
    let second = peer.recv().await;
    assert_eq!(second["params"]["inputResponses"]["who"]["content"], json!({ "name": "call", "call": "t" }));
    peer.answer(second["id"].clone(), tool_result("done")).await;
    assert_eq!(call.await.unwrap().unwrap().text(), "done");

    let call = start(client.call_tool("t", ()));
    let other = peer.recv().await;
    assert_eq!(other["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"], json!({}));
    drop(call);
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_call_belongs_to_the_only_running_call() {
    let (client, mut peer, _peers) = connected_as(of_client(), LEGACY).await;
    let asked = peer.exchange(json!("q0"), "elicitation/create", form()).await;
    assert_eq!(asked["result"]["content"], json!({ "name": "client", "call": "none" }));

    let call = start(client.call_tool("t", ()).answers(Arc::new(Named("call"))));
    let id = peer.expect("tools/call").await;
    // A list cannot ask, so it leaves the relation certain.
    let listing = start(client.list_tools());
    let list = peer.expect("tools/list").await;
    let asked = peer.exchange(json!("q1"), "elicitation/create", form()).await;
    assert_eq!(asked["result"]["content"], json!({ "name": "call", "call": "t" }));
    peer.answer(list, json!({ "tools": [] })).await;
    listing.await.unwrap().unwrap();
    peer.answer(id, tool_result("done")).await;
    call.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_call_is_rejected_during_calls_with_different_handlers() {
    let (client, mut peer, _peers) = connected_as(of_client().roots([]), LEGACY).await;
    let one = start(client.call_tool("one", ()).answers(Arc::new(Named("one"))));
    peer.expect("tools/call").await;
    let two = start(client.call_tool("two", ()).answers(Arc::new(Named("two"))));
    let id = peer.expect("tools/call").await;
    let refused = peer.exchange(json!("q1"), "elicitation/create", form()).await;
    assert_eq!(refused["error"]["code"], -32600);
    assert!(refused["error"]["message"].as_str().unwrap().contains("several calls"));
    let roots = peer.exchange(json!("q2"), "roots/list", json!({})).await;
    assert_eq!(roots["result"]["roots"], json!([]), "both calls leave the roots to the client");

    peer.answer(id, tool_result("done")).await;
    two.await.unwrap().unwrap();
    let asked = peer.exchange(json!("q3"), "elicitation/create", form()).await;
    assert_eq!(asked["result"]["content"], json!({ "name": "one", "call": "one" }));
    drop(one);
}

#[tokio::test(start_paused = true)]
async fn only_a_question_that_several_calls_can_have_caused_is_reported() {
    let (client, mut peer, _peers) = connected_as(of_client(), LEGACY).await;
    // The client remembers 64 cancelled calls. Beyond them, it knows the origin of no message.
    for _ in 0..65 {
        let call = start(client.call_tool("t", ()).answers(Arc::new(Named("call"))));
        peer.expect("tools/call").await;
        call.abort();
        assert!(call.await.unwrap_err().is_cancelled());
        assert_eq!(peer.recv().await["method"], "notifications/cancelled");
    }
    let has_failed = async || timeout(Duration::from_secs(1), client.question_failed()).await.is_ok();
    peer.notify("notifications/message", json!({ "level": "info", "data": 1 })).await;
    // The client rejects a request of unknown origin, which is not a question.
    let rejected = peer.exchange(json!("r"), "example/request", json!({})).await;
    assert_eq!(rejected["error"]["code"], -32600, "{rejected}");
    assert!(!has_failed().await);
    let running = start(client.call_tool("t", ()).answers(Arc::new(Named("call"))));
    peer.expect("tools/call").await;
    let refused = peer.exchange(json!("q"), "elicitation/create", form()).await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    // The report does not wait for the end of the call.
    assert!(has_failed().await && !running.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_cancelled_call_does_not_reach_the_handler_of_another_call() {
    let (client, mut peer, _peers) = connected_as(of_client().roots([]), LEGACY).await;
    let one = start(client.call_tool("one", ()).answers(Arc::new(Named("one"))));
    let cancelled = peer.expect("tools/call").await;
    let two = start(client.call_tool("two", ()).answers(Arc::new(Named("two"))));
    let id = peer.expect("tools/call").await;
    one.abort();
    assert!(one.await.unwrap_err().is_cancelled());
    assert_eq!(peer.recv().await["method"], "notifications/cancelled");

    // The server sent the question before it received the cancellation.
    let refused = peer.exchange(json!("q1"), "elicitation/create", form()).await;
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    let roots = peer.exchange(json!("q2"), "roots/list", json!({})).await;
    assert_eq!(roots["result"]["roots"], json!([]), "both calls leave the roots to the client");
    // The server asks no more questions on behalf of a call that it has answered.
    peer.answer(cancelled, tool_result("late")).await;
    let asked = peer.exchange(json!("q3"), "elicitation/create", form()).await;
    assert_eq!(asked["result"]["content"], json!({ "name": "two", "call": "two" }));
    peer.answer(id, tool_result("done")).await;
    two.await.unwrap().unwrap();

    let three = start(client.call_tool("three", ()).answers(Arc::new(Named("three"))));
    peer.expect("tools/call").await;
    three.abort();
    assert!(three.await.unwrap_err().is_cancelled());
    assert_eq!(peer.recv().await["method"], "notifications/cancelled");
    let refused = peer.exchange(json!("q4"), "elicitation/create", form()).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("has ended"), "{refused}");
    tokio::time::sleep(Duration::from_secs(31)).await;
    let asked = peer.exchange(json!("q5"), "elicitation/create", form()).await;
    assert_eq!(asked["result"]["content"], json!({ "name": "client", "call": "none" }));
}

#[tokio::test(start_paused = true)]
async fn a_common_handler_answers_during_several_calls() {
    let (client, mut peer, _peers) = connected_as(of_client(), LEGACY).await;
    let shared: Arc<dyn Handler> = Arc::new(Named("shared"));
    let calls: Vec<_> = ["one", "two"].map(|name| start(client.call_tool(name, ()).answers(shared.clone()))).into();
    peer.expect("tools/call").await;
    peer.expect("tools/call").await;
    let asked = peer.exchange(json!("q1"), "elicitation/create", form()).await;
    assert_eq!(asked["result"]["content"], json!({ "name": "shared", "call": "none" }));
    drop(calls);
}

#[derive(Deserialize, JsonSchema)]
struct Answer {
    name: String,
}

/// Calls overlap: each waits until all of them have started.
async fn serve(version: ProtocolVersion, calls: usize) -> Client {
    let barrier = Arc::new(tokio::sync::Barrier::new(calls));
    let server = Server::builder("asks", "1")
        .versions([version])
        .tool(tool("ask", move |inputs: Inputs| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                let Answer { name } = inputs.elicit("name", "Your name?").await?;
                Ok::<_, ToolError>(name)
            }
        }))
        .build();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { server.serve_http_on(listener, HttpConfig::new()).await });
    builder().handler(Named("client")).connect(format!("http://{address}/mcp")).await.unwrap()
}

#[tokio::test]
async fn overlapping_calls_over_http_answer_their_own_input_requests() {
    // Servers ask with a form since 2025-06-18.
    for version in [ProtocolVersion::V2025_06_18, LEGACY, MODERN] {
        let client = serve(version, 4).await;
        assert_eq!(client.version(), version);
        let calls = ["a", "b", "c", "d"].map(|name| {
            let call = client.call_tool("ask", ()).answers(Arc::new(Named(name)));
            async move { (name, timeout(Duration::from_secs(20), call.into_future()).await.unwrap().unwrap().text()) }
        });
        let mut running: tokio::task::JoinSet<(&str, String)> = calls.into_iter().collect();
        while let Some(done) = running.join_next().await {
            let (name, text) = done.unwrap();
            assert_eq!(text, name, "{version}");
        }
    }
}

/// Asks the user of a relay. The first question of a call that ends fails, and the others wait for the answer of the test.
struct Relay {
    name: &'static str,
    answers: Arc<Semaphore>,
    has_ended: bool,
}

impl Handler for Relay {
    fn capabilities(&self) -> ClientCapabilities {
        ClientCapabilities::new().with_elicitation(ElicitationCapability::new())
    }

    fn caller(&self) -> Option<Arc<str>> {
        Some("ada".into())
    }

    fn elicit(&self, _form: InputContext<FormElicitParams>) -> BoxFuture<'_, Result<ElicitResult, RpcError>> {
        Box::pin(async move {
            self.answers.acquire().await.unwrap().forget();
            if self.has_ended {
                return Err(RpcError::internal("ended").with_data(json!({ "reason": "call_ended" })));
            }
            Ok(ElicitResult::accept(JsonObject::new().with("name", self.name)))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_pauses_the_time_limits_of_the_calls_that_can_have_caused_it_alone() {
    const LIMIT: Duration = Duration::from_secs(5);
    let (client, mut peer, _peers) = connected_as(builder(), LEGACY).await;
    let answers = Arc::new(Semaphore::new(0));
    let mut calls = Vec::new();
    for (name, has_ended) in [("first", false), ("second", true)] {
        let relay = Relay { name, answers: Arc::clone(&answers), has_ended };
        let call = client.call_tool(name, ()).answers(Arc::new(relay)).idle_timeout(LIMIT).total_timeout(LIMIT);
        calls.push(start(call));
        peer.expect("tools/call").await;
    }
    peer.send(json!({ "jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": form() })).await;
    // A list can be that of another user.
    let listing = start(client.request_raw("tools/list", json!({})).idle_timeout(LIMIT));
    peer.expect("tools/list").await;
    assert!(timeout(2 * LIMIT, listing).await.unwrap().unwrap().unwrap_err().is_timeout());
    peer.expect("notifications/cancelled").await;
    assert!(calls.iter().all(|call| !call.is_finished()));
    // The second call, which was selected, has ended. The first call answers.
    answers.add_permits(2);
    let answer = peer.recv().await;
    assert_eq!(answer["result"]["content"], json!({ "name": "first" }), "{answer}");
}
