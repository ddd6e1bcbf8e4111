//! Renamed property keys, and arguments with them.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::{name, rules::Rules};

/// The greatest depth of arguments that are walked.
const MAX_DEPTH: usize = 128;

/// The property keys of one tool that have another name in the request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Keys {
    renamed: HashMap<String, String>,
    original: HashMap<String, String>,
}

impl Keys {
    /// Returns the key of a property in the request. `None`: two keys of the tool would have the same name.
    pub(crate) fn rename(&mut self, key: &str, rules: &Rules) -> Option<String> {
        let Some(rule) = &rules.key else { return Some(key.to_owned()) };
        if let Some(known) = self.renamed.get(key) {
            return Some(known.clone());
        }
        let safe = name::safe(key, rule);
        if safe != key {
            if self.original.contains_key(&safe) {
                return None;
            }
            self.original.insert(safe.clone(), key.to_owned());
            self.renamed.insert(key.to_owned(), safe.clone());
        }
        Some(safe)
    }

    /// Returns arguments of a model with the keys of the server.
    pub(crate) fn restore(&self, arguments: Map<String, Value>) -> Map<String, Value> {
        if self.original.is_empty() { arguments } else { replace(&self.original, arguments, 0) }
    }

    /// Returns arguments of the server with the keys of the request.
    pub(crate) fn apply(&self, arguments: Map<String, Value>) -> Map<String, Value> {
        if self.renamed.is_empty() { arguments } else { replace(&self.renamed, arguments, 0) }
    }
}

fn replace(names: &HashMap<String, String>, members: Map<String, Value>, depth: usize) -> Map<String, Value> {
    members
        .into_iter()
        .map(|(key, value)| (names.get(&key).cloned().unwrap_or(key), replace_value(names, value, depth + 1)))
        .collect()
}

fn replace_value(names: &HashMap<String, String>, value: Value, depth: usize) -> Value {
    match value {
        Value::Object(members) if depth < MAX_DEPTH => Value::Object(replace(names, members, depth)),
        Value::Array(items) if depth < MAX_DEPTH => {
            items.into_iter().map(|item| replace_value(names, item, depth + 1)).collect()
        }
        value => value,
    }
}
