//! Sends any lists, results and notifications of a server through a gateway to a client.
//!
//! The bits of the first byte select the form of the input. Two bits select the kind of items. One bit each selects the revision of the
//! server, the revision of the client, the form of names, and whether the result is an error. The rest has JSON values: the list, the result of the call, the result of any other request,
//! and a message before the result. `"{id}"` in the message is the id of the request.
//!
//! The client receives one response to each request. Names and URIs of a list are unique and belong to the server. A valid result
//! stays valid, and has the form of the revision of the client.

#![no_main]

use std::{collections::HashSet, time::Duration};

use fuzz::{
    Answer, expanded, fuzz_target, in_session, isolated, open,
    peer::{self, Peer},
    send_to_end, stateless,
};
use mcp_agent::{Gateway, Host, Names};
use mcp_protocol::{
    CallToolResult, GetPromptResult, JsonObject, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, Message, ProtocolVersion, ReadResourceResult, Shape,
};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{
    Value, json,
    value::{RawValue, to_raw_value},
};
use tokio::time::timeout;

/// The longest time of a request. A server can ask for input, which the client does not give.
const LONGEST: Duration = Duration::from_secs(3600);
const REVISIONS: [ProtocolVersion; 2] = [ProtocolVersion::V2025_11_25, ProtocolVersion::V2026_07_28];

/// A kind of items: the method and the member of its list, the member with the name, and the method of a call.
struct Kind {
    list: &'static str,
    member: &'static str,
    key: &'static str,
    call: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { list: "tools/list", member: "tools", key: "name", call: "tools/call" },
    Kind { list: "prompts/list", member: "prompts", key: "name", call: "prompts/get" },
    Kind { list: "resources/list", member: "resources", key: "uri", call: "resources/read" },
    Kind {
        list: "resources/templates/list",
        member: "resourceTemplates",
        key: "uriTemplate",
        call: "completion/complete",
    },
];

/// The parts of an input.
struct Input {
    up: ProtocolVersion,
    down: ProtocolVersion,
    names: Names,
    is_error: bool,
    list: Box<RawValue>,
    result: Box<RawValue>,
    other: Box<RawValue>,
    before: Option<Box<RawValue>>,
}

impl Input {
    fn read(data: &[u8]) -> Option<(&'static Kind, Self)> {
        let (bits, data) = data.split_first()?;
        let has = |bit: u8| bits >> bit & 1;
        let mut values = serde_json::Deserializer::from_slice(data).into_iter::<Box<RawValue>>().map_while(Result::ok);
        let mut value = || values.next().unwrap_or_else(|| to_raw_value(&json!({})).unwrap());
        let input = Self {
            up: REVISIONS[usize::from(has(2))],
            down: REVISIONS[usize::from(has(3))],
            names: if has(4) == 1 { Names::Raw } else { Names::Provider },
            is_error: has(5) == 1,
            list: value(),
            result: value(),
            other: value(),
            before: values.next(),
        };
        Some((&KINDS[usize::from(bits & 3)], input))
    }

    /// The answers of the server.
    fn peer(&self, kind: &'static Kind) -> Peer {
        let (up, is_error, before) = (self.up, self.is_error, self.before.clone());
        let [list, result, other] = [&self.list, &self.result, &self.other].map(|raw| raw.get().to_owned());
        let message = |id: &str, member: &str, value: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"{member}":{value}}}"#).into_bytes()
        };
        Peer::new(move |method, id| {
            if let Some(opening) = peer::opening(up, method, id) {
                return Vec::from([opening.into_bytes()]);
            }
            let mut messages = Vec::new();
            if method == kind.list {
                messages.push(message(id, "result", &list));
            } else if let Some(empty) = KINDS.iter().find(|empty| method == empty.list) {
                messages.push(message(id, "result", &json!({ empty.member: [] }).to_string()));
            } else if method == kind.call {
                messages.extend(before.as_ref().map(|before| expanded(before.get().as_bytes(), &[("\"{id}\"", id)])));
                messages.push(message(id, if is_error { "error" } else { "result" }, &result));
            } else {
                messages.push(message(id, "result", &other));
            }
            messages
        })
    }
}

/// A client of the gateway.
struct Downstream {
    service: McpService,
    version: ProtocolVersion,
    session: String,
}

