//! The rules of the providers once more, as meta-schemas and plain code that share nothing with the crate.

use std::collections::{BTreeMap, HashSet};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

const TYPES: &[&str] = &["string", "number", "integer", "boolean", "object", "array", "null"];
/// Formats of the guide to structured outputs of OpenAI.
const OPENAI_FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

/// The checks of the tools of one provider.
pub(crate) struct Oracle {
    provider: &'static str,
    request: Validator,
    strict: Option<Validator>,
}

impl Oracle {
    pub(crate) fn new(provider: &'static str) -> Self {
        let build = |schema: Value| jsonschema::draft202012::new(&schema).unwrap();
        let strict = match provider {
            "openai-chat" | "openai-responses" => Some(build(openai_strict())),
            "anthropic" => Some(build(anthropic_strict())),
            _ => None,
        };
        Self { provider, request: build(request(provider)), strict }
    }

    /// Returns the rules that a value of the member `tools` (Bedrock: `toolConfig`) breaks.
    pub(crate) fn violations(&self, tools: &Value) -> Vec<String> {
        let mut out = Vec::new();
        if tools.is_null() {
            return out;
        }
        out.extend(self.request.iter_errors(tools).take(5).map(|error| format!("{}: {error}", error.instance_path())));
        let mut names = HashSet::new();
        let (mut strict_tools, mut optional, mut unions) = (0, 0, 0);
        for (name, schema, strict) in self.definitions(tools) {
            if !names.insert(name.clone()) {
                out.push(format!("two tools have the name {name}"));
            }
            let Some(schema) = schema else { continue };
            let mut counts = Counts::default();
            walk(&schema, 1, &mut counts, &mut out);
            if self.provider != "gemini" && !jsonschema::meta::is_valid(&schema) {
                out.push(format!("{name}: not a JSON Schema"));
            }
            if strict {
                let validator = self.strict.as_ref().expect("this provider has no strict tools");
                out.extend(
                    validator
                        .iter_errors(&schema)
                        .take(5)
                        .map(|error| format!("{name}{}: {error}", error.instance_path())),
                );
                let limits =
                    counts.depth > 10 || counts.properties > 5_000 || counts.values > 1_000 || counts.text > 120_000;
                if limits && self.provider != "anthropic" {
                    out.push(format!("{name}: beyond the limits of strict"));
                }
                if self.provider != "anthropic" && counts.optional > 0 {
                    out.push(format!("{name}: a property is not required"));
                }
                strict_tools += 1;
                optional += counts.optional;
                unions += counts.unions;
            }
        }
        if self.provider == "anthropic" && (strict_tools > 20 || optional > 24 || unions > 16) {
            out.push(format!("{strict_tools} strict tools, {optional} optional properties, {unions} unions"));
        }
        out
    }

    /// Returns the name, the schema and `strict` of each definition.
    fn definitions(&self, tools: &Value) -> Vec<(String, Option<Value>, bool)> {
        let list = match self.provider {
            "gemini" => tools[0]["functionDeclarations"].as_array(),
            "bedrock" => tools["tools"].as_array(),
            _ => tools.as_array(),
        };
        let mut out = Vec::new();
        for tool in list.into_iter().flatten() {
            let (body, at) = match self.provider {
                "anthropic" => (tool, "/input_schema"),
                "openai-responses" | "gemini" => (tool, "/parameters"),
                "bedrock" => (&tool["toolSpec"], "/inputSchema/json"),
                _ => (&tool["function"], "/parameters"),
            };
            if let Some(name) = body["name"].as_str() {
                out.push((name.to_owned(), body.pointer(at).cloned(), body["strict"] == true));
            }
        }
        out
    }
}

#[derive(Default)]
struct Counts {
    depth: usize,
    properties: usize,
    values: usize,
    text: usize,
    optional: usize,
    unions: usize,
}

