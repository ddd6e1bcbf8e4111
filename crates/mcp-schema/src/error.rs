//! Why a schema was refused.

use std::fmt;

use crate::text::shorten;

/// A schema that was refused before anything was validated with it.
///
/// ```
/// use mcp_schema::{Schema, SchemaErrorKind};
/// use serde_json::json;
///
/// let remote = json!({ "properties": { "a": { "$ref": "https://example.com/schema.json" } } });
/// let error = Schema::compile(&remote).unwrap_err();
/// assert_eq!(error.kind(), SchemaErrorKind::Reference);
/// assert_eq!(error.pointer(), "/properties/a/$ref");
/// assert_eq!(error.to_string(), format!("`{}`: {}", error.pointer(), error.message()));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    kind: SchemaErrorKind,
    pointer: String,
    message: String,
}

/// The kind of a [`SchemaError`].
///
/// ```
/// use mcp_schema::{Schema, SchemaErrorKind};
/// use serde_json::json;
///
/// for (schema, kind) in [
///     (json!({ "type": 7 }), SchemaErrorKind::Invalid),
///     (json!({ "$schema": "https://example.com/dialect" }), SchemaErrorKind::Dialect),
///     (json!({ "$ref": "#/$defs/missing" }), SchemaErrorKind::Reference),
///     (json!({ "pattern": "(?=ahead)" }), SchemaErrorKind::Pattern),
/// ] {
///     assert_eq!(Schema::compile(&schema).unwrap_err().kind(), kind);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SchemaErrorKind {
    /// It does not conform to its dialect.
    Invalid,
    /// It declares a dialect that is not supported.
    Dialect,
    /// It exceeds one of the [`Limits`](crate::Limits).
    Limit,
    /// A reference leads nowhere, leaves the schema, or comes back to where it started.
    Reference,
    /// A regular expression is malformed, too large, or needs more than linear time.
    Pattern,
}

impl SchemaError {
    pub(crate) fn new(kind: SchemaErrorKind, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, pointer: pointer.into(), message: message.into() }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> SchemaErrorKind {
        self.kind
    }

    /// JSON pointer to the place in the schema; empty for the root.
    pub fn pointer(&self) -> &str {
        &self.pointer
    }

    /// Returns the sentence without the pointer.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pointer.is_empty() {
            write!(f, "`{}`: ", shorten(&self.pointer, 200))?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for SchemaError {}
