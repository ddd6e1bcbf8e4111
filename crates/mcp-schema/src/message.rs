//! The sentence for each way in which a value can fail.

use std::borrow::Cow;

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use crate::{
    text::{list, plural, quote, quote_str, shorten},
    validation::ValidationErrorKind,
};

/// The maximum nesting of alternatives in a sentence.
const MAX_NESTED: usize = 2;
/// Values that are checked for being listed twice.
const MAX_LISTED: usize = 32;
/// The maximum number of alternatives with reasons.
const MAX_ALTERNATIVES: usize = 4;

/// The kind and the sentence of one finding, without the pointer.
pub(crate) fn describe(schema: &Value, error: &ValidationError<'_>, nested: usize) -> (ValidationErrorKind, String) {
    use ValidationErrorKind as Ours;
    let value: &Value = error.instance();
    let got = |expected: String| format!("expected {expected}, got {}", quote(value));
    match error.kind() {
        Kind::Type { kind } => {
            let expected = match kind {
                TypeKind::Single(one) => with_article(*one).to_owned(),
                TypeKind::Multiple(set) => any_of_types(set.iter()),
            };
            (Ours::Type, format!("expected {expected}, got {}", type_of(value, &expected)))
        }
        Kind::Enum { options } => {
            let options = options.as_array().map(Vec::as_slice).unwrap_or_default();
            let options = list(options.iter().map(|option| Cow::Owned(quote(option))));
            (Ours::Value, got(format!("one of {options}")))
        }
        Kind::Constant { expected_value } => (Ours::Value, got(quote(expected_value))),
        Kind::Required { property } => {
            (Ours::Required, format!("the required property {} is missing", quote(property)))
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            (Ours::Property, unexpected_properties(unexpected, &siblings(schema, error)))
        }
        Kind::PropertyNames { error } => {
            let (_, message) = describe(schema, error, nested + 1);
            (Ours::Property, format!("the property name {} is not allowed: {message}", quote(error.instance())))
        }
        Kind::Minimum { limit } => (Ours::Range, format!("must be at least {limit}, got {}", quote(value))),
        Kind::Maximum { limit } => (Ours::Range, format!("must be at most {limit}, got {}", quote(value))),
        Kind::ExclusiveMinimum { limit } => {
            (Ours::Range, format!("must be greater than {limit}, got {}", quote(value)))
        }
        Kind::ExclusiveMaximum { limit } => (Ours::Range, format!("must be less than {limit}, got {}", quote(value))),
        Kind::MultipleOf { multiple_of } => {
            (Ours::Range, format!("must be a multiple of {multiple_of}, got {}", quote(value)))
        }
        Kind::MinLength { limit } => (Ours::Size, size(value, "at least", *limit, "character", "long")),
        Kind::MaxLength { limit } => (Ours::Size, size(value, "at most", *limit, "character", "long")),
        Kind::MinItems { limit } => (Ours::Size, size(value, "at least", *limit, "item", "")),
        Kind::MaxItems { limit } => (Ours::Size, size(value, "at most", *limit, "item", "")),
        Kind::MinProperties { limit } => (Ours::Size, size(value, "at least", *limit, "property", "")),
        Kind::MaxProperties { limit } => (Ours::Size, size(value, "at most", *limit, "property", "")),
        Kind::AdditionalItems { limit } => (Ours::Items, size(value, "at most", *limit as u64, "item", "")),
        Kind::UnevaluatedItems { unexpected } => {
            (Ours::Items, format!("has {} that are not allowed", plural(unexpected.len() as u64, "item")))
        }
        Kind::UniqueItems => (Ours::Items, "the items must be unique".to_owned()),
        Kind::Contains => (Ours::Items, "must contain the number of items that `contains` allows".to_owned()),
        Kind::Pattern { pattern } => {
            (Ours::Pattern, format!("must match the pattern `{}`, got {}", shorten(pattern, 120), quote(value)))
        }
        Kind::Format { format } => {
            (Ours::Format, format!("must be a valid {}, got {}", shorten(format, 40), quote(value)))
        }
        Kind::ContentEncoding { content_encoding } => {
            (Ours::Format, format!("must be encoded as {}", shorten(content_encoding, 40)))
        }
        Kind::ContentMediaType { content_media_type } => {
            (Ours::Format, format!("must contain {}", shorten(content_media_type, 40)))
        }
        // The finding names the property's value only, so the sentence is about the object.
        Kind::FalseSchema if error.schema_path().as_str().ends_with("/additionalProperties") => {
            (Ours::Property, "no properties are allowed here".to_owned())
        }
        Kind::FalseSchema => (Ours::Property, "nothing is allowed here".to_owned()),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            (Ours::Combination, alternatives(schema, error, context, nested))
        }
        Kind::OneOfMultipleValid { .. } => {
            (Ours::Combination, "matches more than one of the alternatives, and must match exactly one".to_owned())
        }
        Kind::Not { schema } => (Ours::Combination, format!("must not match {}", quote(schema))),
        _ => (Ours::Other, error.masked_with("the value").to_string()),
    }
}

