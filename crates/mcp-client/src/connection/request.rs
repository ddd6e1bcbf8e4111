//! Serializes requests: the parameters, with the metadata of the revision, the options of the call and its input
//! responses.

use std::{borrow::Cow, fmt, sync::LazyLock};

use mcp_protocol::{
    ClientCapabilities, Implementation, JsonObject, LoggingLevel, MemberFinder, Meta, ProtocolVersion, RawMembers,
    Shape,
    meta::keys,
    method::{self, Method, RequestName},
    shape_params,
    tasks::TaskMetadata,
};
use serde::{
    Deserialize, Deserializer as _, Serialize,
    de::{MapAccess, Visitor},
};
use serde_json::value::RawValue;

use crate::Error;

/// A request without an id and a revision.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) method: Cow<'static, str>,
    pub(crate) body: Body,
    /// The value that HTTP mirrors: the name of a tool or prompt, the URI of a resource, or the id of a task.
    pub(crate) name: Option<Box<str>>,
    /// Executing the request twice has the same effect as executing it once.
    pub(crate) is_safe: bool,
    /// The request asks for a task instead of a result.
    pub(crate) task: Option<TaskMetadata>,
}

impl Request {
    pub(crate) fn new(method: impl Into<Cow<'static, str>>, params: &impl Serialize) -> Result<Self, Error> {
        let method = method.into();
        let body = Body::new(params).map_err(|error| Error::request(format!("{method}: {error}")))?;
        Ok(Self { is_safe: is_safe(&method), method, body, name: None, task: None })
    }

    pub(crate) fn of<M: Method>(params: &M::Params) -> Result<Self, Error> {
        Self::new(M::NAME, params)
    }

    /// Returns true if the request is about tasks, or can become one.
    pub(crate) fn declares_tasks(&self) -> bool {
        self.task.is_some() || self.method.starts_with("tasks/")
    }

    /// Sets the value that HTTP mirrors.
    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Finds the value that HTTP mirrors in raw parameters.
    pub(crate) fn find_name(self) -> Self {
        // The questions of a task name it, and belong to the request for its result.
        let of_task = (self.method == method::GetTaskPayload::NAME).then_some("taskId");
        let param = method::mirrored_name_param(&self.method).or(of_task);
        self.named_by(param)
    }

    /// Sets the value that HTTP mirrors to the text of a parameter.
    pub(crate) fn named_by(mut self, param: Option<&str>) -> Self {
        if let Some(param) = param {
            self.name = text_of_member(&self.body.text, param);
        }
        self
    }
}

/// Returns the text of a member of a JSON object, without decoding the other members.
fn text_of_member(json: &str, name: &str) -> Option<Box<str>> {
    #[derive(Deserialize)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

    struct Member<'n>(&'n str);

    impl<'de> Visitor<'de> for Member<'_> {
        type Value = Option<&'de RawValue>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some((Name(name), value)) = map.next_entry::<Name<'de>, &'de RawValue>()? {
                if name == self.0 {
                    found = Some(value);
                }
            }
            Ok(found)
        }
    }

    let found = serde_json::Deserializer::from_str(json).deserialize_map(Member(name)).ok()??;
    serde_json::from_str(found.get()).ok()
}

/// Returns true if executing the method twice has the same effect as executing it once. For tools, their annotations
/// decide.
fn is_safe(method: &str) -> bool {
    use RequestName as Name;
    // Without a wildcard, so that a new method does not compile before this list names it.
    match Name::parse(method) {
        Some(Name::CallTool | Name::CancelTask | Name::UpdateTask) => false,
        // Requests of servers to clients.
        Some(Name::CreateMessage | Name::Elicit | Name::ListRoots) => false,
        Some(
            Name::Initialize
            | Name::Ping
            | Name::Discover
            | Name::Listen
            | Name::ListTools
            | Name::ListResources
            | Name::ListResourceTemplates
            | Name::ReadResource
            | Name::Subscribe
            | Name::Unsubscribe
            | Name::ListPrompts
            | Name::GetPrompt
            | Name::Complete
            | Name::SetLevel
            | Name::GetTask
            | Name::GetTaskPayload
            | Name::ListTasks
            | Name::ListSkills
            | Name::GetSkill
            | Name::ReadDirectory,
        ) => true,
        None => false,
    }
}

/// Parameters as JSON, without their metadata.
#[derive(Debug, Clone)]
pub(crate) struct Body {
    pub(crate) text: String,
    meta: Option<Meta>,
}

