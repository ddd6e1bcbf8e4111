//! Concurrent calls: they run in parallel, do not delay other requests, and are rejected above the limit.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{sync::Arc, time::Duration};

use crate::common::{Connection, LEGACY, call, cancel, code, event, hold, legacy, modern, slow, text_of};
use mcp_server_core::{Server, prompt, resource, template, tool};
use mcp_transport::{Frame, Transport, memory::duplex};
use serde_json::{Value, json};
use tokio::{
    sync::{Barrier, mpsc::unbounded_channel},
    time::{Instant, timeout},
};

fn is_busy(response: &Value) -> bool {
    code(response) == Some(-32603) && response["error"]["message"].as_str().unwrap().starts_with("busy")
}

#[tokio::test(start_paused = true)]
async fn sixty_four_slow_calls_take_the_time_of_one() {
    for request in [legacy as fn(i64, &str, Value) -> Value, modern] {
        let mut connection = Connection::connect(&Server::builder("test", "1").tool(slow()).build());
        connection.open("2025-11-25").await;
        let start = Instant::now();
        for id in 0..64 {
            connection.send(request(id, "tools/call", call("slow"))).await;
        }
        // One more than may run is refused at once.
        assert!(is_busy(&connection.exchange(request(64, "tools/call", call("slow"))).await));
        assert_eq!(connection.exchange(legacy(65, "ping", json!({}))).await["result"], json!({}));
        assert_eq!(
            connection.exchange(request(66, "tools/list", json!({}))).await["result"]["tools"][0]["name"],
            "slow"
        );
        assert_eq!(code(&connection.exchange(request(67, "no/such", json!({}))).await), Some(-32601));
        assert_eq!(start.elapsed(), Duration::ZERO, "all of that came while the calls ran");
        let mut ids = Vec::new();
        for _ in 0..64 {
            let response = connection.recv().await;
            assert_eq!(text_of(&response), "slow");
            ids.push(response["id"].as_i64().unwrap());
        }
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..64), "each is answered once");
        assert_eq!(start.elapsed(), Duration::from_secs(10));
        // Every place is free again.
        for id in 0..64 {
            connection.send(request(id, "tools/call", call("slow"))).await;
        }
        for _ in 0..64 {
            assert_eq!(text_of(&connection.recv().await), "slow");
        }
    }
}

/// Every call waits for all others: they end only if they all run at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_sixty_four_calls_at_the_same_time() {
    let barrier = Arc::new(Barrier::new(64));
    let meet = move || {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            "met"
        }
    };
    let mut connection = Connection::connect(&Server::builder("test", "1").tool(tool("meet", meet)).build());
    connection.message_timeout = Duration::from_secs(20);
    for id in 0..64 {
        connection.send(modern(id, "tools/call", call("meet"))).await;
    }
    for _ in 0..64 {
        assert_eq!(text_of(&connection.recv().await), "met");
    }
}

