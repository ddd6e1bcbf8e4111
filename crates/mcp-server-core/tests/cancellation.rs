//! `notifications/cancelled`, timeouts and lost connections: the handler ends, and the server sends no needless
//! response.

use crate::common;
use std::time::Duration;

use crate::common::{
    Connection, Dropped, call, cancel, code, event, hold, legacy, modern, notification, slow, text_of,
};
use mcp_server_core::{Cancelled, Context, Server, prompt, resource, template, tool};
use mcp_transport::{Frame, Transport, memory::duplex, recv};
use serde_json::{Value, json};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::Instant,
};

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_is_dropped_without_a_response() {
    for request in [legacy as fn(Value, &str, Value) -> Value, modern] {
        for id in [json!(7), json!("7")] {
            let (hold, mut seen) = hold();
            let mut connection = Connection::connect(&Server::builder("test", "1").tool(hold).build());
            connection.open("2025-11-25").await;
            connection.send(request(id.clone(), "tools/call", call("hold"))).await;
            assert_eq!(event(&mut seen).await, "entered");
            connection.send(cancel(id)).await;
            assert_eq!(event(&mut seen).await, "dropped");
            connection.quiet().await;
            assert!(connection.close().await.is_empty());
        }
    }
}

/// Sends the reason of the cancellation when the handler is dropped.
struct Ended(Context, UnboundedSender<Option<String>>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.1.send(self.0.cancellation_reason().map(str::to_owned)).ok();
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_reads_the_reason_of_a_cancellation() {
    let (ends, mut ended) = unbounded_channel();
    let (entered, mut entries) = unbounded_channel();
    let waits = move |context: Context| {
        let (ends, entered) = (ends.clone(), entered.clone());
        async move {
            entered.send(context.cancellation_reason().map(str::to_owned)).ok();
            let _ended = Ended(context, ends);
            std::future::pending::<String>().await
        }
    };
    let mut connection = Connection::connect(&Server::builder("test", "1").tool(tool("waits", waits)).build());
    connection.open("2025-11-25").await;
    for request in [legacy as fn(Value, &str, Value) -> Value, modern] {
        for (id, reason) in [(1, Some("the user pressed Esc")), (2, None)] {
            connection.send(request(id.into(), "tools/call", call("waits"))).await;
            assert_eq!(entries.recv().await, Some(None));
            let mut cancelled = cancel(id);
            match reason {
                Some(reason) => cancelled["params"]["reason"] = json!(reason),
                None => drop(cancelled["params"].as_object_mut().and_then(|params| params.remove("reason"))),
            }
            connection.send(cancelled).await;
            assert_eq!(ended.recv().await, Some(reason.map(str::to_owned)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_immediately_after_its_request_takes_effect() {
    let (hold, _seen) = hold();
    let (mut ours, theirs) = duplex(8);
    for message in [common::initialize("2025-11-25"), legacy(2, "tools/call", call("hold")), cancel(2)] {
        ours.sender().send(Frame::new(message.to_string())).await.unwrap();
    }
    ours.sender().shutdown().await.unwrap();
    // All three messages and the end of input are available before the server reads the first one.
    let drain = Duration::from_secs(600);
    let server =
        Server::builder("test", "1").tool(hold.timeout(drain * 2)).limits(|limits| limits.drain = drain).build();
    let start = Instant::now();
    server.serve(theirs).await.unwrap();
    assert!(start.elapsed() < drain, "the call was not cancelled");
    assert!(recv(&mut ours).await.is_some(), "the session was opened");
    assert!(recv(&mut ours).await.is_none(), "the call was answered");
}

#[tokio::test(start_paused = true)]
async fn cancellations_of_unknown_requests_have_no_effect() {
    let (hold, mut seen) = hold();
    let server = Server::builder("test", "1").tool(hold).tool(tool("quick", async || "quick")).build();
    let mut connection = Connection::connect(&server);
    connection.send(cancel(1)).await;
    connection.open("2025-11-25").await;
    connection.send(legacy(7, "tools/call", call("hold"))).await;
    assert_eq!(event(&mut seen).await, "entered");
    assert_eq!(text_of(&connection.exchange(legacy(8, "tools/call", call("quick"))).await), "quick");
    for stray in [
        cancel("7"),
        cancel(8),
        cancel(99),
        cancel("open"),
        notification("notifications/cancelled", json!({})),
        notification("notifications/cancelled", json!({ "requestId": null })),
        notification("notifications/cancelled", json!({ "requestId": {} })),
        notification("notifications/cancelled", json!({ "requestId": 1.5, "reason": 7 })),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": [7] }),
    ] {
        connection.send(stray).await;
    }
    connection.quiet().await;
    assert!(seen.try_recv().is_err(), "the call still runs");
    connection.send(cancel(7)).await;
    assert_eq!(event(&mut seen).await, "dropped");
    // The id is free again.
    connection.send(legacy(7, "tools/call", call("quick"))).await;
    assert_eq!(text_of(&connection.recv().await), "quick");
}

/// The token reaches spawned tasks for every end of the call.
#[tokio::test(start_paused = true)]
async fn spawned_tasks_receive_the_cancellation() {
    for ends_by in ["cancellation", "time limit", "disconnect"] {
        let (events, mut seen) = unbounded_channel();
        let route = tool("spawn", move |cancelled: Cancelled| {
            let events = events.clone();
            async move {
                tokio::spawn(async move {
                    let _guard = Dropped(events.clone());
                    events.send("entered").ok();
                    cancelled.await;
                });
                std::future::pending::<()>().await;
            }
        });
        let server = Server::builder("test", "1").tool(route).build();
        let mut connection = Connection::connect(&server);
        connection.open("2025-11-25").await;
        connection.send(legacy(1, "tools/call", call("spawn"))).await;
        assert_eq!(event(&mut seen).await, "entered");
        match ends_by {
            "cancellation" => connection.send(cancel(1)).await,
            "time limit" => {
                let response = connection.recv().await;
                assert_eq!(response["result"]["isError"], true, "{response}");
            }
            _ => drop(connection.close().await),
        }
        let outcome = tokio::time::timeout(Duration::from_secs(1), event(&mut seen)).await;
        assert_eq!(outcome, Ok("dropped"), "{ends_by}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_sees_the_cancellation_first_sends_no_response() {
    let (events, mut seen) = unbounded_channel();
    let route = tool("polite", move |context: Context| {
        let events = events.clone();
        async move {
            events.send("entered").ok();
            context.cancelled().await;
            "cancelled"
        }
    });
    let mut connection = Connection::connect(&Server::builder("test", "1").tool(route).build());
    connection.open("2025-11-25").await;
    connection.send(legacy(1, "tools/call", call("polite"))).await;
    assert_eq!(event(&mut seen).await, "entered");
    connection.send(cancel(1)).await;
    connection.quiet().await;
}

#[tokio::test(start_paused = true)]
async fn a_tool_times_out_after_a_minute_or_its_own_timeout() {
    let forever = std::future::pending::<String>;
    let server = Server::builder("test", "1")
        .tool(tool("default", forever))
        .tool(tool("own", forever).timeout(Duration::from_secs(5)))
        .tool(tool("busy", async |context: Context| {
            // Progress does not extend the timeout of a tool.
            for step in 1.. {
                tokio::time::sleep(Duration::from_secs(1)).await;
                context.progress().report(f64::from(step), None, None).await;
            }
        }))
        .tool(slow().timeout(Duration::from_secs(11)))
        .resource(resource("x://never", forever))
        .resource_template(template("y://{a}", forever).complete("a", std::future::pending::<Vec<String>>))
        .prompt(prompt("never", forever))
        .build();
    let mut connection = Connection::connect(&server);
    for (request, seconds, expected) in [
        (modern(1, "tools/call", call("default")), 60, "the tool `default` took longer than 60s"),
        (modern(2, "tools/call", call("own")), 5, "the tool `own` took longer than 5s"),
        (modern(3, "tools/call", call("busy")), 60, "the tool `busy` took longer than 60s"),
        (modern(4, "tools/call", call("slow")), 10, "slow"),
    ] {
        let start = Instant::now();
        let response = connection.exchange(request).await;
        assert_eq!((start.elapsed().as_secs(), text_of(&response)), (seconds, expected));
        assert_eq!(response["result"].get("isError").is_some(), expected != "slow", "{response}");
    }
    let reference = json!({ "type": "ref/resource", "uri": "y://{a}" });
    for (method, params) in [
        ("resources/read", json!({ "uri": "x://never" })),
        ("prompts/get", json!({ "name": "never" })),
        ("completion/complete", json!({ "ref": reference, "argument": { "name": "a", "value": "" } })),
    ] {
        let start = Instant::now();
        let response = connection.exchange(modern(5, method, params)).await;
        assert_eq!((start.elapsed().as_secs(), code(&response)), (60, Some(-32603)), "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeouts_of_a_server_are_configurable() {
    let forever = std::future::pending::<String>;
    let server = Server::builder("test", "1")
        .tool(tool("default", forever))
        .resource(resource("x://never", forever))
        .limits(|limits| {
            limits.tool_timeout = Duration::from_secs(3);
            limits.read_timeout = Duration::from_secs(4);
        })
        .build();
    let start = Instant::now();
    assert!(server.call_tool("default", json!({})).await.unwrap().is_error);
    assert_eq!(start.elapsed().as_secs(), 3);
    assert!(server.read_resource("x://never").await.is_err());
    assert_eq!(start.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_does_not_affect_other_calls_and_connections() {
    let (hold, mut seen) = hold();
    let server = Server::builder("test", "1").tool(hold).tool(slow()).build();
    let (mut one, mut two) = (Connection::connect(&server), Connection::connect(&server));
    one.open("2025-11-25").await;
    two.open("2025-11-25").await;
    one.send(legacy(1, "tools/call", call("slow"))).await;
    one.send(legacy(2, "tools/call", call("hold"))).await;
    two.send(legacy(2, "tools/call", call("slow"))).await;
    assert_eq!(event(&mut seen).await, "entered");
    two.send(cancel(1)).await;
    one.send(cancel(2)).await;
    assert_eq!(event(&mut seen).await, "dropped");
    assert_eq!(text_of(&one.recv().await), "slow");
    assert_eq!(text_of(&two.recv().await), "slow");
}
