//! Forms: the flat subset of JSON Schema for `elicitation/create` (form mode).
//!
//! A form is an object whose members are texts, numbers, booleans and choices. [`Form::parse`] reads a schema of this
//! subset. [`Form::from_schema`] converts the schema of a Rust type. Both give the same canonical schema.
//! [`Form::accept`] checks the content of an answer.

mod content;
mod derive;
mod field;
mod render;

use std::{collections::HashSet, fmt};

use serde_json::{Map, Value};

pub use self::field::{Choice, Field, FieldKind, TextFormat};
use crate::{
    dialect::Dialect,
    text::{quote, quote_str, shorten},
    validation::ValidationErrors,
};

/// A form: the fields that a user fills in.
///
/// ```
/// use mcp_schema::elicitation::Form;
/// use serde_json::json;
///
/// let form = Form::parse(&json!({
///     "type": "object",
///     "properties": {
///         "email": { "type": "string", "format": "email" },
///         "plan": { "type": "string", "enum": ["free", "team"], "default": "free" },
///     },
///     "required": ["email"],
/// }))?;
/// assert_eq!(form.fields().len(), 2);
///
/// let mut content = json!({ "email": "ada@example.com" });
/// form.fill_defaults(content.as_object_mut().unwrap());
/// assert_eq!(form.accept(&content), Ok(json!({ "email": "ada@example.com", "plan": "free" })));
///
/// let errors = form.validate(&json!({ "plan": "free" })).unwrap_err();
/// assert_eq!(errors.first().unwrap().message(), "the required field \"email\" is missing");
/// # Ok::<(), mcp_schema::elicitation::FormError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    fields: Vec<Field>,
}

/// A schema that is not in the subset.
///
/// ```
/// use mcp_schema::elicitation::Form;
/// use serde_json::json;
///
/// let nested = json!({ "type": "object", "properties": { "address": { "type": "object" } } });
/// let error = Form::parse(&nested).unwrap_err();
/// assert_eq!(error.field_name(), Some("address"));
///
/// let error = Form::parse(&json!({ "type": "string" })).unwrap_err();
/// assert_eq!(error.field_name(), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormError {
    field: Option<String>,
    message: String,
}

/// Checks that a schema is in the subset; see [`Form::parse`].
///
/// ```
/// use mcp_schema::elicitation;
/// use serde_json::json;
///
/// let flat = json!({ "type": "object", "properties": { "age": { "type": "integer" } } });
/// assert!(elicitation::check(&flat).is_ok());
/// let nested = json!({ "type": "object", "properties": { "address": { "type": "object" } } });
/// assert!(elicitation::check(&nested).is_err());
/// ```
///
/// # Errors
///
/// The first thing that is not in the subset.
pub fn check(schema: &Value) -> Result<(), FormError> {
    Form::parse(schema).map(drop)
}

