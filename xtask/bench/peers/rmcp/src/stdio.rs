//! A server of one tool over stdin and stdout. With the argument `blocking`, threads for blocking calls read and write.

use std::error::Error;

use rmcp::{
    ServiceExt,
    transport::{stdio, stdio_pipes},
};

mod server;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let echo = server::Echo::new();
    if std::env::args().any(|arg| arg == "blocking") {
        echo.serve(stdio()).await?.waiting().await?;
    } else {
        echo.serve(stdio_pipes()).await?.waiting().await?;
    }
    Ok(())
}
