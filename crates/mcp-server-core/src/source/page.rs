//! One page of a list of a source.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::{CacheScope, ProtocolVersion};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{SourceDefinition, SourceList};
use crate::{cache_hint::CacheHint, json, registry::RegistrationError};

/// One page of a list. Cheap to clone. The server writes the page once for each revision, so keep it between requests.
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
#[derive(Clone)]
#[must_use]
pub struct SourcePage {
    definitions: Arc<[SourceDefinition]>,
    next_cursor: Option<String>,
    cache: CacheHint,
    written: Arc<Written>,
}

/// The result of each revision, with the opening that it was written for.
type Written = [OnceLock<(Box<str>, Bytes)>; ProtocolVersion::ALL.len()];

impl SourcePage {
    /// Creates a page with definitions in their order. The source decides on the size of its pages.
    ///
    /// See the example of the [type](Self).
    pub fn new(definitions: impl IntoIterator<Item = SourceDefinition>) -> Self {
        let definitions = definitions.into_iter().collect();
        Self { definitions, next_cursor: None, cache: CacheHint::NONE, written: Arc::default() }
    }

    /// Reads the raw result of a list request, for example that of another server. The page has its definitions, its cursor and
    /// its cache hint.
    ///
    /// ```
    /// use mcp_server_core::source::{SourceList, SourcePage};
    ///
    /// let result = br#"{"tools":[{"name":"a","inputSchema":{}}],"nextCursor":"2"}"#;
    /// assert!(SourcePage::read(SourceList::Tools, result).is_ok());
    /// assert!(SourcePage::read(SourceList::Prompts, result).is_err());
    /// # Ok::<(), mcp_server_core::RegistrationError>(())
    /// ```
    ///
    /// # Errors
    /// Fails when the result is not valid, or does not contain the list.
    pub fn read(list: SourceList, result: &[u8]) -> Result<Self, RegistrationError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Page<'a> {
            #[serde(borrow)]
            tools: Option<Vec<&'a RawValue>>,
            #[serde(borrow)]
            resources: Option<Vec<&'a RawValue>>,
            #[serde(borrow)]
            resource_templates: Option<Vec<&'a RawValue>>,
            #[serde(borrow)]
            prompts: Option<Vec<&'a RawValue>>,
            next_cursor: Option<String>,
            ttl_ms: Option<u64>,
            cache_scope: Option<CacheScope>,
        }
        let invalid = |error| RegistrationError::new(format!("the result of {} is not valid: {error}", list.method()));
        let page: Page<'_> = json::from_slice(result).map_err(invalid)?;
        let definitions = match list {
            SourceList::Tools => page.tools,
            SourceList::Resources => page.resources,
            SourceList::ResourceTemplates => page.resource_templates,
            SourceList::Prompts => page.prompts,
        };
        let Some(definitions) = definitions else {
            let text = format!("the result of {} lacks the member `{}`", list.method(), list.member());
            return Err(RegistrationError::new(text));
        };
        let definitions = definitions.into_iter().map(|json| SourceDefinition::new(json.get().to_owned()));
        let ttl = Duration::from_millis(page.ttl_ms.unwrap_or_default());
        let cache = CacheHint { ttl, scope: page.cache_scope.unwrap_or(CacheScope::Private) };
        let definitions: Vec<_> = definitions.collect::<Result<_, _>>()?;
        Ok(Self::new(definitions).next_cursor(page.next_cursor).cache(cache))
    }

    /// Sets the cursor of the next page. Clients return it unchanged.
    ///
    /// See the example of the [type](Self).
    pub fn next_cursor(mut self, cursor: impl Into<Option<String>>) -> Self {
        (self.next_cursor, self.written) = (cursor.into(), Arc::default());
        self
    }

    /// Sets how long clients may cache the page (2026-07-28). By default clients do not cache it. A page that differs
    /// between callers must be private.
    ///
    /// See the example of the [type](Self).
    pub fn cache(mut self, hint: CacheHint) -> Self {
        (self.cache, self.written) = (hint, Arc::default());
        self
    }

    /// Returns the result of the list request in the form of a revision. `opening` are the members that open each result of
    /// a stateless revision. A later page of the same opening shares the bytes.
    pub(crate) fn write(&self, list: SourceList, version: ProtocolVersion, opening: &str) -> Bytes {
        let slot = ProtocolVersion::ALL.iter().position(|known| *known == version).unwrap_or_default();
        let write = || (opening.into(), self.write_anew(list, version, opening));
        let (known, bytes) = self.written[slot].get_or_init(write);
        // Two servers can have the same page, with their own names.
        if **known == *opening { bytes.clone() } else { self.write_anew(list, version, opening) }
    }

    fn write_anew(&self, list: SourceList, version: ProtocolVersion, opening: &str) -> Bytes {
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

impl fmt::Debug for SourcePage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourcePage")
            .field("definitions", &self.definitions)
            .field("next_cursor", &self.next_cursor)
            .field("cache", &self.cache)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_page_are_shared_until_the_page_changes() {
        let page = SourcePage::new([SourceDefinition::new(r#"{"name":"a","inputSchema":{}}"#).unwrap()]);
        let write = |page: &SourcePage, opening: &str| page.write(SourceList::Tools, ProtocolVersion::LATEST, opening);
        let first = write(&page, r#""a":1,"#);
        assert_eq!(write(&page, r#""a":1,"#).as_ptr(), first.as_ptr());
        let other = write(&page, r#""b":1,"#);
        assert!(other.starts_with(br#"{"b":1,"tools":[{"#), "{other:?}");
        assert!(!first.windows(10).any(|window| window == b"nextCursor"));
        let next = write(&page.next_cursor("n".to_owned()), r#""a":1,"#);
        assert!(String::from_utf8_lossy(&next).contains(r#""nextCursor":"n""#));
        let old = ProtocolVersion::V2024_11_05;
        let page = SourcePage::new([]);
        assert_eq!(page.write(SourceList::Prompts, old, ""), r#"{"prompts":[]}"#);
    }
}
