//! The options for content in messages.

/// The largest text of one result, in bytes, unless the options state another limit.
const MAX_TEXT: usize = 100_000;

/// The options for results, prompts and resources in messages.
///
/// ```
/// use mcp_tool_format::ContentOptions;
///
/// let options = ContentOptions::new().max_text(20_000).rest_uri("host:///results/").without_media();
/// ```
#[derive(Debug, Clone)]
pub struct ContentOptions {
    pub(crate) max_text: usize,
    pub(crate) rest_uri: Option<String>,
    pub(crate) media: bool,
    pub(crate) media_in_results: bool,
    pub(crate) structured: bool,
}

impl Default for ContentOptions {
    fn default() -> Self {
        Self {
            max_text: MAX_TEXT,
            rest_uri: Some("mcp-rest:///".to_owned()),
            media: true,
            media_in_results: false,
            structured: false,
        }
    }
}

impl ContentOptions {
    /// Returns the default options: at most 100,000 bytes of text for each result, media, and structured content only when
    /// the content of a result is empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the largest text of one result, in bytes of UTF-8. The smallest limit is 1,000.
    ///
    /// ```
    /// use mcp_tool_format::ContentOptions;
    ///
    /// let options = ContentOptions::new().max_text(50_000);
    /// ```
    #[must_use]
    pub fn max_text(mut self, bytes: usize) -> Self {
        self.max_text = bytes.max(1_000);
        self
    }

    /// Sets the start of the URIs for the rests of long texts. The default is `mcp-rest:///`.
    ///
    /// ```
    /// use mcp_tool_format::ContentOptions;
    ///
    /// let options = ContentOptions::new().rest_uri("host:///results/");
    /// ```
    #[must_use]
    pub fn rest_uri(mut self, prefix: impl Into<String>) -> Self {
        self.rest_uri = Some(prefix.into());
        self
    }

    /// Drops the rests of long texts. The model reads a note about the cut.
    ///
    /// ```
    /// use mcp_tool_format::ContentOptions;
    ///
    /// let options = ContentOptions::new().without_rest();
    /// ```
    #[must_use]
    pub fn without_rest(mut self) -> Self {
        self.rest_uri = None;
        self
    }

    /// Replaces images, documents and sound by notes, for models that accept text only.
    ///
    /// ```
    /// use mcp_tool_format::ContentOptions;
    ///
    /// let options = ContentOptions::new().without_media();
    /// ```
    #[must_use]
    pub fn without_media(mut self) -> Self {
        self.media = false;
        self
    }

    /// Writes media into `functionResponse.parts` of Gemini, which Gemini 3 and later accept.
    ///
    /// Without this call a separate content of the user follows the results. Other providers are not affected.
    ///
    /// ```
    /// use mcp_tool_format::ContentOptions;
    ///
    /// let options = ContentOptions::new().media_in_results();
    /// ```
    #[must_use]
    pub fn media_in_results(mut self) -> Self {
        self.media_in_results = true;
        self
    }

    /// Adds the structured content of a result also when its content is not empty.
    ///
    /// Most servers write the same data as text, so the default is to leave it out then.
    ///
    /// ```
    /// use mcp_tool_format::ContentOptions;
    ///
    /// let options = ContentOptions::new().always_structured();
    /// ```
    #[must_use]
    pub fn always_structured(mut self) -> Self {
        self.structured = true;
        self
    }
}
