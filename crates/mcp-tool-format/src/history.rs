//! Calls of a stored history, for requests to any provider.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use crate::{Call, Provider, Rendered, name};

impl Rendered {
    /// Returns a call as a part of the history: the block of the assistant for the provider of this request.
    ///
    /// The name and the arguments are those of the request. A tool that is not part of the request has its safe name, so
    /// a history stays valid without the server. [`call_id`] returns the id.
    ///
    /// ```
    /// use mcp_protocol::JsonObject;
    /// use mcp_tool_format::{Call, Options, Provider, render};
    /// use serde_json::json;
    ///
    /// let rendered = render([], &Options::new(Provider::Anthropic));
    /// let call = Call::new("call_1", "files.read", JsonObject::new());
    /// let block = rendered.call_block(&call);
    /// assert_eq!(block["type"], "tool_use");
    /// assert_eq!(block["name"], mcp_tool_format::safe_name("files.read"));
    /// ```
    #[must_use]
    pub fn call_block(&self, call: &Call) -> Value {
        self.block(call, &call_id(self.provider, call))
    }

    /// Returns the name of a call in the request.
    pub(crate) fn history_name(&self, call: &Call) -> String {
        let known = self.provider_name(&call.name).map(str::to_owned);
        known.unwrap_or_else(|| crate::safe_name(&call.name))
    }

    fn block(&self, call: &Call, id: &str) -> Value {
        let name = self.history_name(call);
        let arguments = self.provider_arguments(&call.name, call.arguments.clone());
        match self.provider {
            Provider::Anthropic => json!({ "type": "tool_use", "id": id, "name": name, "input": arguments }),
            Provider::OpenAiChat | Provider::Mistral => json!({
                "id": id,
                "type": "function",
                "function": { "name": name, "arguments": Value::from(arguments).to_string() },
            }),
            Provider::Ollama => json!({ "function": { "name": name, "arguments": arguments } }),
            Provider::OpenAiResponses => json!({
                "type": "function_call",
                "call_id": id,
                "name": name,
                "arguments": Value::from(arguments).to_string(),
            }),
            Provider::Gemini => {
                let mut inner = Map::new();
                if let Some(id) = gemini_id(call) {
                    inner.insert("id".to_owned(), id.into());
                }
                inner.insert("name".to_owned(), name.into());
                inner.insert("args".to_owned(), Value::from(arguments));
                let mut part = Map::from_iter([("functionCall".to_owned(), Value::Object(inner))]);
                if let Some(signature) = &call.signature {
                    part.insert("thoughtSignature".to_owned(), signature.as_str().into());
                }
                part.into()
            }
            Provider::Bedrock => json!({ "toolUse": { "toolUseId": id, "name": name, "input": arguments } }),
        }
    }

    /// Returns the messages of the assistant with these calls of one turn: one message, or one item for each call with
    /// OpenAI Responses.
    ///
    /// ```
    /// use mcp_protocol::JsonObject;
    /// use mcp_tool_format::{Call, Options, Provider, render};
    ///
    /// let rendered = render([], &Options::new(Provider::Mistral));
    /// let call = Call::new("toolu_01A09q90qw90lq917835lq9", "read", JsonObject::new());
    /// let messages = rendered.call_messages(&[call]);
    /// let id = messages[0]["tool_calls"][0]["id"].as_str().unwrap_or_default();
    /// assert_eq!(id.len(), 9);
    /// ```
    #[must_use]
    pub fn call_messages(&self, calls: &[Call]) -> Vec<Value> {
        if calls.is_empty() {
            return Vec::new();
        }
        let ids = call_ids(self.provider, calls.iter());
        let blocks: Vec<Value> = calls.iter().zip(ids).map(|(call, id)| self.block(call, &id)).collect();
        match self.provider {
            Provider::Anthropic | Provider::Bedrock => vec![json!({ "role": "assistant", "content": blocks })],
            Provider::OpenAiChat | Provider::Mistral | Provider::Ollama => {
                vec![json!({ "role": "assistant", "content": "", "tool_calls": blocks })]
            }
            Provider::OpenAiResponses => blocks,
            Provider::Gemini => vec![json!({ "role": "model", "parts": blocks })],
        }
    }
}

/// Returns the id of a call for Gemini. Vertex AI rejects the member `id`, so only an id of Gemini is written.
pub(crate) fn gemini_id(call: &Call) -> Option<&str> {
    call.id.as_deref().filter(|_| call.origin == Some(Provider::Gemini))
}

/// Returns the ids of the calls of one turn. The ids are distinct.
pub(crate) fn call_ids<'a>(provider: Provider, calls: impl Iterator<Item = &'a Call>) -> Vec<String> {
    let mut known: HashSet<String> = HashSet::new();
    // The last id that replaced an id, so that many equal ids do not begin anew.
    let mut last: HashMap<String, String> = HashMap::new();
    calls
        .map(|call| {
            let first = call_id(provider, call);
            let mut id = last.get(&first).unwrap_or(&first).clone();
            while known.contains(&id) {
                id = accepted_id(provider, &format!("{id} again"));
            }
            known.insert(id.clone());
            last.insert(first, id.clone());
            id
        })
        .collect()
}

/// Returns the id of a call that the provider accepts.
///
/// The same call has the same id in the call and in its result. An id that the provider refuses is replaced by a hash:
/// Mistral accepts 9 letters and digits, the others 1 to 64 of `[a-zA-Z0-9_-]`. A call without an id has one from its
/// name and arguments.
///
/// ```
/// use mcp_protocol::JsonObject;
/// use mcp_tool_format::{Call, Provider, call_id};
///
/// let call = Call::new("call_abc", "read", JsonObject::new());
/// assert_eq!(call_id(Provider::OpenAiChat, &call), "call_abc");
/// assert_eq!(call_id(Provider::Mistral, &call).len(), 9);
/// ```
#[must_use]
pub fn call_id(provider: Provider, call: &Call) -> String {
    match &call.id {
        Some(id) => accepted_id(provider, id),
        None => {
            hashed_id(provider, &name::digest(&["call", &call.name, &Value::from(call.arguments.clone()).to_string()]))
        }
    }
}

/// Returns the same id if the provider accepts it, else its hash.
fn accepted_id(provider: Provider, id: &str) -> String {
    let accepted = if provider == Provider::Mistral {
        id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())
    } else {
        (1..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
    };
    if accepted { id.to_owned() } else { hashed_id(provider, &name::digest(&["id", id])) }
}

fn hashed_id(provider: Provider, digest: &[u8]) -> String {
    if provider == Provider::Mistral { name::base32(digest, 9) } else { format!("call_{}", name::base32(digest, 26)) }
}
