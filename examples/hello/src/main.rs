//! A server with one tool, over stdio.

use mcp_server::prelude::*;

/// Greet a person.
#[tool(read_only)]
async fn hello(name: String) -> String {
    format!("Hello, {name}!")
}

#[tokio::main]
async fn main() -> Result<(), mcp_server::ServeError> {
    Server::builder("hello", "1.0.0").tool(hello::route()).build().serve_stdio().await
}
