//! Authorization requests, the consent page, and codes.

use serde_json::json;

use super::*;
use crate::authorization_server::{Endpoint, Misbehavior};

#[tokio::test]
async fn a_login_ends_with_a_token_for_the_resource() {
    let machine = Machine::new(builder());
    let answer = machine.authorize(&[]).await;
    assert_eq!(answer.status(), StatusCode::SEE_OTHER);
    assert_eq!(answer.redirected("state").as_deref(), Some("s1"));
    assert_eq!(answer.redirected("iss").as_deref(), Some(ISSUER));
    let tokens = machine.redeem(&answer.redirected("code").unwrap(), &[("resource", RESOURCE)]).await;
    assert_eq!(tokens.status(), StatusCode::OK, "{tokens:?}");
    assert_eq!(tokens.header("cache-control"), Some("no-store"));
    assert_eq!((tokens.member("token_type"), tokens.member("scope")), ("Bearer", "read write"));
    assert_eq!(tokens.json["expires_in"], 3_600);
    let mut claims = object(machine.claims(tokens.member("access_token")).await);
    assert_eq!(claims.remove("jti").unwrap().as_str().unwrap().len(), 43);
    let now = clock::seconds(machine.now);
    let expected = json!({
        "iss": ISSUER, "sub": "alice", "aud": RESOURCE, "client_id": "app", "scope": "read write",
        "iat": now, "exp": now + 3_600,
    });
    assert_eq!(Value::Object(claims), expected);
    assert_eq!((machine.server.count(Endpoint::Authorization), machine.server.count(Endpoint::Token)), (1, 1));
    let requests = machine.server.requests();
    assert_eq!(requests[0].parameter("resource"), Some(RESOURCE));
    assert!(!format!("{requests:?}").contains(VERIFIER));
}

