//! Properties of the wire types: random JSON of each type has the same value after a round trip, in the form of each revision.
#![expect(clippy::unwrap_used, reason = "a failed step ends the test")]

mod common;

use std::fmt::Debug;

use mcp_protocol::*;
use proptest::{collection::vec, prelude::*, sample::Index};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

use self::common::check;

const EXAMPLES: &str = include_str!("data/examples-2026-07-28.json");

/// A change of one value inside a JSON text.
#[derive(Debug, Clone)]
struct Edit {
    at: Index,
    change: Change,
}

#[derive(Debug, Clone)]
enum Change {
    Remove,
    Replace(Value),
    Repeat,
    Add(String, Value),
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u32>().prop_map(Value::from),
        (-1_000_i64..1_000).prop_map(|number| Value::from(number as f64 / 8.0)),
        "[a-zé\n\"{]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec(("[a-z]{1,3}", inner), 0..3).prop_map(|members| members.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
    .boxed()
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let name = prop::sample::select(vec![
        "_meta",
        "annotations",
        "title",
        "icons",
        "x-later",
        "mode",
        "task",
        "ttlMs",
        "elicitationId",
        "structuredContent",
        "lastModified",
    ]);
    let change = prop_oneof![
        3 => Just(Change::Remove),
        2 => value().prop_map(Change::Replace),
        1 => Just(Change::Repeat),
        3 => (name, value()).prop_map(|(name, value)| Change::Add(name.to_owned(), value)),
    ];
    vec((any::<Index>(), change).prop_map(|(at, change)| Edit { at, change }), 0..4)
}

/// Returns the number of values inside a value, itself included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Object(members) => members.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

/// Applies a change to the value at a position, in the order of the text. The outermost value stays an object.
fn apply(value: &mut Value, mut at: usize, change: &Change) {
    if at == 0 {
        match (change, value) {
            (Change::Replace(new), value) => *value = new.clone(),
            (Change::Add(name, new), Value::Object(members)) => _ = members.insert(name.clone(), new.clone()),
            (Change::Repeat, Value::Array(items)) => items.extend(items.clone()),
            (Change::Remove, Value::Array(items)) => items.clear(),
            (_, value) => *value = Value::Null,
        }
        return;
    }
    at -= 1;
    match value {
        Value::Object(members) => {
            for (name, member) in members.iter_mut() {
                let size = count(member);
                if at < size {
                    if at == 0 && matches!(change, Change::Remove) {
                        let name = name.clone();
                        members.shift_remove(&name);
                    } else {
                        apply(member, at, change);
                    }
                    return;
                }
                at -= size;
            }
        }
        Value::Array(items) => {
            for item in items {
                let size = count(item);
                if at < size {
                    return apply(item, at, change);
                }
                at -= size;
            }
        }
        _ => {}
    }
}

fn edited(seed: &Value, edits: &[Edit]) -> Value {
    let mut value = seed.clone();
    for Edit { at, change } in edits {
        let size = count(&value);
        // An edit of the outermost value adds a member.
        let at = at.index(size);
        if at > 0 || matches!(change, Change::Add(..)) {
            apply(&mut value, at, change);
        }
    }
    value
}

/// Whether the JSON has the type.
type Outcome = Result<bool, TestCaseError>;

/// Checks that a value has the same JSON and is the same value after a round trip. Returns the value, if the JSON has the type.
fn round_trip<T: Debug + PartialEq + Serialize + DeserializeOwned>(json: &Value) -> Result<Option<T>, TestCaseError> {
    let Ok(value) = serde_json::from_value::<T>(json.clone()) else { return Ok(None) };
    let written = serde_json::to_value(&value).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let again: T = serde_json::from_value(written.clone())
        .map_err(|error| TestCaseError::fail(format!("{error}: {written} of {json}")))?;
    prop_assert_eq!(&again, &value, "{} of {}", written, json);
    // The text has the same value as the JSON tree.
    let text = serde_json::to_string(&value).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let again: T = serde_json::from_str(&text).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
    prop_assert_eq!(&again, &value, "{}", text);
    Ok(Some(value))
}

