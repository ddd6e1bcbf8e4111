//! The fields of a form, and how they are read from the subset.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};

use super::content;
use crate::text::{quote, quote_str};

/// One field of a form.
///
/// ```
/// use mcp_schema::elicitation::{FieldKind, Form};
/// use serde_json::json;
///
/// let form = Form::parse(&json!({
///     "type": "object",
///     "properties": { "news": { "type": "boolean", "title": "Newsletter", "default": false } },
/// }))?;
/// let field = &form.fields()[0];
/// assert_eq!((field.name.as_str(), field.required), ("news", false));
/// assert_eq!(field.title.as_deref(), Some("Newsletter"));
/// assert!(matches!(field.kind, FieldKind::Boolean { .. }));
/// assert_eq!(field.default_value(), Some(json!(false)));
/// # Ok::<(), mcp_schema::elicitation::FormError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Field {
    /// The name of the member in the answer.
    pub name: String,
    /// Whether the answer must have it.
    pub required: bool,
    /// A name for display.
    pub title: Option<String>,
    /// The description of the field.
    pub description: Option<String>,
    /// The type and the possible values.
    pub kind: FieldKind,
}

/// The values of a field.
///
/// ```
/// use mcp_schema::elicitation::{FieldKind, Form};
/// use serde_json::json;
///
/// /// Returns the widget that a client shows for a field.
/// fn widget(kind: &FieldKind) -> &'static str {
///     match kind {
///         FieldKind::Boolean { .. } => "checkbox",
///         FieldKind::Choice { .. } => "radio buttons",
///         FieldKind::MultiChoice { .. } => "list",
///         FieldKind::Number { .. } => "number",
///         _ => "text",
///     }
/// }
///
/// let form = Form::parse(&json!({
///     "type": "object",
///     "properties": { "name": { "type": "string" }, "plan": { "type": "string", "enum": ["free", "team"] } },
/// }))?;
/// let widgets: Vec<_> = form.fields().iter().map(|field| widget(&field.kind)).collect();
/// assert_eq!(widgets, ["text", "radio buttons"]);
/// # Ok::<(), mcp_schema::elicitation::FormError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A text.
    #[non_exhaustive]
    Text {
        /// Least number of characters.
        min_length: Option<u64>,
        /// Greatest number of characters.
        max_length: Option<u64>,
        /// The format of the text.
        format: Option<TextFormat>,
        /// The default value.
        default: Option<String>,
    },
    /// A number.
    #[non_exhaustive]
    Number {
        /// Whether it must be whole.
        integer: bool,
        /// Least value.
        minimum: Option<Number>,
        /// Greatest value.
        maximum: Option<Number>,
        /// The default value.
        default: Option<Number>,
    },
    /// Yes or no.
    #[non_exhaustive]
    Boolean {
        /// The default value.
        default: Option<bool>,
    },
    /// One of some values.
    #[non_exhaustive]
    Choice {
        /// The choices.
        options: Vec<Choice>,
        /// The default choice.
        default: Option<String>,
        /// Whether the titles were given as `enumNames`, which is older than `oneOf`; they go out as they came.
        enum_names: bool,
    },
    /// Any of some values.
    #[non_exhaustive]
    MultiChoice {
        /// The choices.
        options: Vec<Choice>,
        /// Least number of choices.
        min_items: Option<u64>,
        /// Greatest number of choices.
        max_items: Option<u64>,
        /// The default choices.
        default: Option<Vec<String>>,
    },
}

/// Something that can be chosen.
///
/// ```
/// use mcp_schema::elicitation::{FieldKind, Form};
/// use serde_json::json;
///
/// let form = Form::parse(&json!({
///     "type": "object",
///     "properties": { "size": { "type": "string", "oneOf": [{ "const": "s", "title": "Small" }] } },
/// }))?;
/// let FieldKind::Choice { options, .. } = &form.fields()[0].kind else { panic!("a choice") };
/// assert_eq!((options[0].value.as_str(), options[0].title.as_deref()), ("s", Some("Small")));
/// # Ok::<(), mcp_schema::elicitation::FormError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// The value in the answer.
    pub value: String,
    /// The title, if it differs from the value.
    pub title: Option<String>,
}

