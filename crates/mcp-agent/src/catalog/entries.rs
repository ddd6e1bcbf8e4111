//! The items of one server, in a stable order.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use mcp_client::{Negotiated, RawItem};
use mcp_protocol::{CacheScope, Prompt, Resource, ResourceTemplate, Tool, tasks::ext};
use serde::{Deserialize, Serialize};

use crate::{
    characters::{CharacterFlag, Printable, flags},
    pins::{PinState, ReviewedTool},
};

/// The largest number of items of one list.
pub(crate) const ITEMS: usize = 10_000;
/// The largest number of bytes of the items of one list. Further items are left out.
pub(crate) const BYTES: usize = 32 << 20;
/// The largest number of notes about the tools of a server.
const NOTES: usize = 20;

/// The items that a server listed, after its filter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServerEntries {
    pub(crate) tools: Vec<ListedTool>,
    pub(crate) resources: Vec<Arc<RawItem<Resource>>>,
    pub(crate) templates: Vec<Arc<RawItem<ResourceTemplate>>>,
    pub(crate) prompts: Vec<Arc<RawItem<Prompt>>>,
    /// Not on disk.
    #[serde(skip)]
    pub(crate) facts: ListFacts,
}

/// Facts about the lists of a server: how long they stay fresh, for which caches, and the gateways that they come through.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ListFacts {
    pub(crate) tools: ListHint,
    pub(crate) resources: ListHint,
    pub(crate) templates: ListHint,
    pub(crate) prompts: ListHint,
    /// The ids of gateways, if the server is a gateway.
    pub(crate) gateways: Arc<[Box<str>]>,
    pub(crate) tasks: ServerTasks,
    pub(crate) omitted: OmittedNames,
}

/// The names and URIs of the invalid items that each list lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OmittedNames {
    pub(crate) tools: Arc<[Box<str>]>,
    pub(crate) resources: Arc<[Box<str>]>,
    pub(crate) templates: Arc<[Box<str>]>,
    pub(crate) prompts: Arc<[Box<str>]>,
}

/// How the calls of tools become tasks at a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ServerTasks {
    /// No call becomes a task.
    #[default]
    None,
    /// The client requests a task (2025-11-25).
    Requested,
    /// The server decides (the extension of 2026-07-28).
    Directed,
}

impl ServerTasks {
    pub(crate) fn of(server: &Negotiated) -> Self {
        let capabilities = &server.capabilities;
        let is_requested = || capabilities.tasks.as_ref().is_some_and(|tasks| tasks.supports_request("tools", "call"));
        if server.version.has_core_tasks() && is_requested() {
            return Self::Requested;
        }
        let is_directed = server.version.has_extensions() && capabilities.supports_extension(ext::IDENTIFIER);
        if is_directed { Self::Directed } else { Self::None }
    }
}

/// How long a list stays fresh. `None`: the server has no such list.
pub(crate) type ListHint = Option<(Duration, CacheScope)>;

/// A tool with its name at the server, and the bytes of its definition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ListedTool {
    pub(crate) original: Arc<str>,
    pub(crate) tool: Arc<Tool>,
    pub(crate) bytes: usize,
    /// The definition of the server, if the filter changed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<Arc<Tool>>,
    /// The definition as the server sent it.
    pub(crate) json: Arc<str>,
    /// The characters without a visible form. Not on disk.
    #[serde(skip)]
    pub(crate) flags: Arc<[CharacterFlag]>,
    /// The comparison with the pin. Not on disk.
    #[serde(skip)]
    pub(crate) pin: Option<Arc<ReviewedTool>>,
}

impl ListedTool {
    pub(crate) fn new(original: &str, tool: Tool, source: Option<Arc<Tool>>) -> Self {
        let schema = serde_json::to_string(&tool.input_schema).map_or(0, |text| text.len());
        let bytes = tool.name.len() + tool.description.as_ref().map_or(0, String::len) + schema;
        let flags = flags(&tool).into();
        let definition = source.as_deref().unwrap_or(&tool);
        let json = serde_json::to_string(definition).unwrap_or_default().into();
        Self { original: original.into(), tool: Arc::new(tool), bytes, source, json, flags, pin: None }
    }

    /// Sets the definition as the server sent it.
    pub(crate) fn with_json(mut self, json: Arc<str>) -> Self {
        self.json = json;
        self
    }

    /// Returns the definition of the server, before the changes of the filter.
    pub(crate) fn definition(&self) -> &Arc<Tool> {
        self.source.as_ref().unwrap_or(&self.tool)
    }
}

impl ServerEntries {
    /// Completes items from the disk.
    pub(crate) fn inspect(&mut self) {
        for tool in &mut self.tools {
            tool.flags = flags(&tool.tool).into();
        }
    }

