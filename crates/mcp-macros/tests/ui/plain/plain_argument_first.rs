//! A handler with the mistake "plain argument first".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Query {
    text: String,
}

async fn search(limit: usize, Args(query): Args<Query>) -> String {
    format!("{limit} {}", query.text)
}

fn main() {
    let _ = Server::builder("search", "1.0.0").tool(tool("search", search)).build();
}
