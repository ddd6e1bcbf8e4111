//! The tools that a request contains in full, and the tools that the model finds by a search.

use mcp_protocol::Tool;

use crate::glob::Glob;

/// Decides which tools of a catalog are deferred: a request to a model does not contain them, and a search finds them.
///
/// Without a budget, only the tools of [`defer`](Self::defer) are deferred. With a budget, tools stay in the order of the
/// catalog until the next tool exceeds it. Pinned tools always stay, and their size counts first. So the decision for a tool
/// depends on pinned and earlier tools only, and tools at the end of a catalog do not change the tools that stay.
///
/// ```
/// use mcp_agent::search::Deferral;
///
/// let deferral = Deferral::new().budget(1_000).pin("files:read".parse()?).defer("legacy:*".parse()?);
/// let tools = [("legacy:old", 10), ("git:log", 700), ("git:show", 400), ("files:read", 250)];
/// let split = deferral.split(tools);
/// assert_eq!(split.loaded, [1, 3]);
/// assert_eq!(split.deferred, [0, 2]);
/// # Ok::<(), mcp_agent::GlobError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Deferral {
    budget: Option<usize>,
    pinned: Vec<Glob>,
    deferred: Vec<Glob>,
}

/// The result of [`Deferral::split`]: positions in the order of the catalog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deferred {
    /// The tools that a request contains in full.
    pub loaded: Vec<usize>,
    /// The tools that only a search finds.
    pub deferred: Vec<usize>,
}

impl Deferral {
    /// Returns a deferral without a budget and without patterns: all tools stay.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest size of the definitions in a request, in bytes of [`definition_bytes`].
    #[must_use]
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = Some(bytes);
        self
    }

    /// Adds tools that always stay, by their names. A pin wins over [`defer`](Self::defer) and over the budget.
    #[must_use]
    pub fn pin(mut self, names: Glob) -> Self {
        self.pinned.push(names);
        self
    }

    /// Adds tools that are always deferred, by their names.
    #[must_use]
    pub fn defer(mut self, names: Glob) -> Self {
        self.deferred.push(names);
        self
    }

    /// Splits the tools of a catalog: their names and their sizes in bytes, in the order of the catalog.
    #[must_use]
    pub fn split<'a>(&self, tools: impl IntoIterator<Item = (&'a str, usize)>) -> Deferred {
        self.split_pinned(tools.into_iter().map(|(name, bytes)| (name, bytes, false)))
    }

    /// Splits tools, of which some are pinned by their servers.
    pub(crate) fn split_pinned<'a>(&self, tools: impl IntoIterator<Item = (&'a str, usize, bool)>) -> Deferred {
        let tools: Vec<(&str, usize, bool)> = tools.into_iter().collect();
        let any = |globs: &[Glob], name: &str| globs.iter().any(|glob| glob.matches(name));
        let pinned: Vec<bool> =
            tools.iter().map(|(name, _, is_pinned)| *is_pinned || any(&self.pinned, name)).collect();
        let of_pins = tools.iter().zip(&pinned).filter(|(_, pinned)| **pinned).map(|((_, bytes, _), _)| *bytes);
        let mut used = of_pins.fold(0_usize, usize::saturating_add);
        let mut is_full = false;
        let mut split = Deferred::default();
        for (position, (name, bytes, _)) in tools.iter().enumerate() {
            let stays = pinned[position]
                || (!any(&self.deferred, name) && !is_full && {
                    used = used.saturating_add(*bytes);
                    is_full = self.budget.is_some_and(|budget| used > budget);
                    !is_full
                });
            if stays { split.loaded.push(position) } else { split.deferred.push(position) }
        }
        split
    }
}

/// Returns the approximate size of a tool in a request to a model: the bytes of its name, description and input schema as
/// compact JSON.
///
/// ```
/// use mcp_agent::search::definition_bytes;
/// use mcp_protocol::{JsonObject, Tool};
///
/// let tool = Tool::new("add", JsonObject::new()).with_description("Adds two numbers.");
/// assert_eq!(definition_bytes(&tool), "add".len() + "Adds two numbers.".len() + "{}".len());
/// ```
#[must_use]
pub fn definition_bytes(tool: &Tool) -> usize {
    let schema = serde_json::to_string(&tool.input_schema).map_or(0, |text| text.len());
    tool.name.len() + tool.description.as_deref().map_or(0, str::len) + schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glob(text: &str) -> Glob {
        text.parse().unwrap()
    }

    #[test]
    fn later_tools_do_not_change_the_tools_that_stay() {
        let deferral = Deferral::new().budget(100).pin(glob("z:*"));
        let mut tools = vec![("a:1", 40), ("z:pin", 30), ("a:2", 30), ("a:3", 1)];
        let first = deferral.split(tools.clone());
        assert_eq!(first.loaded, [0, 1, 2]);
        tools.push(("b:1", 500));
        assert_eq!(deferral.split(tools).loaded, first.loaded);
    }

    #[test]
    fn pinned_tools_stay_above_the_budget() {
        let split = Deferral::new().budget(10).pin(glob("*")).defer(glob("a")).split([("a", 50), ("b", usize::MAX)]);
        assert_eq!((split.loaded, split.deferred), (vec![0, 1], vec![]));
    }

    #[test]
    fn without_a_budget_only_named_tools_are_deferred() {
        let split = Deferral::new().defer(glob("b*")).split([("a", usize::MAX), ("b1", 1), ("c", usize::MAX)]);
        assert_eq!((split.loaded, split.deferred), (vec![0, 2], vec![1]));
    }
}
