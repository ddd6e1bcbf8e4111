//! Attacks on the authentication of an endpoint. Each row is one request that must not reach a handler.
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "a failed step ends the test")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use mcp_auth::{ApiKeys, Chain, Jwt, hash_api_key};
use mcp_protocol::Principal;
use mcp_server_core::{Server, TaskSupport, prompt, resource, tool};
use mcp_server_http::{HttpConfig, HttpServer, McpService};
use ring::hmac;
use serde_json::{Value, json};

use crate::common::{initialize, legacy, listen, notification, request, send, stateless};

const PUBLIC: &str = "https://mcp.example.com/mcp";
const ISSUER: &str = "https://as.example";
const SECRET: &[u8] = b"hunter2-hunter2-hunter2-hunter2!";
const PEPPER: &[u8] = b"pepper-pepper-16";
const KEY: &str = "hunter2-key";

fn encode(text: impl AsRef<[u8]>) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(text)
}

fn sign(secret: &[u8], header: &Value, claims: &str) -> String {
    let message = format!("{}.{}", encode(header.to_string()), encode(claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", encode(tag))
}

fn claims(change: &Value) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let mut claims = json!({
        "iss": ISSUER, "sub": "bob", "aud": PUBLIC, "iat": now - 10, "exp": now + 3_600, "scope": "base"
    });
    for (name, value) in change.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

/// Returns a token with a valid signature and changed claims.
fn token(change: Value) -> String {
    sign(SECRET, &json!({ "alg": "HS256" }), &claims(&change).to_string())
}

fn with_header(change: Value) -> String {
    let mut header = json!({ "alg": "HS256" });
    header.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    sign(SECRET, &header, &claims(&json!({})).to_string())
}

fn service(calls: &Arc<AtomicUsize>) -> McpService {
    let counted = |calls: &Arc<AtomicUsize>| {
        let calls = Arc::clone(calls);
        move || {
            calls.fetch_add(1, Ordering::SeqCst);
            std::future::ready("reached")
        }
    };
    let server = Server::builder("test", "1")
        .tool(tool("open", counted(calls)))
        .tool(tool("admin", counted(calls)).requires_scopes(["admin"]))
        .tool(tool("job", counted(calls)).task(TaskSupport::Required))
        .resource(resource("secret://r", counted(calls)).requires_scopes(["admin"]))
        .prompt(prompt("secret", counted(calls)).requires_scopes(["admin"]))
        .build();
    let keys =
        ApiKeys::new().pepper(PEPPER).unwrap().hashed_key(&hash_api_key(PEPPER, KEY), Principal::new("ann")).unwrap();
    let auth = Chain::new().with(Jwt::hs256(ISSUER, SECRET).unwrap()).with(keys);
    server.into_service(HttpConfig::new().public_url(PUBLIC).authenticate(auth))
}

type Made = Request<Full<Bytes>>;

/// A call of the open tool with headers. Two headers may have one name.
fn call(headers: &[(&'static str, &str)]) -> Made {
    add(stateless("tools/call", json!({ "name": "open" }), &[]), headers)
}

fn add(mut made: Made, headers: &[(&'static str, &str)]) -> Made {
    for (name, value) in headers {
        if *name == "host" {
            made.headers_mut().insert(*name, value.parse().unwrap());
        } else {
            made.headers_mut().append(*name, value.parse().unwrap());
        }
    }
    made
}

fn bearer(token: &str) -> Made {
    call(&[("authorization", &format!("Bearer {token}"))])
}

fn at(mut made: Made, uri: &str) -> Made {
    *made.uri_mut() = uri.parse().unwrap();
    made
}

#[tokio::test]
async fn attacks_reach_no_handler_and_learn_no_secret() {
    let calls: Arc<AtomicUsize> = Arc::default();
    let service = service(&calls);
    let good = token(json!({}));
    let valid = format!("Bearer {good}");
    let parts: Vec<&str> = good.split('.').collect();
    let known = |made: Made| add(made, &[("authorization", &valid)]);
    // Bob attacks a session and a task of the caller with the key.
    let own = |made: Made| add(made, &[("x-api-key", KEY)]);
    let session = send(&service, own(initialize())).await.header("mcp-session-id").unwrap().to_owned();
    let params = json!({ "name": "job", "task": {} });
    let task = send(&service, own(legacy(Some(&session), "tools/call", params))).await.json();
    let task = task["result"]["task"]["taskId"].as_str().unwrap().to_owned();
    let his = send(&service, known(initialize())).await.header("mcp-session-id").unwrap().to_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let doubled = claims(&json!({})).to_string().replacen('{', r#"{"sub":"root","#, 1);
    let admin = claims(&json!({ "scope": "admin" })).to_string();
    let mut batch = notification(&his, "x", json!({}));
    *batch.body_mut() = Full::from(json!([{ "jsonrpc": "2.0", "id": 1, "method": "ping" }]).to_string());
    let other_name =
        add(stateless("tools/call", json!({ "name": "admin" }), &[("mcp-name", "open")]), &[("authorization", &valid)]);

    let rows: Vec<(&str, Made, u16)> = vec![
        // Credentials at other places.
        ("no credentials", call(&[]), 401),
        ("empty header", call(&[("authorization", "")]), 401),
        ("scheme alone", call(&[("authorization", "Bearer")]), 400),
        ("token in the query", at(call(&[]), &format!("/mcp?access_token={good}")), 401),
        ("key in the query", at(call(&[]), &format!("/mcp?x-api-key={KEY}")), 401),
        ("token in a cookie", call(&[("cookie", &format!("access_token={good}"))]), 401),
        ("token in another header", call(&[("x-authorization", &valid)]), 401),
        ("proxy credentials", call(&[("proxy-authorization", &valid)]), 401),
        ("identity in a header", call(&[("x-user", "ann"), ("x-forwarded-user", "ann"), ("remote-user", "ann")]), 401),
        (
            "token as a password",
            call(&[("authorization", &format!("Basic {}", BASE64_STANDARD.encode(format!("bob:{good}"))))]),
            401,
        ),
        ("token as an API key", call(&[("x-api-key", &good)]), 401),
        ("key as a token", bearer(KEY), 401),
        ("token with the DPoP scheme", call(&[("authorization", &format!("DPoP {good}"))]), 401),
        ("two tokens", call(&[("authorization", &valid), ("authorization", &valid)]), 400),
        ("a token and a wrong token", call(&[("authorization", &valid), ("authorization", "Bearer x")]), 400),
        ("two tokens in one header", call(&[("authorization", &format!("{valid}, {valid}"))]), 400),
        ("token with a space", bearer(&format!("{good} x")), 400),
        ("token with a suffix", bearer(&format!("{good}x")), 401),
        ("long token", bearer(&"a".repeat(9_000)), 401),
        ("huge token", bearer(&"a".repeat(17_000)), 431),
        // Keys.
        ("wrong key", call(&[("x-api-key", "hunter3-key")]), 401),
        ("empty key", call(&[("x-api-key", "")]), 400),
        ("two keys", call(&[("x-api-key", KEY), ("x-api-key", KEY)]), 400),
        ("prefix of a key", call(&[("x-api-key", &KEY[..5])]), 401),
        ("key with a suffix", call(&[("x-api-key", &format!("{KEY}x"))]), 401),
        ("key of other case", call(&[("x-api-key", &KEY.to_uppercase())]), 401),
        ("hash of a key", call(&[("x-api-key", &hash_api_key(b"pepper", KEY))]), 401),
        // Forged tokens.
        ("no signature", bearer(&format!("{}.{}.", encode(r#"{"alg":"none"}"#), parts[1])), 401),
        ("signature removed", bearer(&format!("{}.{}.", parts[0], parts[1])), 401),
        ("changed claims", bearer(&format!("{}.{}.{}", parts[0], encode(&admin), parts[2])), 401),
        ("other secret", bearer(&sign(b"x", &json!({ "alg": "HS256" }), &admin)), 401),
        ("empty secret", bearer(&sign(b"", &json!({ "alg": "HS256" }), &admin)), 401),
        ("algorithm of other keys", bearer(&with_header(json!({ "alg": "RS256" }))), 401),
        (
            "own key in the header",
            bearer(&with_header(json!({ "jwk": { "kty": "oct", "k": "AA" }, "alg": "HS384" }))),
            401,
        ),
        ("critical extension", bearer(&with_header(json!({ "crit": ["x"], "x": 1 }))), 401),
        ("type of another token", bearer(&with_header(json!({ "typ": "logout+jwt" }))), 401),
        ("duplicate subject", bearer(&sign(SECRET, &json!({ "alg": "HS256" }), &doubled)), 401),
        // Tokens for other purposes.
        ("other issuer", bearer(&token(json!({ "iss": "https://evil.example" }))), 401),
        ("other audience", bearer(&token(json!({ "aud": "https://other.example/mcp" }))), 401),
        ("audience of the host", bearer(&token(json!({ "aud": "https://mcp.example.com" }))), 401),
        ("audience with a slash", bearer(&token(json!({ "aud": "https://mcp.example.com/mcp/" }))), 401),
        ("no audience", bearer(&token(json!({ "aud": null }))), 401),
        ("expired", bearer(&token(json!({ "exp": now - 61 }))), 401),
        ("no expiry", bearer(&token(json!({ "exp": null }))), 401),
        ("not yet valid", bearer(&token(json!({ "nbf": now + 3_600 }))), 401),
        ("no subject", bearer(&token(json!({ "sub": null }))), 401),
        ("bound to a key", bearer(&token(json!({ "cnf": { "jkt": "k" } }))), 401),
        (
            "audience of a forwarded host",
            add(
                bearer(&token(json!({ "aud": "https://evil.example/mcp" }))),
                &[
                    ("x-forwarded-host", "evil.example"),
                    ("x-forwarded-proto", "https"),
                    ("forwarded", "host=evil.example"),
                ],
            ),
            401,
        ),
        (
            "audience of the Host header",
            add(bearer(&token(json!({ "aud": "https://evil.example/mcp" }))), &[("host", "evil.example")]),
            403,
        ),
        // Valid callers without access.
        ("tool without the scope", known(stateless("tools/call", json!({ "name": "admin" }), &[])), 403),
        ("resource without the scope", known(stateless("resources/read", json!({ "uri": "secret://r" }), &[])), 403),
        ("prompt without the scope", known(stateless("prompts/get", json!({ "name": "secret" }), &[])), 403),
        (
            "subscription without the scope",
            known(legacy(Some(&his), "resources/subscribe", json!({ "uri": "secret://r" }))),
            403,
        ),
        ("name of another tool in the header", other_name, 400),
        ("batch without credentials", batch, 401),
        ("request of a foreign session", known(legacy(Some(&session), "ping", json!({}))), 404),
        ("stream of a foreign session", known(listen(&session)), 404),
        ("end of a foreign session", known(request(Method::DELETE, &[("mcp-session-id", &session)], "")), 404),
        ("session without credentials", legacy(Some(&session), "ping", json!({})), 401),
        ("stream without credentials", listen(&session), 401),
        ("end without credentials", request(Method::DELETE, &[("mcp-session-id", &session)], ""), 401),
        ("page of a foreign origin", add(bearer(&good), &[("origin", "https://evil.example")]), 403),
        ("request for a foreign host", add(bearer(&good), &[("host", "evil.example")]), 403),
    ];
    assert!(rows.len() >= 60);
    let before = calls.load(Ordering::SeqCst);
    // The authenticator knows the result of the second request without a wait.
    let twice = rows.into_iter().flat_map(|(name, made, status)| [(name, made.clone(), status), (name, made, status)]);
    for (name, made, status) in twice {
        let answer = send(&service, made).await;
        assert_eq!(answer.status.as_u16(), status, "{name}: {answer:?}");
        let shown = format!("{answer:?}");
        for secret in ["hunter2", parts[2], &session, &task] {
            assert!(!shown.contains(secret), "{name}: {shown}");
        }
    }
    // A foreign task is an unknown task.
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let foreign = send(&service, known(legacy(Some(&his), method, json!({ "taskId": task })))).await;
        assert!(foreign.json()["error"].is_object(), "{method}");
    }
    assert_eq!(calls.load(Ordering::SeqCst), before);
    // The same requests with valid credentials reach the handler.
    for made in
        [bearer(&good), call(&[("x-api-key", KEY)]), add(call(&[]), &[("authorization", &format!("ApiKey {KEY}"))])]
    {
        assert_eq!(send(&service, made).await.status, StatusCode::OK);
    }
    assert_eq!(calls.load(Ordering::SeqCst), before + 3);
}

/// A task belongs to a tool. A caller that lost the scopes of the tool cannot use the task.
#[tokio::test]
async fn tasks_require_the_scopes_of_their_tool() {
    let server = Server::builder("test", "1")
        .tool(tool("job", async || "done").task(TaskSupport::Required).requires_scopes(["admin"]))
        .build();
    let config = HttpConfig::new().public_url(PUBLIC).authenticate(Jwt::hs256(ISSUER, SECRET));
    let service = server.into_service(config);
    let [strong, weak] = ["base admin", "base"].map(|scope| format!("Bearer {}", token(json!({ "scope": scope }))));
    let with = |made: Made, credential: &str| add(made, &[("authorization", credential)]);
    let session = send(&service, with(initialize(), &strong)).await.header("mcp-session-id").unwrap().to_owned();
    let made = with(legacy(Some(&session), "tools/call", json!({ "name": "job", "task": {} })), &strong);
    let task = send(&service, made).await.json()["result"]["task"]["taskId"].clone();
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let denied = send(&service, with(legacy(Some(&session), method, json!({ "taskId": task })), &weak)).await;
        assert_eq!(denied.status, StatusCode::FORBIDDEN, "{method}");
        let challenge = denied.header("www-authenticate").unwrap();
        assert!(challenge.starts_with(r#"Bearer error="insufficient_scope", scope="admin""#), "{challenge}");
    }
    let list = send(&service, with(legacy(Some(&session), "tasks/list", json!({})), &weak)).await;
    assert_eq!(list.json()["result"]["tasks"], json!([]));
    let result = send(&service, with(legacy(Some(&session), "tasks/result", json!({ "taskId": task })), &strong)).await;
    assert_eq!(result.json()["result"]["content"][0]["text"], "done");
}
