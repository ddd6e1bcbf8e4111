//! A server with one tool: over HTTP, or over stdio with `--stdio`.

#![expect(clippy::print_stderr, reason = "a server says on stderr where it listens: stdout may be the protocol's")]

use mcp_server::prelude::*;

/// Count how often a letter or a word occurs in a text.
#[derive(Deserialize, JsonSchema)]
struct Count {
    /// The text to look through.
    text: String,
    /// What to look for; capitals do not matter.
    what: String,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    times: usize,
}

async fn count(Args(Count { text, what }): Args<Count>) -> Result<Json<Found>, ToolError> {
    if what.is_empty() {
        return Err(ToolError::new("`what` is empty: give the letter or word to look for"));
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
