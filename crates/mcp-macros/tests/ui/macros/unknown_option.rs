//! A handler with the mistake "unknown option".

use mcp_server::prelude::*;

#[tool(readonly)]
async fn read() -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