/// The formats that a text field can demand.
///
/// ```
/// use mcp_schema::elicitation::{FieldKind, Form, TextFormat};
/// use serde_json::json;
///
/// let form = Form::parse(&json!({
///     "type": "object",
///     "properties": { "day": { "type": "string", "format": "date" } },
/// }))?;
/// let FieldKind::Text { format, .. } = form.fields()[0].kind else { panic!("a text") };
/// assert_eq!(format, Some(TextFormat::Date));
/// assert_eq!(TextFormat::Date.as_str(), "date");
/// # Ok::<(), mcp_schema::elicitation::FormError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TextFormat {
    /// `email`
    Email,
    /// `uri`
    Uri,
    /// `date`, as in `2026-07-28`
    Date,
    /// `date-time`, as in `2026-07-28T10:00:00Z`
    DateTime,
}

impl TextFormat {
    /// Returns the name in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Email => "email",
            Self::Uri => "uri",
            Self::Date => "date",
            Self::DateTime => "date-time",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Email, Self::Uri, Self::Date, Self::DateTime].into_iter().find(|format| format.as_str() == name)
    }
}

/// Keywords that do not restrict the values.
pub(crate) fn is_annotation(keyword: &str) -> bool {
    keyword.starts_with("x-")
        || matches!(
            keyword,
            "title" | "description" | "$comment" | "examples" | "deprecated" | "readOnly" | "writeOnly" | "$id"
        )
}

impl Field {
    /// Reads one property; the error completes "the field `x` …".
    pub(crate) fn parse(name: &str, schema: &Value, required: bool) -> Result<Self, String> {
        let Value::Object(schema) = schema else {
            return Err(format!("has the schema {}, not an object", quote(schema)));
        };
        let kind = match schema.get("type").and_then(Value::as_str) {
            Some("string") if schema.contains_key("enum") || schema.contains_key("oneOf") => choice(schema)?,
            Some("string") => text(schema)?,
            Some(kind @ ("number" | "integer")) => number(schema, kind == "integer")?,
            Some("boolean") => {
                only(schema, &[])?;
                FieldKind::Boolean { default: typed(schema, "default", "a boolean", Value::as_bool)? }
            }
            Some("array") => multi_choice(schema)?,
            _ => {
                let found =
                    schema.get("type").map_or_else(|| "no type".to_owned(), |kind| format!("the type {}", quote(kind)));
                return Err(format!(
                    "has {found}, and a form has only strings, numbers, integers, booleans and lists of choices"
                ));
            }
        };
        let field = Self {
            name: name.to_owned(),
            required,
            title: typed(schema, "title", "a string", owned)?,
            description: typed(schema, "description", "a string", owned)?,
            kind,
        };
        if let Some(default) = field.default_value() {
            content::check(&field, &default)
                .map_err(|(_, message)| format!("has a default that does not fit: {message}"))?;
        }
        Ok(field)
    }

    /// Returns the default as a value of the answer.
    pub fn default_value(&self) -> Option<Value> {
        match &self.kind {
            FieldKind::Text { default, .. } | FieldKind::Choice { default, .. } => default.clone().map(Value::from),
            FieldKind::Number { default, .. } => default.clone().map(Value::from),
            FieldKind::Boolean { default } => default.map(Value::from),
            FieldKind::MultiChoice { default, .. } => default.clone().map(Value::from),
        }
    }
}

fn text(schema: &Map<String, Value>) -> Result<FieldKind, String> {
    only(schema, &["minLength", "maxLength", "format", "pattern"])?;
    let format = match schema.get("format") {
        None => None,
        Some(name) => match name.as_str().and_then(TextFormat::from_name) {
            None => {
                return Err(format!(
                    "has the format {}, and a form has only email, uri, date and date-time",
                    quote(name)
                ));
            }
            format => format,
        },
    };
    Ok(FieldKind::Text {
        min_length: count(schema, "minLength")?,
        max_length: count(schema, "maxLength")?,
        format,
        default: typed(schema, "default", "a string", owned)?,
    })
}

fn number(schema: &Map<String, Value>, integer: bool) -> Result<FieldKind, String> {
    only(schema, &["minimum", "maximum"])?;
    let number = |keyword| typed(schema, keyword, "a number", |value| value.as_number().cloned());
    Ok(FieldKind::Number {
        integer,
        minimum: number("minimum")?,
        maximum: number("maximum")?,
        default: number("default")?
            .map(|default| if integer { content::whole(&default).unwrap_or(default) } else { default }),
    })
}

fn choice(schema: &Map<String, Value>) -> Result<FieldKind, String> {
    only(schema, &["enum", "enumNames", "oneOf"])?;
    let options = match schema.get("oneOf") {
        Some(titled) => titled_options(titled)?,
        None => plain_options(schema.get("enum"), schema.get("enumNames"))?,
    };
    let enum_names = schema.contains_key("enumNames") && !schema.contains_key("oneOf");
    Ok(FieldKind::Choice { options, default: typed(schema, "default", "a string", owned)?, enum_names })
}

