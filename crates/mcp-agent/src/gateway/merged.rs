//! The merged lists of all servers: a snapshot for each generation of the catalog.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    hash::Hash,
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};

use foldhash::fast::RandomState;
use mcp_protocol::{CacheScope, start_of};
use mcp_server_core::{
    CacheHint,
    source::{SourceList, SourcePage},
};
use mcp_uri_template::UriTemplate;

use super::{
    DroppedItem, InvalidItem, ItemKind, Names,
    candidates::{Candidate, Candidates},
    hops::HopId,
    item::Item,
    views::Views,
};
use crate::{
    Catalog,
    catalog::{ListFacts, ListHint},
};

/// The largest number of items on a page, and of the bytes of their definitions. A page has at least one item.
const PAGE_ITEMS: usize = 1000;
const PAGE_BYTES: usize = 1 << 20;
/// The bytes of the places of an item: in its list, in the map of names, and on its page.
const PLACES: usize = 64;
/// The items of a small catalog.
const SMALL: usize = 200;
/// The largest numbers of dropped and of invalid items that one merge logs.
const LOGGED: usize = 100;
/// The longest name of an invalid item, in bytes. A server chooses its names and URIs.
const INVALID_NAME: usize = 1024;

/// The lists of a generation of the catalog.
#[derive(Default)]
pub(super) struct Merged {
    catalog: Arc<Catalog>,
    lists: Arc<Lists>,
    pub(super) dropped: Vec<DroppedItem>,
    pub(super) invalid: Vec<InvalidItem>,
    /// The servers that lead to this gateway.
    pub(super) circular: Vec<Arc<str>>,
    matchers: OnceLock<Vec<(Arc<str>, UriTemplate)>>,
    pub(super) views: Views,
}

/// The lists of all callers, or of one caller.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) tools: Items,
    pub(super) resources: Items,
    pub(super) templates: Items,
    pub(super) prompts: Items,
}

/// For each item of the lists, whether it is selected.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Selection([Box<[bool]>; 4]);

/// One list.
#[derive(Default)]
pub(super) struct Items {
    all: Vec<Arc<Item>>,
    by_key: HashMap<Arc<str>, usize, RandomState>,
    /// The servers of raw names without an item: their definitions are invalid, or wait for an acceptance.
    reserved: HashMap<Box<str>, Arc<str>>,
    pages: Vec<Page>,
    hint: CacheHint,
}

struct Page {
    /// The index of the first item.
    start: usize,
    page: SourcePage,
}

/// The items that no client receives.
#[derive(Default)]
struct LeftOut {
    dropped: Vec<DroppedItem>,
    invalid: Vec<InvalidItem>,
}

impl Merged {
    /// Merges the lists of a catalog. Unchanged items keep their definitions of the former lists.
    pub(super) fn new(catalog: &Arc<Catalog>, names: Names, own: &HopId, former: &Self) -> Self {
        let mut left_out = LeftOut::default();
        // The lists of a server that leads to this gateway contain the lists of this gateway.
        let leads_back = |facts: &ListFacts| facts.gateways.iter().any(|id| own.has_declared(id));
        let circular: Vec<Arc<str>> = catalog
            .shared_servers()
            .iter()
            .zip(catalog.facts())
            .filter(|(_, facts)| leads_back(facts))
            .map(|(name, _)| Arc::clone(name))
            .collect();
        let serves = |server: &str| !circular.iter().any(|name| **name == *server);
        let candidates = Candidates::new(catalog, names, serves);
        let mut items = |kind, candidates, former| Items::new(kind, names, candidates, former, &mut left_out);
        let tools = items(ItemKind::Tool, candidates.tools(), &former.tools);
        let resources = items(ItemKind::Resource, candidates.resources(), &former.resources);
        let templates = items(ItemKind::ResourceTemplate, candidates.templates(), &former.templates);
        let prompts = items(ItemKind::Prompt, candidates.prompts(), &former.prompts);
        let facts = || catalog.shared_servers().iter().zip(catalog.facts()).filter(|(name, _)| serves(name));
        let hint = |items: &Items, of: fn(&ListFacts) -> ListHint| {
            let with_items: HashSet<&str> = items.iter().map(|item| &*item.server).collect();
            smallest(facts().map(|(name, facts)| (of(facts), with_items.contains(&**name))))
        };
        let (of_tools, of_resources) = (hint(&tools, |facts| facts.tools), hint(&resources, |facts| facts.resources));
        let (of_templates, of_prompts) =
            (hint(&templates, |facts| facts.templates), hint(&prompts, |facts| facts.prompts));
        let lists = Lists {
            tools: tools.with_pages(of_tools),
            resources: resources.with_pages(of_resources),
            templates: templates.with_pages(of_templates),
            prompts: prompts.with_pages(of_prompts),
        };
        let (catalog, lists, LeftOut { dropped, invalid }) = (Arc::clone(catalog), Arc::new(lists), left_out);
        Self { catalog, lists, dropped, invalid, circular, matchers: OnceLock::new(), views: Views::default() }
    }

