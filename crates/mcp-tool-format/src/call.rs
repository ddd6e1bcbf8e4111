//! Calls of models.

use mcp_protocol::{CallToolResult, JsonObject};
use serde_json::{Map, Value};

use crate::{Provider, Rendered, text};

/// A call of a model, ready for the server.
///
/// ```
/// use mcp_protocol::{JsonObject, Tool};
/// use mcp_tool_format::{Call, Options, Provider, render};
/// use serde_json::json;
///
/// let schema = json!({ "type": "object", "properties": { "page.size": { "type": "integer" } } });
/// let tool = Tool::new("list", JsonObject::from_value(schema).unwrap_or_default());
/// let rendered = render([("files.list", &tool)], &Options::new(Provider::Anthropic));
///
/// let name = rendered.provider_name("files.list").unwrap_or_default();
/// let block = json!({ "type": "tool_use", "id": "toolu_1", "name": name, "input": { "page.size": 10 } });
/// let call = Call::parse(&rendered, &block)?;
/// assert_eq!(call.name, "files.list");
/// assert_eq!(call.arguments, JsonObject::new().with("page.size", 10));
/// # Ok::<(), mcp_tool_format::CallError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Call {
    /// The id of the call. Gemini and Ollama do not always send one.
    ///
    /// A host that replays such a call to another provider sets an id here, since Anthropic rejects two equal ids.
    pub id: Option<String>,
    /// The name of the tool that the caller passed to [`render`](crate::render).
    pub name: String,
    /// The name of the tool in the request.
    pub provider_name: String,
    /// The arguments for the server.
    pub arguments: JsonObject,
    /// The `thoughtSignature` of Gemini. The history must contain it.
    pub signature: Option<String>,
    /// The provider of the model that made the call. `None`: unknown.
    pub origin: Option<Provider>,
}

impl Call {
    /// Returns a call, for example from a stored history.
    ///
    /// ```
    /// use mcp_protocol::JsonObject;
    /// use mcp_tool_format::Call;
    ///
    /// let call = Call::new("call_1", "weather__get", JsonObject::new().with("city", "Bern"));
    /// assert_eq!(call.provider_name, "weather__get");
    /// ```
    pub fn new(id: impl Into<String>, name: impl Into<String>, arguments: impl Into<JsonObject>) -> Self {
        let name = name.into();
        let provider_name = crate::safe_name(&name);
        Self { id: Some(id.into()), name, provider_name, arguments: arguments.into(), signature: None, origin: None }
    }

    /// Parses one call of a model. The shapes of all providers are accepted.
    ///
    /// The arguments are an object or JSON text. Absent, empty and `null` arguments are an empty object.
    ///
    /// # Errors
    ///
    /// The block is not a call, the tool is not part of the request, or the arguments are not an object.
    /// [`CallError::result`] returns the error for the model.
    pub fn parse(rendered: &Rendered, block: &Value) -> Result<Self, CallError> {
        let inner = ["functionCall", "toolUse", "function"].iter().find_map(|key| block.get(*key)).unwrap_or(block);
        let member = |keys: &[&str]| keys.iter().find_map(|key| inner.get(*key).or_else(|| block.get(*key)));
        let string = |keys: &[&str]| member(keys).and_then(Value::as_str).filter(|text| !text.is_empty());
        let id = string(&["call_id", "toolUseId", "id"]).map(str::to_owned);
        let provider_name = string(&["name", "toolName"]);
        let name = provider_name.and_then(|name| rendered.tool_name(name));
        let signature = ["thoughtSignature", "thought_signature"].iter().find_map(|key| block.get(*key));
        let mut call = Self {
            id,
            name: name.or(provider_name).unwrap_or_default().to_owned(),
            provider_name: crate::safe_name(provider_name.unwrap_or_default()),
            arguments: JsonObject::new(),
            signature: signature.and_then(Value::as_str).map(str::to_owned),
            origin: Some(rendered.provider),
        };
        let (kind, message) = match (provider_name, name) {
            (None, _) => (CallErrorKind::NotACall, "the block has no name of a tool".to_owned()),
            (Some(unknown), None) => {
                (CallErrorKind::UnknownTool, format!("the tool {} does not exist", text::excerpt(unknown, 100)))
            }
            (Some(provider_name), Some(_)) => match arguments(member(&["input", "arguments", "args"])) {
                Ok(arguments) => {
                    call.arguments = rendered.restore_arguments(provider_name, arguments);
                    return Ok(call);
                }
                Err(message) => (CallErrorKind::Arguments, message),
            },
        };
        Err(CallError { kind, message, call: Box::new(call) })
    }

