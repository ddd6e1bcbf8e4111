//! Bare limits beside the paths of servers and clients. Their counts separate the cost of this library from that of its dependencies.

use std::{hint::black_box, io};

use mcp_client::http::reqwest::{
    self,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use rustls::crypto::ring;
use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, BufReader, duplex, split};

use crate::{Failure, STATELESS_CALL, call_lines, clients};

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

/// An answer of our server.
const LINE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1000000001,"result":{"resultType":"complete","content":[{"type":"text","#,
    r#""text":"The quick brown fox jumps over the lazy dog."}]}}"#,
    "\n"
);

/// Calls of a loop around `reqwest` to the same server as those of the client over HTTP.
pub(crate) fn client(count: u32) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // `reqwest` needs a provider, also without TLS. An error means that the program has one.
    let _ = ring::default_provider().install_default();
    runtime.block_on(async {
        let (url, accepting) = clients::serve().await?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
        headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
        headers.insert("mcp-name", HeaderValue::from_static("echo"));
        let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        for _ in 0..count {
            let request = client.post(&url).headers(headers.clone()).body(STATELESS_CALL.as_bytes().to_vec());
            let answer: Value = serde_json::from_slice(&request.send().await?.bytes().await?)?;
            if answer["result"]["content"][0]["text"] != clients::TEXT {
                return Err(format!("a wrong answer: {answer}").into());
            }
        }
        accepting.abort();
        Ok(())
    })
}
