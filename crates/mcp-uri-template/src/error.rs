//! Errors of templates that cannot be parsed or matched.

use std::fmt;

/// An error of [`UriTemplate::parse`](crate::UriTemplate::parse), with its kind and position.
///
/// ```
/// use mcp_uri_template::{TemplateErrorKind, UriTemplate};
///
/// let error = UriTemplate::parse("notes://{year").unwrap_err();
/// assert_eq!(error.kind(), TemplateErrorKind::Syntax);
/// // The expression begins at byte 8.
/// assert_eq!(error.position(), 8);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateError {
    kind: TemplateErrorKind,
    position: usize,
    message: String,
}

/// The kind of a [`TemplateError`].
///
/// ```
/// use mcp_uri_template::{TemplateErrorKind, UriTemplate};
///
/// let kind = |template: &str| UriTemplate::parse(template).unwrap_err().kind();
/// assert_eq!(kind("notes://{"), TemplateErrorKind::Syntax);
/// assert_eq!(kind(&"n".repeat(2_000)), TemplateErrorKind::Limit);
/// assert_eq!(kind("notes://{year}{month}"), TemplateErrorKind::Ambiguous);
/// ```
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
