//! Tools that count words, add a note and search the notes.

use mcp_server::{ServerBuilder, prelude::*};

use crate::notes::{Note, Notes};

/// Registers the tools.
pub fn add_to(builder: ServerBuilder<Notes>) -> ServerBuilder<Notes> {
    builder
        .tool(tool("count_words", count_words).read_only())
        .tool(tool("add_note", add_note).idempotent())
        .tool(tool("search_notes", search_notes).read_only())
}

/// Count the words of a text.
#[derive(Deserialize, JsonSchema)]
struct CountWords {
    /// The text to count.
    text: String,
}

async fn count_words(Args(CountWords { text }): Args<CountWords>) -> String {
    text.split_whitespace().count().to_string()
}

/// Store a note. A note with the same title is replaced.
#[derive(Deserialize, JsonSchema)]
struct AddNote {
    /// A short title.
    title: String,
    /// The text of the note.
    text: String,
}

async fn add_note(
    State(notes): State<Notes>,
    caller: Option<Principal>,
    Args(AddNote { title, text }): Args<AddNote>,
) -> Result<String, ToolError> {
    let author = caller.map(|caller| caller.subject);
    notes.put(title.clone(), text, author)?;
    Ok(format!("Stored `{title}`."))
}

/// Find the notes that contain a text.
#[derive(Deserialize, JsonSchema)]
struct SearchNotes {
    /// The text to find. Upper and lower case differ.
    part: String,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    notes: Vec<Note>,
}

async fn search_notes(State(notes): State<Notes>, Args(SearchNotes { part }): Args<SearchNotes>) -> Json<Found> {
    Json(Found { notes: notes.search(&part) })
}