impl Downstream {
    /// Sends a request, and returns its response.
    async fn request(&self, method: &str, params: Value) -> Value {
        let params = JsonObject::from_value(params).unwrap();
        let request = if self.version.is_stateless() {
            stateless(method, params)
        } else {
            in_session(&self.session, &json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
        };
        let answer = timeout(LONGEST, send_to_end(&self.service, request)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{method} did not end"));
        assert!(answer.status.as_u16() < 500, "{answer:?}");
        response(&answer)
    }
}

/// Returns the only response of an answer. All of its messages are valid.
fn response(answer: &Answer) -> Value {
    let mut responses = Vec::new();
    for message in answer.messages() {
        let text = String::from_utf8_lossy(&message);
        match Message::parse(&message).unwrap_or_else(|error| panic!("{error:?}: {text}")) {
            Message::Response(_) => responses.push(serde_json::from_slice::<Value>(&message).unwrap()),
            Message::Request(_) | Message::Notification(_) => {}
        }
    }
    let [response] = &responses[..] else { panic!("not one response: {answer:?}") };
    assert_eq!(response["id"], 1, "{response}");
    response.clone()
}

/// Checks a result against that of the server.
fn check<T: Shape + Serialize + DeserializeOwned>(input: &Input, sent: &RawValue, received: &Value) {
    if serde_json::from_str::<T>(sent.get()).is_err() {
        return;
    }
    let mut value: T = serde_json::from_value(received.clone()).unwrap_or_else(|error| panic!("{error}: {received}"));
    if input.up == input.down {
        return;
    }
    let before = serde_json::to_value(&value).unwrap();
    value.shape(input.down);
    assert_eq!(serde_json::to_value(&value).unwrap(), before, "{received}");
}

fn check_type(input: &Input, received: &Value) {
    if input.down.has_result_type() {
        assert!(received.get("resultType").is_some(), "{received}");
    } else if input.up.has_result_type() {
        assert_eq!(received.get("resultType"), None, "{received}");
    }
}

async fn run(kind: &'static Kind, input: Input) {
    let host = Host::builder("fuzz", "1").call_timeout(Duration::from_secs(30)).server("s", input.peer(kind));
    let Ok(Ok(host)) = timeout(LONGEST, host.start()).await else { return };
    let server = Gateway::builder(host).names(input.names).build().unwrap().versions([input.down]);
    let service = server.build().into_service(HttpConfig::new());
    let session = if input.down.is_stateless() { String::new() } else { open(&service).await };
    let client = Downstream { service, version: input.down, session };

    let listed = client.request(kind.list, json!({})).await;
    if listed["error"].is_object() {
        return;
    }
    check_type(&input, &listed["result"]);
    match kind.member {
        "tools" => check::<ListToolsResult>(&input, &input.list, &listed["result"]),
        "prompts" => check::<ListPromptsResult>(&input, &input.list, &listed["result"]),
        "resources" => check::<ListResourcesResult>(&input, &input.list, &listed["result"]),
        _ => check::<ListResourceTemplatesResult>(&input, &input.list, &listed["result"]),
    }
    let items = listed["result"][kind.member].as_array().unwrap_or_else(|| panic!("no list: {listed}"));
    let mut names = HashSet::new();
    for item in items {
        let name = item[kind.key].as_str().unwrap_or_else(|| panic!("no name: {item}"));
        assert!(names.insert(name), "repeated: {name}");
        if input.names == Names::Provider && kind.key == "name" {
            let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            assert!(name.len() <= 64 && name.bytes().all(is_safe) && name.starts_with("s__"), "{name}");
        } else if input.names == Names::Provider {
            assert!(name.starts_with("mcp://s/") || name.starts_with("ui://s/"), "{name}");
        }
    }
    let Some(name) = items.first().and_then(|item| item[kind.key].as_str()) else { return };
    let params = match kind.call {
        "completion/complete" => {
            let reference = json!({ "type": "ref/resource", "uri": name });
            json!({ "ref": reference, "argument": { "name": "a", "value": "" } })
        }
        _ => json!({ kind.key: name }),
    };
    let answered = client.request(kind.call, params).await;
    if answered["error"].is_object() {
        return;
    }
    check_type(&input, &answered["result"]);
    // A task or a question has another form.
    let is_complete = |result: &Value| result.get("resultType").is_none_or(|kind| kind == "complete");
    let sent: Value = serde_json::from_str(input.result.get()).unwrap();
    if input.is_error || !is_complete(&sent) || !is_complete(&answered["result"]) {
        return;
    }
    match kind.call {
        "tools/call" => check::<CallToolResult>(&input, &input.result, &answered["result"]),
        "prompts/get" => check::<GetPromptResult>(&input, &input.result, &answered["result"]),
        "resources/read" => check::<ReadResourceResult>(&input, &input.result, &answered["result"]),
        _ => {}
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((kind, input)) = Input::read(data) else { return };
    isolated(run(kind, input));
});
