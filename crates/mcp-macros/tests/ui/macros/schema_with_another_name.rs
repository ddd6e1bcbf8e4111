//! A handler with the mistake "schema with another name".

use mcp_server::prelude::*;

#[tool]
async fn notes(#[schemars(length(min = 1), rename = "day")] date: String) -> String {
    date
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(notes::route()).build();
}
