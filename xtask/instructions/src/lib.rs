//! The hot paths of servers and clients. `cargo xtask bench instructions` counts their instructions, and `cargo xtask bench micro`
//! measures their times.

mod bare;
mod clients;
mod endpoint;
#[cfg(test)]
mod names;
mod streams;

use std::{error::Error, fmt, future::poll_fn, hint::black_box};

use bytes::Bytes;
use mcp_client::Client;
use mcp_server::{
    ServerBuilder,
    prelude::*,
    protocol::{
        ProtocolVersion::{self, V2025_11_25, V2026_07_28},
        jsonrpc::Message,
    },
    schema::Schema,
    transport::{Frame, Transport as _, memory, sse::Decoder},
};
use mcp_uri_template::{UriTemplate, Vars};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

/// The error of a case.
pub type Failure = Box<dyn Error + Send + Sync>;

/// A hot path.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The name on the command line.
    pub name: &'static str,
    function: fn(u32) -> Result<(), Failure>,
}

impl Case {
    /// All cases. An iteration has one call, or one notification of all streams. An iteration of `stdio-16` has 16 calls.
    pub const ALL: [Self; 39] = [
        Self::new("parse-message", parse),
        Self::new("dispatch-2025-11-25", |count| dispatch(count, false)),
        Self::new("dispatch-2026-07-28", |count| dispatch(count, true)),
        Self::new("http-2025-11-25", |count| endpoint::calls(count, false)),
        Self::new("http-2026-07-28", |count| endpoint::calls(count, true)),
        Self::new("http-session", endpoint::sessions),
        Self::new("http-list-1000", endpoint::lists),
        Self::new("http-text-1mib", endpoint::texts),
        Self::new("http-api-key", endpoint::keys),
        Self::new("http-remembered-token", endpoint::tokens),
        Self::new("notify-64-2025-11-25", |count| streams::notify(count, false)),
        Self::new("notify-64-2026-07-28", |count| streams::notify(count, true)),
        Self::new("stdio-2025-11-25", |count| lines(count, 1, false)),
        Self::new("stdio-2026-07-28", |count| lines(count, 1, true)),
        Self::new("stdio-16-2026-07-28", |count| lines(count, 16, true)),
        Self::new("bare-stdio-2026-07-28", bare::lines),
        Self::new("client-2025-11-25", |count| call(count, V2025_11_25)),
        Self::new("client-2026-07-28", |count| call(count, V2026_07_28)),
        Self::new("client-http-2025-11-25", |count| clients::http(count, 1, V2025_11_25)),
        Self::new("client-http-2026-07-28", |count| clients::http(count, 1, V2026_07_28)),
        Self::new("client-http-8-2025-11-25", |count| clients::http(count, 8, V2025_11_25)),
        Self::new("client-http-8-2026-07-28", |count| clients::http(count, 8, V2026_07_28)),
        Self::new("bare-client-http-2025-11-25", |count| bare::client(count, 1, V2025_11_25)),
        Self::new("bare-client-http-2026-07-28", |count| bare::client(count, 1, V2026_07_28)),
        Self::new("bare-client-http-8-2025-11-25", |count| bare::client(count, 8, V2025_11_25)),
        Self::new("bare-client-http-8-2026-07-28", |count| bare::client(count, 8, V2026_07_28)),
        Self::new("client-lines-2025-11-25", |count| clients::lines(count, 1, V2025_11_25)),
        Self::new("client-lines-2026-07-28", |count| clients::lines(count, 1, V2026_07_28)),
        Self::new("client-lines-8-2025-11-25", |count| clients::lines(count, 8, V2025_11_25)),
        Self::new("client-lines-8-2026-07-28", |count| clients::lines(count, 8, V2026_07_28)),
        Self::new("bare-client-lines-2025-11-25", |count| bare::client_lines(count, 1, V2025_11_25)),
        Self::new("bare-client-lines-2026-07-28", |count| bare::client_lines(count, 1, V2026_07_28)),
        Self::new("bare-client-lines-8-2025-11-25", |count| bare::client_lines(count, 8, V2025_11_25)),
        Self::new("bare-client-lines-8-2026-07-28", |count| bare::client_lines(count, 8, V2026_07_28)),
        Self::new("validate-arguments", validate),
        Self::new("decode-sse", decode),
        Self::new("parse-uri-template", parse_template),
        Self::new("match-uri-template", match_template),
        Self::new("expand-uri-template", expand_template),
    ];

