//! The record of an installation: the part of a file that changed.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::config::replace_file;

/// The changed part of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The text before the change. `None` if the file did not exist.
    removed: Option<String>,
    /// The text after the change.
    inserted: String,
}

impl Record {
    /// Returns the smallest part that differs between two texts.
    pub(super) fn between(old: Option<&str>, new: &str) -> Self {
        let Some(old) = old else { return Self { removed: None, inserted: new.to_owned() } };
        let start = old.char_indices().zip(new.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
        let start = start.unwrap_or(old.len().min(new.len()));
        let (old, new) = (&old[start..], &new[start..]);
        let end: usize =
            old.chars().rev().zip(new.chars().rev()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        Self { removed: Some(old[..old.len() - end].to_owned()), inserted: new[..new.len() - end].to_owned() }
    }

    /// Returns the text without the change: `Some(None)` if the file did not exist. `None` if the text has the changed part
    /// not exactly once.
    pub(super) fn undo(&self, text: &str) -> Option<Option<String>> {
        let Some(removed) = &self.removed else { return (text == self.inserted).then_some(None) };
        let mut places = text.match_indices(&self.inserted);
        let (at, _) = places.next().filter(|_| !self.inserted.is_empty())?;
        if places.next().is_some() {
            return None;
        }
        Some(Some(format!("{}{removed}{}", &text[..at], &text[at + self.inserted.len()..])))
    }

    pub(super) fn save(&self, directory: &Path, file: &Path, name: &str) -> io::Result<()> {
        let value = json!({
            "file": file.to_string_lossy(), "name": name, "removed": self.removed, "inserted": self.inserted,
        });
        replace_file(&path(directory, file, name), format!("{value:#}\n").as_bytes())
    }

    /// Reads a record. A damaged record counts as missing.
    pub(super) fn load(directory: &Path, file: &Path, name: &str) -> Option<Self> {
        let value: Value = serde_json::from_slice(&fs::read(path(directory, file, name)).ok()?).ok()?;
        let removed = match value.get("removed")? {
            Value::Null => None,
            text => Some(text.as_str()?.to_owned()),
        };
        Some(Self { removed, inserted: value.get("inserted")?.as_str()?.to_owned() })
    }

    pub(super) fn forget(directory: &Path, file: &Path, name: &str) {
        if let Err(error) = fs::remove_file(path(directory, file, name))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(%error, "the record of an installation is not removed");
        }
    }
}

fn path(directory: &Path, file: &Path, name: &str) -> PathBuf {
    let file = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let key = json!([file.to_string_lossy(), name]).to_string();
    let digest: String = Sha256::digest(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    directory.join(format!("{digest}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_restores_the_text() {
        for (old, new) in [
            ("{}", "{\"a\":1}"),
            ("{\"é\": {}}", "{\"é\": {}, \"è\": {}}"),
            ("aa", "aaa"),
            ("", "x"),
            ("a\r\nb", "a\r\nb\r\nc"),
        ] {
            let record = Record::between(Some(old), new);
            assert_eq!(
                record.undo(new),
                Some(Some(old.to_owned())).filter(|_| new.matches(&record.inserted).count() == 1)
            );
        }
        assert_eq!(Record::between(None, "x").undo("x"), Some(None));
        assert_eq!(Record::between(None, "x").undo("y"), None);
        assert_eq!(Record::between(Some("{}"), "{1}").undo("{2}"), None);
    }
}
