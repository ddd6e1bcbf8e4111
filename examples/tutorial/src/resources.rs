//! The list of all notes, as a resource.

use mcp_server::{ServerBuilder, prelude::*};

use crate::notes::Notes;

/// Registers the resource.
pub fn add_to(builder: ServerBuilder<Notes>) -> ServerBuilder<Notes> {
    builder.resource(
        resource("notes://all", all_notes)
            .title("All notes")
            .description("The titles of all notes, as a Markdown list.")
            .mime_type("text/markdown"),
    )
}

async fn all_notes(State(notes): State<Notes>) -> String {
    notes.titles("").iter().map(|title| format!("- {title}\n")).collect()
}
