//! A server on a socket that sends scripted bytes and stores the received requests.

use std::{
    io,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    sync::{Notify, watch},
    task::JoinSet,
};

use super::{answer, within};

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect()
    }

    /// The method of the message.
    pub(crate) fn call(&self) -> String {
        let message: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        message["method"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn id(&self) -> i64 {
        let message: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        message["id"].as_i64().unwrap_or_default()
    }
}

/// The reply to a request.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    steps: Vec<Step>,
    is_last: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Bytes as they are.
    Send(Vec<u8>),
    /// Waits for a notification of the test.
    Wait(Arc<Notify>),
    /// Waits until the client closes the connection.
    Hold,
    /// Ends the sending half alone.
    HalfClose,
}

impl Reply {
    pub(crate) fn full(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut text = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        text.push_str(body);
        Self { steps: vec![Step::Send(text.into_bytes())], is_last: false }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::full(status, &[], "")
    }

    pub(crate) fn json(body: &str) -> Self {
        Self::full(200, &[("content-type", "application/json")], body)
    }

    /// The result of this request.
    pub(crate) fn result(seen: &ReceivedRequest) -> Self {
        Self::json(&answer(seen.id()))
    }

    /// The answer to `initialize` that opens this session.
    pub(crate) fn opening(seen: &ReceivedRequest, session: &str) -> Self {
        Self::full(200, &[("content-type", "application/json"), ("mcp-session-id", session)], &answer(seen.id()))
    }

    /// The head of an event stream. The events follow.
    pub(crate) fn events() -> Self {
        Self::events_with("")
    }

    pub(crate) fn events_with(headers: &str) -> Self {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n{headers}\r\n"
        );
        Self { steps: vec![Step::Send(head.into_bytes())], is_last: false }
    }

    /// Bytes that are not HTTP. The server closes the connection after them.
    pub(crate) fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self { steps: vec![Step::Send(bytes.into())], is_last: true }
    }

    /// A chunk of the stream.
    pub(crate) fn chunk(mut self, text: &str) -> Self {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        self.steps.push(Step::Send(chunk.into_bytes()));
        self
    }

    /// An event with this data.
    pub(crate) fn event(self, data: &str) -> Self {
        self.chunk(&format!("data: {data}\n\n"))
    }

    /// An event with an id.
    pub(crate) fn event_as(self, id: &str, data: &str) -> Self {
        self.chunk(&format!("id: {id}\ndata: {data}\n\n"))
    }

    /// The end of the stream.
    pub(crate) fn end(self) -> Self {
        self.step(Step::Send(b"0\r\n\r\n".to_vec()))
    }

    /// The end of the connection, wherever the stream is.
    pub(crate) fn cut(mut self) -> Self {
        self.is_last = true;
        self
    }

    pub(crate) fn hold(self) -> Self {
        self.step(Step::Hold).cut()
    }

    pub(crate) fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

/// See the module. Dropping it ends the server.
pub(crate) struct ByteServer {
    pub(crate) origin: String,
    log: Arc<Log>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Log {
    seen: Mutex<Vec<ReceivedRequest>>,
    count: watch::Sender<usize>,
    /// How many held connections a client has closed.
    disconnects: watch::Sender<usize>,
    connections: watch::Sender<usize>,
}

impl ByteServer {
    /// Serves requests by this script, which is called with each and its number.
    pub(crate) async fn serve(script: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        Self::serve_on(listener, origin, script, Some).await
    }

    /// Serves the connection that `wrap` returns. It closes the connection if `wrap` returns `None`.
    pub(crate) async fn serve_on<S, W, F>(
        listener: TcpListener,
        origin: String,
        script: impl Fn(usize, &ReceivedRequest) -> Reply + Send + Sync + 'static,
        wrap: W,
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        W: Fn(tokio::net::TcpStream) -> F + Send + Sync + 'static,
        F: IntoWrapped<S>,
    {
        let log = Arc::new(Log::default());
        let shared = Arc::clone(&log);
        let script = Arc::new(script);
        let wrap = Arc::new(wrap);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                shared.connections.send_modify(|count| *count += 1);
                let (log, script, wrap) = (Arc::clone(&shared), Arc::clone(&script), Arc::clone(&wrap));
                connections.spawn(async move {
                    if let Some(stream) = wrap(stream).wrapped().await {
                        // Many tests close connections early, so a failed write is expected.
                        _ = connection(stream, &log, script.as_ref()).await;
                    }
                });
            }
        });
        Self { origin, log, _serving: serving }
    }

    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.origin)
    }

    /// The requests so far.
    pub(crate) fn seen(&self) -> Vec<ReceivedRequest> {
        self.log.seen.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        *self.log.connections.borrow()
    }

    /// Waits for this many requests and returns them.
    pub(crate) async fn saw(&self, count: usize) -> Vec<ReceivedRequest> {
        let mut counted = self.log.count.subscribe();
        within(&format!("request {count}"), counted.wait_for(|seen| *seen >= count)).await.unwrap();
        self.seen()
    }

    /// Waits until the client has closed this many held connections.
    pub(crate) async fn wait_for_disconnects(&self, count: usize) {
        let mut disconnects = self.log.disconnects.subscribe();
        within("the end of a connection", disconnects.wait_for(|disconnects| *disconnects >= count)).await.unwrap();
    }
}

/// A function that accepts a connection and may wrap it, for example in TLS.
pub(crate) trait IntoWrapped<S> {
    fn wrapped(self) -> impl Future<Output = Option<S>> + Send;
}

impl<S: Send> IntoWrapped<S> for Option<S> {
    async fn wrapped(self) -> Option<S> {
        self
    }
}

/// A handshake that has to be waited for.
pub(crate) struct Handshake<F>(pub(crate) F);

impl<S, F: Future<Output = Option<S>> + Send> IntoWrapped<S> for Handshake<F> {
    async fn wrapped(self) -> Option<S> {
        self.0.await
    }
}

async fn connection<S>(
    mut stream: S,
    log: &Log,
    script: &(impl Fn(usize, &ReceivedRequest) -> Reply + Sync),
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = Vec::new();
    while let Some(seen) = read(&mut stream, &mut buffer).await? {
        let number = {
            let mut all = log.seen.lock().unwrap();
            all.push(seen.clone());
            all.len()
        };
        log.count.send_replace(number);
        let reply = script(number, &seen);
        for step in reply.steps {
            match step {
                Step::Send(bytes) => stream.write_all(&bytes).await?,
                Step::Wait(released) => released.notified().await,
                Step::HalfClose => stream.shutdown().await?,
                Step::Hold => {
                    let mut rest = [0; 64];
                    while stream.read(&mut rest).await.unwrap_or(0) > 0 {}
                    log.disconnects.send_modify(|disconnects| *disconnects += 1);
                }
            }
        }
        stream.flush().await?;
        if reply.is_last {
            break;
        }
    }
    Ok(())
}

/// The next request; `None` when the client has no more.
async fn read(stream: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> io::Result<Option<ReceivedRequest>> {
    let head_len = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    };
    let head: Vec<u8> = buffer.drain(..head_len).collect();
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (first.next().unwrap_or_default().to_owned(), first.next().unwrap_or_default().to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, len)| len.parse().unwrap());
    while buffer.len() < length {
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
    let body = String::from_utf8(buffer.drain(..length).collect()).unwrap();
    Ok(Some(ReceivedRequest { method, path, headers, body }))
}
