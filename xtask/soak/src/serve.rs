//! The servers under load: their tools, and the programs that serve them.

use std::{
    os::unix::process::parent_id,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::Error;
use mcp_agent::Host;
use mcp_client::{ChildProcess, Reconnect};
use mcp_server::prelude::*;
use serde_json::json;
use tokio::{net::TcpListener, runtime::Handle, time::sleep};

/// The number of counters that clients can watch.
pub(crate) const COUNTERS: usize = 16;
/// The time after which a session without a request ends.
pub(crate) const SESSION_IDLE: Duration = Duration::from_secs(10);
/// The time that a client can leave a response unread.
pub(crate) const UNREAD: Duration = Duration::from_secs(8);
/// The time after which the gateway ends a connection without calls.
pub(crate) const UPSTREAM_IDLE: Duration = Duration::from_secs(10);
/// The names of the servers behind the gateway: a server of its process, a server over HTTP, and a child process.
pub(crate) const UPSTREAMS: [&str; 3] = ["calm", "web", "pipe"];
/// The interval between two numbered log records.
const LOG_INTERVAL: Duration = Duration::from_millis(100);

/// The state of the handlers.
#[derive(Clone, Default)]
struct Work {
    /// The number of running calls of the tool `count`.
    running: Arc<AtomicUsize>,
    counters: Arc<[AtomicU64; COUNTERS]>,
}

/// A running call. Its drop ends the count, also if the server drops the handler.
struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Builds a server with all tools.
pub(crate) fn server() -> Server {
    let mut builder = Server::builder("soak", env!("CARGO_PKG_VERSION"))
        .tool(tool("echo", echo))
        .tool(tool("count", count))
        .tool(tool("big", big))
        .tool(tool("ask", ask))
        .tool(tool("bump", bump))
        .tool(tool("pid", async || std::process::id().to_string()))
        .tool(tool("state", state))
        .tool(tool("control", control));
    for number in 0..COUNTERS {
        let read = async move |State(work): State<Work>| work.counters[number].load(Ordering::Relaxed).to_string();
        builder = builder.resource(resource(counter_uri(number), read));
    }
    builder.with_state(Work::default()).build()
}

/// The URI of a counter.
pub(crate) fn counter_uri(number: usize) -> String {
    format!("counter://soak/{number}")
}

/// Repeat a text.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    text: String,
}

async fn echo(Args(Echo { text }): Args<Echo>) -> String {
    text
}

/// Count, and report each number as progress.
#[derive(Deserialize, JsonSchema)]
struct Count {
    to: u32,
    pause_ms: u64,
}

async fn count(State(work): State<Work>, progress: Progress, Args(Count { to, pause_ms }): Args<Count>) -> String {
    work.running.fetch_add(1, Ordering::Relaxed);
    let _running = Running(work.running);
    for number in 1..=to {
        sleep(Duration::from_millis(pause_ms)).await;
        progress.report(number, to, "counting").await;
    }
    format!("counted to {to}")
}

/// Return a long text.
#[derive(Deserialize, JsonSchema)]
struct Big {
    bytes: usize,
    /// The letter that the text repeats.
    letter: char,
}

async fn big(Args(Big { bytes, letter }): Args<Big>) -> String {
    letter.to_string().repeat(bytes)
}

/// Ask the user for a word, and return it.
#[derive(Deserialize, JsonSchema)]
struct Ask {
    question: String,
}

#[derive(Deserialize, JsonSchema)]
struct Word {
    /// The word.
    word: String,
}

async fn ask(inputs: Inputs, Args(Ask { question }): Args<Ask>) -> Result<String, ToolError> {
    let Word { word } = inputs.elicit("word", question).await?;
    Ok(word)
}

/// Increment a counter, and notify its subscribers.
#[derive(Deserialize, JsonSchema)]
struct Bump {
    counter: usize,
}

async fn bump(
    State(work): State<Work>,
    server: Server,
    Args(Bump { counter }): Args<Bump>,
) -> Result<String, ToolError> {
    let value = work.counters.get(counter).ok_or_else(|| ToolError::new("the counter does not exist"))?;
    let next = value.fetch_add(1, Ordering::Relaxed) + 1;
    server.notify().resource_updated(&counter_uri(counter));
    Ok(next.to_string())
}

/// Returns the number of tasks of the runtime, and the number of running calls of `count`.
async fn state(State(work): State<Work>) -> String {
    let tasks = Handle::current().metrics().num_alive_tasks();
    json!({ "tasks": tasks, "running": work.running.load(Ordering::Relaxed) }).to_string()
}

/// Opens an echo of bytes without the protocol, in the same runtime. Returns its port, which accepts one connection.
async fn control() -> Result<String, ToolError> {
    let failed = |_| ToolError::new("the control cannot listen");
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    tokio::spawn(async move {
        if let Ok((mut stream, _)) = listener.accept().await {
            let (mut reader, mut writer) = stream.split();
            // The canary ends the connection.
            let _ = tokio::io::copy(&mut reader, &mut writer).await;
        }
    });
    Ok(port.to_string())
}

/// Serves the tools over HTTP, with a numbered log record in each interval.
pub(crate) async fn node(port: u16) -> Result<(), Error> {
    end_with_parent();
    let server = server();
    let logging = server.clone();
    tokio::spawn(async move {
        for number in 1_u64.. {
            sleep(LOG_INTERVAL).await;
            logging.notify().log(LoggingLevel::Info, number);
        }
    });
    Ok(server.serve_http_with(("127.0.0.1", port), config()).await?)
}

/// Serves the tools over stdin and stdout.
pub(crate) async fn stdio() -> Result<(), Error> {
    Ok(server().serve_stdio().await?)
}

/// Serves a gateway in front of the three [`UPSTREAMS`].
pub(crate) async fn gateway(port: u16, upstream: &str) -> Result<(), Error> {
    end_with_parent();
    let [calm, web, pipe] = UPSTREAMS;
    let child = ChildProcess::new(std::env::current_exe()?).arg("stdio");
    let reconnect = Reconnect::default().first(Duration::from_millis(100)).longest(Duration::from_secs(2));
    let host = Host::builder("soak-gateway", env!("CARGO_PKG_VERSION"))
        .server(calm, &server())
        .server(web, upstream)
        .server(pipe, child)
        .reconnect(reconnect)
        .idle_stop(UPSTREAM_IDLE)
        .start()
        .await?;
    let server = host.clone().into_server()?.build();
    let served = server.serve_http_with(("127.0.0.1", port), config()).await;
    host.shutdown().await;
    Ok(served?)
}

/// The settings of both servers over HTTP. Short limits let a short run reach them.
fn config() -> HttpConfig {
    HttpConfig::new()
        .session_idle_timeout(SESSION_IDLE)
        .write_timeout(UNREAD)
        .keep_alive(Duration::from_secs(2))
        .retry_delay(Duration::from_millis(50))
        .on_listening(|address| eprintln!("the node serves http://{address}/mcp"))
}

/// Ends the process after its parent, which may be killed.
fn end_with_parent() {
    let parent = parent_id();
    thread::spawn(move || {
        while parent_id() == parent {
            thread::sleep(Duration::from_secs(1));
        }
        #[expect(clippy::exit, reason = "the program has no other work")]
        std::process::exit(1);
    });
}
