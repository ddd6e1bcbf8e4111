//! A listener with a small service, and clients for it.
#![allow(dead_code, reason = "the modules of the tests use parts of this")]
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client::conn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mcp_http_listener::{RequestBody, Serve};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, TcpStream},
    sync::{Notify, oneshot},
    task::JoinHandle,
};

/// Waits for a step of a test, and panics after a minute.
pub(crate) async fn within<T>(step: &str, work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| panic!("no {step} in time"))
}

/// A service that answers `hello`, a large answer at `/large`, and waits for a release at `/wait`.
#[derive(Clone, Default)]
pub(crate) struct HelloService {
    /// Notified when a request for `/wait` has arrived.
    pub(crate) waiting: Arc<Notify>,
    pub(crate) release: Arc<Notify>,
}

/// The size of the kernel's buffers for each connection in each direction, as the tests set it.
pub(crate) const BUFFER: u32 = 64 << 10;

/// The length of the answer at `/large`. The buffers of both kernels and of the listener are smaller.
pub(crate) const LARGE: usize = 6 << 20;

impl tower_service::Service<Request<RequestBody>> for HelloService {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            Ok(Response::new(Full::from(match request.uri().path() {
                "/large" => Bytes::from(vec![b'x'; LARGE]),
                "/wait" => {
                    service.waiting.notify_one();
                    service.release.notified().await;
                    Bytes::from_static(b"released")
                }
                _ => Bytes::from_static(b"hello"),
            })))
        })
    }
}

/// A running listener.
pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) service: HelloService,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl TestServer {
    /// Starts a listener on a free port.
    pub(crate) async fn with(configure: impl FnOnce(Serve<HelloService>) -> Serve<HelloService>) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        // The accepted connections inherit the size.
        socket.set_send_buffer_size(BUFFER).unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = socket.listen(128).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let service = HelloService::default();
        let serve = mcp_http_listener::serve(listener, service.clone()).with_graceful_shutdown(async move {
            let _ = stopped.await;
        });
        let serving = tokio::spawn(configure(serve).into_future());
        Self { address, service, stop: Some(stop), serving }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        within("a connection", TcpStream::connect(self.address)).await.unwrap()
    }

    pub(crate) fn shut_down(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until the listener has ended.
    pub(crate) async fn ended(&mut self) {
        within("the end of serving", &mut self.serving).await.unwrap();
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// A client of one HTTP/1.1 connection.
pub(crate) struct Http1(conn::http1::SendRequest<Full<Bytes>>);

impl Http1 {
    pub(crate) async fn over(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let (sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    /// Requests `/`.
    pub(crate) async fn get_root(&mut self) -> (StatusCode, String) {
        self.get("/").await.unwrap()
    }

    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<(StatusCode, String)> {
        let request = Request::get(path).header("host", "localhost").body(Full::default()).unwrap();
        read(within("an answer", self.0.send_request(request)).await?).await
    }
}

/// Requests `/` over HTTP/2.
pub(crate) async fn ask_http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> (StatusCode, String) {
    let (mut sender, connection) = conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://localhost/").body(Full::<Bytes>::default()).unwrap();
    read(within("an answer", sender.send_request(request)).await.unwrap()).await.unwrap()
}

async fn read(answer: Response<Incoming>) -> hyper::Result<(StatusCode, String)> {
    let status = answer.status();
    let body = within("a body", answer.into_body().collect()).await?.to_bytes();
    Ok((status, String::from_utf8(body.to_vec()).unwrap()))
}
