//! The router of both servers.

use schemars::JsonSchema;
use serde::Deserialize;
use tower_mcp::{CallToolResult, McpRouter, ToolBuilder};

#[derive(Debug, Deserialize, JsonSchema)]
struct Echo {
    /// The text to return.
    text: String,
}

/// A router with the tool `echo`.
pub fn router() -> McpRouter {
    let echo = ToolBuilder::new("echo")
        .title("Echo")
        .description("Say the text again.")
        .read_only()
        .handler(|Echo { text }: Echo| async move { Ok(CallToolResult::text(text)) })
        .build();
    McpRouter::new().server_info("bench", "1.0.0").tool(echo)
}
