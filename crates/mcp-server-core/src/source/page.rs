//! One page of a list of a source.

use bytes::Bytes;
use mcp_protocol::ProtocolVersion;

use super::{SourceDefinition, SourceList};
use crate::cache_hint::CacheHint;

/// One page of a list.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::{
///     CacheHint,
///     source::{SourceDefinition, SourcePage},
/// };
///
/// let tool = SourceDefinition::new(r#"{"name":"a","inputSchema":{"type":"object"}}"#)?;
/// let page = SourcePage::new([tool]).next_cursor("7:1".to_owned()).cache(CacheHint::private(Duration::from_secs(5)));
/// # let _ = page;
/// # Ok::<(), mcp_server_core::RegistrationError>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct SourcePage {
    definitions: Vec<SourceDefinition>,
    next_cursor: Option<String>,
    cache: CacheHint,
}

impl SourcePage {
    /// Creates a page with definitions in their order. The source decides on the size of its pages.
    ///
    /// See the example of the [type](Self).
    pub fn new(definitions: impl IntoIterator<Item = SourceDefinition>) -> Self {
        Self { definitions: definitions.into_iter().collect(), next_cursor: None, cache: CacheHint::NONE }
    }

    /// Sets the cursor of the next page. Clients return it unchanged.
    ///
    /// See the example of the [type](Self).
    pub fn next_cursor(mut self, cursor: impl Into<Option<String>>) -> Self {
        self.next_cursor = cursor.into();
        self
    }

    /// Sets how long clients may cache the page (2026-07-28). By default clients do not cache it. A page that differs
    /// between callers must be private.
    ///
    /// See the example of the [type](Self).
    pub fn cache(mut self, hint: CacheHint) -> Self {
        self.cache = hint;
        self
    }

    /// Writes the result of the list request in the form of a revision. `opening` are the members that open each result of
    /// a stateless revision.
    pub(crate) fn write(&self, list: SourceList, version: ProtocolVersion, opening: &str) -> Bytes {
        let forms: Vec<&Bytes> = self.definitions.iter().map(|definition| definition.form(list, version)).collect();
        let len: usize = forms.iter().map(|form| form.len() + 1).sum();
        let mut out = Vec::with_capacity(len + opening.len() + 128);
        out.push(b'{');
        if version.has_result_type() {
            out.extend_from_slice(opening.as_bytes());
        }
        out.extend_from_slice(format!("\"{}\":[", list.member()).as_bytes());
        for (at, form) in forms.into_iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(form);
        }
        out.push(b']');
        if let Some(cursor) = &self.next_cursor {
            out.extend_from_slice(b",\"nextCursor\":");
            // A string always serializes.
            let _ = serde_json::to_writer(&mut out, cursor);
        }
        if version.has_cache_hints() {
            out.push(b',');
            out.extend_from_slice(self.cache.members().as_bytes());
        }
        out.push(b'}');
        out.into()
    }
}
