//! The endpoint with each provider, without a socket.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use mcp_server::http::{HttpServer as _, McpService};
use mcp_test::authorization_server::RunningAuthorizationServer;
use serde_json::{Value, json};

use crate::{
    cli::{self, Command, Options, Provider},
    configured,
    credentials::{Authentication, Credentials},
    server::server,
};

const URL: &str = "http://127.0.0.1:8080/mcp";

/// An endpoint, and the authorization server that the drop of this value stops.
struct Endpoint {
    service: McpService,
    credentials: Credentials,
    authorization_server: Option<RunningAuthorizationServer>,
}

async fn endpoint(provider: Provider, anonymous: bool) -> Endpoint {
    let options = Options { port: 0, provider, auto_approve: true, anonymous };
    let Authentication { config, credentials, authorization_server } = configured(&options, URL).await.unwrap();
    Endpoint { service: server().into_service(config), credentials, authorization_server }
}

async fn send(
    service: &McpService,
    credential: Option<(&str, &str)>,
    method: &str,
    mut params: Value,
) -> (StatusCode, Value) {
    let name = params["name"].as_str().or(params["uri"].as_str()).unwrap_or_default().to_owned();
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
    });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut request = Request::post("/mcp")
        .header("host", "127.0.0.1:8080")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", method);
    if !name.is_empty() {
        request = request.header("mcp-name", name);
    }
    if let Some((name, value)) = credential {
        request = request.header(name, value);
    }
    let response = service.handle(request.body(Full::<Bytes>::from(message.to_string())).unwrap()).await;
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

#[tokio::test]
async fn each_provider_authenticates_its_three_callers() {
    for provider in [
        Provider::OAuth,
        Provider::Introspection,
        Provider::Static,
        Provider::ApiKey,
        Provider::Basic,
        Provider::JwtHs256,
    ] {
        let Endpoint { service, credentials, authorization_server } = endpoint(provider.clone(), false).await;
        let client = if authorization_server.is_some() { "direct" } else { "protected" };
        let values = credentials.values.clone().unwrap();
        for (value, subject, admin, scopes) in [
            (&values[0], "ann", StatusCode::FORBIDDEN, json!([])),
            (&values[1], "bob", StatusCode::FORBIDDEN, json!([])),
            (&values[2], "root", StatusCode::OK, json!(["admin", "reports"])),
        ] {
            let credential = Some((credentials.header, value.as_str()));
            let (status, answer) = send(&service, credential, "tools/call", json!({ "name": "whoami" })).await;
            let expected = json!({ "subject": subject, "client": client, "scopes": scopes });
            assert_eq!((status, &answer["result"]["structuredContent"]), (StatusCode::OK, &expected), "{provider:?}");
            for (method, params) in [
                ("tools/call", json!({ "name": "admin" })),
                ("resources/read", json!({ "uri": "secret://report" })),
                ("resources/read", json!({ "uri": "secret://report/2026" })),
                ("prompts/get", json!({ "name": "report" })),
            ] {
                let (status, answer) = send(&service, credential, method, params).await;
                assert_eq!(status, admin, "{provider:?} {subject} {method}: {answer}");
            }
        }
        let wrong = format!("{}x", values[0]);
        for credential in [None, Some((credentials.header, wrong.as_str()))] {
            for (method, params) in [("server/discover", json!({})), ("tools/call", json!({ "name": "public" }))] {
                let (status, _) = send(&service, credential, method, params).await;
                let is_refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::BAD_REQUEST);
                assert!(is_refused, "{provider:?} {method}: {status}");
            }
        }
    }
}

#[tokio::test]
async fn anonymous_callers_reach_the_open_parts_only() {
    let Endpoint { service, .. } = endpoint(Provider::Static, true).await;
    for (method, params, expected) in [
        ("server/discover", json!({}), 200),
        ("tools/list", json!({}), 200),
        ("resources/list", json!({}), 200),
        ("prompts/list", json!({}), 200),
        ("tools/call", json!({ "name": "public" }), 200),
        ("tools/call", json!({ "name": "whoami" }), 401),
        ("tools/call", json!({ "name": "slow" }), 401),
        ("tools/call", json!({ "name": "admin" }), 401),
        ("resources/read", json!({ "uri": "secret://report" }), 401),
        ("prompts/get", json!({ "name": "report" }), 401),
    ] {
        let (status, answer) = send(&service, None, method, params.clone()).await;
        assert_eq!(status.as_u16(), expected, "{method} {params}: {answer}");
    }
}

#[tokio::test]
async fn the_printed_line_has_all_credentials() {
    let Endpoint { credentials, .. } = endpoint(Provider::JwtHs256, false).await;
    let line = credentials.to_json(URL);
    assert_eq!((&line["url"], &line["issuer"], &line["header"]), (&json!(URL), &Value::Null, &json!("Authorization")));
    for value in [&line["value"], &line["others"]["second"], &line["others"]["admin"]] {
        assert!(value.as_str().unwrap().starts_with("Bearer ey"));
    }
    assert_eq!(line["secret"].as_str().map(str::len), Some(43));
    let issuer = "https://as.example".to_owned();
    let Endpoint { credentials, .. } = endpoint(Provider::Issuer(issuer.clone()), false).await;
    let line = credentials.to_json(URL);
    assert_eq!(
        (&line["issuer"], &line["value"], &line["others"]["admin"]),
        (&json!(issuer), &Value::Null, &Value::Null)
    );
}

#[test]
fn options_are_parsed() {
    let parse = |text: &str| cli::parse(text.split_whitespace().map(str::to_owned));
    let run = |port, provider, anonymous| Ok(Command::Run(Options { port, provider, auto_approve: false, anonymous }));
    let approving = Options { port: 8080, provider: Provider::OAuth, auto_approve: true, anonymous: false };
    for (text, expected) in [
        ("", run(8080, Provider::OAuth, false)),
        ("--provider oauth --auto-approve", Ok(Command::Run(approving))),
        ("--provider static", run(8080, Provider::Static, false)),
        ("--port 0 --provider api-key --anonymous", run(0, Provider::ApiKey, true)),
        (
            "--provider oauth --issuer https://as.example",
            run(8080, Provider::Issuer("https://as.example".into()), false),
        ),
        (
            "--issuer https://as.example --provider basic",
            Err("--issuer needs the provider oauth: the others do not accept tokens of an issuer".to_owned()),
        ),
        ("--help", Ok(Command::Help)),
        ("--port", Err("--port needs a value".to_owned())),
        ("--port x", Err("--port needs a number below 65536".to_owned())),
        (
            "--provider x",
            Err("unknown provider x: write oauth, introspection, jwt-hs256, api-key, basic or static".to_owned()),
        ),
        ("--x", Err("unknown argument --x".to_owned())),
    ] {
        assert_eq!(parse(text), expected, "{text}");
    }
}
