//! Validation errors of a value, in sentences that help a model to correct it.

use std::{borrow::Borrow, fmt};

use serde_json::Value;

use crate::{error::SchemaError, message, text::shorten};

/// Reasons that are kept; the others are only counted.
const KEPT: usize = 8;
/// Characters of one sentence.
const SENTENCE: usize = 600;

/// One reason why a value does not match a schema.
///
/// ```
/// use mcp_schema::{Schema, ValidationErrorKind};
/// use serde_json::json;
///
/// let schema = Schema::compile(&json!({ "properties": { "days": { "type": "integer" } } }))?;
/// let errors = schema.validate(&json!({ "days": "three" })).unwrap_err();
/// let error = errors.first().unwrap();
/// assert_eq!(error.kind(), ValidationErrorKind::Type);
/// assert_eq!(error.instance_pointer(), "/days");
/// assert_eq!(error.schema_pointer(), "/properties/days/type");
/// assert_eq!(error.message(), "expected an integer, got a string");
/// # Ok::<(), mcp_schema::SchemaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationError {
    kind: ValidationErrorKind,
    instance_pointer: String,
    schema_pointer: String,
    message: String,
}

/// The kind of a [`ValidationError`].
///
/// ```
/// use mcp_schema::{Schema, ValidationErrorKind};
/// use serde_json::json;
///
/// for (schema, value, kind) in [
///     (json!({ "enum": ["a"] }), json!("b"), ValidationErrorKind::Value),
///     (json!({ "required": ["a"] }), json!({}), ValidationErrorKind::Required),
///     (json!({ "additionalProperties": false }), json!({ "a": 1 }), ValidationErrorKind::Property),
///     (json!({ "minimum": 1 }), json!(0), ValidationErrorKind::Range),
///     (json!({ "maxLength": 1 }), json!("ab"), ValidationErrorKind::Size),
/// ] {
///     let errors = Schema::compile(&schema)?.validate(&value).unwrap_err();
///     assert_eq!(errors.first().map(|error| error.kind()), Some(kind));
/// }
/// # Ok::<(), mcp_schema::SchemaError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ValidationErrorKind {
    /// It has the wrong JSON type.
    Type,
    /// It is not one of the values allowed (`enum`, `const`).
    Value,
    /// A required member is missing.
    Required,
    /// A member is not allowed, because of its name or its presence.
    Property,
    /// A number is out of range or not a multiple.
    Range,
    /// A string, array or object is too short or too long.
    Size,
    /// A string does not match its pattern.
    Pattern,
    /// A string does not have its format or encoding.
    Format,
    /// Items of an array are not unique, not allowed, or one that must be there is missing.
    Items,
    /// A combination (`anyOf`, `oneOf`, `not`) does not hold.
    Combination,
    /// The value is nested too deeply, or is too complex to explain its errors.
    Limit,
    /// Anything else.
    Other,
}

impl ValidationError {
    pub(crate) fn new(kind: ValidationErrorKind, instance_pointer: impl Into<String>, message: &str) -> Self {
        Self {
            kind,
            instance_pointer: instance_pointer.into(),
            schema_pointer: String::new(),
            message: shorten(message, SENTENCE).into_owned(),
        }
    }

    pub(crate) fn at_schema(mut self, pointer: impl Into<String>) -> Self {
        self.schema_pointer = pointer.into();
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ValidationErrorKind {
        self.kind
    }

    /// JSON pointer to the place in the value; empty for the root.
    pub fn instance_pointer(&self) -> &str {
        &self.instance_pointer
    }

    /// JSON pointer to the keyword in the schema, references resolved; empty where no keyword is to blame.
    pub fn schema_pointer(&self) -> &str {
        &self.schema_pointer
    }

    /// Returns the sentence without the pointer. Values in it are cut short.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.instance_pointer.is_empty() {
            write!(f, "`{}`: ", shorten(&self.instance_pointer, 200))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ValidationError {}

/// The reasons why a value does not match: the first eight, and how many there are.
///
/// ```
/// use mcp_schema::Schema;
/// use serde_json::json;
///
/// let schema = Schema::compile(&json!({ "items": { "type": "string" } }))?;
/// let errors = schema.validate(&json!(vec![0; 20])).unwrap_err();
/// assert_eq!((errors.total(), errors.iter().count()), (20, 8));
/// assert!(errors.is_complete());
/// assert!(errors.to_string().ends_with("; and 12 more"));
/// # Ok::<(), mcp_schema::SchemaError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValidationErrors {
    errors: Vec<ValidationError>,
    total: usize,
    complete: bool,
}

impl ValidationErrors {
    /// An empty list to collect into.
    pub(crate) fn none() -> Self {
        Self { errors: Vec::new(), total: 0, complete: true }
    }

    pub(crate) fn push(&mut self, make: impl FnOnce() -> ValidationError) {
        self.total += 1;
        if self.errors.len() < KEPT {
            self.errors.push(make());
        }
    }

    /// `Err` with the reasons when there are any.
    pub(crate) fn into_result(self) -> Result<(), Self> {
        if self.total == 0 { Ok(()) } else { Err(self) }
    }

    pub(crate) fn one(error: ValidationError) -> Self {
        Self { errors: vec![error], total: 1, complete: true }
    }

    pub(crate) fn incomplete(mut self) -> Self {
        self.complete = false;
        self
    }

    pub(crate) fn too_deep() -> Self {
        Self::one(ValidationError::new(ValidationErrorKind::Limit, "", "the value is nested too deeply")).incomplete()
    }

    /// The error of each value if the schema cannot be compiled.
    pub(crate) fn without_schema(error: &SchemaError) -> Self {
        let message = format!("the schema is invalid: {error}");
        Self::one(ValidationError::new(ValidationErrorKind::Other, "", &message)).incomplete()
    }

    pub(crate) fn unexplained() -> Self {
        let message = "the value does not match the schema, and is too large to say where";
        Self::one(ValidationError::new(ValidationErrorKind::Limit, "", message)).incomplete()
    }

    /// Returns the first reason.
    pub fn first(&self) -> Option<&ValidationError> {
        self.errors.first()
    }

    /// Returns the reasons that were kept, at most eight.
    pub fn iter(&self) -> std::slice::Iter<'_, ValidationError> {
        self.errors.iter()
    }

    /// How many reasons were found, those that were not kept included.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Whether the search went through the whole value; on a very large one it stops at the first reason.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            error.fmt(f)?;
        }
        match self.total.saturating_sub(self.errors.len()) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl std::error::Error for ValidationErrors {}

impl<'a> IntoIterator for &'a ValidationErrors {
    type Item = &'a ValidationError;
    type IntoIter = std::slice::Iter<'a, ValidationError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Converts the errors of the validator. The names of valid members come from `schema`.
pub(crate) fn explain<'i, E: Borrow<jsonschema::ValidationError<'i>>>(
    schema: &Value,
    found: impl Iterator<Item = E>,
) -> ValidationErrors {
    let mut errors = ValidationErrors::none();
    for error in found {
        errors.push(|| {
            let error = error.borrow();
            let (kind, message) = message::describe(schema, error, 0);
            ValidationError::new(kind, error.instance_path().as_str(), &message).at_schema(error.schema_path().as_str())
        });
    }
    errors
}
