//! Conversion of the schema of a Rust type into the subset for forms.

use serde_json::{Map, Number, Value, json};

use super::{
    FormError,
    field::{Choice, TextFormat, is_annotation},
};
use crate::{fragment, text::quote_str};

/// References followed in a row before they are taken for a circle.
const MAX_HOPS: usize = 16;

type Schema = Map<String, Value>;

/// Returns the same form as a flat schema. The parser then checks whether it is in the subset.
pub(crate) fn simplify(document: &Value) -> Result<Value, FormError> {
    let root = resolve(document, document).map_err(FormError::form)?;
    for keyword in ["oneOf", "anyOf", "allOf"] {
        if root.contains_key(keyword) {
            let message = format!("a form is one set of fields, and this type is a union (\"{keyword}\")");
            return Err(FormError::form(message));
        }
    }
    if root.get("type").is_none_or(|kind| kind != "object") {
        return Err(FormError::form("a form is made of a struct with named fields, and this type is something else"));
    }
    let mut properties = Schema::new();
    let mut required = Vec::new();
    let listed = root.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (name, schema) in root.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let (field, nullable) = field(document, schema).map_err(|message| FormError::field(name, message))?;
        properties.insert(name.clone(), Value::Object(field));
        if !nullable && listed.iter().any(|listed| listed == name) {
            required.push(name.as_str());
        }
    }
    Ok(json!({"type": "object", "properties": properties, "required": required}))
}

/// One field in the subset, and whether it may be `null`, which in a form means left out.
fn field(document: &Value, schema: &Value) -> Result<(Schema, bool), String> {
    let (mut schema, nullable) = without_null(document, resolve(schema, document)?)?;
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
    // Other keywords of an annotation do not concern forms.
    schema.retain(|keyword, _| matches!(keyword.as_str(), "title" | "description") || !is_annotation(keyword));
    if let Some(options) = options(document, &schema)? {
        for keyword in ["enum", "const", "oneOf", "anyOf", "format", "pattern"] {
            schema.remove(keyword);
        }
        schema.insert("type".to_owned(), json!("string"));
        schema.extend(rendered(&options, "oneOf"));
        return Ok((schema, nullable));
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") => {
            schema.remove("pattern");
            schema.retain(|keyword, value| {
                keyword != "format" || value.as_str().is_some_and(|name| TextFormat::from_name(name).is_some())
            });
        }
        Some(kind @ ("integer" | "number")) => {
            let integer = kind == "integer";
            schema.remove("format");
            close_bound(&mut schema, "exclusiveMinimum", "minimum", integer)?;
            close_bound(&mut schema, "exclusiveMaximum", "maximum", integer)?;
        }
        Some("array") => {
            schema.remove("uniqueItems");
            let items = schema.get("items").cloned().unwrap_or(Value::Bool(true));
            let items = resolve(&items, document)?;
            let choices = "is a list, and a form has only lists of choices (of an enumeration)";
            let options = options(document, &items)?.ok_or(choices)?;
            let mut items = rendered(&options, "anyOf");
            if items.contains_key("enum") {
                items.insert("type".to_owned(), json!("string"));
            }
            schema.insert("items".to_owned(), Value::Object(items));
        }
        Some("object") => return Err("is an object, and the fields of a form cannot be nested".to_owned()),
        _ if schema.contains_key("oneOf") || schema.contains_key("anyOf") => {
            return Err("is a union, and a form has only enumerations of plain values".to_owned());
        }
        _ => {}
    }
    Ok((schema, nullable))
}

/// Returns a schema with its reference resolved. Keywords beside the reference take precedence.
fn resolve(schema: &Value, document: &Value) -> Result<Schema, String> {
    let mut merged = Schema::new();
    let mut next = schema;
    for _ in 0..MAX_HOPS {
        let Value::Object(schema) = next else {
            return Err("can be any value, and a form has only plain ones".to_owned());
        };
        let mut target = None;
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                ("$ref", Value::String(reference)) => target = Some(local(reference, document)?),
                // Older generators wrap a reference in order to describe it.
                ("allOf", Value::Array(all)) if all.len() == 1 => target = all.first(),
                _ => {
                    merged.entry(keyword.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        match target {
            Some(target) => next = target,
            None => return Ok(merged),
        }
    }
    Err("refers to itself".to_owned())
}

fn local<'a>(reference: &str, document: &'a Value) -> Result<&'a Value, String> {
    let refers = |reason: &str| format!("refers to {}, which {reason}", quote_str(reference));
    let fragment = reference.strip_prefix('#').ok_or_else(|| refers("is not in the schema"))?;
    let pointer = fragment::decode(fragment).map_err(|reason| refers(&reason))?;
    document.pointer(&pointer).ok_or_else(|| refers("is not in the schema"))
}

