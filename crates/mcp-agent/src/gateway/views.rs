//! The lists of single callers: without the items that the policies deny to them.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{
    Core, ItemKind,
    item::Item,
    merged::{Lists, Merged},
};
use crate::policy::{Policy, PolicyInput};

/// The largest number of callers whose lists are kept. Beyond it, all of them are written again.
const CALLERS: usize = 256;

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
}

impl Core {
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
            if !is_current(&kept) || kept.views.len() > CALLERS {
                *kept = Kept { policies: policies.clone(), servers, views: HashMap::new() };
            }
            if let Some(view) = kept.views.get(&principal) {
                return Arc::clone(view);
            }
        }
        let rules = |server: &str| {
            let slot = slots.iter().find(|slot| &*slot.name == server);
            slot.map_or(&[][..], |slot| &slot.options.rules[..])
        };
        let view = Arc::new(merged.lists().filtered(|kind, item| {
            let mut input = input(kind, item);
            input.principal = principal.as_deref().map(str::to_owned);
            !shared.gate.denies(&input, rules(&item.server))
        }));
        let mut kept = merged.views.kept.lock();
        // The policies can have changed meanwhile.
        if is_current(&kept) {
            kept.views.insert(principal, Arc::clone(&view));
        }
        view
    }
}

fn input(kind: ItemKind, item: &Item) -> PolicyInput {
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
