//! The program behind `cargo xtask bench instructions`: it runs one hot path a number of times in one thread.
//!
//! The command counts the instructions of two runs. The difference belongs to the iterations, without the start of the program.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool speaks through its streams")]

use std::{error::Error, future::poll_fn, hint::black_box, process::ExitCode};

use bytes::Bytes;
use mcp_server::{
    prelude::*,
    protocol::jsonrpc::Message,
    schema::Schema,
    transport::{Frame, Transport as _, memory, sse::Decoder},
};
use mcp_uri_template::{UriTemplate, Vars};
use serde_json::json;

type Failure = Box<dyn Error>;

/// The name of a case, and its function, which takes the number of iterations.
type Case = (&'static str, fn(u32) -> Result<(), Failure>);

const CASES: &[Case] = &[
    ("parse-message", parse),
    ("dispatch-2025-11-25", |count| dispatch(count, false)),
    ("dispatch-2026-07-28", |count| dispatch(count, true)),
    ("validate-arguments", validate),
    ("decode-sse", decode),
    ("match-uri-template", match_template),
    ("expand-uri-template", expand_template),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match &*args {
        [flag] if flag == "--list" => {
            for (name, _) in CASES {
                println!("{name}");
            }
            Ok(())
        }
        [name, count] => run(name, count),
        _ => Err("usage: instructions --list | instructions CASE COUNT".into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, count: &str) -> Result<(), Failure> {
    let case = CASES.iter().find(|(case, _)| *case == name);
    let (_, function) = case.ok_or_else(|| format!("`{name}` is not a case"))?;
    function(count.parse()?)
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1000000001,"method":"tools/call","params":{"name":"echo","arguments":{"text":"The quick brown fox jumps over the lazy dog."}}}"#;
const STATELESS_CALL: &str = r#"{"jsonrpc":"2.0","id":1000000001,"method":"tools/call","params":{"name":"echo","arguments":{"text":"The quick brown fox jumps over the lazy dog."},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}"#;

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
        let server = Server::builder("bench", "1.0.0").tool(tool("echo", echo)).build();
        let (ours, mut client) = memory::duplex(16);
        let serving = tokio::spawn(async move { server.serve(ours).await });
        let sender = client.sender();
        if !is_stateless {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "bench", "version": "1.0.0" },
            });
            let open = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
            sender.send(Frame::new(open.to_string())).await?;
            poll_fn(|cx| client.poll_recv(cx)).await.ok_or("the server ended")??;
            sender.send(Frame::new(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await?;
        }
        let call = Bytes::from_static(if is_stateless { STATELESS_CALL } else { CALL }.as_bytes());
        for _ in 0..count {
            sender.send(Frame::new(call.clone())).await?;
            let answer = poll_fn(|cx| client.poll_recv(cx)).await.ok_or("the server ended")??;
            if !answer.message.windows(9).any(|window| window == b"lazy dog.") {
                return Err(format!("a wrong answer: {}", String::from_utf8_lossy(&answer.message)).into());
            }
        }
        drop((client, sender));
        serving.await??;
        Ok(())
    })
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

const TEMPLATE: &str = "notes://{folder}/{name}{?limit,order}";

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
    fn each_case_runs() {
        for (name, function) in CASES {
            function(3).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(run("none", "1").is_err() && run("decode-sse", "x").is_err());
    }
}
