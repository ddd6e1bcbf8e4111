//! The server under test: handlers and settings as a user writes them.

use std::{sync::Arc, thread};

use mcp_server::{ServerBuilder, prelude::*, tasks::TaskSupport};
use mcp_store_redis::{RedisOptions, RedisStore};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
};

use crate::{
    auth::{self, Auth},
    cpu,
    error::Error,
    peer,
};

/// Say the text again.
#[derive(Deserialize, JsonSchema)]
struct Echo {
    /// The text to return.
    text: String,
}

async fn echo(Args(Echo { text }): Args<Echo>) -> String {
    text
}

/// Make a text of a size.
#[derive(Deserialize, JsonSchema)]
struct Big {
    /// How many bytes.
    n: usize,
}

async fn big(Args(Big { n }): Args<Big>) -> String {
    "x".repeat(n)
}

/// Report progress once.
async fn step(progress: Progress) -> &'static str {
    progress.report(1, 1, "the only step").await;
    "done"
}

/// Find the entries that contain a text.
#[derive(Deserialize, JsonSchema)]
struct Find {
    /// The text to search for.
    text: String,
    /// The most entries that are wanted.
    limit: Option<u32>,
}

async fn find(Args(Find { text, limit }): Args<Find>) -> String {
    format!("{} times {text}", limit.unwrap_or_default())
}

pub(crate) fn server(tools: usize) -> Server {
    builder(tools).build()
}

fn builder(tools: usize) -> ServerBuilder {
    let mut builder = Server::builder("bench", "1.0.0")
        .tool(tool("echo", echo).title("Echo").read_only())
        .tool(tool("big", big).title("A large text").read_only())
        .tool(tool("step", step).title("A step").read_only());
    for name in more_names(tools) {
        builder = builder.tool(tool(name, find).title("Find entries").read_only());
    }
    builder
}

/// Names for as many more tools as make `tools` in all.
fn more_names(tools: usize) -> impl Iterator<Item = String> {
    (4..=tools).map(|n| format!("find_{n:04}"))
}

/// Serves HTTP on a free port until stdin ends. It prints the address, and the credential for a server with authentication.
pub(crate) fn http(tools: usize, auth: Option<Auth>, redis: Option<&str>) -> Result<(), Error> {
    Runtime::new()?.block_on(async {
        let mut builder = builder(tools);
        if let Some(url) = redis {
            builder = builder.store(Arc::new(RedisStore::connect(RedisOptions::from_url(url)?).await?));
        }
        let server = builder.build();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        let config = match auth {
            None => HttpConfig::new(),
            Some(auth) => {
                let (config, issued) = auth::configured(auth).await?;
                println!("{}", issued.to_line());
                config
            }
        };
        end_with_stdin(&server);
        Ok(server.serve_http_on(listener, config).await?)
    })
}

/// The resource that [`notify`] updates.
pub(crate) const STATE: &str = "bench://state";
/// More sessions, streams and tasks than the measurement of growth opens.
const MANY: usize = 200_000;

async fn state() -> &'static str {
    "the state"
}

/// Notify the clients about changes.
async fn notify(server: Server) -> &'static str {
    server.notify().tools_changed();
    server.notify().resource_updated(STATE);
    "done"
}

async fn job() -> &'static str {
    "done"
}

/// Serves HTTP with raised limits on a free port until stdin ends. It prints the address.
pub(crate) fn growth(tools: usize) -> Result<(), Error> {
    cpu::raise_files();
    Runtime::new()?.block_on(async {
        let server = builder(tools)
            .tool(tool("notify", notify))
            .tool(tool("job", job).task(TaskSupport::Optional))
            .resource(resource(STATE, state))
            .limits(|limits| {
                limits.listen_streams = MANY;
                limits.tasks.unauthenticated = MANY;
            })
            .build();
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        end_with_stdin(&server);
        Ok(server.serve_http_on(listener, HttpConfig::new().max_sessions(MANY).max_connections(MANY)).await?)
    })
}

/// Shuts the server down at the end of stdin.
fn end_with_stdin(server: &Server) {
    let running = server.clone();
    thread::spawn(move || {
        peer::wait_for_end();
        running.shutdown();
    });
}

/// Serves stdin and stdout on one thread, as the servers of other libraries do.
pub(crate) fn stdio(tools: usize) -> Result<(), Error> {
    Builder::new_current_thread().enable_all().build()?.block_on(async { Ok(server(tools).serve_stdio().await?) })
}
