//! A server with one tool: over HTTP, or over stdio with `--stdio`.

#![expect(clippy::print_stderr, reason = "over stdio, stdout carries protocol messages only")]

use mcp_server::prelude::*;

/// Count the occurrences of a letter or a word in a text.
#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The text to search.
    text: String,
    /// The letter or the word to count. Upper and lower case are equal.
    what: String,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    times: usize,
}

async fn count(Args(Count { text, what }): Args<Count>) -> Result<Json<Found>, ToolError> {
    if what.is_empty() {
        return Err(ToolError::new("`what` is empty: pass the letter or the word to count"));
    }
    let times = text.to_lowercase().matches(&what.to_lowercase()).count();
    Ok(Json(Found { times }))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = tool("count", count).read_only();
    let server = Server::builder("quickstart", env!("CARGO_PKG_VERSION")).tool(count).build();
    if std::env::args().any(|arg| arg == "--stdio") {
        server.serve_stdio().await?;
    } else {
        let config = HttpConfig::new().on_listening(|address| eprintln!("quickstart serves http://{address}/mcp"));
        server.serve_http_with("127.0.0.1:8080", config).await?;
    }
    Ok(())
}
