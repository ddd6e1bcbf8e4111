//! A handler with the mistake "route missing".

use mcp_server::prelude::*;

#[tool]
async fn now() -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(now).build();
}
