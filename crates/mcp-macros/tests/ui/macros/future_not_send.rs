//! A handler with the mistake "future not send".

use mcp_server::prelude::*;

#[tool]
async fn count() -> String {
    let count = std::rc::Rc::new(1);
    std::future::ready(()).await;
    count.to_string()
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(count::route()).build();
}
