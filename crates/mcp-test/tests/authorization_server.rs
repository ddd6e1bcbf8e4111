//! The test authorization server over HTTP: a login, tokens for a resource server, faults of responses, the shutdown.

#![expect(clippy::unwrap_used, reason = "a failure of a helper fails the test")]

use std::time::{Duration, SystemTime};

use axum::{Router, routing::get};
use http::{HeaderMap, HeaderValue, Method, header};
use mcp_auth::{
    AuthRequest, Authenticator, Dpop, Introspection, Jwt, Rejection,
    jose::{self, SigningKey},
};
use mcp_fetch::{Fetch, FetchErrorKind};
use mcp_protocol::auth::client_assertion_type;
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, RegisteredClient, ResponseFault};
use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const RESOURCE: &str = "http://127.0.0.1:9000/mcp";
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

fn fetch() -> Fetch {
    Fetch::builder().allow_loopback(true).timeout(Duration::from_secs(10)).build()
}

/// Sends a GET without following redirects, and returns the head of the response.
async fn head_of(issuer: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(issuer.strip_prefix("http://").unwrap()).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut response)).await.unwrap().unwrap();
    response.split("\r\n\r\n").next().unwrap().to_owned()
}

/// Authenticates a token as a resource server does.
async fn authenticate(auth: &impl Authenticator, token: &str) -> Result<String, Rejection> {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("Bearer {token}")).unwrap());
    let authenticated = auth.authenticate(&AuthRequest::new(&Method::POST, RESOURCE, &headers)).await?;
    Ok(authenticated.principal.subject.clone())
}

#[tokio::test]
async fn a_client_registers_logs_in_and_calls_a_resource_server() {
    let server = AuthorizationServer::builder().auto_approve().subject("alice").start().await.unwrap();
    let fetch = fetch();
    let metadata = fetch.get(&format!("{}/.well-known/oauth-authorization-server", server.issuer())).await.unwrap();
    let metadata: Value = metadata.json().unwrap();
    assert_eq!(metadata["issuer"], server.issuer());
    let registration = json!({
        "redirect_uris": ["http://127.0.0.1/callback"], "token_endpoint_auth_method": "none",
        "grant_types": ["authorization_code", "refresh_token"],
    });
    let url = metadata["registration_endpoint"].as_str().unwrap();
    let client: Value = fetch.post_json(url, &registration, HeaderMap::new()).await.unwrap().json().unwrap();
    let client_id = client["client_id"].as_str().unwrap();
    let query = format!(
        "response_type=code&client_id={client_id}&redirect_uri=http://127.0.0.1:5555/callback&code_challenge={CHALLENGE}\
         &code_challenge_method=S256&resource={RESOURCE}"
    );
    let head = head_of(server.issuer(), &format!("/authorize?{query}")).await;
    let (_, code) = head.split_once("location: http://127.0.0.1:5555/callback?code=").expect(&head);
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", client_id),
        ("code", &code[..43]),
        ("code_verifier", VERIFIER),
        ("redirect_uri", "http://127.0.0.1:5555/callback"),
    ];
    let url = metadata["token_endpoint"].as_str().unwrap();
    let tokens: Value = fetch.post_form(url, &form, None).await.unwrap().json().unwrap();
    let auth = Jwt::issuer(server.issuer()).unwrap().audience(RESOURCE);
    assert_eq!(authenticate(&auth, tokens["access_token"].as_str().unwrap()).await.unwrap(), "alice");
    let counts = [Endpoint::Registration, Endpoint::Authorization, Endpoint::Token, Endpoint::Keys];
    assert_eq!(counts.map(|endpoint| server.count(endpoint)), [1, 1, 1, 1]);
    server.stop().await;
}

#[tokio::test]
async fn a_resource_server_rejects_faulty_tokens() {
    for (misbehavior, expected) in [
        (None, Ok("bob")),
        (Some(Misbehavior::WrongAudience), Err(401)),
        (Some(Misbehavior::UnknownKeyId), Err(401)),
        (Some(Misbehavior::NoKeys), Err(401)),
        (Some(Misbehavior::HugeKeySet), Err(503)),
        (Some(Misbehavior::Response(Endpoint::Keys, ResponseFault::Status(500))), Err(503)),
        (Some(Misbehavior::WrongIssuer), Err(503)),
    ] {
        let server = AuthorizationServer::builder().start().await.unwrap();
        let auth = Jwt::issuer(server.issuer()).unwrap().audience(RESOURCE);
        if let Some(misbehavior) = &misbehavior {
            server.misbehave(misbehavior.clone());
        }
        let token = server.issue_token("bob", ["read"], RESOURCE).await.unwrap();
        let result = authenticate(&auth, &token).await.map_err(|rejection| rejection.status().as_u16());
        assert_eq!(result.as_deref(), expected.as_ref().map(|subject| *subject), "{misbehavior:?}");
    }
}