    const fn new(name: &'static str, function: fn(u32) -> Result<(), Failure>) -> Self {
        Self { name, function }
    }

    /// Runs the path `count` times in this thread.
    ///
    /// # Errors
    /// If the path returns an error or a wrong value.
    pub fn run(self, count: u32) -> Result<(), Failure> {
        (self.function)(count)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1000000001,"method":"tools/call","params":{"name":"echo","arguments":{"text":"The quick brown fox jumps over the lazy dog."}}}"#;
const STATELESS_CALL: &str = r#"{"jsonrpc":"2.0","id":1000000001,"method":"tools/call","params":{"name":"echo","arguments":{"text":"The quick brown fox jumps over the lazy dog."},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}"#;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The id of a call, as in its text.
const ID: &str = "1000000001";
const FIRST_ID: usize = 1_000_000_001;

/// The envelope of a request.
fn parse(count: u32) -> Result<(), Failure> {
    for _ in 0..count {
        black_box(Message::parse(black_box(STATELESS_CALL.as_bytes())).map_err(|error| format!("{error:?}"))?);
    }
    Ok(())
}

/// Say the text again.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The text to return.
    text: String,
}

async fn echo(Args(Echo { text }): Args<Echo>) -> String {
    text
}

/// A call of a tool from its bytes to the bytes of its answer.
fn dispatch(count: u32, is_stateless: bool) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = server();
        let (ours, mut client) = memory::duplex(16);
        let serving = tokio::spawn(async move { server.serve(ours).await });
        let sender = client.sender();
        if !is_stateless {
            sender.send(Frame::new(INITIALIZE)).await?;
            check_opened(&poll_fn(|cx| client.poll_recv(cx)).await.ok_or("the server ended")??.message)?;
            sender.send(Frame::new(INITIALIZED)).await?;
        }
        let call = Bytes::from_static(if is_stateless { STATELESS_CALL } else { CALL }.as_bytes());
        for _ in 0..count {
            sender.send(Frame::new(call.clone())).await?;
            let answer = poll_fn(|cx| client.poll_recv(cx)).await.ok_or("the server ended")??;
            check(&answer.message)?;
        }
        drop((client, sender));
        serving.await??;
        Ok(())
    })
}

/// Calls of a tool from lines to the lines of their answers. The calls of one iteration are in one read.
fn lines(count: u32, at_once: usize, is_stateless: bool) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (ours, theirs) = tokio::io::duplex(64 << 10);
        let (reader, writer) = tokio::io::split(ours);
        let server = server();
        let serving = tokio::spawn(async move { server.serve_io(reader, writer).await });
        call_lines(theirs, count, at_once, is_stateless).await?;
        serving.await??;
        Ok(())
    })
}

/// Writes the lines of calls, and reads their answers.
async fn call_lines(stream: DuplexStream, count: u32, at_once: usize, is_stateless: bool) -> Result<(), Failure> {
    let (reader, mut writer) = tokio::io::split(stream);
    let (mut reader, mut answer) = (BufReader::new(reader), String::new());
    if !is_stateless {
        writer.write_all(format!("{INITIALIZE}\n{INITIALIZED}\n").as_bytes()).await?;
        reader.read_line(&mut answer).await?;
        check_opened(answer.as_bytes())?;
    }
    let text = if is_stateless { STATELESS_CALL } else { CALL };
    let call = |id: usize| format!("{}\n", text.replacen(ID, &(FIRST_ID + id).to_string(), 1));
    let calls = (0..at_once).map(call).collect::<String>();
    for _ in 0..count {
        writer.write_all(calls.as_bytes()).await?;
        for _ in 0..at_once {
            answer.clear();
            reader.read_line(&mut answer).await?;
            check(answer.as_bytes())?;
        }
    }
    Ok(())
}

