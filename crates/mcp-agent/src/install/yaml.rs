//! Texts that users insert into YAML files. No editor of YAML keeps all bytes, so the installer does not write them.

use serde_json::Value;

use super::rendering;
use crate::config::Format;

/// Returns whether a document has an entry of a server, also in a list.
pub(super) fn contains(document: &Value, key: Option<&str>, name: &str) -> bool {
    let servers = key.and_then(|key| document.get(key)).and_then(Value::as_array);
    servers.is_some_and(|servers| servers.iter().any(|server| server["name"] == name))
}

/// Returns the text of a new entry below its key.
pub(super) fn snippet(format: Format, name: &str, entry: &Value) -> String {
    let mut out = format!("{}:\n", rendering::key(format).unwrap_or_default());
    if format == Format::Continue {
        out.push_str(&format!("  - name: {}\n", Value::from(name)));
        write(entry, 4, &mut out);
    } else {
        out.push_str(&format!("  {}:\n", Value::from(name)));
        write(entry, 4, &mut out);
    }
    out
}

/// Returns the part that the user removes.
pub(super) fn removal(format: Format, name: &str) -> String {
    let key = rendering::key(format).unwrap_or_default();
    let name = Value::from(name);
    if format == Format::Continue {
        format!("remove the item with `name: {name}` from the list `{key}`\n")
    } else {
        format!("remove the member {name} from `{key}`\n")
    }
}

/// Writes the members of an object. A JSON text is a valid YAML value.
fn write(value: &Value, indent: usize, out: &mut String) {
    for (name, value) in value.as_object().into_iter().flatten() {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
        let name = if is_plain { name.clone() } else { Value::from(name.as_str()).to_string() };
        match value {
            Value::Object(members) if !members.is_empty() => {
                out.push_str(&format!("{:indent$}{name}:\n", ""));
                write(value, indent + 2, out);
            }
            value => out.push_str(&format!("{:indent$}{name}: {value}\n", "")),
        }
    }
}
