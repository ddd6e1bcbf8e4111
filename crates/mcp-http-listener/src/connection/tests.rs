//! Tests of one connection on a paused clock.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Channel, Full, combinators::BoxBody};
use tokio::{
    io::{AsyncWriteExt, DuplexStream},
    sync::Notify,
    time::{Instant, sleep},
};

use super::*;

type Answer = Pin<Box<dyn Future<Output = Result<Response<BoxBody<Bytes, Infallible>>, Infallible>> + Send>>;

/// A service that answers by path.
#[derive(Clone, Default)]
struct TestService {
    /// The time that `/late` takes.
    delay: Duration,
    /// Releases the body of `/hold`.
    release: Arc<Notify>,
}

impl TestService {
    fn delayed(seconds: u64) -> Self {
        Self { delay: Duration::from_secs(seconds), ..Self::default() }
    }

    async fn answer(self, path: String) -> Response<BoxBody<Bytes, Infallible>> {
        let full = |text: String| Full::new(Bytes::from(text)).boxed();
        Response::new(match &*path {
            "/late" => {
                sleep(self.delay).await;
                full("still here".into())
            }
            "/medium" => full("x".repeat(8 << 10)),
            "/large" => full("x".repeat(1 << 20)),
            "/flood" => {
                let (mut sender, body) = Channel::new(1);
                tokio::spawn(async move {
                    let piece = Bytes::from(vec![b'x'; 64 << 10]);
                    for _ in 0..1000 {
                        if sender.send_data(piece.clone()).await.is_err() {
                            return;
                        }
                    }
                });
                body.boxed()
            }
            "/hold" => {
                let (mut sender, body) = Channel::new(1);
                tokio::spawn(async move {
                    sender.send_data("first".into()).await.unwrap();
                    self.release.notified().await;
                    sender.send_data(vec![b'x'; 1 << 20].into()).await.unwrap();
                });
                body.boxed()
            }
            _ => full("quick".into()),
        })
    }
}

impl Service<Request<RequestBody>> for TestService {
    type Response = Response<BoxBody<Bytes, Infallible>>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _cx: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Answer {
        let answer = self.clone().answer(request.uri().path().to_owned());
        Box::pin(async move { Ok(answer.await) })
    }
}

const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

fn connect(service: TestService) -> (DuplexStream, CancellationToken) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let shutdown = CancellationToken::new();
    tokio::spawn(serve(far, service, WRITE_TIMEOUT, shutdown.clone()));
    (near, shutdown)
}

/// The preface, and settings without changes.
const HTTP2: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0";