    /// Returns the ids of the gateways behind the servers.
    pub(super) fn gateways(&self) -> BTreeSet<&str> {
        self.catalog.facts().iter().flat_map(|facts| facts.gateways.iter().map(|id| &**id)).collect()
    }

    /// Whether the lists are so short that a thread for requests can write those of a caller.
    pub(super) fn is_small(&self) -> bool {
        is_small(&self.catalog)
    }

    /// Whether these are the lists of a newer catalog.
    pub(super) fn is_newer_than(&self, catalog: &Catalog) -> bool {
        self.catalog.generation() > catalog.generation()
    }

    /// Logs the servers and the items that the gateway served with the former lists, and does not serve any more. Dropped items can be
    /// errors of the start instead.
    pub(super) fn log_changes(&self, former: &Self, drops_are_errors: bool) {
        for server in self.circular.iter().filter(|server| !former.circular.contains(server)) {
            tracing::warn!(%server, "the gateway does not serve a server that leads to the gateway itself: remove it from the configuration file");
        }
        let log = |invalid: &InvalidItem| tracing::warn!(%invalid, "the gateway does not serve an item");
        let rest = log_new(&former.invalid, &self.invalid, log);
        if rest > 0 {
            tracing::warn!(
                items = rest,
                "the gateway does not serve further items, because their definitions are invalid"
            );
        }
        if drops_are_errors {
            return;
        }
        let log = |dropped: &DroppedItem| tracing::warn!(%dropped, "the gateway does not serve an item");
        let rest = log_new(&former.dropped, &self.dropped, log);
        if rest > 0 {
            tracing::warn!(items = rest, "the gateway does not serve further items, because their names are taken");
        }
    }

    /// Returns the lists with the items that no policy hides.
    pub(super) fn lists(&self) -> &Arc<Lists> {
        &self.lists
    }

    /// Whether these are the lists of a catalog.
    pub(super) fn is_of(&self, catalog: &Arc<Catalog>) -> bool {
        Arc::ptr_eq(&self.catalog, catalog)
    }

    /// Returns the server whose template matches a URI.
    pub(super) fn server_by_template(&self, uri: &str) -> Option<Arc<str>> {
        let found = self.matchers().iter().find(|(_, template)| template.matches(uri).is_some());
        found.map(|(server, _)| Arc::clone(server))
    }

    /// Whether a template of a server matches a URI at the server.
    pub(super) fn has_template_for(&self, server: &str, uri: &str) -> bool {
        let mut of_server = self.matchers().iter().filter(|(of, _)| **of == *server);
        of_server.any(|(_, template)| template.matches(uri).is_some())
    }

    /// Returns the templates with their servers.
    fn matchers(&self) -> &[(Arc<str>, UriTemplate)] {
        self.matchers.get_or_init(|| {
            let parse = |item: &Arc<Item>| Some((Arc::clone(&item.server), UriTemplate::parse(&item.original).ok()?));
            self.templates.iter().filter_map(parse).collect()
        })
    }

