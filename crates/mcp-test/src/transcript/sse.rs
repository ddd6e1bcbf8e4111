//! A client of HTTP+SSE: one stream for the server's messages, and a POST for each message of the client.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use mcp_server_core::Server;
use mcp_server_http::{Body, HttpConfig, HttpServer as _, McpService};
use mcp_transport::BoxFuture;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    client::{Client, Received, parse},
    http::data_of,
};

pub(super) struct Sse {
    service: McpService,
    /// The URL for messages, after the first event of the stream.
    endpoint: Option<String>,
    stream: Option<Body>,
    bytes: Vec<u8>,
    is_closing: bool,
}

/// The silence after which the client closes the stream. The stream has no half that the client could close earlier.
const QUIET: Duration = Duration::from_millis(100);

impl Sse {
    pub(super) fn new(server: Server) -> Self {
        let service = server.into_service(HttpConfig::new().sse("/sse", "/messages"));
        Self { service, endpoint: None, stream: None, bytes: Vec::new(), is_closing: false }
    }

    async fn post(&mut self, text: String) -> Result<(), String> {
        let endpoint = match self.endpoint.clone() {
            Some(endpoint) => endpoint,
            None => self.open().await?,
        };
        let request = request(Method::POST, &endpoint).header(header::CONTENT_TYPE, "application/json");
        let request = request.body(Full::new(Bytes::from(text))).map_err(|error| error.to_string())?;
        let status = self.service.handle(request).await.status();
        if status == 202 { Ok(()) } else { Err(format!("POST returned the status {status}")) }
    }

    async fn open(&mut self) -> Result<String, String> {
        let request = request(Method::GET, "/sse").header(header::ACCEPT, "text/event-stream");
        let request = request.body(Full::<Bytes>::default()).map_err(|error| error.to_string())?;
        self.stream = Some(self.service.handle(request).await.into_body());
        let event = self.event().await.ok_or("the stream ended before its first event")?;
        let endpoint = String::from_utf8_lossy(&data_of(&event)).into_owned();
        self.endpoint = Some(endpoint.clone());
        Ok(endpoint)
    }

    /// Reads the next event. Returns `None` at the end.
    async fn event(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(end) = self.bytes.windows(2).position(|pair| pair == b"\n\n") {
                return Some(self.bytes.drain(..end + 2).collect());
            }
            let Some(stream) = &mut self.stream else { return None };
            // The body of a server in this process does not fail.
            let Some(Ok(frame)) = stream.frame().await else { return None };
            if let Ok(data) = frame.into_data() {
                self.bytes.extend_from_slice(&data);
            }
        }
    }
}

fn request(method: Method, uri: &str) -> http::request::Builder {
    Request::builder().method(method).uri(uri).header(header::HOST, "localhost")
}

impl Client for Sse {
    fn send<'a>(&'a mut self, text: String, _value: Option<&'a Value>) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.post(text))
    }

    fn recv(&mut self) -> BoxFuture<'_, Option<Result<Received, String>>> {
        Box::pin(async move {
            loop {
                // A keep-alive comment is not a message.
                let event = if self.is_closing {
                    timeout(QUIET, self.event()).await.ok().flatten()
                } else {
                    self.event().await
                };
                let Some(event) = event else {
                    // Dropping the stream ends the session.
                    self.stream = None;
                    return None;
                };
                let data = data_of(&event);
                if !data.is_empty() {
                    return Some(parse(&data, None));
                }
            }
        })
    }

    fn close(&mut self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.is_closing = true;
            Ok(())
        })
    }
}
