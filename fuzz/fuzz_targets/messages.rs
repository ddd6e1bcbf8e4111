//! Reads any JSON as the parameters and the result of each method, in the form of each revision.
//!
//! The first line of the input is the method, and the rest is the JSON. A decoded value has the same JSON after a round trip, and a
//! second change to the same revision changes nothing.

#![no_main]

use std::str;

use fuzz::{fuzz_target, round_trip};
use mcp_protocol::{
    CallToolResult, CreateMessageParams, CreateMessageResult, DiscoverResult, ElicitParams, GetPromptResult,
    InitializeParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, ProgressParams, ProtocolVersion, RawShape, ReadResourceResult, Shape, method, method::Method,
    method::NotificationMethod, notification, shape_params, shape_raw_definition, shape_raw_result,
};
use serde::{Serialize, de::DeserializeOwned};

macro_rules! each_request {
    ($name:ident, $json:ident: $($method:ident)*) => {$(
        if $name == method::$method::NAME {
            round_trip::<<method::$method as Method>::Params>($json);
            round_trip::<<method::$method as Method>::Result>($json);
        }
    )*};
}

macro_rules! each_notification {
    ($name:ident, $json:ident: $($method:ident)*) => {$(
        if $name == notification::$method::NAME {
            round_trip::<<notification::$method as NotificationMethod>::Params>($json);
        }
    )*};
}

macro_rules! each_shape {
    ($name:ident, $json:ident: $($method:literal $value:ident)*) => {$(
        if $name == $method {
            shapes::<$value>($json);
        }
    )*};
}

/// Gives a value the form of each revision, twice.
fn shapes<T: Shape + Serialize + DeserializeOwned>(json: &[u8]) {
    for &version in ProtocolVersion::ALL {
        let Ok(mut value) = serde_json::from_slice::<T>(json) else { return };
        value.shape(version);
        let once = serde_json::to_value(&value).unwrap();
        value.shape(version);
        assert_eq!(serde_json::to_value(&value).unwrap(), once, "{version}");
        let read: T = serde_json::from_value(once.clone()).unwrap_or_else(|error| panic!("{error}: {once}"));
        assert_eq!(serde_json::to_value(&read).unwrap(), once, "{version}");
    }
}

/// Rewrites raw JSON for each revision, twice.
fn raw(name: &str, json: &[u8]) {
    let Ok(text) = str::from_utf8(json) else { return };
    if serde_json::from_str::<serde_json::Value>(text).is_err() {
        return;
    }
    for &version in ProtocolVersion::ALL {
        if let Ok(Some(once)) = shape_params(name, text, version) {
            assert!(
                !matches!(shape_params(name, &once, version), Ok(Some(twice)) if twice != once),
                "{version}: {once}"
            );
        }
        if let Some(once) = shape_raw_definition(name, text, version) {
            let twice = shape_raw_definition(name, &once, version);
            assert!(twice.is_none_or(|twice| twice == once), "{version}: {once}");
        }
        for &from in ProtocolVersion::ALL {
            let Ok(RawShape::Rewritten { json: once, .. }) = shape_raw_result(name, json, from, version) else {
                continue;
            };
            match shape_raw_result(name, once.as_bytes(), from, version) {
                Ok(RawShape::Rewritten { json: twice, .. }) => assert_eq!(twice, once, "{from} {version}"),
                shape => drop(shape.unwrap_or_else(|error| panic!("{from} {version}: {error}: {once}"))),
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some(end) = data.iter().position(|byte| *byte == b'\n') else { return };
    let (Ok(name), json) = (str::from_utf8(&data[..end]), &data[end + 1..]) else { return };
    each_request! { name, json:
        Initialize Ping Discover Listen ListTools CallTool ListResources ListResourceTemplates ReadResource Subscribe
        Unsubscribe ListPrompts GetPrompt Complete SetLevel CreateMessage ListRoots Elicit GetTask GetTaskPayload ListTasks
        CancelTask GetDetailedTask UpdateTask RequestTaskCancellation ListSkills GetSkill ReadDirectory
    }
    each_notification! { name, json:
        Initialized Cancelled Progress LoggingMessage ToolListChanged PromptListChanged ResourceListChanged ResourceUpdated
        RootsListChanged ElicitationComplete TaskStatus Task SubscriptionsAcknowledged
    }
    each_shape! { name, json:
        "initialize" InitializeParams "initialize" InitializeResult "server/discover" DiscoverResult
        "tools/list" ListToolsResult "tools/call" CallToolResult "prompts/list" ListPromptsResult
        "prompts/get" GetPromptResult "resources/list" ListResourcesResult "resources/read" ReadResourceResult
        "resources/templates/list" ListResourceTemplatesResult "notifications/progress" ProgressParams
        "elicitation/create" ElicitParams "sampling/createMessage" CreateMessageParams
        "sampling/createMessage" CreateMessageResult
    }
    raw(name, json);
});
