//! A server on a socket, and a client that reads raw bytes.

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_server_core::Server;
use mcp_server_http::{HttpConfig, HttpError, HttpServer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{Answer, initialize, within};

/// A server that listens on a free port of the loopback address; it ends with this value.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    serving: JoinHandle<Result<(), HttpError>>,
}

pub(crate) async fn serve(server: &Server, config: HttpConfig) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (server, config) = (server.clone(), config.ignore_signals());
    Endpoint::of(address, tokio::spawn(async move { server.serve_http_on(listener, config).await }))
}

impl Endpoint {
    pub(crate) fn of(address: SocketAddr, serving: JoinHandle<Result<(), HttpError>>) -> Self {
        Self { address, serving }
    }

    /// A connection without a client.
    pub(crate) async fn stream(&self) -> TcpStream {
        within("a connection", TcpStream::connect(self.address)).await.unwrap()
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::over(self.stream().await)
    }

    /// Sends one request on its own connection.
    pub(crate) async fn exchange(&self, request: Request<Full<Bytes>>) -> Answer {
        let mut connection = self.connect().await;
        connection.send(request).await;
        connection.answer().await
    }

    /// Opens a legacy session.
    pub(crate) async fn open(&self) -> String {
        self.exchange(initialize()).await.header("mcp-session-id").unwrap().to_owned()
    }

    /// Waits until serving is over.
    pub(crate) async fn ended(mut self) -> Result<(), HttpError> {
        within("the end of serving", &mut self.serving).await.unwrap()
    }

    /// Drops the serving future.
    pub(crate) fn abort(&self) {
        self.serving.abort();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// One connection.
pub(crate) struct Connection<S = TcpStream> {
    stream: S,
    buffer: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        within("a write", self.stream.write_all(bytes.as_ref())).await.unwrap();
    }

    /// Writes until the peer closes the connection.
    pub(crate) async fn write_some(&mut self, bytes: &[u8]) {
        let _ = within("a write", self.stream.write_all(bytes)).await;
    }

    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) {
        self.write(raw(request).await).await;
    }

    /// More bytes; false at the end.
    async fn fill(&mut self) -> bool {
        matches!(within("an answer", self.stream.read_buf(&mut self.buffer)).await, Ok(count) if count > 0)
    }

    /// The head of the next answer; `None` when the server closed instead.
    pub(crate) async fn head(&mut self) -> Option<(StatusCode, HeaderMap)> {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break end;
            }
            if !self.fill().await {
                return None;
            }
        };
        let head = self.buffer.split_to(end + 4);
        let text = std::str::from_utf8(&head[..end]).unwrap();
        let mut lines = text.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').unwrap();
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, HeaderValue::from_str(value.trim()).unwrap());
        }
        Some((status, headers))
    }

    /// The next answer in full.
    pub(crate) async fn answer(&mut self) -> Answer {
        self.answer_to(&Method::POST).await.expect("an answer before the end of the connection")
    }

    /// The next answer in full; `None` when the server closed instead.
    pub(crate) async fn answer_to(&mut self, method: &Method) -> Option<Answer> {
        let (status, headers) = self.head().await?;
        let mut body = BytesMut::new();
        if let Some(length) = headers.get("content-length") {
            let length: usize = length.to_str().unwrap().parse().unwrap();
            while method != Method::HEAD && self.buffer.len() < length {
                assert!(self.fill().await, "the body broke off");
            }
            body = if method == Method::HEAD { body } else { self.buffer.split_to(length) };
        } else if headers.contains_key("transfer-encoding") && method != Method::HEAD {
            while let Some(chunk) = self.chunk().await {
                body.extend_from_slice(&chunk);
            }
        }
        Some(Answer { status, headers, body: body.freeze() })
    }

    /// The next chunk of a stream; `None` when it ended as it should. A stream that is cut off is a panic.
    pub(crate) async fn chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                let size = usize::from_str_radix(std::str::from_utf8(&self.buffer[..end]).unwrap(), 16).unwrap();
                if self.buffer.len() >= end + 2 + size + 2 {
                    let mut whole = self.buffer.split_to(end + 2 + size + 2);
                    let chunk = whole.split_off(end + 2).split_to(size).freeze();
                    return (size > 0).then_some(chunk);
                }
            }
            assert!(self.fill().await, "the stream was cut off");
        }
    }

    /// Waits until the server closes the connection. Returns whether the server sent nothing before.
    pub(crate) async fn closes_silently(&mut self) -> bool {
        while self.fill().await {}
        self.buffer.is_empty()
    }
}

/// The bytes of a request.
pub(crate) async fn raw(request: Request<Full<Bytes>>) -> Vec<u8> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut out = format!("{} {} HTTP/1.1\r\n", parts.method, parts.uri).into_bytes();
    for (name, value) in &parts.headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
    out.extend_from_slice(&body);
    out
}
