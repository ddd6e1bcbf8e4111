//! The listener on this machine that receives the response of a login.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use mcp_protocol::auth::Secret;
use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

use super::callback::{Callback, Expected};
use crate::error::{Error, ErrorKind};

const PATH: &str = "/callback";
/// The largest number of open connections. Further ones wait.
const MAX_CONNECTIONS: usize = 16;
/// The time for one connection, with its response.
const CONNECTION_LIMIT: Duration = Duration::from_secs(10);
/// The largest head of a request in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// A listener on 127.0.0.1.
pub(crate) struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Binds a port, or any port.
    pub(crate) async fn bind(port: u16) -> Result<Self, Error> {
        let failed = |error: std::io::Error| {
            let text = format!("the port {port} of 127.0.0.1 for the response of the login cannot be opened: {error}");
            Error::with_source(ErrorKind::Configuration, text, error)
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    pub(crate) fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Waits for the response of a login. Other requests receive an error page.
    pub(crate) async fn receive(&self, expected: Arc<Expected>) -> Result<Secret, Error> {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(serve(stream, self.address, Arc::clone(&expected)));
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a connection with the response of a login failed");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                },
                Some(ended) = connections.join_next() => {
                    if let Ok(Some(outcome)) = ended {
                        return outcome;
                    }
                }
            }
        }
    }
}

/// Serves one connection, and returns the outcome of the login if the connection had it.
async fn serve(stream: TcpStream, address: SocketAddr, expected: Arc<Expected>) -> Option<Result<Secret, Error>> {
    let outcome = Mutex::new(None);
    let service = service_fn(|request: Request<Incoming>| {
        let (response, found) = answer(&request, address, &expected);
        if found.is_some() {
            *outcome.lock() = found;
        }
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_LIMIT)
        .keep_alive(false)
        .max_buf_size(MAX_HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let _ = timeout(CONNECTION_LIMIT, connection).await;
    outcome.into_inner()
}

fn answer<B>(
    request: &Request<B>,
    address: SocketAddr,
    expected: &Expected,
) -> (Response<Full<Bytes>>, Option<Result<Secret, Error>>) {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = address.port();
    if host != address.to_string() && host != format!("localhost:{port}") {
        return (page(StatusCode::BAD_REQUEST, "The request has another host."), None);
    }
    if request.uri().path() != PATH {
        return (page(StatusCode::NOT_FOUND, "This page does not exist."), None);
    }
    if request.method() != Method::GET {
        return (page(StatusCode::METHOD_NOT_ALLOWED, "The method is not allowed."), None);
    }
    match expected.judge(request.uri().query().unwrap_or_default()) {
        Callback::Unrelated => (page(StatusCode::BAD_REQUEST, "This response does not belong to the login."), None),
        Callback::Code(code) => {
            (page(StatusCode::OK, "The login is complete. You can close this window."), Some(Ok(code)))
        }
        Callback::Failed(error) => {
            let text = "The login failed. The application shows the reason. You can close this window.";
            (page(StatusCode::BAD_REQUEST, text), Some(Err(error)))
        }
    }
}

/// Returns a page with a fixed text: a page must not show a text of the request.
fn page(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Login</title><body><p>{text}</p></body></html>"
    );
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, "no-store"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn send(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer.lines().next().unwrap_or_default().to_owned()
    }

    #[tokio::test]
    async fn only_the_response_of_the_login_ends_the_wait() {
        let listener = Listener::bind(0).await.unwrap();
        let address = listener.address;
        let expected = Expected { state: "s".into(), issuer: "https://as.example".into(), requires_issuer: false };
        let received = tokio::spawn(async move { listener.receive(Arc::new(expected)).await });
        let own = format!("host: {address}");
        for (line, host, status) in [
            ("GET /callback?code=c&state=t", own.as_str(), "400"),
            ("GET /callback", &own, "400"),
            ("GET /other?code=c&state=s", &own, "404"),
            ("GET /favicon.ico", &own, "404"),
            ("POST /callback?code=c&state=s", &own, "405"),
            ("GET /callback?code=c&state=s", "host: evil.example", "400"),
            ("GET /callback?code=c&state=s", "x: y", "400"),
        ] {
            let answer = send(address, &format!("{line} HTTP/1.1\r\n{host}\r\n\r\n")).await;
            assert!(answer.contains(status), "{line}: {answer}");
        }
        let long = "a".repeat(2 * MAX_HEAD);
        let answer = send(address, &format!("GET /callback?{long} HTTP/1.1\r\n{own}\r\n\r\n")).await;
        assert!(!answer.contains("200"), "{answer}");
        assert!(!received.is_finished());
        let answer = send(address, &format!("GET /callback?code=c&state=s HTTP/1.1\r\n{own}\r\n\r\n")).await;
        assert!(answer.contains("200"), "{answer}");
        let code = timeout(Duration::from_secs(5), received).await.unwrap().unwrap().unwrap();
        assert_eq!(code.expose(), "c");
    }

    #[tokio::test]
    async fn idle_connections_do_not_delay_a_response() {
        let listener = Listener::bind(0).await.unwrap();
        let address = listener.address;
        let expected = Expected { state: "s".into(), issuer: "https://as.example".into(), requires_issuer: false };
        let received = tokio::spawn(async move { listener.receive(Arc::new(expected)).await });
        let mut idle = Vec::new();
        for _ in 0..MAX_CONNECTIONS - 1 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        send(address, &format!("GET /callback?error=access_denied&state=s HTTP/1.1\r\nhost: {address}\r\n\r\n")).await;
        let error = timeout(Duration::from_secs(5), received).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
    }

    #[tokio::test]
    async fn an_occupied_port_is_an_error() {
        let first = Listener::bind(0).await.unwrap();
        let error = Listener::bind(first.address.port()).await.err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Configuration);
    }
}