#[tokio::test]
async fn a_resource_server_checks_opaque_tokens() {
    let client = RegisteredClient::with_secret("mcp-server", "hunter2");
    let server = AuthorizationServer::builder().opaque_tokens().client(client).start().await.unwrap();
    let auth = Introspection::issuer(server.issuer(), "mcp-server", "hunter2").unwrap().audience(RESOURCE);
    let token = server.issue_token("alice", ["read"], RESOURCE).await.unwrap();
    assert_eq!(authenticate(&auth, &token).await.unwrap(), "alice");
    assert!(matches!(authenticate(&auth, "unknown").await, Err(Rejection::Invalid)));
    let other = server.issue_token("alice", ["read"], "http://127.0.0.1:9000/other").await.unwrap();
    assert!(matches!(authenticate(&auth, &other).await, Err(Rejection::Invalid)));
    assert_eq!(server.count(Endpoint::Introspection), 3);
}

#[tokio::test]
async fn the_id_of_a_client_can_be_the_url_of_its_document() {
    let server = AuthorizationServer::builder().auto_approve().start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let id = format!("http://{}/client.json", listener.local_addr().unwrap());
    let document = json!({"client_id": id, "client_name": "Test", "redirect_uris": ["http://127.0.0.1/callback"]});
    let other = json!({"client_id": id.replace("client", "other"), "redirect_uris": ["https://evil.example/callback"]});
    let router = Router::new()
        .route("/client.json", get(async move || document.to_string()))
        .route("/other.json", get(async move || other.to_string()))
        .route("/wrong.json", get(async || json!({"client_id": "x", "redirect_uris": []}).to_string()));
    let serving = tokio::spawn(async move { mcp_http_listener::serve(listener, router).await });
    let authorize = async |id: &str| {
        let query = format!(
            "response_type=code&client_id={id}&redirect_uri=http://127.0.0.1:5/callback&code_challenge={CHALLENGE}\
             &code_challenge_method=S256"
        );
        head_of(server.issuer(), &format!("/authorize?{query}")).await
    };
    let head = authorize(&id).await;
    let (_, code) = head.split_once("location: http://127.0.0.1:5/callback?code=").expect(&head);
    let form = [
        ("grant_type", "authorization_code"),
        ("client_id", &*id),
        ("code", &code[..43]),
        ("code_verifier", VERIFIER),
        ("redirect_uri", "http://127.0.0.1:5/callback"),
    ];
    let tokens = fetch().post_form(&format!("{}/token", server.issuer()), &form, None).await.unwrap();
    assert_eq!(tokens.status(), 200);
    for name in ["other", "wrong", "missing"] {
        let head = authorize(&id.replace("client", name)).await;
        assert!(head.starts_with("HTTP/1.1 4") && !head.contains("location"), "{name} {head}");
    }
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    // The document is in the cache, and a document that is not in the cache is away for a moment.
    assert!(authorize(&id).await.contains("code="));
    assert!(authorize(&id.replace("client", "new")).await.starts_with("HTTP/1.1 503"));
}

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().cloned().unwrap()
}

fn seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// Signs a proof for a POST, with the hash of an access token if there is one.
fn proof(key: &SigningKey, target: &str, token: Option<&str>) -> HeaderValue {
    let mut claims =
        object(&json!({"htm": "POST", "htu": target, "iat": seconds(), "jti": jose::random_text().unwrap()}));
    claims.extend(token.map(|token| ("ath".to_owned(), jose::sha256(token.as_bytes()).into())));
    let header = object(&json!({"typ": "dpop+jwt", "jwk": key.jwk()}));
    HeaderValue::try_from(key.sign(&header, &claims).unwrap()).unwrap()
}

#[tokio::test]
async fn a_resource_server_accepts_a_bound_token_with_its_key_only() {
    let client = RegisteredClient::with_secret("service", "hunter2");
    let server = AuthorizationServer::builder().require_dpop().client(client).start().await.unwrap();
    let (key, other) = (SigningKey::generate().unwrap(), SigningKey::generate().unwrap());
    let url = format!("{}/token", server.issuer());
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", "service"),
        ("client_secret", "hunter2"),
        ("resource", RESOURCE),
    ];
    let headers = HeaderMap::from_iter([("dpop".parse().unwrap(), proof(&key, &url, None))]);
    let tokens: Value = fetch().post_form_with(&url, &form, headers).await.unwrap().json().unwrap();
    assert_eq!(tokens["token_type"], "DPoP");
    let token = tokens["access_token"].as_str().unwrap();
    let auth = Dpop::new(Jwt::issuer(server.issuer()).unwrap().audience(RESOURCE));
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, HeaderValue::try_from(format!("DPoP {token}")).unwrap());
    for (key, expected) in [(&key, Ok("service")), (&other, Err(401))] {
        headers.insert("dpop", proof(key, RESOURCE, Some(token)));
        let result = auth.authenticate(&AuthRequest::new(&Method::POST, RESOURCE, &headers)).await;
        let result = result.map(|authenticated| authenticated.principal.subject.clone());
        let result = result.map_err(|rejection| rejection.status().as_u16());
        assert_eq!(result.as_deref(), expected.as_ref().map(|subject| *subject));
    }
    assert!(authenticate(&auth, token).await.is_err(), "a bound token is not a bearer token");
}

