//! A tool of a catalog.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use mcp_protocol::{JsonObject, Tool};
use mcp_schema::Schema;
use mcp_tool_format::qualified_name;
use serde_json::Value;

use super::{InvalidArguments, ListedTool, arguments};
use crate::{
    characters::{CharacterFlag, Characters, strip_tool},
    pins::{PinState, ReviewedTool, Verdict},
};

/// A tool of a [`Catalog`](super::Catalog).
///
/// ```
/// # fn example(catalog: &mcp_agent::Catalog) {
/// for tool in catalog.tools() {
///     println!("{} {} ~{} tokens", tool.display_name(), tool.provider_name(), tool.estimated_tokens());
/// }
/// # }
/// ```
pub struct CatalogTool {
    server: Arc<str>,
    original: Arc<str>,
    tool: Arc<Tool>,
    /// The tool for models.
    shown: Arc<Tool>,
    source: Arc<Tool>,
    json: Arc<str>,
    flags: Arc<[CharacterFlag]>,
    pin: Option<Arc<ReviewedTool>>,
    display_name: String,
    provider_name: String,
    since: u64,
    bytes: usize,
    schema: OnceLock<Option<Schema>>,
}

impl CatalogTool {
    pub(super) fn new(server: &Arc<str>, listed: &ListedTool, since: u64, characters: Characters) -> Self {
        let name = &listed.tool.name;
        let mut shown = Arc::clone(&listed.tool);
        if characters == Characters::Strip && !listed.flags.is_empty() {
            strip_tool(Arc::make_mut(&mut shown));
        }
        Self {
            display_name: format!("{server}:{name}"),
            provider_name: qualified_name(server, name),
            server: Arc::clone(server),
            original: Arc::clone(&listed.original),
            tool: Arc::clone(&listed.tool),
            shown,
            source: Arc::clone(listed.definition()),
            json: Arc::clone(&listed.json),
            flags: Arc::clone(&listed.flags),
            pin: listed.pin.clone(),
            since,
            bytes: listed.bytes,
            schema: OnceLock::new(),
        }
    }

    /// Returns true if this is the listed tool, with the same state of its pin.
    pub(super) fn is(&self, listed: &ListedTool) -> bool {
        let pin = |pin: &Option<Arc<ReviewedTool>>| {
            let is_changed = pin.as_ref().is_some_and(|pin| matches!(pin.state, PinState::Changed(_)));
            (pin.as_ref().map_or(Verdict::Use, |pin| pin.verdict), is_changed)
        };
        self.defines(listed) && pin(&self.pin) == pin(&listed.pin)
    }

    /// Returns true if this tool has the definition of the listed tool.
    pub(super) fn defines(&self, listed: &ListedTool) -> bool {
        let is = |one: &Arc<Tool>, other: &Arc<Tool>| Arc::ptr_eq(one, other) || one == other;
        self.original == listed.original
            && self.json == listed.json
            && is(&self.tool, &listed.tool)
            && is(&self.source, listed.definition())
    }

    /// Whether this tool has the name and the definition of another tool of its server.
    pub(crate) fn has_definition_of(&self, other: &Self) -> bool {
        self.server == other.server
            && self.original == other.original
            && (Arc::ptr_eq(&self.tool, &other.tool) || self.tool == other.tool)
            && (Arc::ptr_eq(&self.source, &other.source) || self.source == other.source)
    }

    /// Returns the name of the server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Returns the name of the tool in the catalog, without its server. A filter can change it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.tool.name
    }

    /// Returns the name of the tool at the server.
    #[must_use]
    pub fn original_name(&self) -> &str {
        &self.original
    }

    /// Returns the name for people: `server:tool`.
    #[must_use]
    pub fn display_name(&self) -> &str {
        &self.display_name
    }

    /// Returns the name for models. It does not depend on other servers and tools ([`mcp_tool_format::qualified_name`]).
    #[must_use]
    pub fn provider_name(&self) -> &str {
        &self.provider_name
    }

    /// Returns the tool as the server listed it, with the changes of the filter.
    #[must_use]
    pub fn tool(&self) -> &Tool {
        &self.tool
    }

    /// Returns the tool for a model: without invisible characters in its texts, unless the host only flags them
    /// ([`HostBuilder::characters`](crate::HostBuilder::characters)).
    #[must_use]
    pub fn definition(&self) -> &Tool {
        &self.shown
    }

    /// Returns the invisible characters in the texts of the tool, at most 100.
    #[must_use]
    pub fn flags(&self) -> &[CharacterFlag] {
        &self.flags
    }

    /// Returns the comparison of the definition with its pin; `None` if the host has no pins.
    #[must_use]
    pub fn pin_state(&self) -> Option<&PinState> {
        self.pin.as_ref().map(|pin| &pin.state)
    }

    /// Returns the effect of the comparison. [`Verdict::Use`] if the host has no pins.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.pin.as_ref().map_or(Verdict::Use, |pin| pin.verdict)
    }

    /// Returns the definition as JSON, as the server sent it. It lacks the changes of the filter.
    ///
    /// ```
    /// # fn example(catalog: &mcp_agent::Catalog) {
    /// for tool in catalog.tools() {
    ///     println!("{}", tool.json());
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Returns the definition of the server, which pins are for.
    pub(crate) fn source(&self) -> &Arc<Tool> {
        &self.source
    }

    /// Returns the approximate size of the definition in a request to a model.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the generation of the catalog in which this definition appeared.
    #[must_use]
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Returns an estimate of the tokens of the definition: a token for each 3.5 bytes of JSON. Tokenizers of models differ.
    #[must_use]
    pub fn estimated_tokens(&self) -> usize {
        estimate(self.bytes)
    }

    /// Validates arguments by the schema of the tool. Removes each `null` that the schema rejects.
    ///
    /// A tool with an invalid schema accepts all arguments, because its server validates them too.
    ///
    /// # Errors
    /// [`InvalidArguments`] with sentences that help a model to correct the arguments.
    pub fn check_arguments(&self, arguments: JsonObject) -> Result<JsonObject, InvalidArguments> {
        let compile = || {
            let schema = Value::from(self.tool.input_schema.clone());
            Schema::compile(&schema)
                .map_err(|error| tracing::warn!(tool = self.display_name, %error, "the schema of a tool is invalid"))
                .ok()
        };
        match self.schema.get_or_init(compile) {
            Some(schema) => arguments::check(schema, arguments)
                .map_err(|errors| InvalidArguments { tool: self.display_name.clone(), errors }),
            None => Ok(arguments),
        }
    }
}

/// Returns the estimated number of tokens of JSON with this length.
pub(crate) fn estimate(bytes: usize) -> usize {
    (bytes * 2).div_ceil(7)
}

impl fmt::Debug for CatalogTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CatalogTool")
            .field("name", &self.display_name)
            .field("since", &self.since)
            .finish_non_exhaustive()
    }
}
