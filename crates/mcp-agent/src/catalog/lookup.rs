//! The error of a name that a catalog does not contain.

use std::fmt;

use super::Catalog;

/// The largest number of names in the text of an error.
const SHOWN: usize = 50;

/// A name that no tool or prompt of a catalog has. The text lists the existing names, the most similar first.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// The name of the call.
    pub name: String,
    /// The names that exist: of the server that the call names, of all servers if it names no server of the catalog.
    pub known: Vec<String>,
    noun: &'static str,
}

impl UnknownName {
    pub(super) fn of_tool(catalog: &Catalog, name: &str) -> Self {
        let names = catalog.tools().iter().map(|tool| (tool.server(), tool.display_name().to_owned()));
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
        let server = name.split_once(':').map(|(server, _)| server);
        let is_known = server.filter(|server| catalog.servers().any(|known| known == *server));
        let of_server = |owner: &str| is_known.is_none_or(|server| server == owner);
        let mut known: Vec<String> =
            names.into_iter().filter(|(owner, _)| of_server(owner)).map(|(_, name)| name).collect();
        // The sort is stable: names that are equally similar keep the order of the catalog.
        known.sort_by_cached_key(|other| {
            let similarity = strsim::jaro_winkler(name, other);
            std::cmp::Reverse((similarity * 1000.0) as u32)
        });
        Self { name: name.to_owned(), known, noun }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, known, noun } = self;
        write!(f, "there is no {noun} {name:?}")?;
        if known.is_empty() {
            return write!(f, ", and there are no {noun}s");
        }
        write!(f, "; the {noun}s are: {}", known[..known.len().min(SHOWN)].join(", "))?;
        if known.len() > SHOWN {
            write!(f, " and {} more", known.len() - SHOWN)?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownName {}
