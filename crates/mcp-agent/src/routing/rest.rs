//! The rests of long results, as resources of the host.

use std::collections::VecDeque;

use mcp_protocol::{CallToolResult, ContentBlock};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The start of the URIs of rests. Messages for models use the same URIs.
pub(crate) const REST: &str = "mcp-rest:///";
/// The largest number of rests, and of their bytes. The oldest are evicted.
const RESTS: usize = 256;
const BYTES: usize = 64 << 20;

/// The rests of long results, oldest first.
#[derive(Default)]
pub(crate) struct Rests {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    rests: VecDeque<(String, String)>,
    bytes: usize,
}

impl Rests {
    /// Stores a text. A text that is larger than the whole store is cut.
    pub(crate) fn keep(&self, uri: String, mut text: String) {
        text.truncate(boundary(&text, BYTES));
        let mut kept = self.kept.lock();
        if kept.rests.iter().any(|(known, _)| *known == uri) {
            return;
        }
        kept.bytes += text.len();
        kept.rests.push_back((uri, text));
        while kept.rests.len() > RESTS || kept.bytes > BYTES {
            let Some((_, evicted)) = kept.rests.pop_front() else { return };
            kept.bytes -= evicted.len();
        }
    }

    /// Returns a text of at most `max` bytes, and the URI of its rest.
    pub(crate) fn read(&self, uri: &str, max: usize) -> Option<(String, Option<String>)> {
        let text = self.kept.lock().rests.iter().find(|(known, _)| known == uri).map(|(_, text)| text.clone())?;
        if text.len() <= max {
            return Some((text, None));
        }
        let (start, rest) = text.split_at(boundary(&text, max));
        let next = uri_of(rest);
        self.keep(next.clone(), rest.to_owned());
        Some((start.to_owned(), Some(next)))
    }

    /// Cuts the texts of a result after `max` bytes in all. Returns the URI of the rest.
    pub(crate) fn cut(&self, result: &mut CallToolResult, max: usize) -> Option<String> {
        let text_of = |block: &ContentBlock| block.as_text().map_or(0, str::len);
        if result.content.iter().map(text_of).sum::<usize>() <= max {
            return None;
        }
        let (mut room, mut rest) = (max, String::new());
        result.content.retain_mut(|block| {
            let ContentBlock::Text(content) = block else { return true };
            let at = boundary(&content.text, room);
            if at < content.text.len() {
                if !rest.is_empty() {
                    rest.push('\n');
                }
                rest.push_str(&content.text[at..]);
                content.text.truncate(at);
                room = 0;
            } else {
                room -= at;
            }
            !content.text.is_empty()
        });
        let uri = uri_of(&rest);
        let note = format!("[{} bytes of text were left out. Read on in the resource {uri}]", rest.len());
        result.content.push(ContentBlock::text(note));
        self.keep(uri.clone(), rest);
        Some(uri)
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
    format!("{REST}{hex}")
}

#[cfg(test)]
mod tests {
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
        assert!(result.content[1].as_text().unwrap().contains(REST));
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
    fn the_store_of_rests_is_bounded() {
        let rests = Rests::default();
        for n in 0..=RESTS {
            rests.keep(format!("{REST}{n}"), "x".into());
        }
        assert!(rests.read(&format!("{REST}0"), 10).is_none() && rests.read(&format!("{REST}1"), 10).is_some());
        rests.keep(format!("{REST}large"), "x".repeat(BYTES + 10));
        let kept = rests.kept.lock();
        assert!(kept.bytes <= BYTES && kept.rests.len() == 1);
    }
}
