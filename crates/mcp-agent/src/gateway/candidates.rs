//! The items of a catalog that can be in the merged lists, and the raw names that a server keeps without an item.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use mcp_protocol::start_of;

use super::{ItemKind, Names, definition, item::Item, members::check_names};
use crate::{
    Catalog, CatalogItem, CatalogTool,
    catalog::{ListFacts, ServerTasks},
};

/// The longest reason of an invalid item, in bytes. It can contain a name of the definition.
const REASON: usize = 256;

/// The name or the URI of an item, and its definition for clients.
pub(super) struct Candidate<'a> {
    pub(super) server: &'a Arc<str>,
    original: &'a str,
    json: &'a str,
    pub(super) key: Cow<'a, str>,
    tool: Option<&'a Arc<CatalogTool>>,
    tasks: ServerTasks,
    /// False: the server keeps the raw name, and no client receives the item. Its definition is invalid, or waits for an acceptance.
    pub(super) is_served: bool,
}

/// The items of the servers that do not lead to the gateway, in the order of the servers.
pub(super) struct Candidates<'a, S> {
    catalog: &'a Catalog,
    names: Names,
    servers: HashMap<&'a str, (usize, ServerTasks)>,
    serves: S,
}

impl<'a, S: Fn(&str) -> bool> Candidates<'a, S> {
    /// `serves` is whether the gateway serves the items of a server.
    pub(super) fn new(catalog: &'a Catalog, names: Names, serves: S) -> Self {
        let servers = catalog.shared_servers().iter().zip(catalog.facts()).enumerate();
        let servers = servers.map(|(at, (name, facts))| (&**name, (at, facts.tasks))).collect();
        Self { catalog, names, servers, serves }
    }

    pub(super) fn tools(&self) -> Vec<Candidate<'a>> {
        let tools = self.catalog.tools().iter().filter_map(|tool| {
            let is_served = tool.verdict().is_usable();
            if !is_served && self.names != Names::Raw {
                return None;
            }
            let (at, tasks) = *self.servers.get(tool.server())?;
            Some(Candidate {
                server: self.catalog.shared_servers().get(at)?,
                original: tool.original_name(),
                json: tool.json(),
                key: match self.names {
                    Names::Provider => tool.provider_name().into(),
                    Names::Raw => tool.name().into(),
                },
                tool: Some(tool),
                tasks,
                is_served,
            })
        });
        self.ordered(tools, |facts| &facts.omitted.tools)
    }

    pub(super) fn resources(&self) -> Vec<Candidate<'a>> {
        let resources = self.catalog.resources().iter().map(|item| {
            let uri = &item.item().uri;
            Candidate::new(item, uri, self.names.uri(item.server(), uri))
        });
        self.ordered(resources, |facts| &facts.omitted.resources)
    }

    pub(super) fn templates(&self) -> Vec<Candidate<'a>> {
        let templates = self.catalog.templates().iter().map(|item| {
            let template = &item.item().uri_template;
            Candidate::new(item, template, self.names.uri(item.server(), template))
        });
        self.ordered(templates, |facts| &facts.omitted.templates)
    }

    pub(super) fn prompts(&self) -> Vec<Candidate<'a>> {
        let prompts = self.catalog.prompts().iter().map(|item| {
            let name = &item.item().name;
            Candidate::new(item, name, self.names.name(item.server(), name))
        });
        self.ordered(prompts, |facts| &facts.omitted.prompts)
    }

    /// Adds the names of the items that the host left out of a list.
    fn ordered(
        &self,
        listed: impl Iterator<Item = Candidate<'a>>,
        omitted: fn(&ListFacts) -> &[Box<str>],
    ) -> Vec<Candidate<'a>> {
        let is_candidate = |candidate: &Candidate<'_>| (self.serves)(candidate.server);
        let mut all: Vec<Candidate<'a>> = listed.filter(is_candidate).collect();
        let count = all.len();
        if self.names == Names::Raw {
            let facts = self.catalog.shared_servers().iter().zip(self.catalog.facts());
            let named = facts
                .flat_map(|(server, facts)| omitted(facts).iter().map(move |name| Candidate::omitted(server, name)));
            all.extend(named.filter(is_candidate));
        }
        if all.len() > count {
            // An item of a server comes before its omitted names.
            all.sort_by_key(|candidate| self.servers.get(&**candidate.server).map(|(at, _)| *at));
        }
        all
    }
}

impl<'a> Candidate<'a> {
    fn new<T>(item: &'a CatalogItem<T>, original: &'a str, key: Cow<'a, str>) -> Self {
        let (server, json) = (item.shared_server(), item.json());
        Self { server, original, json, key, tool: None, tasks: ServerTasks::None, is_served: true }
    }

    fn omitted(server: &'a Arc<str>, name: &'a str) -> Self {
        let tasks = ServerTasks::None;
        Self { server, original: name, json: "", key: name.into(), tool: None, tasks, is_served: false }
    }

    /// Whether a former item is the same. Its definition then has the same JSON.
    pub(super) fn is(&self, former: &Item) -> bool {
        let is_same_tool = match (self.tool, &former.tool) {
            (Some(tool), Some(former)) => Arc::ptr_eq(tool, former),
            (tool, former) => tool.is_none() && former.is_none(),
        };
        is_same_tool
            && self.tasks == former.tasks
            && *self.server == former.server
            && *self.original == *former.original
            && (self.tool.is_some() || *self.json == *former.json)
    }

    /// Returns the item.
    ///
    /// # Errors
    /// The reason why the definition is invalid.
    pub(super) fn item(&self, kind: ItemKind, names: Names) -> Result<Item, String> {
        // Pins and filters read one of two members with the same name, and a client can read the other one.
        check_names(self.json).map_err(|error| start_of(&error.to_string(), REASON).to_owned())?;
        let definition = match self.tool {
            Some(tool) => definition::of_tool(tool, &self.key, names, self.tasks),
            None => definition::of_item(kind, self.json, self.original, &self.key),
        }
        .ok_or("it cannot be read")?;
        Ok(Item {
            server: Arc::clone(self.server),
            original: self.original.into(),
            // The tool has the JSON.
            json: if self.tool.is_some() { Box::default() } else { self.json.into() },
            tool: self.tool.cloned(),
            tasks: self.tasks,
            key: (*self.key).into(),
            definition,
        })
    }
}
