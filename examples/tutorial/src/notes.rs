//! The notes, which all handlers share.

use std::{collections::BTreeMap, sync::Arc};

use mcp_server::prelude::*;
use parking_lot::RwLock;

/// Any client may add notes, so their number has a limit.
const MAX_NOTES: usize = 1_000;

/// One note, as the tools return it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Note {
    title: String,
    text: String,
    /// The user that wrote the note, if the server knows the user.
    author: Option<String>,
}

/// All notes, by title. Clones share the notes.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<RwLock<BTreeMap<String, Note>>>);

impl Notes {
    /// Stores a note. It replaces a note with the same title.
    ///
    /// # Errors
    /// Returns a text for the model if the title is empty, or if the server stores too many notes.
    pub fn put(&self, title: String, text: String, author: Option<String>) -> Result<(), ToolError> {
        if title.is_empty() {
            return Err(ToolError::new("the title is empty: pass a short title"));
        }
        let mut notes = self.0.write();
        if notes.len() >= MAX_NOTES && !notes.contains_key(&title) {
            return Err(ToolError::new(format!("the server has {MAX_NOTES} notes: delete a note first")));
        }
        notes.insert(title.clone(), Note { title, text, author });
        Ok(())
    }

    /// Returns the text of the note with this title.
    pub fn text(&self, title: &str) -> Option<String> {
        self.0.read().get(title).map(|note| note.text.clone())
    }

    /// Removes the note with this title. Returns false if no such note exists.
    pub fn remove(&self, title: &str) -> bool {
        self.0.write().remove(title).is_some()
    }

    /// Returns the notes whose title or text contains `part`.
    pub fn search(&self, part: &str) -> Vec<Note> {
        let notes = self.0.read();
        notes.values().filter(|note| note.title.contains(part) || note.text.contains(part)).cloned().collect()
    }

    /// Returns the titles that begin with `beginning`.
    pub fn titles(&self, beginning: &str) -> Vec<String> {
        let notes = self.0.read();
        notes.keys().filter(|title| title.starts_with(beginning)).cloned().collect()
    }
}