/// Checks what a meta-schema cannot express: `required` within `properties`, values of the type, patterns.
fn walk(schema: &Value, depth: usize, counts: &mut Counts, out: &mut Vec<String>) {
    let Some(members) = schema.as_object() else { return };
    let mut inner = 0;
    if let Some(Value::Object(properties)) = members.get("properties") {
        let required: Vec<&str> =
            members.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        counts.properties += properties.len();
        counts.optional += properties.keys().filter(|key| !required.contains(&key.as_str())).count();
        for (key, schema) in properties {
            counts.text += key.chars().count();
            walk(schema, depth + 1, counts, out);
        }
        inner = 1;
    }
    for name in members.get("required").and_then(Value::as_array).into_iter().flatten() {
        let known = members.get("properties").and_then(|all| all.get(name.as_str().unwrap_or_default()));
        if known.is_none() {
            out.push(format!("`required` names {name}, which is not defined"));
        }
    }
    if let Some(values) = members.get("enum").and_then(Value::as_array) {
        counts.values += values.len();
        counts.text += values.iter().filter_map(Value::as_str).map(|text| text.chars().count()).sum::<usize>();
        let wanted: Vec<&str> = match members.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => TYPES.to_vec(),
        };
        for value in values {
            let fits = wanted.iter().any(|name| match *name {
                "string" => value.is_string(),
                "number" => value.is_number(),
                "integer" => value.is_i64() || value.is_u64(),
                "boolean" => value.is_boolean(),
                "object" => value.is_object(),
                "array" => value.is_array(),
                _ => value.is_null(),
            });
            if !fits {
                out.push(format!("the value {value} does not have the type"));
            }
        }
    }
    for branch in members.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
        walk(branch, depth, counts, out);
    }
    counts.unions += usize::from(members.contains_key("anyOf"));
    for keyword in ["items", "additionalProperties"] {
        if let Some(schema) = members.get(keyword).filter(|schema| schema.is_object()) {
            walk(schema, depth + 1, counts, out);
            inner = 1;
        }
    }
    if inner > 0 {
        counts.depth = counts.depth.max(depth);
    }
}

/// Returns the meta-schema of one schema node with these keywords.
fn node(keywords: &[&str], own: &BTreeMap<&str, Value>, all_of: &Value) -> Value {
    let reference = json!({"$ref": "#/$defs/node"});
    let count = json!({"type": "integer", "minimum": 0});
    let number = json!({"type": "number"});
    let text = json!({"type": "string"});
    let mut properties: Map<String, Value> = Map::new();
    for keyword in keywords {
        let value = own.get(keyword).cloned().unwrap_or_else(|| match *keyword {
            "type" => json!({"enum": TYPES}),
            "title" | "description" | "pattern" | "format" => text.clone(),
            "properties" => json!({"type": "object", "additionalProperties": reference}),
            "items" => reference.clone(),
            "anyOf" => json!({"type": "array", "minItems": 1, "items": reference}),
            "additionalProperties" => json!({"anyOf": [{"type": "boolean"}, reference]}),
            "required" => json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}}),
            "enum" => json!({"type": "array", "minItems": 1}),
            "minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties" | "maxProperties" => count.clone(),
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => number.clone(),
            "nullable" | "uniqueItems" => json!({"type": "boolean"}),
            _ => json!(true),
        });
        properties.insert((*keyword).to_owned(), value);
    }
    json!({"type": "object", "properties": properties, "additionalProperties": false, "allOf": all_of})
}

