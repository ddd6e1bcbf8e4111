//! A tool that stores many notes and reports its progress.

use mcp_server::{ServerBuilder, prelude::*};

use crate::notes::Notes;

/// Registers the tool.
pub fn add_to(builder: ServerBuilder<Notes>) -> ServerBuilder<Notes> {
    builder.tool(tool("import_notes", import_notes).idempotent())
}

/// Store many notes in one call.
#[derive(Deserialize, JsonSchema)]
struct ImportNotes {
    /// The notes.
    notes: Vec<NewNote>,
}

#[derive(Deserialize, JsonSchema)]
struct NewNote {
    /// A short title.
    title: String,
    /// The text of the note.
    text: String,
}

async fn import_notes(
    State(notes): State<Notes>,
    progress: Progress,
    Args(ImportNotes { notes: new }): Args<ImportNotes>,
) -> Result<String, ToolError> {
    let total = new.len();
    for (done, NewNote { title, text }) in (1..).zip(new) {
        notes.put(title.clone(), text, None)?;
        progress.report(done, total, title.as_str()).await;
    }
    Ok(format!("Stored {total} notes."))
}
