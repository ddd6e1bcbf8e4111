//! The rests of long results, as resources of the host.

use std::{
    collections::VecDeque,
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use mcp_protocol::{CallToolResult, ContentBlock, ReadResourceResult, ResourceBody, start_of};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The start of the URIs of rests. Messages for models use the same URIs.
pub(crate) const REST_URI_PREFIX: &str = "mcp-rest:///";
/// The largest number of rests, and of their bytes. The oldest are evicted: those of a principal with more than a quarter of the
/// store when it adds another one, otherwise those of all principals.
const RESTS: usize = 256;
const BYTES: usize = 64 << 20;
const SHARE: usize = 4;

/// The rests of long results, oldest first. Each text of a principal is stored once, and only this principal can read it. The URI
/// of a later part is the URI of the text with the place of the part as its fragment.
#[derive(Default)]
pub(crate) struct Rests {
    /// Random, so that a caller cannot compute the URI of a text.
    key: RandomState,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    rests: VecDeque<Rest>,
    bytes: usize,
}

struct Rest {
    uri: String,
    principal: Option<Box<str>>,
    text: Arc<str>,
}

impl Kept {
    fn text(&self, uri: &str, principal: Option<&str>) -> Option<Arc<str>> {
        let is_wanted = |rest: &&Rest| rest.uri == uri && rest.principal.as_deref() == principal;
        self.rests.iter().find(is_wanted).map(|rest| Arc::clone(&rest.text))
    }

    /// Returns the rest that is evicted after this principal added the newest one.
    fn surplus(&self, principal: Option<&str>) -> Option<usize> {
        if self.rests.len() <= RESTS && self.bytes <= BYTES {
            return None;
        }
        let is_own = |rest: &Rest| rest.principal.as_deref() == principal;
        let own = self.rests.iter().filter(|rest| is_own(rest));
        let (count, bytes) = own.fold((0, 0), |(count, bytes), rest| (count + 1, bytes + rest.text.len()));
        let has_share = count > RESTS / SHARE || bytes > BYTES / SHARE;
        let oldest = self.rests.iter().position(is_own).filter(|place| has_share && place + 1 < self.rests.len());
        Some(oldest.unwrap_or(0))
    }
}

impl Rests {
    /// Stores a text of a principal. A text that is larger than the whole store is cut.
    pub(crate) fn keep(&self, uri: String, mut text: String, principal: Option<&str>) {
        text.truncate(start_of(&text, BYTES).len());
        let mut kept = self.kept.lock();
        if kept.text(&uri, principal).is_some() {
            return;
        }
        kept.bytes += text.len();
        kept.rests.push_back(Rest { uri, principal: principal.map(Box::from), text: text.into() });
        while let Some(place) = kept.surplus(principal) {
            let Some(evicted) = kept.rests.remove(place) else { return };
            kept.bytes -= evicted.text.len();
        }
    }

    /// Returns a text of at most `max` bytes, and the URI of its rest. `None` if the principal has no such text. The time depends
    /// on `max`, and not on the whole text.
    pub(crate) fn read(&self, uri: &str, max: usize, principal: Option<&str>) -> Option<(String, Option<String>)> {
        let (text, base, start) = self.find(uri, principal)?;
        let rest = text.get(start..)?;
        if rest.len() <= max {
            return Some((rest.to_owned(), None));
        }
        // Each part has at least one character, so that a reader reaches the end.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = start_of(rest, max).len().max(first);
        Some((rest[..length].to_owned(), Some(format!("{base}#{}", start + length))))
    }

    /// Returns the text of a URI, the URI of the whole text, and the place of the part.
    fn find<'a>(&self, uri: &'a str, principal: Option<&str>) -> Option<(Arc<str>, &'a str, usize)> {
        let kept = self.kept.lock();
        if let Some(text) = kept.text(uri, principal) {
            return Some((text, uri, 0));
        }
        let (base, start) = uri.rsplit_once('#')?;
        Some((kept.text(base, principal)?, base, start.parse().ok()?))
    }

    /// Cuts the texts of a read after `max` bytes in all. The last text ends with a note that has the URI of the rest.
    pub(crate) fn cut_read(&self, result: &mut ReadResourceResult, max: usize, principal: Option<&str>) {
        let mut texts: Vec<&mut String> =
            result.contents.iter_mut().filter_map(|part| text_of_body(&mut part.body)).collect();
        if texts.iter().map(|text| text.len()).sum::<usize>() <= max {
            return;
        }
        let (mut room, mut rest, mut last) = (max, String::new(), 0);
        for (place, text) in texts.iter_mut().enumerate() {
            let at = start_of(text, room).len();
            if at == text.len() {
                room -= at;
                continue;
            }
            if rest.is_empty() {
                last = place;
            } else {
                rest.push('\n');
            }
            rest.push_str(&text[at..]);
            text.truncate(at);
            room = 0;
        }
        let uri = self.uri_of(&rest, principal);
        if let Some(text) = texts.get_mut(last) {
            text.push_str(&continues_in(&uri));
        }
        self.keep(uri, rest, principal);
    }

    /// Cuts the texts of a result after `max` bytes in all, also those of embedded resources. Returns the URI of the rest.
    pub(crate) fn cut(&self, result: &mut CallToolResult, max: usize, principal: Option<&str>) -> Option<String> {
        if result.content.iter_mut().filter_map(text_of).map(|text| text.len()).sum::<usize>() <= max {
            return None;
        }
        let (mut room, mut rest) = (max, String::new());
        result.content.retain_mut(|block| {
            let Some(text) = text_of(block) else { return true };
            let at = start_of(text, room).len();
            if at < text.len() {
                if !rest.is_empty() {
                    rest.push('\n');
                }
                rest.push_str(&text[at..]);
                text.truncate(at);
                room = 0;
            } else {
                room -= at;
            }
            // A resource without text still has its URI.
            !text.is_empty() || !matches!(block, ContentBlock::Text(_))
        });
        let uri = self.uri_of(&rest, principal);
        let note = format!("[{} bytes of text were left out. Read on in the resource {uri}]", rest.len());
        result.content.push(ContentBlock::text(note));
        self.keep(uri.clone(), rest, principal);
        Some(uri)
    }

    /// Returns the URI of a text of a principal.
    fn uri_of(&self, text: &str, principal: Option<&str>) -> String {
        let mut digest = Sha256::new();
        for number in 0..4_u8 {
            digest.update(self.key.hash_one(number).to_le_bytes());
        }
        let name = principal.unwrap_or_default();
        digest.update([u8::from(principal.is_some())]);
        digest.update(name.len().to_le_bytes());
        digest.update(name);
        digest.update(text);
        let hex: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("{REST_URI_PREFIX}{hex}")
    }
}

