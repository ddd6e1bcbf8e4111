//! The instructions of all servers, as one text for the model.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::Core;

/// The largest size of the text, in bytes. Each server has the same share.
const BUDGET: usize = 16_000;

/// The last known instructions of each server. A server that does not run keeps them.
#[derive(Default)]
pub(super) struct Instructions {
    known: Mutex<HashMap<Arc<str>, String>>,
}

impl Core {
    /// Returns the instructions of the servers of a caller, in the order of the servers. A server whose items the policies deny to
    /// the caller is left out.
    pub(super) fn merged_instructions(&self, principal: Option<&Arc<str>>) -> Option<String> {
        let merged = self.newest_merged();
        let lists = self.lists(&merged, principal);
        let is_visible = |server: &str| Arc::ptr_eq(&lists, merged.lists()) || lists.has_items_of_server(server);
        let slots = self.host.shared().registry.slots();
        let mut known = self.instructions.known.lock();
        known.retain(|name, _| slots.iter().any(|slot| slot.name == *name));
        for slot in &slots {
            let Some(client) = slot.listing_client() else { continue };
            match client.negotiated().instructions.clone() {
                Some(text) => known.insert(Arc::clone(&slot.name), text),
                None => known.remove(&slot.name),
            };
        }
        let visible = slots.iter().filter(|slot| is_visible(&slot.name));
        let texts: Vec<(&str, &str)> =
            visible.filter_map(|slot| Some((&*slot.name, known.get(&slot.name)?.as_str()))).collect();
        merge(&texts, slots.len())
    }
}

/// Returns the largest place of a cut that is not after `max` bytes.
fn boundary(text: &str, max: usize) -> usize {
    (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn merge(texts: &[(&str, &str)], servers: usize) -> Option<String> {
    let share = BUDGET / texts.len().max(1);
    let cut = |text: &str| match text.len() <= share {
        true => text.to_owned(),
        false => format!("{}\n\n[The rest is left out.]", &text[..boundary(text, share)]),
    };
    match texts {
        [] => None,
        [(_, text)] if servers == 1 => Some(cut(text)),
        texts => {
            // Each line of a server is quoted, so that no server writes the heading of another one.
            let parts = texts.iter().map(|(server, text)| format!("# {server}\n\n{}", cut(&quoted(text))));
            Some(parts.collect::<Vec<_>>().join("\n\n"))
        }
    }
}

/// Returns a text whose lines are a quotation in Markdown.
fn quoted(text: &str) -> String {
    let lines: Vec<String> = text.split(['\n', '\r']).map(|line| format!("> {line}")).collect();
    lines.join("\n")
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
        let long = "ä".repeat(BUDGET);
        let merged = merge(&[("a", &long), ("b", "y")], 2).unwrap();
        assert!(merged.len() < BUDGET && merged.ends_with("[The rest is left out.]\n\n# b\n\n> y"));
    }
}
