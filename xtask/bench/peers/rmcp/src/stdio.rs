//! A server of one tool over stdin and stdout.

use std::error::Error;

use rmcp::{ServiceExt, transport::stdio_pipes};

mod server;

// The pipes are read and written without threads: `stdio()` moves each read and each write to another thread.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    server::Echo::new().serve(stdio_pipes()).await?.waiting().await?;
    Ok(())
}
