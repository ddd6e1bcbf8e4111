//! The losses of definitions and messages.

use std::fmt;

/// A loss, or a change that the model sees: each difference between a tool and its rendered definition that matters.
///
/// ```
/// use mcp_protocol::{JsonObject, Tool};
/// use mcp_tool_format::{DiagnosticKind, Options, Provider, render};
/// use serde_json::json;
///
/// let schema = json!({ "type": "object", "properties": { "page.size": { "type": "integer" } } });
/// let tool = Tool::new("list", JsonObject::from_value(schema).unwrap_or_default());
/// let rendered = render([("list", &tool)], &Options::new(Provider::Gemini));
///
/// let diagnostic = &rendered.diagnostics[0];
/// assert_eq!(diagnostic.kind, DiagnosticKind::KeyRenamed);
/// assert_eq!(diagnostic.tool, "list");
/// assert_eq!(diagnostic.pointer, "/properties/page.size");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The name of the tool, as the caller passed it. Empty for prompts and resources.
    pub tool: String,
    /// The kind of the change.
    pub kind: DiagnosticKind,
    /// The JSON pointer of the changed schema in the input schema of the tool, or of the content in a result. Empty: the
    /// root, or the whole tool.
    pub pointer: String,
    /// A sentence about the change.
    pub message: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", self.tool, self.pointer, self.message)
    }
}

/// The kind of a [`Diagnostic`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DiagnosticKind {
    /// The tool is not part of the request: its definition cannot be rewritten.
    LeftOut,
    /// The tool is not part of the request: the request has too many tools or too many bytes.
    OverBudget,
    /// The tool has another name in the request. [`Rendered::tool_name`](crate::Rendered::tool_name) maps it back.
    NameChanged,
    /// A property has another key in the request. Arguments are mapped back.
    KeyRenamed,
    /// A part of the schema is a text in a description now.
    Described,
    /// A part of the schema is not valid and was removed.
    Invalid,
    /// A schema was cut: it is recursive, too deep, or too large when its references are inlined.
    Cut,
    /// A description was shortened.
    Shortened,
    /// The tool is not eligible for `strict`.
    NotStrict,
    /// The tool stays in the first part of the request, although the options defer it.
    NotDeferred,
    /// An image, a document or sound is not part of a message: the provider does not accept it.
    MediaOmitted,
    /// A block of an unknown type is not part of a message.
    ContentOmitted,
    /// The text of a result, a prompt or a resource is longer than the limit.
    TextCut,
}

impl DiagnosticKind {
    /// Whether the tool is missing in the request.
    #[must_use]
    pub fn is_left_out(self) -> bool {
        matches!(self, Self::LeftOut | Self::OverBudget)
    }
}

/// The most diagnostics of one tool.
const MAX_PER_TOOL: usize = 64;

/// The most schemas of one tool that may be copied into the branches of unions. 64 bytes of text count as one.
const MAX_COPIED: usize = 5_000;

/// Collects the diagnostics of one tool, and counts the copies of schemas.
#[derive(Debug, Default, Clone)]
pub(crate) struct Log {
    pub(crate) entries: Vec<(DiagnosticKind, String, String)>,
    copied: usize,
}

impl Log {
    /// Adds a diagnostic. Equal entries and entries above the limit are dropped.
    pub(crate) fn add(&mut self, kind: DiagnosticKind, pointer: &str, message: impl Into<String>) {
        if self.entries.len() < MAX_PER_TOOL {
            let entry = (kind, pointer.to_owned(), message.into());
            if !self.entries.contains(&entry) {
                self.entries.push(entry);
            }
        }
    }

    /// Whether this number of further schemas may be copied.
    pub(crate) fn may_copy(&mut self, schemas: usize) -> bool {
        let copied = self.copied.saturating_add(schemas);
        if copied > MAX_COPIED {
            return false;
        }
        self.copied = copied;
        true
    }

    /// Moves the entries to the diagnostics of a request.
    pub(crate) fn finish(self, tool: &str, out: &mut Vec<Diagnostic>) {
        out.extend(self.entries.into_iter().map(|(kind, pointer, message)| Diagnostic {
            tool: tool.to_owned(),
            kind,
            pointer,
            message,
        }));
    }
}
