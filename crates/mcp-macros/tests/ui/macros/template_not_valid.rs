//! A handler with the mistake "template not valid".

use mcp_server::prelude::*;

#[resource("notes://{date")]
async fn day(date: String) -> String {
    date
}

fn main() {
    let _ = Server::builder("server", "1.0.0").resource_template(day::route()).build();
}