    /// Takes the items of another connection to the server. With `replaces`, they replace the items of equal names. Returns the names of
    /// the lists with items that are left out, because the list has too many items or bytes.
    pub(crate) fn take_from(&mut self, other: &Self, replaces: bool) -> Vec<&'static str> {
        let tools = join(&mut self.tools, &other.tools, replaces, |tool| (&tool.tool.name, tool.json.len()));
        let resources = join(&mut self.resources, &other.resources, replaces, |item| (&item.uri, item.json().len()));
        let templates =
            join(&mut self.templates, &other.templates, replaces, |item| (&item.uri_template, item.json().len()));
        let prompts = join(&mut self.prompts, &other.prompts, replaces, |item| (&item.name, item.json().len()));
        let lists =
            [(tools, "tools"), (resources, "resources"), (templates, "resource templates"), (prompts, "prompts")];
        lists.into_iter().filter(|(is_complete, _)| !is_complete).map(|(_, list)| list).collect()
    }

    /// Takes the comparisons with the pins of equal definitions in equal places.
    pub(crate) fn take_reviews(&mut self, reviewed: &Self) {
        for (tool, reviewed) in self.tools.iter_mut().zip(&reviewed.tools) {
            if (&tool.original, &tool.json) == (&reviewed.original, &reviewed.json) {
                tool.pin.clone_from(&reviewed.pin);
            }
        }
    }

    /// Returns the changed definitions and the characters without a visible form, up to a limit.
    pub(crate) fn notes(&self) -> Vec<String> {
        let of_tool = |tool: &ListedTool| {
            let name = Printable::new(&tool.original).to_string();
            let drift = tool.pin.as_ref().map(|pin| &pin.state).filter(|state| matches!(state, PinState::Changed(_)));
            let drift = drift.map(|state| format!("tool {name}: {state}"));
            let flags: Vec<String> = tool.flags.iter().map(|flag| format!("tool {name}: {flag}")).collect();
            drift.into_iter().chain(flags)
        };
        self.tools.iter().flat_map(of_tool).take(NOTES).collect()
    }

    /// Returns the bytes of the definitions of all tools.
    pub(crate) fn bytes(&self) -> usize {
        self.tools.iter().map(|tool| tool.bytes).sum()
    }
}

/// Adds items with new keys. With `replaces`, the others replace the items with equal keys. An item beyond the limits of a list is left
/// out, and the function returns false. `facts` returns the key and the bytes of an item.
fn join<T: Clone>(items: &mut Vec<T>, others: &[T], replaces: bool, facts: impl Fn(&T) -> (&str, usize)) -> bool {
    if others.is_empty() {
        return true;
    }
    let mut bytes: usize = items.iter().map(|item| facts(item).1).sum();
    let places: HashMap<String, usize> =
        items.iter().enumerate().map(|(place, item)| (facts(item).0.to_owned(), place)).collect();
    let mut is_complete = true;
    for other in others {
        let (key, added) = facts(other);
        let known = places.get(key).copied();
        if known.is_some() && !replaces {
            continue;
        }
        let removed = known.and_then(|place| items.get(place)).map_or(0, |item| facts(item).1);
        let next = bytes.saturating_sub(removed).saturating_add(added);
        if next > BYTES || known.is_none() && items.len() >= ITEMS {
            is_complete = false;
            continue;
        }
        bytes = next;
        match known.and_then(|place| items.get_mut(place)) {
            Some(item) => *item = other.clone(),
            None => items.push(other.clone()),
        }
    }
    is_complete
}

/// Returns the new items: those that exist already keep their order, and the others follow. With `keeps_old`, old items that are
/// not among the new ones stay in their places. The first of several new items with the same key stays.
pub(crate) fn merge<T: Clone + PartialEq>(old: &[T], new: &[T], keeps_old: bool, key: impl Fn(&T) -> &str) -> Vec<T> {
    let mut keys = HashSet::new();
    let new: Vec<&T> = new.iter().filter(|item| keys.insert(key(item).to_owned())).collect();
    let by_key: HashMap<&str, &T> = new.iter().map(|item| (key(item), *item)).collect();
    let mut merged = Vec::with_capacity(new.len());
    let mut kept = HashSet::new();
    for former in old {
        if let Some(item) = by_key.get(key(former)) {
            kept.insert(key(former));
            // An equal item keeps its allocation, so that later comparisons are cheap.
            merged.push(if *item == former { former.clone() } else { (*item).clone() });
        } else if keeps_old {
            merged.push(former.clone());
        }
    }
    merged.extend(new.into_iter().filter(|item| !kept.contains(key(item))).cloned());
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_of_another_connection_have_the_limits_of_a_list() {
        const HALF: usize = BYTES / 2;
        // Columns: the own items, the other items, whether they replace, the joined items, and whether all of them have a place.
        for (own, others, replaces, expected, is_complete) in [
            (vec![("a", 1)], vec![("b", 1)], false, vec![("a", 1), ("b", 1)], true),
            (vec![("a", 1)], vec![("a", 2)], false, vec![("a", 1)], true),
            (vec![("a", 1)], vec![("a", 2)], true, vec![("a", 2)], true),
            (vec![("a", HALF)], vec![("b", HALF), ("c", 1)], false, vec![("a", HALF), ("b", HALF)], false),
            (vec![("a", HALF)], vec![("b", HALF + 1), ("c", 1)], false, vec![("a", HALF), ("c", 1)], false),
            (vec![("a", HALF), ("b", 1)], vec![("b", HALF + 1)], true, vec![("a", HALF), ("b", 1)], false),
            (vec![("a", BYTES)], vec![("a", 1), ("b", 1)], true, vec![("a", 1), ("b", 1)], true),
            (vec![("a", 1); ITEMS], vec![("b", 1), ("a", 2)], false, vec![("a", 1); ITEMS], false),
        ] {
            let mut joined = own.clone();
            assert_eq!(join(&mut joined, &others, replaces, |item| *item), is_complete, "{:?} {others:?}", own.first());
            assert!(joined == expected, "{:?} {others:?}", own.first());
        }
    }

    #[test]
    fn new_items_come_at_the_end_and_known_items_keep_their_places() {
        let texts = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (old, new, expected, with_old) in [
            ("", "b a", "b a", "b a"),
            ("a b c", "c b a", "a b c", "a b c"),
            ("a b c", "d c e a", "a c d e", "a b c d e"),
            ("a b", "x a a x", "a x", "a b x"),
            ("a b", "", "", "a b"),
        ] {
            assert_eq!(merge(&texts(old), &texts(new), false, |text| text), texts(expected), "{old} | {new}");
            assert_eq!(merge(&texts(old), &texts(new), true, |text| text), texts(with_old), "{old} | {new}");
        }
    }
}