/// Why none of the alternatives matches: the closest one where it is clear which that is, else the first few.
fn alternatives(
    schema: &Value,
    error: &ValidationError<'_>,
    context: &[Vec<ValidationError<'static>>],
    nested: usize,
) -> String {
    if let Some(types) = only_types(error, context) {
        return format!("expected {types}, got {}", type_of(error.instance(), &types));
    }
    let relative = |found: &ValidationError<'_>, message: &str| match found
        .instance_path()
        .as_str()
        .strip_prefix(error.instance_path().as_str())
    {
        Some("") | None => message.to_owned(),
        Some(below) => format!("`{}`: {message}", shorten(below, 100)),
    };
    let head = format!("matches none of the {} alternatives", context.len());
    if let Some((found, values)) = only_values(context) {
        let values = list(values.iter().map(|value| Cow::Owned(quote(value))));
        return relative(found, &format!("expected one of {values}, got {}", quote(found.instance())));
    }
    if nested >= MAX_NESTED {
        return head;
    }
    let reason = |found: &ValidationError<'_>| {
        let (_, message) = describe(schema, found, nested + 1);
        relative(found, &shorten(&message, 200))
    };
    let reasons = |branch: &[ValidationError<'_>]| branch.iter().take(3).map(reason).collect::<Vec<_>>().join(", ");
    let close: Vec<_> = context.iter().filter(|branch| !rules_itself_out(error, branch)).collect();
    if let ([closest], true) = (close.as_slice(), context.len() > 1) {
        return format!("{head}; the closest one fails because: {}", reasons(closest));
    }
    let chosen = if close.is_empty() { context.iter().collect() } else { close };
    let mut reasons: Vec<_> =
        chosen.iter().take(MAX_ALTERNATIVES).map(|branch| format!("({})", reasons(branch))).collect();
    if chosen.len() > MAX_ALTERNATIVES {
        reasons.push(format!("and {} more", chosen.len() - MAX_ALTERNATIVES));
    }
    format!("{head}: {}", reasons.join(", "))
}

/// The types to choose from when every alternative fails by the type of the value alone.
fn only_types(error: &ValidationError<'_>, context: &[Vec<ValidationError<'static>>]) -> Option<String> {
    let mut types = Vec::new();
    for branch in context {
        let [found] = branch.as_slice() else { return None };
        let Kind::Type { kind } = found.kind() else { return None };
        if found.instance_path() != error.instance_path() {
            return None;
        }
        match kind {
            TypeKind::Single(one) => types.push(*one),
            TypeKind::Multiple(set) => types.extend(set.iter()),
        }
    }
    types.dedup();
    (!types.is_empty()).then(|| any_of_types(types.into_iter()))
}

/// The fixed values to choose from when every alternative wants another one at the same place, as a tag does.
fn only_values<'e>(
    context: &'e [Vec<ValidationError<'static>>],
) -> Option<(&'e ValidationError<'static>, Vec<&'e Value>)> {
    let mut values: Vec<&Value> = Vec::new();
    let mut place: Option<&ValidationError<'static>> = None;
    for branch in context {
        let found = branch.iter().find(|found| matches!(found.kind(), Kind::Constant { .. } | Kind::Enum { .. }))?;
        if place.is_some_and(|place| place.instance_path() != found.instance_path()) {
            return None;
        }
        place = Some(found);
        let wanted = match found.kind() {
            Kind::Constant { expected_value } => std::slice::from_ref(&**expected_value),
            Kind::Enum { options } => options.as_array()?,
            _ => &[],
        };
        for value in wanted {
            // A list that is longer than what is shown needs no further care.
            if values.len() > MAX_LISTED || !values.contains(&value) {
                values.push(value);
            }
        }
    }
    place.map(|place| (place, values))
}

/// Whether an alternative was clearly not the one meant: it wants another type, or another fixed value inside.
fn rules_itself_out(error: &ValidationError<'_>, branch: &[ValidationError<'_>]) -> bool {
    branch.iter().any(|found| match found.kind() {
        Kind::Constant { .. } | Kind::Enum { .. } => true,
        Kind::Type { .. } => found.instance_path() == error.instance_path(),
        _ => false,
    })
}

fn unexpected_properties(unexpected: &[String], known: &[String]) -> String {
    let names = list(unexpected.iter().map(|name| Cow::Owned(quote_str(name))));
    let noun = if unexpected.len() == 1 { "property" } else { "properties" };
    if known.is_empty() {
        format!("unexpected {noun} {names}")
    } else {
        format!("unexpected {noun} {names}, known are {}", list(known.iter().map(|name| Cow::Owned(quote_str(name)))))
    }
}

/// The names of the properties declared beside the keyword that failed.
fn siblings(schema: &Value, error: &ValidationError<'_>) -> Vec<String> {
    let keyword = error.schema_path().as_str();
    let Some((parent, _)) = keyword.rsplit_once('/') else { return Vec::new() };
    schema
        .pointer(parent)
        .and_then(|parent| parent.get("properties"))
        .and_then(Value::as_object)
        .map(|properties| properties.keys().cloned().collect())
        .unwrap_or_default()
}

fn size(value: &Value, bound: &str, limit: u64, noun: &str, suffix: &str) -> String {
    let got = match value {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    };
    let verb = if suffix.is_empty() { "have" } else { "be" };
    let suffix = if suffix.is_empty() { String::new() } else { format!(" {suffix}") };
    format!("must {verb} {bound} {}{suffix}, got {got}", plural(limit, noun))
}

fn with_article(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

fn any_of_types(types: impl Iterator<Item = JsonType>) -> String {
    types.map(with_article).collect::<Vec<_>>().join(" or ")
}

/// The type of a value; for a number where an integer was expected, the number itself.
fn type_of(value: &Value, expected: &str) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "a boolean".to_owned(),
        Value::Number(number) if expected.contains("an integer") => number.to_string(),
        Value::Number(_) => "a number".to_owned(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
