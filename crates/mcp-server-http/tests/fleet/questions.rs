//! Questions of the server: the answer of a client arrives at any node, and dead nodes end their work.

use mcp_protocol::{CreateMessageParams, Meta, SamplingBlock, SamplingMessage};
use mcp_server_core::{ClientNotification, Context, Inputs, Progress, ToolError, tool};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    outage::{Fault, Fragile},
    *,
};
use crate::{
    common::{legacy_as, settle},
    resume::resume,
};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

pub(super) fn build(builder: ServerBuilder) -> ServerBuilder {
    builder
        .tool(tool("ask", async |inputs: Inputs| -> Result<String, ToolError> {
            let Name { name } = inputs.elicit("name", "Name?").await?;
            Ok(name)
        }))
        .tool(tool("hang", async |progress: Progress| {
            progress.report(1.0, None, "").await;
            std::future::pending::<()>().await;
        }))
}

pub(super) fn ask(id: u64, session: &str) -> Request<Full<Bytes>> {
    legacy_as(id, Some(session), "tools/call", json!({ "name": "ask", "arguments": {} }))
}

fn answer(session: &str, id: &Value, name: &str) -> Request<Full<Bytes>> {
    let result = json!({ "action": "accept", "content": { "name": name } });
    let mut headers = common::BASE.to_vec();
    headers.push(("mcp-session-id", session));
    request(Method::POST, &headers, json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string())
}

#[tokio::test]
async fn an_answer_at_any_node_reaches_the_node_that_asked() {
    let fleet = Fleet::new(3, build);
    let (session, other) = (fleet.open(json!({ "elicitation": {} })).await, fleet.open(json!({})).await);
    for id in 1..=30 {
        let mut stream = fleet.next().handle(ask(id, &session)).await.into_body();
        let question = loop {
            let events = next_events(&mut stream).await;
            if let Some(question) = events.into_iter().find_map(|event| event.message) {
                break question;
            }
        };
        assert_eq!(question["method"], "elicitation/create", "{question}");
        // The answer in another session has no effect.
        assert_eq!(fleet.send(answer(&other, &question["id"], "foreign")).await.status, StatusCode::ACCEPTED);
        let name = format!("name {id}");
        assert_eq!(fleet.send(answer(&session, &question["id"], &name)).await.status, StatusCode::ACCEPTED);
        let response = next_message(&mut stream).await;
        assert_eq!((&response["id"], &response["result"]["content"][0]["text"]), (&json!(id), &json!(name)));
        // A second answer is too late, and accepted.
        assert_eq!(fleet.send(answer(&session, &question["id"], "late")).await.status, StatusCode::ACCEPTED);
    }
}

#[tokio::test(start_paused = true)]
async fn the_work_of_a_node_that_stops_ends_with_typed_errors() {
    let memory = MemoryStore::new();
    let first = Arc::new(Fragile::of(memory.clone()));
    let fleet = Fleet::of_stores(vec![first.clone(), Arc::new(memory)], HttpConfig::new(), build);
    let session = fleet.open(json!({ "elicitation": {} })).await;
    let mut asking = fleet.nodes[0].handle(ask(1, &session)).await.into_body();
    let question = loop {
        let events = next_events(&mut asking).await;
        if let Some(question) = events.into_iter().find_map(|event| event.message) {
            break question;
        }
    };
    let params = json!({ "name": "hang", "arguments": {}, "_meta": { "progressToken": 1 } });
    let call = legacy_as(2, Some(&session), "tools/call", params);
    let mut hanging = fleet.nodes[0].handle(call).await.into_body();
    let mut last = String::new();
    while !next_events(&mut hanging).await.into_iter().any(|event| {
        last = event.id;
        event.message.is_some()
    }) {}
    drop((asking, hanging));
    settle().await;
    // The node loses its connection to the store, so its lease ends.
    first.set_failing(true);
    let mut resumed = fleet.nodes[1].handle(resume(&session, &last)).await.into_body();
    next_events(&mut resumed).await;
    let ended = next_message(&mut resumed).await;
    assert_eq!((&ended["id"], &ended["error"]["code"]), (&json!(2), &json!(-32603)), "{ended}");
    assert!(next_events(&mut resumed).await.is_empty());
    // A second reader receives the same end.
    let again = send(&fleet.nodes[1], resume(&session, &last)).await;
    assert_eq!(again.events(), [ended]);
    // The question ended with its node, so its answer is too late.
    let late = send(&fleet.nodes[1], answer(&session, &question["id"], "late")).await;
    assert_eq!(late.status, StatusCode::ACCEPTED, "{late:?}");
}

