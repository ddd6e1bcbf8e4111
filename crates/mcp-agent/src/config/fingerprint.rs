//! The hash of an entry, for approvals.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::file::read_text;

/// The texts outside of an entry that the entry refers to: the inputs of its file, and other files.
#[derive(Debug, Default)]
pub(super) struct Sources {
    texts: RefCell<BTreeMap<String, String>>,
    files: RefCell<Files>,
}

/// The files that the entries of a file name, with the hashes of their texts at the first reading. `None`: the file could not be
/// read.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Files(pub(super) BTreeMap<PathBuf, Option<String>>);

impl fmt::Debug for Files {
    /// Shows the number of the files. A path can contain a variable, and the hash of a short text shows the text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Files").field(&self.0.len()).finish()
    }
}

impl Sources {
    /// Adds the definition of an input. The answer of the user does not belong to it.
    pub(super) fn add_input(&self, id: &str, input: &Value) {
        self.texts.borrow_mut().insert(format!("input:{id}"), hash(&sorted(input).to_string()));
    }

    /// Reads a file for the entry. `path` is the text of the entry.
    ///
    /// # Errors
    /// The reason why the file cannot be read.
    pub(super) fn read_file(&self, path: &str, file: &Path) -> Result<String, String> {
        let text = read_text(file).map_err(|(_, reason)| reason);
        let hash = text.as_deref().ok().map(hash);
        self.files.borrow_mut().0.entry(file.to_owned()).or_insert_with(|| hash.clone());
        if let Some(hash) = hash {
            self.texts.borrow_mut().insert(format!("file:{path}"), hash);
        }
        text
    }

    /// Removes and returns the hashes of all texts of an entry.
    pub(super) fn take(&self) -> BTreeMap<String, String> {
        self.texts.take()
    }

    /// Removes and returns the files of all entries.
    pub(super) fn take_files(&self) -> Files {
        self.files.take()
    }
}

/// Returns the hash of an entry without expanded variables, of the path of its file, of its name and of the texts that the
/// entry refers to. The order of members does not change it.
pub(super) fn of(file: &Path, name: &str, entry: &Value, sources: &BTreeMap<String, String>) -> String {
    let mut parts = vec![json!(file.to_string_lossy()), json!(name), sorted(entry)];
    if !sources.is_empty() {
        parts.push(json!(sources));
    }
    hash(&Value::Array(parts).to_string())
}

/// Returns the SHA-256 of a text, in hexadecimal.
pub(super) fn hash(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            let sorted: Map<String, Value> =
                members.into_iter().map(|(name, value)| (name.clone(), sorted(value))).collect();
            Value::Object(sorted)
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_depends_on_entry_file_and_name_alone() {
        let file = Path::new("/p/.mcp.json");
        let of = |file, name, entry: &Value| of(file, name, entry, &BTreeMap::new());
        let entry = json!({"command": "a", "env": {"X": "1", "Y": "2"}});
        let same = json!({"env": {"Y": "2", "X": "1"}, "command": "a"});
        let first = of(file, "a", &entry);
        assert_eq!(first, of(file, "a", &same));
        assert_eq!(first.len(), 64);
        assert_ne!(first, of(file, "b", &entry));
        assert_ne!(first, of(Path::new("/q/.mcp.json"), "a", &entry));
        assert_ne!(first, of(file, "a", &json!({"command": "b", "env": {"X": "1", "Y": "2"}})));
        assert_ne!(of(file, "a", &json!({"args": ["1", "2"]})), of(file, "a", &json!({"args": ["2", "1"]})));
    }
}
