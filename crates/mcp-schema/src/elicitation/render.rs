//! The schema of a form, in the two forms of the revisions.

use serde_json::{Map, Number, Value, json};

use super::{
    FormError,
    field::{Choice, Field, FieldKind},
};

pub(crate) fn schema(fields: &[Field]) -> Value {
    let properties = fields.iter().map(|field| (field.name.clone(), Value::Object(property(field))));
    root(fields, properties.collect())
}

pub(crate) fn legacy_schema(fields: &[Field]) -> Result<Value, FormError> {
    let mut properties = Map::new();
    for field in fields {
        let mut property = property(field);
        match &field.kind {
            FieldKind::MultiChoice { .. } => {
                return Err(FormError::field(
                    &field.name,
                    "allows several choices, which clients of 2025-06-18 cannot show",
                ));
            }
            FieldKind::Choice { options, .. } => {
                property.remove("oneOf");
                property.insert("enum".to_owned(), plain(options));
                if is_titled(options) {
                    property.insert("enumNames".to_owned(), options.iter().map(title).collect());
                }
            }
            FieldKind::Text { .. } | FieldKind::Number { .. } | FieldKind::Boolean { .. } => {}
        }
        if !matches!(field.kind, FieldKind::Boolean { .. }) {
            property.remove("default");
        }
        properties.insert(field.name.clone(), Value::Object(property));
    }
    Ok(root(fields, properties))
}

fn root(fields: &[Field], properties: Map<String, Value>) -> Value {
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name.as_str()).collect();
    let mut root = Map::new();
    root.insert("type".to_owned(), json!("object"));
    root.insert("properties".to_owned(), Value::Object(properties));
    if !required.is_empty() {
        root.insert("required".to_owned(), json!(required));
    }
    Value::Object(root)
}

fn property(field: &Field) -> Map<String, Value> {
    let mut out = Map::new();
    let mut set = |keyword: &str, value: Option<Value>| {
        if let Some(value) = value {
            out.insert(keyword.to_owned(), value);
        }
    };
    let number = |number: &Option<Number>| number.clone().map(Value::Number);
    let (kind, bounds) = match &field.kind {
        FieldKind::Text { min_length, max_length, format, .. } => {
            set("format", format.map(|format| json!(format.as_str())));
            ("string", [("minLength", min_length.map(Value::from)), ("maxLength", max_length.map(Value::from))])
        }
        FieldKind::Number { integer, minimum, maximum, .. } => {
            (if *integer { "integer" } else { "number" }, [("minimum", number(minimum)), ("maximum", number(maximum))])
        }
        FieldKind::Boolean { .. } => ("boolean", [("", None), ("", None)]),
        FieldKind::Choice { options, enum_names: true, .. } => {
            set("enumNames", Some(options.iter().map(title).collect()));
            ("string", [("enum", Some(plain(options))), ("", None)])
        }
        FieldKind::Choice { options, .. } if is_titled(options) => {
            ("string", [("oneOf", Some(titled(options))), ("", None)])
        }
        FieldKind::Choice { options, .. } => ("string", [("enum", Some(plain(options))), ("", None)]),
        FieldKind::MultiChoice { options, min_items, max_items, .. } => {
            let items = match is_titled(options) {
                true => json!({"anyOf": titled(options)}),
                false => json!({"type": "string", "enum": plain(options)}),
            };
            set("items", Some(items));
            ("array", [("minItems", min_items.map(Value::from)), ("maxItems", max_items.map(Value::from))])
        }
    };
    set("type", Some(json!(kind)));
    for (keyword, value) in bounds {
        set(keyword, value);
    }
    set("title", field.title.clone().map(Value::from));
    set("description", field.description.clone().map(Value::from));
    set("default", field.default_value());
    out
}

fn is_titled(options: &[Choice]) -> bool {
    options.iter().any(|option| option.title.is_some())
}

fn titled(options: &[Choice]) -> Value {
    options.iter().map(|option| json!({"const": option.value, "title": title(option)})).collect()
}

fn plain(options: &[Choice]) -> Value {
    options.iter().map(|option| option.value.as_str()).collect()
}

fn title(option: &Choice) -> String {
    option.title.clone().unwrap_or_else(|| option.value.clone())
}
