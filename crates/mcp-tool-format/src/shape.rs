//! The shapes of tool definitions and tool lists.

use serde_json::{Map, Value, json};

use crate::Provider;

/// The parts of a definition.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) name: String,
    pub(crate) description: Option<String>,
    pub(crate) schema: Map<String, Value>,
    pub(crate) strict: bool,
    pub(crate) deferred: bool,
}

/// Returns a definition in the shape of a provider.
pub(crate) fn definition(provider: Provider, mut parts: Definition) -> Value {
    if provider == Provider::Gemini && parts.schema.get("properties").is_none() {
        // An object without properties is refused. Its description moves to the tool.
        if let Some(Value::String(text)) = parts.schema.remove("description") {
            parts.description = Some(parts.description.map_or(text.clone(), |own| format!("{own}\n{text}")));
        }
        parts.schema.clear();
    }
    let mut head = Map::new();
    head.insert("name".to_owned(), parts.name.into());
    if let Some(description) = parts.description.filter(|text| !text.trim().is_empty()) {
        head.insert("description".to_owned(), description.into());
    }
    let schema = Value::Object(parts.schema);
    let flag = |head: &mut Map<String, Value>, key: &str, set: bool| {
        if set {
            head.insert(key.to_owned(), true.into());
        }
    };
    match provider {
        Provider::Anthropic => {
            head.insert("input_schema".to_owned(), schema);
            flag(&mut head, "strict", parts.strict);
            flag(&mut head, "defer_loading", parts.deferred);
            head.into()
        }
        Provider::OpenAiResponses => {
            let mut tool = Map::from_iter([("type".to_owned(), "function".into())]);
            tool.extend(head);
            tool.insert("parameters".to_owned(), schema);
            tool.insert("strict".to_owned(), parts.strict.into());
            flag(&mut tool, "defer_loading", parts.deferred);
            tool.into()
        }
        Provider::OpenAiChat | Provider::Mistral | Provider::Ollama => {
            head.insert("parameters".to_owned(), schema);
            flag(&mut head, "strict", parts.strict);
            object([("type", "function".into()), ("function", head.into())])
        }
        Provider::Gemini => {
            if schema.as_object().is_some_and(|schema| !schema.is_empty()) {
                head.insert("parameters".to_owned(), schema);
            }
            head.into()
        }
        Provider::Bedrock => {
            head.insert("inputSchema".to_owned(), object([("json", schema)]));
            object([("toolSpec", head.into())])
        }
    }
}

/// Returns an object. `json!` would copy the members.
fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Returns the value of the member of the request, or `null` without tools.
pub(crate) fn list(provider: Provider, mut tools: Vec<Value>, deferred: bool, cached: bool) -> Value {
    if tools.is_empty() {
        return Value::Null;
    }
    match provider {
        Provider::Anthropic => {
            let plain = tools.iter_mut().rev().find(|tool| tool.get("defer_loading").is_none());
            if let (true, Some(Value::Object(last))) = (cached, plain) {
                last.insert("cache_control".to_owned(), json!({ "type": "ephemeral" }));
            }
            if deferred {
                let search = json!({ "type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25" });
                tools.insert(0, search);
            }
            tools.into()
        }
        Provider::OpenAiResponses => {
            if deferred {
                tools.insert(0, json!({ "type": "tool_search" }));
            }
            tools.into()
        }
        Provider::OpenAiChat | Provider::Mistral | Provider::Ollama => tools.into(),
        Provider::Gemini => Value::Array(vec![object([("functionDeclarations", tools.into())])]),
        Provider::Bedrock => {
            if cached {
                tools.push(json!({ "cachePoint": { "type": "default" } }));
            }
            object([("tools", tools.into())])
        }
    }
}

/// Returns the definitions of a list that have a name and a schema: name, description, schema, definition.
pub(crate) fn parts(provider: Provider, list: &Value) -> Vec<(&str, Option<&Value>, Option<&Value>, &Value)> {
    let tools = match provider {
        Provider::Gemini => &list[0]["functionDeclarations"],
        Provider::Bedrock => &list["tools"],
        _ => list,
    };
    let tools = tools.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_function = |tool: &&Value| match provider {
        Provider::Anthropic => tool.get("input_schema").is_some(),
        Provider::OpenAiResponses => tool.get("type").is_some_and(|kind| kind == "function"),
        Provider::Bedrock => tool.get("toolSpec").is_some(),
        _ => true,
    };
    tools
        .iter()
        .filter(is_function)
        .map(|tool| {
            let body = match provider {
                Provider::OpenAiChat | Provider::Mistral | Provider::Ollama => &tool["function"],
                Provider::Bedrock => &tool["toolSpec"],
                _ => tool,
            };
            let schema = match provider {
                Provider::Anthropic => body.get("input_schema"),
                Provider::Bedrock => body.pointer("/inputSchema/json"),
                _ => body.get("parameters"),
            };
            (body["name"].as_str().unwrap_or_default(), body.get("description"), schema, body)
        })
        .collect()
}
