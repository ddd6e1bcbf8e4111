//! Calls of models in every shape, and calls of a stored history.

mod common;

use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::{Call, CallErrorKind, Options, Provider, Rendered, Rules, call_id, render, safe_name};
use serde_json::{Value, json};

use self::common::tool;

fn search() -> Tool {
    tool(
        "search",
        json!({
            "type": "object",
            "properties": {
                "q": {"type": "string"},
                "page.size": {"type": "integer"},
                "filter[a]": {"type": "object", "properties": {"in:list": {"type": "array", "items": {
                    "type": "object", "properties": {"$x": {"type": "string"}, "note": {"type": ["string", "null"]}}
                }}}},
                "after": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            },
            "required": ["q"],
        }),
    )
}

fn rendered(provider: Provider) -> Rendered {
    render([("docs.search", &search())], &Options::new(provider))
}

/// Returns a call in the shape of a provider.
fn block(provider: Provider, name: &str, arguments: &Value) -> Value {
    match provider {
        Provider::Anthropic => json!({"type": "tool_use", "id": "id_1", "name": name, "input": arguments}),
        Provider::OpenAiResponses => {
            json!({"type": "function_call", "id": "fc_1", "call_id": "id_1", "name": name, "arguments": arguments.to_string()})
        }
        Provider::Gemini => {
            json!({"functionCall": {"id": "id_1", "name": name, "args": arguments}, "thoughtSignature": "s"})
        }
        Provider::Bedrock => json!({"toolUse": {"toolUseId": "id_1", "name": name, "input": arguments}}),
        Provider::Ollama => json!({"id": "id_1", "function": {"name": name, "arguments": arguments}}),
        _ => json!({"id": "id_1", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}),
    }
}

#[test]
fn calls_of_every_provider_return_the_names_and_keys_of_the_server() {
    let original = JsonObject::from_value(json!({
        "q": "x", "page.size": 3, "filter[a]": {"in:list": [{"$x": "1", "note": null}]}, "after": null,
    }));
    let original = original.unwrap();
    for provider in Provider::ALL {
        let rendered = rendered(provider);
        let name = rendered.provider_name("docs.search").unwrap().to_owned();
        let sent = rendered.provider_arguments("docs.search", original.clone());
        let call = Call::parse(&rendered, &block(provider, &name, &sent.into())).unwrap();
        assert_eq!(call.name, "docs.search", "{provider}");
        assert_eq!(call.id.as_deref(), Some("id_1"), "{provider}");
        assert_eq!(call.arguments, original, "{provider}");
        assert_eq!(call.signature.is_some(), provider == Provider::Gemini);

        // The history contains the same call in the same form.
        let again = Call::parse(&rendered, &rendered.call_block(&call)).unwrap();
        assert_eq!(again.arguments, original, "{provider}");
        assert_eq!(again.name, call.name);
        assert_eq!(again.signature, call.signature);
    }
}

#[test]
fn keys_that_users_reported_are_accepted_and_come_back() {
    // Anthropic rejected each of these keys in a tool of a real server: ibm-cloud-cli-release#226, scaleway-cli#5582,
    // unusual-whales-mcp#57, mcp-server-asana#16, freee-mcp#15, twilio mcp#42.
    let keys = [
        "(INSTANCE1 INSTANCE2 ...)",
        "tags.{index}",
        "rule_name[]",
        "projects.any",
        "会社ID",
        "StatusCallbackEventParametersThatHaveANameOfMoreThanSixtyFourCharacters",
        "$filter",
        "",
    ];
    let properties: serde_json::Map<String, Value> =
        keys.iter().map(|key| ((*key).to_owned(), json!({"type": "string"}))).collect();
    let schema = json!({"type": "object", "properties": properties, "required": keys});
    let list = [("t", &tool("t", schema))];
    let original: JsonObject =
        keys.iter().map(|key| ((*key).to_owned(), json!(key))).collect::<serde_json::Map<_, _>>().into();
    for provider in Provider::ALL {
        let rendered = render(list, &Options::new(provider));
        assert_eq!(Rules::of(provider).check(&rendered.value), [], "{provider}");
        let sent = rendered.provider_arguments("t", original.clone());
        let call = Call::parse(&rendered, &block(provider, "t", &sent.clone().into())).unwrap();
        assert_eq!(call.arguments, original, "{provider}");
        let Some(rule) = Rules::of(provider).key else { continue };
        assert!(sent.keys().all(|key| rule.accepts(key)), "{provider} {sent:?}");
        // A key that the provider accepts keeps its name.
        assert_eq!(sent.contains_key("projects.any"), provider != Provider::Gemini, "{provider}");
    }
}

