//! A handler with the mistake "build missing in return".

use mcp_server::prelude::*;

async fn now() -> String {
    String::new()
}

fn server() -> Server {
    Server::builder("clock", "1.0.0").tool(tool("now", now))
}

fn main() {
    let _ = server();
}
