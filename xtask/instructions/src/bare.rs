//! Bare limits beside the paths of servers and clients. Their counts separate the cost of this library from that of its dependencies.

use std::{
    hint::black_box,
    io,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use mcp_client::{
    http::reqwest::{
        self,
        header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
    },
    protocol::ProtocolVersion,
};
use rustls::crypto::ring;
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};

use crate::{Failure, call_lines, clients};

/// Calls over lines to a loop that parses each line, and returns a prepared answer.
pub(crate) fn lines(count: u32) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (ours, theirs) = duplex(64 << 10);
        let serving = tokio::spawn(async move {
            let (reader, mut writer) = split(ours);
            let (mut reader, mut line) = (BufReader::new(reader), String::new());
            while clients::next_line(&mut reader, &mut line).await? {
                black_box(serde_json::from_str::<Value>(&line).map_err(io::Error::other)?);
                writer.write_all(LINE.as_bytes()).await?;
            }
            Ok::<_, io::Error>(())
        });
        call_lines(theirs, count, 1, true).await?;
        serving.await??;
        Ok(())
    })
}

/// The answer of our server.
const LINE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1000000001,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":"#,
    r#"{"name":"bench","version":"1.0.0"}},"content":[{"type":"text","text":"The quick brown fox jumps over the lazy dog."}]}}"#,
    "\n"
);

/// Calls of a loop around `reqwest` in lanes, to the same server as those of the client over HTTP.
pub(crate) fn client(count: u32, lanes: u32, version: ProtocolVersion) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // `reqwest` needs a provider, also without TLS. An error means that the program has one.
    let _ = ring::default_provider().install_default();
    runtime.block_on(async {
        let (url, accepting) = clients::serve().await?;
        post(&url, count, lanes, version).await?;
        accepting.abort();
        Ok(())
    })
}

/// Posts the bytes of the calls of the client.
async fn post(url: &str, count: u32, lanes: u32, version: ProtocolVersion) -> Result<(), Failure> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
    headers.insert("mcp-protocol-version", HeaderValue::from_static(version.as_str()));
    if version.is_stateless() {
        headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
        headers.insert("mcp-name", HeaderValue::from_static("echo"));
    } else {
        headers.insert("mcp-session-id", HeaderValue::from_static(clients::SESSION));
    }
    let client = reqwest::Client::builder().user_agent(USER_AGENT).no_proxy().tcp_nodelay(true).build()?;
    let ids = Arc::new(AtomicU32::new(FIRST_ID));
    let lane = |share| {
        let (client, url, headers, ids) = (client.clone(), url.to_owned(), headers.clone(), Arc::clone(&ids));
        async move {
            for _ in 0..share {
                let body = body(ids.fetch_add(1, Ordering::Relaxed), version);
                let request = client.post(&url).headers(headers.clone()).body(body);
                check(&request.send().await?.bytes().await?)?;
            }
            Ok(())
        }
    };
    clients::in_lanes(lanes, count, lane).await
}

/// Calls of a loop over lines, to the same server as those of the client over lines.
pub(crate) fn client_lines(count: u32, lanes: u32, version: ProtocolVersion) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (ours, theirs) = duplex(64 << 10);
        let serving = tokio::spawn(clients::serve_lines(theirs));
        write_lines(ours, count, lanes, version).await?;
        serving.await??;
        Ok(())
    })
}

/// Writes the lines of the calls of the client. One call for each lane waits at the same time.
async fn write_lines(stream: DuplexStream, count: u32, lanes: u32, version: ProtocolVersion) -> Result<(), Failure> {
    let (reader, mut writer) = split(stream);
    let (mut reader, mut answer) = (BufReader::new(reader), String::new());
    let mut bodies = (FIRST_ID..).take(count as usize).map(|id| body(id, version) + "\n");
    for line in bodies.by_ref().take(lanes as usize) {
        writer.write_all(line.as_bytes()).await?;
    }
    for _ in 0..count {
        if !clients::next_line(&mut reader, &mut answer).await? {
            return Err("the server ended".into());
        }
        check(answer.as_bytes())?;
        if let Some(line) = bodies.next() {
            writer.write_all(line.as_bytes()).await?;
        }
    }
    Ok(())
}

/// Parses an answer, and checks its text.
fn check(answer: &[u8]) -> Result<(), Failure> {
    let answer: Value = serde_json::from_slice(answer)?;
    match answer["result"]["content"][0]["text"] == clients::TEXT {
        true => Ok(()),
        false => Err(format!("a wrong answer: {answer}").into()),
    }
}

const USER_AGENT: &str = "mcp-client-http/0.1.0";
/// The id of the first call of the client. Its only request before is `server/discover` or `initialize`.
const FIRST_ID: u32 = 2;

