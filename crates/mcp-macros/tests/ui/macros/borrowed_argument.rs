//! A handler with the mistake "borrowed argument".

use mcp_server::prelude::*;

#[tool]
async fn hello(name: &str) -> String {
    format!("Hello, {name}!")
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(hello::route()).build();
}
