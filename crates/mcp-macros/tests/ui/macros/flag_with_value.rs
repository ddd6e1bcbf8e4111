//! A handler with the mistake "flag with value".

use mcp_server::prelude::*;

#[tool(read_only = true)]
async fn read() -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
