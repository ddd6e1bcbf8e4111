//! A server of one tool over stdin and stdout.

use std::error::Error;

use rmcp::{ServiceExt, transport::stdio};

mod server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    server::Echo::new().serve(stdio()).await?.waiting().await?;
    Ok(())
}
