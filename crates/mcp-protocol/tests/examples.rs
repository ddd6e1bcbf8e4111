//! Reads and writes the example messages of the 2026-07-28 schema. No member may be lost or changed.

use mcp_protocol::{
    jsonrpc::{self, decode_params},
    method, notification, *,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

const EXAMPLES: &str = include_str!("data/examples-2026-07-28.json");

#[test]
fn examples_of_the_specification_round_trip() {
    let examples: serde_json::Map<String, Value> = serde_json::from_str(EXAMPLES).unwrap();
    assert!(examples.len() > 100, "the directory of examples exists");
    for (name, example) in &examples {
        let (kind, _) = name.split_once('/').unwrap();
        let back = match round_trip(kind, example) {
            Ok(back) => back,
            Err(problem) => panic!("{name}: {problem}"),
        };
        let mut expected = example.clone();
        normalize(&mut expected);
        assert_eq!(back, expected, "{name}");
    }
}

/// Applies the two intended differences: an `isError` that is false is omitted, and an input request for the roots has
/// `params`.
fn normalize(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|key, value| key != "isError" || *value != false);
            if members.get("method").is_some_and(|method| method == "roots/list") {
                members.entry("params").or_insert_with(|| serde_json::json!({}));
            }
            members.values_mut().for_each(normalize);
        }
        Value::Array(values) => values.iter_mut().for_each(normalize),
        _ => {}
    }
}

fn round_trip(kind: &str, example: &Value) -> Result<Value, String> {
    match kind {
        "AudioContent" | "ImageContent" | "TextContent" | "EmbeddedResource" | "ResourceLink" => {
            known_block(&value::<ContentBlock>(example)?)
        }
        "ToolUseContent" | "ToolResultContent" => value::<SamplingBlock>(example),
        "BlobResourceContents" | "TextResourceContents" => value::<ResourceContents>(example),
        "CallToolRequestParams" => value::<CallToolParams>(example),
        "CallToolResult" => result::<CallToolResult>(example),
        "CancelledNotificationParams" => value::<CancelledParams>(example),
        "ClientCapabilities" => value::<ClientCapabilities>(example),
        "CompleteRequestParams" => value::<CompleteParams>(example),
        "CompleteResult" => result::<CompleteResult>(example),
        "CreateMessageRequestParams" => value::<CreateMessageParams>(example),
        "CreateMessageResult" => value::<CreateMessageResult>(example),
        "DiscoverResult" => result::<DiscoverResult>(example),
        "ElicitRequestFormParams" | "ElicitRequestURLParams" => value::<ElicitParams>(example).map(|mut back| {
            // A form is written without its mode, which means the same.
            if example["mode"] == "form" {
                back["mode"] = "form".into();
            }
            back
        }),
        "ElicitResult" => value::<ElicitResult>(example),
        "GetPromptRequestParams" => value::<GetPromptParams>(example),
        "GetPromptResult" => result::<GetPromptResult>(example),
        "InputRequests" => value::<InputRequests>(example),
        "InputRequiredResult" => result::<InputRequiredResult>(example),
        "InputResponses" => value::<JsonObject>(example),
        "ListPromptsResult" => result::<ListPromptsResult>(example),
        "ListResourceTemplatesResult" => result::<ListResourceTemplatesResult>(example),
        "ListResourcesResult" => result::<ListResourcesResult>(example),
        "ListRootsResult" => value::<ListRootsResult>(example),
        "ListToolsResult" => result::<ListToolsResult>(example),
        "LoggingMessageNotificationParams" => value::<LoggingMessageParams>(example),
        "ModelPreferences" => value::<ModelPreferences>(example),
        "PaginatedRequestParams" => value::<PaginatedParams>(example),
        "ProgressNotificationParams" => value::<ProgressParams>(example),
        "ReadResourceResult" => result::<ReadResourceResult>(example),
        "Resource" => value::<Resource>(example),
        "ResourceUpdatedNotificationParams" => value::<ResourceUpdatedParams>(example),
        "Root" => value::<Root>(example),
        "SamplingMessage" => value::<SamplingMessage>(example),
        "ServerCapabilities" => value::<ServerCapabilities>(example),
        "SubscriptionsListenResult" => result::<ListenResult>(example),
        "Tool" => value::<Tool>(example),
        "CreateMessageRequest" | "ElicitRequest" | "ListRootsRequest" => {
            value::<InputRequest>(example).map(|mut back| {
                // Some examples have an id, and a request inside a result has none.
                if let Some(id) = example.get("id") {
                    back["id"] = id.clone();
                }
                back
            })
        }
        _ if kind.ends_with("Error") && example.get("jsonrpc").is_none() => value::<RpcError>(example),
        _ => message(kind, example),
    }
}

