//! A server of notes over stdio.

use std::sync::Arc;

use mcp_server::prelude::*;
use parking_lot::Mutex;

/// The most notes.
const MOST: usize = 1_000;

#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

/// Store a note.
#[derive(Deserialize, JsonSchema)]
struct AddNote {
    /// The text of the note.
    text: String,
}

async fn add_note(State(notes): State<Notes>, Args(AddNote { text }): Args<AddNote>) -> Result<String, ToolError> {
    let mut notes = notes.0.lock();
    if notes.len() >= MOST {
        return Err(ToolError::new(format!("the server has {MOST} notes already")));
    }
    notes.push(text);
    Ok(match notes.len() {
        1 => "1 note is stored.".to_owned(),
        count => format!("{count} notes are stored."),
    })
}

async fn list_notes(State(notes): State<Notes>) -> String {
    notes.0.lock().join("\n")
}

async fn delete_notes(State(notes): State<Notes>) -> String {
    let deleted = std::mem::take(&mut *notes.0.lock());
    format!("{} notes are deleted.", deleted.len())
}

#[tokio::main]
async fn main() -> Result<(), mcp_server::ServeError> {
    let builder = Server::builder("notes", env!("CARGO_PKG_VERSION"))
        .tool(tool("add_note", add_note))
        .tool(tool("list_notes", list_notes).description("List all notes.").read_only())
        .tool(tool("delete_notes", delete_notes).description("Delete all notes."));
    builder.with_state(Notes::default()).build().serve_stdio().await
}
