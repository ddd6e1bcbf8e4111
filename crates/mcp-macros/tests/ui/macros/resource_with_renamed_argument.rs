//! A handler with the mistake "resource with renamed argument".

use mcp_server::prelude::*;

#[resource("notes://{day}")]
async fn notes(#[serde(rename = "date")] day: String) -> String {
    day
}

fn main() {
    let _ = Server::builder("server", "1.0.0").resource_template(notes::route()).build();
}
