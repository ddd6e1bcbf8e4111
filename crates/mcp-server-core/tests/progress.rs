//! Progress of a call: with the token of the client, increasing, and before the response.

use std::time::Duration;

use crate::common::{Connection, LEGACY, call, event, legacy, modern, text_of};
use mcp_server_core::{Progress, Server, tool};
use mcp_transport::{Frame, Transport, memory::duplex, recv};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

fn with_token(name: &str, token: impl Into<Value>) -> Value {
    let token: Value = token.into();
    json!({ "name": name, "arguments": {}, "_meta": { "progressToken": token } })
}

fn server() -> Server {
    Server::builder("test", "1")
        .tool(tool("steps", async |progress: Progress| {
            progress.report(0.0, None, None).await;
            progress.report(0.5, Some(2.0), "half of one").await;
            progress.report(2.0, Some(2.0), "all").await;
            progress.is_wanted().to_string()
        }))
        .tool(tool("erratic", async |progress: Progress| {
            for value in [1.0, 1.0, 0.5, -3.0, f64::NAN, f64::INFINITY, 1.5, 1.5, 4.0, 3.0] {
                progress.report(value, Some(f64::NAN), None).await;
            }
            "done"
        }))
        .build()
}

/// The received progress notifications and the response.
async fn run(connection: &mut Connection, request: Value) -> (Vec<Value>, Value) {
    connection.send(request).await;
    let mut progress = Vec::new();
    loop {
        let message = connection.recv().await;
        if message.get("result").is_some() {
            return (progress, message);
        }
        assert_eq!(message["method"], "notifications/progress", "{message}");
        progress.push(message["params"].clone());
    }
}

#[tokio::test(start_paused = true)]
async fn reports_integers_and_floats() {
    let count = async |progress: Progress| {
        progress.report(1, 10, "literals").await;
        progress.report(2_u8, None, None).await;
        progress.report(3_usize, vec![0; 7].len(), None).await;
        progress.report(4_i64, Some(8), None).await;
        progress.report(5.5_f32, 8.0, None).await;
        progress.report(6.25, None, None).await;
        progress.report(1_u64 << 60, Some(u64::MAX), None).await;
        "done"
    };
    let mut connection = Connection::connect(&Server::builder("test", "1").tool(tool("count", count)).build());
    connection.open("2025-11-25").await;
    let (progress, _) = run(&mut connection, modern(1, "tools/call", with_token("count", 1))).await;
    let numbers: Vec<_> =
        progress.iter().map(|params| (params["progress"].as_f64().unwrap(), params["total"].as_f64())).collect();
    let large = 2_f64.powi(60);
    let expected = [
        (1.0, Some(10.0)),
        (2.0, None),
        (3.0, Some(7.0)),
        (4.0, Some(8.0)),
        (5.5, Some(8.0)),
        (6.25, None),
        (large, Some(large * 16.0)),
    ];
    assert_eq!(numbers, expected);
}

