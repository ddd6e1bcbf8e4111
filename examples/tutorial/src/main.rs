//! `tutorial --stdio` serves one client over stdio. `tutorial` serves the application over HTTP.

use std::{env, error::Error, io};

use mcp_server::{http::listener, prelude::*, transport::signal};
use tokio::net::TcpListener;
use tutorial::{app::app, notes::Notes};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Over stdio, stdout carries messages, so logs go to stderr.
    tracing_subscriber::fmt().with_writer(io::stderr).with_ansi(false).init();
    let server = tutorial::server(Notes::default());
    if env::args().any(|arg| arg == "--stdio") {
        server.serve_stdio().await?;
        return Ok(());
    }
    let token = env::var("NOTES_TOKEN").map_err(|_| "set NOTES_TOKEN to the token that callers send")?;
    let address = env::var("NOTES_ADDRESS").unwrap_or_else(|_| "127.0.0.1:8080".to_owned());
    let host = env::var("NOTES_HOST").unwrap_or_else(|_| "localhost".to_owned());

    let config = HttpConfig::new().allowed_hosts([host]);
    let app = app(server.clone(), config, token.into());
    let tcp = TcpListener::bind(&address).await?;
    let serving = async {
        listener::serve(tcp, app).with_graceful_shutdown(server.shutting_down()).await;
        // Running tasks may finish, and their ends are stored.
        server.ended().await;
    };
    // SIGTERM and Ctrl-C begin the shutdown. Running calls may finish.
    signal::until_terminated(serving, || server.shutdown()).await;
    Ok(())
}
