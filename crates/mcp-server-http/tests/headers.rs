//! Mirrored headers: the server compares each of them with the body.

use crate::common;
use crate::common::{request, send, service, stateless};
use http::{HeaderValue, Method, StatusCode};
use mcp_protocol::{Principal, ProtocolVersion, RpcError};
use mcp_server_core::{
    Args, Parameter, ParameterType, RawArgs, Server, prompt, resource,
    source::{Source, SourceCall, SourceDefinition, SourceList, SourceOutcome, SourceResult},
    template, tool,
};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

/// A tool with parameters of each kind that headers mirror, one of them deep in an object.
fn mirroring() -> McpService {
    let schema = json!({
        "type": "object",
        "properties": {
            "text": { "type": "string", "x-mcp-header": "Text" },
            "count": { "type": "integer", "x-mcp-header": "Count" },
            "flag": { "type": "boolean", "x-mcp-header": "Flag" },
            "deep": {
                "type": "object",
                "properties": { "er": { "type": "string", "x-mcp-header": "Deeper" } },
            },
        },
    });
    let show = async |RawArgs(args): RawArgs| Value::from(args).to_string();
    Server::builder("test", "1.0").tool(tool("show", show).input_schema(schema)).build().into_service(HttpConfig::new())
}

#[tokio::test]
async fn compares_mirrored_arguments_by_type() {
    let service = mirroring();
    for (arguments, header, value, fits) in [
        (json!({ "count": 42 }), "mcp-param-count", "42", true),
        (json!({ "count": 42 }), "mcp-param-count", "42.0", true),
        (json!({ "count": 42.0 }), "mcp-param-count", "42", true),
        (json!({ "count": 42 }), "mcp-param-count", "43", false),
        (json!({ "count": 42 }), "mcp-param-count", "forty-two", false),
        (json!({ "count": 42 }), "mcp-param-count", "-", false),
        (json!({ "count": 9_007_199_254_740_991_i64 }), "mcp-param-count", "9007199254740991", true),
        (json!({ "count": 9_007_199_254_740_993_i64 }), "mcp-param-count", "9007199254740993", false),
        (json!({ "flag": true }), "mcp-param-flag", "true", true),
        (json!({ "flag": true }), "mcp-param-flag", "True", false),
        (json!({ "flag": false }), "mcp-param-flag", "0", false),
        (json!({ "text": "" }), "mcp-param-text", "", true),
        (json!({ "text": "" }), "mcp-param-text", "-", false),
        (json!({ "text": "a\tb" }), "mcp-param-text", "=?base64?YQli?=", true),
        (json!({ "text": "=?base64?eA==?=" }), "mcp-param-text", "=?base64?PT9iYXNlNjQ/ZUE9PT89?=", true),
        (json!({ "text": "=?base64?eA==?=" }), "mcp-param-text", "=?base64?eA==?=", false),
        (json!({ "deep": { "er": "x" } }), "mcp-param-deeper", "x", true),
        (json!({ "deep": { "er": "x" } }), "mcp-param-deeper", "-", false),
        (json!({ "deep": {} }), "mcp-param-deeper", "-", true),
        (json!({ "deep": {} }), "mcp-param-deeper", "x", false),
        (json!({}), "mcp-param-text", "-", true),
        (json!({}), "mcp-param-text", "x", false),
        (json!({}), "mcp-param-text", "", false),
        (json!({ "text": null }), "mcp-param-text", "null", false),
        (json!({ "unknown": 1 }), "mcp-param-unknown", "2", true),
    ] {
        let call = stateless("tools/call", json!({ "name": "show", "arguments": arguments }), &[(header, value)]);
        let answer = send(&service, call).await;
        let expected = if fits { (200, None) } else { (400, Some(-32020)) };
        assert_eq!((answer.status.as_u16(), answer.error_code()), expected, "{arguments} {value}: {answer:?}");
        assert!(
            fits || answer.json()["error"]["message"].as_str().unwrap().to_lowercase().contains(header),
            "{answer:?}"
        );
    }
}

/// Serves one tool from JSON.
struct Mirroring(SourceDefinition);

impl Source for Mirroring {
    fn find(&self, list: SourceList, name: &str, _caller: Option<&Principal>) -> Option<SourceDefinition> {
        (list == SourceList::Tools && name == "show").then(|| self.0.clone())
    }

    fn call_tool(&self, _call: SourceCall) -> mcp_transport::BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        let result = SourceResult::new(r#"{"content":[]}"#, ProtocolVersion::V2025_11_25);
        Box::pin(std::future::ready(Ok(SourceOutcome::Complete(result))))
    }
}

#[tokio::test]
async fn compares_mirrored_arguments_of_a_tool_of_a_source() {
    let schema = json!({ "type": "object", "properties": { "text": { "type": "string", "x-mcp-header": "Text" } } });
    let tool = SourceDefinition::of(&json!({ "name": "show", "inputSchema": schema })).unwrap();
    let service = Server::builder::<()>("test", "1.0").source(Mirroring(tool)).build().into_service(HttpConfig::new());
    for (name, header, fits) in [("show", "a", true), ("show", "b", false), ("unknown", "b", true)] {
        let params = json!({ "name": name, "arguments": { "text": "a" } });
        let answer = send(&service, stateless("tools/call", params, &[("mcp-param-text", header)])).await;
        let expected = if fits { (200, None) } else { (400, Some(-32020)) };
        assert_eq!((answer.status.as_u16(), answer.error_code()), expected, "{name} {header}: {answer:?}");
    }
}

