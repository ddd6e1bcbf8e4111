//! A session of 2025-11-25 without a client library: each event with its id, and streams that resume.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context, Error, anyhow, bail, ensure};
use bytes::Bytes;
use mcp_client::http::reqwest::{Client, RequestBuilder, Response, StatusCode};
use mcp_transport::sse::Decoder;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{timeout, timeout_at},
};

/// The time in which a request or a resumption must succeed, over all attempts.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(100);
const EVENT_BYTES: usize = 1 << 20;
const REVISION: &str = "2025-11-25";

/// An open session.
#[derive(Debug, Clone)]
pub struct Session {
    client: Client,
    url: String,
    id: String,
}

/// The messages of a stream, and the number of connections that they needed.
#[derive(Debug)]
pub struct Stream {
    /// The numbers of the progress notifications, in their order.
    pub numbers: Vec<u64>,
    /// The response: the member `result` or the member `error`. `None` if the connection ended before the first event.
    pub response: Option<Result<Value, Value>>,
    /// The number of resumptions.
    pub resumed: usize,
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// All events and the result have arrived.
    Completed,
    /// A typed error has arrived.
    Failed,
    /// The connection was lost before the first event.
    Lost,
}

impl Stream {
    /// Returns the end of a call of the tool `count` with this number of events.
    ///
    /// # Errors
    /// If an event is missing, repeated or out of order, or if the stream has no end.
    pub fn end(&self, events: u32) -> Result<End, Error> {
        let expected = 1..=self.numbers.len() as u64;
        ensure!(self.numbers.iter().copied().eq(expected), "events are missing or repeated: {:?}", self.numbers);
        match &self.response {
            Some(Ok(_)) if self.numbers.len() == events as usize => Ok(End::Completed),
            Some(Ok(result)) => bail!("a result after {} of {events} events: {result}", self.numbers.len()),
            Some(Err(error)) if error["code"].is_i64() => Ok(End::Failed),
            Some(Err(error)) => bail!("an error without a code: {error}"),
            None if self.numbers.is_empty() => Ok(End::Lost),
            None => bail!("a stream of {} events has no end", self.numbers.len()),
        }
    }
}

/// The outcome of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A result.
    Result,
    /// A JSON-RPC error with its code.
    Error(i64),
    /// The status 503 with `Retry-After`.
    Unavailable,
    /// The status 404: the session does not exist.
    Gone,
}

impl Session {
    /// The session at a node.
    pub fn at(&self, url: &str) -> Self {
        Self { url: url.to_owned(), ..self.clone() }
    }

