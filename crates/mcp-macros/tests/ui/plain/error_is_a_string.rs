//! A handler with the mistake "error is a string".

use mcp_server::prelude::*;

async fn read() -> Result<String, String> {
    Err("no such file".to_owned())
}

fn main() {
    let _ = Server::builder("files", "1.0.0").tool(tool("read", read)).build();
}