    /// Returns the only server with resources.
    pub(super) fn only_server(&self) -> Option<Arc<str>> {
        let facts = self.catalog.shared_servers().iter().zip(self.catalog.facts());
        let served: Vec<_> = facts.filter(|(name, _)| self.serves(name)).collect();
        if let [(only, _)] = served[..] {
            return Some(Arc::clone(only));
        }
        let mut with_resources = served.into_iter().filter(|(_, facts)| facts.resources.is_some());
        let (only, _) = with_resources.next()?;
        with_resources.next().is_none().then(|| Arc::clone(only))
    }

    /// Whether the server does not lead to this gateway.
    pub(super) fn serves(&self, server: &str) -> bool {
        !self.circular.iter().any(|name| **name == *server)
    }
}

impl Deref for Merged {
    type Target = Lists;

    fn deref(&self) -> &Lists {
        &self.lists
    }
}

impl Selection {
    /// Returns the bytes of the selection.
    pub(super) fn bytes(&self) -> usize {
        self.0.iter().map(|of_list| of_list.len()).sum()
    }
}

impl Lists {
    /// Returns the items that fulfil a condition.
    pub(super) fn select(&self, keeps: impl Fn(ItemKind, &Item) -> bool) -> Selection {
        Selection(self.all().map(|(kind, items)| items.all.iter().map(|item| keeps(kind, item)).collect()))
    }

    /// Returns the selected items, for the caches of single callers.
    pub(super) fn selected(&self, Selection([tools, resources, templates, prompts]): &Selection) -> Self {
        Self {
            tools: self.tools.selected(tools),
            resources: self.resources.selected(resources),
            templates: self.templates.selected(templates),
            prompts: self.prompts.selected(prompts),
        }
    }

    /// Returns the bytes that these lists need beside the items, with their pages written for two revisions.
    pub(super) fn bytes(&self) -> usize {
        self.all().iter().map(|(_, items)| items.bytes()).sum()
    }

    /// Returns the lists with their kinds.
    pub(super) fn all(&self) -> [(ItemKind, &Items); 4] {
        [
            (ItemKind::Tool, &self.tools),
            (ItemKind::Resource, &self.resources),
            (ItemKind::ResourceTemplate, &self.templates),
            (ItemKind::Prompt, &self.prompts),
        ]
    }

    pub(super) fn list(&self, list: SourceList) -> Option<&Items> {
        match list {
            SourceList::Tools => Some(&self.tools),
            SourceList::Resources => Some(&self.resources),
            SourceList::ResourceTemplates => Some(&self.templates),
            SourceList::Prompts => Some(&self.prompts),
            _ => None,
        }
    }
}

/// Logs the first items that the former lists did not leave out. Returns the number of the other ones.
fn log_new<T: Eq + Hash>(former: &[T], now: &[T], log: impl Fn(&T)) -> usize {
    let known: HashSet<&T> = former.iter().collect();
    let mut new = now.iter().filter(|item| !known.contains(item));
    new.by_ref().take(LOGGED).for_each(log);
    new.count()
}

/// Whether the merge of a catalog is so short that a thread for requests can run it.
pub(super) fn is_small(catalog: &Catalog) -> bool {
    let items = catalog.tools().len() + catalog.resources().len() + catalog.templates().len() + catalog.prompts().len();
    items <= SMALL
}

/// Returns the smallest time and the narrowest scope of the lists of all servers. Each has its hint, and whether the merged list has
/// items of it. A list without a hint is stale at once, such as the former items of a list that failed.
fn smallest(lists: impl Iterator<Item = (ListHint, bool)>) -> CacheHint {
    let stale = (Duration::ZERO, CacheScope::Private);
    let all = lists.filter_map(|(hint, has_items)| hint.or(has_items.then_some(stale))).reduce(
        |(ttl, scope), (other, narrower)| (ttl.min(other), if scope == CacheScope::Public { narrower } else { scope }),
    );
    match all {
        Some((ttl, CacheScope::Public)) => CacheHint::public(ttl),
        Some((ttl, _)) => CacheHint::private(ttl),
        None => CacheHint::NONE,
    }
}