/// A server with the tool of the calls.
fn server() -> Server {
    builder().build()
}

fn builder() -> ServerBuilder {
    Server::builder("bench", "1.0.0").tool(tool("echo", echo))
}

/// Checks that an answer opens a session.
fn check_opened(answer: &[u8]) -> Result<(), Failure> {
    let message: Value = serde_json::from_slice(answer)?;
    match message["id"] == 0 && message["result"]["protocolVersion"] == "2025-11-25" {
        true => Ok(()),
        false => Err(format!("no session: {message}").into()),
    }
}

/// Checks that an answer has the text of a call.
fn check(answer: &[u8]) -> Result<(), Failure> {
    match answer.windows(9).any(|window| window == b"lazy dog.") {
        true => Ok(()),
        false => Err(format!("a wrong answer: {}", String::from_utf8_lossy(answer)).into()),
    }
}

/// The arguments of a call against a schema with a string, a number, an enumeration and a list.
fn validate(count: u32) -> Result<(), Failure> {
    let schema = Schema::compile(&json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "minLength": 1 },
            "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
            "order": { "enum": ["asc", "desc"] },
            "tags": { "type": "array", "items": { "type": "string" }, "maxItems": 10 },
        },
        "required": ["text"],
    }))?;
    let arguments = json!({ "text": "fox", "limit": 20, "order": "asc", "tags": ["a", "b", "c"] });
    for _ in 0..count {
        black_box(&schema).validate(black_box(&arguments))?;
    }
    Ok(())
}

/// A stream with an answer of usual length.
fn decode(count: u32) -> Result<(), Failure> {
    let event = Bytes::from(format!("id: 7\nevent: message\ndata: {CALL}\n\n"));
    let mut decoder = Decoder::new(1 << 20);
    for _ in 0..count {
        decoder.feed(event.clone());
        let decoded = decoder.next_event().ok_or("no event")??;
        if decoded.data.len() != CALL.len() {
            return Err("a wrong event".into());
        }
    }
    Ok(())
}

/// A call of a client to a server over a transport in memory, with the work of both.
fn call(count: u32, version: ProtocolVersion) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = server();
        let client = Client::builder("bench", "1.0.0").versions([version]).connect(&server).await?;
        clients::calls(client.clone(), count).await?;
        client.close().await;
        Ok(())
    })
}

const TEMPLATE: &str = "notes://{folder}/{name}{?limit,order}";

fn parse_template(count: u32) -> Result<(), Failure> {
    for _ in 0..count {
        black_box(UriTemplate::parse(black_box(TEMPLATE))?);
    }
    Ok(())
}

fn match_template(count: u32) -> Result<(), Failure> {
    let template = UriTemplate::parse(TEMPLATE)?;
    for _ in 0..count {
        let vars = black_box(&template).matches(black_box("notes://home/today?limit=20&order=asc"));
        if black_box(vars).is_none() {
            return Err("the template does not match".into());
        }
    }
    Ok(())
}

fn expand_template(count: u32) -> Result<(), Failure> {
    let template = UriTemplate::parse_for_expansion(TEMPLATE)?;
    let vars = Vars::new().with("folder", "work").with("name", "today").with("limit", "20").with("order", "asc");
    for _ in 0..count {
        black_box(black_box(&template).expand(black_box(&vars)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_without_a_session_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (opened, is_opened) in [
            (r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#, true),
            (r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2024-11-05"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}"#, false),
            ("", false),
        ] {
            let outcome = runtime.block_on(async {
                let (mut ours, theirs) = tokio::io::duplex(64 << 10);
                ours.write_all(format!("{opened}\nlazy dog.\n").as_bytes()).await?;
                call_lines(theirs, 1, 1, false).await
            });
            assert_eq!(outcome.is_ok(), is_opened, "{opened}");
        }
    }

    #[test]
    fn each_case_has_its_name_in_the_command_line() {
        assert_eq!(Case::ALL.map(|case| case.name), names::NAMES);
    }

    #[test]
    fn each_case_runs() {
        for case in Case::ALL {
            case.run(3).unwrap_or_else(|error| panic!("{}: {error}", case.name));
        }
    }
}