#[tokio::test]
async fn invalid_authorization_requests_return_an_error_to_the_client() {
    let machine = Machine::new(builder().resources([RESOURCE]));
    for (name, value, expected) in [
        ("response_type", "token", "unsupported_response_type"),
        ("response_type", "", "invalid_request"),
        ("response_mode", "fragment", "invalid_request"),
        ("code_challenge", "", "invalid_request"),
        ("code_challenge", "short", "invalid_request"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("code_challenge_method", "", "invalid_request"),
        ("scope", "admin", "invalid_scope"),
        ("resource", "https://other.example/mcp", "invalid_target"),
        ("resource", "not a URI", "invalid_target"),
        ("resource", "http://127.0.0.1:9000/mcp#x", "invalid_target"),
    ] {
        let answer = machine.authorize(&[(name, value)]).await;
        assert_eq!(answer.redirected("error").as_deref(), Some(expected), "{name}={value}");
        assert_eq!(answer.redirected("state").as_deref(), Some("s1"));
        assert_eq!(answer.redirected("iss").as_deref(), Some(ISSUER));
        assert_eq!(answer.redirected("code"), None);
    }
}

#[tokio::test]
async fn an_unknown_client_or_redirect_uri_is_not_redirected() {
    let machine = Machine::new(builder());
    for (name, value) in [
        ("client_id", "unknown"),
        ("client_id", ""),
        ("redirect_uri", "https://evil.example/callback"),
        ("redirect_uri", "http://127.0.0.1:7777/other"),
        ("redirect_uri", "<script>"),
        ("state", &"x".repeat(5_000)),
    ] {
        let answer = machine.authorize(&[(name, value)]).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{name}={value}");
        assert_eq!(answer.header("location"), None);
        assert!(!answer.text().contains("<script>"));
    }
    let twice = machine.get("/authorize?client_id=app&client_id=service").await;
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_code_is_bound_to_its_request() {
    let machine = Machine::new(builder().client(RegisteredClient::public("other").redirect_uri(REDIRECT_URI)));
    for (name, value, expected) in [
        ("code", "unknown", (400, "invalid_grant")),
        ("code", "", (400, "invalid_request")),
        ("code_verifier", "wrong-wrong-wrong-wrong-wrong-wrong-wrong-wrong", (400, "invalid_grant")),
        ("code_verifier", "short", (400, "invalid_grant")),
        ("code_verifier", CHALLENGE, (400, "invalid_grant")),
        ("code_verifier", "", (400, "invalid_request")),
        ("redirect_uri", "http://127.0.0.1:7778/callback", (400, "invalid_grant")),
        ("redirect_uri", "", (400, "invalid_grant")),
        ("client_id", "other", (400, "invalid_grant")),
        ("client_id", "unknown", (401, "invalid_client")),
        ("client_id", "service", (401, "invalid_client")),
        ("client_id", "", (401, "invalid_client")),
        ("resource", "https://other.example/mcp", (400, "invalid_target")),
        ("grant_type", "password", (400, "unsupported_grant_type")),
        ("grant_type", "", (400, "invalid_request")),
    ] {
        let code = machine.code().await;
        let answer = machine.redeem(&code, &[(name, value)]).await;
        assert_eq!(answer.error(), expected, "{name}={value}");
        // A failed attempt does not use up the code.
        assert_eq!(machine.redeem(&code, &[]).await.status(), StatusCode::OK, "{name}={value}");
    }
}

#[tokio::test]
async fn a_code_expires() {
    for (seconds, expected) in [(0, 200), (59, 200), (60, 400), (3_600, 400)] {
        let mut machine = Machine::new(builder());
        let code = machine.code().await;
        machine.advance(seconds);
        assert_eq!(machine.redeem(&code, &[]).await.status(), expected, "{seconds}");
    }
}

#[tokio::test]
async fn a_second_use_of_a_code_revokes_its_tokens() {
    let machine = Machine::new(builder());
    let code = machine.code().await;
    let tokens = machine.redeem(&code, &[]).await;
    assert_eq!(machine.redeem(&code, &[]).await.error(), (400, "invalid_grant"));
    let refreshed = machine.refresh(tokens.member("refresh_token"), &[]).await;
    assert_eq!(refreshed.error(), (400, "invalid_grant"));
}

#[tokio::test]
async fn one_of_several_concurrent_redemptions_succeeds() {
    let machine = Machine::new(builder().store(Arc::new(YieldingStore::default())));
    let code = machine.code().await;
    let attempts: Vec<_> = (0..8)
        .map(|_| {
            let (server, now, code) = (machine.server.clone(), machine.now, code.clone());
            tokio::spawn(async move { Machine { server, now }.redeem(&code, &[]).await })
        })
        .collect();
    let mut successes = Vec::new();
    for attempt in attempts {
        successes.extend(Some(attempt.await.unwrap()).filter(|answer| answer.status() == StatusCode::OK));
    }
    assert_eq!(successes.len(), 1, "{successes:?}");
    // The other redemptions revoked the tokens.
    let refreshed = machine.refresh(successes[0].member("refresh_token"), &[]).await;
    assert_eq!(refreshed.error(), (400, "invalid_grant"));
}

#[tokio::test]
async fn defaults_replace_missing_parameters() {
    let machine = Machine::new(builder().resources([RESOURCE, "https://other.example"]));
    let answer = machine.authorize(&[("redirect_uri", ""), ("scope", ""), ("resource", ""), ("state", "")]).await;
    assert_eq!(answer.redirected("state"), None);
    let code = answer.redirected("code").unwrap();
    let tokens = machine.redeem(&code, &[("redirect_uri", "")]).await;
    let claims = machine.claims(tokens.member("access_token")).await;
    assert_eq!((&claims["aud"], &claims["scope"]), (&json!(RESOURCE), &json!("read write")));

    let machine = Machine::new(builder());
    let code = machine.authorize(&[("resource", "")]).await.redirected("code").unwrap();
    let claims = machine.claims(machine.redeem(&code, &[]).await.member("access_token")).await;
    assert_eq!(claims["aud"], ISSUER);
}

#[tokio::test]
async fn several_resources_become_several_audiences() {
    let machine = Machine::new(builder());
    let answer = machine.authorize(&[("resource", RESOURCE), ("resource", "https://b.example/")]).await;
    let code = answer.redirected("code").unwrap();
    let tokens = machine.redeem(&code, &[]).await;
    assert_eq!(machine.claims(tokens.member("access_token")).await["aud"], json!([RESOURCE, "https://b.example/"]));
    let narrow = machine.refresh(tokens.member("refresh_token"), &[("resource", RESOURCE)]).await;
    assert_eq!(machine.claims(narrow.member("access_token")).await["aud"], RESOURCE);
}

#[tokio::test]
async fn codes_are_added_to_each_kind_of_redirect_uri() {
    for (uri, expected) in [
        ("com.example.app:/callback", "com.example.app:/callback?code="),
        ("com.example.app:callback", "com.example.app:callback?code="),
        ("https://app.example/callback?a=1", "https://app.example/callback?a=1&code="),
        ("http://127.0.0.1", "http://127.0.0.1/?code="),
    ] {
        let machine = Machine::new(builder().client(RegisteredClient::public("native").redirect_uri(uri)));
        let answer = machine.authorize(&[("client_id", "native"), ("redirect_uri", uri)]).await;
        assert!(answer.header("location").unwrap().starts_with(expected), "{answer:?}");
    }
}

/// A server that asks the user.
fn asking() -> Machine {
    let client = RegisteredClient::public("<b>app</b>").redirect_uri("https://app.example/callback");
    Machine::new(AuthorizationServer::builder().client(client))
}

/// Opens the consent page with the cookie of a browser. Returns the cookie and the number of the form.
async fn open(machine: &Machine, cookie: &str) -> (String, String) {
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("response_type", "code"),
            ("client_id", "<b>app</b>"),
            ("state", "s1"),
            ("code_challenge", CHALLENGE),
            ("code_challenge_method", "S256"),
        ])
        .finish();
    let request = Request::get(format!("/authorize?{query}")).header(header::COOKIE, cookie);
    let answer = machine.send(request.body(Bytes::new()).unwrap()).await;
    assert_eq!(answer.status(), StatusCode::OK, "{answer:?}");
    assert!(answer.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"));
    let html = answer.text();
    assert!(html.contains("&lt;b&gt;app&lt;/b&gt;") && html.contains("app.example") && !html.contains("<b>"), "{html}");
    let (_, rest) = html.split_once("name=\"request\" value=\"").unwrap();
    let cookie = answer.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax"), "{cookie}");
    (cookie.split(';').next().unwrap().to_owned(), rest[..43].to_owned())
}

async fn decide(machine: &Machine, cookie: &str, request: &str, decision: &str) -> Answer {
    let form = [("request", request), ("decision", decision)];
    machine.post("/authorize/decision", &form, &[("cookie", cookie)]).await
}

#[tokio::test]
async fn the_user_decides_once() {
    let machine = asking();
    for (decision, expected) in [("approve", "code"), ("deny", "error")] {
        let (cookie, request) = open(&machine, "").await;
        let answer = decide(&machine, &cookie, &request, decision).await;
        assert!(answer.redirected(expected).is_some(), "{decision} {answer:?}");
        assert_eq!(answer.redirected("state").as_deref(), Some("s1"));
        let again = decide(&machine, &cookie, &request, decision).await;
        assert_eq!((again.status(), again.header("location")), (StatusCode::BAD_REQUEST, None));
    }
}

#[tokio::test]
async fn the_form_is_valid_in_its_browser_only() {
    let mut machine = asking();
    let (cookie, request) = open(&machine, "").await;
    let (other_cookie, other_request) = open(&machine, "").await;
    assert_ne!(cookie, other_cookie);
    for (cookie, request, decision, expected) in [
        ("", request.as_str(), "approve", StatusCode::FORBIDDEN),
        (other_cookie.as_str(), request.as_str(), "approve", StatusCode::FORBIDDEN),
        (cookie.as_str(), other_request.as_str(), "approve", StatusCode::FORBIDDEN),
        (cookie.as_str(), "unknown", "approve", StatusCode::BAD_REQUEST),
        (cookie.as_str(), request.as_str(), "maybe", StatusCode::BAD_REQUEST),
    ] {
        let answer = decide(&machine, cookie, request, decision).await;
        assert_eq!((answer.status(), answer.header("location")), (expected, None), "{cookie} {request}");
    }
    // A second page in the same browser does not replace the first.
    let (same, second) = open(&machine, &cookie).await;
    assert_eq!(same, cookie);
    assert!(decide(&machine, &cookie, &request, "approve").await.redirected("code").is_some());
    machine.advance(600);
    assert_eq!(decide(&machine, &cookie, &second, "approve").await.status(), StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn faults_of_redirects_occur() {
    for (misbehavior, name, expected) in [
        (Misbehavior::WrongIss, "iss", Some("https://wrong.example")),
        (Misbehavior::IssWithSlash, "iss", Some("http://127.0.0.1:8000/")),
        (Misbehavior::IssNotDeclared, "iss", Some(ISSUER)),
        (Misbehavior::NoIss, "iss", None),
        (Misbehavior::ChangedState, "state", Some("changed")),
        (Misbehavior::ResourceRejected, "error", Some("invalid_target")),
    ] {
        let machine = Machine::new(builder().misbehave(misbehavior));
        assert_eq!(machine.authorize(&[]).await.redirected(name).as_deref(), expected, "{name}");
    }
}
