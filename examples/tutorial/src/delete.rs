//! A tool that asks the user before it deletes a note.

use mcp_server::{ServerBuilder, prelude::*};

use crate::notes::Notes;

/// Registers the tool.
pub fn add_to(builder: ServerBuilder<Notes>) -> ServerBuilder<Notes> {
    builder.tool(tool("delete_note", delete_note).destructive())
}

/// Delete a note. The user confirms the deletion.
#[derive(Deserialize, JsonSchema)]
struct DeleteNote {
    /// The title of the note.
    title: String,
}

async fn delete_note(
    State(notes): State<Notes>,
    inputs: Inputs,
    Args(DeleteNote { title }): Args<DeleteNote>,
) -> Result<String, ToolError> {
    // This code can run twice, so it only reads.
    if notes.text(&title).is_none() {
        return Err(ToolError::new(format!("there is no note `{title}`")));
    }
    let agrees = inputs.confirm("delete", format!("Delete the note `{title}`?")).await?;
    // No question follows, so this code runs once.
    if agrees && notes.remove(&title) { Ok(format!("Deleted `{title}`.")) } else { Ok(format!("Kept `{title}`.")) }
}