fn plain<T: Debug + PartialEq + Serialize + DeserializeOwned>(json: &Value) -> Outcome {
    Ok(round_trip::<T>(json)?.is_some())
}

/// Checks that the JSON is the same after a second round trip. The first adds the members that the type always writes.
fn completed<T: Debug + PartialEq + Serialize + DeserializeOwned>(json: &Value) -> Outcome {
    let Ok(value) = serde_json::from_value::<T>(json.clone()) else { return Ok(false) };
    let written = serde_json::to_value(&value).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let again = round_trip::<T>(&written)?;
    prop_assert_eq!(serde_json::to_value(&again).ok(), Some(written), "{}", json);
    Ok(true)
}

/// Checks the round trip in the form of each revision. Another change to the form changes nothing.
fn shaped<T: Clone + Debug + PartialEq + Serialize + DeserializeOwned + Shape>(json: &Value) -> Outcome {
    let Some(value) = round_trip::<T>(json)? else { return Ok(false) };
    for &version in ProtocolVersion::ALL {
        let mut shaped = value.clone();
        shaped.shape(version);
        let written = serde_json::to_value(&shaped).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let again = round_trip::<T>(&written)?;
        prop_assert_eq!(again.as_ref(), Some(&shaped), "{}: {}", version, &written);
        shaped.shape(version);
        prop_assert_eq!(again, Some(shaped), "{} twice: {}", version, &written);

        // The function for JSON objects makes the same change, and keeps other members.
        let Value::Object(object) = json.clone() else { continue };
        let mut object = JsonObject::from(object);
        prop_assert!(shape_object::<T>(&mut object, version).is_ok(), "{}", json);
        let again = serde_json::from_value::<T>(Value::from(object.clone()));
        let again = again.map_err(|error| TestCaseError::fail(format!("{version}: {error}: {object:?}")))?;
        prop_assert_eq!(serde_json::to_value(&again).ok(), Some(written), "{}: {}", version, json);
        // A block without a form in the revision becomes another block.
        if object.get("type") == json.get("type") {
            prop_assert_eq!(object.get("x-later"), json.get("x-later"));
        }
    }
    Ok(true)
}

/// Checks that the functions for raw JSON keep unknown members, with the digits of their numbers, and repeat nothing.
fn raw_keeps_members(
    method: &str,
    json: &Value,
    from: ProtocolVersion,
    to: ProtocolVersion,
) -> Result<(), TestCaseError> {
    const LATER: &str = r#""x-later":1.50E+01"#;
    let Value::Object(members) = json else { return Ok(()) };
    let text = Value::from(members.clone()).to_string();
    let text = format!("{{{LATER}{}{}", if members.is_empty() { "" } else { "," }, &text[1..]);
    let params = shape_params(method, &text, to).map_err(|error| TestCaseError::fail(format!("{error}: {text}")))?;
    let definition = shape_raw_definition(method, &text, to);
    for (shaped, again) in [
        (&params, params.as_ref().and_then(|params| shape_params(method, params, to).ok()?)),
        (&definition, definition.as_ref().and_then(|definition| shape_raw_definition(method, definition, to))),
    ] {
        if let Some(shaped) = shaped {
            prop_assert!(shaped.contains(LATER), "{}: {} of {}", to, shaped, text);
            prop_assert!(again.as_ref().is_none_or(|again| again == shaped), "{}: {} of {}", to, shaped, text);
        }
    }
    let result = shape_raw_result(method, text.as_bytes(), from, to);
    match result.map_err(|error| TestCaseError::fail(format!("{error}: {text}")))? {
        RawShape::Rewritten { json, .. } => prop_assert!(json.contains(LATER), "{from} {to}: {json} of {text}"),
        RawShape::Unchanged | RawShape::Unopened { .. } => {}
    }
    Ok(())
}

