//! A handler with the mistake "route missing".

use mcp_server::prelude::*;

async fn now() -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("clock", "1.0.0").tool(now).build();
}
