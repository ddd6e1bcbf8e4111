//! The tools for a model: without denied and unaccepted tools, and with a search over deferred tools.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use mcp_protocol::Tool;
use parking_lot::Mutex;

use super::Host;
use crate::{
    catalog::{Catalog, CatalogTool},
    policy::{Gate, Policy, PolicyInput},
    registry::Registry,
    search::{Deferral, ToolIndex},
};

/// The tools of one generation of a catalog for a model ([`Host::toolset`]).
///
/// ```
/// # use mcp_server::{Server, tool};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let files = Server::builder("files", "1").tool(tool("read", async || "text")).tool(tool("delete", async || "done")).build();
/// use mcp_agent::{Host, policy::Policy, search::Deferral};
/// use mcp_tool_format::{Options, Provider, render};
///
/// let policy = Policy::parse("policy.toml", "[[rule]]\ntool = \"delete\"\neffect = \"deny\"\n")?;
/// let host = Host::builder("my-app", "1.0")
///     .server("files", &files)
///     .policy(policy)
///     .deferral(Deferral::new().budget(40_000))
///     .start()
///     .await?;
/// let toolset = host.toolset();
/// let rendered = render(toolset.definitions(), &Options::new(Provider::Anthropic));
/// assert_eq!(rendered.value.as_array().map(Vec::len), Some(1));
/// assert_eq!(toolset.hidden()[0].display_name(), "files:delete");
/// assert_eq!(host.search("read a file", 5)[0].tool.display_name(), "files:read");
/// # Ok(())
/// # }
/// ```
pub struct Toolset {
    catalog: Arc<Catalog>,
    /// The loaded and the deferred tools, in the order of the catalog.
    offered: Vec<Arc<CatalogTool>>,
    loaded: Vec<usize>,
    deferred: Vec<usize>,
    hidden: Vec<Arc<CatalogTool>>,
    index: OnceLock<ToolIndex>,
}

/// A tool that a search found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoundTool {
    /// The tool.
    pub tool: Arc<CatalogTool>,
    /// The score; greater than zero. Scores of different generations have no common scale.
    pub score: f32,
}

impl Toolset {
    fn new(registry: &Registry, gate: &Gate, deferral: &Deferral) -> Self {
        let catalog = registry.catalog();
        let slots = registry.slots();
        let mut toolset = Self {
            offered: Vec::with_capacity(catalog.tools().len()),
            loaded: Vec::new(),
            deferred: Vec::new(),
            hidden: Vec::new(),
            index: OnceLock::new(),
            catalog,
        };
        let mut sizes = Vec::new();
        for tool in toolset.catalog.tools() {
            let options = slots.iter().find(|slot| &*slot.name == tool.server()).map(|slot| &slot.options);
            let rules = options.map_or(&[][..], |options| &options.rules);
            let call =
                PolicyInput::new(tool.server(), tool.original_name()).annotations(tool.tool().annotations.clone());
            if !tool.verdict().is_usable() || gate.always_denies(&call, rules) {
                toolset.hidden.push(Arc::clone(tool));
                continue;
            }
            let is_pinned = options
                .is_some_and(|options| options.always_loaded.iter().any(|names| names.matches(tool.original_name())));
            sizes.push((tool.display_name(), tool.bytes(), is_pinned));
            toolset.offered.push(Arc::clone(tool));
        }
        let split = deferral.split_pinned(sizes);
        (toolset.loaded, toolset.deferred) = (split.loaded, split.deferred);
        toolset
    }

    /// Returns the snapshot of the catalog.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the tools that a request contains in full.
    pub fn loaded(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.loaded.iter().map(|position| &self.offered[*position])
    }

    /// Returns the tools that only a search finds.
    pub fn deferred(&self) -> impl Iterator<Item = &Arc<CatalogTool>> {
        self.deferred.iter().map(|position| &self.offered[*position])
    }

    /// Returns the tools that the model does not receive: a policy denies each call of them, or a person must accept their
    /// definition first.
    #[must_use]
    pub fn hidden(&self) -> &[Arc<CatalogTool>] {
        &self.hidden
    }

    /// Returns the names and definitions of the loaded tools for [`mcp_tool_format::render`].
    pub fn definitions(&self) -> impl Iterator<Item = (&str, &Tool)> {
        self.loaded().map(|tool| (tool.provider_name(), tool.definition()))
    }

    /// Returns the loaded and deferred tools that match the words, the best first. The first search of a toolset builds its
    /// index.
    #[must_use]
    pub fn search(&self, words: &str, limit: usize) -> Vec<FoundTool> {
        let index = self
            .index
            .get_or_init(|| ToolIndex::new(self.offered.iter().map(|tool| (tool.display_name(), tool.definition()))));
        let hits = index.search(words, limit).into_iter();
        hits.map(|hit| FoundTool { tool: Arc::clone(&self.offered[hit.position]), score: hit.score }).collect()
    }
}

impl fmt::Debug for Toolset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolset")
            .field("generation", &self.catalog.generation())
            .field("loaded", &self.loaded.len())
            .field("deferred", &self.deferred.len())
            .field("hidden", &self.hidden.len())
            .finish_non_exhaustive()
    }
}

/// The last toolset of a host, with the state that it belongs to.
#[derive(Default)]
pub(super) struct LastToolset {
    last: Mutex<Option<(Key, Arc<Toolset>)>>,
}

/// The state of a host that decides a toolset.
struct Key {
    catalog: Arc<Catalog>,
    servers: u64,
    policies: Vec<Arc<Policy>>,
}

impl Key {
    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.catalog, &other.catalog)
            && self.servers == other.servers
            && self.policies.len() == other.policies.len()
            && self.policies.iter().zip(&other.policies).all(|(one, other)| Arc::ptr_eq(one, other))
    }
}

impl Host {
    /// Returns the tools for a model: those that no policy always denies, whose definitions are accepted, and that fit the budget
    /// of [`HostBuilder::deferral`](crate::HostBuilder::deferral).
    ///
    /// The host keeps the value until the catalog, the servers or a policy file change.
    #[must_use]
    pub fn toolset(&self) -> Arc<Toolset> {
        let (shared, registry) = (&self.inner.shared, self.registry());
        let policies = shared.gate.files().map(|file| file.policy()).collect();
        // The number of changes is read first, so that a change meanwhile leads to another toolset.
        let servers = registry.changes();
        let key = Key { catalog: registry.catalog(), servers, policies };
        let mut last = self.inner.toolset.last.lock();
        if let Some((known, toolset)) = &*last
            && known.is(&key)
        {
            return Arc::clone(toolset);
        }
        let toolset = Arc::new(Toolset::new(registry, &shared.gate, &self.inner.deferral));
        let key = Key { catalog: Arc::clone(&toolset.catalog), ..key };
        *last = Some((key, Arc::clone(&toolset)));
        toolset
    }

    /// Searches the tools of [`Host::toolset`] in the words of a user or a model, the best first.
    ///
    /// See the [example](Toolset).
    #[must_use]
    pub fn search(&self, words: &str, limit: usize) -> Vec<FoundTool> {
        self.toolset().search(words, limit)
    }
}