/// Reading a resource, getting a prompt and completing an argument run beside each other too.
#[tokio::test(start_paused = true)]
async fn every_kind_of_handler_runs_concurrently() {
    let nap = async || {
        tokio::time::sleep(Duration::from_secs(10)).await;
        "rested"
    };
    let think = async || {
        tokio::time::sleep(Duration::from_secs(10)).await;
        vec!["thought".to_owned()]
    };
    let server = Server::builder("test", "1")
        .tool(tool("t", nap))
        .resource(resource("x://r", nap))
        .resource_template(template("y://{+p}", nap).complete("p", think))
        .prompt(prompt("p", nap))
        .build();
    let mut connection = Connection::connect(&server);
    let start = Instant::now();
    let reference = json!({ "type": "ref/resource", "uri": "y://{+p}" });
    for (id, (method, params)) in [
        ("tools/call", call("t")),
        ("resources/read", json!({ "uri": "x://r" })),
        ("resources/read", json!({ "uri": "y://a" })),
        ("prompts/get", json!({ "name": "p" })),
        ("completion/complete", json!({ "ref": reference, "argument": { "name": "p", "value": "" } })),
    ]
    .into_iter()
    .enumerate()
    {
        connection.send(modern(id, method, params)).await;
    }
    for _ in 0..5 {
        let response = connection.recv().await;
        assert!(response.get("result").is_some(), "{response}");
    }
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn enforces_the_limits_of_the_connection_and_the_server() {
    for (per_session, per_server, held) in [(2, 100, [2, 2]), (100, 3, [3, 0]), (2, 3, [2, 1])] {
        let (hold, mut seen) = hold();
        let server = Server::builder("test", "1")
            .tool(hold)
            .limits(|limits| {
                limits.handlers_per_session = per_session;
                limits.handlers = per_server;
            })
            .build();
        let mut wires = [Connection::connect(&server), Connection::connect(&server)];
        for (connection, held) in wires.iter_mut().zip(held) {
            connection.open("2025-11-25").await;
            for id in 0..held {
                connection.send(legacy(id, "tools/call", call("hold"))).await;
                assert_eq!(event(&mut seen).await, "entered");
            }
            for request in [legacy as fn(&'static str, &str, Value) -> Value, modern] {
                let response = connection.exchange(request("more", "tools/call", call("hold"))).await;
                assert!(is_busy(&response), "{per_session} {per_server}: {response}");
            }
            connection.quiet().await;
        }
        // A cancelled call releases its permit.
        if held[0] > 0 {
            wires[0].send(cancel(0)).await;
            assert_eq!(event(&mut seen).await, "dropped");
            wires[0].send(legacy("next", "tools/call", call("hold"))).await;
            assert_eq!(event(&mut seen).await, "entered");
            assert!(is_busy(&wires[0].exchange(legacy("more", "tools/call", call("hold"))).await));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rejects_an_id_in_use_and_accepts_it_after_the_response() {
    let mut connection = Connection::connect(&Server::builder("test", "1").tool(slow()).build());
    connection.open("2025-11-25").await;
    for id in [json!(1), json!("1")] {
        connection.send(legacy(id.clone(), "tools/call", call("slow"))).await;
    }
    for request in [legacy as fn(i64, &str, Value) -> Value, modern] {
        let response = connection.exchange(request(1, "tools/call", call("slow"))).await;
        assert_eq!(code(&response), Some(-32600), "{response}");
    }
    for _ in 0..2 {
        assert_eq!(text_of(&connection.recv().await), "slow");
    }
    for _ in 0..100 {
        assert_eq!(text_of(&connection.exchange(legacy(1, "tools/call", call("slow"))).await), "slow");
    }
}

/// Running calls do not see the change. Each session receives one notification.
#[tokio::test(start_paused = true)]
async fn announces_a_tool_added_during_calls_once_per_session() {
    let server = Server::builder("test", "1").tool(slow()).build();
    let mut wires: Vec<Connection> = Vec::new();
    for version in LEGACY {
        let mut connection = Connection::connect(&server);
        connection.open(version).await;
        for id in 0..32 {
            connection.send(legacy(id, "tools/call", call("slow"))).await;
        }
        connection.quiet().await;
        wires.push(connection);
    }
    let mut stateless = Connection::connect(&server);
    stateless.send(modern(0, "tools/call", call("slow"))).await;
    server.tools().extend([tool("a", async || "a"), tool("b", async || "b")]).unwrap();
    server.tools().extend([]).unwrap();
    assert!(server.tools().add(tool("a", async || "a")).is_err());
    assert!(!server.tools().remove("none"));
    for connection in &mut wires {
        assert_eq!(connection.recv().await["method"], "notifications/tools/list_changed");
        assert_eq!(text_of(&connection.exchange(legacy("new", "tools/call", call("b"))).await), "b");
    }
    for connection in &mut wires {
        for _ in 0..32 {
            assert_eq!(text_of(&connection.recv().await), "slow");
        }
        connection.quiet().await;
    }
    assert_eq!(text_of(&stateless.recv().await), "slow");
    assert!(stateless.close().await.is_empty(), "a connection without a session receives no list change");
}

/// A call continues when its tool is removed. The next call does not find the tool.
#[tokio::test(start_paused = true)]
async fn a_tool_removed_during_a_call_finishes_the_call() {
    let server = Server::builder("test", "1").tool(slow()).build();
    let mut connection = Connection::connect(&server);
    connection.send(modern(1, "tools/call", call("slow"))).await;
    connection.exchange(modern(2, "tools/list", json!({}))).await;
    assert!(server.tools().remove("slow"));
    let refused = connection.exchange(modern(3, "tools/call", call("slow"))).await;
    assert!(code(&refused).is_some(), "{refused}");
    assert_eq!(text_of(&connection.recv().await), "slow");
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_does_not_affect_other_calls() {
    let server = Server::builder("test", "1")
        .tool(slow())
        .tool(tool("panics", async || -> String { panic!("secret") }))
        .resource(resource("x://panics", async || -> String { panic!("secret") }))
        .prompt(prompt("panics", async || -> String { panic!("secret") }))
        .build();
    let (mut one, mut two) = (Connection::connect(&server), Connection::connect(&server));
    one.open("2025-11-25").await;
    one.send(legacy(1, "tools/call", call("slow"))).await;
    two.send(modern(1, "tools/call", call("slow"))).await;
    for _ in 0..100 {
        let response = one.exchange(legacy(2, "tools/call", call("panics"))).await;
        assert_eq!(response["result"]["isError"], true, "{response}");
        assert!(!response.to_string().contains("secret"), "{response}");
    }
    for (method, params) in
        [("resources/read", json!({ "uri": "x://panics" })), ("prompts/get", json!({ "name": "panics" }))]
    {
        let response = one.exchange(legacy(2, method, params)).await;
        assert_eq!(code(&response), Some(-32603), "{response}");
        assert!(!response.to_string().contains("secret"), "{response}");
    }
    assert_eq!(text_of(&one.recv().await), "slow");
    assert_eq!(text_of(&two.recv().await), "slow");
}

/// The server stops reading from a client that does not read its responses, so that the queue stays bounded.
#[tokio::test(start_paused = true)]
async fn does_not_read_from_a_client_that_does_not_read() {
    for (method, runs) in [("tools/call", 4..=10), ("tools/list", 0..=0)] {
        let (events, mut seen) = unbounded_channel();
        let quick = move || {
            let events = events.clone();
            async move {
                events.send("ran").ok();
                "quick"
            }
        };
        let server = Server::builder("test", "1")
            .tool(tool("quick", quick))
            .limits(|limits| limits.handlers_per_session = 4)
            .build();
        let (ours, theirs) = duplex(2);
        let served = tokio::spawn({
            let server = server.clone();
            async move { server.serve(theirs).await }
        });
        let sender = ours.sender();
        let flood = async {
            for id in 0..1000 {
                sender.send(Frame::new(modern(id, method, call("quick")).to_string())).await.unwrap();
            }
        };
        assert!(timeout(Duration::from_secs(1), flood).await.is_err(), "the server read all requests");
        let mut ran = 0;
        while seen.try_recv().is_ok() {
            ran += 1;
        }
        assert!(runs.contains(&ran), "{method}: {ran}");
        // A shutdown ends the wait for such a client.
        server.shutdown();
        timeout(Duration::from_secs(4), served).await.expect("the server did not stop").unwrap().unwrap();
    }
}
