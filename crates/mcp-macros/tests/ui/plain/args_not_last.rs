//! A handler with the mistake "args not last".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Query {
    text: String,
}

async fn search(Args(query): Args<Query>, context: Context) -> String {
    format!("{context:?} {}", query.text)
}

fn main() {
    let _ = Server::builder("search", "1.0.0").tool(tool("search", search)).build();
}
