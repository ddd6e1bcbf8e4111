//! A handler with the mistake "plain argument first".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Query {
    text: String,
}

#[debug_handler]
async fn search(limit: usize, Args(query): Args<Query>) -> String {
    format!("{limit} {}", query.text)
}

fn main() {}
