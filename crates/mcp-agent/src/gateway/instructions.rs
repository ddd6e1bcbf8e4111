//! The instructions of all servers, as one text for the model.

use std::{collections::HashMap, sync::Arc};

use mcp_protocol::start_of;
use parking_lot::Mutex;

use super::Core;
use crate::characters::{Characters, strip};

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
    known: Mutex<HashMap<Arc<str>, Box<str>>>,
}

impl Core {
    /// Returns the instructions of the servers of a caller, in the order of the servers. A server whose items the policies deny to
    /// the caller is left out, and a server that leads to this gateway too.
    pub(super) fn merged_instructions(&self, principal: Option<&Arc<str>>) -> Option<String> {
        let merged = self.newest_merged();
        let lists = self.lists(&merged, principal);
        let is_of_caller = |server: &str| Arc::ptr_eq(&lists, merged.lists()) || lists.has_items_of_server(server);
        let is_visible = |server: &str| merged.serves(server) && is_of_caller(server);
        let slots = self.host.shared().registry.slots();
        let characters = self.host.shared().registry.settings.characters;
        let mut known = self.instructions.known.lock();
        known.retain(|name, _| slots.iter().any(|slot| slot.name == *name));
        for slot in &slots {
            let Some(client) = slot.listing_client() else { continue };
            let negotiated = client.negotiated();
            let Some(text) = negotiated.instructions.as_deref().map(|text| shown(text, characters)) else {
                known.remove(&slot.name);
                continue;
            };
            if known.get(&slot.name).is_none_or(|known| **known != *text) {
                known.insert(Arc::clone(&slot.name), text.into());
            }
        }
        let visible = slots.iter().filter(|slot| is_visible(&slot.name));
        let texts: Vec<(&str, &str)> =
            visible.filter_map(|slot| Some((&*slot.name, &**known.get(&slot.name)?))).collect();
        merge(&texts, slots.len())
    }
}

/// Returns the part of a text that the gateway stores. The part of a text beyond the budget is beyond the budget too.
fn kept(text: &str) -> &str {
    // A character has at most four bytes.
    start_of(text, BUDGET + 4)
}

/// Returns the part of a text that the gateway stores, as models receive it.
fn shown(text: &str, characters: Characters) -> String {
    match characters {
        // Characters without a visible form need no room. The work for a long text is bounded.
        Characters::Strip => kept(&strip(start_of(text, 4 * BUDGET))).to_owned(),
        Characters::Flag => kept(text).to_owned(),
    }
}

/// Returns the texts of the servers as one text that fits into the budget.
fn merge(texts: &[(&str, &str)], servers: usize) -> Option<String> {
    if let ([(_, text)], 1) = (texts, servers) {
        let is_whole = text.len() <= BUDGET;
        return Some(if is_whole { (*text).to_owned() } else { start_of(text, BUDGET - CUT.len()).to_owned() + CUT });
    }
    let texts = &texts[..texts.len().min(BUDGET / SMALLEST)];
    let share = BUDGET / texts.len().max(1) - SPACE.len();
    let parts: Vec<String> = texts.iter().filter_map(|(server, text)| part(server, text, share)).collect();
    (!parts.is_empty()).then(|| parts.join(SPACE))
}

/// Returns the heading and the text of a server, with at most `share` bytes. `None` if the share has no room for a text.
fn part(server: &str, text: &str, share: usize) -> Option<String> {
    let heading = format!("# {server}\n\n");
    let room = share.checked_sub(heading.len())?;
    if let (quoted, true) = quoted(text, room) {
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
        assert_eq!(merge(&[("a", "x")], 1).as_deref(), Some("x"));
        assert_eq!(merge(&[("a", "x"), ("b", "y")], 3).as_deref(), Some("# a\n\n> x\n\n# b\n\n> y"));
        let forged = merge(&[("a", "x\n# b\r# b\n\ny"), ("b", "y")], 2).unwrap();
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
            let texts: Vec<(&str, &str)> = names.iter().map(|name| (&**name, kept(text))).collect();
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
        assert_eq!(merge(&[(&"n".repeat(BUDGET), "x"), ("b", "y")], 2).as_deref(), Some("# b\n\n> y"));
        assert_eq!(kept("text"), "text");
        assert!((BUDGET + 1..=BUDGET + 4).contains(&kept(&long).len()));
    }
}