impl Body {
    fn new(params: &impl Serialize) -> Result<Self, String> {
        let text = serde_json::to_string(params).map_err(|error| error.to_string())?;
        if text == "null" {
            return Ok(Self { text: "{}".into(), meta: None });
        }
        if !text.starts_with('{') {
            return Err("the parameters of a request must be a JSON object".into());
        }
        static MEMBER: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("_meta"));
        // Most requests have no metadata, and only pay for this search.
        if !MEMBER.may_have(text.as_bytes()) {
            return Ok(Self { text, meta: None });
        }
        let mut members = RawMembers::read(&text).map_err(|error| error.to_string())?;
        let Some(meta) = members.remove("_meta") else { return Ok(Self { text, meta: None }) };
        let meta: Option<JsonObject> =
            serde_json::from_str(meta.get()).map_err(|error| format!("`_meta` must be a JSON object: {error}"))?;
        Ok(Self { text: members.write(), meta: meta.map(Meta) })
    }
}

/// The metadata that all requests of a connection share.
#[derive(Debug, Clone)]
pub(crate) struct MetaTemplate {
    /// The serialized members, each with a trailing comma.
    members: Vec<u8>,
    version: ProtocolVersion,
}

impl MetaTemplate {
    /// Returns the metadata of a stateless revision; empty for revisions with a handshake.
    pub(crate) fn new(version: ProtocolVersion, capabilities: &ClientCapabilities, info: &Implementation) -> Self {
        if !version.is_stateless() {
            return Self { members: Vec::new(), version };
        }
        let (mut capabilities, mut info) = (capabilities.clone(), info.clone());
        capabilities.shape(version);
        info.shape(version);
        let mut members = Vec::new();
        push_member(&mut members, keys::PROTOCOL_VERSION, &version);
        push_member(&mut members, keys::CLIENT_CAPABILITIES, &capabilities);
        push_member(&mut members, keys::CLIENT_INFO, &info);
        Self { members, version }
    }
}

/// The members that one attempt adds to a request.
#[derive(Debug, Default)]
pub(crate) struct RequestExtras<'a> {
    pub(crate) wants_progress: bool,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) meta: Option<&'a Meta>,
    /// The input responses of a repeated request.
    pub(crate) inputs: Option<&'a InputResponses>,
    /// Asks for a task (2025-11-25).
    pub(crate) task: Option<&'a TaskMetadata>,
}

/// The members of a repeated request: the input responses, and the state that the server sent.
#[derive(Debug, Clone, Default)]
pub(crate) struct InputResponses {
    pub(crate) responses: Option<JsonObject>,
    pub(crate) state: Option<String>,
}

/// The bytes beside the parameters and the shared metadata for which a request has memory from its start.
const SPARE: usize = 192;

/// Serializes a request in the form of the revision of its metadata.
pub(crate) fn write_request(
    id: i64,
    request: &Request,
    meta_template: &MetaTemplate,
    extra: &RequestExtras<'_>,
) -> Vec<u8> {
    // The server rejects a body whose names are not valid Unicode.
    let shaped = shape_params(&request.method, &request.body.text, meta_template.version).unwrap_or_default();
    let params = shaped.as_deref().unwrap_or(&request.body.text);
    let is_stateless = meta_template.version.is_stateless();
    let mut out = Vec::with_capacity(params.len() + meta_template.members.len() + SPARE);
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    push_json(&mut out, &id);
    out.extend_from_slice(b",\"method\":");
    push_json(&mut out, &request.method);
    out.extend_from_slice(b",\"params\":{");
    // Raw parameters can contain white space between the braces.
    out.extend_from_slice(params[1..params.len() - 1].trim_ascii().as_bytes());
    if let Some(inputs) = extra.inputs {
        separate(&mut out);
        if let Some(responses) = &inputs.responses {
            push_member(&mut out, "inputResponses", responses);
        }
        if let Some(state) = &inputs.state {
            push_member(&mut out, "requestState", state);
        }
        trim(&mut out);
    }
    if let Some(task) = extra.task {
        separate(&mut out);
        push_member(&mut out, "task", task);
        trim(&mut out);
    }
    let before = out.len();
    separate(&mut out);
    out.extend_from_slice(b"\"_meta\":{");
    let first = out.len();
    out.extend_from_slice(&meta_template.members);
    if extra.wants_progress {
        push_member(&mut out, keys::PROGRESS_TOKEN, &id);
    }
    if let Some(level) = extra.log_level.filter(|_| is_stateless) {
        push_member(&mut out, keys::LOG_LEVEL, &level);
    }
    // The later of two equal keys counts. Callers cannot overwrite the reserved keys.
    let merged: JsonObject;
    let given: Option<&JsonObject> = match (&request.body.meta, extra.meta) {
        (Some(own), Some(added)) => {
            merged = own.iter().chain(added.iter()).map(|(key, value)| (key.clone(), value.clone())).collect();
            Some(&merged)
        }
        (own, added) => own.as_ref().or(added).map(|meta| &meta.0),
    };
    for (key, value) in given.into_iter().flat_map(|meta| meta.iter()) {
        let is_ours = match key.as_str() {
            keys::PROTOCOL_VERSION | keys::CLIENT_CAPABILITIES | keys::CLIENT_INFO => is_stateless,
            keys::PROGRESS_TOKEN => true,
            keys::LOG_LEVEL => extra.log_level.is_some() && is_stateless,
            _ => false,
        };
        if !is_ours {
            push_member(&mut out, key, value);
        }
    }
    if out.len() == first {
        // The request has no metadata.
        out.truncate(before);
    } else {
        trim(&mut out);
        out.push(b'}');
    }
    out.extend_from_slice(b"}}");
    out
}

