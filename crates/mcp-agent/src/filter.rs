//! Filters: the tools of a server that a catalog contains, and their names and descriptions.

mod annotations;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use mcp_protocol::Tool;
use serde::Deserialize;

pub use self::annotations::AnnotationMatch;
use crate::glob::Glob;

/// Selects the tools of one server, and changes their names and texts.
///
/// A tool stays if a pattern of `allow` matches its name, or `allow` is empty, and no pattern of `deny` matches it, and its
/// annotations match. The patterns and the keys of `overrides` are names of the server.
///
/// ```
/// use mcp_agent::filter::ToolFilter;
/// use mcp_protocol::{JsonObject, Tool};
///
/// let filter: ToolFilter = serde_json::from_value(serde_json::json!({
///     "allow": ["get_*", "list_*"],
///     "deny": ["*_secret"],
///     "overrides": { "get_issue": { "name": "issue", "description": "Returns an issue." } }
/// }))?;
/// let tools = ["get_issue", "get_secret", "delete_issue"].map(|name| Tool::new(name, JsonObject::new()));
/// let filtered = filter.apply(tools);
/// assert_eq!(filtered.tools.len(), 1);
/// assert_eq!((filtered.tools[0].original.as_str(), filtered.tools[0].tool.name.as_str()), ("get_issue", "issue"));
/// // The pattern `list_*` matches no tool.
/// assert_eq!(filtered.notes.len(), 1);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolFilter {
    /// The tools that stay. Empty: all tools.
    pub allow: Vec<Glob>,
    /// The tools that do not stay, even if `allow` matches them.
    pub deny: Vec<Glob>,
    /// The hints that a tool must have.
    pub annotations: AnnotationMatch,
    /// Changes of single tools, by the name of the server.
    pub overrides: BTreeMap<String, ToolOverride>,
}

/// The changes of one tool. An absent member changes nothing.
///
/// ```
/// use mcp_agent::filter::{ToolFilter, ToolOverride};
/// use mcp_protocol::{JsonObject, Tool};
///
/// let filter = ToolFilter::new().change("q", ToolOverride::new().name("search").title("Search"));
/// let filtered = filter.apply([Tool::new("q", JsonObject::new())]);
/// assert_eq!(filtered.tools[0].tool.name, "search");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolOverride {
    /// The name in the catalog: 1 to 128 of `A-Z a-z 0-9 _ - .`, different from all other tools of the server.
    pub name: Option<String>,
    /// The name for people.
    pub title: Option<String>,
    /// The description for the model.
    pub description: Option<String>,
}

/// A tool of a catalog, with its name at the server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct FilteredTool {
    /// The name that a call to the server needs.
    pub original: String,
    /// The tool with its changed name and texts.
    pub tool: Tool,
    /// The definition of the server, if an override changed it.
    pub(crate) source: Option<Arc<Tool>>,
}

/// The result of [`ToolFilter::apply`].
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Filtered {
    /// The tools that stay, in their order.
    pub tools: Vec<FilteredTool>,
    /// The parts of the filter without an effect.
    pub notes: Vec<FilterNote>,
}

/// A part of a filter without an effect, for example because of a spelling mistake.
///
/// ```
/// use mcp_agent::filter::{FilterNote, ToolFilter};
///
/// let filtered = ToolFilter::new().deny("drop_*".parse()?).apply([]);
/// assert_eq!(filtered.notes, [FilterNote::UnusedPattern("drop_*".parse()?)]);
/// assert_eq!(filtered.notes[0].to_string(), "the pattern `drop_*` matches no tool of the server");
/// # Ok::<(), mcp_agent::GlobError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterNote {
    /// A pattern matches no tool.
    #[error("the pattern `{0}` matches no tool of the server")]
    UnusedPattern(Glob),
    /// An override names no tool.
    #[error("the server has no tool {0:?}, which an override names")]
    UnusedOverride(String),
    /// The new name of a tool is not a valid name. The tool keeps its name.
    #[error("the tool {original:?} keeps its name: {name:?} is not 1 to 128 of `A-Z a-z 0-9 _ - .`")]
    InvalidName {
        /// The name at the server.
        original: String,
        /// The name of the override.
        name: String,
    },
    /// The new name of a tool is the name of another tool. The tool keeps its name.
    #[error("the tool {original:?} keeps its name: another tool has the name {name:?}")]
    NameTaken {
        /// The name at the server.
        original: String,
        /// The name of the override.
        name: String,
    },
}

