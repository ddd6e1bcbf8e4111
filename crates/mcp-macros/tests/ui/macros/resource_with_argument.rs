//! A handler with the mistake "resource with argument".

use mcp_server::prelude::*;

#[resource("notes://today")]
async fn day(date: String) -> String {
    date
}

fn main() {
    let _ = Server::builder("server", "1.0.0").resource(day::route()).build();
}
