//! Reads the lists of a server: all pages, within a time limit. Pages before a fault stay.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use mcp_client::{Client, Error, Items, ListItem, RawItem, transport::BoxFuture};
use mcp_protocol::{EmptyParams, JsonObject, ServerCapabilities, Tool, method};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{Lists, ServerOptions, Settings};
use crate::catalog::{BYTES, ITEMS, ListFacts, ListHint, ListedTool, OmittedNames, ServerEntries, ServerTasks, merge};
use crate::filter::ToolFilter;

/// The tracing target of faults of lists. A gateway prints its records.
pub(super) const LISTING: &str = "mcp_agent::registry::listing";
/// The largest number of invalid items of a list that a status names.
const MAX_NAMED: usize = 20;
/// The largest number of names of invalid items of a list that a server keeps.
const NAMES: usize = 100;

/// The experimental capability of a gateway.
pub(crate) const GATEWAYS: &str = "mcp-gateway";
/// The longest id of a gateway, and the largest number of gateways behind a server.
const GATEWAY_ID: usize = 64;
/// The most ids that count.
pub(crate) const MAX_GATEWAYS: usize = 64;

/// The items of a server, and the reasons why they may be incomplete.
pub(super) struct Listed {
    pub(super) entries: ServerEntries,
    pub(super) problems: Vec<String>,
    /// The parts of the filter without an effect.
    pub(super) notes: Vec<String>,
    /// The names of the incomplete lists by their reasons.
    pub(super) incomplete: BTreeMap<String, Vec<&'static str>>,
    /// No list failed. Otherwise another reading can have more items.
    pub(super) is_complete: bool,
    /// The error of a list of tools that failed.
    pub(super) error: Option<Error>,
}

