//! A server in the same program, whose tool needs a model.

use mcp_server::{
    prelude::*,
    protocol::{CreateMessageParams, SamplingBlock, SamplingMessage},
};

/// Summarize a text.
#[derive(Deserialize, JsonSchema)]
struct Summarize {
    /// The text.
    text: String,
}

async fn summarize(inputs: Inputs, Args(Summarize { text }): Args<Summarize>) -> Result<String, ToolError> {
    let question = SamplingMessage::user(SamplingBlock::text(text));
    let answer = inputs.sample("summary", CreateMessageParams::new(vec![question], 100)).await?;
    Ok(answer.content.text())
}

/// Returns the server.
pub(crate) fn server() -> Server {
    Server::builder("notes", "1.0").tool(tool("summarize", summarize).description("Summarizes a text.")).build()
}
