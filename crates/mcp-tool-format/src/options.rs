//! The options of a rendering.

use std::collections::HashSet;

use crate::{Provider, Rules};

/// The provider and the options of a request.
///
/// ```
/// use mcp_tool_format::{Options, Provider};
///
/// let options = Options::new(Provider::Anthropic).deferred(["files__search"]).cached().max_bytes(100_000);
/// assert_eq!(options.provider(), Provider::Anthropic);
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) provider: Provider,
    pub(crate) strict: Option<bool>,
    pub(crate) early_strict: bool,
    pub(crate) max_tools: Option<usize>,
    pub(crate) max_bytes: Option<usize>,
    pub(crate) deferred: HashSet<String>,
    pub(crate) cached: bool,
}

impl Options {
    /// Returns the default options for a provider.
    #[must_use]
    pub fn new(provider: Provider) -> Self {
        Self {
            provider,
            strict: None,
            early_strict: false,
            max_tools: None,
            max_bytes: None,
            deferred: HashSet::new(),
            cached: false,
        }
    }

    /// Returns the provider.
    #[must_use]
    pub fn provider(&self) -> Provider {
        self.provider
    }

    /// Sets `strict` for each tool that is eligible. A tool that is not eligible has a diagnostic.
    ///
    /// Without this call, eligible tools of OpenAI are strict, and tools of Anthropic are not: Anthropic compiles the
    /// strict tools of a request into one grammar and rejects a large grammar. For Gemini,
    /// [`Rendered::add_to`](crate::Rendered::add_to) sets the mode `VALIDATED` of the request.
    ///
    /// ```
    /// use mcp_tool_format::{Options, Provider};
    ///
    /// let options = Options::new(Provider::Anthropic).strict();
    /// ```
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = Some(true);
        self
    }

    /// Writes every tool without `strict`.
    ///
    /// ```
    /// use mcp_tool_format::{Options, Provider};
    ///
    /// let options = Options::new(Provider::OpenAiResponses).not_strict();
    /// ```
    #[must_use]
    pub fn not_strict(mut self) -> Self {
        self.strict = Some(false);
        self
    }

    /// Applies the limits of older deployments of OpenAI to strict tools: 5 levels and 100 properties.
    ///
    /// ```
    /// use mcp_tool_format::{Options, Provider};
    ///
    /// let options = Options::new(Provider::OpenAiChat).early_strict();
    /// ```
    #[must_use]
    pub fn early_strict(mut self) -> Self {
        self.early_strict = true;
        self
    }

    /// Sets the largest number of tools. The limit of the provider holds too. The first tools stay.
    ///
    /// ```
    /// use mcp_tool_format::{Options, Provider};
    ///
    /// let options = Options::new(Provider::Gemini).max_tools(40);
    /// ```
    #[must_use]
    pub fn max_tools(mut self, tools: usize) -> Self {
        self.max_tools = Some(tools);
        self
    }

    /// Sets the largest size of all definitions, in bytes of compact JSON. A tool that does not fit is left out.
    ///
    /// ```
    /// use mcp_tool_format::{Options, Provider};
    ///
    /// let options = Options::new(Provider::Mistral).max_bytes(200_000);
    /// ```
    #[must_use]
    pub fn max_bytes(mut self, bytes: usize) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Defers tools by the names that the caller passes to [`render`](crate::render). The model finds them by a search.
    ///
    /// Anthropic and OpenAI Responses support deferred tools. The request then contains the search tool of the provider.
    /// For other providers each of these tools has a diagnostic, and the request contains its definition.
    ///
    /// ```
    /// use mcp_tool_format::{Options, Provider};
    ///
    /// let options = Options::new(Provider::Anthropic).deferred(["github__list_issues", "github__get_issue"]);
    /// ```
    #[must_use]
    pub fn deferred<I: IntoIterator<Item: Into<String>>>(mut self, names: I) -> Self {
        self.deferred.extend(names.into_iter().map(Into::into));
        self
    }

    /// Marks the end of the tools for the prompt cache of Anthropic and Bedrock. Other providers have no such mark.
    ///
    /// The mark is never on a deferred tool.
    ///
    /// ```
    /// use mcp_tool_format::{Options, Provider};
    ///
    /// let options = Options::new(Provider::Bedrock).cached();
    /// ```
    #[must_use]
    pub fn cached(mut self) -> Self {
        self.cached = true;
        self
    }

    /// Returns the rules for eligible tools, if they are strict.
    pub(crate) fn strict_rules(&self) -> Option<&'static Rules> {
        let wanted = self.strict.unwrap_or_else(|| self.provider.is_openai());
        let rules = if self.early_strict { Rules::early_strict } else { Rules::strict };
        wanted.then(|| rules(self.provider)).flatten()
    }
}
