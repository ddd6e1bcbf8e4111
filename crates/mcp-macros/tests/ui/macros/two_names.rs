//! A handler with the mistake "two names".

use mcp_server::prelude::*;

#[tool]
async fn notes(
    #[arg(name = "date")]
    #[serde(rename = "day")]
    date: String,
) -> String {
    date
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(notes::route()).build();
}
