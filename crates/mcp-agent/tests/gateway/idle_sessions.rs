//! The memory of an idle session of a gateway, in a process of its own.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use mcp_protocol::ProtocolVersion;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use crate::{
    children::child,
    common::{SOON, client},
};

/// The sessions before the first measurement, so that memory for the first use does not count.
const WARM_UP: usize = 300;
const SESSIONS: usize = 1_000;
/// The largest memory of an idle session, in KiB.
const LARGEST: usize = 8;

/// Sends a message to an address, and returns the whole response.
async fn post(address: &str, session: Option<&str>, message: Value) -> String {
    let (body, session) = (message.to_string(), session.map(|id| format!("Mcp-Session-Id: {id}\r\n")));
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n{}\r\n{body}",
        body.len(),
        session.unwrap_or_default()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    timeout(SOON, stream.read_to_string(&mut response)).await.unwrap().unwrap();
    assert!(response.starts_with("HTTP/1.1 20"), "{response}");
    response
}

/// Opens sessions that call a tool once.
async fn open(address: &str, count: usize) {
    for _ in 0..count {
        let params = json!({
            "protocolVersion": ProtocolVersion::V2025_11_25, "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "client", "version": "1" },
        });
        let opened =
            post(address, None, json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        let opened = opened.await;
        let session = |line: &str| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("mcp-session-id").then(|| value.trim().to_owned())
        };
        let session = opened.lines().find_map(session).unwrap();
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        post(address, Some(&session), ready).await;
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "s__t" } });
        let called = post(address, Some(&session), call).await;
        assert!(called.contains(r#""text":"t""#), "{called}");
    }
}

/// Returns the resident memory of a process without the pages of files, in KiB.
fn resident(pid: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[tokio::test]
async fn an_idle_session_needs_at_most_8_kib() {
    let process = timeout(SOON, client().connect(child(ProtocolVersion::LATEST))).await.unwrap().unwrap();
    let text = async |name: &str| timeout(SOON, process.call_tool(name, ())).await.unwrap().unwrap().text();
    let (pid, url) = (text("pid").await, text("gateway").await);
    let address = url.strip_prefix("http://").and_then(|url| url.strip_suffix("/mcp")).unwrap();
    open(address, WARM_UP).await;
    let before = resident(&pid);
    open(address, SESSIONS).await;
    let growth = resident(&pid).saturating_sub(before);
    assert!(growth > 0, "the sessions have no memory");
    assert!(growth <= LARGEST * SESSIONS, "{growth} KiB for {SESSIONS} sessions");
    timeout(SOON, process.close()).await.unwrap();
}
