//! The bare limits: the least that a server does which reads JSON and answers JSON over the same transport.

mod streams;

use std::{
    hint::black_box,
    io::{self, BufRead, BufReader, Write},
    process::{Command, Stdio},
    sync::Arc,
    thread,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing,
    serve::ListenerExt,
};
use mcp_client::http::reqwest;
use rustls::crypto::ring;
use serde_json::Value;
use tokio::{net::TcpListener, runtime::Runtime, sync::oneshot};

pub(crate) use self::streams::streams;
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

/// The least that a client accepts as a server, in both eras: it opens a session, accepts notifications, and answers each call with
/// its id. It prints its address and ends with stdin. Without the session id, a client of tower-mcp makes one call at a time.
pub(crate) fn mcp() -> Result<(), Error> {
    serve(Router::new().route("/mcp", routing::post(answer_call)))
}

async fn answer_call(body: Bytes) -> Response {
    let message: Value = match serde_json::from_slice(&body) {
        Ok(message) => message,
        Err(error) => return (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
    };
    let Some(answer) = answer_to(&message) else { return StatusCode::ACCEPTED.into_response() };
    let answer = ([(header::CONTENT_TYPE, "application/json")], answer);
    if message["method"] == "initialize" {
        return ([("mcp-session-id", SESSION)], answer).into_response();
    }
    answer.into_response()
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

/// The least that a relay does: it parses each request, sends it by `reqwest`, parses the answer, and returns its bytes. It prints
/// its address and ends with stdin.
pub(crate) fn relay(upstream: &str) -> Result<(), Error> {
    // The program may have installed a provider before, so an error has no meaning.
    let _ = ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
    let upstream = Arc::<str>::from(upstream);
    let relay = move |headers: HeaderMap, body: Bytes| relay_call(client.clone(), Arc::clone(&upstream), headers, body);
    serve(Router::new().route("/mcp", routing::post(relay)))
}

async fn relay_call(client: reqwest::Client, upstream: Arc<str>, mut headers: HeaderMap, body: Bytes) -> Response {
    for name in [header::HOST, header::CONTENT_LENGTH] {
        headers.remove(name);
    }
    let relayed = async {
        black_box(&serde_json::from_slice::<Value>(&body)?);
        let answer = client.post(&*upstream).headers(headers).body(body).send().await?;
        let (status, session) = (answer.status(), answer.headers().get("mcp-session-id").cloned());
        let answer = answer.bytes().await?;
        if !answer.is_empty() {
            black_box(&serde_json::from_slice::<Value>(&answer)?);
        }
        Ok::<_, Error>((status, session, answer))
    };
    match relayed.await {
        Ok((status, session, answer)) => {
            let mut response = (status, [(header::CONTENT_TYPE, "application/json")], answer).into_response();
            response.headers_mut().extend(session.map(|id| (HeaderName::from_static("mcp-session-id"), id)));
            response
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

/// The least that a relay over stdin and stdout does: it parses each line, writes it to a server, parses the answer, and writes it.
pub(crate) fn relay_stdio(cpu: Option<&str>) -> Result<(), Error> {
    let mut server = Command::new(std::env::current_exe()?);
    server.args(["peer", "ours-stdio"]).args(cpu.into_iter().flat_map(|cpu| ["--cpu", cpu]));
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut requests), Some(answers)) = (server.stdin.take(), server.stdout.take()) else {
        return Err(Error::new("the server has no pipes"));
    };
    let mut answers = BufReader::with_capacity(64 << 10, answers);
    let mut input = BufReader::with_capacity(64 << 10, io::stdin().lock());
    let mut output = io::stdout().lock();
    let (mut line, mut answer) = (Vec::new(), Vec::new());
    while input.read_until(b'\n', &mut line)? > 0 {
        let message: Value = serde_json::from_slice(&line)?;
        requests.write_all(&line)?;
        line.clear();
        if message.get("id").is_some() {
            answers.read_until(b'\n', &mut answer)?;
            black_box(&serde_json::from_slice::<Value>(&answer)?);
            output.write_all(&answer)?;
            output.flush()?;
            answer.clear();
        }
    }
    drop(requests);
    server.wait()?;
    Ok(())
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