    /// Calls the tool `add` once, at a node.
    ///
    /// # Errors
    /// If the response is missing or invalid.
    pub async fn add_at(&self, url: &str, id: u64) -> Result<Outcome, Error> {
        let arguments = json!({ "a": 2, "b": 3 });
        let call = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": "add", "arguments": arguments },
        });
        outcome(self.with_id(post(&self.client, url, &call)), id).await
    }

    /// Requests the end of the session once, at a node.
    ///
    /// # Errors
    /// If the response is missing or invalid.
    pub async fn delete_at(&self, url: &str) -> Result<Outcome, Error> {
        outcome(self.with_id(self.client.delete(url)), 0).await
    }

    /// Opens a session.
    ///
    /// # Errors
    /// If the response is missing or invalid.
    pub async fn open(url: &str) -> Result<Self, Error> {
        let client = Client::builder().no_proxy().tcp_nodelay(true).build()?;
        let opening = initialize();
        let response = accepted(|| post(&client, url, &opening)).await.context("initialize")?;
        let id = response.headers().get("mcp-session-id").ok_or_else(|| anyhow!("the server opened no session"))?;
        let session = Self { id: id.to_str()?.to_owned(), url: url.to_owned(), client };
        timeout(LIMIT, response.bytes()).await.context("the body of initialize")??;
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        accepted(|| session.with_id(post(&session.client, url, &initialized))).await.context("initialized")?;
        Ok(session)
    }

    /// Requests log records of the highest level only.
    ///
    /// # Errors
    /// If no server accepts the request in time.
    pub async fn silence_logs(&self) -> Result<(), Error> {
        let message =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": { "level": "emergency" } });
        accepted(|| self.with_id(post(&self.client, &self.url, &message))).await.context("logging/setLevel")?;
        Ok(())
    }

    fn with_id(&self, request: RequestBuilder) -> RequestBuilder {
        request.header("mcp-session-id", &self.id).header("mcp-protocol-version", REVISION)
    }

    /// Calls the tool `count`, and resumes its stream until the response has arrived.
    ///
    /// # Errors
    /// If the response is missing or invalid.
    pub async fn count(&self, id: u64, to: u32, pause: Duration) -> Result<Stream, Error> {
        let call = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {
                "name": "count", "arguments": { "to": to, "pause_ms": pause.as_millis() as u64 },
                "_meta": { "progressToken": id },
            },
        });
        let mut stream = Stream { numbers: Vec::new(), response: None, resumed: 0 };
        // A call whose connection is lost is not sent again, because it may run.
        let sent = self.with_id(post(&self.client, &self.url, &call)).send();
        let Ok(first) = timeout(LIMIT, sent).await.context("no response in time")? else { return Ok(stream) };
        match first.status() {
            StatusCode::OK => {}
            StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE => return Ok(stream),
            status => bail!("tools/call: {status} {}", first.text().await.unwrap_or_default()),
        }
        let mut decoder = Decoder::new(EVENT_BYTES);
        self.read(first, &mut decoder, id, &mut stream).await?;
        while stream.response.is_none() {
            let Some(last) = decoder.last_event_id().map(str::to_owned) else { return Ok(stream) };
            let resumed = accepted(|| {
                let get = self.client.get(&self.url).header("accept", "text/event-stream");
                self.with_id(get).header("last-event-id", &last)
            });
            let response = resumed.await.with_context(|| format!("the stream after {last}"))?;
            stream.resumed += 1;
            decoder = Decoder::new(EVENT_BYTES).with_last_event_id(last.as_str());
            self.read(response, &mut decoder, id, &mut stream).await?;
            if decoder.last_event_id() == Some(last.as_str()) {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(stream)
    }

    /// Reads a stream until the response to `id` or the end of the connection.
    async fn read(&self, response: Response, decoder: &mut Decoder, id: u64, stream: &mut Stream) -> Result<(), Error> {
        let mut response = response;
        // The end of a connection can be an error, because a node was killed.
        while let Ok(Some(chunk)) = timeout(LIMIT, response.chunk()).await.context("no event in time")? {
            decoder.feed(chunk);
            while let Some(event) = decoder.next_event() {
                let event = event?;
                if !event.is_message() || event.data.is_empty() {
                    continue;
                }
                let message = parsed(&event.data)?;
                if message["method"] == "notifications/progress" {
                    let number =
                        message["params"]["progress"].as_f64().ok_or_else(|| anyhow!("no number: {message}"))?;
                    stream.numbers.push(number as u64);
                } else if message["id"] == id {
                    let failed = message.get("error").cloned();
                    stream.response = Some(failed.map_or_else(|| Ok(message["result"].clone()), Err));
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Calls the tool `order` at this node, and sends the answer to its question to the node at `answered_at`. Returns the time
    /// of the call.
    ///
    /// # Errors
    /// If the response is missing or invalid, or if the server rejects the answer.
    pub async fn order(&self, id: u64, item: &str, answered_at: &str) -> Result<Duration, Error> {
        let call = json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": { "name": "order", "arguments": { "item": item } },
        });
        let start = Instant::now();
        let mut response = self.with_id(post(&self.client, &self.url, &call)).timeout(LIMIT).send().await?;
        ensure!(response.status() == StatusCode::OK, "tools/call: {}", response.status());
        let (mut decoder, mut answers) = (Decoder::new(EVENT_BYTES), JoinSet::new());
        while let Some(chunk) = response.chunk().await? {
            decoder.feed(chunk);
            while let Some(event) = decoder.next_event() {
                let event = event?;
                if !event.is_message() || event.data.is_empty() {
                    continue;
                }
                let message = parsed(&event.data)?;
                if message["method"] == "elicitation/create" {
                    let result = json!({ "action": "accept", "content": { "confirm": true } });
                    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                    // The response can arrive before the status of the answer.
                    answers.spawn(self.with_id(post(&self.client, answered_at, &answer)).timeout(LIMIT).send());
                } else if message["id"] == id {
                    let is_ordered = message["result"]["content"].is_array() && message["result"]["isError"] != true;
                    let time = start.elapsed();
                    ensure!(is_ordered, "the call returned {message}");
                    let answers = answers.join_all().await;
                    let [answer] = &answers[..] else { bail!("the call asked {} questions", answers.len()) };
                    let status = answer.as_ref().map(Response::status);
                    ensure!(matches!(status, Ok(StatusCode::ACCEPTED)), "the answer: {status:?}");
                    return Ok(time);
                }
            }
        }
        bail!("the stream of the call ended without a response")
    }

    /// Ends the session.
    ///
    /// # Errors
    /// If the response is missing or invalid.
    pub async fn delete(&self) -> Result<(), Error> {
        // The node of a lost response can have ended the session already.
        match accepted(|| self.with_id(self.client.delete(&self.url))).await {
            Err(error) if !error.to_string().starts_with("404") => Err(error.context("DELETE")),
            _ => Ok(()),
        }
    }
}

/// Requests a session once, at a node.
///
/// # Errors
/// If the response is missing or invalid.
pub async fn open_at(url: &str) -> Result<Outcome, Error> {
    let client = Client::builder().no_proxy().tcp_nodelay(true).build()?;
    outcome(post(&client, url, &initialize()), 0).await
}

/// Whether a node reports that its store works.
///
/// # Errors
/// If the response is missing or invalid.
pub async fn has_store(address: SocketAddr) -> Result<bool, Error> {
    let client = Client::builder().no_proxy().timeout(LIMIT).build()?;
    let response = client.get(format!("http://{address}/health")).send().await?.error_for_status()?;
    Ok(parsed(&response.bytes().await?)?["store"] == "ok")
}

/// Sends a request once, and returns its outcome within the time limit.
async fn outcome(request: RequestBuilder, id: u64) -> Result<Outcome, Error> {
    let response = request.timeout(LIMIT).send().await?;
    match response.status() {
        StatusCode::SERVICE_UNAVAILABLE if response.headers().contains_key("retry-after") => Ok(Outcome::Unavailable),
        StatusCode::NOT_FOUND => Ok(Outcome::Gone),
        StatusCode::OK | StatusCode::NO_CONTENT => {
            let message = last_message(response, id).await?;
            Ok(message["error"]["code"].as_i64().map_or(Outcome::Result, Outcome::Error))
        }
        status => bail!("{status} {}", response.text().await.unwrap_or_default()),
    }
}

/// Returns the response of a request with this id, or `null` if the body is empty.
///
/// # Errors
/// If the response is missing or invalid.
pub async fn last_message(response: Response, id: u64) -> Result<Value, Error> {
    let is_stream = response.headers().get("content-type").is_some_and(|kind| kind == "text/event-stream");
    let body = response.bytes().await?;
    if !is_stream {
        return if body.is_empty() { Ok(Value::Null) } else { parsed(&body) };
    }
    let (mut message, mut decoder) = (Value::Null, Decoder::new(EVENT_BYTES));
    decoder.feed(body);
    while let Some(event) = decoder.next_event() {
        let event = event?;
        if event.is_message() && !event.data.is_empty() {
            message = parsed(&event.data)?;
        }
    }
    ensure!(message["id"] == id, "a stream ended without the response: {message}");
    Ok(message)
}

fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0", "id": 0, "method": "initialize",
        "params": {
            "protocolVersion": REVISION, "capabilities": { "elicitation": {} },
            "clientInfo": { "name": "fleet-check", "version": "0" },
        },
    })
}

