//! The catalog: the tools, resources, templates and prompts of all servers, as snapshots with a generation.

mod arguments;
mod entries;
mod lookup;
mod tool;

use std::{collections::HashMap, fmt, ops::Range, sync::Arc};

use foldhash::fast::RandomState;
use mcp_client::RawItem;
use mcp_protocol::{Prompt, Resource, ResourceTemplate, Tool};

use crate::characters::Characters;

#[cfg(feature = "gateway")]
pub(crate) use self::lookup::without_server;
pub use self::{arguments::InvalidArguments, lookup::UnknownName, tool::CatalogTool};
pub(crate) use self::{
    entries::{BYTES, ITEMS, ListFacts, ListHint, ListedTool, OmittedNames, ServerEntries, ServerTasks, merge},
    lookup::names_server,
    tool::estimate,
};

/// A snapshot of the tools, resources, templates and prompts of all servers. It never changes.
///
/// The servers have the order of their registration. Items keep their places in later generations, and new items come at the
/// end of their server.
///
/// ```
/// # use mcp_agent::Host;
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let weather = Server::builder("weather", "1").tool(tool("forecast", async || "rain")).build();
/// let host = Host::builder("my-app", "1.0").server("weather", &weather).start().await?;
/// let catalog = host.catalog();
/// let tool = catalog.tool("weather:forecast")?;
/// assert_eq!(tool.provider_name(), "weather__forecast");
/// assert_eq!(catalog.tool("weather__forecast")?.name(), "forecast");
/// assert!(catalog.tool("weather:history").unwrap_err().to_string().contains("weather:forecast"));
/// # host.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Catalog {
    generation: u64,
    servers: Vec<Arc<str>>,
    /// Facts about the lists of each server, in the order of the servers.
    facts: Vec<ListFacts>,
    tools: Vec<Arc<CatalogTool>>,
    resources: Vec<CatalogItem<Resource>>,
    templates: Vec<CatalogItem<ResourceTemplate>>,
    prompts: Vec<CatalogItem<Prompt>>,
    names: HashMap<Box<str>, usize, RandomState>,
    /// The indices of the tools of each server.
    by_server: HashMap<Arc<str>, Range<usize>, RandomState>,
    notes: Vec<String>,
}

/// A resource, a template or a prompt, with the name of its server.
///
/// ```
/// # fn example(catalog: &mcp_agent::Catalog) {
/// for resource in catalog.resources() {
///     println!("{} {}", resource.server(), resource.item().uri);
/// }
/// # }
/// ```
pub struct CatalogItem<T> {
    server: Arc<str>,
    item: Arc<RawItem<T>>,
}

