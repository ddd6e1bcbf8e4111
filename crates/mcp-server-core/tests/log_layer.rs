//! Log records of the application for clients: their receivers, levels and limits.

#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::sync::{Arc, Mutex, OnceLock};

use mcp_protocol::RequestId;
use mcp_server_core::{Context, LogRecords, Server, TaskSupport, tool};
use mcp_transport::{BoxFuture, Frame, FrameSender, TransportError, TrySendError};
use serde_json::{Value, json};
use tracing::{Instrument as _, subscriber::DefaultGuard};
use tracing_subscriber::{fmt, layer::SubscriberExt as _};

use crate::{
    child_process,
    common::{Connection, call, legacy, modern, subscribe},
    json_client::request_with_scope,
};

fn server() -> Server {
    Server::builder("logs", "1")
        .tool(tool("talks", async |context: Context| {
            tracing::debug!(target: "app", "low");
            tracing::info!(target: "app::disk", free = 3, ratio = 0.5, full = false, name = "a", "in a call");
            tracing::info_span!("inner").in_scope(|| tracing::warn!(target: "app", why = ?Some(1), "inside"));
            for other in ["application", "mcp_server_core::x", "mcp_server"] {
                match other {
                    "application" => tracing::error!(target: "application", "not chosen"),
                    "mcp_server" => tracing::error!(target: "mcp_server", "of this library"),
                    _ => tracing::error!(target: "mcp_server_core::x", "of this library"),
                }
            }
            let helper = async { tracing::error!(target: "app", "of a helper") };
            tokio::spawn(helper.instrument(context.span().clone())).await.unwrap();
            "done"
        }))
        .tool(tool("leaves", async |context: Context| {
            let late = async {
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                tracing::error!(target: "app", "too late");
            };
            tokio::spawn(late.instrument(context.span().clone()));
            "left"
        }))
        .tool(tool("floods", async || {
            for step in 0..10_000 {
                tracing::info!(target: "app", step, "again");
            }
            "done"
        }))
        .tool(tool("task", async || tracing::info!(target: "app", "in a task")).task(TaskSupport::Required))
        .build()
}

fn listen(server: &Server, records: LogRecords) -> DefaultGuard {
    subscribe(tracing_subscriber::registry().with(server.log_layer(records)))
}

fn app() -> LogRecords {
    LogRecords::from_targets(["app", "mcp_server_core", "mcp_server"])
}

/// The records until the response to a call, as level, logger and data.
async fn records(connection: &mut Connection, request: Value) -> Vec<(String, String, Value)> {
    let id = request["id"].clone();
    connection.send(request).await;
    let mut records = Vec::new();
    loop {
        let message = connection.recv().await;
        if message["id"] == id {
            assert!(message.get("error").is_none(), "{message}");
            return records;
        }
        assert_eq!(message["method"], "notifications/message", "{message}");
        let params = &message["params"];
        let text = |member: &str| params[member].as_str().unwrap().to_owned();
        records.push((text("level"), text("logger"), params["data"].clone()));
    }
}

async fn record_texts(connection: &mut Connection, request: Value) -> Vec<String> {
    let records = records(connection, request).await;
    records.into_iter().map(|(level, _, data)| format!("{level} {}", data["message"].as_str().unwrap())).collect()
}

#[tokio::test]
async fn events_in_a_call_go_to_its_client_at_its_level() {
    let server = server();
    let _guard = listen(&server, app());
    let (mut talks, mut listens) = (Connection::connect(&server), Connection::connect(&server));
    talks.open("2025-11-25").await;
    listens.open("2025-11-25").await;
    listens.exchange(legacy(1, "logging/setLevel", json!({ "level": "debug" }))).await;
    let received = records(&mut talks, legacy(1, "tools/call", call("talks"))).await;
    let data = json!({ "message": "in a call", "free": 3, "ratio": 0.5, "full": false, "name": "a" });
    assert_eq!(received[0], ("info".into(), "app::disk".into(), data));
    assert_eq!(received[1], ("warning".into(), "app".into(), json!({ "message": "inside", "why": "Some(1)" })));
    assert_eq!(received[2], ("error".into(), "app".into(), json!({ "message": "of a helper" })));
    assert_eq!(received.len(), 3);

    // In 2026-07-28 the request sets the level. Without a level the client receives no records.
    for (level, expected) in [
        (None, vec![]),
        (Some("debug"), vec!["debug low", "info in a call", "warning inside", "error of a helper"]),
        (Some("error"), vec!["error of a helper"]),
    ] {
        let mut params = call("talks");
        params["_meta"] = json!({ "io.modelcontextprotocol/logLevel": level });
        assert_eq!(record_texts(&mut talks, modern(2, "tools/call", params)).await, expected);
    }
    // No other client received it.
    listens.quiet().await;
}

/// Starts the process with a global subscriber that has another layer beside the log layer.
const CHILD: &str = "MCP_TEST_LOG_LAYER";

#[test]
fn a_call_sends_its_first_event_beside_another_layer() {
    if std::env::var_os(CHILD).is_none() {
        let test = "log_layer::a_call_sends_its_first_event_beside_another_layer";
        let output = child_process::run(test, CHILD, "1");
        assert!(output.status.success(), "{output:?}");
        return;
    }
    let greets = async || tracing::info!(target: "app", "greeted");
    let server = Server::builder("logs", "1").tool(tool("greets", greets)).build();
    let layers = tracing_subscriber::registry().with(fmt::layer().with_writer(std::io::sink));
    tracing::subscriber::set_global_default(layers.with(server.log_layer(app()))).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (mut talks, mut listens) = (Connection::connect(&server), Connection::connect(&server));
        talks.open("2025-11-25").await;
        listens.open("2025-11-25").await;
        for _ in 0..2 {
            let received = record_texts(&mut talks, legacy(1, "tools/call", call("greets"))).await;
            assert_eq!(received, ["info greeted"]);
            listens.quiet().await;
        }
    });
}

