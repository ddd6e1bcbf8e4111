//! A handler with the mistake "args without schema".

use mcp_server::prelude::*;

#[derive(Deserialize)]
struct Query {
    text: String,
}

async fn search(Args(query): Args<Query>) -> String {
    query.text
}

fn main() {
    let _ = Server::builder("search", "1.0.0").tool(tool("search", search)).build();
}
