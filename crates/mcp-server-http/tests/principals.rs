//! Principals from an authentication layer: sessions, streams and tasks belong to their principal.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::{fmt::Write as _, sync::Arc};

use axum::{Router, body::Body as AxumBody, extract::Request as AxumRequest, middleware::map_request};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use mcp_auth::ApiKeys;
use mcp_protocol::Principal;
use mcp_server_core::{Inputs, Server, TaskSupport, ToolError, tool};
use mcp_server_http::{HttpConfig, HttpServer};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::common::{Answer, initialize, legacy, listen, notification, request, send, sse, stateless, within};

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

fn server() -> Server {
    Server::builder("test", "1")
        .tool(tool("who", async |caller: Option<Principal>| caller.map_or("nobody".into(), |caller| caller.subject)))
        .tool(tool("write", async || "written").requires_scopes(["write"]))
        .tool(tool("job", async || "done").task(TaskSupport::Required))
        .tool(tool("ask", async |inputs: Inputs| -> Result<String, ToolError> {
            let Name { name } = inputs.elicit("name", "Name?").await?;
            Ok(name)
        }))
        .limits(|limits| limits.listen_streams_per_principal = 1)
        .build()
}

/// The endpoint with a test layer that uses `x-user` as the principal.
struct App(Router);

impl App {
    fn new() -> Self {
        let config = HttpConfig::new().sse("/sse", "/messages");
        let authenticate = async |mut request: AxumRequest| {
            let user = request.headers().get("x-user").map(|user| user.to_str().unwrap().to_owned());
            match user.as_deref().map(|user| (user, Principal::new(user).with_scopes(["read"]))) {
                Some(("bob", bob)) => {
                    request.extensions_mut().insert(Arc::new(bob.with_scopes(["write"])));
                }
                Some((_, other)) => {
                    request.extensions_mut().insert(other);
                }
                None => {}
            }
            request
        };
        Self(server().into_router(config).layer(map_request(authenticate)))
    }

    async fn open(&mut self, caller: Option<&str>, mut request: Request<Full<Bytes>>) -> http::Response<AxumBody> {
        if let Some(caller) = caller {
            request.headers_mut().insert("x-user", caller.parse().unwrap());
        }
        within("the head", self.0.call(request.map(AxumBody::new))).await.unwrap()
    }

