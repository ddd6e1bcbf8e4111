//! The instructions of all servers, as one text for the model.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use mcp_protocol::start_of;
use parking_lot::Mutex;

use super::Core;
use crate::{
    characters::{Characters, strip},
    registry::Slot,
};

/// The largest size of the text with its headings, in bytes. Each server has the same share.
const BUDGET: usize = 16_000;
/// The smallest share. The text has the instructions of the first servers if the shares would be smaller.
const SMALLEST: usize = 100;
/// The end of a text that was cut.
const CUT: &str = "\n\n[The rest is left out.]";
/// The space between two servers.
const SPACE: &str = "\n\n";

/// The last known instructions of each server. A server that does not run keeps them.
#[derive(Default)]
pub(super) struct Instructions {
    known: Mutex<HashMap<Arc<str>, Arc<Known>>>,
}

/// The instructions of a server.
struct Known {
    /// The start of the text of the server.
    start: Box<str>,
    /// The part of the start that the gateway shows, as models receive it.
    shown: Box<str>,
    /// The text of the server is longer than its start.
    is_cut: bool,
}

impl Known {
    fn new(start: &str, is_cut: bool, characters: Characters) -> Self {
        let shown = match characters {
            Characters::Strip => kept(&strip(start)).into(),
            Characters::Flag => kept(start).into(),
        };
        Self { start: start.into(), shown, is_cut }
    }
}

impl Instructions {
    /// Returns the instructions of a server; `None` for a text without visible characters.
    fn of(&self, slot: &Slot, characters: Characters) -> Option<Arc<Known>> {
        let known = self.known.lock().get(&slot.name).cloned();
        let known = match slot.listing_client() {
            None => known?,
            Some(client) => match client.negotiated().instructions.as_deref() {
                None => {
                    self.known.lock().remove(&slot.name);
                    return None;
                }
                Some(text) => {
                    let start = beginning(text, characters);
                    let is_cut = start.len() < text.len();
                    match known.filter(|known| *known.start == *start && known.is_cut == is_cut) {
                        Some(known) => known,
                        None => {
                            let known = Arc::new(Known::new(start, is_cut, characters));
                            self.known.lock().insert(Arc::clone(&slot.name), Arc::clone(&known));
                            known
                        }
                    }
                }
            },
        };
        (!known.shown.is_empty()).then_some(known)
    }
}

impl Core {
    /// Returns the instructions of the servers of a caller, in the order of the servers. A server whose items the policies deny to
    /// the caller is left out, and a server that leads to this gateway too.
    pub(super) fn merged_instructions(&self, principal: Option<&Arc<str>>) -> Option<String> {
        let merged = self.newest_merged();
        let slots = self.host.shared().registry.slots();
        let characters = self.host.shared().registry.settings.characters;
        let served = slots.iter().filter(|slot| merged.serves(&slot.name));
        let mut known: Vec<(&Arc<str>, Arc<Known>)> =
            served.filter_map(|slot| Some((&slot.name, self.instructions.of(slot, characters)?))).collect();
        self.instructions.known.lock().retain(|name, _| slots.iter().any(|slot| slot.name == *name));
        if known.is_empty() {
            return None;
        }
        let with_text: HashSet<&Arc<str>> = known.iter().map(|(server, _)| *server).collect();
        if let Some(visible) = self.visible_servers(&merged, &with_text, principal) {
            known.retain(|(server, _)| visible.contains(*server));
        }
        let texts: Vec<(&str, &str, bool)> =
            known.iter().map(|(server, known)| (&***server, &*known.shown, known.is_cut)).collect();
        merge(&texts, slots.len())
    }
}

/// Returns the start of a text, to which the gateway bounds its work.
fn beginning(text: &str, characters: Characters) -> &str {
    match characters {
        // Characters without a visible form need no room.
        Characters::Strip => start_of(text, 4 * BUDGET),
        Characters::Flag => kept(text),
    }
}

/// Returns the part of a text that the gateway shows. The part of a text beyond the budget is beyond the budget too.
fn kept(text: &str) -> &str {
    // A character has at most four bytes.
    start_of(text, BUDGET + 4)
}

/// Returns the texts of the servers as one text that fits into the budget. The rest of a cut text is missing already.
fn merge(texts: &[(&str, &str, bool)], servers: usize) -> Option<String> {
    if let ([(_, text, is_cut)], 1) = (texts, servers) {
        let is_whole = text.len() <= BUDGET && !is_cut;
        return Some(if is_whole { (*text).to_owned() } else { start_of(text, BUDGET - CUT.len()).to_owned() + CUT });
    }
    let texts = &texts[..texts.len().min(BUDGET / SMALLEST)];
    let share = BUDGET / texts.len().max(1) - SPACE.len();
    let parts: Vec<String> =
        texts.iter().filter_map(|(server, text, is_cut)| part(server, text, *is_cut, share)).collect();
    (!parts.is_empty()).then(|| parts.join(SPACE))
}

