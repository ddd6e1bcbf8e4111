//! The tools of a request.

use std::collections::HashMap;

use mcp_protocol::JsonObject;
use serde_json::{Value, json};

use crate::{Diagnostic, Provider, keys::Keys, nulls, schema::Node};

/// The tools of a request, and the names to map calls back.
///
/// ```
/// use mcp_protocol::{JsonObject, Tool};
/// use mcp_tool_format::{Options, Provider, render};
/// use serde_json::json;
///
/// let tool = Tool::new("now", JsonObject::new().with("type", "object"));
/// let rendered = render([("clock.now", &tool)], &Options::new(Provider::Bedrock));
///
/// let mut request = JsonObject::new().with("modelId", "model");
/// rendered.add_to(&mut request);
/// let name = request["toolConfig"]["tools"][0]["toolSpec"]["name"].as_str().unwrap_or_default();
/// assert_eq!(rendered.tool_name(name), Some("clock.now"));
/// assert_eq!(rendered.provider_name("clock.now"), Some(name));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Rendered {
    /// The provider.
    pub provider: Provider,
    /// The value of the member of the request; see [`Rendered::add_to`]. `null` if no tool is left: a request without
    /// tools has no such member.
    pub value: Value,
    /// The losses, in the order of the tools.
    pub diagnostics: Vec<Diagnostic>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) by_provider_name: HashMap<String, usize>,
    /// Whether Gemini compares calls with the definitions.
    pub(crate) validated: bool,
}

/// One tool of a request.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: String,
    pub(crate) provider_name: String,
    pub(crate) node: Node,
    pub(crate) keys: Keys,
}

impl Rendered {
    /// Returns the member of the request for [`value`](Self::value): `toolConfig` for Bedrock, else `tools`.
    ///
    /// ```
    /// use mcp_tool_format::{Options, Provider, render};
    ///
    /// assert_eq!(render([], &Options::new(Provider::Bedrock)).member(), "toolConfig");
    /// ```
    #[must_use]
    pub fn member(&self) -> &'static str {
        if self.provider == Provider::Bedrock { "toolConfig" } else { "tools" }
    }

    /// Returns the value of the member `tools` of the request. For Bedrock, this member is a part of `toolConfig`.
    ///
    /// ```
    /// use mcp_protocol::{JsonObject, Tool};
    /// use mcp_tool_format::{Options, Provider, render};
    ///
    /// let tool = Tool::new("now", JsonObject::new().with("type", "object"));
    /// let rendered = render([("now", &tool)], &Options::new(Provider::Bedrock));
    /// assert_eq!(rendered.tools()[0]["toolSpec"]["name"], "now");
    /// ```
    #[must_use]
    pub fn tools(&self) -> &Value {
        if self.provider == Provider::Bedrock { &self.value["tools"] } else { &self.value }
    }

    /// Adds the tools to the body of a request. Without tools it adds nothing.
    ///
    /// With [`Options::strict`](crate::Options::strict) it sets `toolConfig.functionCallingConfig.mode` of Gemini to
    /// `VALIDATED`, unless the request has a mode.
    ///
    /// ```
    /// use mcp_protocol::JsonObject;
    /// use mcp_tool_format::{Options, Provider, render};
    ///
    /// let mut request = JsonObject::new();
    /// render([], &Options::new(Provider::Anthropic)).add_to(&mut request);
    /// assert!(request.is_empty());
    /// ```
    pub fn add_to(&self, request: &mut JsonObject) {
        if !self.value.is_null() {
            request.insert(self.member().to_owned(), self.value.clone());
            if self.validated
                && let Some(config) = request.entry("toolConfig").or_insert_with(|| json!({})).as_object_mut()
                && let Some(calling) =
                    config.entry("functionCallingConfig").or_insert_with(|| json!({})).as_object_mut()
            {
                calling.entry("mode").or_insert_with(|| "VALIDATED".into());
            }
        }
    }

    /// Returns the name that the caller passed to [`render`](crate::render), for a name in a call of the model.
    #[must_use]
    pub fn tool_name(&self, provider_name: &str) -> Option<&str> {
        self.entry(provider_name).map(|entry| entry.name.as_str())
    }

    /// Returns the name in the request, for a name that the caller passed to [`render`](crate::render).
    #[must_use]
    pub fn provider_name(&self, name: &str) -> Option<&str> {
        self.entry_named(name).map(|entry| entry.provider_name.as_str())
    }

    /// Returns the pairs of a name that the caller passed and the name in the request, in the order of the request.
    ///
    /// ```
    /// use mcp_protocol::{JsonObject, Tool};
    /// use mcp_tool_format::{Options, Provider, render};
    ///
    /// let tool = Tool::new("now", JsonObject::new().with("type", "object"));
    /// let rendered = render([("now", &tool)], &Options::new(Provider::Ollama));
    /// assert_eq!(rendered.names().collect::<Vec<_>>(), [("now", "now")]);
    /// ```
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|entry| (entry.name.as_str(), entry.provider_name.as_str()))
    }

    /// Returns arguments for the server from the arguments of a call of the model.
    ///
    /// Renamed keys have their original names. An optional property that is `null` is absent, if its schema does not
    /// accept `null`. Arguments of an unknown tool are unchanged.
    ///
    /// ```
    /// use mcp_protocol::{JsonObject, Tool};
    /// use mcp_tool_format::{Options, Provider, render};
    /// use serde_json::json;
    ///
    /// let schema = json!({ "type": "object", "properties": { "a": { "type": "string" }, "b": { "type": "string" } } });
    /// let tool = Tool::new("t", JsonObject::from_value(schema).unwrap_or_default());
    /// let rendered = render([("t", &tool)], &Options::new(Provider::OpenAiResponses));
    /// let arguments = rendered.restore_arguments("t", JsonObject::new().with("a", "x").with("b", json!(null)));
    /// assert_eq!(arguments, JsonObject::new().with("a", "x"));
    /// ```
    #[must_use]
    pub fn restore_arguments(&self, provider_name: &str, arguments: JsonObject) -> JsonObject {
        let Some(entry) = self.entry(provider_name) else { return arguments };
        let mut arguments = entry.keys.restore(arguments.into_inner());
        nulls::remove_nulls(&mut arguments, &entry.node);
        arguments.into()
    }

    /// Returns arguments with the keys of the request, for calls of the history.
    ///
    /// ```
    /// use mcp_protocol::JsonObject;
    /// use mcp_tool_format::{Options, Provider, render};
    ///
    /// let rendered = render([], &Options::new(Provider::Gemini));
    /// let arguments = JsonObject::new().with("a", 1);
    /// assert_eq!(rendered.provider_arguments("unknown", arguments.clone()), arguments);
    /// ```
    #[must_use]
    pub fn provider_arguments(&self, name: &str, arguments: JsonObject) -> JsonObject {
        match self.entry_named(name) {
            Some(entry) => entry.keys.apply(arguments.into_inner()).into(),
            None => arguments,
        }
    }

    /// Returns the entry of a name that the caller passed.
    fn entry_named(&self, name: &str) -> Option<&Entry> {
        // The name in the request depends on the name alone.
        self.entry(&crate::safe_name(name)).filter(|entry| entry.name == name)
    }

    fn entry(&self, provider_name: &str) -> Option<&Entry> {
        self.by_provider_name.get(provider_name).map(|&at| &self.entries[at])
    }
}
