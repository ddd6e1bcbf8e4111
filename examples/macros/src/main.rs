//! A tool, a resource, a resource template and a prompt, over stdio.

use mcp_server::prelude::*;

/// Add two numbers.
#[tool(read_only)]
async fn add(a: i64, b: i64) -> String {
    (a + b).to_string()
}

/// The configuration of the application.
#[resource("config://app")]
async fn config() -> &'static str {
    "theme = dark"
}

/// A greeting for a person.
#[resource("greeting://{name}")]
async fn greeting(name: String) -> String {
    format!("Hello, {name}!")
}

#[prompt(title = "Code review")]
async fn review(code: String) -> String {
    format!("Review this code:\n\n{code}")
}

#[tokio::main]
async fn main() -> Result<(), mcp_server::ServeError> {
    let server = Server::builder("macros", "1.0.0").tool(add::route()).resource(config::route());
    server.resource_template(greeting::route()).prompt(review::route()).build().serve_stdio().await
}