#[tokio::test]
async fn a_null_argument_expects_no_header() {
    // The schema allows no null, so the call fails, but as a call: the headers were in order.
    let call = stateless("tools/call", json!({ "name": "show", "arguments": { "text": null } }), &[]);
    let answer = send(&mirroring(), call).await;
    assert_eq!((answer.status, &answer.json()["result"]["isError"]), (StatusCode::OK, &json!(true)));
}

#[tokio::test]
async fn decodes_only_the_exact_base64_marker() {
    let service = mirroring();
    for (header, text) in [
        ("=?base64?SGVsbG8=?=", "Hello"),
        ("=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        ("=?Base64?SGVsbG8=?=", "=?Base64?SGVsbG8=?="),
        ("=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        ("SGVsbG8=?=", "SGVsbG8=?="),
        ("=?base64?", "=?base64?"),
    ] {
        let call = json!({ "name": "show", "arguments": { "text": text } });
        let answer = send(&service, stateless("tools/call", call, &[("mcp-param-text", header)])).await;
        assert_eq!(answer.status, StatusCode::OK, "{header}: {answer:?}");
    }
    for header in ["=?base64?SGVsbG8?=", "=?base64?SGVs bG8=?=", "=?base64?_-8=?=", "=?base64?/w==?=", "=?base64?A?="] {
        let call = json!({ "name": "show", "arguments": { "text": "Hello" } });
        let answer = send(&service, stateless("tools/call", call, &[("mcp-param-text", header)])).await;
        assert_eq!((answer.status.as_u16(), answer.error_code()), (400, Some(-32020)), "{header}");
    }
}

#[derive(Deserialize, JsonSchema)]
struct Path {
    path: String,
}

fn naming() -> McpService {
    Server::builder("test", "1.0")
        .tool(tool("safe", async || "safe"))
        .tool(tool("danger", async || "danger"))
        .resource(resource("test://ü", async || "resource"))
        .resource_template(template("file:///{path}", async |Args(Path { path }): Args<Path>| path))
        .prompt(prompt("review", async || "prompt"))
        .build()
        .into_service(HttpConfig::new())
}

#[tokio::test]
async fn compares_the_mirrored_name_of_every_method() {
    let service = naming();
    for (method, params, name) in [
        ("tools/call", json!({ "name": "safe" }), "safe"),
        ("prompts/get", json!({ "name": "review" }), "review"),
        ("resources/read", json!({ "uri": "file:///a" }), "file:///a"),
        ("resources/read", json!({ "uri": "test://ü" }), "=?base64?dGVzdDovL8O8?="),
    ] {
        for (header, status) in [(name, 200), ("other", 400), ("-", 400), ("", 400)] {
            let answer = send(&service, stateless(method, params.clone(), &[("mcp-name", header)])).await;
            assert_eq!(answer.status.as_u16(), status, "{method} {header:?}: {answer:?}");
            assert!(status == 200 || answer.error_code() == Some(-32020), "{answer:?}");
        }
    }
    // Methods without a name need no header.
    assert_eq!(send(&service, stateless("tools/list", json!({}), &[])).await.status, StatusCode::OK);
}

#[tokio::test]
async fn another_member_does_not_bypass_the_comparison_of_the_name() {
    let service = naming();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    for extra in [r#""uri":5"#, r#""uri":1,"uri":2"#, r#""taskId":[],"taskId":{}"#, r#""name2":"safe""#] {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"danger",{extra},{meta}}}}}"#);
        let mut headers = common::BASE.to_vec();
        headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "safe")]);
        let answer = send(&service, request(Method::POST, &headers, body.clone())).await;
        assert_eq!((answer.status.as_u16(), answer.error_code()), (400, Some(-32020)), "{extra}: {answer:?}");
        // The server accepts the same call with the name of the body.
        headers.retain(|(name, _)| *name != "mcp-name");
        headers.push(("mcp-name", "danger"));
        let answer = send(&service, request(Method::POST, &headers, body)).await;
        assert_eq!(answer.status, StatusCode::OK, "{extra}: {answer:?}");
    }
    // Two names are no name.
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"safe","name":"danger",{meta}}}}}"#
    );
    let mut headers = common::BASE.to_vec();
    headers.extend([("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "safe")]);
    let answer = send(&service, request(Method::POST, &headers, body)).await;
    assert_eq!(answer.error_code(), Some(-32602), "{answer:?}");
}

#[tokio::test]
async fn header_names_are_case_insensitive_and_values_are_not() {
    let endpoint = common::socket::serve(&common::server(), HttpConfig::new()).await;
    let raw =
        common::socket::raw(stateless("tools/call", json!({ "name": "echo", "arguments": { "text": "x" } }), &[]))
            .await;
    let text = String::from_utf8(raw).unwrap();
    let shouted = text
        .replace("mcp-protocol-version:", "MCP-PROTOCOL-VERSION:")
        .replace("mcp-method:", "mCp-MeThOd: \t")
        .replace("mcp-name: echo", "Mcp-Name:echo \t ");
    assert_ne!(shouted, text);
    let mut connection = endpoint.connect().await;
    connection.write(shouted).await;
    assert_eq!(connection.answer().await.status, StatusCode::OK);
    connection.write(text.replace("mcp-name: echo", "mcp-name: Echo")).await;
    assert_eq!(connection.answer().await.error_code(), Some(-32020));
}

#[tokio::test]
async fn rejects_a_repeated_mirrored_header() {
    let service = service();
    for name in ["mcp-protocol-version", "mcp-method", "mcp-name", "mcp-param-region"] {
        let call = json!({ "name": "region", "arguments": { "region": "eu" } });
        let mut twice = stateless("tools/call", call, &[("mcp-param-region", "eu")]);
        let value = twice.headers()[name].clone();
        assert_eq!(send(&service, twice.clone()).await.status, StatusCode::OK);
        twice.headers_mut().append(name, value);
        let answer = send(&service, twice).await;
        assert_eq!((answer.status.as_u16(), answer.error_code()), (400, Some(-32020)), "{name}");
    }
}

#[tokio::test]
async fn the_error_of_a_missing_revision_header_contains_a_hint() {
    let server = || Server::builder("test", "1.0").tool(tool("safe", async || "safe"));
    let both_eras = || server().build().into_service(HttpConfig::new());
    let without_sessions = || server().build().into_service(HttpConfig::new().sessionless());
    let stateless_only = || server().versions([ProtocolVersion::LATEST]).build().into_service(HttpConfig::new());
    let without_header = || {
        let mut list = stateless("tools/list", json!({}), &[]);
        list.headers_mut().remove("mcp-protocol-version");
        list
    };
    let legacy_only = || server().versions([ProtocolVersion::LATEST_LEGACY]).build().into_service(HttpConfig::new());
    let unknown_without_header = || {
        let meta = json!({ "io.modelcontextprotocol/protocolVersion": "1999-01-01" });
        let mut list = stateless("tools/list", json!({ "_meta": meta }), &[]);
        list.headers_mut().remove("mcp-protocol-version");
        list
    };
    let without_both = || {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }).to_string();
        request(Method::POST, &common::BASE, body)
    };
    let without_meta = || {
        let mut list = without_both();
        list.headers_mut().insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
        list
    };
    let header = "the header MCP-Protocol-Version is missing: without a session, send `MCP-Protocol-Version: 2026-07-28`, and \
                  the same revision in `_meta`";
    let session = "the header Mcp-Session-Id is missing: open a session by `initialize`, or send MCP-Protocol-Version: \
                   2026-07-28 and the revision in `_meta`";
    let without_hint = "the header MCP-Protocol-Version is missing";
    let meta = "`_meta[\"io.modelcontextprotocol/protocolVersion\"]` is missing";
    for (service, request, code, text) in [
        (both_eras(), without_header(), -32020, header),
        (both_eras(), without_both(), -32600, session),
        (both_eras(), without_meta(), -32602, meta),
        (without_sessions(), without_header(), -32020, header),
        (without_sessions(), without_meta(), -32602, meta),
        (both_eras(), unknown_without_header(), -32020, header),
        (legacy_only(), without_header(), -32020, without_hint),
        (stateless_only(), without_header(), -32020, header),
        (stateless_only(), without_both(), -32020, header),
        (stateless_only(), without_meta(), -32602, meta),
    ] {
        let answer = send(&service, request).await;
        assert_eq!((answer.status.as_u16(), answer.error_code()), (400, Some(code)), "{answer:?}");
        assert_eq!(answer.json()["error"]["message"], text);
    }
}

#[tokio::test]
async fn never_returns_request_values_in_headers() {
    let service = service();
    let evil = "2026-07-28\u{e9}";
    for (name, value) in
        [("mcp-protocol-version", "1999-01-01"), ("mcp-protocol-version", evil), ("mcp-session-id", "forged")]
    {
        for method in [Method::POST, Method::GET, Method::DELETE] {
            let mut headers = common::BASE.to_vec();
            headers.push((name, value));
            let answer = send(&service, request(method, &headers, r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)).await;
            assert!(answer.status.is_client_error());
            assert!(answer.headers.values().all(|echoed| echoed.as_bytes() != value.as_bytes()), "{answer:?}");
        }
    }
}

#[tokio::test]
async fn a_default_value_expects_no_header() {
    let parameter = Parameter::new("region", ParameterType::String).default_value("eu").header("Region");
    let run = async |RawArgs(arguments): RawArgs| arguments["region"].to_string();
    let server = Server::builder("test", "1").tool(tool("run", run).parameters([parameter])).build();
    let service = server.into_service(HttpConfig::new());
    let answer = send(&service, stateless("tools/call", json!({ "name": "run", "arguments": {} }), &[])).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "\"eu\"", "{answer:?}");
}