fn parsed(data: &Bytes) -> Result<Value, Error> {
    serde_json::from_slice(data).with_context(|| format!("an invalid message: {}", String::from_utf8_lossy(data)))
}

/// A request with a message.
pub fn post(client: &Client, url: &str, message: &Value) -> RequestBuilder {
    client
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .body(message.to_string())
}

/// Sends a request that may be repeated, until a node accepts it.
async fn accepted(request: impl Fn() -> RequestBuilder) -> Result<Response, Error> {
    let deadline = Instant::now() + LIMIT;
    loop {
        let error = match timeout_at(deadline.into(), request().send()).await {
            Ok(Ok(response)) if response.status().is_success() => return Ok(response),
            Ok(Ok(response)) if response.status().is_client_error() => {
                let status = response.status();
                bail!("{status} {}", response.text().await.unwrap_or_default());
            }
            Ok(Ok(response)) => anyhow!("{}", response.status()),
            Ok(Err(error)) => error.into(),
            Err(_) => anyhow!("no response"),
        };
        if Instant::now() >= deadline {
            return Err(error.context("no node accepted the request in time"));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_repeated_and_swapped_events_are_faults() {
        const EVENTS: u32 = 12;
        let result = || Some(Ok(Value::Null));
        let error = || Some(Err(json!({ "code": -32603 })));
        type Case = (Vec<u64>, Option<Result<Value, Value>>, Option<End>);
        let cases: [Case; 8] = [
            ((1..=u64::from(EVENTS)).collect(), result(), Some(End::Completed)),
            (vec![1, 2], error(), Some(End::Failed)),
            (vec![], None, Some(End::Lost)),
            (vec![1, 2], result(), None),
            (vec![1, 3], error(), None),
            (vec![1, 1], error(), None),
            (vec![2, 1], error(), None),
            (vec![1], None, None),
        ];
        for (numbers, response, expected) in cases {
            let stream = Stream { numbers, response, resumed: 0 };
            assert_eq!(stream.end(EVENTS).ok(), expected, "{:?}", stream.numbers);
        }
    }
}
