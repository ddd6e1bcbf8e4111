//! Why a schema was refused.

use std::fmt;

use crate::text::shorten;

/// A schema that was refused before anything was validated with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    kind: SchemaErrorKind,
    pointer: String,
    message: String,
}

/// The kind of a [`SchemaError`].
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