/// Takes `null` out of a schema: `["string", "null"]`, an `enum` with `null`, `anyOf` with `{"type": "null"}`.
fn without_null(document: &Value, mut schema: Schema) -> Result<(Schema, bool), String> {
    let mut nullable = false;
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        let before = types.len();
        types.retain(|kind| kind != "null");
        nullable |= types.len() < before;
        if let [one] = types.as_slice() {
            let one = one.clone();
            schema.insert("type".to_owned(), one);
        }
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        let before = values.len();
        values.retain(|value| !value.is_null());
        nullable |= values.len() < before;
    }
    for keyword in ["anyOf", "oneOf"] {
        let Some(Value::Array(branches)) = schema.get_mut(keyword) else { continue };
        let before = branches.len();
        branches.retain(|branch| branch.get("type").is_none_or(|kind| kind != "null"));
        nullable |= branches.len() < before;
        if let [one] = branches.as_slice() {
            let inner = resolve(one, document)?;
            schema.remove(keyword);
            let (inner, inner_nullable) = match inner.contains_key("anyOf") || inner.contains_key("oneOf") {
                // `Option<Option<T>>`, or an enumeration behind the reference: only its own branches are left to look
                // at.
                true => (inner, false),
                false => without_null(document, inner)?,
            };
            nullable |= inner_nullable;
            for (keyword, value) in inner {
                schema.entry(keyword).or_insert(value);
            }
        }
    }
    Ok((schema, nullable))
}

/// The values and titles of an enumeration of strings, or `None` when the schema is no enumeration.
fn options(document: &Value, schema: &Schema) -> Result<Option<Vec<Choice>>, String> {
    let string = |value: &Value| {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| "is an enumeration of values other than strings, which a form cannot ask for".to_owned())
    };
    if let Some(value) = schema.get("const") {
        return Ok(Some(vec![Choice { value: string(value)?, title: None }]));
    }
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values
            .iter()
            .map(|value| Ok(Choice { value: string(value)?, title: None }))
            .collect::<Result<_, _>>()
            .map(Some);
    }
    let Some(Value::Array(branches)) = schema.get("oneOf").or_else(|| schema.get("anyOf")) else { return Ok(None) };
    let mut found = Vec::new();
    for branch in branches {
        let branch = resolve(branch, document)?;
        let values = match (branch.get("const"), branch.get("enum")) {
            (Some(value), _) => std::slice::from_ref(value),
            (None, Some(Value::Array(values))) => values,
            _ => return Ok(None),
        };
        for value in values {
            let title = title(&branch).filter(|_| values.len() == 1);
            found.push(Choice { value: string(value)?, title });
        }
    }
    Ok(Some(found))
}

/// Returns the title of a variant, or else its documentation.
fn title(schema: &Schema) -> Option<String> {
    let text = schema.get("title").or_else(|| schema.get("description"))?.as_str()?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn rendered(options: &[Choice], titled: &str) -> Schema {
    let mut out = Schema::new();
    if options.iter().any(|option| option.title.is_some()) {
        let entry =
            |option: &Choice| json!({"const": option.value, "title": option.title.as_ref().unwrap_or(&option.value)});
        out.insert(titled.to_owned(), options.iter().map(entry).collect());
    } else {
        out.insert("enum".to_owned(), options.iter().map(|option| option.value.as_str()).collect());
    }
    out
}

/// Turns an exclusive bound of an integer into an inclusive one.
fn close_bound(schema: &mut Schema, exclusive: &str, inclusive: &str, integer: bool) -> Result<(), String> {
    let Some(bound) = schema.remove(exclusive) else { return Ok(()) };
    let is_minimum = exclusive == "exclusiveMinimum";
    let step = if is_minimum { 1 } else { -1 };
    let closed = bound.as_i64().filter(|_| integer).and_then(|bound| bound.checked_add(step));
    let closed = closed.ok_or_else(|| format!("has {}, and a form has only inclusive bounds", quote_str(exclusive)))?;
    let tighter = match schema.get(inclusive).and_then(Value::as_i64) {
        Some(other) if is_minimum => closed.max(other),
        Some(other) => closed.min(other),
        None => closed,
    };
    schema.insert(inclusive.to_owned(), Value::Number(Number::from(tighter)));
    Ok(())
}
