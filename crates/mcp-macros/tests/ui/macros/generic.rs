//! A handler with the mistake "generic".

use mcp_server::prelude::*;

#[tool]
async fn show<T: std::fmt::Display>(value: T) -> String {
    value.to_string()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(show::route()).build();
}
