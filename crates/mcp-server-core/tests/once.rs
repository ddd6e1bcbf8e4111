//! Once blocks, concurrent input requests, and input requests after the end of the call.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_server_core::{Inputs, Json, Server, ToolError, tool};
use serde_json::json;
use tokio::sync::{Notify, mpsc::unbounded_channel};

use crate::{
    input_client::{ALL, Client, Name, accept, everything, text},
    json_client::request_with_scope,
};

/// Takes some time and counts its runs.
async fn buy(count: &AtomicUsize) -> Result<usize, ToolError> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    Ok(count.fetch_add(1, Ordering::SeqCst) + 1)
}

#[tokio::test(start_paused = true)]
async fn an_input_request_does_not_interrupt_a_concurrent_once_block() {
    for version in ALL {
        for name in ["asks_first", "acts_first"] {
            let count = Arc::new(AtomicUsize::new(0));
            let (one, two) = (count.clone(), count.clone());
            let server = Server::builder("beside", "1")
                .tool(tool("asks_first", move |inputs: Inputs| {
                    let count = one.clone();
                    async move {
                        let (name, ticket) =
                            tokio::join!(inputs.elicit::<Name>("name", "?"), inputs.once("buy", || buy(&count)));
                        Ok::<_, ToolError>(format!("{} {}", name?.name, ticket?))
                    }
                }))
                .tool(tool("acts_first", move |inputs: Inputs| {
                    let count = two.clone();
                    async move {
                        let (ticket, name) =
                            tokio::join!(inputs.once("buy", || buy(&count)), inputs.elicit::<Name>("name", "?"));
                        Ok::<_, ToolError>(format!("{} {}", name?.name, ticket?))
                    }
                }))
                .build();
            let mut client = Client::connect(&server, version, everything()).await;
            let response = client.tool(name, vec![accept(json!({ "name": "Ada" }))]).await;
            assert_eq!(text(&response), "Ada 1", "{version} {name}");
            assert_eq!(count.load(Ordering::SeqCst), 1, "{version} {name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn two_uses_of_a_key_run_one_block() {
    for version in ALL {
        let count = Arc::new(AtomicUsize::new(0));
        let (both, failures) = (count.clone(), Arc::new(AtomicUsize::new(0)));
        let fails = failures.clone();
        let server = Server::builder("both", "1")
            .tool(tool("both", move |inputs: Inputs| {
                let count = both.clone();
                async move {
                    let (one, two) =
                        tokio::join!(inputs.once("buy", || buy(&count)), inputs.once("buy", || buy(&count)));
                    Ok::<_, ToolError>(format!("{} {}", one?, two?))
                }
            }))
            .tool(tool("again", move |inputs: Inputs| {
                let failures = fails.clone();
                async move {
                    for _ in 0..2 {
                        let failed = inputs.once("buy", async || {
                            failures.fetch_add(1, Ordering::SeqCst);
                            Err::<(), _>(ToolError::new("halfway"))
                        });
                        assert!(failed.await.is_err());
                    }
                    "failed once"
                }
            }))
            .build();
        let mut client = Client::connect(&server, version, everything()).await;
        assert_eq!(text(&client.tool("both", vec![]).await), "1 1", "{version}");
        assert_eq!(count.load(Ordering::SeqCst), 1, "{version}");
        assert_eq!(text(&client.tool("again", vec![]).await), "failed once", "{version}");
        assert_eq!(failures.load(Ordering::SeqCst), 1, "{version}");
    }
}

#[tokio::test]
async fn a_remembered_value_is_not_a_once_block() {
    let server = Server::builder("names", "1")
        .limits(|limits| limits.inputs.state = Duration::MAX)
        .tool(tool("names", async |inputs: Inputs| -> Result<String, ToolError> {
            let remembered: String = inputs.remember("once/x", || "remembered".to_owned())?;
            let Name { name } = inputs.elicit("name", "?").await?;
            let done: u32 = inputs.once("x", async || Ok::<_, ToolError>(1)).await?;
            Ok(format!("{remembered} {name} {done}"))
        }))
        .build();
    for version in ALL {
        let mut client = Client::connect(&server, version, everything()).await;
        let response = client.tool("names", vec![accept(json!({ "name": "Ada" }))]).await;
        assert_eq!(text(&response), "remembered Ada 1", "{version}");
    }
}

#[tokio::test]
async fn an_input_request_fails_after_three_invalid_answers() {
    let server = Server::builder("stubborn", "1")
        .tool(tool("stubborn", async |inputs: Inputs| -> Result<String, ToolError> {
            let first = inputs.elicit::<Name>("first", "First?").await;
            let second: Name = inputs.elicit("second", "Second?").await?;
            Ok(format!("{} {}", first.is_err_and(|error| error.is_invalid()), second.name))
        }))
        .build();
    for version in ALL {
        let mut client = Client::connect(&server, version, everything()).await;
        let wrong = || accept(json!({ "name": 7 }));
        let answers = vec![wrong(), wrong(), wrong(), accept(json!({ "name": "Ada" }))];
        assert_eq!(text(&client.tool("stubborn", answers).await), "true Ada", "{version}");
    }
}

#[tokio::test]
async fn an_input_request_after_its_call_was_dropped_fails_as_disconnected() {
    let (entered, input_allowed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (answer_sender, mut answers) = unbounded_channel();
    let (begun, wait) = (entered.clone(), input_allowed.clone());
    let server = Server::builder("dropped", "1")
        .tool(tool("helped", move |inputs: Inputs| {
            let (begun, wait, answer_sender) = (begun.clone(), wait.clone(), answer_sender.clone());
            async move {
                tokio::spawn(async move {
                    wait.notified().await;
                    answer_sender.send(inputs.elicit::<Name>("name", "Name?").await.map(|name| name.name)).ok();
                });
                begun.notify_one();
                std::future::pending::<()>().await;
            }
        }))
        .build();
    let mut params = json!({ "name": "helped" });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = everything();
    let serving = server.clone();
    let request = tokio::spawn(async move { request_with_scope(&serving, "tools/call", params, |scope| scope).await });
    entered.notified().await;
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    input_allowed.notify_one();
    let answer = tokio::time::timeout(Duration::from_secs(10), answers.recv()).await.expect("an end").unwrap();
    assert_eq!(answer.unwrap_err().to_string(), "the client has disconnected");
}

#[tokio::test(start_paused = true)]
async fn rejects_a_once_block_within_itself_and_allows_it_within_another() {
    let server = Server::builder("nested", "1")
        .tool(tool("itself", async |inputs: Inputs| {
            inputs.once("a", || inputs.once("b", || inputs.once("a", async || Ok::<_, ToolError>(1)))).await.map(Json)
        }))
        .tool(tool("another", async |inputs: Inputs| {
            inputs.once("a", || inputs.once("b", async || Ok::<_, ToolError>("done".to_owned()))).await
        }))
        .build();
    for version in ALL {
        let mut client = Client::connect(&server, version, everything()).await;
        let start = tokio::time::Instant::now();
        let refused = client.tool("itself", vec![]).await;
        assert!(text(&refused).contains("reference"), "{version}: {refused}");
        assert!(start.elapsed() < Duration::from_secs(1), "{version}");
        assert_eq!(text(&client.tool("another", vec![]).await), "done", "{version}");
    }
}
