//! A handler with the mistake "error is a string".

use mcp_server::prelude::*;

#[tool]
async fn read(path: String) -> Result<String, String> {
    Err(path)
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
