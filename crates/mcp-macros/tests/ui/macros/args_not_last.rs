//! A handler with the mistake "args not last".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Range {
    lines: u32,
}

#[tool]
async fn read(Args(range): Args<Range>, context: Context) -> String {
    format!("{context:?} {}", range.lines)
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
