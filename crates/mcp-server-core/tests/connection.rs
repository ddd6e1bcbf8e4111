//! Connections: overlong lines, the end of input, shutdown, and lost clients.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use crate::{
    common::{Connection, call, code, event, hold, initialize, legacy, modern, slow, text_of},
    input_client::Name,
    stalling_store::StallingStore,
};
use bytes::Bytes;
use mcp_protocol::RequestId;
use mcp_server_core::{InputError, Inputs, Server, tool};
use mcp_transport::{
    BoxFuture, Frame, FrameSender, Line, Route, Transport, TransportError, TrySendError,
    memory::{MemoryTransport, duplex},
    ndjson::{Ndjson, Options},
    recv,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    task::JoinHandle,
    time::{Instant, timeout},
};

fn server() -> Server {
    Server::builder("test", "1").tool(tool("quick", async || "quick")).tool(slow()).build()
}

/// The client's end of a pipe.
struct Pipe {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    served: JoinHandle<()>,
}

impl Pipe {
    fn open(server: &Server, max_line: Option<usize>) -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (reader, writer) = tokio::io::split(theirs);
        let server = server.clone();
        let served = tokio::spawn(async move {
            match max_line {
                None => server.serve_io(reader, writer).await.unwrap(),
                Some(max) => {
                    let options = Options::default().max_line(max);
                    server.serve(Ndjson::with_options(reader, writer, &options)).await.unwrap();
                }
            }
        });
        let (reader, writer) = tokio::io::split(ours);
        Self { lines: BufReader::new(reader).lines(), writer, served }
    }

    async fn write(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let line = timeout(Duration::from_secs(600), self.lines.next_line()).await.expect("no line in time");
        serde_json::from_str(&line.unwrap().expect("the output has ended")).unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn reads_one_message_per_line() {
    let mut pipe = Pipe::open(&server(), None);
    // The server ignores blank lines and accepts `\r\n`. The last line needs no line break.
    pipe.write(&format!("\n{}\r\n  \n{}\n", initialize("2025-11-25"), legacy(1, "tools/call", call("quick")))).await;
    assert_eq!(pipe.read().await["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(text_of(&pipe.read().await), "quick");
    pipe.write(&modern(2, "tools/call", call("quick")).to_string()).await;
    pipe.writer.shutdown().await.unwrap();
    assert_eq!(text_of(&pipe.read().await), "quick");
    assert_eq!(pipe.lines.next_line().await.unwrap(), None);
    pipe.served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn answers_a_line_above_the_limit_and_serves_the_next_one() {
    const LIMIT: usize = 4096;
    let sized = |size: usize| {
        let empty = legacy(1, "ping", json!({ "pad": "" })).to_string().len();
        legacy(1, "ping", json!({ "pad": "x".repeat(size - empty) })).to_string()
    };
    let mut pipe = Pipe::open(&server(), Some(LIMIT));
    pipe.write(&format!("{}\n", sized(LIMIT))).await;
    assert_eq!(pipe.read().await["result"], json!({}));
    // The sender of a request gets the error. A response has no request.
    let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": { "pad": "x".repeat(LIMIT) } }).to_string();
    for (line, id) in [(sized(LIMIT + 1), json!(1)), (sized(LIMIT * 2), json!(1)), (answer, Value::Null)] {
        pipe.write(&format!("{line}\n{}\n", sized(100))).await;
        let response = pipe.read().await;
        assert_eq!((code(&response), &response["id"]), (Some(-32600), &id), "{line:.60}");
        assert_eq!(pipe.read().await["result"], json!({}));
    }

    // The limit when none is given: 16 MiB.
    let mut pipe = Pipe::open(&server(), None);
    let chunk = "x".repeat(1 << 20);
    for _ in 0..16 {
        pipe.write(&chunk).await;
    }
    pipe.write(&format!("x\n{}\n", sized(100))).await;
    assert_eq!(code(&pipe.read().await), Some(-32600));
    assert_eq!(pipe.read().await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn answers_invalid_utf8() {
    let mut pipe = Pipe::open(&server(), None);
    pipe.writer.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}\n").await.unwrap();
    let response = pipe.read().await;
    assert_eq!((code(&response), &response["id"]), (Some(-32700), &Value::Null));
    pipe.write(&format!("{}\n", legacy(1, "ping", json!({})))).await;
    assert_eq!(pipe.read().await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn limits_the_nesting_depth_of_a_message() {
    for (limit, depth, read) in [(None, 128, true), (None, 129, false), (Some(5), 5, true), (Some(5), 6, false)] {
        let server = Server::builder::<()>("test", "1")
            .limits(|limits| limits.json_depth = limit.unwrap_or(limits.json_depth))
            .build();
        let mut connection = Connection::connect(&server);
        // The message and its parameters are two levels.
        let inner = format!("{}{}", "[".repeat(depth - 2), "]".repeat(depth - 2));
        connection.text(format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"x":{inner}}}}}"#)).await;
        assert_eq!(code(&connection.recv().await), (!read).then_some(-32700), "{limit:?} {depth}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_quick_calls_after_the_end_of_input() {
    for drain in [2, 60] {
        let server = Server::builder("test", "1")
            .tool(tool("second", async || {
                tokio::time::sleep(Duration::from_secs(1)).await;
                "second"
            }))
            .tool(slow())
            .limits(|limits| limits.drain = Duration::from_secs(drain))
            .build();
        assert_eq!(Server::builder::<()>("test", "1").build().limits().drain, Duration::from_secs(2));
        let connection = Connection::connect(&server);
        connection.send(modern(1, "tools/call", call("slow"))).await;
        connection.send(modern(2, "tools/call", call("second"))).await;
        let start = Instant::now();
        let rest = connection.close().await;
        assert_eq!(rest.len(), 2, "{rest:?}");
        assert_eq!(text_of(&rest[0]), "second");
        // A call that runs past the grace period is answered with an error.
        let error = rest[1]["error"]["message"].as_str();
        assert_eq!(error, (drain == 2).then_some("the client closed its input before the call finished"), "{rest:?}");
        assert_eq!(start.elapsed().as_secs(), drain.min(10), "as long as it takes, and no longer than allowed");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_closes_at_once() {
    let start = Instant::now();
    let connection = Connection::connect(&server());
    assert!(connection.close().await.is_empty());
    let mut connection = Connection::connect(&server());
    connection.open("2025-11-25").await;
    assert!(connection.close().await.is_empty());
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn cancels_unfinished_calls_at_the_end_of_the_connection() {
    let (hold, mut seen) = hold();
    let connection = Connection::connect(&Server::builder("test", "1").tool(hold).build());
    connection.send(modern(1, "tools/call", call("hold"))).await;
    assert_eq!(event(&mut seen).await, "entered");
    let rest = connection.close().await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(rest[0]["error"]["message"], "the client closed its input before the call finished");
    assert_eq!(event(&mut seen).await, "dropped");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_connection_cancels_running_calls() {
    let (hold, mut seen) = hold();
    let connection = Connection::connect(&Server::builder("test", "1").tool(hold).build());
    connection.send(modern(1, "tools/call", call("hold"))).await;
    assert_eq!(event(&mut seen).await, "entered");
    connection.served.abort();
    assert_eq!(event(&mut seen).await, "dropped");
    assert!(connection.served.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn shutdown_closes_every_connection_after_quick_calls() {
    let server = server();
    let (mut one, mut two) = (Connection::connect(&server), Connection::connect(&server));
    one.open("2025-11-25").await;
    one.send(legacy(1, "tools/call", call("quick"))).await;
    two.send(modern(1, "tools/call", call("slow"))).await;
    two.exchange(modern(2, "tools/list", json!({}))).await;
    assert_eq!(text_of(&one.recv().await), "quick");
    assert!(!server.is_shutting_down());
    let start = Instant::now();
    server.shutdown();
    assert!(one.next().await.is_none());
    assert_eq!(start.elapsed(), Duration::ZERO, "no handler ran");
    let ended = two.recv().await;
    assert_eq!((&ended["id"], &ended["error"]["message"]), (&json!(1), &json!("the server was shut down")));
    assert!(two.next().await.is_none());
    assert_eq!(start.elapsed(), Duration::from_secs(2));
    // Later connections are not served.
    let mut late = Connection::connect(&server);
    assert!(late.next().await.is_none());
}

/// The call first waits for its state in the store, and then for its handler.
#[tokio::test(start_paused = true)]
async fn the_grace_period_covers_all_stages_of_a_call() {
    let store = StallingStore::of("/state/");
    let asks = async |inputs: Inputs| -> Result<(), InputError> {
        inputs.elicit::<Name>("name", "Name?").await?;
        std::future::pending().await
    };
    let builder = Server::builder("test", "1").store(Arc::new(store.clone())).tool(tool("asks", asks));
    let server = builder.limits(|limits| limits.inputs.state_bytes = 0).build();
    let mut connection = Connection::connect(&server);
    let mut params = call("asks");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": { "form": {} } });
    let asked = connection.exchange(modern(1, "tools/call", params.clone())).await;
    params["requestState"] = asked["result"]["requestState"].clone();
    params["inputResponses"] = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    store.is_stalled.send_replace(true);
    connection.send(modern(2, "tools/call", params)).await;
    connection.exchange(modern(3, "tools/list", json!({}))).await;
    let start = Instant::now();
    server.shutdown();
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.is_stalled.send_replace(false);
    let ended = connection.recv().await;
    assert_eq!((&ended["id"], &ended["error"]["message"]), (&json!(2), &json!("the server was shut down")));
    assert_eq!(start.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_rejected_request_has_the_route_of_the_request() {
    let (mut ours, theirs) = duplex(4);
    let server = server();
    let served = tokio::spawn(async move { server.serve(theirs).await });
    let request = |id: i64| Route::Request(id.into());
    for (text, route) in [
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, request(1)),
        (r#"{"jsonrpc":"2.0","id":2,"method":7}"#, request(2)),
        (r#"{"jsonrpc":"2.0","id":3,"method":"tools/list","params":[]}"#, request(3)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, Route::Connection),
        ("{", Route::Connection),
    ] {
        ours.sender().send(Frame::new(text)).await.unwrap();
        let frame = timeout(Duration::from_secs(60), recv(&mut ours)).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.route, route, "{text}");
        assert!(code(&serde_json::from_slice(&frame.message).unwrap()).is_some(), "{text}");
    }
    drop(ours);
    served.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_error_of_an_oversized_request_has_the_route_of_the_request() {
    /// A transport that reads lines of at most 32 bytes, and keeps the routes of the frames that the server sends.
    struct ShortLines {
        lines: Ndjson<&'static [u8]>,
        sender: Arc<dyn FrameSender>,
    }

    impl Transport for ShortLines {
        fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
            self.lines.poll_recv(cx)
        }

        fn sender(&self) -> Arc<dyn FrameSender> {
            self.sender.clone()
        }
    }

    let options = Options::default().max_line(32);
    for (line, route) in [
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}\n", Route::Request(7.into())),
        ("{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n", Route::Connection),
        ("                                     \n", Route::Connection),
    ] {
        let (mut ours, theirs) = duplex(4);
        let lines = Ndjson::with_options(line.as_bytes(), tokio::io::sink(), &options);
        server().serve(ShortLines { lines, sender: theirs.sender() }).await.unwrap();
        let frame = timeout(Duration::from_secs(60), recv(&mut ours)).await.unwrap().unwrap().unwrap();
        assert_eq!(frame.route, route, "{line}");
        assert_eq!(code(&serde_json::from_slice(&frame.message).unwrap()), Some(-32600), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_disconnected_client_ends_the_connection() {
    let (ours, theirs) = duplex(4);
    let server = server();
    let sender = ours.sender();
    let served = tokio::spawn(async move { server.serve(theirs).await });
    drop(ours);
    // The response has no receiver.
    sender.send(Frame::new(modern(1, "tools/list", json!({})).to_string())).await.unwrap();
    timeout(Duration::from_secs(60), served).await.expect("the connection did not close").unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn reports_an_error_of_the_pipe_to_the_program() {
    let reader = broken::Broken;
    let error = server().serve_io(reader, tokio::io::sink()).await.unwrap_err();
    assert!(error.is_io());
    assert_eq!(error.to_string(), "the connection failed");
    let source = std::error::Error::source(&error).unwrap().to_string();
    // A `main` that returns the error prints this form.
    let printed = format!("{error:?}");
    assert!(printed.starts_with(&format!("the connection failed: {source}")), "{printed}");
}

mod broken {
    //! A reader that fails.

    use std::{
        io,
        pin::Pin,
        task::{Context, Poll},
    };

    use tokio::io::{AsyncRead, ReadBuf};

    pub(crate) struct Broken;

    impl AsyncRead for Broken {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::Error::other("the cable is cut")))
        }
    }
}

#[test]
fn writes_queued_responses_before_the_end() {
    use tokio::io::AsyncReadExt as _;

    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, end) = tokio::io::duplex(4096);
    let serving = std::thread::spawn(move || {
        let (hold, _seen) = hold();
        let server = Server::builder("test", "1")
            .tool(hold)
            .tool(tool("large", async || "x".repeat(100_000)))
            .limits(|limits| limits.drain = Duration::ZERO)
            .build();
        let (reader, writer) = tokio::io::split(end);
        // Unwritten data is lost with the runtime, as with a process.
        runtime().block_on(server.serve_io(reader, writer)).unwrap();
    });
    let read = runtime().block_on(async move {
        let (mut reader, mut writer) = tokio::io::split(client);
        for message in [modern(1, "tools/call", call("hold")), modern(2, "tools/call", call("large"))] {
            writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        }
        let mut read = vec![0; 10];
        reader.read_exact(&mut read).await.unwrap();
        writer.shutdown().await.unwrap();
        timeout(Duration::from_secs(10), reader.read_to_end(&mut read)).await.unwrap().unwrap();
        read
    });
    serving.join().unwrap();
    let answers: Vec<Value> = serde_json::Deserializer::from_slice(&read).into_iter().map(Result::unwrap).collect();
    assert_eq!((&answers[0]["id"], text_of(&answers[0]).len()), (&json!(2), 100_000));
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&json!(1), &json!(-32603)));
}

/// The address and the length of each body that arrived apart from its message.
type Bodies = Arc<Mutex<Vec<(usize, usize)>>>;

/// A transport that records the bodies of messages in pieces.
struct Recording(MemoryTransport, Bodies);

impl Transport for Recording {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, TransportError>>> {
        self.0.poll_recv(cx)
    }

    fn sender(&self) -> Arc<dyn FrameSender> {
        Arc::new(RecordingSender(self.0.sender(), self.1.clone()))
    }
}

struct RecordingSender(Arc<dyn FrameSender>, Bodies);

impl FrameSender for RecordingSender {
    fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.send(frame)
    }

    fn send_in_pieces(&self, frame: Frame, body: Line, end: Bytes) -> BoxFuture<'_, Result<(), TransportError>> {
        self.1.lock().unwrap().push((body.as_ptr().addr(), body.len()));
        self.0.send_in_pieces(frame, body, end)
    }

    fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
        self.0.try_send(frame)
    }

    fn ready(&self, len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.ready(len)
    }

    fn close(&self, id: &RequestId) {
        self.0.close(id);
    }

    fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
        self.0.shutdown()
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_part_of_a_response_is_not_copied() {
    let large = async || "abc".repeat(1 << 15);
    let described = tool("quick", async || "quick").description("d".repeat(16 << 10));
    let server = Server::builder("test", "1").tool(tool("large", large)).tool(described).build();
    let bodies = Bodies::default();
    let (mut client, transport) = duplex(16);
    let transport = Recording(transport, bodies.clone());
    let serving = tokio::spawn(async move { server.serve(transport).await });
    let mut all = Vec::new();
    // Each case: a request, the member of the result, and the minimum length of a part in bytes.
    for (method, params, member, least) in [
        ("tools/list", json!({}), "tools", Some(16 << 10)),
        ("tools/list", json!({}), "tools", Some(16 << 10)),
        ("tools/call", call("large"), "content", Some(3 << 15)),
        ("tools/call", call("quick"), "content", None),
    ] {
        client.sender().send(Frame::new(modern(1, method, params).to_string())).await.unwrap();
        let frame = timeout(Duration::from_secs(600), recv(&mut client)).await.unwrap().unwrap().unwrap();
        let response: Value = serde_json::from_slice(&frame.message).unwrap();
        assert!(response["result"][member].is_array(), "{method}");
        assert_eq!(frame.route, Route::Request(1.into()));
        let parts: Vec<_> = bodies.lock().unwrap().drain(..).collect();
        assert_eq!(parts.len(), usize::from(least.is_some()), "{method}");
        assert!(parts.iter().all(|(_, len)| least.is_some_and(|least| *len >= least)), "{method}: {parts:?}");
        all.extend(parts);
    }
    assert_eq!(all[0], all[1], "the page is not shared");
    drop(client);
    timeout(Duration::from_secs(600), serving).await.unwrap().unwrap().unwrap();
}