const LOOSE: &[&str] = &[
    "type",
    "title",
    "description",
    "enum",
    "default",
    "examples",
    "anyOf",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// A pattern without lookaround, back references, Unicode classes, named groups, unknown escapes and large repetitions.
fn linear() -> Value {
    json!({"type": "string", "not": {"pattern": r"\(\?[^:]|\\[pPuUkzZA]|\\[1-9]|\[[^\]]*\\[dws]-[^\]]|\{[0-9]*,?[0-9]{4,}|^\*"}})
}

fn array_has_items() -> Value {
    json!({
        "if": {"required": ["type"], "properties": {"type": {"anyOf": [{"const": "array"}, {"contains": {"const": "array"}, "type": "array"}]}}},
        "then": {"required": ["items"]},
    })
}

fn keys(pattern: &str) -> Value {
    json!({"type": "object", "propertyNames": {"pattern": pattern}, "additionalProperties": {"$ref": "#/$defs/node"}})
}

/// The root: an object without a union, and with `properties`.
fn root(extra: &Value) -> Value {
    json!({"allOf": [
        {"$ref": "#/$defs/node"},
        {"properties": {"type": {"const": "object"}, "anyOf": false, "enum": false}, "required": ["type"]},
        extra,
    ]})
}

/// Returns the meta-schema of the value of `tools` without `strict`.
fn request(provider: &str) -> Value {
    let name = json!({"type": "string", "pattern": "^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$"});
    let description = json!({"type": "string", "pattern": r"\S"});
    let types = json!({"anyOf": [{"enum": TYPES}, {"type": "array", "items": {"enum": TYPES}, "minItems": 2, "uniqueItems": true}]});
    let anthropic_keys = keys("^[a-zA-Z0-9_.-]{1,64}$");
    let with_properties = root(&json!({"required": ["properties"]}));
    let (tools, node, root) = match provider {
        "anthropic" => (
            json!({"type": "array", "minItems": 1, "items": {"anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "name": name, "description": description, "input_schema": {"$ref": "#/$defs/root"},
                        "strict": {"const": true}, "defer_loading": {"const": true}, "cache_control": {"const": {"type": "ephemeral"}},
                    },
                    "required": ["name", "input_schema"], "additionalProperties": false,
                    "not": {"required": ["defer_loading", "cache_control"]},
                },
                {"const": {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}},
            ]}}),
            node(LOOSE, &[("type", types), ("properties", anthropic_keys)].into(), &json!([true])),
            root(&json!({})),
        ),
        "openai-chat" => (
            json!({"type": "array", "minItems": 1, "maxItems": 128, "items": {
                "type": "object",
                "properties": {"type": {"const": "function"}, "function": {
                    "type": "object",
                    "properties": {
                        "name": name, "description": {"type": "string", "pattern": r"\S", "maxLength": 1024},
                        "parameters": {"$ref": "#/$defs/root"}, "strict": {"const": true},
                    },
                    "required": ["name", "parameters"], "additionalProperties": false,
                }},
                "required": ["type", "function"], "additionalProperties": false,
            }}),
            openai(types),
            with_properties,
        ),
        "openai-responses" => (
            json!({"type": "array", "minItems": 1, "maxItems": 128, "items": {"anyOf": [
                {
                    "type": "object",
                    "properties": {
                        "type": {"const": "function"}, "name": name,
                        "description": {"type": "string", "pattern": r"\S", "maxLength": 1024},
                        "parameters": {"$ref": "#/$defs/root"}, "strict": {"type": "boolean"}, "defer_loading": {"const": true},
                    },
                    "required": ["type", "name", "parameters", "strict"], "additionalProperties": false,
                },
                {"const": {"type": "tool_search"}},
            ]}}),
            openai(types),
            with_properties,
        ),
        "gemini" => (
            json!({"type": "array", "minItems": 1, "maxItems": 1, "items": {
                "type": "object",
                "properties": {"functionDeclarations": {"type": "array", "minItems": 1, "maxItems": 512, "items": {
                    "type": "object",
                    "properties": {"name": name, "description": description, "parameters": {"$ref": "#/$defs/root"}},
                    "required": ["name"], "additionalProperties": false,
                }}},
                "required": ["functionDeclarations"], "additionalProperties": false,
            }}),
            gemini(),
            with_properties,
        ),
        "bedrock" => (
            json!({
                "type": "object",
                "properties": {"tools": {"type": "array", "minItems": 1, "maxItems": 129, "items": {"anyOf": [
                    {
                        "type": "object",
                        "properties": {"toolSpec": {
                            "type": "object",
                            "properties": {
                                "name": name, "description": description,
                                "inputSchema": {
                                    "type": "object", "properties": {"json": {"$ref": "#/$defs/root"}},
                                    "required": ["json"], "additionalProperties": false,
                                },
                            },
                            "required": ["name", "inputSchema"], "additionalProperties": false,
                        }},
                        "required": ["toolSpec"], "additionalProperties": false,
                    },
                    {"const": {"cachePoint": {"type": "default"}}},
                ]}}},
                "required": ["tools"], "additionalProperties": false,
            }),
            plain(anthropic_keys),
            with_properties,
        ),
        _ => (
            json!({"type": "array", "minItems": 1, "maxItems": 128, "items": {
                "type": "object",
                "properties": {"type": {"const": "function"}, "function": {
                    "type": "object",
                    "properties": {"name": name, "description": description, "parameters": {"$ref": "#/$defs/root"}},
                    "required": ["name", "parameters"], "additionalProperties": false,
                }},
                "required": ["type", "function"], "additionalProperties": false,
            }}),
            plain(anthropic_keys),
            with_properties,
        ),
    };
    let mut schema = tools;
    schema["$defs"] = json!({"node": node, "root": root});
    schema
}

