//! A handler with the mistake "pattern argument".

use mcp_server::prelude::*;

#[tool]
async fn add((a, b): (f64, f64)) -> String {
    (a + b).to_string()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(add::route()).build();
}
