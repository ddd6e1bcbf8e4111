//! The lists of single callers: without the items that the policies deny to them.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    Core, ItemKind,
    item::Item,
    merged::{Lists, Merged, Selection},
};
use crate::{
    policy::{Gate, Policy, PolicyInput, Rule},
    registry::Slot,
};

/// The largest number of callers whose lists are kept, and of the bytes of these lists. Beyond them, all lists are written again.
const CALLERS: usize = 4096;
const BYTES: usize = 32 << 20;

/// The largest number of threads that write the lists of callers.
pub(super) const WRITERS: usize = 4;

/// The lists of callers, for the policies that they were written for.
#[derive(Default)]
pub(super) struct Views {
    kept: Mutex<Kept>,
}

/// The policies, and the servers with their rules.
#[derive(Clone, Default)]
struct Decisions {
    policies: Vec<Arc<Policy>>,
    /// The number of changes of the set of servers.
    servers: u64,
}

#[derive(Default)]
struct Kept {
    decisions: Decisions,
    views: HashMap<Option<Arc<str>>, Arc<Lists>>,
    /// The lists by their items. Callers that see the same items share them.
    shared: HashMap<Selection, Arc<Lists>>,
    /// The bytes of the shared lists and of their selections.
    bytes: usize,
}

impl Kept {
    /// Whether the lists were written for these decisions.
    fn is_of(&self, decisions: &Decisions) -> bool {
        let Decisions { policies, servers } = &self.decisions;
        let is_same = |(one, other): (&Arc<Policy>, &Arc<Policy>)| Arc::ptr_eq(one, other);
        *servers == decisions.servers
            && policies.len() == decisions.policies.len()
            && policies.iter().zip(&decisions.policies).all(is_same)
    }

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
        let (bytes, lists) = (lists.bytes() + selection.bytes(), Arc::new(lists));
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

    /// Returns the lists of a caller. A thread for blocking work writes large lists.
    pub(super) async fn lists(self: &Arc<Self>, merged: &Arc<Merged>, principal: Option<&Arc<str>>) -> Arc<Lists> {
        if let Some(known) = self.known_lists(merged, principal) {
            return known;
        }
        if merged.is_small() {
            return self.written_lists(merged, principal);
        }
        Box::pin(self.lists_of_thread(merged, principal)).await
    }

    async fn lists_of_thread(self: &Arc<Self>, merged: &Arc<Merged>, principal: Option<&Arc<str>>) -> Arc<Lists> {
        // The thread of a cancelled request continues, and keeps the permit.
        let permit = Arc::clone(&self.writers).acquire_owned().await;
        // Another request of the caller can have written the lists meanwhile.
        if let Some(known) = self.known_lists(merged, principal) {
            return known;
        }
        let (core, of_thread, caller) = (Arc::clone(self), Arc::clone(merged), principal.cloned());
        let written = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            core.written_lists(&of_thread, caller.as_ref())
        });
        // The task ends without lists only if the runtime shuts down.
        written.await.unwrap_or_else(|_| self.written_lists(merged, principal))
    }

    /// Returns those of some servers of which the policies permit an item to a caller; `None` if they permit all of them. Writes no
    /// lists.
    pub(super) fn visible_servers(
        &self,
        merged: &Merged,
        of: &HashSet<&Arc<str>>,
        principal: Option<&Arc<str>>,
    ) -> Option<HashSet<Arc<str>>> {
        let known = self.known_lists(merged, principal);
        if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, merged.lists())) {
            return None;
        }
        let slots = self.host.shared().registry.slots();
        let decider = Decider::new(&self.host.shared().gate, &slots, principal);
        let mut visible = HashSet::<Arc<str>>::new();
        for (kind, items) in known.as_ref().unwrap_or(merged.lists()).all() {
            let mut denied = HashMap::<&str, bool>::new();
            for item in items.iter() {
                if visible.contains(&item.server) || !of.contains(&item.server) {
                    continue;
                }
                let is_denied = || decider.denies_kind(kind, item);
                if known.is_some()
                    || (!*denied.entry(&item.server).or_insert_with(is_denied) && decider.permits(kind, item))
                {
                    visible.insert(Arc::clone(&item.server));
                }
            }
        }
        Some(visible)
    }

    /// Returns the lists of a caller that are written; all lists if no policy decides.
    fn known_lists(&self, merged: &Merged, principal: Option<&Arc<str>>) -> Option<Arc<Lists>> {
        let shared = self.host.shared();
        if !shared.gate.decides() && shared.registry.slots().iter().all(|slot| slot.options.rules.is_empty()) {
            return Some(Arc::clone(merged.lists()));
        }
        let (decisions, principal) = (self.decisions(), principal.cloned());
        let kept = merged.views.kept.lock();
        if kept.is_of(&decisions) { kept.views.get(&principal).cloned() } else { None }
    }

    /// Returns the lists of a caller, and writes them if no caller sees the same items.
    fn written_lists(&self, merged: &Merged, principal: Option<&Arc<str>>) -> Arc<Lists> {
        let decisions = self.decisions();
        let principal = principal.cloned();
        {
            let mut kept = merged.views.kept.lock();
            if !kept.is_of(&decisions) {
                *kept = Kept { decisions: decisions.clone(), ..Kept::default() };
            }
        }
        let slots = self.host.shared().registry.slots();
        let decider = Decider::new(&self.host.shared().gate, &slots, principal.as_ref());
        let selection = merged.lists().select(|kind, item| decider.permits(kind, item));
        {
            let mut kept = merged.views.kept.lock();
            if kept.is_of(&decisions)
                && let Some(lists) = kept.share(&principal, &selection)
            {
                return lists;
            }
        }
        let lists = merged.lists().selected(&selection);
        let mut kept = merged.views.kept.lock();
        // The policies can have changed meanwhile.
        if kept.is_of(&decisions) { kept.keep(&principal, selection, lists) } else { Arc::new(lists) }
    }

    fn decisions(&self) -> Decisions {
        let shared = self.host.shared();
        let servers = shared.registry.changes();
        Decisions { policies: shared.gate.files().map(|file| file.policy()).collect(), servers }
    }
}

