//! A handler with the mistake "args and plain argument".

use mcp_server::prelude::*;

#[derive(Deserialize, JsonSchema)]
struct Range {
    lines: u32,
}

#[tool]
async fn read(path: String, Args(range): Args<Range>) -> String {
    format!("{path} {}", range.lines)
}

fn main() {
    let _ = Server::builder("server", "1.0.0").tool(read::route()).build();
}
