//! A handler with the mistake "resource without uri".

use mcp_server::prelude::*;

#[resource]
async fn today() -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").resource(today::route()).build();
}
