//! A client that calls the tool `echo`: `tower-mcp-client REVISION http URL` or `tower-mcp-client REVISION stdio PROGRAM ARG...`.
//!
//! It prints `ready`. For each line `AT_ONCE MILLISECONDS` of stdin, it prints its calls and the elapsed nanoseconds.

use std::{
    error::Error,
    io::{self, BufRead},
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::task::JoinSet;
use tower_mcp::client::{HttpClientTransport, McpClient, StdioClientTransport};

const TEXT: &str = "The quick brown fox jumps over the lazy dog.";

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [revision, transport, target, rest @ ..] = &*args else {
        return Err("usage: tower-mcp-client REVISION http|stdio TARGET...".into());
    };
    let client = match transport.as_str() {
        "http" => McpClient::connect(HttpClientTransport::new(target)).await?,
        _ => {
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            McpClient::connect(StdioClientTransport::spawn(target, &rest).await?).await?
        }
    };
    match revision.as_str() {
        "2026-07-28" => drop(client.discover("bench", "1.0.0").await?),
        _ => drop(client.initialize("bench", "1.0.0").await?),
    }
    let client = Arc::new(client);
    println!("ready");
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let (Some(at_once), Some(millis)) = (words.next(), words.next()) else { break };
        let (calls, elapsed) = round(&client, at_once.parse()?, Duration::from_millis(millis.parse()?)).await?;
        println!("{calls} {}", elapsed.as_nanos());
    }
    Ok(())
}

async fn round(client: &Arc<McpClient>, at_once: usize, length: Duration) -> Result<(u64, Duration), Failure> {
    let start = Instant::now();
    let deadline = start + length;
    let mut workers = JoinSet::new();
    for _ in 0..at_once {
        let client = Arc::clone(client);
        workers.spawn(async move {
            let mut calls = 0;
            while Instant::now() < deadline {
                let result = client.call_tool("echo", json!({ "text": TEXT })).await?;
                if result.first_text() != Some(TEXT) {
                    return Err("a wrong answer".into());
                }
                calls += 1;
            }
            Ok::<u64, Failure>(calls)
        });
    }
    let mut calls = 0;
    while let Some(outcome) = workers.join_next().await {
        calls += outcome??;
    }
    Ok((calls, start.elapsed()))
}