impl Form {
    /// Reads a schema that is in the subset. Annotations without effect (`examples`, `$comment`, `x-…`) and
    /// `pattern` are tolerated and not kept; `enumNames` is read as titles, and goes out as it came.
    ///
    /// ```
    /// use mcp_schema::elicitation::Form;
    /// use serde_json::json;
    ///
    /// let form = Form::parse(&json!({
    ///     "type": "object",
    ///     "properties": { "code": { "type": "string", "maxLength": 8, "pattern": "^[A-Z]+$" } },
    /// }))?;
    /// // The form keeps the length and drops the pattern.
    /// let expected = json!({ "type": "string", "maxLength": 8 });
    /// assert_eq!(form.schema()["properties"]["code"], expected);
    /// # Ok::<(), mcp_schema::elicitation::FormError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The first thing that is not in the subset, with the name of its field.
    pub fn parse(schema: &Value) -> Result<Self, FormError> {
        let Value::Object(root) = schema else {
            return Err(FormError::form(format!("the schema of a form must be a JSON object, not {}", quote(schema))));
        };
        if Dialect::of(schema).is_none() {
            return Err(FormError::form("the schema of a form declares a dialect that is not supported"));
        }
        if root.get("type").is_none_or(|kind| kind != "object") {
            return Err(FormError::form("the schema of a form must say \"type\": \"object\""));
        }
        for keyword in root.keys() {
            let known =
                matches!(keyword.as_str(), "type" | "properties" | "required" | "$schema" | "additionalProperties");
            if !known && !field::is_annotation(keyword) {
                return Err(FormError::form(format!("{} is not possible in a form", quote_str(keyword))));
            }
        }
        let required = required(root)?;
        let none = Map::new();
        let properties = match root.get("properties") {
            None => &none,
            Some(Value::Object(properties)) => properties,
            Some(other) => {
                return Err(FormError::form(format!("\"properties\" must be an object, not {}", quote(other))));
            }
        };
        if let Some(name) = required.iter().find(|name| !properties.contains_key(**name)) {
            return Err(FormError::field(name, "is required, but is not among the properties"));
        }
        let fields = properties
            .iter()
            .map(|(name, schema)| {
                Field::parse(name, schema, required.contains(name.as_str()))
                    .map_err(|message| FormError::field(name, message))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { fields })
    }

    /// Converts the schema of a type, as `schemars` generates it, into the subset.
    ///
    /// It follows references, makes nullable fields optional, and turns enumerations into choices with their
    /// documentation as titles. It drops keywords that further restrict numbers and texts (`pattern`, other formats).
    ///
    /// ```
    /// use mcp_schema::elicitation::{FieldKind, Form};
    /// use schemars::{JsonSchema, schema_for};
    ///
    /// #[derive(JsonSchema)]
    /// struct Signup {
    ///     /// The address for the confirmation.
    ///     email: String,
    ///     age: Option<u8>,
    /// }
    ///
    /// let form = Form::from_schema(schema_for!(Signup).as_value())?;
    /// let [email, age] = form.fields() else { panic!("two fields") };
    /// assert_eq!(email.description.as_deref(), Some("The address for the confirmation."));
    /// assert!(email.required && !age.required);
    /// assert!(matches!(age.kind, FieldKind::Number { integer: true, .. }));
    /// # Ok::<(), mcp_schema::elicitation::FormError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A field has no form equivalent: a nested object, a list of other items than choices, or a union.
    pub fn from_schema(schema: &Value) -> Result<Self, FormError> {
        Self::parse(&derive::simplify(schema)?)
    }

    /// Returns the fields, in the order of the schema.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Returns the schema to send as `requestedSchema` from revision 2025-11-25 on.
    pub fn schema(&self) -> Value {
        render::schema(&self.fields)
    }

    /// Returns the schema to send as `requestedSchema` in revision 2025-06-18, where choices are titled by
    /// `enumNames` and only booleans have defaults.
    ///
    /// ```
    /// use mcp_schema::elicitation::Form;
    /// use serde_json::json;
    ///
    /// let form = Form::parse(&json!({
    ///     "type": "object",
    ///     "properties": { "size": { "type": "string", "oneOf": [{ "const": "s", "title": "Small" }] } },
    /// }))?;
    /// let size = &form.legacy_schema()?["properties"]["size"];
    /// assert_eq!((&size["enum"], &size["enumNames"]), (&json!(["s"]), &json!(["Small"])));
    /// # Ok::<(), mcp_schema::elicitation::FormError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// A field allows several choices, which that revision does not support.
    pub fn legacy_schema(&self) -> Result<Value, FormError> {
        render::legacy_schema(&self.fields)
    }

    /// Checks the `content` of an answer.
    ///
    /// # Errors
    ///
    /// The fields that are missing or wrong.
    pub fn validate(&self, content: &Value) -> Result<(), ValidationErrors> {
        self.accept(content).map(drop)
    }

    /// Checks the `content` of an answer and returns the values for the fields of the form. Other members and `null`s
    /// are dropped, and a whole number such as `3.0` in an integer field becomes `3`.
    ///
    /// ```
    /// use mcp_schema::elicitation::Form;
    /// use serde_json::json;
    ///
    /// let form = Form::parse(&json!({ "type": "object", "properties": { "age": { "type": "integer" } } }))?;
    /// assert_eq!(form.accept(&json!({ "age": 42.0, "unknown": true })), Ok(json!({ "age": 42 })));
    /// assert!(form.accept(&json!({ "age": "42" })).is_err());
    /// # Ok::<(), mcp_schema::elicitation::FormError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The missing and invalid fields.
    pub fn accept(&self, content: &Value) -> Result<Value, ValidationErrors> {
        content::accept(&self.fields, content)
    }

    /// Fills in the defaults of fields that have no value yet, as a client does before it shows the form.
    pub fn fill_defaults(&self, content: &mut Map<String, Value>) {
        for field in &self.fields {
            if let (None, Some(default)) = (content.get(&field.name), field.default_value()) {
                content.insert(field.name.clone(), default);
            }
        }
    }
}

impl FormError {
    pub(crate) fn form(message: impl Into<String>) -> Self {
        Self { field: None, message: message.into() }
    }

    pub(crate) fn field(name: &str, message: impl Into<String>) -> Self {
        Self { field: Some(name.to_owned()), message: message.into() }
    }

    /// Returns the name of the invalid field; `None` when the form itself is invalid.
    pub fn field_name(&self) -> Option<&str> {
        self.field.as_deref()
    }
}

impl fmt::Display for FormError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(field) = &self.field {
            write!(f, "the field `{}` ", shorten(field, 60))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for FormError {}

fn required(root: &Map<String, Value>) -> Result<HashSet<&str>, FormError> {
    let Some(required) = root.get("required") else { return Ok(HashSet::new()) };
    let names = required.as_array().and_then(|names| names.iter().map(Value::as_str).collect::<Option<_>>());
    names.ok_or_else(|| FormError::form("\"required\" must be a list of names"))
}