fn multi_choice(schema: &Map<String, Value>) -> Result<FieldKind, String> {
    only(schema, &["items", "minItems", "maxItems", "uniqueItems"])?;
    let Some(Value::Object(items)) = schema.get("items") else {
        return Err("is a list, and has no \"items\" that say what can be chosen".to_owned());
    };
    if let Some(keyword) = items.keys().find(|keyword| !matches!(keyword.as_str(), "type" | "enum" | "anyOf" | "oneOf"))
    {
        return Err(format!("is a list whose items have {}, and can only be a list of choices", quote_str(keyword)));
    }
    let options = match items.get("anyOf").or_else(|| items.get("oneOf")) {
        Some(titled) => titled_options(titled)?,
        None if items.contains_key("enum") => plain_options(items.get("enum"), None)?,
        None => return Err("is a list, and can only be a list of choices".to_owned()),
    };
    let strings = |value: &Value| value.as_array()?.iter().map(owned).collect::<Option<Vec<_>>>();
    Ok(FieldKind::MultiChoice {
        options,
        min_items: count(schema, "minItems")?,
        max_items: count(schema, "maxItems")?,
        default: typed(schema, "default", "a list of strings", strings)?,
    })
}

fn plain_options(values: Option<&Value>, names: Option<&Value>) -> Result<Vec<Choice>, String> {
    let values = values.and_then(Value::as_array).ok_or("has an \"enum\" that is not a list")?;
    let names = match names {
        None => None,
        Some(names) => Some(
            names
                .as_array()
                .filter(|names| names.len() == values.len())
                .ok_or("has \"enumNames\" that are not a list as long as \"enum\"")?,
        ),
    };
    let options = values.iter().enumerate().map(|(index, value)| {
        let title = names.and_then(|names| names[index].as_str());
        option(value, title)
    });
    distinct(options.collect::<Result<_, _>>()?)
}

fn titled_options(options: &Value) -> Result<Vec<Choice>, String> {
    let options = options.as_array().ok_or("has choices that are not a list")?;
    let options = options.iter().map(|entry| {
        let Value::Object(entry) = entry else { return Err(format!("has the choice {}, not an object", quote(entry))) };
        if let Some(keyword) =
            entry.keys().find(|keyword| !matches!(keyword.as_str(), "const" | "title" | "description" | "type"))
        {
            return Err(format!(
                "has a choice with {}, and a choice has only a \"const\" and a \"title\"",
                quote_str(keyword)
            ));
        }
        option(entry.get("const").unwrap_or(&Value::Null), entry.get("title").and_then(Value::as_str))
    });
    distinct(options.collect::<Result<_, _>>()?)
}

fn option(value: &Value, title: Option<&str>) -> Result<Choice, String> {
    let value =
        value.as_str().ok_or_else(|| format!("has the choice {}, and only strings can be chosen", quote(value)))?;
    Ok(Choice { value: value.to_owned(), title: title.filter(|title| *title != value).map(str::to_owned) })
}

fn distinct(options: Vec<Choice>) -> Result<Vec<Choice>, String> {
    if options.is_empty() {
        return Err("has nothing to choose from".to_owned());
    }
    let mut seen = HashSet::new();
    match options.iter().find(|option| !seen.insert(option.value.as_str())) {
        Some(twice) => Err(format!("has the choice {} twice", quote_str(&twice.value))),
        None => Ok(options),
    }
}

/// Refuses keywords that a field of this kind cannot have.
fn only(schema: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    let fits =
        |keyword: &str| matches!(keyword, "type" | "default") || known.contains(&keyword) || is_annotation(keyword);
    match schema.keys().find(|keyword| !fits(keyword)) {
        Some(keyword) => Err(format!("has {}, which is not possible in a form", quote_str(keyword))),
        None => Ok(()),
    }
}

fn typed<T>(
    schema: &Map<String, Value>,
    keyword: &str,
    expected: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(value) = schema.get(keyword) else { return Ok(None) };
    match read(value) {
        Some(value) => Ok(Some(value)),
        None => Err(format!("has the {keyword} {}, which is not {expected}", quote(value))),
    }
}

/// A count. A schema from TypeScript may contain `3.0`.
fn count(schema: &Map<String, Value>, keyword: &str) -> Result<Option<u64>, String> {
    typed(schema, keyword, "a count", |value| content::whole(value.as_number()?)?.as_u64())
}

fn owned(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}
