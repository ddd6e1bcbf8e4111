//! A handler with the mistake "output number".

use mcp_server::prelude::*;

async fn answer() -> u64 {
    42
}

fn main() {
    let _ = Server::builder("answers", "1.0.0").tool(tool("answer", answer)).build();
}
