//! A handler with the mistake "unknown argument option".

use mcp_server::prelude::*;

#[tool]
async fn read(#[arg(defualt = 1)] lines: u32) -> String {
    lines.to_string()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
