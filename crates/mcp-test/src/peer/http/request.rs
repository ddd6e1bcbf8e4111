//! An HTTP request, parsed from a connection.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// The largest head and the largest body, in bytes.
const MAX_HEAD: u64 = 64 << 10;
const MAX_BODY: usize = 64 << 20;

/// A received HTTP request.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The method, for example `POST`.
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// The headers in their order, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The message. Text that is not JSON is a string, and an empty body is null.
    pub body: Value,
}

impl HttpRequest {
    /// Returns the first header with this name in lower case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether the body is a message of this method.
    #[must_use]
    pub fn calls(&self, method: &str) -> bool {
        self.body["method"] == method
    }

    /// Reads the next request of a connection. Returns `None` at its end.
    pub(super) async fn read(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Self>> {
        let mut lines = Vec::new();
        let mut head = reader.take(MAX_HEAD);
        loop {
            let mut line = String::new();
            if head.read_line(&mut line).await? == 0 {
                return Ok(None);
            }
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            lines.push(line.to_owned());
        }
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not an HTTP request");
        let mut lines = lines.into_iter();
        let first = lines.next().ok_or_else(invalid)?;
        let mut words = first.split(' ');
        let (Some(method), Some(target)) = (words.next(), words.next()) else { return Err(invalid()) };
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())))
            .collect();
        let mut request = Self { method: method.to_owned(), target: target.to_owned(), headers, body: Value::Null };
        let body = request.read_body(reader).await?;
        if !body.is_empty() {
            request.body = serde_json::from_slice(&body)
                .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&body).into_owned()));
        }
        Ok(Some(request))
    }

    async fn read_body(&self, reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
        let too_large = || io::Error::new(io::ErrorKind::InvalidData, "the body is too large");
        let mut body = Vec::new();
        if let Some(length) = self.header("content-length").and_then(|length| length.parse::<usize>().ok()) {
            if length > MAX_BODY {
                return Err(too_large());
            }
            body.resize(length, 0);
            reader.read_exact(&mut body).await?;
            return Ok(body);
        }
        if self.header("transfer-encoding").is_none() {
            return Ok(body);
        }
        loop {
            let mut line = String::new();
            reader.take(MAX_HEAD).read_line(&mut line).await?;
            let size = line.trim().split(';').next().and_then(|size| usize::from_str_radix(size, 16).ok());
            let size = size.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "invalid chunk size"))?;
            if size > MAX_BODY - body.len() {
                return Err(too_large());
            }
            let start = body.len();
            body.resize(start + size, 0);
            reader.read_exact(&mut body[start..]).await?;
            let mut end = String::new();
            reader.take(MAX_HEAD).read_line(&mut end).await?;
            if size == 0 {
                return Ok(body);
            }
        }
    }
}
