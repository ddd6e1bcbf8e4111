//! A minimal HTTP/1.1 client for servers on this machine: it follows redirects, as a browser does.

use std::{
    io::{BufRead, BufReader, Read, Write},
    time::Duration,
};

use anyhow::{Context, Error, bail};
use serde_json::Value;

use crate::process;

const TIMEOUT: Duration = Duration::from_secs(10);
/// The time in which a server must begin to listen: the suite prints a URL shortly before its callback listens.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The largest body of a response, in bytes.
const MAX_BODY: u64 = 1 << 20;
const MAX_REDIRECTS: usize = 5;

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) location: Option<String>,
    pub(super) body: String,
}

/// Sends a GET and returns the response.
pub(super) fn get(url: &str) -> Result<Reply, Error> {
    send(url, "GET", None)
}

/// Sends a JSON document and returns the response.
pub(super) fn post_json(url: &str, document: &Value) -> Result<Reply, Error> {
    send(url, "POST", Some(&document.to_string()))
}

/// Opens a page and follows its redirects. The last page must be a success.
pub(super) fn visit(url: &str) -> Result<(), Error> {
    let mut url = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let reply = get(&url)?;
        match (reply.status, reply.location) {
            (200..=299, _) => return Ok(()),
            (300..=399, Some(location)) => url = location,
            (status, _) => bail!("status {status}: {}", reply.body),
        }
    }
    bail!("more than {MAX_REDIRECTS} redirects")
}

fn send(url: &str, method: &str, body: Option<&str>) -> Result<Reply, Error> {
    // The query has secrets of the login.
    let shown = || url.split('?').next().unwrap_or_default().to_owned();
    let rest = url.strip_prefix("http://").with_context(|| format!("`{}` is not an http URL", shown()))?;
    let (host, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut stream = process::ready(host, LISTEN_TIMEOUT, || Ok(())).with_context(shown)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let kind = if body.is_some() { "Content-Type: application/json\r\n" } else { "" };
    let body = body.unwrap_or_default();
    let length = body.len();
    write!(
        stream,
        "{method} {slash}{path} HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\n{kind}Content-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )?;
    read(BufReader::new(stream)).with_context(shown)
}

fn read(mut stream: impl BufRead) -> Result<Reply, Error> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).context("not an HTTP response")?;
    let (mut location, mut length, mut is_chunked) = (None, None, false);
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            bail!("the response ends in its head");
        }
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "location" => location = Some(value.to_owned()),
            "content-length" => length = Some(value.parse::<u64>()?),
            "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
            _ => {}
        }
    }
    let mut body = Vec::new();
    if is_chunked {
        loop {
            line.clear();
            stream.read_line(&mut line)?;
            let size = u64::from_str_radix(line.trim(), 16).context("the size of a chunk")?;
            if size == 0 || body.len() as u64 + size > MAX_BODY {
                break;
            }
            stream.by_ref().take(size).read_to_end(&mut body)?;
            stream.read_line(&mut line)?;
        }
    } else {
        stream.take(length.unwrap_or(MAX_BODY).min(MAX_BODY)).read_to_end(&mut body)?;
    }
    Ok(Reply { status, location, body: String::from_utf8_lossy(&body).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_of_each_framing_are_read() {
        for (text, status, location, body) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokrest", 200, None, "ok"),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n1\r\n!\r\n0\r\n\r\n", 200, None, "ok!"),
            ("HTTP/1.1 302 Found\r\nLocation: http://a/b?c\r\n\r\n", 302, Some("http://a/b?c"), ""),
        ] {
            let reply = read(text.as_bytes()).unwrap();
            assert_eq!(reply, Reply { status, location: location.map(str::to_owned), body: body.to_owned() });
        }
        for text in ["", "nonsense", "HTTP/1.1 200 OK\r\na: b"] {
            assert!(read(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn only_http_urls_are_opened() {
        assert!(get("https://127.0.0.1/").is_err() && get("file:///etc/hosts").is_err());
    }
}
