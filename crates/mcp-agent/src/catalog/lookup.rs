//! The error of a name that a catalog does not contain.

use std::fmt;

use mcp_protocol::Excerpt;
use mcp_tool_format::qualified_name;

use super::Catalog;
use crate::characters::Printable;

/// The largest number of names in the text of an error.
const SHOWN: usize = 10;

/// A name that no tool or prompt of a catalog has. The text lists the most similar names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// The name of the call.
    pub name: String,
    /// The names that exist, the most similar first: of the server that the call names, of all servers if it names no server of
    /// the catalog. They are provider names if the call used a provider name, and otherwise display names.
    pub known: Vec<String>,
    noun: &'static str,
}

impl UnknownName {
    pub(super) fn of_tool(catalog: &Catalog, name: &str) -> Self {
        let is_provider_name = is_provider_name(name);
        let names = catalog.tools().iter().map(|tool| {
            let known = if is_provider_name { tool.provider_name() } else { tool.display_name() };
            (tool.server(), known.to_owned())
        });
        Self::new("tool", catalog, name, names.collect())
    }

    pub(super) fn of_prompt(catalog: &Catalog, name: &str) -> Self {
        let names = catalog.prompts().iter().map(|prompt| {
            let name = format!("{}:{}", prompt.server(), prompt.item().name);
            (prompt.server(), name)
        });
        Self::new("prompt", catalog, name, names.collect())
    }

    fn new(noun: &'static str, catalog: &Catalog, name: &str, names: Vec<(&str, String)>) -> Self {
        let server = catalog.servers().find(|server| names_server(name, server));
        let of_server = |owner: &str| server.is_none_or(|server| server == owner);
        let mut known: Vec<String> =
            names.into_iter().filter(|(owner, _)| of_server(owner)).map(|(_, name)| name).collect();
        // Long names would take long, and their beginnings are enough. The sort is stable: names that are equally similar keep the order of the catalog.
        known.sort_by_cached_key(|other| {
            let similarity = |other| strsim::jaro_winkler(Excerpt::new(name).as_str(), Excerpt::new(other).as_str());
            // The call can lack the prefix of the server.
            let short =
                other.split_once(':').or_else(|| other.split_once("__")).map_or(0.0, |(_, short)| similarity(short));
            std::cmp::Reverse((similarity(other).max(short) * 1000.0) as u32)
        });
        Self { name: name.to_owned(), known, noun }
    }
}

/// Returns true if a name has the form of the names for models, and not that of the names for people.
fn is_provider_name(name: &str) -> bool {
    !name.contains(':') && name.contains("__")
}

/// Returns true if the display name or provider name of a tool names this server.
pub(crate) fn names_server(name: &str, server: &str) -> bool {
    without_server(name, server).is_some()
}

/// Returns the display name or provider name of a tool without the name of this server; `None` if it does not name this server.
pub(crate) fn without_server<'a>(name: &'a str, server: &str) -> Option<&'a str> {
    if let Some((_, tool)) = name.split_once(':').filter(|(prefix, _)| *prefix == server) {
        return Some(tool);
    }
    // The name of the tool has no separator, so the last one ends the prefix of the server.
    let of_server = qualified_name(server, "x");
    let end = of_server.rfind("__").filter(|_| is_provider_name(name))?;
    name.strip_prefix(&of_server[..end + 2])
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, known, noun } = self;
        write!(f, "there is no {noun} {:?}", Excerpt::new(name))?;
        // Servers choose the names of their items.
        let list =
            |names: &[String]| names.iter().map(|name| Printable::new(name).to_string()).collect::<Vec<_>>().join(", ");
        match known.len() {
            0 => write!(f, ", and there are no {noun}s"),
            1..=SHOWN => write!(f, "; the {noun}s are: {}", list(known)),
            all => write!(f, "; similar {noun}s are: {} (and {} others)", list(&known[..SHOWN]), all - SHOWN),
        }
    }
}

impl std::error::Error for UnknownName {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use mcp_protocol::{JsonObject, Tool};

    use super::*;
    use crate::{
        catalog::{ListedTool, ServerEntries},
        characters::Characters,
    };

    fn catalog(servers: &[(&str, &[&str])]) -> Catalog {
        let servers: Vec<_> = servers
            .iter()
            .map(|(server, tools)| {
                let tools = tools.iter().map(|tool| ListedTool::new(tool, Tool::new(*tool, JsonObject::new()), None));
                let entries = ServerEntries { tools: tools.collect(), ..ServerEntries::default() };
                (Arc::from(*server), Arc::new(entries))
            })
            .collect();
        Catalog::default().next(&servers, Characters::default()).unwrap()
    }

    #[test]
    fn the_names_have_the_form_of_the_call_and_the_nearest_comes_first() {
        let catalog = catalog(&[("git", &["push", "get_issue", "get_issues"]), ("a.b", &["x"]), ("empty", &[])]);
        for (name, expected) in [
            ("git:get_isue", "git:get_issue git:get_issues git:push"),
            ("git__get_isue", "git__get_issue git__get_issues git__push"),
            ("a_b__y", "a_b__x_0"),
            ("a.b:y", "a.b:x"),
            ("other__x", "git__push"),
            ("push", "git:push"),
            ("empty:x", ""),
            ("empty__x", ""),
        ] {
            let known = catalog.tool(name).unwrap_err().known;
            assert!(known.join(" ").starts_with(expected), "{name}: {known:?}");
            assert_eq!(known.is_empty(), expected.is_empty(), "{name}: {known:?}");
        }
    }

    #[test]
    fn a_name_without_its_server_is_the_nearest() {
        let catalog =
            catalog(&[("search", &["multi_input", "confirm_delete", "account"]), ("files", &["list", "count"])]);
        for (name, expected) in [("count", "files:count"), ("cuont", "files:count"), ("lost", "files:list")] {
            assert_eq!(catalog.tool(name).unwrap_err().known[0], expected, "{name}");
        }
    }

    #[test]
    fn the_text_is_short_for_a_large_catalog() {
        let names: Vec<String> = (0..500).map(|n| format!("tool_{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let catalog = catalog(&[("s", &names)]);
        let text = catalog.tool("s__tool_77x").unwrap_err().to_string();
        assert!(text.starts_with("there is no tool \"s__tool_77x\"; similar tools are: s__tool_77, "), "{text}");
        assert!(text.ends_with("(and 490 others)") && text.len() < 250, "{text}");
        assert!(catalog.tool(&"x".repeat(100_000)).unwrap_err().to_string().len() < 1_000);
    }
}
