//! Serves the application at `http://127.0.0.1:8080`.

use axum_app::{app, logins::Logins, notes};
use mcp_server::{http::listener, prelude::HttpConfig, transport::signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().init();
    let all = notes::Notes::default();
    let server = notes::server(all.clone());
    let logins = Logins::new(&[("ada", "lovelace"), ("grace", "hopper")])?;
    // The URL at which clients reach the endpoint. Tokens are checked for this URL.
    let config = HttpConfig::new().public_url("http://127.0.0.1:8080/mcp");
    let app = app(server.clone(), logins, all, config);
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    let serving = async {
        listener::serve(tcp, app).with_graceful_shutdown(server.shutting_down()).await;
        // Running tasks may finish, and their ends are stored.
        server.ended().await;
    };
    // SIGTERM and Ctrl-C begin the shutdown.
    signal::until_terminated(serving, || server.shutdown()).await;
    Ok(())
}
