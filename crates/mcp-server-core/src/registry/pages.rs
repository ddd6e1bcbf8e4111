//! Pages of a list, written once per revision. A list request only copies bytes.

use std::sync::{Arc, OnceLock};

use mcp_protocol::{CacheScope, ProtocolVersion};
use mcp_transport::Line;

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
    /// Writes a result with one entry instead of a list.
    pub(crate) fn single(&self, member: &str, definition: &[u8], version: ProtocolVersion) -> Line {
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
        Line::new(out)
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
    /// The number of its entries.
    len: usize,
    result: Line,
}

/// The form of the pages of a list.
#[derive(Clone, Copy)]
pub(crate) struct PageForm<'a> {
    list: List,
    version: ProtocolVersion,
    style: &'a ListStyle,
    cache: CacheHint,
}

impl Pages {
    /// Returns the page after a cursor, with the entries that the caller may see.
    ///
    /// The number of checks of entries is linear in the length of the list, for all pages of a caller together.
    pub(crate) fn page<E: Definition>(
        &self,
        form: PageForm<'_>,
        entries: &[(u64, Arc<E>)],
        cursor: Option<&str>,
        is_visible: impl Fn(&E) -> bool,
    ) -> Result<Line, PageError> {
        let after = cursor.map_or(Ok(0), |cursor| cursor::decode(form.list, cursor).ok_or(PageError))?;
        let is_visible = |(_, entry): &&(u64, Arc<E>)| is_visible(entry);
        let rest = &entries[entries.partition_point(|(number, _)| *number <= after)..];
        let slot = ProtocolVersion::ALL.iter().position(|v| *v == form.version).unwrap_or_default();
        let pages = self.by_version[slot].get_or_init(|| form.pages(entries));
        // The stored pages have all entries.
        if let Ok(at) = pages.binary_search_by_key(&after, |page| page.after)
            && let Some((shown, later)) = rest.split_at_checked(pages[at].len)
            && shown.iter().all(|entry| is_visible(&entry))
            && (later.is_empty() || later.iter().any(|entry| is_visible(&entry)))
        {
            return Ok(pages[at].result.clone());
        }
        // The caller may not see all entries, or the list changed after the cursor was written. The page begins between the pages
        // of this snapshot then.
        Ok(form.page(rest.iter().filter(is_visible), after).result)
    }
}

impl<'a> PageForm<'a> {
    pub(crate) fn new(list: List, version: ProtocolVersion, style: &'a ListStyle) -> Self {
        Self { list, version, style, cache: style.cache }
    }

    /// Returns the form of a list that differs between callers.
    pub(crate) fn private(mut self) -> Self {
        self.cache.scope = CacheScope::Private;
        self
    }

    /// Writes all pages, and at least one.
    fn pages<E: Definition>(self, entries: &[(u64, Arc<E>)]) -> Vec<Page> {
        let mut pages = Vec::new();
        let (mut start, mut after) = (0, 0);
        loop {
            let page = self.page(entries[start..].iter(), after);
            start += page.len;
            pages.push(page);
            match entries[..start].last() {
                Some((last, _)) if start < entries.len() => after = *last,
                _ => return pages,
            }
        }
    }

    /// Writes a page with the first entries.
    fn page<'e, E: Definition + 'e>(self, entries: impl Iterator<Item = &'e (u64, Arc<E>)>, after: u64) -> Page {
        let mut entries = entries.peekable();
        let (mut definitions, mut bytes, mut last) = (Vec::new(), 0, None);
        while definitions.len() < self.style.entries.max(1)
            && let Some((number, entry)) = entries.peek()
        {
            let definition = entry.definition(self.version);
            if !definitions.is_empty() && bytes + definition.len() > self.style.bytes {
                break;
            }
            bytes += definition.len();
            definitions.push(definition);
            last = Some(*number);
            entries.next();
        }
        let next = last.filter(|_| entries.peek().is_some());
        Page { after, len: definitions.len(), result: self.write(&definitions, bytes, next) }
    }

    fn write(self, definitions: &[Vec<u8>], bytes: usize, next: Option<u64>) -> Line {
        let mut out = Vec::with_capacity(bytes + definitions.len() + 256);
        out.push(b'{');
        if self.version.has_result_type() {
            out.extend_from_slice(self.style.stateless_opening.as_bytes());
        }
        out.extend_from_slice(format!("\"{}\":[", self.list.member()).as_bytes());
        for (at, definition) in definitions.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(definition);
        }
        out.push(b']');
        if let Some(next) = next {
            out.extend_from_slice(format!(",\"nextCursor\":\"{}\"", cursor::encode(self.list, next)).as_bytes());
        }
        if self.version.has_cache_hints() {
            out.push(b',');
            out.extend_from_slice(self.cache.members().as_bytes());
        }
        out.push(b'}');
        Line::new(out)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::Value;

    use super::*;

    struct Number(usize);

    impl Definition for Number {
        fn definition(&self, _version: ProtocolVersion) -> Vec<u8> {
            self.0.to_string().into_bytes()
        }
    }

    #[test]
    fn the_checks_of_all_pages_of_a_caller_are_linear_in_the_length_of_the_list() {
        type IsVisible = fn(usize) -> bool;
        const LEN: usize = 1000;
        let entries: Vec<_> = (0..LEN).map(|number| (number as u64 + 1, Arc::new(Number(number)))).collect();
        let opening = Arc::from("");
        let style = ListStyle { entries: 2, bytes: usize::MAX, cache: CacheHint::NONE, stateless_opening: opening };
        let cases: [(&str, IsVisible); 6] = [
            ("all", |_| true),
            ("none", |_| false),
            ("every second", |number| number % 2 == 0),
            ("the first half", |number| number < LEN / 2),
            ("the last", |number| number == LEN - 1),
            ("all but one", |number| number != LEN / 2),
        ];
        for (name, is_visible) in cases {
            let (pages, checks) = (Pages::default(), Cell::new(0));
            let (mut seen, mut cursor) = (Vec::new(), None::<String>);
            loop {
                let form = PageForm::new(List::Tools, ProtocolVersion::V2025_11_25, &style);
                let page = pages.page(form, &entries, cursor.as_deref(), |entry| {
                    checks.set(checks.get() + 1);
                    is_visible(entry.0)
                });
                let page: Value = serde_json::from_slice(&page.unwrap()).unwrap();
                let numbers = page["tools"].as_array().unwrap();
                assert!(numbers.len() <= 2, "{name}");
                seen.extend(numbers.iter().map(|number| number.as_u64().unwrap() as usize));
                let Some(next) = page["nextCursor"].as_str() else { break };
                // A page with a cursor is full, and is not the last page.
                assert!(numbers.len() == 2 && seen.last().unwrap() + 1 < LEN, "{name}");
                cursor = Some(next.to_owned());
            }
            let expected: Vec<_> = (0..LEN).filter(|number| is_visible(*number)).collect();
            assert_eq!(seen, expected, "{name}");
            assert!(checks.get() <= 5 * LEN, "{name}: {}", checks.get());
        }
    }
}
