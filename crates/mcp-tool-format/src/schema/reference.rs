//! References inside a schema document.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The document of a schema, with its anchors and identifiers.
#[derive(Debug)]
pub(crate) struct Document<'a> {
    root: &'a Map<String, Value>,
    names: Option<HashMap<&'a str, &'a Map<String, Value>>>,
}

/// The schema that a reference points to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Target<'a> {
    Object(&'a Map<String, Value>),
    Other(&'a Value),
}

impl<'a> Document<'a> {
    pub(crate) fn new(root: &'a Map<String, Value>) -> Self {
        Self { root, names: None }
    }

    /// Returns the schema that a reference points to. References to other documents have none.
    pub(crate) fn resolve(&mut self, reference: &str) -> Option<Target<'a>> {
        let own = self.root.get("$id").or_else(|| self.root.get("id")).and_then(Value::as_str);
        let local = own.and_then(|id| reference.strip_prefix(id.trim_end_matches('#'))).unwrap_or(reference);
        if local.is_empty() || local == "#" {
            return Some(Target::Object(self.root));
        }
        if let Some(fragment) = local.strip_prefix('#') {
            let fragment = decode(fragment);
            if fragment.starts_with('/') {
                return self.pointer(&fragment);
            }
            return self.names().get(fragment.as_str()).copied().map(Target::Object);
        }
        self.names().get(local).copied().map(Target::Object)
    }

    fn pointer(&self, pointer: &str) -> Option<Target<'a>> {
        let rest = pointer.strip_prefix('/')?;
        let (first, rest) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let member = self.root.get(&first.replace("~1", "/").replace("~0", "~"))?;
        Some(match member.pointer(rest)? {
            Value::Object(members) => Target::Object(members),
            other => Target::Other(other),
        })
    }

    /// Returns the anchors and identifiers of the document, collected at the first use, without recursion.
    fn names(&mut self) -> &HashMap<&'a str, &'a Map<String, Value>> {
        let root = self.root;
        self.names.get_or_insert_with(|| {
            let mut names = HashMap::new();
            let mut objects = vec![root];
            let mut arrays: Vec<&'a Vec<Value>> = Vec::new();
            loop {
                if let Some(members) = objects.pop() {
                    for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                        if let Some(Value::String(name)) = members.get(key) {
                            names.entry(name.trim_start_matches('#')).or_insert(members);
                        }
                    }
                    objects.extend(members.values().filter_map(Value::as_object));
                    arrays.extend(members.values().filter_map(Value::as_array));
                } else if let Some(items) = arrays.pop() {
                    objects.extend(items.iter().filter_map(Value::as_object));
                    arrays.extend(items.iter().filter_map(Value::as_array));
                } else {
                    return names;
                }
            }
        })
    }
}

/// Decodes the percent encoding of a fragment. Text that is not valid stays as it is.
fn decode(fragment: &str) -> String {
    if !fragment.contains('%') {
        return fragment.to_owned();
    }
    let bytes = fragment.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while at < bytes.len() {
        let hex = fragment.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        // `from_str_radix` alone accepts a sign.
        let hex = hex.filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| fragment.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_resolve_inside_of_the_document() {
        let root = json!({
            "$id": "https://example.com/s",
            "$defs": { "a b": { "type": "string" }, "%+5%zz%": { "type": "null" }, "c/d": { "$anchor": "deep", "type": "integer" } },
            "properties": { "x": { "type": "boolean" } },
        });
        let members = root.as_object().unwrap();
        for (reference, kind) in [
            ("#/$defs/a%20b", Some("string")),
            ("#/$defs/a b", Some("string")),
            ("#/$defs/%+5%zz%", Some("null")),
            ("#/$defs/c~1d", Some("integer")),
            ("#deep", Some("integer")),
            ("#/properties/x", Some("boolean")),
            ("https://example.com/s#/properties/x", Some("boolean")),
            ("https://example.com/other", None),
            ("#/nothing", None),
        ] {
            let found = match Document::new(members).resolve(reference) {
                Some(Target::Object(schema)) => schema.get("type").and_then(Value::as_str),
                _ => None,
            };
            assert_eq!(found, kind, "{reference}");
        }
        assert_eq!(Document::new(members).resolve("#"), Some(Target::Object(members)));
    }
}
