//! Tests of the server as a child process, over its stdin and stdout.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// A step that takes longer fails the test.
const DEADLINE: Duration = Duration::from_secs(20);

#[test]
fn stdout_carries_only_messages_and_end_of_input_ends_the_process() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_quickstart"))
        .arg("--stdio")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let arguments = json!({ "text": "strawberry\nand more", "what": "r" });
    let client = json!({ "name": "test", "version": "1" });
    let requests = [
        ("initialize", json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client })),
        ("tools/list", json!({})),
        ("tools/call", json!({ "name": "count", "arguments": arguments })),
        ("tools/call", json!({ "name": "count", "arguments": arguments, "_meta": meta })),
        ("no/such", json!({})),
    ];
    let mut input = server.stdin.take().unwrap();
    for (id, (method, params)) in requests.iter().enumerate() {
        writeln!(input, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).unwrap();
    }
    drop(input);
    let output = server.stdout.take().unwrap();
    let reader = thread::spawn(move || BufReader::new(output).lines().map(Result::unwrap).collect::<Vec<_>>());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = server.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > DEADLINE {
            server.kill().unwrap();
            panic!("the server process does not exit");
        }
        thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success());
    let mut messages: Vec<Value> =
        reader.join().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    messages.sort_by_key(|message| message["id"].as_u64());
    let ids: Vec<_> = messages.iter().map(|message| message["id"].as_u64()).collect();
    assert_eq!(ids, (0..5).map(Some).collect::<Vec<_>>(), "one response line for each request, and no other line");
    assert_eq!(messages[2]["result"]["structuredContent"], json!({ "times": 4 }));
    assert_eq!(messages[3]["result"]["resultType"], "complete");
    assert_eq!(messages[4]["error"]["code"], -32601);
}

/// On SIGTERM the server ends each subscription, and then the process exits.
#[cfg(unix)]
#[test]
fn sigterm_ends_subscriptions_before_the_process_exits() {
    let mut server = Command::new(env!("CARGO_BIN_EXE_quickstart"))
        .arg("--stdio")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "_meta": meta, "notifications": { "toolsListChanged": true } });
    let mut input = server.stdin.take().unwrap();
    let listen = json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params });
    writeln!(input, "{listen}").unwrap();
    let output = server.stdout.take().unwrap();
    let (sender, received) = std::sync::mpsc::channel();
    thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    let next = || received.recv_timeout(DEADLINE).ok().map(|line| serde_json::from_str::<Value>(&line).unwrap());
    assert_eq!(next().unwrap()["method"], "notifications/subscriptions/acknowledged");
    let killed = Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(next().unwrap()["method"], "notifications/cancelled");
    assert_eq!(next().unwrap()["result"]["resultType"], "complete");
    assert_eq!(next(), None);
    assert!(server.wait().unwrap().success());
    drop(input);
}