/// One list.
struct Read<T> {
    items: Vec<RawItem<T>>,
    hint: ListHint,
    /// The names of the invalid items.
    omitted: Vec<Box<str>>,
    /// Why the list is incomplete, and the invalid items.
    problems: Vec<String>,
    /// The name of an incomplete list, and the reason.
    incomplete: Option<(&'static str, String)>,
    error: Option<Error>,
    /// The list failed before its end. The missing items are unknown.
    has_failed: bool,
}

/// Reads the lists of the host that the server declares, at the same time. Former items that a failed list did not reach stay in
/// their places. If `keeps_tools` is false, the former tools decide the order only.
/// The reading ends after `limit`. `declared_again` returns the current capabilities of a server of the session era.
pub(super) async fn list(
    client: &Client,
    former: &ServerEntries,
    keeps_tools: bool,
    options: &ServerOptions,
    settings: &Settings,
    limit: Duration,
    declared_again: BoxFuture<'_, Option<ServerCapabilities>>,
) -> Listed {
    let declared = client.negotiated();
    let capabilities = &declared.capabilities;
    let has_tools = capabilities.tools.is_some() && settings.lists != Lists::None;
    let has_prompts = capabilities.prompts.is_some() && settings.lists == Lists::All;
    let has_resources = capabilities.resources.is_some() && settings.lists == Lists::All;
    let end = Instant::now() + limit;
    let (tools, resources, templates, prompts) = tokio::join!(
        read("tools", has_tools.then(|| client.list_tools().fresh().raw_items().stream()), end),
        read("resources", has_resources.then(|| client.list_resources().fresh().raw_items().stream()), end),
        read(
            "resource templates",
            has_resources.then(|| client.list_resource_templates().fresh().raw_items().stream()),
            end
        ),
        read("prompts", has_prompts.then(|| client.list_prompts().fresh().raw_items().stream()), end),
    );
    let mut problems = Vec::new();
    let reasons = [&tools.incomplete, &resources.incomplete, &templates.incomplete, &prompts.incomplete];
    let mut incomplete = BTreeMap::<String, Vec<&str>>::new();
    for (noun, reason) in reasons.into_iter().flatten() {
        incomplete.entry(reason.clone()).or_default().push(noun);
    }
    let has_failed = [tools.has_failed, resources.has_failed, templates.has_failed, prompts.has_failed];
    let is_complete = !has_failed.contains(&true);
    let gateways = gateways(client, capabilities, declared_again, end, &former.facts.gateways, is_complete).await;
    let mut tools = tools;
    let mut known = HashSet::new();
    let count = tools.items.len();
    // A duplicate must not pass the filter when the first tool of its name does not.
    tools.items.retain(|tool| known.insert(tool.name.clone()));
    let duplicates = count - tools.items.len();
    let omitted = OmittedNames {
        tools: keep_omitted(&tools, renamed(&tools.omitted, &options.filter), &former.facts.omitted.tools),
        resources: keep_omitted(&resources, resources.omitted.clone(), &former.facts.omitted.resources),
        templates: keep_omitted(&templates, templates.omitted.clone(), &former.facts.omitted.templates),
        prompts: keep_omitted(&prompts, prompts.omitted.clone(), &former.facts.omitted.prompts),
    };
    let facts = ListFacts {
        tools: tools.hint,
        resources: resources.hint,
        templates: templates.hint,
        prompts: prompts.hint,
        gateways,
        tasks: ServerTasks::of(&declared),
        omitted,
    };
    let mut json = HashMap::new();
    let definitions = tools.items.into_iter().map(RawItem::into_parts).map(|(tool, text)| {
        json.insert(tool.name.clone(), text);
        tool
    });
    let filtered = options.filter.apply(definitions);
    // The tools of an incomplete list do not show which patterns are unused.
    let notes = filtered.notes.iter().filter(|_| !tools.has_failed).map(ToString::to_string).collect();
    problems.extend(tools.problems);
    let error = tools.error;
    if tools.has_failed && !keeps_tools && !former.tools.is_empty() {
        problems.push("the tools of the former server are left out, because its filter was different".to_owned());
    }
    let listed: Vec<ListedTool> = filtered
        .tools
        .into_iter()
        // Pins are for the definition of the server, which an override changes.
        .map(|tool| {
            let listed = ListedTool::new(&tool.original, tool.tool, tool.source);
            match json.remove(&tool.original) {
                Some(json) => listed.with_json(json),
                None => listed,
            }
        })
        .collect();
    let tools = merge(&former.tools, &listed, tools.has_failed && keeps_tools, |tool: &ListedTool| &tool.tool.name);
    if duplicates > 0 {
        let tools = if duplicates == 1 { "1 tool has".to_owned() } else { format!("{duplicates} tools have") };
        problems.push(format!("{tools} the name of another tool"));
    }
    let entries = ServerEntries {
        tools,
        resources: keep(&former.resources, resources, |item| &item.uri, &mut problems),
        templates: keep(&former.templates, templates, |item| &item.uri_template, &mut problems),
        prompts: keep(&former.prompts, prompts, |item| &item.name, &mut problems),
        facts,
    };
    Listed { entries, problems, notes, incomplete, is_complete, error }
}

/// Returns the names of omitted tools after the changes of the filter, without the tools that the filter denies.
fn renamed(omitted: &[Box<str>], filter: &ToolFilter) -> Vec<Box<str>> {
    let tools = omitted.iter().map(|name| Tool::new(&**name, JsonObject::new()));
    filter.apply(tools).tools.into_iter().map(|tool| tool.tool.name.into()).collect()
}

/// Returns the ids of the gateways that the items of a server can come through: its own, and those behind it. The lists have been read,
/// so each gateway of an item is declared now. The former ids stay with the former items of a list that failed.
async fn gateways(
    client: &Client,
    at_start: &ServerCapabilities,
    declared_again: BoxFuture<'_, Option<ServerCapabilities>>,
    end: Instant,
    former: &[Box<str>],
    is_complete: bool,
) -> Arc<[Box<str>]> {
    let at_start = declared_gateways(at_start);
    if at_start.is_empty() {
        return at_start;
    }
    let now = if client.version().is_stateless() {
        // A cached declaration can be older than the lists.
        let discovery = client.request::<method::Discover>(&EmptyParams::default()).fresh();
        let discovered = timeout_at(end, discovery.into_future()).await.ok().and_then(Result::ok);
        discovered.map(|discovered| declared_gateways(&discovered.capabilities))
    } else {
        let declared = timeout_at(end, declared_again).await.ok().flatten();
        declared.map(|capabilities| declared_gateways(&capabilities))
    };
    match now {
        Some(now) if is_complete => now,
        now => {
            let mut known = HashSet::new();
            let all = now.iter().flat_map(|now| now.iter()).chain(at_start.iter()).chain(former);
            all.filter(|id| known.insert(&***id)).take(MAX_GATEWAYS).cloned().collect()
        }
    }
}

fn declared_gateways(capabilities: &ServerCapabilities) -> Arc<[Box<str>]> {
    let declared = capabilities.experimental.as_ref().and_then(|experimental| experimental.get(GATEWAYS)?.get("ids"));
    let ids = declared.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    ids.filter(|id| id.len() <= GATEWAY_ID).take(MAX_GATEWAYS).map(Into::into).collect()
}

/// Merges the items of a list with the former items.
fn keep<T>(
    former: &[Arc<RawItem<T>>],
    read: Read<T>,
    key: impl Fn(&T) -> &str,
    problems: &mut Vec<String>,
) -> Vec<Arc<RawItem<T>>> {
    problems.extend(read.problems);
    let items: Vec<Arc<RawItem<T>>> = read.items.into_iter().map(Arc::new).collect();
    merge(former, &items, read.has_failed, |item: &Arc<RawItem<T>>| key(item))
}

/// Returns the names of the omitted items of a list. A list that failed keeps the former names too.
fn keep_omitted<T>(read: &Read<T>, mut now: Vec<Box<str>>, former: &[Box<str>]) -> Arc<[Box<str>]> {
    if read.has_failed {
        let new: Vec<Box<str>> = former.iter().filter(|name| !now.contains(name)).take(NAMES).cloned().collect();
        now.extend(new);
    }
    now.truncate(NAMES);
    now.into()
}

/// Returns the diagnostic of an incomplete list.
pub(super) fn text_of_incomplete(noun: &str, reason: &str) -> String {
    format!("the list of {noun} is incomplete: {reason}")
}

async fn read<T: ListItem>(noun: &'static str, stream: Option<Items<RawItem<T>>>, end: Instant) -> Read<T> {
    let mut read = Read {
        items: Vec::new(),
        hint: None,
        omitted: Vec::new(),
        problems: Vec::new(),
        incomplete: None,
        error: None,
        has_failed: false,
    };
    let Some(mut stream) = stream else { return read };
    let mut bytes = 0;
    let mut has_failed = false;
    let reason = loop {
        match timeout_at(end, stream.next()).await {
            Ok(Some(Ok(item))) => {
                bytes += item.json().len();
                if read.items.len() == ITEMS || bytes > BYTES {
                    break Some(format!("the list has more than {ITEMS} items or {BYTES} bytes"));
                }
                read.items.push(item);
            }
            // A server may declare a capability and lack one of its methods.
            Ok(Some(Err(error))) if error.rpc().is_some_and(|error| error.code.0 == -32601) => break None,
            Ok(Some(Err(error))) => {
                has_failed = true;
                let reason = error.to_string();
                read.error = Some(error);
                break Some(reason);
            }
            Ok(None) => break stream.warning().map(|warning| warning.to_string()),
            Err(_) => {
                has_failed = true;
                break Some("the server did not send the whole list in time".to_owned());
            }
        }
    };
    // Former items complete a list that failed, and a hint of the first pages does not apply to them.
    read.hint = stream.cache_hint().filter(|_| !has_failed);
    if let Some(reason) = reason {
        read.has_failed = has_failed;
        read.problems.push(text_of_incomplete(noun, &reason));
        read.incomplete = Some((noun, reason));
    }
    let omitted = stream.omitted();
    read.omitted = omitted.iter().filter_map(|item| item.name.as_deref().map(Into::into)).collect();
    read.problems.extend(omitted.iter().take(MAX_NAMED).map(ToString::to_string));
    if omitted.len() > MAX_NAMED {
        read.problems.push(format!("more than {MAX_NAMED} {noun} are left out"));
    }
    read
}
