//! A handler with the mistake "not async".

use mcp_server::prelude::*;

#[tool]
fn now() -> String {
    "12:00".to_owned()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(now::route()).build();
}
