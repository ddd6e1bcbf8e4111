//! A client that calls the tool `echo`: `rmcp-client REVISION http URL` or `rmcp-client REVISION stdio PROGRAM ARG...`.
//!
//! It prints `ready`. For each line `AT_ONCE MILLISECONDS` of stdin, it prints its calls and the elapsed nanoseconds.

use std::{
    error::Error,
    io::{self, BufRead},
    time::{Duration, Instant},
};

use rmcp::{
    ClientLifecycleMode, ClientServiceExt, Peer, RoleClient,
    model::{CallToolRequestParams, ProtocolVersion},
    transport::{
        StreamableHttpClientTransport, TokioChildProcess, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::json;
use tokio::{process::Command, task::JoinSet};

const TEXT: &str = "The quick brown fox jumps over the lazy dog.";

/// The most calls at once of a round.
const MOST: usize = 32;

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [revision, transport, target, rest @ ..] = &*args else {
        return Err("usage: rmcp-client REVISION http|stdio TARGET...".into());
    };
    let lifecycle = match revision.as_str() {
        "2026-07-28" => ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] },
        _ => ClientLifecycleMode::Initialize,
    };
    let client = match transport.as_str() {
        "http" => ().serve_with_lifecycle(http(target)?, lifecycle).await?,
        _ => {
            let mut command = Command::new(target);
            command.args(rest);
            ().serve_with_lifecycle(TokioChildProcess::new(command)?, lifecycle).await?
        }
    };
    println!("ready");
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let (Some(at_once), Some(millis)) = (words.next(), words.next()) else { break };
        let (calls, elapsed) = round(&client, at_once.parse()?, Duration::from_millis(millis.parse()?)).await?;
        println!("{calls} {}", elapsed.as_nanos());
    }
    client.cancel().await?;
    Ok(())
}

/// The default client of this transport opens a connection for each request, and has at most 16 requests at once.
fn http(url: &str) -> Result<StreamableHttpClientTransport<reqwest::Client>, Failure> {
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
    let config = StreamableHttpClientTransportConfig::with_uri(url).max_concurrent_requests(MOST);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

async fn round(client: &Peer<RoleClient>, at_once: usize, length: Duration) -> Result<(u64, Duration), Failure> {
    let start = Instant::now();
    let deadline = start + length;
    let mut workers = JoinSet::new();
    for _ in 0..at_once {
        let client = client.clone();
        workers.spawn(async move {
            let mut calls = 0;
            while Instant::now() < deadline {
                let arguments = json!({ "text": TEXT }).as_object().cloned().unwrap_or_default();
                let result = client.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await?;
                let text = result.content.first().and_then(|content| content.as_text());
                if text.is_none_or(|text| text.text != TEXT) {
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
