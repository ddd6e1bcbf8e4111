//! A handler with the mistake "default of an option".

use mcp_server::prelude::*;

#[tool]
async fn read(#[arg(default = 3)] lines: Option<u32>) -> String {
    format!("{lines:?}")
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