/// Adds a comma, unless the object is empty.
fn separate(out: &mut Vec<u8>) {
    if !out.ends_with(b"{") {
        out.push(b',');
    }
}

/// Removes a trailing comma.
fn trim(out: &mut Vec<u8>) {
    if out.ends_with(b",") {
        out.pop();
    }
}

fn push_member(out: &mut Vec<u8>, key: &str, value: &impl Serialize) {
    push_json(out, key);
    out.push(b':');
    push_json(out, value);
    out.push(b',');
}

fn push_json(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let start = out.len();
    // Wire types and JSON values can always be serialized.
    if serde_json::to_writer(&mut *out, value).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "it is called with literals")]
    fn check(params: Value, meta_template: &MetaTemplate, extra: &RequestExtras<'_>, expected: Value) {
        let made = Request::new("m", &params).unwrap();
        let bytes = write_request(7, &made, meta_template, extra);
        let read: Value =
            serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&bytes)));
        assert_eq!(read, json!({"jsonrpc": "2.0", "id": 7, "method": "m", "params": expected}));
    }

    #[test]
    fn raw_parameters_keep_their_bytes_beside_the_metadata() {
        let raw = |params: &str| RawValue::from_string(params.to_owned()).unwrap();
        let legacy =
            MetaTemplate::new(ProtocolVersion::V2025_11_25, &ClientCapabilities::new(), &Implementation::new("c", "1"));
        let progress = RequestExtras { wants_progress: true, ..RequestExtras::default() };
        for (params, expected) in [
            (
                r#"{"a":{"_meta":1,"n":12345678901234567890123,"m": 1e400}}"#,
                r#""a":{"_meta":1,"n":12345678901234567890123,"m": 1e400},"_meta":{"progressToken":7}"#,
            ),
            (r#"{"n":1.50,"\u005fmeta":{"progressToken":9,"k":1}}"#, r#""n":1.50,"_meta":{"progressToken":7,"k":1}"#),
            (r#"{"_meta":{"progressToken":9},"\u005fmeta":null}"#, r#""_meta":{"progressToken":7}"#),
        ] {
            let request = Request::new("x/y", &raw(params)).unwrap();
            let bytes = write_request(7, &request, &legacy, &progress);
            let expected = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"x/y","params":{{{expected}}}}}"#);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        }
        for invalid in [r#"{"\u005fmeta":7}"#, r#"{"_meta":[]}"#] {
            assert!(Request::new("x/y", &raw(invalid)).is_err(), "{invalid}");
        }
    }

    #[test]
    fn generated_metadata_is_merged_with_given_metadata() {
        let capabilities = ClientCapabilities::new();
        let legacy = MetaTemplate::new(ProtocolVersion::V2025_11_25, &capabilities, &Implementation::new("c", "1"));
        let modern = MetaTemplate::new(ProtocolVersion::V2026_07_28, &capabilities, &Implementation::new("c", "1"));
        let stamped = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}
        });
        let with = |key: &str, value: Value| {
            let mut meta = stamped.clone();
            meta[key] = value;
            meta
        };
        let none = RequestExtras::default();
        check(Value::Null, &legacy, &none, json!({}));
        check(json!({"a": 1}), &legacy, &none, json!({"a": 1}));
        check(json!({}), &modern, &none, json!({"_meta": stamped}));
        let progress = RequestExtras { wants_progress: true, ..RequestExtras::default() };
        check(json!({}), &legacy, &progress, json!({"_meta": {"progressToken": 7}}));
        check(
            json!({"a": {"_meta": 1}}),
            &modern,
            &progress,
            json!({"a": {"_meta": 1}, "_meta": with("progressToken", 7.into())}),
        );
        // Reserved keys cannot be overwritten.
        let given = json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "x", "k": 1, "progressToken": "mine"}});
        check(given, &modern, &progress, {
            let mut meta = with("progressToken", 7.into());
            meta["k"] = 1.into();
            json!({ "_meta": meta })
        });
        let meta = Meta::new().with("k", 2);
        let both = RequestExtras { meta: Some(&meta), log_level: Some(LoggingLevel::Info), ..RequestExtras::default() };
        check(json!({"_meta": {"k": 1}}), &legacy, &both, json!({"_meta": {"k": 2}}));
        let inputs = InputResponses { responses: Some(JsonObject::new().with("q", 1)), state: Some("s".into()) };
        let retry = RequestExtras { inputs: Some(&inputs), ..RequestExtras::default() };
        check(json!({"a": 1}), &legacy, &retry, json!({"a": 1, "inputResponses": {"q": 1}, "requestState": "s"}));
        check(json!({}), &legacy, &retry, json!({"inputResponses": {"q": 1}, "requestState": "s"}));
        let mut task = TaskMetadata::new();
        task.ttl = Some(5);
        let task = RequestExtras { task: Some(&task), inputs: Some(&inputs), ..RequestExtras::default() };
        let expected = json!({"inputResponses": {"q": 1}, "requestState": "s", "task": {"ttl": 5}});
        check(json!({}), &legacy, &task, expected);
        let nothing = InputResponses::default();
        let retry = RequestExtras { inputs: Some(&nothing), ..RequestExtras::default() };
        check(json!({"a": 1}), &legacy, &retry, json!({"a": 1}));
    }

    #[test]
    fn raw_parameters_may_have_any_whitespace() {
        let meta_template =
            MetaTemplate::new(ProtocolVersion::V2026_07_28, &ClientCapabilities::new(), &Implementation::new("c", "1"));
        for (raw, expected) in [("{ }", json!({})), ("{\n  \"a\" : 1\r\n}", json!({"a": 1})), (" { } ", json!({}))] {
            let raw: Box<RawValue> = serde_json::from_str(raw).unwrap();
            let extra = RequestExtras { wants_progress: true, ..RequestExtras::default() };
            let bytes = write_request(7, &Request::new("m", &raw).unwrap(), &meta_template, &extra);
            let mut read: Value = serde_json::from_slice(&bytes).unwrap();
            let params = read["params"].as_object_mut().unwrap();
            assert!(params.remove("_meta").unwrap()["progressToken"] == 7);
            assert_eq!(Value::from(params.clone()), expected, "{raw}");
        }
    }

    #[test]
    fn parameters_must_be_an_object() {
        assert!(Request::new("m", &json!([1])).is_err());
        assert!(Request::new("m", &json!({"_meta": 1})).is_err());
        assert!(Request::new("m", &json!({"_meta": null})).unwrap().body.meta.is_none());
    }

    #[test]
    fn safe_methods_are_recognized() {
        for (method, expected) in [
            ("tools/list", true),
            ("resources/read", true),
            ("tools/call", false),
            ("tasks/cancel", false),
            ("tasks/get", true),
            ("tasks/update", false),
            ("x/y", false),
        ] {
            assert_eq!(is_safe(method), expected, "{method}");
        }
    }

    #[test]
    fn a_raw_request_is_mirrored_as_a_typed_one() {
        let request = Request::new("resources/read", &json!({"uri": "a:b"})).unwrap().find_name();
        assert_eq!(request.name.as_deref(), Some("a:b"));
        assert!(Request::new("tools/list", &json!({"name": "x"})).unwrap().find_name().name.is_none());
        for (params, expected) in [
            (r#"{"n\u0061me":"a\nb","arguments":{"name":"c"}}"#, Some("a\nb")),
            (r#"{"name":"a","name":"b"}"#, Some("b")),
            (r#"{"name":7}"#, None),
            (r#"{"arguments":{"name":"c"}}"#, None),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
            let request = Request::new("tools/call", &raw).unwrap().find_name();
            assert_eq!(request.name.as_deref(), expected, "{params}");
        }
    }
}
