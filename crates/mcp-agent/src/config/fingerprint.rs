//! The hash of an entry, for approvals.

use std::path::Path;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Returns the hash of an entry without expanded variables, of the path of its file and of its name. The order of members
/// does not change it.
pub(super) fn of(file: &Path, name: &str, entry: &Value) -> String {
    let value = json!([file.to_string_lossy(), name, sorted(entry)]);
    Sha256::digest(value.to_string().as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
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