#[tokio::test(start_paused = true)]
async fn a_connection_without_a_request_closes() {
    for sent in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n\r\nSM",
        "GET / HTTP/1.1\r\nhost: loc",
        "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n",
    ] {
        let (mut client, _shutdown) = connect(TestService::default());
        client.write_all(sent.as_bytes()).await.unwrap();
        let start = Instant::now();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert_eq!(start.elapsed().as_secs(), HEAD_TIMEOUT.as_secs(), "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_http2_connection_receives_goaway_and_closes() {
    let (mut client, _shutdown) = connect(TestService::default());
    client.write_all(HTTP2.as_bytes()).await.unwrap();
    let start = Instant::now();
    let mut received = Vec::new();
    client.read_to_end(&mut received).await.unwrap();
    // A frame of type 7 (GOAWAY) on the connection. Its last stream is not decided yet.
    let goaway = b"\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0";
    assert!(received.windows(goaway.len()).any(|window| window == goaway), "{received:x?}");
    assert!((30..=60).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn shutdown_closes_a_connection_with_a_partial_head_at_once() {
    for sent in
        ["", "PRI * HTTP/2.0\r\n", "GET / HTTP/1.1\r\nhost: loc", "GET / HTTP/1.1\r\nhost: localhost\r\n\r\nGET /m"]
    {
        let (mut client, shutdown) = connect(TestService::default());
        client.write_all(sent.as_bytes()).await.unwrap();
        // The server reads the bytes before the shutdown.
        sleep(Duration::from_secs(1)).await;
        shutdown.cancel();
        let start = Instant::now();
        client.read_to_end(&mut Vec::new()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::ZERO, "{sent:?}");
    }
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(format!("http://localhost{path}")).body(Full::default()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn http2_serves_a_request_that_crosses_the_goaway() {
    // A path with a delay of one second from the server to the client.
    let (mut near, far) = tokio::io::duplex(1 << 16);
    let (mut toward, _shutdown) = connect(TestService::delayed(50));
    let delayed_path = tokio::spawn(async move {
        let (mut from, mut to) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                read = near.read(&mut from) => match read {
                    Ok(1..) => toward.write_all(&from[..read.unwrap()]).await.unwrap(),
                    _ => return,
                },
                read = toward.read(&mut to) => match read {
                    Ok(1..) => {
                        let received = to[..read.unwrap()].to_vec();
                        sleep(Duration::from_secs(1)).await;
                        near.write_all(&received).await.unwrap();
                    }
                    _ => return,
                },
            }
        }
    });
    let client = hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), TokioIo::new(far));
    let (mut sender, connection) = client.await.unwrap();
    tokio::spawn(connection);
    // The server has sent the GOAWAY by then, and the client has not read it.
    sleep(Duration::from_millis(30_500)).await;
    let answer = text(sender.send_request(get("/late")).await.unwrap()).await.unwrap();
    assert_eq!(answer, "still here");
    delayed_path.abort();
}

type Client = hyper::client::conn::http2::SendRequest<Full<Bytes>>;

/// A client with these flow-control windows, and its connection.
async fn http2(service: TestService, stream: u32, all: u32) -> (Client, tokio::task::JoinHandle<hyper::Result<()>>) {
    let client = hyper::client::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
        .initial_stream_window_size(stream)
        .initial_connection_window_size(all)
        .handshake(TokioIo::new(connect(service).0))
        .await;
    let (sender, connection) = client.unwrap();
    (sender, tokio::spawn(connection))
}

/// Sends a request every second until the connection fails or the limit is over. Returns the time until the last success.
async fn use_for(sender: &mut Client, limit: Duration) -> Duration {
    let start = Instant::now();
    let mut used = Duration::ZERO;
    while used < limit && sender.ready().await.is_ok() && sender.send_request(get("/quick")).await.is_ok() {
        used = start.elapsed();
        sleep(Duration::from_secs(1)).await;
    }
    used
}

async fn text(response: Response<Incoming>) -> hyper::Result<String> {
    let body = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn http2_resets_only_the_stream_with_an_unread_response() {
    for path in ["/large", "/flood"] {
        let (mut sender, _connection) = http2(TestService::delayed(40), 1 << 16, 1 << 20).await;
        let start = Instant::now();
        let late = tokio::spawn(sender.send_request(get("/late")));
        let unread = sender.send_request(get(path)).await.unwrap();
        assert_eq!(unread.status(), StatusCode::OK);
        let long = Duration::from_secs(120);
        assert!(use_for(&mut sender, long).await >= long, "{path} {:?}", start.elapsed());
        assert_eq!(text(late.await.unwrap().unwrap()).await.unwrap(), "still here", "{path}");
        let reset = text(unread).await.unwrap_err();
        assert!(!reset.is_incomplete_message() && !reset.is_canceled(), "{path} {reset:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn http2_does_not_reset_a_stream_that_waits_for_the_shared_window() {
    let (mut sender, _connection) = http2(TestService::default(), 1 << 20, 1 << 16).await;
    let unread = sender.send_request(get("/flood")).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    // The unread answer uses up the window that both streams share.
    let waiting = tokio::spawn(text(sender.send_request(get("/quick")).await.unwrap()));
    sleep(Duration::from_millis(29_500)).await;
    assert!(!waiting.is_finished());
    // The server has reset the unread stream by then. Its client returns the used window.
    drop(unread);
    assert_eq!(waiting.await.unwrap().unwrap(), "quick");
}

#[tokio::test(start_paused = true)]
async fn http2_closes_a_connection_whose_unread_data_cannot_be_reset() {
    // The window takes a part of an answer of one frame. The task of the stream ends when it has handed that frame over.
    let (mut sender, connection) = http2(TestService::delayed(50), 1 << 10, 1 << 20).await;
    let start = Instant::now();
    let unread = sender.send_request(get("/medium")).await.unwrap();
    use_for(&mut sender, Duration::from_secs(30)).await;
    let late = tokio::spawn(sender.send_request(get("/late")));
    use_for(&mut sender, Duration::from_secs(3600)).await;
    let used = start.elapsed();
    assert!((59..=66).contains(&used.as_secs()), "{used:?}");
    // The other request has time to end.
    assert_eq!(text(late.await.unwrap().unwrap()).await.unwrap(), "still here");
    let _ = connection.await;
    assert!((80..=96).contains(&start.elapsed().as_secs()), "{:?}", start.elapsed());
    drop(unread);
}

#[tokio::test(start_paused = true)]
async fn http2_waits_for_a_slow_reader_and_for_a_stream_without_data() {
    let service = TestService::default();
    let (mut sender, _connection) = http2(service.clone(), 1 << 16, 1 << 20).await;
    let mut body = sender.send_request(get("/hold")).await.unwrap().into_body();
    sleep(Duration::from_secs(50)).await;
    service.release.notify_one();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        length += frame.unwrap().into_data().unwrap().len();
        sleep(Duration::from_secs(5)).await;
    }
    assert!(length > 1 << 20);
}

#[cfg(any(target_os = "android", target_os = "linux"))]
#[tokio::test]
async fn only_http2_limits_the_unsent_data_of_the_socket() {
    use tokio::net::{TcpListener, TcpStream};

    use crate::tcp::limits_unsent_data;

    let http2 = format!("{HTTP2}\0\0\u{8}\u{6}\0\0\0\0\0pingdata");
    for (sent, is_limited) in [("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", false), (http2.as_str(), true)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connect = TcpStream::connect(listener.local_addr().unwrap());
        let (connected, accepted) = tokio::join!(connect, listener.accept());
        let (mut client, accepted) = (connected.unwrap(), accepted.unwrap().0.into_std().unwrap());
        let observed = TcpStream::from_std(accepted.try_clone().unwrap()).unwrap();
        let accepted = TcpStream::from_std(accepted).unwrap();
        tokio::spawn(serve(accepted, TestService::default(), WRITE_TIMEOUT, CancellationToken::new()));
        client.write_all(sent.as_bytes()).await.unwrap();
        // A response, or the settings of the server.
        client.read_u8().await.unwrap();
        assert_eq!(limits_unsent_data(&observed), is_limited, "{sent:?}");
    }
}
