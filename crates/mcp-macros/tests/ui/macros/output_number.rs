//! A handler with the mistake "output number".

use mcp_server::prelude::*;

#[tool]
async fn answer() -> u64 {
    42
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(answer::route()).build();
}
