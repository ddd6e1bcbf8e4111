//! A handler with the mistake "not a function".

use mcp_server::prelude::*;

fn main() {
    let _ = Server::builder("all", "1.0.0").tool(tool("text", "a text")).build();
}
