//! A handler with the mistake "plain argument".

use mcp_server::prelude::*;

async fn hello(name: String) -> String {
    format!("Hello, {name}!")
}

fn main() {
    let _ = Server::builder("greeter", "1.0.0").tool(tool("hello", hello)).build();
}
