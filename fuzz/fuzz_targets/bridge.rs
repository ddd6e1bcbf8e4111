//! Renders any JSON object as the input schema of tools with any names, and parses it as a call of a model and as its arguments. Writes
//! any results and calls of a stored history for each provider.
//!
//! The input has JSON values: the schema, an array of names, a result, and the response of a model. No provider refuses a rendered
//! definition, and each name returns to its tool. The calls and results of a history have the same ids, which are unique. Texts keep
//! their limit, and each text beyond it has its URI in the message.

#![no_main]

use std::collections::HashSet;

use fuzz::fuzz_target;
use mcp_protocol::{CallToolResult, GetPromptResult, JsonObject, ReadResourceResult, Tool};
use mcp_tool_format::{Call, ContentOptions, Messages, Options, Provider, Rendered, Rules, call_id, render};
use serde_json::{Value, json};

/// The limit of the text of a result.
const TEXT: usize = 1_000;
/// The most that names, ids, types and notes add to the text of a result.
const FRAME: usize = 1_500;

/// Returns the ids of calls or of results in messages, in their order.
fn ids(messages: &[Value], pointers: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for message in messages {
        let blocks = ["content", "tool_calls"].iter().filter_map(|name| message[*name].as_array()).flatten();
        for block in std::iter::once(message).chain(blocks) {
            let id = pointers.iter().find_map(|pointer| block.pointer(pointer)?.as_str());
            ids.extend(id.map(str::to_owned));
        }
    }
    ids
}

/// The number of bytes of all texts of a value.
fn texts(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(texts).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| name.len() + texts(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
    }
}

fn check_rest(messages: &Messages) {
    let shown = Value::from(messages.messages.clone()).to_string();
    for rest in &messages.rest {
        assert!(shown.contains(&rest.uri) && !rest.text.is_empty(), "{}", rest.uri);
    }
}

fn check_history(provider: Provider, rendered: &Rendered, calls: &[Call], result: &CallToolResult) {
    let messages = rendered.call_messages(calls);
    let asked = ids(&messages, &["/id", "/call_id", "/toolUse/toolUseId"]);
    for options in [
        ContentOptions::new(),
        ContentOptions::new().max_text(TEXT).without_media(),
        ContentOptions::new().media_in_results().always_structured(),
    ] {
        let written = rendered.result_messages(calls.iter().map(|call| (call, result)), &options);
        let pointers = ["/tool_use_id", "/tool_call_id", "/call_id", "/toolResult/toolUseId"];
        let answered = ids(&written.messages, &pointers);
        assert_eq!(answered, asked, "{provider}");
        let unique: HashSet<&String> = asked.iter().collect();
        assert_eq!(unique.len(), asked.len(), "{provider}");
        check_rest(&written);
    }
    let short = ContentOptions::new().max_text(TEXT).without_media();
    let written = rendered.result_messages(calls.iter().map(|call| (call, result)), &short);
    let size = texts(&Value::from(written.messages));
    assert!(size <= calls.len() * (TEXT + FRAME) + FRAME, "{provider}: {size}");
}

fuzz_target!(|data: &[u8]| {
    let mut values = serde_json::Deserializer::from_slice(data).into_iter::<Value>().map_while(Result::ok);
    let [value, names, result, response]: [Value; 4] = std::array::from_fn(|_| values.next().unwrap_or_default());
    let Some(schema) = JsonObject::from_value(value.clone()) else { return };
    let mut known = HashSet::from(["t"]);
    let mut names: Vec<&str> = names.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    names.retain(|name| known.insert(name));
    names.insert(0, "t");
    let tool = Tool::new("t", schema.clone());
    let tool_result: Option<CallToolResult> = serde_json::from_value(result.clone()).ok();
    let prompt: Option<GetPromptResult> = serde_json::from_value(result.clone()).ok();
    let resource: Option<ReadResourceResult> = serde_json::from_value(result).ok();
    for provider in Provider::ALL {
        for options in [Options::new(provider).strict(), Options::new(provider).not_strict()] {
            let rendered = render(names.iter().map(|name| (*name, &tool)), &options);
            assert_eq!(Rules::of(provider).check(&rendered.value), [], "{provider}");
            for (name, provider_name) in rendered.names() {
                assert_eq!(rendered.tool_name(provider_name), Some(name), "{provider}");
                for call in [&value, &json!({ "name": provider_name, "input": value })] {
                    if let Ok(call) = Call::parse(&rendered, call) {
                        assert_eq!(rendered.tool_name(rendered.provider_name(&call.name).unwrap()), Some(&*call.name));
                    }
                }
            }
            let parsed = Call::parse_all(&rendered, &response).into_iter().take(8);
            let mut calls: Vec<Call> = parsed.map(|call| call.unwrap_or_else(|error| *error.call)).collect();
            calls.extend(names.iter().take(3).map(|name| Call::new(*name, *name, schema.clone())));
            for call in &calls {
                assert!((1..=64).contains(&call_id(provider, call).len()), "{provider}");
            }
            if let Some(result) = &tool_result {
                check_history(provider, &rendered, &calls, result);
            }
        }
        for options in [ContentOptions::new(), ContentOptions::new().max_text(TEXT)] {
            if let Some(prompt) = &prompt {
                let written = Messages::from_prompt(provider, prompt, &options);
                let has_turns = |pair: &[Value]| pair[0]["role"] != pair[1]["role"];
                assert!(written.messages.windows(2).all(has_turns), "{provider}: {:?}", written.messages);
                check_rest(&written);
            }
            if let Some(resource) = &resource {
                check_rest(&Messages::from_resource(provider, resource, &options));
            }
        }
    }
});
