//! A handler with the mistake "resource variable missing".

use mcp_server::prelude::*;

#[resource("notes://{day}")]
async fn day(date: String) -> String {
    date
}

fn main() {
    let _ = Server::builder("server", "1.0.0").resource_template(day::route()).build();
}