impl Items {
    fn new(
        kind: ItemKind,
        names: Names,
        candidates: Vec<Candidate<'_>>,
        former: &Self,
        left_out: &mut LeftOut,
    ) -> Self {
        let mut items = Self::default();
        let owner_of = |candidate: &Candidate<'_>| former.owner(&candidate.key);
        let is_owner = |candidate: &&Candidate<'_>| owner_of(candidate) == Some(candidate.server);
        // A name keeps its server while this server lists it, also without a valid definition. A server that joins later takes over no
        // name.
        let owned: HashSet<Box<str>> = candidates
            .iter()
            .filter(|candidate| names == Names::Raw && is_owner(candidate))
            .map(|candidate| (*candidate.key).into())
            .collect();
        for candidate in candidates {
            let owner =
                owner_of(&candidate).filter(|owner| owned.contains(&*candidate.key) && *owner != candidate.server);
            if let Some(winner) = owner.or_else(|| items.owner(&candidate.key)) {
                if candidate.is_served {
                    let (server, winner) = (Arc::clone(candidate.server), Arc::clone(winner));
                    left_out.dropped.push(DroppedItem { kind, name: candidate.key.to_string(), server, winner });
                }
                continue;
            }
            if !candidate.is_served {
                items.reserve(&candidate);
                continue;
            }
            let known = former.get(&candidate.key).filter(|known| candidate.is(known)).cloned();
            let item = match known.map_or_else(|| candidate.item(kind, names).map(Arc::new), Ok) {
                Ok(item) => item,
                Err(reason) => {
                    let name = start_of(&candidate.key, INVALID_NAME).to_owned();
                    let server = Arc::clone(candidate.server);
                    left_out.invalid.push(InvalidItem { kind, name, server, reason });
                    if names == Names::Raw {
                        items.reserve(&candidate);
                    }
                    continue;
                }
            };
            items.by_key.insert(Arc::clone(&item.key), items.all.len());
            items.all.push(item);
        }
        items
    }

    fn reserve(&mut self, candidate: &Candidate<'_>) {
        self.reserved.insert((*candidate.key).into(), Arc::clone(candidate.server));
    }

    /// Returns the list with its pages.
    fn with_pages(mut self, hint: CacheHint) -> Self {
        self.hint = hint;
        let mut start = 0;
        loop {
            let (page, end) = self.page_from(start);
            self.pages.push(Page { start, page });
            if end == self.all.len() {
                return self;
            }
            start = end;
        }
    }

    fn selected(&self, selection: &[bool]) -> Self {
        let selected = self.all.iter().zip(selection).filter(|(_, is_selected)| **is_selected);
        let all: Vec<Arc<Item>> = selected.map(|(item, _)| Arc::clone(item)).collect();
        let by_key = all.iter().enumerate().map(|(index, item)| (Arc::clone(&item.key), index)).collect();
        Self { all, by_key, ..Self::default() }.with_pages(CacheHint::private(self.hint.ttl))
    }

    /// Returns the page that begins with an item, and the index after its last item.
    fn page_from(&self, start: usize) -> (SourcePage, usize) {
        let mut bytes = 0;
        let fits = |(at, item): &(usize, &Arc<Item>)| {
            bytes += item.definition.json().len();
            *at == 0 || (*at < PAGE_ITEMS && bytes <= PAGE_BYTES)
        };
        let count = self.all[start..].iter().enumerate().take_while(fits).count();
        let end = start + count;
        let next = (end < self.all.len()).then(|| self.all[end - 1].key.to_string());
        let definitions = self.all[start..end].iter().map(|item| item.definition.clone());
        (SourcePage::new(definitions).next_cursor(next).cache(self.hint), end)
    }

