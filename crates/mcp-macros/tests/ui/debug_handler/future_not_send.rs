//! A handler with the mistake "future not send".

use mcp_server::prelude::*;

#[debug_handler]
async fn count() -> String {
    let count = std::rc::Rc::new(1);
    std::future::ready(()).await;
    count.to_string()
}

fn main() {}