    async fn exchange(&mut self, caller: Option<&str>, request: Request<Full<Bytes>>) -> Answer {
        let (parts, body) = self.open(caller, request).await.into_parts();
        let body = within("the body", body.collect()).await.unwrap().to_bytes();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    /// Opens a session. Returns its id and the capabilities of the server.
    async fn session(&mut self, caller: Option<&str>) -> (String, Value) {
        let answer = self.exchange(caller, initialize()).await;
        (answer.header("mcp-session-id").unwrap().to_owned(), answer.json()["result"]["capabilities"].clone())
    }
}

fn call(name: &str) -> Value {
    json!({ "name": name })
}

const ADA: Option<&str> = Some("ada");
const BOB: Option<&str> = Some("bob");

#[tokio::test]
async fn handlers_receive_the_principal_and_scopes_are_enforced() {
    let mut app = App::new();
    for (caller, name) in [(ADA, "ada"), (BOB, "bob"), (None, "nobody")] {
        let (session, _) = app.session(caller).await;
        for made in [stateless("tools/call", call("who"), &[]), legacy(Some(&session), "tools/call", call("who"))] {
            assert_eq!(app.exchange(caller, made).await.json()["result"]["content"][0]["text"], name);
        }
        let expected = if caller == BOB { StatusCode::OK } else { StatusCode::FORBIDDEN };
        let written = app.exchange(caller, stateless("tools/call", call("write"), &[])).await;
        assert_eq!(written.status, expected, "{caller:?}");
        let written = app.exchange(caller, legacy(Some(&session), "tools/call", call("write"))).await;
        assert_eq!(written.status, expected, "{caller:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_callers_receive_their_own_principal() {
    let names: Vec<String> = (0..32).map(|number| format!("caller-{number}")).collect();
    let keys = names.iter().fold(ApiKeys::new(), |keys, name| keys.key(name, Principal::new(name)).unwrap());
    let config = HttpConfig::new().public_url("https://mcp.example.com/mcp").authenticate(keys);
    let service = server().into_service(config);
    let callers = names.into_iter().map(|name| {
        let service = service.clone();
        tokio::spawn(async move {
            let of_caller = |mut request: Request<Full<Bytes>>| {
                request.headers_mut().insert("x-api-key", name.parse().unwrap());
                request
            };
            let opened = send(&service, of_caller(initialize())).await;
            let session = opened.header("mcp-session-id").unwrap().to_owned();
            send(&service, of_caller(notification(&session, "notifications/initialized", json!({})))).await;
            for _ in 0..20 {
                for made in
                    [stateless("tools/call", call("who"), &[]), legacy(Some(&session), "tools/call", call("who"))]
                {
                    let answer = send(&service, of_caller(made)).await.json();
                    assert_eq!(answer["result"]["content"][0]["text"], name.as_str());
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        within("the calls", caller).await.unwrap();
    }
}

/// For other principals the response is byte-identical to that of an unknown session.
#[tokio::test]
async fn a_session_belongs_to_the_principal_that_opened_it() {
    let mut app = App::new();
    let uses = |session: &str| {
        let with = |method: Method, extra: &[(&str, &str)]| {
            let mut headers = vec![("accept", "text/event-stream"), ("mcp-session-id", session)];
            headers.extend_from_slice(extra);
            request(method, &headers, "")
        };
        let answer = json!({ "jsonrpc": "2.0", "id": 1, "result": {} }).to_string();
        let mut response = notification(session, "x", json!({}));
        *response.body_mut() = Full::from(answer);
        let mut again = initialize();
        again.headers_mut().insert("mcp-session-id", session.parse().unwrap());
        let mut batch = notification(session, "x", json!({}));
        *batch.body_mut() = Full::from(json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }]).to_string());
        [
            legacy(Some(session), "ping", json!({})),
            notification(session, "notifications/initialized", json!({})),
            response,
            batch,
            again,
            listen(session),
            with(Method::GET, &[("last-event-id", "1")]),
            with(Method::DELETE, &[]),
        ]
    };
    for (owner, others) in [(ADA, [BOB, None]), (None, [ADA, BOB])] {
        let (session, _) = app.session(owner).await;
        for other in others {
            for (mine, unknown) in uses(&session).into_iter().zip(uses("mcp_00000000000000000000000000000000")) {
                let what = format!("{} {:?} of {owner:?} by {other:?}", mine.method(), mine.body());
                let (mine, unknown) = (app.exchange(other, mine).await, app.exchange(other, unknown).await);
                assert_eq!(mine.status, StatusCode::NOT_FOUND, "{what}");
                assert_eq!(
                    (mine.status, mine.headers, mine.body),
                    (unknown.status, unknown.headers, unknown.body),
                    "{what}"
                );
            }
        }
        // The session and its stream still exist.
        let ping = app.exchange(owner, legacy(Some(&session), "ping", json!({}))).await;
        assert_eq!(ping.json()["result"], json!({}));
        assert_eq!(app.open(owner, listen(&session)).await.status(), StatusCode::OK);
    }
}

#[tokio::test]
async fn an_sse_stream_accepts_messages_only_from_its_principal() {
    let mut app = App::new();
    let mut stream = app.open(ADA, sse::get()).await.into_body();
    let mut text = String::new();
    while !text.ends_with("\n\n") {
        let frame = within("the endpoint", stream.frame()).await.unwrap().unwrap().into_data().unwrap();
        write!(text, "{}", std::str::from_utf8(&frame).unwrap()).unwrap();
    }
    let endpoint = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap().to_owned();
    let ping = || sse::post(&endpoint, &json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    let unknown = app.exchange(BOB, sse::post("/messages?sessionId=mcp_0", &json!({}))).await;
    for other in [BOB, None] {
        let refused = app.exchange(other, ping()).await;
        assert_eq!((refused.status, &refused.body), (StatusCode::NOT_FOUND, &unknown.body), "{other:?}");
    }
    assert_eq!(app.exchange(ADA, ping()).await.status, StatusCode::ACCEPTED);
    let frame = within("the answer", stream.frame()).await.unwrap().unwrap().into_data().unwrap();
    assert!(frame.ends_with(b"\"result\":{}}\n\n"), "{frame:?}");
}

/// A principal can list its tasks. Other principals cannot read them.
#[tokio::test]
async fn tasks_belong_to_a_principal() {
    let mut app = App::new();
    let (session, capabilities) = app.session(ADA).await;
    assert_eq!(capabilities["tasks"]["list"], json!({}));
    let params = json!({ "name": "job", "task": {} });
    let made = app.exchange(ADA, legacy(Some(&session), "tools/call", params)).await.json();
    let id = &made["result"]["task"]["taskId"];
    // In another session of hers as well, and in none of his.
    let (second, _) = app.session(ADA).await;
    let (his, _) = app.session(BOB).await;
    let result = app.exchange(ADA, legacy(Some(&second), "tasks/result", json!({ "taskId": id }))).await.json();
    assert_eq!(result["result"]["content"][0]["text"], "done");
    for (caller, session, count) in [(ADA, &second, 1), (BOB, &his, 0)] {
        let list = app.exchange(caller, legacy(Some(session), "tasks/list", json!({}))).await.json();
        assert_eq!(list["result"]["tasks"].as_array().map(Vec::len), Some(count), "{list}");
    }
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let foreign = app.exchange(BOB, legacy(Some(&his), method, json!({ "taskId": id }))).await.json();
        let unknown = app.exchange(BOB, legacy(Some(&his), method, json!({ "taskId": "none" }))).await.json();
        assert!(foreign["error"].is_object(), "{foreign}");
        assert_eq!(foreign, unknown, "{method}");
    }
}

#[tokio::test]
async fn rejects_request_state_of_another_principal() {
    let mut app = App::new();
    let exchange = |more: Value| {
        let mut params = json!({
            "name": "ask",
            "_meta": { "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} } },
        });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        stateless("tools/call", params, &[])
    };
    let first_round = app.exchange(ADA, exchange(json!({}))).await.json();
    let state = &first_round["result"]["requestState"];
    assert!(state.is_string(), "{first_round}");
    let answers = json!({ "name": { "action": "accept", "content": { "name": "Ada" } } });
    let again = || exchange(json!({ "requestState": state, "inputResponses": answers }));
    for other in [BOB, None] {
        assert_eq!(app.exchange(other, again()).await.error_code(), Some(-32602), "{other:?}");
    }
    assert_eq!(app.exchange(ADA, again()).await.json()["result"]["content"][0]["text"], "Ada");
}

#[tokio::test]
async fn each_principal_has_its_own_stream_limit() {
    let mut app = App::new();
    let listen_request =
        || stateless("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }), &[]);
    let is_stream = |response: &http::Response<AxumBody>| response.headers()["content-type"] == "text/event-stream";
    let of_ada = app.open(ADA, listen_request()).await;
    assert!(is_stream(&of_ada));
    assert!(!is_stream(&app.open(ADA, listen_request()).await));
    assert!(is_stream(&app.open(BOB, listen_request()).await));
}
