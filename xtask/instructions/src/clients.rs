//! Clients beside a bare server in the same thread, which answers from prepared parts.

use std::io;

use mcp_client::{Client, OpenTransport, protocol::ProtocolVersion, transport::ndjson::Ndjson};
use serde_json::json;
use tokio::{
    io::{
        AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split,
    },
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

use crate::Failure;

/// The text of each answer.
pub(crate) const TEXT: &str = "lazy dog";
/// The session of the bare server over HTTP.
pub(crate) const SESSION: &str = "6f1c7a52";
/// The longest accepted head, line or body.
const LONGEST: u64 = 16 << 10;

/// Runs `count` calls in lanes at once. One lane runs in this task, and more of them have a task each. A lane begins its next call while
/// the other lanes wait, so each call but the first is one of many.
pub(crate) async fn in_lanes<F>(lanes: u32, count: u32, lane: impl Fn(u32) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    if lanes == 1 {
        return lane(count).await;
    }
    let share = |number: u32| count / lanes + u32::from(number < count % lanes);
    let mut running: JoinSet<_> = (0..lanes).map(|number| lane(share(number))).collect();
    while let Some(ended) = running.join_next().await {
        ended??;
    }
    Ok(())
}

/// Calls the tool `echo`.
pub(crate) async fn calls(client: Client, count: u32) -> Result<(), Failure> {
    for _ in 0..count {
        let text = client.call_tool("echo", json!({ "text": TEXT })).await?.text();
        if text != TEXT {
            return Err(format!("a wrong answer: {text}").into());
        }
    }
    Ok(())
}

/// Starts the bare server over HTTP. Returns its URL.
pub(crate) async fn serve() -> io::Result<(String, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    let accepting = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(exchange(stream));
        }
    });
    Ok((url, accepting))
}

/// Calls over HTTP in lanes. The kernel transfers the bytes, and its instructions do not count.
pub(crate) fn http(count: u32, lanes: u32, version: ProtocolVersion) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (url, accepting) = serve().await?;
        connect(&url, count, lanes, version).await?;
        accepting.abort();
        Ok(())
    })
}

/// Calls of a client over HTTP.
pub(crate) async fn connect(url: &str, count: u32, lanes: u32, version: ProtocolVersion) -> Result<(), Failure> {
    let client = Client::builder("bench", "1.0.0").versions([version]).connect(url).await?;
    in_lanes(lanes, count, |share| calls(client.clone(), share)).await?;
    client.close().await;
    Ok(())
}

/// Calls over lines in lanes.
pub(crate) fn lines(count: u32, lanes: u32, version: ProtocolVersion) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let (ours, theirs) = duplex(64 << 10);
        let serving = tokio::spawn(serve_lines(theirs));
        connect_lines(ours, count, lanes, version).await?;
        serving.await??;
        Ok(())
    })
}

/// Calls of a client over lines.
pub(crate) async fn connect_lines(
    stream: DuplexStream,
    count: u32,
    lanes: u32,
    version: ProtocolVersion,
) -> Result<(), Failure> {
    let (reader, writer) = split(stream);
    let transport = OpenTransport::new(Ndjson::new(reader, writer));
    let client = Client::builder("bench", "1.0.0").versions([version]).connect(transport).await?;
    in_lanes(lanes, count, |share| calls(client.clone(), share)).await?;
    client.close().await;
    Ok(())
}

/// The bare server over lines: answers the requests of a connection until its end.
pub(crate) async fn serve_lines(stream: DuplexStream) -> io::Result<()> {
    let (reader, mut writer) = split(stream);
    let (mut reader, mut line) = (BufReader::new(reader), String::new());
    while next_line(&mut reader, &mut line).await? {
        if let Some(answer) = answer_to(&line) {
            writer.write_all(format!("{answer}\n").as_bytes()).await?;
        }
    }
    Ok(())
}

/// Reads a line of bounded length. Returns false at the end of the input.
pub(crate) async fn next_line(reader: &mut BufReader<impl AsyncRead + Unpin>, line: &mut String) -> io::Result<bool> {
    line.clear();
    Ok(reader.take(LONGEST).read_line(line).await? > 0)
}

/// Answers the requests of a connection until its end.
async fn exchange(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (reader, mut writer) = stream.split();
    let (mut reader, mut line, mut body) = (BufReader::new(reader), String::new(), Vec::new());
    while next_line(&mut reader, &mut line).await? {
        let is_post = line.starts_with("POST");
        let mut length = 0;
        while next_line(&mut reader, &mut line).await? && line != "\r\n" {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        body.clear();
        (&mut reader).take(length.min(LONGEST)).read_to_end(&mut body).await?;
        let answer = std::str::from_utf8(&body).ok().and_then(answer_to);
        let response = match answer {
            Some(answer) => format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: {SESSION}\r\ncontent-length: {}\r\n\r\n\
                 {answer}",
                answer.len()
            ),
            None => {
                let status = if is_post { "202 Accepted" } else { "405 Method Not Allowed" };
                format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")
            }
        };
        writer.write_all(response.as_bytes()).await?;
    }
    Ok(())
}

/// The answer to a request; `None` for a notification.
fn answer_to(message: &str) -> Option<String> {
    let id = message.split_once("\"id\":")?.1.split([',', '}']).next()?;
    let has_method = |method: &str| message.contains(method);
    let result = if has_method("\"initialize\"") {
        r#""protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bare","version":"1.0.0"}"#
            .to_owned()
    } else if has_method("\"server/discover\"") {
        r#""resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private""#
            .to_owned()
    } else {
        format!(r#""resultType":"complete","content":[{{"type":"text","text":"{TEXT}"}}]"#)
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{{result}}}}}"#))
}