/// Returns the heading and the text of a server, with at most `share` bytes. `None` if the share has no room for a text.
fn part(server: &str, text: &str, is_cut: bool, share: usize) -> Option<String> {
    let heading = format!("# {server}\n\n");
    let room = share.checked_sub(heading.len())?;
    if let (quoted, true) = quoted(text, room)
        && !is_cut
    {
        return Some(heading + &quoted);
    }
    let (quoted, _) = quoted(text, room.checked_sub(CUT.len())?);
    (!quoted.is_empty()).then(|| heading + &quoted + CUT)
}

/// Returns a text whose lines are a quotation in Markdown, with at most `max` bytes, and whether it is the whole text. No server
/// writes the heading of another server in a quotation.
fn quoted(text: &str, max: usize) -> (String, bool) {
    let mut quoted = String::new();
    for line in text.split(['\n', '\r']) {
        let mark = if quoted.is_empty() { "> " } else { "\n> " };
        let Some(room) = max.checked_sub(quoted.len() + mark.len()) else { return (quoted, false) };
        let fitting = start_of(line, room);
        quoted.push_str(mark);
        quoted.push_str(fitting);
        if fitting.len() < line.len() {
            return (quoted, false);
        }
    }
    (quoted, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_share_of_the_budget() {
        assert_eq!(merge(&[], 2), None);
        assert_eq!(merge(&[("a", "x", false)], 1).as_deref(), Some("x"));
        let two = merge(&[("a", "x", false), ("b", "y", false)], 3);
        assert_eq!(two.as_deref(), Some("# a\n\n> x\n\n# b\n\n> y"));
        let forged = merge(&[("a", "x\n# b\r# b\n\ny", false), ("b", "y", false)], 2).unwrap();
        assert_eq!(forged, "# a\n\n> x\n> # b\n> # b\n> \n> y\n\n# b\n\n> y");
    }

    #[test]
    fn the_text_fits_into_the_budget() {
        let (short, long, lines) = ("text".to_owned(), "ä".repeat(BUDGET), "x\n".repeat(BUDGET));
        for (servers, text, listed, shortest) in [
            (1, &long, 1, BUDGET - 4),
            (2, &long, 2, BUDGET - 8),
            (2, &lines, 2, BUDGET - 16),
            (100, &long, 100, BUDGET - 500),
            (100, &lines, 100, BUDGET - 900),
            (100, &short, 100, 100 * "# server-1\n\n> text".len()),
            (1000, &long, BUDGET / SMALLEST, BUDGET - 1200),
        ] {
            let names: Vec<String> = (0..servers).map(|number| format!("server-{number}")).collect();
            let texts: Vec<(&str, &str, bool)> = names.iter().map(|name| (&**name, kept(text), false)).collect();
            let merged = merge(&texts, servers).unwrap();
            let case = format!("{servers} {} {}", text.len(), merged.len());
            assert!((shortest..=BUDGET).contains(&merged.len()), "{case}");
            let headings = merged.lines().filter(|line| line.starts_with("# ")).count();
            assert_eq!(headings, if servers == 1 { 0 } else { listed }, "{case}");
            let cuts = merged.matches(CUT.trim()).count();
            assert_eq!(cuts, if *text == short { 0 } else { listed }, "{case}");
            assert!(merged.lines().all(|line| line.is_empty() || line.starts_with(['#', '>', '[']) || servers == 1));
        }
        // A name without room for a text.
        assert_eq!(merge(&[(&"n".repeat(BUDGET), "x", false), ("b", "y", false)], 2).as_deref(), Some("# b\n\n> y"));
        assert_eq!(kept("text"), "text");
        assert!((BUDGET + 1..=BUDGET + 4).contains(&kept(&long).len()));
    }

    #[test]
    fn the_work_for_a_text_is_bounded_and_a_cut_is_visible() {
        let invisible = "\u{200b}".repeat(4 * BUDGET);
        for (text, characters, shown, is_cut) in [
            ("a\u{200b}b", Characters::Strip, Some("ab"), false),
            ("a\u{200b}b", Characters::Flag, Some("a\u{200b}b"), false),
            (&*format!("text{invisible}rest"), Characters::Strip, Some("text"), true),
            (&*invisible, Characters::Strip, Some(""), true),
            (&*invisible, Characters::Flag, None, true),
            ("", Characters::Strip, Some(""), false),
        ] {
            let start = beginning(text, characters);
            let known = Known::new(start, start.len() < text.len(), characters);
            assert!(known.start.len() <= 4 * BUDGET && known.shown.len() <= BUDGET + 4);
            assert_eq!((shown.unwrap_or(&known.shown), known.is_cut), (&*known.shown, is_cut), "{characters:?}");
        }
        assert_eq!(merge(&[("a", "text", true)], 1), Some(format!("text{CUT}")));
        assert_eq!(merge(&[("a", "text", true)], 2), Some(format!("# a\n\n> text{CUT}")));
    }
}