    /// Parses all calls of a response of the provider, in their order.
    ///
    /// The response is the whole body, or its message.
    ///
    /// ```
    /// use mcp_protocol::{JsonObject, Tool};
    /// use mcp_tool_format::{Call, Options, Provider, render};
    /// use serde_json::json;
    ///
    /// let tool = Tool::new("now", JsonObject::new().with("type", "object"));
    /// let rendered = render([("now", &tool)], &Options::new(Provider::OpenAiChat));
    /// let response = json!({ "choices": [{ "message": { "role": "assistant", "tool_calls": [
    ///     { "id": "call_1", "type": "function", "function": { "name": "now", "arguments": "" } },
    /// ] } }] });
    /// let calls = Call::parse_all(&rendered, &response);
    /// assert_eq!(calls.len(), 1);
    /// assert!(calls[0].is_ok());
    /// ```
    #[must_use]
    pub fn parse_all(rendered: &Rendered, response: &Value) -> Vec<Result<Self, CallError>> {
        let pointers: &[&str] = match rendered.provider {
            Provider::Anthropic => &["/content"],
            Provider::OpenAiChat | Provider::Mistral | Provider::Ollama => {
                &["/choices/0/message/tool_calls", "/message/tool_calls", "/tool_calls"]
            }
            Provider::OpenAiResponses => &["/output"],
            Provider::Gemini => &["/candidates/0/content/parts", "/content/parts", "/parts"],
            Provider::Bedrock => &["/output/message/content", "/message/content", "/content"],
        };
        let blocks = pointers.iter().find_map(|pointer| response.pointer(pointer)?.as_array());
        let is_call = |block: &&Value| match rendered.provider {
            Provider::Anthropic => block["type"] == "tool_use",
            Provider::OpenAiResponses => block["type"] == "function_call",
            Provider::Gemini => block.get("functionCall").is_some(),
            Provider::Bedrock => block.get("toolUse").is_some(),
            Provider::OpenAiChat | Provider::Mistral | Provider::Ollama => true,
        };
        blocks.into_iter().flatten().filter(is_call).map(|block| Self::parse(rendered, block)).collect()
    }
}

/// Returns the arguments as an object. The error is a sentence.
fn arguments(value: Option<&Value>) -> Result<JsonObject, String> {
    match value {
        None | Some(Value::Null) => Ok(JsonObject::new()),
        Some(Value::Object(members)) => Ok(members.clone().into()),
        Some(Value::Array(items)) if items.is_empty() => Ok(JsonObject::new()),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(JsonObject::new()),
        Some(Value::String(text)) => match serde_json::from_str::<Value>(text) {
            // Some models encode the text twice.
            Ok(Value::String(inner)) => match serde_json::from_str::<Map<String, Value>>(&inner) {
                Ok(members) => Ok(members.into()),
                Err(_) => Err("the arguments are a JSON text instead of a JSON object".to_owned()),
            },
            Ok(parsed) => arguments(Some(&parsed)),
            Err(error) => Err(format!("the arguments are not valid JSON: {error}")),
        },
        Some(other) => Err(format!("the arguments are {} instead of a JSON object", text::json(other, 60))),
    }
}

/// A call of a model that cannot be sent to a server. [`CallError::result`] is the answer for the model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct CallError {
    /// The kind of the fault.
    pub kind: CallErrorKind,
    /// The call with empty arguments, for the history of the conversation.
    pub call: Box<Call>,
    message: String,
}

/// The kind of a [`CallError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CallErrorKind {
    /// The block has no name of a tool.
    NotACall,
    /// The request has no tool of this name.
    UnknownTool,
    /// The arguments are not a JSON object.
    Arguments,
}

impl CallError {
    /// Returns a failed result with the fault as text, for the next request. The model can correct its call.
    ///
    /// ```
    /// use mcp_protocol::{JsonObject, Tool};
    /// use mcp_tool_format::{Call, Options, Provider, render};
    /// use serde_json::json;
    ///
    /// let tool = Tool::new("now", JsonObject::new().with("type", "object"));
    /// let rendered = render([("now", &tool)], &Options::new(Provider::OpenAiResponses));
    /// let block = json!({ "type": "function_call", "call_id": "c", "name": "now", "arguments": "{\"a\":" });
    /// let Err(error) = Call::parse(&rendered, &block) else { panic!("the arguments are not JSON") };
    /// assert!(error.result().is_error);
    /// assert!(error.to_string().starts_with("the arguments are not valid JSON"));
    /// assert_eq!(error.call.id.as_deref(), Some("c"));
    /// ```
    #[must_use]
    pub fn result(&self) -> CallToolResult {
        CallToolResult::error(self.message.clone())
    }
}
