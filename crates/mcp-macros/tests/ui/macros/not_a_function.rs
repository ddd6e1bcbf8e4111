//! A handler with the mistake "not a function".

use mcp_server::prelude::*;

#[tool]
struct Now;

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(Now::route()).build();
}
