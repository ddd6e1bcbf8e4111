//! A handler with the mistake "prompt as tool".

use mcp_server::prelude::*;

async fn now() -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("clock", "1.0.0").tool(prompt("now", now)).build();
}
