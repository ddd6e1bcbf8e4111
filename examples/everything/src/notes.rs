//! Notes in memory: the state behind a tool, a resource template and a prompt.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;

/// The number of notes. Every client may write, so the number is bounded.
const MAX_NOTES: usize = 1_000;
/// The longest note, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// The notes by title. Clones share them.
#[derive(Clone)]
pub(crate) struct Notes {
    by_title: Arc<RwLock<BTreeMap<String, String>>>,
}

impl Default for Notes {
    fn default() -> Self {
        let welcome = ("welcome".to_owned(), "Notes live as long as the server does. Write one.".to_owned());
        Self { by_title: Arc::new(RwLock::new(BTreeMap::from([welcome]))) }
    }
}

impl Notes {
    /// Stores a note, and replaces a note with the same title. Returns whether the title is new, or why the note is invalid.
    pub(crate) fn write(&self, title: &str, text: String) -> Result<bool, String> {
        if title.is_empty() || title.len() > 100 {
            return Err("a title has 1 to 100 bytes".to_owned());
        }
        if text.len() > MAX_TEXT {
            return Err(format!("a note has at most {MAX_TEXT} bytes"));
        }
        let mut notes = self.by_title.write();
        if notes.len() >= MAX_NOTES && !notes.contains_key(title) {
            return Err(format!("there are already {MAX_NOTES} notes; replace an old one"));
        }
        Ok(notes.insert(title.to_owned(), text).is_none())
    }

    /// Returns the text of a note.
    pub(crate) fn read(&self, title: &str) -> Option<String> {
        self.by_title.read().get(title).cloned()
    }

    /// Returns the titles that begin with a text, in order.
    pub(crate) fn titles(&self, beginning: &str) -> Vec<String> {
        let notes = self.by_title.read();
        notes.keys().filter(|title| title.starts_with(beginning)).cloned().collect()
    }
}
