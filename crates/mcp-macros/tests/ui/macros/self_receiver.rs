//! A handler with the mistake "self receiver".

use mcp_server::prelude::*;

#[tool]
async fn show(&self) -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(show::route()).build();
}
