//! A handler with the mistake "args twice".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Query {
    text: String,
}

#[debug_handler]
async fn search(Args(first): Args<Query>, Args(second): Args<Query>) -> String {
    first.text + &second.text
}

fn main() {}
