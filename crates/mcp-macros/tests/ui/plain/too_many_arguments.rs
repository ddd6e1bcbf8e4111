//! A handler with the mistake "too many arguments".

use mcp_server::prelude::*;

type C = Context;

async fn all(_: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C, _: C) -> String {
    String::new()
}

fn main() {
    let _ = Server::builder("all", "1.0.0").tool(tool("all", all)).build();
}