#[tokio::test]
async fn events_outside_calls_go_to_sessions_or_stay_local() {
    for calls_only in [false, true] {
        let server = server();
        let records = if calls_only { app().calls_only() } else { app() };
        let _guard = listen(&server, records);
        let (mut chatty, mut calm, mut young) =
            (Connection::connect(&server), Connection::connect(&server), Connection::connect(&server));
        chatty.open("2025-11-25").await;
        calm.open("2025-06-18").await;
        calm.exchange(legacy(1, "logging/setLevel", json!({ "level": "error" }))).await;
        young.exchange(modern(1, "tools/list", json!({}))).await;
        // The response to a ping follows all earlier messages.
        for connection in [&mut chatty, &mut calm] {
            connection.quiet().await;
        }
        tracing::info!(target: "app", "starting");
        tracing::error!(target: "app", "failing");
        tracing::error!(target: "other", "not chosen");
        let expected: [&[&str]; 2] =
            if calls_only { [&[], &[]] } else { [&["info starting", "error failing"], &["error failing"]] };
        for (connection, expected) in [&mut chatty, &mut calm].into_iter().zip(expected) {
            assert_eq!(record_texts(connection, legacy(2, "ping", json!({}))).await, expected);
        }
        assert!(record_texts(&mut young, modern(2, "tools/list", json!({}))).await.is_empty());
    }
}

#[tokio::test]
async fn a_finished_call_sends_no_more_events() {
    let server = server();
    let _guard = listen(&server, app());
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    assert!(record_texts(&mut connection, legacy(1, "tools/call", call("leaves"))).await.is_empty());
    connection.quiet().await;
}

/// A span of the application with the name of a request span is not a request span.
#[tokio::test]
async fn a_span_that_imitates_a_call_sends_nothing() {
    let pretended: Arc<OnceLock<tracing::Span>> = Arc::default();
    let inside = pretended.clone();
    let server = Server::builder("logs", "1")
        .tool(tool("call", async move || {
            tracing::error!(target: "app", parent: inside.get().unwrap(), "pretended");
            tracing::error!(target: "app", "real");
        }))
        .build();
    let _guard = listen(&server, app());
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    pretended.set(tracing::info_span!(target: "mcp_server", "mcp.request")).unwrap();
    assert_eq!(record_texts(&mut connection, legacy(1, "tools/call", call("call"))).await, ["error real"]);
}

#[tokio::test]
async fn events_in_a_task_carry_its_id() {
    let server = server();
    let _guard = listen(&server, app());
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    connection.send(legacy(1, "tools/call", json!({ "name": "task", "task": {} }))).await;
    let (mut created, mut record) = (Value::Null, Value::Null);
    while created.is_null() || record.is_null() {
        let message = connection.recv().await;
        match message["method"].as_str() {
            None => created = message["result"]["task"]["taskId"].clone(),
            Some("notifications/message") => record = message["params"].clone(),
            Some(_) => {}
        }
    }
    assert_eq!(record["data"]["message"], "in a task");
    assert_eq!(record["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], created);
}

#[tokio::test]
async fn a_flood_of_events_is_dropped_without_delaying_others() {
    let server = server();
    let _guard = listen(&server, app());
    let mut connection = Connection::with_capacity(&server, 16);
    connection.open("2025-11-25").await;
    let received = records(&mut connection, legacy(1, "tools/call", call("floods"))).await;
    assert!((1..=16).contains(&received.len()), "{}", received.len());
    assert!(received.iter().enumerate().all(|(n, (_, _, data))| data["step"] == n));
}

/// A transport that logs while it holds a lock.
#[derive(Debug, Default)]
struct Talkative(Mutex<Vec<Value>>);

impl FrameSender for Talkative {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        let sent = self.try_send(frame).map_err(|_| TransportError::closed());
        Box::pin(std::future::ready(sent))
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        let mut sent = self.0.lock().unwrap();
        tracing::error!(target: "app", "sending");
        sent.push(serde_json::from_slice(&frame.message).unwrap());
        Ok(())
    }

    fn ready(&self, _len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn close(&self, _id: &RequestId) {}

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[tokio::test]
async fn events_about_sending_are_not_sent() {
    let server = Server::builder("logs", "1")
        .tool(tool("both", async |context: Context| {
            context.log(mcp_protocol::LoggingLevel::Info, "by hand").await;
            tracing::info!(target: "app", "by the layer");
        }))
        .build();
    let _guard = listen(&server, app());
    let sink = Arc::new(Talkative::default());
    let mut params = call("both");
    params["_meta"]["io.modelcontextprotocol/logLevel"] = json!("debug");
    request_with_scope(&server, "tools/call", params, |scope| scope.sink(sink.clone())).await.unwrap();
    let data: Vec<_> = sink.0.lock().unwrap().iter().map(|sent| sent["params"]["data"].clone()).collect();
    assert_eq!(data, [json!("by hand"), json!({ "message": "by the layer" })]);
}

#[tokio::test]
async fn truncates_a_long_text_at_a_character_boundary() {
    let server = Server::builder("logs", "1")
        .tool(tool("long", async || tracing::info!(target: "app", text = "ä".repeat(10_000), "{}", "x".repeat(10_000))))
        .build();
    let _guard = listen(&server, app());
    let mut connection = Connection::connect(&server);
    connection.open("2025-11-25").await;
    let received = records(&mut connection, legacy(1, "tools/call", call("long"))).await;
    let data = &received[0].2;
    assert_eq!((data["text"].as_str().unwrap().len(), data["message"].as_str().unwrap().len()), (8192, 8192));
}
