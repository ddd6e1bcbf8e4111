//! The canonical form of a definition, and its fingerprint.

use std::fmt;

use mcp_protocol::Tool;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use sha2::{Digest as _, Sha256};

/// The largest number of a `f64` below which each integer is exact.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The SHA-256 of the canonical definition of a tool, in hexadecimal.
///
/// The definition consists of the name, the title, the description, the input schema, the output schema and the annotations.
/// Icons and `_meta` do not belong to it. Keys are in order at each depth, so the order of a server does not matter.
///
/// ```
/// use mcp_agent::pins::Fingerprint;
/// use mcp_protocol::{JsonObject, Tool};
///
/// let tool = |description: &str| Tool::new("read", JsonObject::new()).with_description(description);
/// assert_eq!(Fingerprint::of(&tool("Reads.")), Fingerprint::of(&tool("Reads.")));
/// assert_ne!(Fingerprint::of(&tool("Reads.")), Fingerprint::of(&tool("Reads!")));
/// assert_eq!(Fingerprint::of(&tool("Reads.")).as_str().len(), 64);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// Returns the fingerprint of a tool.
    #[must_use]
    pub fn of(tool: &Tool) -> Self {
        definition(tool).1
    }

    /// Returns the hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the canonical definition of a tool and its fingerprint.
pub(super) fn definition(tool: &Tool) -> (Value, Fingerprint) {
    let mut members = Map::new();
    let mut insert = |key: &str, value: Option<Value>| members.extend(value.map(|value| (key.to_owned(), value)));
    // The keys are in alphabetical order.
    insert("annotations", tool.annotations.as_ref().and_then(|hints| serde_json::to_value(hints).ok()).map(sorted));
    insert("description", tool.description.clone().map(Value::from));
    insert("inputSchema", Some(sorted(tool.input_schema.clone().into())));
    insert("name", Some(tool.name.clone().into()));
    insert("outputSchema", tool.output_schema.clone().map(sorted));
    insert("title", tool.title.clone().map(Value::from));
    let definition = Value::Object(members);
    let digest = Sha256::digest(definition.to_string().as_bytes());
    let fingerprint = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    (definition, Fingerprint(fingerprint))
}

/// Returns the value with its keys in order, and with `1` for `1.0`.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(String, Value)> = members.into_iter().collect();
            members.sort_unstable_by(|a, b| a.0.cmp(&b.0));
            Value::Object(members.into_iter().map(|(key, member)| (key, sorted(member))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        Value::Number(number) => Value::Number(plain(number)),
        other => other,
    }
}

fn plain(number: Number) -> Number {
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => (float as i64).into(),
        _ => number,
    }
}
