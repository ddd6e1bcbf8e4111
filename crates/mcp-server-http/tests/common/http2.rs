//! A client that speaks HTTP/2.

use bytes::Bytes;
use http::{Method, Request, Uri};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinHandle,
};

use super::{Answer, within};

/// One connection.
pub(crate) struct Http2 {
    sender: SendRequest<Full<Bytes>>,
    connection: JoinHandle<()>,
}

impl Http2 {
    pub(crate) async fn connect(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        Self::shaken(stream, None).await
    }

    /// The number of response bytes that the server may send before the client reads.
    pub(crate) async fn with_window(stream: TcpStream, bytes: u32) -> Self {
        Self::shaken(stream, Some(bytes)).await
    }

    async fn shaken(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, window: Option<u32>) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        let shaken = builder.initial_stream_window_size(window).handshake(TokioIo::new(stream));
        let (sender, connection) = within("a handshake", shaken).await.unwrap();
        let connection = tokio::spawn(async move {
            // The test checks the end of the connection.
            let _ = connection.await;
        });
        Self { sender, connection }
    }

    /// Sends a request, whose host becomes the authority, and waits for the head of the response.
    pub(crate) async fn open(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<http::Response<Incoming>> {
        self.sender.ready().await?;
        self.sender.send_request(targeted(request)).await
    }

    pub(crate) async fn exchange(&mut self, request: Request<Full<Bytes>>) -> Answer {
        let response = within("an answer", self.open(request)).await.unwrap();
        let (parts, body) = response.into_parts();
        assert_eq!(parts.version, http::Version::HTTP_2);
        let body = within("a body", body.collect()).await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Waits until the server has closed the connection.
    pub(crate) async fn ended(self) {
        within("the end of the connection", self.connection).await.unwrap();
    }
}

fn targeted(mut request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    let host = request.headers_mut().remove("host").unwrap();
    let target = format!("http://{}{}", host.to_str().unwrap(), request.uri());
    *request.uri_mut() = target.parse::<Uri>().unwrap();
    request
}

/// A request for the endpoint path without other headers.
pub(crate) fn options() -> Request<Full<Bytes>> {
    super::request(Method::OPTIONS, &[], "")
}
