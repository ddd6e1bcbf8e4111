//! A server of one tool over HTTP. It prints its address, and ends with stdin. With the argument `one-thread`, its runtime has one thread.
//! With the argument `without-sessions`, `initialize` opens no session.

use std::{error::Error, io, io::Read, sync::Arc, thread};

use axum::{Router, serve::ListenerExt};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use tokio::{net::TcpListener, runtime::Builder};

mod server;

fn main() -> Result<(), Box<dyn Error>> {
    let has_one_thread = std::env::args().any(|arg| arg == "one-thread");
    let mut runtime = if has_one_thread { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    runtime.enable_all().build()?.block_on(serve())
}

async fn serve() -> Result<(), Box<dyn Error>> {
    // The responses of 2026-07-28 are JSON. A session has events, which begin with the response and not with an empty event.
    let has_sessions = !std::env::args().any(|arg| arg == "without-sessions");
    let config = StreamableHttpServerConfig::default().with_json_response(true).with_sse_retry(None);
    let config = config.with_legacy_session_mode(has_sessions);
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.sse_retry = None;
    let echo = server::Echo::new();
    let service = StreamableHttpService::new(move || Ok(echo.clone()), Arc::new(sessions), config);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    thread::spawn(|| {
        // The parent process ends the input, and does not wait for open sessions.
        let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
        std::process::exit(0);
    });
    let listener = listener.tap_io(|stream| {
        // Fails only if the connection has closed already.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, Router::new().nest_service("/mcp", service)).await?)
}
