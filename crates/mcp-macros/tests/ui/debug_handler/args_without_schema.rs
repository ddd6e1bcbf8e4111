//! A handler with the mistake "args without schema".

use mcp_server::prelude::*;

#[derive(Deserialize)]
struct Query {
    text: String,
}

#[debug_handler]
async fn search(Args(query): Args<Query>) -> String {
    query.text
}

fn main() {}