type Check = fn(&Value) -> Outcome;

/// Returns the check of the type of an example.
fn check_of(kind: &str) -> Option<Check> {
    Some(match kind {
        "AudioContent" | "ImageContent" | "TextContent" | "EmbeddedResource" | "ResourceLink" => shaped::<ContentBlock>,
        "ToolUseContent" | "ToolResultContent" => shaped::<SamplingBlock>,
        "BlobResourceContents" | "TextResourceContents" => plain::<ResourceContents>,
        "CallToolRequestParams" => plain::<CallToolParams>,
        "CallToolResult" => shaped::<CallToolResult>,
        "CancelledNotificationParams" => plain::<CancelledParams>,
        "ClientCapabilities" => shaped::<ClientCapabilities>,
        "CompleteRequestParams" => plain::<CompleteParams>,
        "CompleteResult" => shaped::<CompleteResult>,
        "CreateMessageRequestParams" => shaped::<CreateMessageParams>,
        "CreateMessageResult" => shaped::<CreateMessageResult>,
        "DiscoverResult" => shaped::<DiscoverResult>,
        "ElicitRequestFormParams" | "ElicitRequestURLParams" => shaped::<ElicitParams>,
        "ElicitResult" => plain::<ElicitResult>,
        "GetPromptRequestParams" => plain::<GetPromptParams>,
        "GetPromptResult" => shaped::<GetPromptResult>,
        "InputRequests" => completed::<InputRequests>,
        "InputRequiredResult" => completed::<InputRequiredResult>,
        "ListPromptsResult" => shaped::<ListPromptsResult>,
        "ListResourceTemplatesResult" => shaped::<ListResourceTemplatesResult>,
        "ListResourcesResult" => shaped::<ListResourcesResult>,
        "ListRootsResult" => plain::<ListRootsResult>,
        "ListToolsResult" => shaped::<ListToolsResult>,
        "LoggingMessageNotificationParams" => plain::<LoggingMessageParams>,
        "ModelPreferences" => plain::<ModelPreferences>,
        "PaginatedRequestParams" => plain::<PaginatedParams>,
        "ProgressNotificationParams" => shaped::<ProgressParams>,
        "ReadResourceResult" => shaped::<ReadResourceResult>,
        "Resource" => shaped::<Resource>,
        "ResourceUpdatedNotificationParams" => plain::<ResourceUpdatedParams>,
        "Root" => plain::<Root>,
        "SamplingMessage" => plain::<SamplingMessage>,
        "ServerCapabilities" => shaped::<ServerCapabilities>,
        "SubscriptionsListenResult" => plain::<ListenResult>,
        "Tool" => shaped::<Tool>,
        "CreateMessageRequest" | "ElicitRequest" | "ListRootsRequest" => completed::<InputRequest>,
        "UrlElicitationRequired" => shaped::<RpcError>,
        "Initialize" => shaped::<InitializeParams>,
        "InitializeResult" => shaped::<InitializeResult>,
        "Implementation" => shaped::<Implementation>,
        "ResourceTemplate" => shaped::<ResourceTemplate>,
        "Prompt" => shaped::<Prompt>,
        "Empty" => shaped::<EmptyResult>,
        "EmptyParams" => plain::<EmptyParams>,
        "SetLevel" => plain::<SetLevelParams>,
        "Subscribe" => plain::<SubscribeParams>,
        "ReadResource" => plain::<ReadResourceParams>,
        "Listen" => plain::<ListenParams>,
        "Acknowledged" => plain::<SubscriptionsAcknowledgedParams>,
        "ElicitationComplete" => plain::<ElicitationCompleteParams>,
        "TaskState" => plain::<tasks::TaskState>,
        "CreateTask" => plain::<tasks::CreateTaskResult>,
        "ListTasks" => plain::<tasks::ListTasksResult>,
        "TaskPayload" => plain::<tasks::TaskPayload>,
        "TaskParams" => plain::<tasks::TaskParams>,
        "ExtCreateTask" => plain::<tasks::ext::CreateTaskResult>,
        "DetailedTask" => completed::<tasks::ext::DetailedTask>,
        "UpdateTask" => plain::<tasks::ext::UpdateTaskParams>,
        "ListSkills" => plain::<skills::ListSkillsResult>,
        "GetSkill" => plain::<skills::GetSkillParams>,
        "GetSkillResult" => plain::<skills::GetSkillResult>,
        "ReadDirectory" => plain::<skills::ReadDirectoryParams>,
        _ if kind.ends_with("Error") => shaped::<RpcError>,
        _ => return None,
    })
}

