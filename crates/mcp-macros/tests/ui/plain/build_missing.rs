//! A handler with the mistake "build missing".

use mcp_server::prelude::*;

async fn now() -> String {
    String::new()
}

fn main() {
    let server = Server::builder("clock", "1.0.0").tool(tool("now", now));
    let _ = server.serve_stdio();
}
