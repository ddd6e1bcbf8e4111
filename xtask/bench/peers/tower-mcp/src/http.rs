//! A server over HTTP. It prints its address, and ends with stdin. With the argument `one-thread`, its runtime has one thread.

use std::{io, thread};

use axum::serve::ListenerExt;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::{net::TcpListener, runtime::Builder};
use tower_mcp::{BoxError, CallToolResult, HttpTransport, ToolBuilder};

mod server;

/// The arguments of the tool of the text case.
#[derive(Debug, Deserialize, JsonSchema)]
struct Big {
    /// How many bytes.
    n: usize,
}

fn main() -> Result<(), BoxError> {
    let has_one_thread = std::env::args().any(|arg| arg == "one-thread");
    let mut runtime = if has_one_thread { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    runtime.enable_all().build()?.block_on(serve())
}

async fn serve() -> Result<(), BoxError> {
    let big = ToolBuilder::new("big")
        .description("Make a text of a size.")
        .handler(|Big { n }: Big| async move { Ok(CallToolResult::text("x".repeat(n))) })
        .build();
    let router = HttpTransport::new(server::router().tool(big)).into_router_at("/mcp");
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    thread::spawn(|| {
        // The parent process ends the input, and does not wait for open sessions.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        std::process::exit(0);
    });
    let listener = listener.tap_io(|stream| {
        // Fails only if the connection has closed already.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}
