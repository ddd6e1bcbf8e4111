//! Asks the user at the terminal what a server wants to know.

use std::io::{IsTerminal, stderr, stdin};

use mcp_client::Asked;
use mcp_protocol::{ElicitResult, FormElicitParams, JsonObject, RpcError, UrlElicitParams};
use mcp_schema::elicitation::{Choice, Field, FieldKind, Form};
use rustyline::{DefaultEditor, error::ReadlineError};
use serde_json::{Map, Value};

use crate::output::printable;

/// Whether there is a user to ask: where there is none, servers are not told that they may ask.
pub(crate) fn possible() -> bool {
    stdin().is_terminal() && stderr().is_terminal()
}

/// Asks for the fields of a form, one after the other.
pub(crate) async fn form(asked: Asked<FormElicitParams>) -> Result<ElicitResult, RpcError> {
    let form = asked.form().map_err(|error| RpcError::invalid_params(error.to_string()))?;
    let intro = format!(
        "\n{} asks: {}\n(Ctrl-D declines, Ctrl-C cancels; an empty line takes the default)",
        name(&asked.server().name),
        printable(&asked.message)
    );
    blocking(move || fill(&form, &intro)).await
}

/// Shows a URL and asks for consent. It is the user who opens it.
pub(crate) async fn url(asked: Asked<UrlElicitParams>) -> Result<ElicitResult, RpcError> {
    let intro = format!(
        "\n{} asks: {}\nIt wants you to open this address in a browser:\n  {}",
        name(&asked.server().name),
        printable(&asked.message),
        printable(&asked.url)
    );
    blocking(move || {
        eprintln!("{intro}");
        let mut editor = DefaultEditor::new()?;
        let agreed = loop {
            match editor.readline("Will you? [y/n] ")?.trim() {
                "y" | "yes" => break true,
                "n" | "no" | "" => break false,
                _ => {}
            }
        };
        Ok(if agreed { ElicitResult::new(mcp_protocol::ElicitAction::Accept) } else { ElicitResult::decline() })
    })
    .await
}

fn name(name: &str) -> String {
    if name.is_empty() { "The server".to_owned() } else { printable(name) }
}

/// Reads from the terminal on a thread of its own. How the user left is an answer too.
async fn blocking(
    ask: impl FnOnce() -> Result<ElicitResult, ReadlineError> + Send + 'static,
) -> Result<ElicitResult, RpcError> {
    match tokio::task::spawn_blocking(ask).await {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(ReadlineError::Eof)) => Ok(ElicitResult::decline()),
        Ok(Err(ReadlineError::Interrupted)) => Ok(ElicitResult::cancel()),
        Ok(Err(error)) => {
            eprintln!("mcp: cannot read from the terminal: {error}");
            Ok(ElicitResult::cancel())
        }
        Err(_) => Ok(ElicitResult::cancel()),
    }
}

fn fill(form: &Form, intro: &str) -> Result<ElicitResult, ReadlineError> {
    eprintln!("{intro}");
    let mut editor = DefaultEditor::new()?;
    let mut content = Map::new();
    for field in form.fields() {
        if let Some(value) = ask_field(&mut editor, form, field)? {
            content.insert(field.name.clone(), value);
        }
    }
    Ok(ElicitResult::accept(JsonObject::from(content)))
}

/// Asks until the value fits, or the user leaves out what may be left out.
fn ask_field(editor: &mut DefaultEditor, form: &Form, field: &Field) -> Result<Option<Value>, ReadlineError> {
    if let Some(description) = &field.description {
        eprintln!("  {}", printable(description));
    }
    show_choices(&field.kind);
    let prompt = format!("{}{}: ", printable(field.title.as_ref().unwrap_or(&field.name)), hint(field));
    loop {
        let line = editor.readline(&prompt)?;
        let line = line.trim();
        if line.is_empty() {
            match (field.default_value(), field.required) {
                (Some(default), _) => return Ok(Some(default)),
                (None, false) => return Ok(None),
                (None, true) => {
                    eprintln!("  it is needed");
                    continue;
                }
            }
        }
        match read(&field.kind, line) {
            Ok(value) => match problem(form, field, &value) {
                Some(problem) => eprintln!("  {}", printable(&problem)),
                None => return Ok(Some(value)),
            },
            Err(wanted) => eprintln!("  {wanted} is expected"),
        }
    }
}

/// What the form has against this value of this field alone.
fn problem(form: &Form, field: &Field, value: &Value) -> Option<String> {
    let content = Value::Object(Map::from_iter([(field.name.clone(), value.clone())]));
    let errors = form.validate(&content).err()?;
    let place = format!("/{}", field.name.replace('~', "~0").replace('/', "~1"));
    let mut own = errors.iter().filter(|error| error.instance_pointer().starts_with(&place));
    own.next().map(ToString::to_string)
}

fn read(kind: &FieldKind, line: &str) -> Result<Value, &'static str> {
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
            values.map(Value::Array).ok_or("some of the choices, with commas between them,")
        }
        _ => Ok(line.into()),
    }
}

/// A choice by its number, its value or its title.
fn chosen(options: &[Choice], word: &str) -> Option<String> {
    let exact = options.iter().find(|choice| choice.value == word || choice.title.as_deref() == Some(word));
    let numbered = || word.parse::<usize>().ok().and_then(|number| options.get(number.checked_sub(1)?));
    exact.or_else(numbered).map(|choice| choice.value.clone())
}

fn show_choices(kind: &FieldKind) {
    let (FieldKind::Choice { options, .. } | FieldKind::MultiChoice { options, .. }) = kind else { return };
    for (index, choice) in options.iter().enumerate() {
        eprintln!("  {}. {}", index + 1, printable(choice.title.as_ref().unwrap_or(&choice.value)));
    }
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
        Some(Value::String(text)) => format!(" ({})", printable(&text)),
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
    fn lines_become_values() {
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
            assert_eq!(read(&field(name).kind, line).ok(), expected, "{name} {line}");
        }
        assert!(problem(&form, field("text"), &json!("long")).is_some());
        assert!(problem(&form, field("n"), &json!(10)).is_some());
        assert!(problem(&form, field("n"), &json!(9)).is_none());
    }
}
