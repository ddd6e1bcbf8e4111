//! A handler with the mistake "option of another type".

use mcp_server::prelude::*;

#[tool(title = 3)]
async fn read() -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
