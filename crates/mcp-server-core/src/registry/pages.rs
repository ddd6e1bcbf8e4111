//! Pages of a list, written once per revision. A list request only copies bytes.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mcp_protocol::{CacheScope, ProtocolVersion};

use super::{Definition, List, cursor};
use crate::cache_hint::CacheHint;

/// The page size and the cache hints of the lists of a server.
#[derive(Debug, Clone)]
pub(crate) struct ListStyle {
    /// The number of entries on a page.
    pub(crate) entries: usize,
    /// The size of the definitions on a page, in bytes. A page holds at least one entry.
    pub(crate) bytes: usize,
    pub(crate) cache: CacheHint,
    /// The members that open every result of a stateless revision: `"resultType":"complete","_meta":{…},`.
    pub(crate) stateless_opening: Arc<str>,
}

impl ListStyle {
    /// Returns the style of a list that differs between callers.
    pub(crate) fn private(&self) -> Self {
        let mut style = self.clone();
        style.cache.scope = CacheScope::Private;
        style
    }

    /// Writes a result with one entry instead of a list.
    pub(crate) fn single(&self, member: &str, definition: &[u8], version: ProtocolVersion) -> Bytes {
        let mut out = Vec::with_capacity(definition.len() + 256);
        out.push(b'{');
        if version.has_result_type() {
            out.extend_from_slice(self.stateless_opening.as_bytes());
        }
        out.extend_from_slice(format!("\"{member}\":").as_bytes());
        out.extend_from_slice(definition);
        if version.has_cache_hints() {
            out.push(b',');
            out.extend_from_slice(self.cache.members().as_bytes());
        }
        out.push(b'}');
        out.into()
    }
}

/// The cursor does not belong to the list.
#[derive(Debug)]
pub(crate) struct PageError;

/// The pages of one snapshot, by revision.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    by_version: [OnceLock<Vec<Page>>; ProtocolVersion::ALL.len()],
}

#[derive(Debug)]
struct Page {
    /// The number of the last entry before the page.
    after: u64,
    result: Bytes,
}

impl Pages {
    pub(crate) fn page<E: Definition>(
        &self,
        list: List,
        entries: &[(u64, Arc<E>)],
        version: ProtocolVersion,
        cursor: Option<&str>,
        style: &ListStyle,
    ) -> Result<Bytes, PageError> {
        let after = position(list, cursor)?;
        let slot = ProtocolVersion::ALL.iter().position(|v| *v == version).unwrap_or_default();
        let pages = self.by_version[slot].get_or_init(|| cut(list, entries, 0, version, style, usize::MAX));
        if let Ok(at) = pages.binary_search_by_key(&after, |page| page.after) {
            return Ok(pages[at].result.clone());
        }
        // The list changed after the cursor was written. The page begins between the pages of this snapshot.
        Ok(first(list, entries, after, version, style))
    }
}

/// Writes one page, which is not stored.
pub(crate) fn page_of<E: Definition>(
    list: List,
    entries: &[(u64, Arc<E>)],
    version: ProtocolVersion,
    cursor: Option<&str>,
    style: &ListStyle,
) -> Result<Bytes, PageError> {
    Ok(first(list, entries, position(list, cursor)?, version, style))
}

/// Returns the number of the last entry before a page.
fn position(list: List, cursor: Option<&str>) -> Result<u64, PageError> {
    cursor.map_or(Ok(0), |cursor| cursor::decode(list, cursor).ok_or(PageError))
}

/// Writes the page after a number.
fn first<E: Definition>(
    list: List,
    entries: &[(u64, Arc<E>)],
    after: u64,
    version: ProtocolVersion,
    style: &ListStyle,
) -> Bytes {
    cut(list, entries, after, version, style, 1).pop().map(|page| page.result).unwrap_or_default()
}

/// Writes the entries after a number as at most `limit` pages, and at least one page.
fn cut<E: Definition>(
    list: List,
    entries: &[(u64, Arc<E>)],
    mut after: u64,
    version: ProtocolVersion,
    style: &ListStyle,
    limit: usize,
) -> Vec<Page> {
    let start = entries.partition_point(|(number, _)| *number <= after);
    let mut rest = &entries[start..];
    let mut pages = Vec::new();
    loop {
        let mut definitions = Vec::new();
        let mut bytes = 0;
        for (_, entry) in rest.iter().take(style.entries.max(1)) {
            let definition = entry.definition(version);
            if !definitions.is_empty() && bytes + definition.len() > style.bytes {
                break;
            }
            bytes += definition.len();
            definitions.push(definition);
        }
        let last = definitions.len().checked_sub(1).map(|at| rest[at].0);
        rest = &rest[definitions.len()..];
        let next = last.filter(|_| !rest.is_empty());
        pages.push(Page { after, result: write(list, &definitions, bytes, next, version, style) });
        match next {
            Some(next) if pages.len() < limit => after = next,
            _ => return pages,
        }
    }
}

fn write(
    list: List,
    definitions: &[Vec<u8>],
    bytes: usize,
    next: Option<u64>,
    version: ProtocolVersion,
    style: &ListStyle,
) -> Bytes {
    let mut out = Vec::with_capacity(bytes + definitions.len() + 256);
    out.push(b'{');
    if version.has_result_type() {
        out.extend_from_slice(style.stateless_opening.as_bytes());
    }
    out.extend_from_slice(format!("\"{}\":[", list.member()).as_bytes());
    for (at, definition) in definitions.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        out.extend_from_slice(definition);
    }
    out.push(b']');
    if let Some(next) = next {
        out.extend_from_slice(format!(",\"nextCursor\":\"{}\"", cursor::encode(list, next)).as_bytes());
    }
    if version.has_cache_hints() {
        out.push(b',');
        out.extend_from_slice(style.cache.members().as_bytes());
    }
    out.push(b'}');
    out.into()
}