/// Returns the note at the end of a text with a rest.
pub(crate) fn continues_in(uri: &str) -> String {
    format!("\n[The text continues in the resource {uri}]")
}

/// Returns the text of a block, or of its resource.
fn text_of(block: &mut ContentBlock) -> Option<&mut String> {
    match block {
        ContentBlock::Text(content) => Some(&mut content.text),
        ContentBlock::Resource(content) => text_of_body(&mut content.resource.body),
        _ => None,
    }
}

fn text_of_body(body: &mut ResourceBody) -> Option<&mut String> {
    match body {
        ResourceBody::Text(text) => Some(text),
        ResourceBody::Blob(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::{EmbeddedResource, ResourceContents};

    use super::*;

    #[test]
    fn a_long_result_is_read_on_until_its_end() {
        let rests = Rests::default();
        let whole = "äb".repeat(5_000);
        let mut result =
            CallToolResult::new(vec![ContentBlock::text(&whole[..9_000]), ContentBlock::text(&whole[9_000..])]);
        let mut uri = rests.cut(&mut result, 4_000, None);
        let shown = result.content[0].as_text().unwrap();
        assert!(shown.len() <= 4_000 && result.content.len() == 2);
        assert!(result.content[1].as_text().unwrap().contains(REST_URI_PREFIX));
        let mut read = shown.to_owned();
        while let Some(next) = uri {
            let (text, rest) = rests.read(&next, 4_000, None).unwrap();
            assert!(text.len() <= 4_000);
            read.push_str(&text);
            uri = rest;
        }
        assert_eq!(read.replace('\n', ""), whole);
        assert!(rests.read("mcp-rest:///unknown", 10, None).is_none());
        assert!(rests.cut(&mut CallToolResult::text("short"), 4_000, None).is_none());
    }

    #[test]
    fn a_text_is_stored_once_and_read_part_by_part() {
        let rests = Rests::default();
        let whole = "ä".repeat(5 << 20);
        rests.keep("mcp-rest:///whole".into(), whole.clone(), None);
        let (mut read, mut uri) = (0, Some("mcp-rest:///whole".to_owned()));
        while let Some(next) = uri {
            let (text, rest) = rests.read(&next, 1_001, None).unwrap();
            assert_eq!(text, whole[read..][..text.len()]);
            (read, uri) = (read + text.len(), rest);
        }
        assert_eq!(read, whole.len());
        let kept = rests.kept.lock();
        assert_eq!((kept.rests.len(), kept.bytes), (1, whole.len()), "no read stores another text");
        drop(kept);
        // A part has one character at least.
        assert_eq!(rests.read("mcp-rest:///whole", 1, None).unwrap().0, "ä");
        for invalid in ["#1", "#x", "#-1", "#99999999999", "#18446744073709551616"] {
            assert_eq!(rests.read(&format!("mcp-rest:///whole{invalid}"), 10, None), None, "{invalid}");
        }
    }

    #[test]
    fn the_text_of_embedded_resources_is_cut() {
        let rests = Rests::default();
        let resource =
            |uri: &str, text: &str| ContentBlock::Resource(EmbeddedResource::new(ResourceContents::text(uri, text)));
        let content = vec![ContentBlock::text("ab"), resource("a:1", "cdef"), resource("a:2", "gh")];
        let mut result = CallToolResult::new(content);
        let uri = rests.cut(&mut result, 4, None).unwrap();
        let texts: Vec<&str> = result.content.iter_mut().filter_map(text_of).map(|text| &**text).collect();
        assert_eq!(texts[..3], ["ab", "cd", ""]);
        assert!(texts[3].contains(&uri));
        assert_eq!(rests.read(&uri, 100, None).unwrap(), ("ef\ngh".to_owned(), None));
    }

    #[test]
    fn the_store_of_rests_is_bounded() {
        let rests = Rests::default();
        for n in 0..=RESTS {
            rests.keep(format!("{REST_URI_PREFIX}{n}"), "x".into(), None);
        }
        assert!(
            rests.read(&format!("{REST_URI_PREFIX}0"), 10, None).is_none()
                && rests.read(&format!("{REST_URI_PREFIX}1"), 10, None).is_some()
        );
        rests.keep(format!("{REST_URI_PREFIX}large"), "x".repeat(BYTES + 10), None);
        let kept = rests.kept.lock();
        assert!(kept.bytes <= BYTES && kept.rests.len() == 1);
    }

    #[test]
    fn a_rest_belongs_to_its_principal() {
        let rests = Rests::default();
        let cut = |principal: Option<&str>| rests.cut(&mut CallToolResult::text("secret"), 1, principal).unwrap();
        let (of_ada, of_ben, of_host) = (cut(Some("ada")), cut(Some("ben")), cut(None));
        assert!(of_ada != of_ben && of_ada != of_host && of_ben != of_host, "the URI names the principal");
        assert_eq!(cut(Some("ada")), of_ada, "the same text is stored once");
        assert_eq!(rests.read(&of_ada, 10, Some("ada")).unwrap().0, "ecret");
        for other in [Some("ben"), Some(""), None] {
            assert!(rests.read(&of_ada, 10, other).is_none(), "{other:?}");
            assert!(rests.read(&format!("{of_ada}#1"), 10, other).is_none(), "{other:?}");
        }
        let elsewhere = Rests::default().cut(&mut CallToolResult::text("secret"), 1, Some("ada"));
        assert_ne!(elsewhere, Some(of_ada), "the URI is not computable from the text");
    }

    #[test]
    fn the_rests_of_one_principal_do_not_evict_those_of_others() {
        let rests = Rests::default();
        let keep = |n: usize, principal: &str| rests.keep(format!("{principal}{n}"), "x".into(), Some(principal));
        (0..10).for_each(|n| keep(n, "ada"));
        (0..2 * RESTS).for_each(|n| keep(n, "ben"));
        let has = |n: usize, principal: &str| rests.read(&format!("{principal}{n}"), 10, Some(principal)).is_some();
        assert!((0..10).all(|n| has(n, "ada")));
        assert!(!has(0, "ben") && has(2 * RESTS - 1, "ben"));
        assert_eq!(rests.kept.lock().rests.len(), RESTS);
        // A single text of the whole size stays.
        rests.keep("large".into(), "x".repeat(BYTES), Some("ben"));
        assert!(rests.read("large", 1, Some("ben")).is_some() && rests.kept.lock().bytes <= BYTES);
    }

    #[test]
    fn a_long_read_is_cut_and_read_on() {
        let rests = Rests::default();
        let part = |uri: &str, text: &str| ResourceContents::text(uri, text);
        let contents =
            vec![part("a:1", "ab"), part("a:2", "cdäf"), ResourceContents::blob("a:3", b"raw"), part("a:4", "gh")];
        let mut result = ReadResourceResult::new(contents);
        rests.cut_read(&mut result, 9, None);
        let texts = |result: &mut ReadResourceResult| -> Vec<String> {
            result
                .contents
                .iter_mut()
                .filter_map(|part| text_of_body(&mut part.body))
                .map(|text| text.clone())
                .collect()
        };
        assert_eq!(texts(&mut result), ["ab", "cdäf", "gh"]);
        rests.cut_read(&mut result, 5, None);
        let cut = texts(&mut result);
        assert_eq!((cut[0].as_str(), cut[2].as_str(), result.contents.len()), ("ab", "", 4));
        let uri = cut[1].strip_prefix("cd\n[The text continues in the resource ").unwrap().strip_suffix(']').unwrap();
        assert_eq!(rests.read(uri, 100, None).unwrap(), ("äf\ngh".to_owned(), None));
    }
}