fn value<T: Serialize + DeserializeOwned>(example: &Value) -> Result<Value, String> {
    let read: T = serde_json::from_value(example.clone()).map_err(|error| error.to_string())?;
    serde_json::to_value(&read).map_err(|error| error.to_string())
}

fn result<T: ResultPayload + DeserializeOwned>(example: &Value) -> Result<Value, String> {
    let read: T = serde_json::from_value(example.clone()).map_err(|error| error.to_string())?;
    serde_json::to_value(Typed::new(&read)).map_err(|error| error.to_string())
}

/// A block that was not understood would survive as well.
fn known_block(back: &Value) -> Result<Value, String> {
    match serde_json::from_value(back.clone()) {
        Ok(ContentBlock::Unknown(_)) => Err("not understood".into()),
        Ok(_) => Ok(back.clone()),
        Err(error) => Err(error.to_string()),
    }
}

fn message(kind: &str, example: &Value) -> Result<Value, String> {
    let text = example.to_string();
    let written = match Message::parse(text.as_bytes()).map_err(|error| error.to_string())? {
        Message::Request(request) => self::request(&request)?,
        Message::Notification(notice) => self::notice(&notice)?,
        Message::Response(response) => match response.outcome {
            Ok(result) => {
                let id = response.id.ok_or("no id")?;
                let typed = self::response(kind, result)?;
                jsonrpc::response(&id, &typed).map_err(|error| error.to_string())?
            }
            Err(error) => jsonrpc::error_response(response.id.as_ref(), &error),
        },
    };
    serde_json::from_slice(&written).map_err(|error| error.to_string())
}

fn request(request: &jsonrpc::Request<'_>) -> Result<Vec<u8>, String> {
    fn again<M: Method>(request: &jsonrpc::Request<'_>) -> Result<Vec<u8>, String> {
        let meta = RequestMeta::from_params(request.params).map_err(|error| error.to_string())?;
        let meta = meta.ok_or("no metadata")?;
        meta.required().map_err(|error| error.to_string())?;
        meta.implementation().map_err(|error| error.to_string())?.ok_or("no identity")?;
        let params: M::Params = decode_params(M::NAME, request.params).map_err(|error| error.to_string())?;
        jsonrpc::request(&request.id, M::NAME, &params).map_err(|error| error.to_string())
    }
    match &*request.method {
        method::CallTool::NAME => again::<method::CallTool>(request),
        method::Complete::NAME => again::<method::Complete>(request),
        method::Discover::NAME => again::<method::Discover>(request),
        method::GetPrompt::NAME => again::<method::GetPrompt>(request),
        method::ListPrompts::NAME => again::<method::ListPrompts>(request),
        method::ListResourceTemplates::NAME => again::<method::ListResourceTemplates>(request),
        method::ListResources::NAME => again::<method::ListResources>(request),
        method::ListTools::NAME => again::<method::ListTools>(request),
        method::Listen::NAME => again::<method::Listen>(request),
        method::ReadResource::NAME => again::<method::ReadResource>(request),
        other => Err(format!("no request {other}")),
    }
}

fn notice(notice: &jsonrpc::Notification<'_>) -> Result<Vec<u8>, String> {
    fn again<M: NotificationMethod>(notice: &jsonrpc::Notification<'_>) -> Result<Vec<u8>, String> {
        let params: M::Params = decode_params(M::NAME, notice.params).map_err(|error| error.to_string())?;
        jsonrpc::notification(M::NAME, &params).map_err(|error| error.to_string())
    }
    match &*notice.method {
        notification::Cancelled::NAME => again::<notification::Cancelled>(notice),
        notification::LoggingMessage::NAME => again::<notification::LoggingMessage>(notice),
        notification::Progress::NAME => again::<notification::Progress>(notice),
        notification::PromptListChanged::NAME => again::<notification::PromptListChanged>(notice),
        notification::ResourceListChanged::NAME => again::<notification::ResourceListChanged>(notice),
        notification::ResourceUpdated::NAME => again::<notification::ResourceUpdated>(notice),
        notification::SubscriptionsAcknowledged::NAME => again::<notification::SubscriptionsAcknowledged>(notice),
        notification::ToolListChanged::NAME => again::<notification::ToolListChanged>(notice),
        other => Err(format!("no notification {other}")),
    }
}

fn response(kind: &str, result: &RawValue) -> Result<Value, String> {
    if ResultType::of(result) != Ok(ResultType::Complete) {
        return Err("not a complete result".into());
    }
    let example: Value = serde_json::from_str(result.get()).map_err(|error| error.to_string())?;
    let kind = kind.strip_suffix("Response").ok_or("not a response")?;
    round_trip(kind, &example)
}