#[test]
fn arguments_are_an_object_text_or_absent() {
    let rendered = rendered(Provider::OpenAiChat);
    let name = rendered.provider_name("docs.search").unwrap();
    let empty = JsonObject::new();
    let one = JsonObject::new().with("q", "x");
    for (arguments, expected) in [
        (json!({"q": "x"}), Ok(&one)),
        (json!(r#"{"q":"x"}"#), Ok(&one)),
        (json!(r#" {"q": "x"} "#), Ok(&one)),
        (json!(r#""{\"q\":\"x\"}""#), Ok(&one)),
        (json!(""), Ok(&empty)),
        (json!("  "), Ok(&empty)),
        (json!("null"), Ok(&empty)),
        (json!("[]"), Ok(&empty)),
        (json!(null), Ok(&empty)),
        (json!({}), Ok(&empty)),
        (json!(r#"{"q":"#), Err("the arguments are not valid JSON")),
        (json!("{'q': 1}"), Err("the arguments are not valid JSON")),
        (json!("[1]"), Err("the arguments are [1] instead of a JSON object")),
        (json!("7"), Err("the arguments are 7 instead of a JSON object")),
        (json!(true), Err("the arguments are true instead of a JSON object")),
        (json!(r#""text""#), Err("the arguments are a JSON text")),
    ] {
        let block = json!({"id": "a", "function": {"name": name, "arguments": arguments}});
        match (Call::parse(&rendered, &block), expected) {
            (Ok(call), Ok(expected)) => assert_eq!(&call.arguments, expected, "{arguments}"),
            (Err(error), Err(expected)) => {
                assert_eq!(error.kind, CallErrorKind::Arguments);
                assert_eq!(error.call.id.as_deref(), Some("a"));
                assert_eq!(error.call.name, "docs.search");
                // The faulty call is a part of the history, under the same name.
                assert_eq!(rendered.call_block(&error.call)["function"]["name"], name);
                assert!(error.to_string().starts_with(expected), "{error}");
                let result = error.result();
                assert!(result.is_error && result.content[0].as_text().is_some_and(|text| text.starts_with(expected)));
            }
            (found, _) => panic!("{arguments}: {found:?}"),
        }
    }
    let absent = json!({"function": {"name": name}});
    assert_eq!(Call::parse(&rendered, &absent).unwrap().arguments, empty);
}

#[test]
fn bare_shapes_of_other_libraries_are_accepted() {
    let rendered = render([("add", &search())], &Options::new(Provider::Anthropic));
    for block in [
        json!({"name": "add", "input": {"q": "x"}}),
        json!({"toolName": "add", "input": {"q": "x"}}),
        json!({"name": "add", "arguments": "{\"q\":\"x\"}"}),
        json!({"function": {"name": "add", "arguments": {"q": "x"}}}),
    ] {
        let call = Call::parse(&rendered, &block).unwrap();
        assert_eq!((call.name.as_str(), &call.arguments["q"]), ("add", &json!("x")), "{block}");
    }
}

#[test]
fn faulty_calls_are_errors_that_name_the_fault() {
    let rendered = rendered(Provider::Gemini);
    for (block, kind, text) in [
        (json!({}), CallErrorKind::NotACall, "the block has no name of a tool"),
        (json!([1]), CallErrorKind::NotACall, "the block has no name of a tool"),
        (json!({"name": 1}), CallErrorKind::NotACall, "the block has no name of a tool"),
        (json!({"functionCall": {"name": "gone"}}), CallErrorKind::UnknownTool, "the tool gone does not exist"),
    ] {
        let error = Call::parse(&rendered, &block).unwrap_err();
        assert_eq!((error.kind, error.to_string().as_str()), (kind, text));
    }
}

#[test]
fn null_is_removed_only_if_the_schema_refuses_it() {
    let schema = json!({
        "type": "object",
        "properties": {
            "required": {"type": "string"}, "optional": {"type": "string"}, "nullable": {"type": ["string", "null"]},
            "any": {}, "union": {"oneOf": [{"type": "integer"}, {"type": "object", "properties": {"x": {"type": "string"}}}]},
            "list": {"type": "array", "items": {"type": "object", "properties": {"y": {"type": "integer"}}}},
            "record": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["required"],
    });
    let rendered = render([("t", &tool("t", schema))], &Options::new(Provider::OpenAiResponses));
    let arguments = json!({
        "required": null, "optional": null, "nullable": null, "any": null, "union": {"x": null},
        "list": [{"y": null}, {"y": 1}], "record": {"k": null}, "unknown": null,
    });
    let restored = rendered.restore_arguments("t", JsonObject::from_value(arguments).unwrap());
    let expected = json!({
        "required": null, "nullable": null, "any": null, "union": {}, "list": [{}, {"y": 1}],
        "record": {"k": null}, "unknown": null,
    });
    assert_eq!(Value::from(restored), expected);
}

#[test]
fn responses_are_searched_for_calls() {
    for (provider, wrap) in [
        (Provider::Anthropic, json!({"content": [{"type": "text", "text": "a"}, "CALL"]})),
        (Provider::OpenAiChat, json!({"choices": [{"message": {"tool_calls": ["CALL"]}}]})),
        (Provider::Mistral, json!({"role": "assistant", "tool_calls": ["CALL"]})),
        (Provider::Ollama, json!({"message": {"tool_calls": ["CALL"]}})),
        (Provider::OpenAiResponses, json!({"output": [{"type": "message"}, "CALL"]})),
        (Provider::Gemini, json!({"candidates": [{"content": {"parts": [{"text": "a"}, "CALL"]}}]})),
        (Provider::Bedrock, json!({"output": {"message": {"content": [{"text": "a"}, "CALL"]}}})),
    ] {
        let rendered = rendered(provider);
        let name = rendered.provider_name("docs.search").unwrap();
        let call = block(provider, name, &json!({"q": "x"})).to_string();
        let response = serde_json::from_str(&wrap.to_string().replace("\"CALL\"", &call)).unwrap();
        let calls = Call::parse_all(&rendered, &response);
        assert_eq!(calls.len(), 1, "{provider}");
        assert_eq!(calls[0].as_ref().unwrap().name, "docs.search");
        assert!(Call::parse_all(&rendered, &json!({"error": {}})).is_empty());
    }
}

#[test]
fn history_has_names_and_ids_that_the_provider_accepts() {
    let call = Call::new(
        "toolu_01/:bad id that is longer than sixty-four characters in total, really",
        "a.b/c d",
        JsonObject::new(),
    );
    for provider in Provider::ALL {
        // The tool is not part of the request any more.
        let messages = render([], &Options::new(provider)).call_messages(std::slice::from_ref(&call));
        let text = messages[0].to_string();
        assert!(text.contains(&safe_name("a.b/c d")), "{provider}: {text}");
        let id = call_id(provider, &call);
        let accepted = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        assert!(id.len() <= 64 && id.bytes().all(accepted), "{provider}: {id}");
        assert_eq!(id, call_id(provider, &call));
        assert_eq!(id.len() == 9, provider == Provider::Mistral);
    }
    for (id, kept) in [("abcDEF123", true), ("abcDEF12", false), ("abc_EF123", false)] {
        assert_eq!(call_id(Provider::Mistral, &Call::new(id, "t", JsonObject::new())) == id, kept);
    }
    let mut unnamed = call;
    unnamed.id = None;
    let mut other = unnamed.clone();
    other.arguments = JsonObject::new().with("a", 1);
    assert_ne!(call_id(Provider::Mistral, &unnamed), call_id(Provider::Mistral, &other));
}

#[test]
fn equal_calls_of_a_turn_have_distinct_ids() {
    for provider in [Provider::Anthropic, Provider::OpenAiChat, Provider::Mistral, Provider::Bedrock] {
        let rendered = rendered(provider);
        let name = rendered.provider_name("docs.search").unwrap();
        let mut call = Call::parse(&rendered, &block(provider, name, &json!({"q": "x"}))).unwrap();
        call.id = None;
        let text = rendered.call_messages(&[call.clone(), call.clone(), call.clone()])[0].to_string();
        let found: std::collections::HashSet<&str> = text
            .split('"')
            .collect::<Vec<_>>()
            .windows(3)
            .filter(|part| matches!(part[0], "id" | "toolUseId"))
            .map(|part| part[2])
            .collect();
        assert_eq!(found.len(), 3, "{provider}: {text}");
    }
}

#[test]
fn only_an_id_of_gemini_is_replayed_to_gemini() {
    let gemini = rendered(Provider::Gemini);
    let name = gemini.provider_name("docs.search").unwrap();
    let own = Call::parse(&gemini, &block(Provider::Gemini, name, &json!({}))).unwrap();
    assert_eq!(gemini.call_block(&own)["functionCall"]["id"], "id_1");
    let anthropic = rendered(Provider::Anthropic);
    let foreign = Call::parse(&anthropic, &block(Provider::Anthropic, name, &json!({}))).unwrap();
    assert_eq!(gemini.call_block(&foreign)["functionCall"].get("id"), None);
}

#[test]
fn a_qualified_name_is_the_name_in_the_request() {
    let name = mcp_tool_format::qualified_name("files.local", "read file");
    for provider in Provider::ALL {
        let rendered = render([(name.as_str(), &search())], &Options::new(provider));
        assert_eq!(rendered.provider_name(&name), Some(name.as_str()));
    }
}
