//! The state of a Secret Service.

use std::{collections::HashMap, time::Duration};

#[derive(Default)]
pub(super) struct State {
    pub(super) entries: Vec<Entry>,
    pub(super) is_locked: bool,
    /// Whether the entries of the locked collection are hidden.
    pub(super) hides_locked: bool,
    pub(super) dismisses: bool,
    pub(super) ignores: bool,
    pub(super) prompts: usize,
    pub(super) search_delay: Duration,
    pub(super) is_stopped: bool,
}

pub(super) struct Entry {
    pub(super) attributes: HashMap<String, String>,
    pub(super) secret: Vec<u8>,
}

impl State {
    /// Adds an entry, and returns its number.
    pub(super) fn insert(&mut self, attributes: HashMap<String, String>, secret: Vec<u8>) -> usize {
        self.entries.push(Entry { attributes, secret });
        self.entries.len() - 1
    }

    /// Whether the entries are hidden now.
    pub(super) fn is_hiding(&self) -> bool {
        self.is_locked && self.hides_locked
    }

    /// Returns the numbers of the visible entries with these attributes. The newest is the first.
    pub(super) fn search(&self, attributes: &HashMap<String, String>) -> Vec<usize> {
        let has_all = |entry: &Entry| attributes.iter().all(|(name, value)| entry.attributes.get(name) == Some(value));
        let entries = self.entries.iter().enumerate().rev();
        entries.filter(|(_, entry)| !self.is_hiding() && has_all(entry)).map(|(number, _)| number).collect()
    }
}