    /// Returns the server with a name or a URI.
    fn owner(&self, key: &str) -> Option<&Arc<str>> {
        self.get(key).map(|item| &item.server).or_else(|| self.reserved.get(key))
    }

    /// Returns the item with this name or URI for clients.
    pub(super) fn get(&self, key: &str) -> Option<&Arc<Item>> {
        self.by_key.get(key).map(|index| &self.all[*index])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.all.iter()
    }

    /// Returns the page after a cursor, which is the name or the URI of an item; `None` if there is no such item.
    pub(super) fn page(&self, cursor: Option<&str>) -> Option<SourcePage> {
        let start = match cursor {
            None => 0,
            Some(key) => self.by_key.get(key)? + 1,
        };
        if let Ok(at) = self.pages.binary_search_by_key(&start, |page| page.start) {
            return Some(self.pages[at].page.clone());
        }
        // The list changed after the cursor was written, so the page begins between the pages of this snapshot.
        Some(self.page_from(start).0)
    }

    fn bytes(&self) -> usize {
        let of_item = |item: &Arc<Item>| PLACES + 2 * item.definition.json().len();
        self.all.iter().map(of_item).sum()
    }

    /// Whether both lists have the same items in the same order.
    pub(super) fn has_items_of(&self, other: &Self) -> bool {
        self.all.len() == other.all.len() && self.all.iter().zip(&other.all).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

#[cfg(test)]
impl FromIterator<Item> for Items {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        let all: Vec<Arc<Item>> = items.into_iter().map(Arc::new).collect();
        let selection = vec![true; all.len()];
        Self { all, ..Self::default() }.selected(&selection)
    }
}

#[cfg(test)]
impl Selection {
    /// Returns a selection that differs from those of other numbers.
    pub(super) fn of_number(number: usize) -> Self {
        Self([vec![true; number + 2].into(), Box::default(), Box::default(), Box::default()])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use mcp_server::{Server, tool};

    use super::*;
    use crate::{Gateway, GatewayError, Host, Names};

    #[tokio::test]
    async fn a_strict_gateway_logs_dropped_items_after_its_start() {
        let server = |tool_name: &'static str| Server::builder("s", "1").tool(tool(tool_name, async || "x")).build();
        for (second, is_dropped) in [("t", true), ("u", false)] {
            let host = Host::builder("gateway", "1").server("first", &server("t")).server("second", &server(second));
            let builder = Gateway::builder(host.start().await.unwrap()).names(Names::Raw).strict(true);
            let observed = builder.gateway();
            let drops_are_errors = || observed.core.drops_are_errors.load(Ordering::Relaxed);
            assert!(drops_are_errors());
            assert_eq!(matches!(builder.build(), Err(GatewayError::Dropped(_))), is_dropped);
            assert!(!drops_are_errors(), "{second}");
        }
    }

    #[test]
    fn the_narrowest_list_decides_and_a_list_without_a_hint_is_stale() {
        let (public, private) = (CacheScope::Public, CacheScope::Private);
        let hint = |seconds, scope| Some((Duration::from_secs(seconds), scope));
        for (lists, expected) in [
            (vec![], CacheHint::NONE),
            (vec![(hint(60, public), true), (hint(10, public), true)], CacheHint::public(Duration::from_secs(10))),
            (vec![(hint(60, public), true), (hint(90, private), true)], CacheHint::private(Duration::from_secs(60))),
            // A list without items and without a hint belongs to a server without the capability.
            (vec![(hint(60, public), true), (None, false)], CacheHint::public(Duration::from_secs(60))),
            // The former items of a list that failed.
            (vec![(hint(60, public), true), (None, true)], CacheHint::NONE),
            (vec![(None, true)], CacheHint::NONE),
        ] {
            assert_eq!(smallest(lists.iter().copied()), expected, "{lists:?}");
        }
    }
}
