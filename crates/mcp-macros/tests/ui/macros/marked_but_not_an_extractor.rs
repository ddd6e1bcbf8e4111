//! A handler with the mistake "marked but not an extractor".

use mcp_server::prelude::*;

#[tool]
async fn show(#[extract] name: String) -> String {
    name
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(show::route()).build();
}
