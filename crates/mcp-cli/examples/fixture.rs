//! A server for the tests of `mcp`, over stdio.

#[path = "../tests/server.rs"]
mod server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Ok(server::server().serve_stdio().await?)
}
