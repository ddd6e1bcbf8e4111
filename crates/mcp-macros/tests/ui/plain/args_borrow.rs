//! A handler with the mistake "args borrow".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Query<'a> {
    text: &'a str,
}

async fn search(Args(query): Args<Query<'_>>) -> String {
    query.text.to_owned()
}

fn main() {
    let _ = Server::builder("search", "1.0.0").tool(tool("search", search)).build();
}
