//! Errors of templates that cannot be parsed or matched.

use std::fmt;

/// An error of [`UriTemplate::parse`](crate::UriTemplate::parse), with its kind and position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    kind: TemplateErrorKind,
    position: usize,
    message: String,
}

/// The kind of a [`TemplateError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TemplateErrorKind {
    /// The text does not follow the grammar of RFC 6570.
    Syntax,
    /// The template is longer than 1,024 bytes or has more than 32 variables.
    Limit,
    /// The template can be expanded, but the values of its variables cannot be read back from a URI reliably.
    Ambiguous,
}

impl TemplateError {
    pub(crate) fn new(kind: TemplateErrorKind, position: usize, message: impl Into<String>) -> Self {
        Self { kind, position, message: message.into() }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> TemplateErrorKind {
        self.kind
    }

    /// Returns the byte offset of the error in the template.
    pub fn position(&self) -> usize {
        self.position
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {} of the URI template)", self.message, self.position)
    }
}

impl std::error::Error for TemplateError {}
