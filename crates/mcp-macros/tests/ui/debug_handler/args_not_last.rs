//! A handler with the mistake "args not last".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Query {
    text: String,
}

#[debug_handler]
async fn search(Args(query): Args<Query>, context: Context) -> String {
    format!("{context:?} {}", query.text)
}

fn main() {}
