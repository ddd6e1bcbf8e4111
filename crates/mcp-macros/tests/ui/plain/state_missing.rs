//! A handler with the mistake "state missing".

use mcp_server::prelude::*;

#[derive(Clone)]
struct App;

async fn name(State(_app): State<App>) -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("names", "1.0.0").tool(tool("name", name)).build();
}
