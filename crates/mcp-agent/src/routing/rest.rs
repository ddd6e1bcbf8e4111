//! The rests of long results, as resources of the host.

use std::{collections::VecDeque, sync::Arc};

use mcp_protocol::{CallToolResult, ContentBlock, ResourceBody};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The start of the URIs of rests. Messages for models use the same URIs.
pub(crate) const REST_URI_PREFIX: &str = "mcp-rest:///";
/// The largest number of rests, and of their bytes. The oldest are evicted.
const RESTS: usize = 256;
const BYTES: usize = 64 << 20;

/// The rests of long results, oldest first. Each text is stored once. The URI of a later part is the URI of the text with the
/// place of the part as its fragment.
#[derive(Default)]
pub(crate) struct Rests {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    rests: VecDeque<(String, Arc<str>)>,
    bytes: usize,
}

impl Kept {
    fn text(&self, uri: &str) -> Option<Arc<str>> {
        self.rests.iter().find(|(known, _)| known == uri).map(|(_, text)| Arc::clone(text))
    }
}

impl Rests {
    /// Stores a text. A text that is larger than the whole store is cut.
    pub(crate) fn keep(&self, uri: String, mut text: String) {
        text.truncate(boundary(&text, BYTES));
        let mut kept = self.kept.lock();
        if kept.text(&uri).is_some() {
            return;
        }
        kept.bytes += text.len();
        kept.rests.push_back((uri, text.into()));
        while kept.rests.len() > RESTS || kept.bytes > BYTES {
            let Some((_, evicted)) = kept.rests.pop_front() else { return };
            kept.bytes -= evicted.len();
        }
    }

    /// Returns a text of at most `max` bytes, and the URI of its rest. The time depends on `max`, and not on the whole text.
    pub(crate) fn read(&self, uri: &str, max: usize) -> Option<(String, Option<String>)> {
        let (text, base, start) = self.find(uri)?;
        let rest = text.get(start..)?;
        if rest.len() <= max {
            return Some((rest.to_owned(), None));
        }
        // Each part has at least one character, so that a reader reaches the end.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let length = boundary(rest, max).max(first);
        Some((rest[..length].to_owned(), Some(format!("{base}#{}", start + length))))
    }

    /// Returns the text of a URI, the URI of the whole text, and the place of the part.
    fn find<'a>(&self, uri: &'a str) -> Option<(Arc<str>, &'a str, usize)> {
        let kept = self.kept.lock();
        if let Some(text) = kept.text(uri) {
            return Some((text, uri, 0));
        }
        let (base, start) = uri.rsplit_once('#')?;
        Some((kept.text(base)?, base, start.parse().ok()?))
    }

    /// Cuts the texts of a result after `max` bytes in all, also those of embedded resources. Returns the URI of the rest.
    pub(crate) fn cut(&self, result: &mut CallToolResult, max: usize) -> Option<String> {
        if result.content.iter_mut().filter_map(text_of).map(|text| text.len()).sum::<usize>() <= max {
            return None;
        }
        let (mut room, mut rest) = (max, String::new());
        result.content.retain_mut(|block| {
            let Some(text) = text_of(block) else { return true };
            let at = boundary(text, room);
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
        let uri = uri_of(&rest);
        let note = format!("[{} bytes of text were left out. Read on in the resource {uri}]", rest.len());
        result.content.push(ContentBlock::text(note));
        self.keep(uri.clone(), rest);
        Some(uri)
    }
}

/// Returns the text of a block, or of its resource.
fn text_of(block: &mut ContentBlock) -> Option<&mut String> {
    match block {
        ContentBlock::Text(content) => Some(&mut content.text),
        ContentBlock::Resource(content) => match &mut content.resource.body {
            ResourceBody::Text(text) => Some(text),
            ResourceBody::Blob(_) => None,
        },
        _ => None,
    }
}

/// Returns the largest place of a cut that is not after `max` bytes.
fn boundary(text: &str, max: usize) -> usize {
    (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns the URI of a text, which depends on the text only.
fn uri_of(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("{REST_URI_PREFIX}{hex}")
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
        let mut uri = rests.cut(&mut result, 4_000);
        let shown = result.content[0].as_text().unwrap();
        assert!(shown.len() <= 4_000 && result.content.len() == 2);
        assert!(result.content[1].as_text().unwrap().contains(REST_URI_PREFIX));
        let mut read = shown.to_owned();
        while let Some(next) = uri {
            let (text, rest) = rests.read(&next, 4_000).unwrap();
            assert!(text.len() <= 4_000);
            read.push_str(&text);
            uri = rest;
        }
        assert_eq!(read.replace('\n', ""), whole);
        assert!(rests.read("mcp-rest:///unknown", 10).is_none());
        assert!(rests.cut(&mut CallToolResult::text("short"), 4_000).is_none());
    }

    #[test]
    fn a_text_is_stored_once_and_read_part_by_part() {
        let rests = Rests::default();
        let whole = "ä".repeat(5 << 20);
        rests.keep("mcp-rest:///whole".into(), whole.clone());
        let (mut read, mut uri) = (0, Some("mcp-rest:///whole".to_owned()));
        while let Some(next) = uri {
            let (text, rest) = rests.read(&next, 1_001).unwrap();
            assert_eq!(text, whole[read..][..text.len()]);
            (read, uri) = (read + text.len(), rest);
        }
        assert_eq!(read, whole.len());
        let kept = rests.kept.lock();
        assert_eq!((kept.rests.len(), kept.bytes), (1, whole.len()), "no read stores another text");
        drop(kept);
        // A part has one character at least.
        assert_eq!(rests.read("mcp-rest:///whole", 1).unwrap().0, "ä");
        for invalid in ["#1", "#x", "#-1", "#99999999999", "#18446744073709551616"] {
            assert_eq!(rests.read(&format!("mcp-rest:///whole{invalid}"), 10), None, "{invalid}");
        }
    }

    #[test]
    fn the_text_of_embedded_resources_is_cut() {
        let rests = Rests::default();
        let resource =
            |uri: &str, text: &str| ContentBlock::Resource(EmbeddedResource::new(ResourceContents::text(uri, text)));
        let content = vec![ContentBlock::text("ab"), resource("a:1", "cdef"), resource("a:2", "gh")];
        let mut result = CallToolResult::new(content);
        let uri = rests.cut(&mut result, 4).unwrap();
        let texts: Vec<&str> = result.content.iter_mut().filter_map(text_of).map(|text| &**text).collect();
        assert_eq!(texts[..3], ["ab", "cd", ""]);
        assert!(texts[3].contains(&uri));
        assert_eq!(rests.read(&uri, 100).unwrap(), ("ef\ngh".to_owned(), None));
    }

    #[test]
    fn the_store_of_rests_is_bounded() {
        let rests = Rests::default();
        for n in 0..=RESTS {
            rests.keep(format!("{REST_URI_PREFIX}{n}"), "x".into());
        }
        assert!(
            rests.read(&format!("{REST_URI_PREFIX}0"), 10).is_none()
                && rests.read(&format!("{REST_URI_PREFIX}1"), 10).is_some()
        );
        rests.keep(format!("{REST_URI_PREFIX}large"), "x".repeat(BYTES + 10));
        let kept = rests.kept.lock();
        assert!(kept.bytes <= BYTES && kept.rests.len() == 1);
    }
}