fn openai(types: Value) -> Value {
    let own = [("type", types), ("pattern", linear()), ("format", json!({"enum": OPENAI_FORMATS}))];
    node(LOOSE, &own.into(), &json!([array_has_items()]))
}

/// Providers of several models: one type for each schema, the keys of Anthropic, the arrays and patterns of OpenAI.
fn plain(keys: Value) -> Value {
    node(LOOSE, &[("properties", keys), ("pattern", linear())].into(), &json!([array_has_items()]))
}

fn gemini() -> Value {
    let keywords = &[
        "type",
        "description",
        "nullable",
        "enum",
        "items",
        "minItems",
        "maxItems",
        "properties",
        "required",
        "minProperties",
        "maxProperties",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "pattern",
        "anyOf",
    ];
    let mut properties = keys("^[a-zA-Z_][a-zA-Z0-9_]{0,63}$");
    properties["minProperties"] = 1.into();
    let texts = json!({"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}});
    let own = [
        ("type", json!({"enum": ["string", "number", "integer", "boolean", "object", "array"]})),
        ("properties", properties),
        ("enum", texts),
        ("pattern", linear()),
    ];
    let only = |kinds: &[&str], keywords: &[&str]| {
        let any: Vec<Value> = keywords.iter().map(|keyword| json!({"required": [keyword]})).collect();
        json!({"if": {"anyOf": any}, "then": {"properties": {"type": {"enum": kinds}}, "required": ["type"]}})
    };
    node(
        keywords,
        &own.into(),
        &json!([
            array_has_items(),
            {"anyOf": [{"required": ["type"]}, {"required": ["anyOf"]}]},
            {"if": {"required": ["anyOf"]}, "then": {"maxProperties": 1}},
            only(&["string"], &["enum", "minLength", "maxLength", "pattern"]),
            only(&["number", "integer"], &["minimum", "maximum"]),
            only(&["array"], &["items", "minItems", "maxItems"]),
            only(&["object"], &["properties", "required", "minProperties", "maxProperties"]),
        ]),
    )
}

/// An object that is closed.
fn closed() -> Value {
    json!({
        "if": {"properties": {"type": {"const": "object"}}, "required": ["type"]},
        "then": {"properties": {"additionalProperties": {"const": false}}, "required": ["additionalProperties", "properties"]},
    })
}

fn typed() -> Value {
    json!({"anyOf": [{"required": ["type"]}, {"required": ["anyOf"]}]})
}

fn openai_strict() -> Value {
    let keywords = &[
        "type",
        "title",
        "description",
        "enum",
        "anyOf",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
    ];
    let own = [("pattern", linear()), ("format", json!({"enum": OPENAI_FORMATS}))];
    let node = node(keywords, &own.into(), &json!([array_has_items(), closed(), typed()]));
    let mut schema = root(&json!({"required": ["properties"]}));
    schema["$defs"] = json!({"node": node});
    schema
}

fn anthropic_strict() -> Value {
    let keywords = &[
        "type",
        "title",
        "description",
        "enum",
        "anyOf",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "format",
    ];
    let mut formats = OPENAI_FORMATS.to_vec();
    formats.push("uri");
    let own = [
        ("format", json!({"enum": formats})),
        ("minItems", json!({"enum": [0, 1]})),
        ("properties", keys("^[a-zA-Z0-9_.-]{1,64}$")),
    ];
    let node = node(keywords, &own.into(), &json!([array_has_items(), closed(), typed()]));
    let mut schema = root(&json!({"required": ["properties"]}));
    schema["$defs"] = json!({"node": node});
    schema
}
