//! A handler with the mistake "args twice".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Query {
    text: String,
}

async fn search(Args(first): Args<Query>, Args(second): Args<Query>) -> String {
    first.text + &second.text
}

fn main() {
    let _ = Server::builder("search", "1.0.0").tool(tool("search", search)).build();
}