/// Decides which items a caller sees.
struct Decider<'a> {
    gate: &'a Gate,
    rules: HashMap<&'a str, &'a [Rule]>,
    principal: Option<String>,
}

impl<'a> Decider<'a> {
    fn new(gate: &'a Gate, slots: &'a [Arc<Slot>], principal: Option<&Arc<str>>) -> Self {
        let rules = slots.iter().map(|slot| (&*slot.name, &slot.options.rules[..])).collect();
        Self { gate, rules, principal: principal.map(|principal| principal.to_string()) }
    }

    fn permits(&self, kind: ItemKind, item: &Item) -> bool {
        !self.gate.denies(&self.input(kind, item), self.rules_of(item))
    }

    /// Whether the policies deny all items of this kind and of the server of an item.
    fn denies_kind(&self, kind: ItemKind, item: &Item) -> bool {
        self.gate.denies_kind(&self.input(kind, item), self.rules_of(item))
    }

    fn input(&self, kind: ItemKind, item: &Item) -> PolicyInput {
        let mut input = input(kind, item);
        input.principal.clone_from(&self.principal);
        input
    }

    fn rules_of(&self, item: &Item) -> &'a [Rule] {
        self.rules.get(&*item.server).copied().unwrap_or_default()
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
    use std::{
        task::{Context, Waker},
        time::Duration,
    };

    use mcp_server::{Server, tool};
    use mcp_server_core::source::{SourceDefinition, SourceList};
    use tokio::time::timeout;

    use super::*;
    use crate::{Gateway, Host, catalog::ServerTasks, policy::Effect};

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
        assert_eq!((kept.views.len(), kept.shared.len(), kept.bytes), (3, 2, ada.bytes() + linus.bytes() + 2));

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

    #[test]
    fn the_selections_of_lists_count() {
        let mut kept = Kept::default();
        for number in 0..10 {
            kept.keep(&Some(number.to_string().into()), Selection::of_number(BYTES / 5 + number), Lists::default());
            assert!(kept.bytes <= BYTES && kept.shared.len() <= 4, "{} {}", kept.bytes, kept.shared.len());
        }
    }

    #[tokio::test]
    async fn a_thread_writes_large_lists_and_the_instructions_write_none() {
        for (count, is_large) in [(10, false), (300, true)] {
            let server = (0..count).fold(Server::builder("s", "1"), |s, n| s.tool(tool(format!("t{n}"), async || "t")));
            let server = server.instructions("text").build();
            let of_guests = Rule::new(Effect::Deny).principal("guest-*".parse().unwrap());
            let of_ada = Rule::new(Effect::Deny).tool("t1*".parse().unwrap()).principal("ada".parse().unwrap());
            let policy = Policy::new().rule(of_guests).rule(of_ada);
            let host = Host::builder("gateway", "1").server("s", &server).policy(policy).start().await.unwrap();
            let core = Gateway::builder(host).core();
            let merged = core.merged().await;
            let [ada, guest] = ["ada", "guest-7"].map(Arc::<str>::from);
            let instructions = |caller| core.merged_instructions(Some(caller)).is_some();
            assert!(instructions(&ada) && !instructions(&guest) && merged.views.kept.lock().views.is_empty());
            let permits = core.writers.acquire_many(u32::try_from(WRITERS).unwrap()).await.unwrap();
            let mut listed = Box::pin(core.lists(&merged, Some(&ada)));
            // A thread needs a permit.
            let polled = listed.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert_eq!(polled.is_pending(), is_large, "{count}");
            drop((listed, permits));
            for (caller, listed) in
                [(&ada, (0..count).filter(|n| !n.to_string().starts_with('1')).count()), (&guest, 0)]
            {
                let lists = core.lists(&merged, Some(caller));
                let lists = timeout(Duration::from_secs(20), lists).await.unwrap();
                assert_eq!(lists.tools.iter().count(), listed, "{count} {caller}");
                assert!(core.known_lists(&merged, Some(caller)).is_some_and(|known| Arc::ptr_eq(&known, &lists)));
            }
            assert!(instructions(&ada) && !instructions(&guest));
        }
    }
}
