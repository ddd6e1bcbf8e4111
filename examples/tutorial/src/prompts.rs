//! A prompt that asks the model to summarize a note.

use mcp_server::{ServerBuilder, prelude::*};

use crate::{notes::Notes, templates::complete_title};

/// Registers the prompt.
pub fn add_to(builder: ServerBuilder<Notes>) -> ServerBuilder<Notes> {
    builder.prompt(prompt("summarize", summarize).title("Summarize a note").complete("title", complete_title))
}

/// Summarize one note.
#[derive(Deserialize, JsonSchema)]
struct Summarize {
    /// The title of the note.
    title: String,
}

async fn summarize(
    State(notes): State<Notes>,
    Args(Summarize { title }): Args<Summarize>,
) -> Result<String, ToolError> {
    let text = notes.text(&title).ok_or_else(|| ToolError::new(format!("there is no note `{title}`")))?;
    Ok(format!("Summarize this note in one sentence.\n\n{text}"))
}
