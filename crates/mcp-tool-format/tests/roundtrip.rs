//! Arguments that a server accepts: the rendered schema accepts them too, and they come back from a call unchanged.

#![expect(clippy::unwrap_used, reason = "tests")]

mod common;

use mcp_protocol::{JsonObject, Tool};
use mcp_tool_format::{Call, Options, Provider, render};
use serde_json::{Map, Value, json};

use self::common::{hostile, recorded};

/// Returns arguments for a schema: a guess that the caller compares with the schema.
fn guess(root: &Value, schema: &Value, all: bool, depth: usize) -> Value {
    let Some(members) = schema.as_object().filter(|_| depth < 12) else { return json!("x") };
    if let Some(Value::String(reference)) = members.get("$ref") {
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        return target.map_or(json!("x"), |target| guess(root, target, all, depth + 1));
    }
    if let Some(value) = members.get("const").or_else(|| members.get("enum")?.get(0)) {
        return value.clone();
    }
    for keyword in ["anyOf", "oneOf", "allOf"] {
        if let Some(branch) = members.get(keyword).and_then(|branches| branches.get(0))
            && !members.contains_key("properties")
        {
            return guess(root, branch, all, depth + 1);
        }
    }
    let kind = match members.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        Some(kind) => kind.as_str(),
        None if members.contains_key("properties") => Some("object"),
        None => None,
    };
    let number = |keyword: &str| members.get(keyword).and_then(Value::as_u64);
    match kind {
        Some("object") => {
            let required = members.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
            let properties = members.get("properties").and_then(Value::as_object);
            let wanted = |key: &String| all || required.contains(&key.as_str().into());
            let pairs = properties.into_iter().flatten().filter(|(key, _)| wanted(key));
            pairs.map(|(key, schema)| (key.clone(), guess(root, schema, all, depth + 1))).collect::<Map<_, _>>().into()
        }
        Some("array") => {
            let items = members.get("items").cloned().unwrap_or_default();
            let count = number("minItems").unwrap_or(1).min(5);
            (0..count).map(|_| guess(root, &items, all, depth + 1)).collect()
        }
        Some("integer" | "number") => json!(number("minimum").unwrap_or(1)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        _ => json!("x".repeat(number("minLength").unwrap_or(1).min(100) as usize)),
    }
}

/// Compares one tool. Returns whether there was a guess that the server accepts.
fn compare(name: &str, tool: &Tool) -> bool {
    let schema = serde_json::to_value(&tool.input_schema).unwrap();
    let Ok(server) = jsonschema::validator_for(&schema) else { return false };
    let mut compared = false;
    for all in [true, false] {
        let arguments = guess(&schema, &schema, all, 0);
        let Value::Object(members) = arguments.clone() else { continue };
        if !server.is_valid(&arguments) {
            continue;
        }
        compared = true;
        let original = JsonObject::from(members);
        for provider in Provider::ALL {
            let rendered = render([(name, tool)], &Options::new(provider).not_strict());
            let Some(provider_name) = rendered.provider_name(name) else { continue };
            let sent = Value::from(rendered.provider_arguments(name, original.clone()));
            let call = Call::parse(&rendered, &json!({"name": provider_name, "arguments": sent.to_string()})).unwrap();
            assert_eq!(call.arguments, original, "{provider} {name}");
            // `nullable` of Gemini is not a keyword of JSON Schema.
            if provider == Provider::Gemini {
                continue;
            }
            let tools = rendered.tools();
            let written =
                ["/0/input_schema", "/0/parameters", "/0/function/parameters", "/0/toolSpec/inputSchema/json"]
                    .iter()
                    .find_map(|pointer| tools.pointer(pointer))
                    .unwrap();
            let provider_schema = jsonschema::validator_for(written).unwrap();
            let error =
                provider_schema.iter_errors(&sent).next().map(|error| format!("{}: {error}", error.instance_path()));
            assert_eq!(error, None, "{provider} {name}: the model cannot write {sent}\n{schema}\n{written}");
        }
    }
    compared
}

#[test]
fn arguments_of_recorded_tools_are_accepted_and_come_back() {
    let (mut compared, mut total) = (0, 0);
    for (server, tools) in recorded() {
        for tool in tools {
            total += 1;
            compared += usize::from(compare(&format!("{server}.{}", tool.name), &tool));
        }
    }
    println!("{compared} of {total} recorded tools compared");
    assert!(compared * 10 >= total * 9, "{compared} of {total}");
}

#[test]
fn arguments_of_hostile_schemas_are_accepted_and_come_back() {
    let compared = (0..300).filter(|seed| compare("t", &Tool::new("t", hostile::schema(*seed)))).count();
    println!("{compared} of 300 hostile schemas compared");
    // Most of these schemas are not valid, or accept none of the guesses.
    assert!(compared >= 5, "{compared}");
}
