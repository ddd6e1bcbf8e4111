//! A store that does not respond: requests that need it fail in time, and end at once when the client cancels.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mcp_protocol::CallToolResult;
use mcp_server_core::{Inputs, NewTask, Server, ToolError, tool};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    common::{Connection, cancel, code, modern, text_of},
    input_client::Name,
    stalling_store::StallingStore,
};

fn server(store: &StallingStore) -> Server {
    Server::builder("held", "1")
        .store(Arc::new(store.clone()))
        .limits(|limits| limits.inputs.state_bytes = 0)
        .standalone_tasks()
        .tool(tool("greet", async |inputs: Inputs| -> Result<String, ToolError> {
            let Name { name } = inputs.elicit("name", "Name?").await?;
            Ok(format!("Hello, {name}!"))
        }))
        .tool(tool("buy", async |inputs: Inputs| {
            inputs.once("buy", async || Ok::<_, ToolError>("bought".to_owned())).await
        }))
        .build()
}

fn request(id: i64, method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] =
        json!({ "elicitation": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    modern(id, method, params)
}

#[tokio::test(start_paused = true)]
async fn waits_at_most_five_seconds_for_the_store() {
    let store = StallingStore::of("/");
    let server = server(&store);
    let task = server.tasks().create(NewTask::for_local()).await.unwrap();
    let id = task.id().to_owned();
    task.finish(CallToolResult::text("done")).await;
    let mut connection = Connection::connect(&server);
    let first_round = connection.exchange(request(1, "tools/call", json!({ "name": "greet" }))).await;
    let state = first_round["result"]["requestState"].clone();
    assert!(state.is_string(), "{first_round}");
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let resumed = json!({ "name": "greet", "requestState": state, "inputResponses": answers });
    let cases = [
        ("tools/call", resumed),
        ("tools/call", json!({ "name": "greet" })),
        ("tools/call", json!({ "name": "buy" })),
        ("tasks/get", json!({ "taskId": id })),
    ];
    store.is_stalled.send_replace(true);
    for (id, (method, params)) in (10..).zip(cases) {
        let start = Instant::now();
        let answer = connection.exchange(request(id, method, params.clone())).await;
        let seconds = start.elapsed().as_secs_f64().round();
        let is_failed = code(&answer) == Some(-32603) || answer["result"]["isError"] == true;
        assert_eq!((is_failed, seconds), (true, 5.0), "{method} {params}: {answer}");
        // One that is cancelled is not answered, and its id is free.
        connection.send(request(7, method, params.clone())).await;
        connection.send(cancel(7)).await;
        connection.quiet().await;
        let start = Instant::now();
        let ping = connection.exchange(request(7, "server/discover", json!({}))).await;
        assert!(ping["result"].is_object() && start.elapsed() < Duration::from_secs(1), "{method} {params}: {ping}");
    }
}

/// A tool with an input request and a once block, and a request with the answer.
async fn buying(store: &StallingStore, effect: Duration) -> (Connection, Value) {
    let server = Server::builder("buying", "1")
        .store(Arc::new(store.clone()))
        .tool(tool("buy", async move |inputs: Inputs| -> Result<String, ToolError> {
            let Name { name } = inputs.elicit("name", "For whom?").await?;
            let buy = async || {
                tokio::time::sleep(effect).await;
                Ok::<_, ToolError>(format!("bought for {name}"))
            };
            inputs.once("buy", buy).await
        }))
        .build();
    let mut connection = Connection::connect(&server);
    let first_round = connection.exchange(request(1, "tools/call", json!({ "name": "buy" }))).await;
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let state = &first_round["result"]["requestState"];
    (connection, json!({ "name": "buy", "requestState": state, "inputResponses": answers }))
}

#[tokio::test(start_paused = true)]
async fn repeats_a_once_block_that_did_not_start() {
    // The mark was written but its response was lost, or it arrives after the timeout.
    type Make = fn() -> StallingStore;
    let cases: [Make; 2] =
        [|| StallingStore::of("/once/").losing_responses(), || StallingStore::of("/once/").delaying_first_swap()];
    for (case, make) in cases.into_iter().enumerate() {
        for is_cancelled in [true, false] {
            let store = make();
            let (mut connection, again) = buying(&store, Duration::ZERO).await;
            store.is_stalled.send_replace(true);
            if is_cancelled {
                connection.send(request(2, "tools/call", again.clone())).await;
                connection.quiet().await;
                connection.send(cancel(2)).await;
            } else {
                let failed = connection.exchange(request(2, "tools/call", again.clone())).await;
                assert_ne!(text_of(&failed), "bought for Ada", "{case}");
            }
            connection.quiet().await;
            store.is_stalled.send_replace(false);
            connection.quiet().await;
            let start = Instant::now();
            let answer = connection.exchange(request(3, "tools/call", again)).await;
            assert_eq!(text_of(&answer), "bought for Ada", "{case} {is_cancelled}");
            assert!(start.elapsed() < Duration::from_secs(5), "{case} {is_cancelled}: {:?}", start.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_once_block_that_started_and_was_dropped_counts_as_failed() {
    let store = StallingStore::of("/once/");
    let (mut connection, again) = buying(&store, Duration::from_secs(30)).await;
    connection.send(request(2, "tools/call", again.clone())).await;
    connection.quiet().await;
    connection.send(cancel(2)).await;
    connection.quiet().await;
    let start = Instant::now();
    let answer = connection.exchange(request(3, "tools/call", again)).await;
    assert_eq!(text_of(&answer), "an earlier attempt at this call did not finish; it is not repeated");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_once_block_does_not_replace_the_attempt_of_another_round() {
    let store = StallingStore::of("/once/");
    let (mut connection, again) = buying(&store, Duration::from_secs(30)).await;
    connection.send(request(2, "tools/call", again.clone())).await;
    connection.quiet().await;
    // The record expires while the effect runs, and another round begins.
    *store.replaces_expired.lock().unwrap() = Some(br#"{"Done":"bought by the other"}"#);
    let unfinished = "an earlier attempt at this call did not finish; it is not repeated";
    assert_eq!(text_of(&connection.recv().await), unfinished);
    assert_eq!(text_of(&connection.exchange(request(3, "tools/call", again)).await), "bought by the other");
}

#[tokio::test(start_paused = true)]
async fn polls_for_a_once_block_with_increasing_intervals() {
    let store = StallingStore::of("/once/");
    let (mut connection, again) = buying(&store, Duration::from_secs(30)).await;
    for id in [2, 3] {
        connection.send(request(id, "tools/call", again.clone())).await;
    }
    for _ in [2, 3] {
        assert_eq!(text_of(&connection.recv().await), "bought for Ada");
    }
    let looks = store.gets.load(Ordering::SeqCst);
    assert!((30..50).contains(&looks), "{looks}");
}
