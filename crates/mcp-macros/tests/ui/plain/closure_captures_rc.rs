//! A handler with the mistake "closure captures rc".

use std::rc::Rc;

use mcp_server::prelude::*;

fn main() {
    let text = Rc::new(String::new());
    let text = move || {
        let text = text.to_string();
        async move { text }
    };
    let _ = Server::builder("all", "1.0.0").tool(tool("text", text)).build();
}
