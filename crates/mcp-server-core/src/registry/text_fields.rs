//! Checks the fields whose values arrive as texts: the arguments of prompts and the variables of templates.

use serde_json::Value;

/// The most references and unions that the check follows inside of each other. It accepts deeper schemas.
const DEPTH: usize = 16;

/// The form of a value on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextField {
    /// One text: an argument of a prompt.
    One,
    /// One text or a list of texts: a variable of a template.
    OneOrMany,
}

impl TextField {
    /// Whether a text can give a value of this JSON type.
    fn gives(self, kind: &str) -> bool {
        match kind {
            "string" | "number" | "integer" | "boolean" => true,
            "array" => self == Self::OneOrMany,
            _ => false,
        }
    }
}

/// Checks that texts can give the value of each field that the client can send.
///
/// # Errors
/// Returns the reason for the first field that is an object, or a list in a prompt.
pub(super) fn check(schema: &Value, form: TextField, is_sent: impl Fn(&str) -> bool) -> Result<(), String> {
    let properties = schema["properties"].as_object().into_iter().flatten();
    for (name, property) in properties {
        if is_sent(name) && !admits(property, schema, form, DEPTH) {
            let (fault, given) = match form {
                TextField::One => ("an object or a list", "one text"),
                TextField::OneOrMany => ("an object", "a text or a list of texts"),
            };
            return Err(format!(
                "the argument `{name}` is {fault}, but the client sends {given}: use `String`, a number, `bool` or an enum; \
                 if the type parses a text itself, add `#[schemars(with = \"String\")]`"
            ));
        }
    }
    Ok(())
}

/// Whether a schema admits a value that texts can give. Keywords that the check does not know admit every value.
fn admits(schema: &Value, document: &Value, form: TextField, depth: usize) -> bool {
    let (Value::Object(keywords), Some(depth)) = (schema, depth.checked_sub(1)) else {
        return schema != &Value::Bool(false);
    };
    keywords.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
        ("type", Value::String(kind)) => form.gives(kind),
        ("type", Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).any(|kind| form.gives(kind)),
        ("enum", Value::Array(values)) => values.iter().any(|value| form.gives(kind_of(value))),
        ("const", value) => form.gives(kind_of(value)),
        ("anyOf" | "oneOf", Value::Array(branches)) => {
            branches.iter().any(|branch| admits(branch, document, form, depth))
        }
        ("allOf", Value::Array(parts)) => parts.iter().all(|part| admits(part, document, form, depth)),
        ("$ref", Value::String(reference)) => {
            let target = reference.strip_prefix('#').and_then(|pointer| document.pointer(pointer));
            target.is_none_or(|target| admits(target, document, form, depth))
        }
        _ => true,
    })
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
