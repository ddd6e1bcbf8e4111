//! One item of a merged list, and the items that a gateway does not serve.

use std::{fmt, sync::Arc};

use mcp_protocol::Excerpt;
use mcp_server_core::source::SourceDefinition;

use crate::{CatalogTool, catalog::ServerTasks};

/// A tool, a resource, a template or a prompt of a merged list.
pub(super) struct Item {
    /// The name or the URI for clients.
    pub(super) key: Arc<str>,
    pub(super) server: Arc<str>,
    /// The name or the URI at the server.
    pub(super) original: Box<str>,
    /// The JSON for clients.
    pub(super) definition: SourceDefinition,
    /// The JSON of the server; empty for a tool.
    pub(super) json: Box<str>,
    pub(super) tool: Option<Arc<CatalogTool>>,
    /// How the calls of the tool become tasks.
    pub(super) tasks: ServerTasks,
}

/// The kind of an item.
///
/// ```
/// assert_eq!(mcp_agent::ItemKind::ResourceTemplate.to_string(), "resource template");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ItemKind {
    /// A tool.
    Tool,
    /// A resource.
    Resource,
    /// A resource template.
    ResourceTemplate,
    /// A prompt.
    Prompt,
}

impl fmt::Display for ItemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tool => "tool",
            Self::Resource => "resource",
            Self::ResourceTemplate => "resource template",
            Self::Prompt => "prompt",
        })
    }
}

/// An item that a gateway does not serve, because an item of another server has its name.
///
/// ```
/// fn show(gateway: &mcp_agent::Gateway) {
///     for dropped in gateway.diagnostics() {
///         println!("{} {} of {}: {dropped}", dropped.kind, dropped.name, dropped.server);
///     }
/// }
/// # let _ = show;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "the {kind} {:?} of {server:?} is left out, because {winner:?} has a {kind} with this name: use provider names{}",
    Excerpt::new(name),
    if matches!(kind, ItemKind::Tool) { ", or leave one of the two tools out" } else { "" }
)]
#[non_exhaustive]
pub struct DroppedItem {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The name, the URI or the template for clients.
    pub name: String,
    /// The server whose item is left out.
    pub server: Arc<str>,
    /// The server whose item has the name.
    pub winner: Arc<str>,
}

/// An item that a gateway does not serve, because its definition is not valid. For example, a name occurs twice in one of its objects,
/// and two clients could read different definitions.
///
/// ```
/// fn show(gateway: &mcp_agent::Gateway) {
///     for item in gateway.invalid_items() {
///         println!("{} {} of {}: {item}", item.kind, item.name, item.server);
///     }
/// }
/// # let _ = show;
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, thiserror::Error)]
#[error(
    "the {kind} {:?} of {server:?} is left out, because its definition is not valid: {}",
    Excerpt::new(name),
    Excerpt::new(reason)
)]
#[non_exhaustive]
pub struct InvalidItem {
    /// The kind of the item.
    pub kind: ItemKind,
    /// The name, the URI or the template for clients, at most its first 1,024 bytes.
    pub name: String,
    /// The server with the item.
    pub server: Arc<str>,
    /// The fault of the definition with its place, at most its first 256 bytes.
    pub reason: String,
}