#[tokio::test]
async fn the_keys_of_a_client_can_be_at_a_url() {
    let server = AuthorizationServer::builder().start().await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let keys_url = format!("http://{}/keys", listener.local_addr().unwrap());
    let key = SigningKey::generate().unwrap();
    let keys = json!({"keys": [key.jwk()]});
    let router = Router::new().route("/keys", get(async move || keys.to_string()));
    let serving = tokio::spawn(async move { mcp_http_listener::serve(listener, router).await });
    let registration = json!({
        "grant_types": ["client_credentials"], "token_endpoint_auth_method": "private_key_jwt", "jwks_uri": keys_url,
    });
    let url = format!("{}/register", server.issuer());
    let client: Value = fetch().post_json(&url, &registration, HeaderMap::new()).await.unwrap().json().unwrap();
    assert_eq!(client.get("client_secret"), None);
    let id = client["client_id"].as_str().unwrap();
    let token_url = format!("{}/token", server.issuer());
    let request = async || {
        let claims = json!({
            "iss": id, "sub": id, "aud": server.issuer(), "exp": seconds() + 60, "jti": jose::random_text().unwrap(),
        });
        let assertion = key.sign(&Map::new(), &object(&claims)).unwrap();
        let form = [
            ("grant_type", "client_credentials"),
            ("client_assertion_type", client_assertion_type::JWT_BEARER),
            ("client_assertion", &*assertion),
        ];
        fetch().post_form(&token_url, &form, None).await.unwrap().status().as_u16()
    };
    assert_eq!(request().await, 200);
    serving.abort();
    assert!(serving.await.unwrap_err().is_cancelled());
    assert_eq!(request().await, 503);
}

#[tokio::test]
async fn faults_of_responses_reach_the_client() {
    let server = AuthorizationServer::builder().start().await.unwrap();
    let url = format!("{}/jwks", server.issuer());
    let fetch = Fetch::builder().allow_loopback(true).timeout(Duration::from_secs(5)).build();
    let elsewhere = "http://127.0.0.1:1/".to_owned();
    for (fault, expected) in [
        (ResponseFault::Status(500), Ok(500)),
        (ResponseFault::Status(0), Ok(500)),
        (ResponseFault::Unavailable { retry_after: Duration::from_secs(7) }, Ok(503)),
        (ResponseFault::Html, Ok(200)),
        (ResponseFault::Slow(Duration::from_millis(1)), Ok(200)),
        (ResponseFault::Redirect(elsewhere), Err(FetchErrorKind::Redirect)),
        (ResponseFault::Huge, Err(FetchErrorKind::TooLarge)),
        (ResponseFault::Truncated, Err(FetchErrorKind::Connection)),
    ] {
        server.misbehave_times(Misbehavior::Response(Endpoint::Keys, fault.clone()), 1);
        let result = fetch.get(&url).await;
        if let (ResponseFault::Unavailable { .. }, Ok(response)) = (&fault, &result) {
            assert_eq!(response.headers()[header::RETRY_AFTER], "7");
        }
        let result = result.map(|response| response.status().as_u16()).map_err(|error| error.kind());
        assert_eq!(result, expected, "{fault:?}");
    }
    let quick = Fetch::builder().allow_loopback(true).timeout(Duration::from_millis(50)).build();
    server.misbehave_times(Misbehavior::Response(Endpoint::Keys, ResponseFault::Slow(Duration::from_secs(60))), 1);
    assert_eq!(quick.get(&url).await.unwrap_err().kind(), FetchErrorKind::TimedOut);
    assert_eq!(fetch.get(&url).await.unwrap().status(), 200);
}

#[tokio::test]
async fn a_body_that_is_too_long_is_rejected() {
    let server = AuthorizationServer::builder().start().await.unwrap();
    let form = [("code", "x".repeat(70_000))];
    let form = form.each_ref().map(|(name, value)| (*name, value.as_str()));
    let response = fetch().post_form(&format!("{}/token", server.issuer()), &form, None).await.unwrap();
    assert_eq!(response.status(), 413);
}

#[tokio::test]
async fn the_drop_of_the_server_closes_its_port() {
    let server = AuthorizationServer::builder().start().await.unwrap();
    let url = format!("{}/jwks", server.issuer());
    assert_eq!(fetch().get(&url).await.unwrap().status(), 200);
    drop(server);
    let closed = async {
        while fetch().get(&url).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), closed).await.unwrap();
}
