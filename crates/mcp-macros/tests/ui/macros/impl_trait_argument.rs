//! A handler with the mistake "impl trait argument".

use mcp_server::prelude::*;

#[tool]
async fn show(value: impl std::fmt::Display) -> String {
    value.to_string()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(show::route()).build();
}
