//! The bare limits: the least that a server does which reads JSON and answers JSON over the same transport.

use std::{
    hint::black_box,
    io::{self, BufRead, BufReader, Write},
    thread,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing,
    serve::ListenerExt,
};
use serde_json::Value;
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};

use crate::{case::ECHO_TEXT, error::Error, peer};

/// An axum handler that parses the body and returns a prepared response. It prints its address and exits at the end
/// of stdin.
pub(crate) fn http(answer: Vec<u8>) -> Result<(), Error> {
    serve(Router::new().route("/mcp", routing::post(respond)).with_state(Bytes::from(answer)))
}

fn serve(router: Router) -> Result<(), Error> {
    Runtime::new()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let (end, ended) = oneshot::channel::<()>();
        thread::spawn(move || {
            peer::wait_for_end();
            drop(end);
        });
        let listener = listener.tap_io(|stream| {
            // Fails only if the connection has closed already.
            let _ = stream.set_nodelay(true);
        });
        tokio::select! {
            served = axum::serve(listener, router) => Ok(served?),
            _ = ended => Ok(()),
        }
    })
}

/// An axum handler that returns a prepared response with a session id to each POST, and 200 to each DELETE.
pub(crate) fn sessions(answer: Vec<u8>) -> Result<(), Error> {
    let open = async |answer: State<Bytes>, body: Bytes| ([("mcp-session-id", SESSION)], respond(answer, body).await);
    let end = async || StatusCode::OK;
    serve(Router::new().route("/mcp", routing::post(open).delete(end)).with_state(Bytes::from(answer)))
}

/// A session id of usual length.
const SESSION: &str = "6f1c7a52-9d0b-4a8e-b1f3-2c5d8e7a9b04";

async fn respond(State(answer): State<Bytes>, body: Bytes) -> Response {
    match serde_json::from_slice::<Value>(&body) {
        Ok(message) => {
            black_box(&message);
            ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    }
}

/// The least that a client takes for a server, in both eras: it opens, takes notices, and answers each call with its id. It
/// prints its address and ends with stdin.
pub(crate) fn mcp() -> Result<(), Error> {
    serve(Router::new().route("/mcp", routing::post(answer_call)))
}

async fn answer_call(body: Bytes) -> Response {
    let message: Value = match serde_json::from_slice(&body) {
        Ok(message) => message,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    match answer_to(&message) {
        Some(answer) => ([(header::CONTENT_TYPE, "application/json")], answer).into_response(),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

/// The answer to a request; `None` for a notification.
fn answer_to(message: &Value) -> Option<String> {
    let info = r#"{"name":"bare","version":"1.0.0"}"#;
    let result = match message["method"].as_str().unwrap_or_default() {
        "tools/call" => {
            format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{ECHO_TEXT}"}}]}}"#)
        }
        "initialize" => {
            let version = &message["params"]["protocolVersion"];
            format!(r#"{{"protocolVersion":{version},"capabilities":{{"tools":{{}}}},"serverInfo":{info}}}"#)
        }
        "server/discover" => format!(
            r#"{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}}}},"ttlMs":0,"cacheScope":"private","_meta":{{"io.modelcontextprotocol/serverInfo":{info}}}}}"#
        ),
        _ => return None,
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]))
}

/// The same server over stdin and stdout: one write for all requests that were there to be read.
pub(crate) fn mcp_stdio() -> Result<(), Error> {
    let mut input = BufReader::with_capacity(64 << 10, io::stdin().lock());
    let mut output = io::stdout().lock();
    let (mut line, mut pending) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        if let Some(answer) = answer_to(&serde_json::from_slice(&line)?) {
            pending.extend_from_slice(answer.as_bytes());
            pending.push(b'\n');
        }
        line.clear();
        if !input.buffer().contains(&b'\n') {
            output.write_all(&pending)?;
            output.flush()?;
            pending.clear();
        }
    }
    Ok(())
}

/// A loop that parses each line of stdin and answers it with one write; or with one write for all that were there to be
/// read, when `gathered`.
pub(crate) fn stdio(mut answer: Vec<u8>, gathered: bool) -> Result<(), Error> {
    answer.push(b'\n');
    let mut input = BufReader::with_capacity(64 << 10, io::stdin().lock());
    let mut output = io::stdout().lock();
    let mut line = Vec::new();
    let mut pending = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        let message: Value = serde_json::from_slice(&line)?;
        black_box(&message);
        line.clear();
        pending.extend_from_slice(&answer);
        if !gathered || !input.buffer().contains(&b'\n') {
            output.write_all(&pending)?;
            output.flush()?;
            pending.clear();
        }
    }
    Ok(())
}
