//! The program serves its tools, prompts and resources over stdio and over HTTP.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on ends")]

use std::{
    net::{TcpListener, TcpStream},
    process::{Child, Command},
    time::{Duration, Instant},
};

use mcp_client::{ChildProcess, Client};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(30);

async fn text(client: &Client, tool: &str) -> String {
    client.call_tool(tool, json!({})).await.unwrap().ok().unwrap().text()
}

async fn uses_every_route(client: &Client) {
    assert_eq!(client.list_tools().await.unwrap().len(), 8);
    assert_eq!(client.list_prompts().await.unwrap().len(), 2);
    assert_eq!(client.list_resources().await.unwrap().len(), 2);
    assert_eq!(text(client, "increment").await, "1");
    assert_eq!(text(client, "increment").await, "2");
    assert_eq!(text(client, "decrement").await, "1");
    assert_eq!(text(client, "get_value").await, "1");
    assert_eq!(text(client, "say_hello").await, "hello");
    let sum = client.call_tool("sum", json!({ "a": 2, "b": -5 })).await.unwrap().ok().unwrap();
    assert_eq!(sum.text(), "-3");
    let echo = client.call_tool("echo", json!({ "message": "again" })).await.unwrap().ok().unwrap();
    assert_eq!(echo.text(), "again");
    let prompt = client.get_prompt("counter_analysis", json!({ "goal": "7" })).await.unwrap();
    let expected = "The counter is 1, and its goal is 7. Suggest careful steps to reach the goal.";
    assert_eq!(prompt.messages[0].content.as_text(), Some(expected));
    let memo = client.read_resource("memo://insights").await.unwrap();
    assert!(memo.contents[0].as_text().unwrap().starts_with("Business Intelligence Memo"));
}

#[tokio::test]
async fn serves_every_route_over_stdio() {
    let session = async {
        let client = Client::connect(ChildProcess::new(env!("CARGO_BIN_EXE_counter"))).await.unwrap();
        uses_every_route(&client).await;
        client.close().await;
    };
    tokio::time::timeout(LIMIT, session).await.unwrap();
}

/// Ends the process with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the program on a free port. If another process takes the port first, the program exits and the next attempt starts.
fn start() -> (Running, String) {
    let deadline = Instant::now() + LIMIT;
    loop {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut program = Running(Command::new(env!("CARGO_BIN_EXE_counter")).arg(&address).spawn().unwrap());
        while program.0.try_wait().unwrap().is_none() {
            if TcpStream::connect(&address).is_ok() {
                return (program, address);
            }
            assert!(Instant::now() < deadline, "the program does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(Instant::now() < deadline, "the program exits");
    }
}

#[tokio::test]
async fn serves_every_route_over_http() {
    let (_program, address) = start();
    let session = async {
        let client = Client::connect(format!("http://{address}/mcp")).await.unwrap();
        uses_every_route(&client).await;
        client.close().await;
    };
    tokio::time::timeout(LIMIT, session).await.unwrap();
}