/// The body of a call of the client.
fn body(id: u32, version: ProtocolVersion) -> String {
    let id = id.to_string();
    let start = r#"{"jsonrpc":"2.0","id":"#;
    let params = r#","method":"tools/call","params":{"name":"echo","arguments":{"text":""#;
    let declared = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"#;
    let declared = if version.is_stateless() { declared } else { "" };
    [start, &id, params, clients::TEXT, r#""},"_meta":{"#, declared, r#""progressToken":"#, &id, "}}}"].concat()
}

#[cfg(test)]
mod tests {
    use std::{
        mem,
        sync::{Arc, Mutex},
        time::Duration,
    };

    use mcp_client::protocol::ProtocolVersion;
    use tokio::{
        io::{AsyncBufReadExt as _, AsyncReadExt as _, copy},
        net::{TcpListener, TcpStream},
        time::timeout,
    };

    use super::*;
    use crate::{STATELESS_CALL, server};

    /// Runs a test, for a bounded time.
    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { timeout(Duration::from_secs(60), test).await.unwrap() });
    }

    /// The bytes of each connection.
    type Record = Arc<Mutex<Vec<Arc<Mutex<String>>>>>;

    /// Returns the recorded bytes, and forgets them.
    fn taken(record: &Record) -> String {
        let connections = mem::take(&mut *record.lock().unwrap());
        connections.iter().map(|bytes| bytes.lock().unwrap().clone()).collect()
    }

    /// Starts a proxy of a server, which records the bytes of its clients. Returns its URL.
    async fn proxy(url: &str, record: Record) -> String {
        let server = url.trim_start_matches("http://").trim_end_matches("/mcp").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (mut answers, mut requests) = TcpStream::connect(&server).await.unwrap().into_split();
                let (mut reader, mut writer) = client.into_split();
                tokio::spawn(async move { copy(&mut answers, &mut writer).await });
                let bytes = Arc::<Mutex<String>>::default();
                record.lock().unwrap().push(Arc::clone(&bytes));
                tokio::spawn(async move {
                    let mut buffer = vec![0; 16 << 10];
                    while let Ok(read @ 1..) = reader.read(&mut buffer).await {
                        bytes.lock().unwrap().push_str(str::from_utf8(&buffer[..read]).unwrap());
                        requests.write_all(&buffer[..read]).await.unwrap();
                    }
                });
            }
        });
        url
    }

    /// The calls in recorded requests, sorted by their bodies: the sorted lines of the head, without the version of the client, and the
    /// body.
    fn calls(requests: &str) -> Vec<(Vec<&str>, &str)> {
        let call = |request| {
            let (head, body) = str::split_once(request, "\r\n\r\n").unwrap();
            // The client ends its session after its last call.
            let body = body.split("DELETE ").next().unwrap();
            let mut lines: Vec<&str> = head
                .split("\r\n")
                .map(|line| line.split_once("mcp-client-http/").map_or(line, |(name, _)| name))
                .collect();
            lines.sort_unstable();
            (lines, body)
        };
        let calls = requests.split("POST ").filter(|request| request.contains(r#""method":"tools/call""#));
        let mut calls: Vec<_> = calls.map(call).collect();
        calls.sort_unstable_by_key(|(_, body)| *body);
        calls
    }

    const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

    #[test]
    fn the_bare_client_posts_the_bytes_of_the_client() {
        let _ = ring::default_provider().install_default();
        run(async {
            let record = Record::default();
            let (url, accepting) = clients::serve().await.unwrap();
            let url = proxy(&url, Arc::clone(&record)).await;
            for (version, lanes) in VERSIONS.into_iter().flat_map(|version| [(version, 1), (version, 8)]) {
                clients::connect(&url, 33, lanes, version).await.unwrap();
                let ours = taken(&record);
                post(&url, 33, lanes, version).await.unwrap();
                let bare = taken(&record);
                assert_eq!((calls(&bare).len(), calls(&bare)), (33, calls(&ours)), "{version} {lanes}");
                assert!(ours.contains("\r\nuser-agent: mcp-client-http/"), "{ours}");
            }
            accepting.abort();
        });
    }

    /// Forwards the lines of a client to the bare server. Returns those of its calls.
    async fn recorded(stream: DuplexStream) -> Vec<String> {
        let (server, theirs) = duplex(64 << 10);
        tokio::spawn(clients::serve_lines(theirs));
        let ((mut answers, mut requests), (reader, mut writer)) = (split(server), split(stream));
        tokio::spawn(async move { copy(&mut answers, &mut writer).await });
        let (mut reader, mut line, mut calls) = (BufReader::new(reader), String::new(), Vec::new());
        while clients::next_line(&mut reader, &mut line).await.unwrap() {
            requests.write_all(line.as_bytes()).await.unwrap();
            calls.extend(line.contains(r#""method":"tools/call""#).then(|| line.clone()));
        }
        calls
    }

    #[test]
    fn the_bare_client_writes_the_lines_of_the_client() {
        run(async {
            for (version, lanes) in VERSIONS.into_iter().flat_map(|version| [(version, 1), (version, 8)]) {
                let (stream, theirs) = duplex(64 << 10);
                let recording = tokio::spawn(recorded(theirs));
                clients::connect_lines(stream, 11, lanes, version).await.unwrap();
                let ours = recording.await.unwrap();
                let (stream, theirs) = duplex(64 << 10);
                let recording = tokio::spawn(recorded(theirs));
                write_lines(stream, 11, lanes, version).await.unwrap();
                assert_eq!((ours.len(), recording.await.unwrap()), (11, ours), "{version} {lanes}");
            }
        });
    }

    #[test]
    fn the_bare_server_returns_the_line_of_our_server() {
        run(async {
            let (ours, theirs) = duplex(64 << 10);
            let (reader, writer) = split(ours);
            tokio::spawn(async move { server().serve_io(reader, writer).await });
            let (reader, mut writer) = split(theirs);
            writer.write_all(format!("{STATELESS_CALL}\n").as_bytes()).await.unwrap();
            let mut line = String::new();
            BufReader::new(reader).read_line(&mut line).await.unwrap();
            assert_eq!(line, LINE);
        });
    }
}