#[tokio::test(start_paused = true)]
async fn progress_carries_the_token_unchanged() {
    for token in [json!(7), json!("7"), json!(""), json!(-1), json!("a b")] {
        for request in [legacy as fn(Value, &str, Value) -> Value, modern] {
            let mut connection = Connection::connect(&server());
            connection.open("2025-11-25").await;
            let (progress, answer) =
                run(&mut connection, request(json!(1), "tools/call", with_token("steps", token.clone()))).await;
            assert_eq!(
                progress,
                [
                    json!({ "progressToken": token, "progress": 0 }),
                    json!({ "progressToken": token, "progress": 0.5, "total": 2, "message": "half of one" }),
                    json!({ "progressToken": token, "progress": 2, "total": 2, "message": "all" }),
                ]
            );
            assert_eq!(text_of(&answer), "true");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_has_messages_in_revisions_that_define_them() {
    for version in LEGACY {
        let mut connection = Connection::connect(&server());
        connection.open(version).await;
        let (progress, _) = run(&mut connection, legacy(1, "tools/call", with_token("steps", json!(1)))).await;
        assert_eq!(progress[1].get("message").is_some(), version != "2024-11-05", "{version}: {progress:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sends_no_progress_without_a_token() {
    let mut connection = Connection::connect(&server());
    connection.open("2025-11-25").await;
    for params in [call("steps"), with_token("steps", Value::Null)] {
        assert_eq!(text_of(&connection.exchange(legacy(1, "tools/call", params.clone())).await), "false");
        assert_eq!(text_of(&connection.exchange(modern(2, "tools/call", params)).await), "false");
    }
    // Without a transport, progress has no receiver.
    let result = server().call_tool("steps", json!({})).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("false"));
}

#[tokio::test(start_paused = true)]
async fn progress_only_increases() {
    let mut connection = Connection::connect(&server());
    connection.open("2025-11-25").await;
    let (progress, _) = run(&mut connection, legacy(1, "tools/call", with_token("erratic", json!(1)))).await;
    let values: Vec<_> = progress.iter().map(|params| params["progress"].as_f64().unwrap()).collect();
    assert_eq!(values, [1.0, 1.5, 4.0]);
    assert!(progress.iter().all(|params| params.get("total").is_none()), "a total that is not a number is omitted");
}

#[tokio::test(start_paused = true)]
async fn sends_no_progress_after_the_response() {
    let (events, mut seen) = unbounded_channel();
    let late = move |progress: Progress| {
        let events = events.clone();
        async move {
            progress.report(1.0, None, None).await;
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                progress.report(2.0, None, None).await;
                events.send("reported").ok();
            });
            "done"
        }
    };
    let mut connection = Connection::connect(&Server::builder("test", "1").tool(tool("late", late)).build());
    connection.open("2025-11-25").await;
    let (progress, _) = run(&mut connection, legacy(1, "tools/call", with_token("late", json!(1)))).await;
    assert_eq!(progress.len(), 1);
    assert_eq!(event(&mut seen).await, "reported");
    connection.quiet().await;
}

/// Tokens and values of calls that run at once do not mix.
#[tokio::test(start_paused = true)]
async fn each_call_has_its_own_progress() {
    let pace = async |progress: Progress| {
        for step in 1..=5 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            progress.report(f64::from(step), Some(5.0), None).await;
        }
        "done"
    };
    let mut connection = Connection::connect(&Server::builder("test", "1").tool(tool("pace", pace)).build());
    connection.open("2025-11-25").await;
    for id in 0..8 {
        connection.send(legacy(id, "tools/call", with_token("pace", json!(format!("t{id}"))))).await;
    }
    let mut last = [0; 8];
    let mut answered = 0;
    while answered < 8 {
        let message = connection.recv().await;
        if let Some(id) = message["id"].as_u64() {
            assert_eq!(last[id as usize], 5, "the response is the last message");
            answered += 1;
            continue;
        }
        let token: usize = message["params"]["progressToken"].as_str().unwrap()[1..].parse().unwrap();
        last[token] += 1;
        assert_eq!(message["params"]["progress"], last[token]);
    }
    connection.quiet().await;
}

/// A slow reader delays the handler, so that the queue stays bounded.
#[tokio::test(start_paused = true)]
async fn progress_reports_wait_for_a_slow_reader() {
    let (events, mut seen) = unbounded_channel();
    let eager = move |progress: Progress| {
        let events = events.clone();
        async move {
            for step in 1..=100 {
                progress.report(f64::from(step), None, None).await;
                events.send("reported").ok();
            }
            "done"
        }
    };
    let (mut ours, theirs) = duplex(4);
    let server = Server::builder("test", "1").tool(tool("eager", eager)).build();
    let served = tokio::spawn(async move { server.serve(theirs).await });
    let request = modern(1, "tools/call", with_token("eager", json!(1)));
    ours.sender().send(Frame::new(request.to_string())).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut reported = 0;
    while seen.try_recv().is_ok() {
        reported += 1;
    }
    assert_eq!(reported, 4, "as many as the queue holds");
    for step in 1..=100 {
        let message: Value = serde_json::from_slice(&recv(&mut ours).await.unwrap().unwrap().message).unwrap();
        assert_eq!(message["params"]["progress"], step);
    }
    assert!(recv(&mut ours).await.is_some());
    drop(ours);
    served.await.unwrap().unwrap();
}

/// Several tasks report progress of one call. The values increase, and none follows the response.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reports_increase_the_progress() {
    let many = async |progress: Progress| {
        let next = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(1));
        for _ in 0..4 {
            let (progress, next) = (progress.clone(), next.clone());
            tokio::spawn(async move {
                for _ in 0..200 {
                    let step = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    progress.report(f64::from(step), None, None).await;
                }
            });
        }
        while next.load(std::sync::atomic::Ordering::Relaxed) < 400 {
            tokio::task::yield_now().await;
        }
        "done"
    };
    let mut connection = Connection::with_capacity(&Server::builder("test", "1").tool(tool("many", many)).build(), 2);
    connection.message_timeout = Duration::from_secs(20);
    connection.open("2025-11-25").await;
    for round in 0..20 {
        let (progress, _) = run(&mut connection, legacy(round, "tools/call", with_token("many", json!(round)))).await;
        let values: Vec<_> = progress.iter().map(|params| params["progress"].as_u64().unwrap()).collect();
        assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
        assert!(progress.iter().all(|params| params["progressToken"] == round), "{progress:?}");
        connection.quiet().await;
    }
}
