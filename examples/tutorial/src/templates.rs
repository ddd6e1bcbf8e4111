//! Each note as a resource of its own, with completion of the title.

use mcp_server::{ServerBuilder, prelude::*};

use crate::notes::Notes;

/// Registers the resource template.
pub fn add_to(builder: ServerBuilder<Notes>) -> ServerBuilder<Notes> {
    builder.resource_template(
        template("notes://note/{title}", note)
            .name("note")
            .description("The text of one note.")
            .mime_type("text/plain")
            .complete("title", complete_title),
    )
}

#[derive(Deserialize, JsonSchema)]
struct ByTitle {
    title: String,
}

async fn note(State(notes): State<Notes>, Args(ByTitle { title }): Args<ByTitle>) -> Result<String, ToolError> {
    notes.text(&title).ok_or_else(ToolError::not_found)
}

/// Returns the titles that begin with the typed text. The prompt uses this function too.
pub async fn complete_title(State(notes): State<Notes>, completing: Completing) -> Vec<String> {
    notes.titles(&completing.value)
}
