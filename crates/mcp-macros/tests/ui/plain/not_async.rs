//! A handler with the mistake "not async".

use mcp_server::prelude::*;

fn now() -> String {
    "12:00".to_owned()
}

fn main() {
    let _ = Server::builder("clock", "1.0.0").tool(tool("now", now)).build();
}
