//! The text of a configuration file as a JSON value.

use std::path::Path;

use jsonc_parser::{CollectOptions, ParseOptions, ast, errors::ParseErrorKind, parse_to_ast};
use serde_json::{Map, Number, Value};

use super::{
    code::Code,
    error::{ConfigError, Fault},
    node::member,
};

/// The syntax of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// JSON with comments and trailing commas.
    Json,
    Toml,
    Yaml,
}

/// The options of the JSON parser: comments and trailing commas are valid, and no other extension of JSON is.
pub(crate) fn json_options() -> ParseOptions {
    ParseOptions {
        allow_comments: true,
        allow_trailing_commas: true,
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
    }
}

/// Reads the text of a file for an editor.
pub(crate) fn parse_document(file: &Path, text: &str, syntax: Syntax) -> Result<Value, ConfigError> {
    parse(text, syntax).map_err(|fault| fault.in_file(file))
}

/// Reads a text. An empty JSON file is a fault; an empty TOML or YAML file has no members.
pub(super) fn parse(text: &str, syntax: Syntax) -> Result<Value, Fault> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    match syntax {
        Syntax::Json => json(text),
        Syntax::Toml => toml(text),
        Syntax::Yaml => yaml(text),
    }
}

fn syntax_fault(message: String) -> Fault {
    Fault::new(Code::Syntax, "$", message, "correct the syntax at this place")
}

fn json(text: &str) -> Result<Value, Fault> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &json_options()).map_err(|error| {
        let (line, column) = (error.line_display(), error.column_display());
        let unclosed = match error.kind() {
            ParseErrorKind::UnterminatedObject => Some("object"),
            ParseErrorKind::UnterminatedArray => Some("array"),
            _ => None,
        };
        if let Some(unclosed) = unclosed {
            let (last_line, last_column) = end_of(text);
            return syntax_fault(format!(
                "invalid JSON at line {last_line}, column {last_column}: the text ends before the end of the {unclosed} that begins at \
                 line {line}, column {column}"
            ));
        }
        let reason = error.kind().to_string();
        let mut letters = reason.chars();
        let reason: String = letters.next().into_iter().flat_map(char::to_lowercase).chain(letters).collect();
        syntax_fault(format!("invalid JSON at line {line}, column {column}: {reason}"))
    })?;
    match parsed.value {
        Some(value) => json_value(&value, "$"),
        None => Err(Fault::new(Code::Syntax, "$", "the file is empty", "write `{}` for a file without servers")),
    }
}

/// Returns the line and the column after the last character, from 1.
fn end_of(text: &str) -> (usize, usize) {
    let text = text.trim_end();
    let last = text.rsplit('\n').next().unwrap_or_default();
    (text.matches('\n').count() + 1, last.chars().count() + 1)
}

fn json_value(value: &ast::Value<'_>, path: &str) -> Result<Value, Fault> {
    Ok(match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::StringLit(literal) => Value::String(literal.value.clone().into_owned()),
        ast::Value::NumberLit(literal) => Value::Number(
            literal
                .value
                .parse::<Number>()
                .map_err(|_| Fault::new(Code::WrongType, path, "the number is too large", "write a smaller number"))?,
        ),
        ast::Value::Array(array) => {
            let items = array.elements.iter().enumerate();
            let items = items.map(|(index, item)| json_value(item, &format!("{path}[{index}]")));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        ast::Value::Object(object) => {
            let mut members = Map::new();
            for property in &object.properties {
                let name = property.name.as_str();
                let path = member(path, name);
                let value = json_value(&property.value, &path)?;
                if members.insert(name.to_owned(), value).is_some() {
                    let message = "the object has this key twice";
                    return Err(Fault::new(
                        Code::DuplicateKey,
                        path,
                        message,
                        "remove or rename one of the two members",
                    ));
                }
            }
            Value::Object(members)
        }
    })
}

fn toml(text: &str) -> Result<Value, Fault> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.lines().count().max(1) + usize::from(before.ends_with('\n') && !before.is_empty());
        let reason = error.message().lines().next().unwrap_or_default().to_owned();
        if reason.starts_with("duplicate key") {
            let message = format!("line {line} of the TOML defines a key again");
            return Fault::new(Code::DuplicateKey, "$", message, "remove or rename one of the two definitions");
        }
        syntax_fault(format!("invalid TOML at line {line}: {reason}"))
    })
}

fn yaml(text: &str) -> Result<Value, Fault> {
    match mcp_schema::yaml_document(text) {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(value) => Ok(value),
        Err(reason) if reason.contains("is given twice") => {
            Err(Fault::new(Code::DuplicateKey, "$", reason, "remove or rename one of the two members"))
        }
        Err(reason) => Err(syntax_fault(format!("invalid YAML: {reason}"))),
    }
}
