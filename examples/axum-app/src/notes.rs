//! The notes of the users, for the pages of the application and for the tools.

use std::{collections::HashMap, sync::Arc};

use mcp_server::prelude::*;
use parking_lot::Mutex;

/// The largest number of notes of a user.
const MAX_NOTES: usize = 100;
/// The longest note, in bytes.
const MAX_NOTE: usize = 1_000;

/// The notes of each user.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<HashMap<String, Vec<String>>>>);

impl Notes {
    /// Adds a note, and returns the number of notes of the user.
    ///
    /// # Errors
    /// If the note is too long, or the user has too many notes.
    pub fn add(&self, user: &str, text: String) -> Result<usize, String> {
        if text.len() > MAX_NOTE {
            return Err(format!("the note has {} bytes, and the limit is {MAX_NOTE}", text.len()));
        }
        let mut all = self.0.lock();
        let notes = all.entry(user.to_owned()).or_default();
        if notes.len() >= MAX_NOTES {
            return Err(format!("the user has {MAX_NOTES} notes already"));
        }
        notes.push(text);
        Ok(notes.len())
    }

    /// Returns the notes of a user.
    #[must_use]
    pub fn of(&self, user: &str) -> Vec<String> {
        self.0.lock().get(user).cloned().unwrap_or_default()
    }
}

/// Add a note of the caller.
#[derive(Deserialize, JsonSchema)]
struct AddNote {
    /// The text of the note.
    text: String,
}

async fn add_note(
    caller: Principal,
    State(notes): State<Notes>,
    Args(AddNote { text }): Args<AddNote>,
) -> Result<String, ToolError> {
    let count = notes.add(&caller.subject, text).map_err(ToolError::new)?;
    Ok(format!("{} has {count} notes.", caller.subject))
}

async fn list_notes(caller: Principal, State(notes): State<Notes>) -> String {
    notes.of(&caller.subject).join("\n")
}

/// Returns the MCP server over the notes. Its tools act for the user of the request.
#[must_use]
pub fn server(notes: Notes) -> Server {
    Server::builder("axum-app", env!("CARGO_PKG_VERSION"))
        .tool(tool("add_note", add_note).requires_authentication())
        .tool(
            tool("list_notes", list_notes)
                .description("Returns the notes of the caller.")
                .read_only()
                .requires_authentication(),
        )
        .with_state(notes)
        .build()
}
