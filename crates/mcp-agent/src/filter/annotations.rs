//! Patterns for the annotations of tools.

use mcp_protocol::ToolAnnotations;
use serde::Deserialize;

/// The hints that a tool must have. An absent member matches every tool.
///
/// An absent hint of a tool has the default of the specification: not read-only, destructive, not idempotent, open world. A
/// read-only tool is idempotent and not destructive (2025-03-26, `ToolAnnotations`).
///
/// Hints come from the server. They help to choose tools of a trusted server, and they are not a security boundary.
///
/// ```
/// use mcp_agent::filter::AnnotationMatch;
/// use mcp_protocol::ToolAnnotations;
///
/// let read_only = AnnotationMatch::new().read_only(true);
/// assert!(read_only.matches(Some(&ToolAnnotations::new().with_read_only_hint(true))));
/// assert!(!read_only.matches(None));
///
/// let destructive = AnnotationMatch::new().destructive(true);
/// assert!(destructive.matches(None));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AnnotationMatch {
    /// The tool changes nothing.
    #[serde(alias = "readOnly", alias = "readOnlyHint")]
    pub read_only: Option<bool>,
    /// The tool may destroy data.
    #[serde(alias = "destructiveHint")]
    pub destructive: Option<bool>,
    /// A repeated call has no further effect.
    #[serde(alias = "idempotentHint")]
    pub idempotent: Option<bool>,
    /// The tool interacts with external systems.
    #[serde(alias = "openWorld", alias = "openWorldHint")]
    pub open_world: Option<bool>,
}

impl AnnotationMatch {
    /// Returns the pattern that matches every tool.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Matches tools that change nothing, or tools that change something.
    #[must_use]
    pub fn read_only(mut self, value: bool) -> Self {
        self.read_only = Some(value);
        self
    }

    /// Matches tools that may destroy data, or tools that destroy none.
    #[must_use]
    pub fn destructive(mut self, value: bool) -> Self {
        self.destructive = Some(value);
        self
    }

    /// Matches tools by the effect of a repeated call.
    #[must_use]
    pub fn idempotent(mut self, value: bool) -> Self {
        self.idempotent = Some(value);
        self
    }

    /// Matches tools by their interaction with external systems.
    #[must_use]
    pub fn open_world(mut self, value: bool) -> Self {
        self.open_world = Some(value);
        self
    }

    /// Whether the annotations of a tool match.
    #[must_use]
    pub fn matches(&self, annotations: Option<&ToolAnnotations>) -> bool {
        let hint = |hint: fn(&ToolAnnotations) -> Option<bool>| annotations.and_then(hint);
        let read_only = hint(|hints| hints.read_only_hint).unwrap_or(false);
        let destructive = !read_only && hint(|hints| hints.destructive_hint).unwrap_or(true);
        let idempotent = read_only || hint(|hints| hints.idempotent_hint).unwrap_or(false);
        let open_world = hint(|hints| hints.open_world_hint).unwrap_or(true);
        [
            (self.read_only, read_only),
            (self.destructive, destructive),
            (self.idempotent, idempotent),
            (self.open_world, open_world),
        ]
        .into_iter()
        .all(|(expected, found)| expected.is_none_or(|expected| expected == found))
    }
}
