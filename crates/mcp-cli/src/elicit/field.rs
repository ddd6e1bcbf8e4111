//! One field of a form: its prompt, and the value of a typed line.

use mcp_schema::elicitation::{Choice, Field, FieldKind, Form};
use serde_json::{Map, Value};

use crate::{
    arguments::{Given, quote},
    text::line,
};

/// Returns the prompt of a field, with its default value.
pub(super) fn prompt(field: &Field) -> String {
    format!("{}{}: ", line(field.title.as_ref().unwrap_or(&field.name)), hint(field))
}

/// Returns the numbered choices of a field.
pub(super) fn choices(kind: &FieldKind) -> Vec<String> {
    let (FieldKind::Choice { options, .. } | FieldKind::MultiChoice { options, .. }) = kind else { return Vec::new() };
    let label = |choice: &Choice| line(choice.title.as_ref().unwrap_or(&choice.value));
    options.iter().enumerate().map(|(index, choice)| format!("{}. {}", index + 1, label(choice))).collect()
}

/// Returns the value of a typed line.
///
/// Returns `Ok(None)` if the line is empty and the field is optional, and an error text if the value is invalid.
pub(super) fn value(form: &Form, field: &Field, typed: &str) -> Result<Option<Value>, String> {
    if typed.is_empty() {
        return match (field.default_value(), field.required) {
            (Some(default), _) => Ok(Some(default)),
            (None, false) => Ok(None),
            (None, true) => Err("a value is required".to_owned()),
        };
    }
    let value = read(&field.kind, typed, by_name_or_number).map_err(|expected| format!("{expected} is required"))?;
    match validation_error(form, field, &value) {
        Some(error) => Err(error),
        None => Ok(Some(value)),
    }
}

/// Returns the value of an answer on the command line, or an error text that names the field. The answer `null` is no value.
pub(crate) fn answer(form: &Form, field: &Field, given: &Given) -> Result<Option<Value>, String> {
    let name = line(&field.name);
    let value = match given {
        Given::Json(Value::Null) => return Ok(None),
        Given::Json(value) => value.clone(),
        // The user does not see the numbers of the choices.
        Given::Text(text) => read(&field.kind, text, by_name).map_err(|expected| match &field.kind {
            FieldKind::Choice { options, .. } | FieldKind::MultiChoice { options, .. } => {
                let values: Vec<String> = options.iter().map(|choice| line(&choice.value)).collect();
                let values = values.join(", ");
                format!("`{name}` must be {expected} {values}; {} is not one of them", quote(text))
            }
            _ => format!("`{name}` must be {expected}; {} is not {expected}", quote(text)),
        })?,
    };
    match validation_error(form, field, &value) {
        Some(error) => Err(error),
        None => Ok(Some(value)),
    }
}

/// Returns the first validation error of this field.
fn validation_error(form: &Form, field: &Field, value: &Value) -> Option<String> {
    let content = Value::Object(Map::from_iter([(field.name.clone(), value.clone())]));
    let errors = form.validate(&content).err()?;
    let pointer = format!("/{}", field.name.replace('~', "~0").replace('/', "~1"));
    let mut own = errors.iter().filter(|error| error.instance_pointer().starts_with(&pointer));
    own.next().map(|error| format!("`{}`: {}", line(&field.name), error.message()))
}

fn read(kind: &FieldKind, line: &str, chosen: fn(&[Choice], &str) -> Option<String>) -> Result<Value, &'static str> {
    match kind {
        FieldKind::Number { integer: true, .. } => line.parse::<i64>().map(Value::from).map_err(|_| "a whole number"),
        FieldKind::Number { .. } => match serde_json::from_str(line) {
            Ok(Value::Number(number)) => Ok(Value::Number(number)),
            _ => Err("a number"),
        },
        FieldKind::Boolean { .. } => match line.to_lowercase().as_str() {
            "y" | "yes" | "true" => Ok(true.into()),
            "n" | "no" | "false" => Ok(false.into()),
            _ => Err("y or n"),
        },
        FieldKind::Choice { options, .. } => chosen(options, line).map(Value::String).ok_or("one of the choices"),
        FieldKind::MultiChoice { options, .. } => {
            let words = line.split(',').map(str::trim).filter(|word| !word.is_empty());
            let values: Option<Vec<Value>> = words.map(|word| chosen(options, word).map(Value::String)).collect();
            values.map(Value::Array).ok_or("a list of choices with commas between them")
        }
        _ => Ok(line.into()),
    }
}

/// Finds a choice by its value or its title.
fn by_name(options: &[Choice], word: &str) -> Option<String> {
    let choice = options.iter().find(|choice| choice.value == word || choice.title.as_deref() == Some(word))?;
    Some(choice.value.clone())
}

/// Finds a choice by its value, its title or its number in the displayed list.
fn by_name_or_number(options: &[Choice], word: &str) -> Option<String> {
    let numbered = || Some(options.get(word.parse::<usize>().ok()?.checked_sub(1)?)?.value.clone());
    by_name(options, word).or_else(numbered)
}

fn hint(field: &Field) -> String {
    let kind = match &field.kind {
        FieldKind::Boolean { .. } => " [y/n]",
        FieldKind::MultiChoice { .. } => " [some]",
        FieldKind::Text { format: Some(format), .. } => return format!(" [{}]{}", format.as_str(), default(field)),
        _ => "",
    };
    format!("{kind}{}", default(field))
}

fn default(field: &Field) -> String {
    match field.default_value() {
        Some(Value::String(text)) => format!(" ({})", line(&text)),
        Some(value) => format!(" ({value})"),
        None if field.required => String::new(),
        None => " (optional)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parses_typed_lines_by_field_kind() {
        let form = Form::parse(&json!({"type": "object", "properties": {
            "text": {"type": "string", "maxLength": 3}, "n": {"type": "integer", "maximum": 9}, "x": {"type": "number"},
            "on": {"type": "boolean"}, "one": {"type": "string", "enum": ["a", "b"]},
            "some": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        }}))
        .unwrap_or_else(|error| panic!("{error}"));
        let field = |name: &str| form.fields().iter().find(|field| field.name == name).unwrap_or_else(|| panic!());
        for (name, line, expected) in [
            ("text", "5", Some(json!("5"))),
            ("n", "5", Some(json!(5))),
            ("n", "5.5", None),
            ("x", "5.5", Some(json!(5.5))),
            ("x", "much", None),
            ("on", "Yes", Some(json!(true))),
            ("on", "maybe", None),
            ("one", "b", Some(json!("b"))),
            ("one", "1", Some(json!("a"))),
            ("one", "3", None),
            ("one", "0", None),
            ("some", "a, 3", Some(json!(["a", "c"]))),
            ("some", "a, x", None),
        ] {
            assert_eq!(read(&field(name).kind, line, by_name_or_number).ok(), expected, "{name} {line}");
        }
        assert_eq!(read(&field("some").kind, "a, 3", by_name), Err("a list of choices with commas between them"));
        let typed = |name: &str, typed: &str| value(&form, field(name), typed);
        assert_eq!(typed("n", ""), Ok(None));
        assert_eq!(typed("n", "7"), Ok(Some(json!(7))));
        assert_eq!(typed("on", "maybe"), Err("y or n is required".to_owned()));
        assert!(validation_error(&form, field("text"), &json!("long")).is_some());
        assert!(validation_error(&form, field("n"), &json!(10)).is_some());
        assert!(validation_error(&form, field("n"), &json!(9)).is_none());
    }
}
