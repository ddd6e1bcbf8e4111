//! A handler with the mistake "prompt as tool".

use mcp_server::prelude::*;

#[prompt]
async fn now() -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(now::route()).build();
}
