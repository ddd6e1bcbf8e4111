//! Calls of 2026-07-28 without a client library: each request is sent once, to a chosen URL.

use std::time::Duration;

use anyhow::{Context, Error, bail};
use check_kit::wire::{last_message, post};
use mcp_client::http::reqwest::{self, Client, StatusCode};
use serde_json::{Value, json};
use tokio::time::timeout;

const REVISION: &str = "2026-07-28";
const ID: u64 = 1;

/// A call of a tool.
#[derive(Clone)]
pub(crate) struct ToolCall {
    client: Client,
    name: &'static str,
    arguments: Value,
}

/// The answer to one request.
#[derive(Debug)]
#[expect(dead_code, reason = "only the texts of errors show the causes of missing answers")]
pub(crate) enum Answer {
    Result(Value),
    /// A JSON-RPC error.
    Error(Value),
    /// The status 502 or 503. A server or a balancer sends it.
    Unavailable(StatusCode),
    /// The connection ended before the answer.
    Lost(String),
}

/// The answers of a client to questions, and the state of their call.
#[derive(Clone)]
pub(crate) struct Answers {
    pub(crate) responses: Value,
    pub(crate) state: Value,
}

impl ToolCall {
    pub(crate) fn new(client: &Client, name: &'static str, arguments: Value) -> Self {
        Self { client: client.clone(), name, arguments }
    }

    /// Sends the call once. Answers to the questions of an earlier round make it the next round.
    ///
    /// # Errors
    /// If there is no answer within the limit, or another status than that of an answer.
    pub(crate) async fn send(&self, url: &str, answers: Option<&Answers>, limit: Duration) -> Result<Answer, Error> {
        let mut params = json!({
            "name": self.name, "arguments": self.arguments,
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": REVISION,
                "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
            },
        });
        if let Some(Answers { responses, state }) = answers {
            params["inputResponses"] = responses.clone();
            params["requestState"] = state.clone();
        }
        let call = json!({ "jsonrpc": "2.0", "id": ID, "method": "tools/call", "params": params });
        let request = post(&self.client, url, &call);
        let request = request.header("mcp-protocol-version", REVISION).header("mcp-method", "tools/call");
        let exchange = async {
            let response = match request.header("mcp-name", self.name).send().await {
                Ok(response) => response,
                Err(error) => return Ok(Answer::Lost(format!("{error:?}"))),
            };
            match response.status() {
                StatusCode::OK => {}
                status @ (StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE) => {
                    return Ok(Answer::Unavailable(status));
                }
                status => bail!("{status} {}", response.text().await.unwrap_or_default()),
            }
            // A node that is killed ends the connection in the middle of the body.
            Ok(match last_message(response, ID).await {
                Ok(mut message) if message.get("error").is_some() => Answer::Error(message["error"].take()),
                Ok(mut message) => Answer::Result(message["result"].take()),
                Err(error) if error.is::<reqwest::Error>() => Answer::Lost(format!("{error:#}")),
                Err(error) => return Err(error),
            })
        };
        timeout(limit, exchange).await.with_context(|| format!("no answer of {url} within {limit:?}"))?
    }
}
