//! The lists of single callers: without the items that the policies deny to them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{
    Core, ItemKind,
    item::Item,
    merged::{Lists, Merged, Selection},
};
use crate::{
    policy::{Policy, PolicyInput},
    registry::Slot,
};

/// The largest number of callers whose lists are kept, and of the bytes of these lists. Beyond them, all lists are written again.
const CALLERS: usize = 4096;
const BYTES: usize = 32 << 20;

/// The lists of callers, for the policies that they were written for.
#[derive(Default)]
pub(super) struct Views {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    policies: Vec<Arc<Policy>>,
    /// The number of changes of the set of servers.
    servers: u64,
    views: HashMap<Option<Arc<str>>, Arc<Lists>>,
    /// The lists by their items. Callers that see the same items share them.
    shared: HashMap<Selection, Arc<Lists>>,
    /// The bytes of the shared lists.
    bytes: usize,
}

impl Kept {
    /// Returns the lists of another caller with the same items, and keeps them for this caller.
    fn share(&mut self, principal: &Option<Arc<str>>, selection: &Selection) -> Option<Arc<Lists>> {
        let lists = Arc::clone(self.shared.get(selection)?);
        if self.views.len() >= CALLERS {
            self.views.clear();
        }
        self.views.insert(principal.clone(), Arc::clone(&lists));
        Some(lists)
    }

    /// Keeps the lists of a caller. Returns the lists of another caller if they have the same items.
    fn keep(&mut self, principal: &Option<Arc<str>>, selection: Selection, lists: Lists) -> Arc<Lists> {
        if let Some(lists) = self.share(principal, &selection) {
            return lists;
        }
        let (bytes, lists) = (lists.bytes(), Arc::new(lists));
        if self.bytes + bytes > BYTES || self.views.len() >= CALLERS {
            self.views.clear();
            self.shared.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.views.insert(principal.clone(), Arc::clone(&lists));
        self.shared.insert(selection, Arc::clone(&lists));
        lists
    }
}

impl Core {
    /// Whether the policies deny an item to a caller for all arguments, so that the lists of the caller lack it.
    pub(super) fn hides(&self, slot: &Slot, input: impl FnOnce() -> PolicyInput, principal: Option<&Arc<str>>) -> bool {
        let (gate, rules) = (&self.host.shared().gate, &slot.options.rules[..]);
        if !gate.decides() && rules.is_empty() {
            return false;
        }
        let mut input = input();
        input.principal = principal.map(|principal| principal.to_string());
        gate.denies(&input, rules)
    }

    /// Returns the lists of a caller.
    pub(super) fn lists(&self, merged: &Merged, principal: Option<&Arc<str>>) -> Arc<Lists> {
        let shared = self.host.shared();
        let slots = shared.registry.slots();
        if !shared.gate.decides() && slots.iter().all(|slot| slot.options.rules.is_empty()) {
            return Arc::clone(merged.lists());
        }
        let servers = shared.registry.changes();
        let policies: Vec<Arc<Policy>> = shared.gate.files().map(|file| file.policy()).collect();
        let principal = principal.cloned();
        let is_current = |kept: &Kept| {
            let is_same = |(one, other): (&Arc<Policy>, &Arc<Policy>)| Arc::ptr_eq(one, other);
            kept.servers == servers
                && kept.policies.len() == policies.len()
                && kept.policies.iter().zip(&policies).all(is_same)
        };
        {
            let mut kept = merged.views.kept.lock();
            if !is_current(&kept) {
                *kept = Kept { policies: policies.clone(), servers, ..Kept::default() };
            }
            if let Some(view) = kept.views.get(&principal) {
                return Arc::clone(view);
            }
        }
        let rules = |server: &str| {
            let slot = slots.iter().find(|slot| &*slot.name == server);
            slot.map_or(&[][..], |slot| &slot.options.rules[..])
        };
        let selection = merged.lists().select(|kind, item| {
            let mut input = input(kind, item);
            input.principal = principal.as_deref().map(str::to_owned);
            !shared.gate.denies(&input, rules(&item.server))
        });
        {
            let mut kept = merged.views.kept.lock();
            if is_current(&kept)
                && let Some(lists) = kept.share(&principal, &selection)
            {
                return lists;
            }
        }
        let lists = merged.lists().selected(&selection);
        let mut kept = merged.views.kept.lock();
        // The policies can have changed meanwhile.
        if is_current(&kept) { kept.keep(&principal, selection, lists) } else { Arc::new(lists) }
    }
}

pub(super) fn input(kind: ItemKind, item: &Item) -> PolicyInput {
    let (server, name) = (&*item.server, &*item.original);
    match kind {
        ItemKind::Tool => {
            let annotations = item.tool.as_ref().and_then(|tool| tool.tool().annotations.clone());
            PolicyInput::new(server, name).annotations(annotations)
        }
        ItemKind::Resource | ItemKind::ResourceTemplate => PolicyInput::resource(server, name),
        ItemKind::Prompt => PolicyInput::prompt(server, name),
    }
}

#[cfg(test)]
mod tests {
    use mcp_server_core::source::{SourceDefinition, SourceList};

    use super::*;
    use crate::catalog::ServerTasks;

    /// Returns merged lists with one tool of a size.
    fn lists(bytes: usize) -> Lists {
        let json = format!(r#"{{"name":"t","description":"{}","inputSchema":{{}}}}"#, "x".repeat(bytes));
        let item = Item {
            key: "t".into(),
            server: "s".into(),
            original: "t".into(),
            definition: SourceDefinition::new(json).unwrap(),
            json: Box::default(),
            tool: None,
            tasks: ServerTasks::None,
        };
        Lists { tools: [item].into_iter().collect(), ..Lists::default() }
    }

    #[test]
    fn callers_with_the_same_items_share_their_lists_and_the_bytes_are_bounded() {
        let all = lists(BYTES / 5);
        let select = |is_kept: bool| all.select(move |_, _| is_kept);
        let mut kept = Kept::default();
        let mut keep =
            |name: &str, is_kept| kept.keep(&Some(name.into()), select(is_kept), all.selected(&select(is_kept)));
        let (ada, grace, linus) = (keep("ada", true), keep("grace", true), keep("linus", false));
        assert!(Arc::ptr_eq(&ada, &grace) && !Arc::ptr_eq(&ada, &linus));
        assert_eq!(linus.list(SourceList::Tools).map(|tools| tools.iter().count()), Some(0));
        assert_eq!((kept.views.len(), kept.shared.len(), kept.bytes), (3, 2, ada.bytes() + linus.bytes()));

        // Each list with other items is written once. The bytes of all lists stay below the limit.
        let large: Vec<Lists> = (1..10).map(|n| lists(BYTES / 5 + n)).collect();
        for (number, lists) in large.iter().enumerate() {
            let selection = Selection::of_number(number);
            kept.keep(&Some(number.to_string().into()), selection, lists.selected(&lists.select(|_, _| true)));
            assert!(kept.bytes <= BYTES && kept.shared.len() <= 3, "{} {}", kept.bytes, kept.shared.len());
        }
        for caller in 0..2 * CALLERS {
            kept.keep(&Some(format!("c{caller}").into()), select(true), all.selected(&select(true)));
            assert!(kept.views.len() <= CALLERS);
        }
    }
}