impl ToolFilter {
    /// Returns the filter that accepts all tools without a change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pattern for tools that stay.
    #[must_use]
    pub fn allow(mut self, names: Glob) -> Self {
        self.allow.push(names);
        self
    }

    /// Adds a pattern for tools that do not stay.
    #[must_use]
    pub fn deny(mut self, names: Glob) -> Self {
        self.deny.push(names);
        self
    }

    /// Sets the hints that a tool must have.
    #[must_use]
    pub fn annotations(mut self, hints: AnnotationMatch) -> Self {
        self.annotations = hints;
        self
    }

    /// Changes one tool, by its name at the server.
    #[must_use]
    pub fn change(mut self, original: impl Into<String>, changes: ToolOverride) -> Self {
        self.overrides.insert(original.into(), changes);
        self
    }

    /// Whether a tool of the server stays.
    #[must_use]
    pub fn accepts(&self, tool: &Tool) -> bool {
        let any = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(&tool.name));
        (self.allow.is_empty() || any(&self.allow))
            && !any(&self.deny)
            && self.annotations.matches(tool.annotations.as_ref())
    }

    /// Selects and changes the tools of a server.
    #[must_use]
    pub fn apply(&self, tools: impl IntoIterator<Item = Tool>) -> Filtered {
        let tools: Vec<Tool> = tools.into_iter().collect();
        let mut notes: Vec<FilterNote> = self
            .allow
            .iter()
            .chain(&self.deny)
            .filter(|glob| !tools.iter().any(|tool| glob.matches(&tool.name)))
            .map(|glob| FilterNote::UnusedPattern(glob.clone()))
            .collect();
        let is_known = |name: &str| tools.iter().any(|tool| tool.name == name);
        let unused = self.overrides.keys().filter(|name| !is_known(name));
        notes.extend(unused.map(|name| FilterNote::UnusedOverride(name.clone())));

        let mut tools: Vec<FilteredTool> = tools
            .into_iter()
            .filter(|tool| self.accepts(tool))
            .map(|tool| FilteredTool { original: tool.name.clone(), tool, source: None })
            .collect();
        // The names of the server are taken first, so that an override never hides another tool.
        let mut taken: BTreeSet<String> = tools.iter().map(|tool| tool.original.clone()).collect();
        for FilteredTool { original, tool, source } in &mut tools {
            let Some(changes) = self.overrides.get(original) else { continue };
            let listed = tool.clone();
            if let Some(name) = changes.name.as_ref().filter(|name| *name != original) {
                let (original, name) = (original.clone(), name.clone());
                if !Tool::is_valid_name(&name) {
                    notes.push(FilterNote::InvalidName { original, name });
                } else if !taken.insert(name.clone()) {
                    notes.push(FilterNote::NameTaken { original, name });
                } else {
                    tool.name = name;
                }
            }
            let texts = [(&changes.title, &mut tool.title), (&changes.description, &mut tool.description)];
            for (text, place) in texts {
                if text.is_some() {
                    place.clone_from(text);
                }
            }
            if *tool != listed {
                *source = Some(Arc::new(listed));
            }
        }
        Filtered { tools, notes }
    }
}

impl ToolOverride {
    /// Returns an override without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the name in the catalog.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description for the model.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }
}

#[cfg(test)]
mod tests;
