//! A handler with the mistake "default of another type".

use mcp_server::prelude::*;

#[tool]
async fn read(#[arg(default = "ten")] lines: u32) -> String {
    lines.to_string()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