/// A batch of a session of 2025-03-26.
fn batch(session: &str, members: &Value) -> Request<Full<Bytes>> {
    let mut headers = common::BASE.to_vec();
    headers.push(("mcp-session-id", session));
    request(Method::POST, &headers, members.to_string())
}

async fn open_2025_03_26(fleet: &Fleet) -> String {
    let params = json!({
        "protocolVersion": "2025-03-26", "capabilities": { "sampling": {} }, "clientInfo": { "name": "t", "version": "1" }
    });
    let answer = fleet.send(common::legacy(None, "initialize", params)).await;
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    fleet.send(notification(&session, "notifications/initialized", json!({}))).await;
    session
}

#[tokio::test]
async fn answers_and_cancellations_in_a_batch_reach_other_nodes() {
    let build = |builder: ServerBuilder| {
        builder
            .tool(tool("sample", async |inputs: Inputs| -> Result<String, ToolError> {
                let params = CreateMessageParams::new(vec![SamplingMessage::user(SamplingBlock::text("Name?"))], 10);
                let result = inputs.sample("name", params).await?;
                Ok(result.model)
            }))
            .tool(tool("forever", async |context: Context| {
                context.cancelled().await;
                "never"
            }))
    };
    let fleet = Fleet::new(2, build);
    let session = open_2025_03_26(&fleet).await;
    let call = |id, name| legacy_as(id, Some(&session), "tools/call", json!({ "name": name, "arguments": {} }));
    let mut asking = fleet.nodes[0].handle(call(1, "sample")).await.into_body();
    let question = next_message(&mut asking).await;
    assert_eq!(question["method"], "sampling/createMessage", "{question}");
    let (node, forever) = (fleet.nodes[0].clone(), call(2, "forever"));
    let running = tokio::spawn(async move { send(&node, forever).await });
    settle().await;
    let result = json!({ "role": "assistant", "content": { "type": "text", "text": "Ada" }, "model": "batched" });
    let members = json!([
        { "jsonrpc": "2.0", "id": question["id"], "result": result },
        { "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 2 } },
        { "jsonrpc": "2.0", "id": 3, "method": "ping" },
    ]);
    let answered = send(&fleet.nodes[1], batch(&session, &members)).await;
    assert_eq!(answered.json(), json!([{ "jsonrpc": "2.0", "id": 3, "result": {} }]));
    assert_eq!(next_message(&mut asking).await["result"]["content"][0]["text"], "batched");
    let cancelled = within("the end of the call", running).await.unwrap();
    assert!(cancelled.events().is_empty(), "{cancelled:?}");
    // Both messages are too late now, and accepted.
    let late = send(&fleet.nodes[1], batch(&session, &json!([members[0], members[1]]))).await;
    assert_eq!(late.status, StatusCode::ACCEPTED, "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_does_not_run_if_its_answer_cannot_be_passed() {
    let memory = MemoryStore::new();
    let first = Arc::new(Fragile::of(memory.clone()));
    let fleet = Fleet::of_stores(vec![first.clone(), Arc::new(memory)], HttpConfig::new(), |builder| {
        builder.tool(tool("sample", async |inputs: Inputs| -> Result<String, ToolError> {
            let params = CreateMessageParams::new(vec![SamplingMessage::user(SamplingBlock::text("Name?"))], 10);
            Ok(inputs.sample("name", params).await?.model)
        }))
    });
    let session = open_2025_03_26(&fleet).await;
    let call = legacy_as(1, Some(&session), "tools/call", json!({ "name": "sample", "arguments": {} }));
    let mut asking = fleet.nodes[0].handle(call).await.into_body();
    let question = next_message(&mut asking).await;
    first.set_failing(true);
    let members = json!([
        { "jsonrpc": "2.0", "id": question["id"], "result": {} },
        { "jsonrpc": "2.0", "id": 3, "method": "ping" },
    ]);
    let refused = within("the response", send(&fleet.nodes[1], batch(&session, &members))).await;
    assert_eq!((refused.status, refused.error_code()), (StatusCode::SERVICE_UNAVAILABLE, Some(-32603)), "{refused:?}");
}

#[tokio::test]
async fn answers_reach_each_endpoint_of_a_process() {
    let mut fleet = Fleet::new(2, build);
    // A second endpoint of the first node. It does not receive the questions of the first.
    fleet.nodes.push(fleet.servers[0].clone().into_service(HttpConfig::new()));
    let session = fleet.open(json!({ "elicitation": {} })).await;
    for asks in 0..3 {
        let mut stream = fleet.nodes[asks].handle(ask(1, &session)).await.into_body();
        let question = loop {
            let events = next_events(&mut stream).await;
            if let Some(question) = events.into_iter().find_map(|event| event.message) {
                break question;
            }
        };
        let answered = send(&fleet.nodes[(asks + 1) % 3], answer(&session, &question["id"], "Ada")).await;
        assert_eq!(answered.status, StatusCode::ACCEPTED);
        assert_eq!(next_message(&mut stream).await["result"]["content"][0]["text"], "Ada", "{asks}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_progress_of_a_question_reaches_the_node_that_asked() {
    let memory = MemoryStore::new();
    let first = Arc::new(Fragile::of(memory.clone()));
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    let node = AtomicUsize::new(0);
    let fleet = Fleet::of_stores(vec![first.clone(), Arc::new(memory)], HttpConfig::new(), |builder| {
        let (sender, node) = (sender.clone(), node.fetch_add(1, Ordering::Relaxed));
        let builder = builder.on_notification(move |notification: ClientNotification| {
            if notification.method() == "notifications/progress" {
                let token = notification.params().unwrap()["progressToken"].as_str().unwrap().to_owned();
                sender.send((node, token)).unwrap();
            }
            std::future::ready(())
        });
        builder.tool(tool("sample", async |inputs: Inputs| -> Result<String, ToolError> {
            let mut params = CreateMessageParams::new(vec![SamplingMessage::user(SamplingBlock::text("Name?"))], 10);
            let mut meta = Meta::new();
            meta.set_progress_token("mine");
            params.meta = Some(meta);
            Ok(inputs.sample("name", params).await?.model)
        }))
    });
    let progress = |token: &str| json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": token, "progress": 1 } });
    for in_batch in [false, true] {
        let session = open_2025_03_26(&fleet).await;
        let send_progress = async |at: usize, token: &str| {
            let message = progress(token);
            let request = match in_batch {
                true => batch(&session, &json!([message])),
                false => notification(&session, "notifications/progress", message["params"].clone()),
            };
            within("the response", send(&fleet.nodes[at], request)).await
        };
        let call = legacy_as(1, Some(&session), "tools/call", json!({ "name": "sample", "arguments": {} }));
        let mut asking = fleet.nodes[0].handle(call).await.into_body();
        assert_eq!(next_message(&mut asking).await["params"]["_meta"]["progressToken"], "mine");
        for at in [0, 1] {
            let answer = send_progress(at, "mine").await;
            assert_eq!(answer.status, StatusCode::ACCEPTED, "{answer:?}");
            assert_eq!(within("the progress", received.recv()).await, Some((0, "mine".to_owned())), "{in_batch} {at}");
        }
        // Without a node that asked, the node of the request receives it.
        assert_eq!(send_progress(1, "other").await.status, StatusCode::ACCEPTED);
        assert_eq!(within("the progress", received.recv()).await, Some((1, "other".to_owned())), "{in_batch}");
        first.set_fault(Fault::Mute);
        let refused = send_progress(1, "mine").await;
        assert_eq!(
            (refused.status, refused.error_code()),
            (StatusCode::SERVICE_UNAVAILABLE, Some(-32603)),
            "{refused:?}"
        );
        first.set_fault(Fault::None);
        assert_eq!(
            within("the progress", received.recv()).await,
            Some((0, "mine".to_owned())),
            "received, not acknowledged"
        );
    }
    assert!(received.is_empty());
}