/// Examples of types that the newest schema has no examples of.
fn more_examples() -> Vec<(&'static str, Value)> {
    let client = json!({"name": "c", "title": "C", "version": "1", "description": "d", "websiteUrl": "https://a.example",
        "icons": [{"src": "data:,", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"}]});
    let task = json!({"taskId": "t", "status": "working", "statusMessage": "m", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 60_000, "pollInterval": 500});
    let ext = json!({"taskId": "t", "status": "working", "statusMessage": "m", "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 60_000, "pollIntervalMs": 500, "resultType": "task"});
    let capabilities = json!({"roots": {"listChanged": true}, "sampling": {"tools": {}, "context": {}},
        "elicitation": {"form": {}, "url": {}}, "tasks": {"list": {}, "cancel": {}, "requests": {"sampling": {"createMessage": {}}}},
        "experimental": {"a": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
    let skill = json!({"uri": "skill://s/SKILL.md", "frontmatter": {"name": "s", "x": [1.5]},
        "resources": [{"uri": "skill://s/a", "digest": "sha256:00", "size": 3}]});
    let with = |mut value: Value, name: &str, new: Value| {
        value[name] = new;
        value
    };
    vec![
        ("Initialize", json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client})),
        (
            "InitializeResult",
            json!({"protocolVersion": "2025-11-25", "serverInfo": client, "instructions": "i",
            "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}, "completions": {}, "logging": {},
                "tasks": {"list": {}, "requests": {"tools": {"call": {}}}}}}),
        ),
        ("ClientCapabilities", capabilities),
        ("Implementation", client),
        (
            "ResourceTemplate",
            json!({"uriTemplate": "a://{b}", "name": "n", "title": "t", "description": "d", "mimeType": "a/b",
            "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026"}, "icons": [{"src": "data:,"}]}),
        ),
        (
            "Prompt",
            json!({"name": "p", "title": "P", "arguments": [{"name": "a", "title": "A", "required": true}],
            "icons": [{"src": "data:,"}], "x-later": 1}),
        ),
        (
            "Tool",
            json!({"name": "t", "title": "T", "inputSchema": {"type": "object", "properties": {"a": true, "b": false}},
            "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "execution": {"taskSupport": "optional"},
            "icons": [{"src": "data:,"}]}),
        ),
        (
            "CallToolRequestParams",
            json!({"name": "t", "arguments": {"a": 1}, "task": {"ttl": 1}, "requestState": "s",
            "inputResponses": {"q": {"action": "accept", "content": {}}}, "_meta": {"progressToken": 1}}),
        ),
        (
            "CallToolResult",
            json!({"content": [{"type": "audio", "data": "AAE=", "mimeType": "a/b"},
            {"type": "resource_link", "uri": "a:b", "name": "n"}, {"type": "hologram", "x": 1.5}],
            "structuredContent": [1], "isError": true}),
        ),
        (
            "UrlElicitationRequired",
            json!({"code": -32042, "message": "m", "data": {"elicitations":
            [{"mode": "url", "message": "m", "url": "https://a.example", "elicitationId": "e"}]}}),
        ),
        (
            "ElicitRequestURLParams",
            json!({"mode": "url", "message": "m", "url": "https://a.example", "elicitationId": "e",
            "task": {"ttl": 5}}),
        ),
        ("Empty", json!({"_meta": {"a": 1}})),
        ("EmptyParams", json!({"_meta": {"a": 1}})),
        ("SetLevel", json!({"level": "warning"})),
        ("Subscribe", json!({"uri": "a:b"})),
        ("ReadResource", json!({"uri": "a:b", "requestState": "s", "inputResponses": {}})),
        ("Listen", json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}})),
        ("Acknowledged", json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": ["a:b"]}})),
        ("ElicitationComplete", json!({"elicitationId": "e"})),
        ("TaskState", task.clone()),
        ("CreateTask", json!({"task": task, "_meta": {}})),
        ("ListTasks", json!({"tasks": [task], "nextCursor": "c"})),
        ("TaskPayload", json!({"content": [], "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}})),
        ("TaskParams", json!({"taskId": "t"})),
        ("ExtCreateTask", ext.clone()),
        ("DetailedTask", with(with(ext.clone(), "resultType", json!("complete")), "result", json!({"content": []}))),
        (
            "DetailedTask",
            with(with(ext.clone(), "status", json!("failed")), "error", json!({"code": -1, "message": "m"})),
        ),
        (
            "DetailedTask",
            with(
                with(ext, "status", json!("input_required")),
                "inputRequests",
                json!({"q": {"method": "roots/list", "params": {}}}),
            ),
        ),
        ("UpdateTask", json!({"taskId": "t", "inputResponses": {"q": {"roots": []}}})),
        ("ListSkills", json!({"skills": [skill], "nextCursor": "c", "ttlMs": 1, "cacheScope": "public"})),
        ("GetSkill", json!({"uri": "skill://s/SKILL.md"})),
        ("GetSkillResult", json!({"skill": skill})),
        ("ReadDirectory", json!({"uri": "skill://s/", "cursor": "c"})),
    ]
}

/// The name, the JSON and the check of each example.
fn examples() -> Vec<(String, Value, Check)> {
    let mut examples: Map<String, Value> = serde_json::from_str(EXAMPLES).unwrap();
    examples.retain(|_, json| json.get("jsonrpc").is_none());
    let named = examples.into_iter().map(|(name, json)| (name.split('/').next().unwrap_or_default().to_owned(), json));
    let more = more_examples().into_iter().map(|(kind, json)| (kind.to_owned(), json));
    named.chain(more).filter_map(|(kind, json)| check_of(&kind).map(|check| (kind, json, check))).collect()
}

#[test]
fn a_value_is_the_same_after_a_round_trip_in_each_revision() {
    let examples = examples();
    assert!(examples.len() > 90, "{}", examples.len());
    for (kind, json, check) in &examples {
        let has_type = check(json).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(has_type, "{kind}: {json}");
    }
    let cases = (any::<Index>(), edits()).prop_map(|(at, edits)| {
        let (kind, json, check) = &examples[at.index(examples.len())];
        (kind.clone(), edited(json, &edits), *check)
    });
    check(&cases, |(kind, json, check)| {
        check(&json).map(drop).map_err(|error| TestCaseError::fail(format!("{kind}: {error}")))
    });
}

#[test]
fn raw_json_keeps_its_unknown_members_in_each_revision() {
    let examples = examples();
    let method = prop::sample::select(vec![
        "tools/list",
        "tools/call",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "prompts/list",
        "prompts/get",
        "completion/complete",
    ]);
    let version = || prop::sample::select(ProtocolVersion::ALL.to_vec());
    let json = (any::<Index>(), edits()).prop_map(|(at, edits)| {
        let mut json = edited(&examples[at.index(examples.len())].1, &edits);
        // The property adds its own member of this name.
        json.as_object_mut().map(|members| members.shift_remove("x-later"));
        json
    });
    check(&(method, json, version(), version()), |(method, json, from, to)| raw_keeps_members(method, &json, from, to));
}
