//! Tool definitions for a request.

use std::collections::HashMap;

use mcp_protocol::{JsonObject, Tool};
use serde_json::{Map, Value};

use crate::{
    Diagnostic, DiagnosticKind as Kind, Options, Provider, Rules, check,
    diagnostic::Log,
    keys::Keys,
    name, nulls,
    schema::{self, Node},
    shape::{self, Definition},
    text,
};

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
    entries: Vec<Entry>,
    by_provider_name: HashMap<String, usize>,
}

/// One tool of a request.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    provider_name: String,
    node: Node,
    keys: Keys,
}

/// Writes tool definitions for a provider.
///
/// Each item is a name for the model and a tool. The caller chooses the names, for example by
/// [`qualified_name`](crate::qualified_name). A name that the provider refuses is replaced by
/// [`safe_name`](crate::safe_name). The order of the tools is kept.
///
/// Each definition is compared with the [`Rules`] of the provider. A tool that cannot be rewritten is left out, with a
/// diagnostic.
///
/// ```
/// use mcp_protocol::{JsonObject, Tool};
/// use mcp_tool_format::{Options, Provider, render};
/// use serde_json::json;
///
/// let schema = json!({
///     "type": "object",
///     "properties": { "at": { "type": ["string", "null"], "format": "date-time" } },
/// });
/// let tool = Tool::new("remind", JsonObject::from_value(schema).unwrap_or_default());
/// let rendered = render([("remind", &tool)], &Options::new(Provider::Gemini));
///
/// let at = &rendered.value[0]["functionDeclarations"][0]["parameters"]["properties"]["at"];
/// assert_eq!(at, &json!({ "type": "string", "nullable": true, "description": "format: \"date-time\"" }));
/// ```
pub fn render<'a>(tools: impl IntoIterator<Item = (&'a str, &'a Tool)>, options: &Options) -> Rendered {
    let provider = options.provider;
    let rules = Rules::of(provider);
    let mut max_tools = options.max_tools.unwrap_or(usize::MAX).min(rules.max_tools.unwrap_or(usize::MAX));
    let can_defer = matches!(provider, Provider::Anthropic | Provider::OpenAiResponses);
    if can_defer && !options.deferred.is_empty() {
        // The search tool is a tool of the request.
        max_tools = max_tools.saturating_sub(1);
    }
    let mut rendered = Rendered {
        provider,
        value: Value::Null,
        diagnostics: Vec::new(),
        entries: Vec::new(),
        by_provider_name: HashMap::new(),
    };
    let (mut definitions, mut bytes, mut any_deferred) = (Vec::new(), 0usize, false);
    for (name, tool) in tools {
        let mut log = Log::default();
        let provider_name = name::safe_name(name);
        let result = if rendered.by_provider_name.contains_key(&provider_name) {
            Err((Kind::LeftOut, format!("another tool of the request has the name {provider_name}")))
        } else if definitions.len() >= max_tools {
            Err((Kind::OverBudget, format!("the request has {max_tools} tools already")))
        } else {
            one(&provider_name, tool, options, &mut log).map_err(|message| (Kind::LeftOut, message))
        };
        let fitted = result.and_then(|(mut parts, node, keys)| {
            parts.deferred = options.deferred.contains(name) && can_defer;
            if options.deferred.contains(name) && !can_defer {
                log.add(Kind::NotDeferred, "", format!("{provider} has no deferred tools"));
            }
            let deferred = parts.deferred;
            let definition = shape::definition(provider, parts);
            if let Some(max) = options.max_bytes {
                let size = definition.to_string().len();
                if bytes + size > max {
                    return Err((Kind::OverBudget, format!("the tools of the request exceed {max} bytes")));
                }
                bytes += size;
            }
            any_deferred |= deferred;
            Ok((definition, node, keys))
        });
        match fitted {
            Ok((definition, node, keys)) => {
                if provider_name != name {
                    log.add(Kind::NameChanged, "", format!("the name is {provider_name} in the request"));
                }
                rendered.by_provider_name.insert(provider_name.clone(), rendered.entries.len());
                rendered.entries.push(Entry { name: name.to_owned(), provider_name, node, keys });
                definitions.push(definition);
            }
            Err((kind, message)) => {
                log = Log::default();
                log.add(kind, "", message);
            }
        }
        log.finish(name, &mut rendered.diagnostics);
    }
    rendered.value = shape::list(provider, definitions, any_deferred, options.cached);
    rendered
}

/// Rewrites one tool, and checks the result. The error is a sentence.
fn one(name: &str, tool: &Tool, options: &Options, log: &mut Log) -> Result<(Definition, Node, Keys), String> {
    let provider = options.provider;
    let rules = Rules::of(provider);
    let node = schema::read(&tool.input_schema.0, log)?;
    let mut description =
        tool.description.clone().filter(|text| !text.trim().is_empty()).or_else(|| tool.title.clone());
    if let (Some(max), Some(text)) = (rules.max_description, &mut description)
        && text::shorten(text, max)
    {
        log.add(Kind::Shortened, "", format!("the description was cut to {max} characters"));
    }
    let finish = |schema: Map<String, Value>, strict| Definition {
        name: name.to_owned(),
        description: description.clone(),
        schema,
        strict,
        deferred: false,
    };
    if let Some(strict) = Rules::strict(provider).filter(|_| options.wants_strict()) {
        let mut strict_log = log.clone();
        let written = schema::write(&node, strict, &mut strict_log);
        let violations = check::schema(strict, &written.schema);
        let reason = written.obstacle.or_else(|| violations.into_iter().next().map(|(_, message)| message));
        match reason {
            None => {
                *log = strict_log;
                return Ok((finish(written.schema, true), node, written.keys));
            }
            Some(reason) if options.strict == Some(true) => {
                log.add(Kind::NotStrict, "", format!("the tool is not eligible for `strict`: {reason}"));
            }
            Some(_) => {}
        }
    }
    let written = schema::write(&node, rules, log);
    if let Some(obstacle) = written.obstacle {
        return Err(obstacle);
    }
    if !(provider == Provider::Gemini && written.schema.get("properties").is_none())
        && let Some((pointer, message)) = check::schema(rules, &written.schema).into_iter().next()
    {
        return Err(format!("the rewritten schema breaks a rule of {provider} at `{pointer}`: {message}"));
    }
    Ok((finish(written.schema, false), node, written.keys))
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

    /// Adds the tools to the body of a request. Without tools it adds nothing.
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
        }
    }

    /// Returns the name that the caller passed to [`render`], for a name in a call of the model.
    #[must_use]
    pub fn tool_name(&self, provider_name: &str) -> Option<&str> {
        self.entry(provider_name).map(|entry| entry.name.as_str())
    }

    /// Returns the name in the request, for a name that the caller passed to [`render`].
    #[must_use]
    pub fn provider_name(&self, name: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        entry.map(|entry| entry.provider_name.as_str())
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
        let mut arguments = entry.keys.restore(arguments.0);
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
        match self.entries.iter().find(|entry| entry.name == name) {
            Some(entry) => entry.keys.apply(arguments.0).into(),
            None => arguments,
        }
    }

    fn entry(&self, provider_name: &str) -> Option<&Entry> {
        self.by_provider_name.get(provider_name).map(|&at| &self.entries[at])
    }
}