impl Catalog {
    /// Returns the number of this snapshot. Each change of the catalog adds 1.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the names of the servers, in the order of their registration.
    pub fn servers(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|name| &**name)
    }

    /// Returns the shared names of the servers, in the order of their registration.
    #[cfg(feature = "gateway")]
    pub(crate) fn shared_servers(&self) -> &[Arc<str>] {
        &self.servers
    }

    /// Returns facts about the lists of each server, in the order of the servers.
    #[cfg(feature = "gateway")]
    pub(crate) fn facts(&self) -> &[ListFacts] {
        &self.facts
    }

    /// Returns the tools.
    #[must_use]
    pub fn tools(&self) -> &[Arc<CatalogTool>] {
        &self.tools
    }

    /// Returns the resources.
    #[must_use]
    pub fn resources(&self) -> &[CatalogItem<Resource>] {
        &self.resources
    }

    /// Returns the resource templates.
    #[must_use]
    pub fn templates(&self) -> &[CatalogItem<ResourceTemplate>] {
        &self.templates
    }

    /// Returns the prompts.
    #[must_use]
    pub fn prompts(&self) -> &[CatalogItem<Prompt>] {
        &self.prompts
    }

    /// Returns the reasons why tools are missing, such as two tools with one name.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the tool with this display name (`server:tool`) or provider name.
    ///
    /// # Errors
    /// [`UnknownName`] with the existing names.
    pub fn tool(&self, name: &str) -> Result<&Arc<CatalogTool>, UnknownName> {
        self.find_tool(name).ok_or_else(|| UnknownName::of_tool(self, name))
    }

    /// Returns the tool as [`Catalog::tool`] does, without the search for similar names.
    pub(crate) fn find_tool(&self, name: &str) -> Option<&Arc<CatalogTool>> {
        self.names.get(name).map(|index| &self.tools[*index])
    }

    /// Returns the usable tools of a server.
    #[cfg(feature = "gateway")]
    pub(crate) fn usable_tools(&self, server: &str) -> impl Iterator<Item = &Arc<CatalogTool>> {
        let of_server = self.by_server.get(server).cloned().unwrap_or_default();
        self.tools[of_server].iter().filter(|tool| tool.verdict().is_usable())
    }

    /// Returns the usable tool with a name at its server.
    #[cfg(feature = "gateway")]
    pub(crate) fn usable_tool(&self, server: &str, name: &str) -> Option<&Arc<CatalogTool>> {
        self.usable_tools(server).find(|tool| tool.original_name() == name)
    }

    /// Returns the prompt with this display name (`server:prompt`).
    ///
    /// # Errors
    /// [`UnknownName`] with the existing names.
    pub fn prompt(&self, name: &str) -> Result<&CatalogItem<Prompt>, UnknownName> {
        let is_named = |prompt: &&CatalogItem<Prompt>| {
            name.strip_prefix(&*prompt.server).and_then(|rest| rest.strip_prefix(':')) == Some(&prompt.item.name)
        };
        self.prompts.iter().find(is_named).ok_or_else(|| UnknownName::of_prompt(self, name))
    }

    /// Returns the names and definitions of all usable tools for [`mcp_tool_format::render`]. Tools whose definition a person must
    /// accept first are left out ([`Catalog::unaccepted`]).
    ///
    /// [`Host::toolset`](crate::Host::toolset) also leaves out denied and deferred tools.
    ///
    /// ```
    /// # fn example(catalog: &mcp_agent::Catalog) {
    /// use mcp_tool_format::{Options, Provider, render};
    ///
    /// let rendered = render(catalog.definitions(), &Options::new(Provider::Anthropic));
    /// println!("{}", rendered.value);
    /// # }
    /// ```
    pub fn definitions(&self) -> impl Iterator<Item = (&str, &Tool)> {
        let usable = self.tools.iter().filter(|tool| tool.verdict().is_usable());
        usable.map(|tool| (tool.provider_name(), tool.definition()))
    }

    /// Returns the tools whose definition a person must accept before the host uses it
    /// ([`Host::accept_definition`](crate::Host::accept_definition)).
    pub fn unaccepted(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.tools.iter().filter(|tool| !tool.verdict().is_usable())
    }

    /// Returns the next snapshot with these servers and their entries; `None` if nothing changes.
    pub(crate) fn next(&self, servers: &[(Arc<str>, Arc<ServerEntries>)], characters: Characters) -> Option<Self> {
        let generation = self.generation + 1;
        let former: HashMap<(&str, &str), &Arc<CatalogTool>, RandomState> =
            self.tools.iter().map(|tool| ((tool.server(), &*tool.tool().name), tool)).collect();
        let mut next =
            Self { generation, servers: servers.iter().map(|(name, _)| name.clone()).collect(), ..Self::default() };
        for (server, entries) in servers {
            next.facts.push(entries.facts.clone());
            let first = next.tools.len();
            for listed in &entries.tools {
                let tool = match former.get(&(&**server, &*listed.tool.name)) {
                    Some(former) if former.is(listed) => Arc::clone(former),
                    // The definition is the same, and its pin has another state.
                    Some(former) if former.defines(listed) => {
                        Arc::new(CatalogTool::new(server, listed, former.since(), characters))
                    }
                    _ => Arc::new(CatalogTool::new(server, listed, generation, characters)),
                };
                next.add(tool);
            }
            next.by_server.insert(Arc::clone(server), first..next.tools.len());
            next.resources.extend(entries.resources.iter().map(|item| CatalogItem::new(server, item)));
            next.templates.extend(entries.templates.iter().map(|item| CatalogItem::new(server, item)));
            next.prompts.extend(entries.prompts.iter().map(|item| CatalogItem::new(server, item)));
        }
        (!self.equals(&next)).then_some(next)
    }

    fn add(&mut self, tool: Arc<CatalogTool>) {
        if self.names.contains_key(tool.provider_name()) || self.names.contains_key(tool.display_name()) {
            let note = format!("the tool {:?} was left out: another tool has its name", tool.display_name());
            tracing::warn!("{note}");
            self.notes.push(note);
            return;
        }
        for name in [tool.provider_name(), tool.display_name()] {
            self.names.insert(name.into(), self.tools.len());
        }
        self.tools.push(tool);
    }

    fn equals(&self, other: &Self) -> bool {
        self.servers == other.servers
            && self.facts == other.facts
            && self.tools.len() == other.tools.len()
            && self.tools.iter().zip(&other.tools).all(|(a, b)| Arc::ptr_eq(a, b))
            && same(&self.resources, &other.resources)
            && same(&self.templates, &other.templates)
            && same(&self.prompts, &other.prompts)
    }
}

fn same<T>(one: &[CatalogItem<T>], other: &[CatalogItem<T>]) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|(a, b)| a.server == b.server && (Arc::ptr_eq(&a.item, &b.item) || a.item == b.item))
}

impl<T> CatalogItem<T> {
    fn new(server: &Arc<str>, item: &Arc<RawItem<T>>) -> Self {
        Self { server: Arc::clone(server), item: Arc::clone(item) }
    }

    /// Returns the name of the server.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the shared name of the server.
    #[cfg(feature = "gateway")]
    pub(crate) fn shared_server(&self) -> &Arc<str> {
        &self.server
    }

    /// Returns the item as the server listed it.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn item(&self) -> &T {
        &self.item
    }

    /// Returns the item as JSON, as the server sent it.
    ///
    /// ```
    /// # fn example(catalog: &mcp_agent::Catalog) {
    /// for prompt in catalog.prompts() {
    ///     println!("{}", prompt.json());
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn json(&self) -> &str {
        self.item.json()
    }
}

impl<T> Clone for CatalogItem<T> {
    fn clone(&self) -> Self {
        Self { server: Arc::clone(&self.server), item: Arc::clone(&self.item) }
    }
}

impl<T> fmt::Debug for CatalogItem<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogItem").field("server", &self.server).finish_non_exhaustive()
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("generation", &self.generation)
            .field("servers", &self.servers)
            .field("tools", &self.tools.len())
            .finish_non_exhaustive()
    }
}
