//! Runs the program against a server.

use std::time::Duration;

use mcp_server::prelude::*;
use serde_json::json;
use tokio::{net::TcpListener, process::Command, time::timeout};

#[tokio::test]
async fn the_program_lists_the_tools_and_calls_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let count = tool("count", async |RawArgs(args): RawArgs| args["what"].to_string())
        .description("Counts.")
        .input_schema(json!({ "type": "object" }));
    let server = Server::builder("test", "1").tool(count).build();
    let serving = tokio::spawn(async move { server.serve_http_on(listener, HttpConfig::new().ignore_signals()).await });
    let run = Command::new(env!("CARGO_BIN_EXE_client")).arg(&url).kill_on_drop(true).output();
    let output = timeout(Duration::from_secs(30), run).await.unwrap().unwrap();
    serving.abort();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(stdout, "count: Counts.\n\"r\"\n");
}
