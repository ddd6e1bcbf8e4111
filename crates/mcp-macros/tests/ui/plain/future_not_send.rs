//! A handler with the mistake "future not send".

use std::rc::Rc;

use mcp_server::prelude::*;

async fn count() -> String {
    let count = Rc::new(1);
    std::future::ready(()).await;
    count.to_string()
}

fn main() {
    let _ = Server::builder("counter", "1.0.0").tool(tool("count", count)).build();
}
