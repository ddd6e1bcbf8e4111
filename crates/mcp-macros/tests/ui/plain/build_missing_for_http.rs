//! A server with the mistake "build missing for HTTP".

use mcp_server::prelude::*;

async fn now() -> String {
    String::new()
}

fn main() {
    let clock = Server::builder("clock", "1.0.0").tool(tool("now", now));
    let _app = clock.into_router(()).fallback(());
}
