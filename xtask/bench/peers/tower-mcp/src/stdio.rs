//! A server of one tool over stdin and stdout.

use tower_mcp::{BoxError, StdioTransport};

mod server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), BoxError> {
    Ok(StdioTransport::new(server::router()).run().await?)
}
