//! Providers that ask an issuer about each token, against an issuer on this machine.

#![allow(clippy::unwrap_used, reason = "helpers outside the test functions fail the test too")]

use std::{
    sync::{Arc, Mutex},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderMap, Method};
use mcp_auth::{
    ApiKeys, AuthRequest, Authenticated, Authenticator, BearerTokens, Chain, Dpop, GitHub, Introspection, Jwt,
    Rejection, TokenVerifier as _,
    jose::{self, SigningKey},
};
use mcp_protocol::{Principal, ProtectedResourceMetadata};
use ring::hmac;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const RESOURCE: &str = "https://mcp.example.com/mcp";
/// A time in the far future, in seconds since 1970.
const LATER: u64 = 4_000_000_000;

/// A request that the issuer received.
struct Seen {
    line: String,
    authorization: String,
    body: String,
}

/// An issuer that answers each token by a function.
struct Issuer {
    url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

type Answer = (&'static str, String);

impl Issuer {
    async fn start(answer: impl Fn(&str, &str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let (shared, base) = (Arc::clone(&seen), url.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                serve(stream, &base, &shared, &answer).await;
            }
        });
        Self { url, seen }
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().len()
    }
}

async fn serve(mut stream: TcpStream, base: &str, seen: &Mutex<Vec<Seen>>, answer: &impl Fn(&str, &str) -> Answer) {
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let read = stream.read_buf(&mut bytes).await.unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();
            let length: usize = header("content-length:").parse().unwrap_or(0);
            if body.len() >= length {
                break (head.to_owned(), body.to_owned());
            }
        }
        if read == 0 {
            return;
        }
    };
    let line = head.lines().next().unwrap_or_default().to_owned();
    let (status, text) = if line.starts_with("GET ") {
        let document = json!({"issuer": base, "introspection_endpoint": format!("{base}/introspect")});
        ("200 OK", document.to_string())
    } else {
        let authorization = head.lines().find_map(|line| line.strip_prefix("authorization: "));
        let authorization = authorization.unwrap_or_default().to_owned();
        let answered = answer(&line, &body);
        seen.lock().unwrap().push(Seen { line, authorization, body });
        answered
    };
    let extra = if status.starts_with("429") { "retry-after: 7\r\n" } else { "" };
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n{extra}connection: close\r\n\r\n", text.len());
    let _ = stream.write_all((head + &text).as_bytes()).await;
    let _ = stream.shutdown().await;
}

async fn check(auth: &dyn Authenticator, token: &str) -> Result<Arc<Principal>, Rejection> {
    let headers =
        HeaderMap::from_iter([("authorization".parse().unwrap(), format!("Bearer {token}").parse().unwrap())]);
    let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
    auth.authenticate(&request).await.map(|authenticated| authenticated.principal)
}

fn unavailable(seconds: u64) -> Rejection {
    Rejection::Unavailable { retry_after: Duration::from_secs(seconds) }
}

fn introspected(body: &str) -> Answer {
    let token = body.split('&').find_map(|pair| pair.strip_prefix("token=")).unwrap();
    let active = |more: Value| {
        let mut document = json!({
            "active": true, "sub": "user-7", "client_id": "c", "aud": RESOURCE, "exp": LATER, "scope": "read write",
            "token_type": "Bearer", "username": "ann",
        });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        ("200 OK", document.to_string())
    };
    match token {
        "good" => active(json!({})),
        "bare" => active(json!({"exp": null, "client_id": null})),
        "list" => active(json!({"aud": ["x", RESOURCE]})),
        "revoked" => ("200 OK", r#"{"active":false}"#.into()),
        "expired" => active(json!({"exp": 1})),
        "early" => active(json!({"nbf": LATER})),
        "foreign" => active(json!({"aud": "https://other.example/mcp"})),
        "no-audience" => active(json!({"aud": null})),
        "other-issuer" => active(json!({"iss": "https://evil.example"})),
        "nameless" => active(json!({"sub": null, "client_id": null})),
        "client" => active(json!({"sub": null})),
        "id-token" => active(json!({"token_type": "id_token"})),
        "refresh" => active(json!({"typ": "Refresh"})),
        "refresh-use" => active(json!({"token_use": "refresh_token"})),
        "access-use" => active(json!({"token_use": "access_token", "token_type": "DPoP", "typ": "Bearer"})),
        "bound" => active(json!({"cnf": {"jkt": "k"}})),
        "no-member" => ("200 OK", "{}".into()),
        "text-member" => ("200 OK", r#"{"active":"true"}"#.into()),
        "twice" => ("200 OK", r#"{"active":false,"active":true}"#.into()),
        "list-body" => ("200 OK", "[]".into()),
        "html" => ("200 OK", "<html>".into()),
        "denied" => ("401 Unauthorized", String::new()),
        "forbidden" => ("403 Forbidden", String::new()),
        "broken" => ("500 Internal Server Error", String::new()),
        "busy" => ("429 Too Many Requests", String::new()),
        "moved" => ("302 Found", String::new()),
        _ => ("200 OK", r#"{"active":false}"#.into()),
    }
}

#[tokio::test]
async fn an_issuer_checks_opaque_tokens() {
    let issuer = Issuer::start(|_, body| introspected(body)).await;
    let auth = Introspection::issuer(&issuer.url, "mcp server", "s:cret").unwrap();
    let principal = check(&auth, "good").await.unwrap();
    assert_eq!(principal.issuer.as_deref(), Some(&*issuer.url));
    assert_eq!((&*principal.subject, principal.client_id.as_deref()), ("user-7", Some("c")));
    assert!(principal.scopes.iter().eq(["read", "write"]) && principal.expires_at.is_some());
    assert_eq!((principal.scheme.as_deref(), &principal.claims["username"]), (Some("Bearer"), &json!("ann")));
    assert!(!principal.claims.contains_key("active") && !principal.claims.contains_key("token_type"));
    {
        let seen = issuer.seen.lock().unwrap();
        assert_eq!(seen[0].line, "POST /introspect HTTP/1.1");
        assert_eq!(seen[0].authorization, format!("Basic {}", BASE64_STANDARD.encode("mcp+server:s%3Acret")));
        assert_eq!(seen[0].body, "token=good&token_type_hint=access_token");
    }
    for (token, expected) in [
        ("bare", Ok(())),
        ("list", Ok(())),
        ("revoked", Err(Rejection::Invalid)),
        ("expired", Err(Rejection::Expired)),
        ("early", Err(Rejection::Invalid)),
        ("foreign", Err(Rejection::Invalid)),
        ("no-audience", Err(Rejection::Invalid)),
        ("other-issuer", Err(Rejection::Invalid)),
        ("nameless", Err(Rejection::Invalid)),
        ("client", Err(Rejection::Invalid)),
        ("id-token", Err(Rejection::Invalid)),
        ("refresh", Err(Rejection::Invalid)),
        ("refresh-use", Err(Rejection::Invalid)),
        ("access-use", Ok(())),
        ("bound", Err(Rejection::Invalid)),
        // An issuer that fails does not log clients out.
        ("no-member", Err(unavailable(5))),
        ("text-member", Err(unavailable(5))),
        ("twice", Err(unavailable(5))),
        ("list-body", Err(unavailable(5))),
        ("html", Err(unavailable(5))),
        ("denied", Err(unavailable(5))),
        ("forbidden", Err(unavailable(5))),
        ("broken", Err(unavailable(5))),
        ("busy", Err(unavailable(7))),
        ("moved", Err(unavailable(5))),
    ] {
        assert_eq!(check(&auth, token).await.map(|_| ()), expected, "{token}");
    }
    // Another provider checks the proof for a bound token.
    let bound = auth.verify_token("bound", RESOURCE).await.unwrap().principal;
    assert_eq!((bound.scheme.as_deref(), bound.confirmation.is_some()), (Some("DPoP"), true));
}

#[tokio::test]
async fn results_of_an_issuer_are_remembered_and_outages_are_not() {
    let issuer = Issuer::start(|_, body| introspected(body)).await;
    let url = format!("{}/check", issuer.url);
    let auth = Introspection::endpoint("https://as.example", url, "id", "secret").unwrap();
    for (token, requests) in
        [("good", 1), ("good", 1), ("revoked", 2), ("revoked", 2), ("broken", 3), ("broken", 4), ("good", 4)]
    {
        let _ = check(&auth, token).await;
        assert_eq!(issuer.requests(), requests, "{token}");
    }
    assert_eq!(check(&auth, "good").await.unwrap().issuer.as_deref(), Some("https://as.example"));
    assert_eq!(auth.authorization_servers(), ["https://as.example"]);
}

#[tokio::test]
async fn settings_of_introspection_apply() {
    let issuer = Issuer::start(|_, body| introspected(body)).await;
    let auth = || Introspection::issuer(&issuer.url, "id", "secret").unwrap();
    check(&auth().audience("https://other.example/mcp"), "foreign").await.unwrap();
    assert_eq!(check(&auth().audience("a"), "good").await, Err(Rejection::Invalid));
    let lenient = auth().dangerous_allow_missing_audience();
    check(&lenient, "no-audience").await.unwrap();
    assert_eq!(check(&lenient, "foreign").await, Err(Rejection::Invalid));
    let scopes = check(&auth().scope_claim("username"), "good").await.unwrap().scopes.clone();
    assert!(scopes.contains("ann"));
    for (result, expected) in [
        (Introspection::issuer("http://as.example", "a", "b"), "the URL of the issuer or its keys must begin with"),
        (Introspection::endpoint("x", "ftp://x", "a", "b"), "the URL of the issuer or its keys must begin with"),
    ] {
        let text = result.map(|_| ()).unwrap_err().to_string();
        assert!(text.starts_with(expected), "{text}");
    }
}

/// Returns the URL of a port on which nothing listens.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn an_issuer_that_is_away_is_unavailable() {
    let url = nowhere().await;
    let discovered = Introspection::issuer(&url, "id", "secret").unwrap();
    let fixed = Introspection::endpoint("https://as.example", &url, "id", "secret").unwrap();
    let github = GitHub::new("app", "secret").unwrap().enterprise(&url, &url).unwrap();
    let all: [&dyn Authenticator; 3] = [&discovered, &fixed, &github];
    for auth in all {
        assert_eq!(check(auth, "good").await, Err(unavailable(5)));
    }
}

fn checked(body: &str) -> Answer {
    let token = serde_json::from_str::<Value>(body).unwrap()["access_token"].as_str().unwrap().to_owned();
    let ok = |more: Value| {
        let mut document = json!({
            "id": 1, "app": {"client_id": "app", "name": "x"}, "scopes": ["repo"], "token": token, "expires_at": null,
            "user": {"id": 42, "login": "octocat"},
        });
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ("200 OK", document.to_string())
    };
    match &*token {
        "good" => ok(json!({})),
        "ending" => ok(json!({"expires_at": "2096-01-01T00:00:00Z", "scopes": null})),
        "ended" => ok(json!({"expires_at": "2020-01-01T00:00:00Z"})),
        "other-app" => ok(json!({"app": {"client_id": "other"}})),
        "no-user" => ok(json!({"user": null})),
        "bad-time" => ok(json!({"expires_at": "soon"})),
        "malformed" => ("200 OK", "[]".into()),
        "denied" => ("401 Unauthorized", String::new()),
        "limited" => ("429 Too Many Requests", String::new()),
        "broken" => ("502 Bad Gateway", String::new()),
        "spam" => ("422 Unprocessable Entity", String::new()),
        _ => ("404 Not Found", String::new()),
    }
}

#[tokio::test]
async fn github_checks_tokens_of_one_application() {
    let issuer = Issuer::start(|_, body| checked(body)).await;
    let github = GitHub::new("app", "secret").unwrap().enterprise(&issuer.url, &issuer.url).unwrap();
    let principal = check(&github, "good").await.unwrap();
    assert_eq!((&*principal.subject, principal.client_id.as_deref()), ("42", Some("app")));
    assert!(principal.scopes.iter().eq(["repo"]) && principal.expires_at.is_none());
    assert_eq!(principal.claims["login"], "octocat");
    {
        let seen = issuer.seen.lock().unwrap();
        assert_eq!(seen[0].line, "POST /applications/app/token HTTP/1.1");
        assert_eq!(seen[0].authorization, format!("Basic {}", BASE64_STANDARD.encode("app:secret")));
        assert_eq!(seen[0].body, r#"{"access_token":"good"}"#);
    }
    for (token, expected) in [
        ("good", Ok(())),
        ("ending", Ok(())),
        ("ended", Err(Rejection::Expired)),
        ("other-app", Err(Rejection::Invalid)),
        ("no-user", Err(Rejection::Invalid)),
        ("unknown", Err(Rejection::Invalid)),
        // 422 may mean too many requests, so the token may be valid.
        ("spam", Err(unavailable(5))),
        ("bad-time", Err(unavailable(5))),
        ("malformed", Err(unavailable(5))),
        ("denied", Err(unavailable(5))),
        ("limited", Err(unavailable(7))),
        ("broken", Err(unavailable(5))),
    ] {
        assert_eq!(check(&github, token).await.map(|_| ()), expected, "{token}");
    }
    assert_eq!(
        GitHub::new("a/../b", "s").map(|_| ()).unwrap_err().to_string(),
        "the client id contains an invalid character"
    );
    assert_eq!(GitHub::new("app", "s").unwrap().authorization_servers(), ["https://github.com/login/oauth"]);
}

/// Returns a token that is signed with HS256.
fn signed(secret: &[u8]) -> String {
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let claims = json!({"iss": "https://as.example", "aud": RESOURCE, "sub": "signed", "exp": LATER});
    let message = format!("{}.{}", encode(r#"{"alg":"HS256"}"#), encode(&claims.to_string()));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag))
}

#[tokio::test]
async fn an_issuer_receives_no_token_that_a_provider_of_this_machine_accepts() {
    const SECRET: &[u8] = b"hunter2-hunter2-hunter2-hunter2!";
    let issuer = Issuer::start(|_, body| introspected(body)).await;
    let remote = || Introspection::endpoint("https://remote.example", format!("{}/check", issuer.url), "id", "secret");
    let github = || GitHub::new("app", "secret").unwrap().enterprise(&issuer.url, &issuer.url).unwrap();
    let fixed = || BearerTokens::new().token("fixed", Principal::new("fixed")).unwrap();
    let inner = Chain::new().with(github()).with(fixed());
    let chain = Chain::new()
        .with(remote().unwrap())
        .with(github())
        .with(Dpop::new(remote().unwrap()))
        .with(ApiKeys::new().key("key", Principal::new("key")).unwrap())
        .with(inner)
        .with(Jwt::hs256("https://as.example", SECRET).unwrap());
    for (token, subject) in [("fixed".to_owned(), "fixed"), (signed(SECRET), "signed")] {
        assert_eq!(check(&chain, &token).await.unwrap().subject, subject);
        assert_eq!(issuer.requests(), 0, "{subject}");
        // The result needs no wait.
        let headers =
            HeaderMap::from_iter([("authorization".parse().unwrap(), format!("Bearer {token}").parse().unwrap())]);
        let known = chain.authenticate_now(&AuthRequest::new(&Method::POST, RESOURCE, &headers));
        assert_eq!(known.unwrap().unwrap().principal.subject, subject);
    }
    // A token that needs a wait is shown to the remote providers in their order.
    assert_eq!(check(&chain, "good").await.unwrap().subject, "user-7");
    assert_eq!(issuer.requests(), 1);
}

#[test]
fn a_chain_requires_proofs_only_if_each_of_its_token_providers_does() {
    let jwt = || Jwt::hs256("https://as.example", &[7; 32]).unwrap();
    let keys = || ApiKeys::new().key("key", Principal::new("key")).unwrap();
    for (chain, expected) in [
        (Chain::new().with(Dpop::new(jwt()).required()), Some(true)),
        (Chain::new().with(keys()).with(Dpop::new(jwt()).required()).with(keys()), Some(true)),
        (Chain::new().with(Dpop::new(jwt())), Some(false)),
        (Chain::new().with(Dpop::new(jwt()).required()).with(jwt()), Some(false)),
        (Chain::new().with(jwt()).with(Dpop::new(jwt()).required()), Some(false)),
        (Chain::new().with(Dpop::new(jwt())).with(Dpop::new(jwt()).required()), Some(false)),
        (Chain::new().with(Chain::new().with(Dpop::new(jwt()).required())).with(keys()), Some(true)),
        (Chain::new().with(jwt()).with(keys()), None),
    ] {
        let mut metadata = ProtectedResourceMetadata::default();
        chain.describe(&mut metadata);
        assert_eq!(metadata.dpop_bound_access_tokens_required, expected, "{:?}", chain.challenges());
    }
}

#[test]
fn a_chain_names_the_proof_algorithms_of_all_its_providers() {
    let dpop = |names: &[&'static str]| {
        let jwt = Jwt::hs256("https://as.example", &[7; 32]).unwrap();
        Dpop::new(jwt).algorithms(names.iter().copied()).unwrap()
    };
    let keys = || ApiKeys::new().key("key", Principal::new("key")).unwrap();
    for (chain, expected) in [
        (Chain::new().with(dpop(&["ES256"])).with(dpop(&["EdDSA"])), Some(vec!["ES256", "EdDSA"])),
        (Chain::new().with(dpop(&["EdDSA", "ES256"])).with(dpop(&["ES256"])), Some(vec!["EdDSA", "ES256"])),
        (Chain::new().with(dpop(&["ES256"])).with(keys()), Some(vec!["ES256"])),
        (Chain::new().with(dpop(&["ES256"])).with(Chain::new().with(dpop(&["PS256"]))), Some(vec!["ES256", "PS256"])),
        (Chain::new().with(keys()), None),
    ] {
        let mut metadata = ProtectedResourceMetadata::default();
        chain.describe(&mut metadata);
        let expected: Option<Vec<String>> = expected.map(|names| names.into_iter().map(str::to_owned).collect());
        assert_eq!(metadata.dpop_signing_alg_values_supported, expected);
    }
}

#[test]
fn a_chain_has_one_challenge_for_providers_that_differ_in_their_algorithms() {
    let jwt = || Jwt::hs256("https://as.example", &[7; 32]).unwrap();
    let dpop = |names: &[&str]| Dpop::new(jwt()).required().algorithms(names.iter().copied()).unwrap();
    let keys = |header: &str| ApiKeys::new().header(header).unwrap().key(header, Principal::new("key")).unwrap();
    for (chain, expected) in [
        (Chain::new().with(dpop(&["ES256"])).with(dpop(&["EdDSA"])), &[r#"DPoP algs="ES256 EdDSA""#][..]),
        (
            Chain::new().with(dpop(&["EdDSA", "ES256"])).with(jwt()).with(dpop(&["ES256", "PS256"])).with(jwt()),
            &[r#"DPoP algs="EdDSA ES256 PS256""#, "Bearer"],
        ),
        (Chain::new().with(keys("x-a")).with(keys("x-b")), &[r#"ApiKey header="x-a""#, r#"ApiKey header="x-b""#]),
    ] {
        let challenges: Vec<String> = chain.challenges().iter().map(ToString::to_string).collect();
        assert_eq!(challenges, expected);
    }
}

#[test]
fn providers_that_check_tokens_accept_tokens_that_are_bound_to_a_certificate() {
    let jwt = || Jwt::hs256("https://as.example", &[7; 32]).unwrap();
    let keys = || ApiKeys::new().key("key", Principal::new("key")).unwrap();
    let opaque = Introspection::issuer("https://as.example", "server", "hunter2").unwrap();
    for (chain, expected) in [
        (Chain::new().with(jwt()), Some(true)),
        (Chain::new().with(Dpop::new(jwt())), Some(true)),
        (Chain::new().with(opaque).with(keys()), Some(true)),
        (Chain::new().with(keys()), None),
    ] {
        let mut metadata = ProtectedResourceMetadata::default();
        chain.describe(&mut metadata);
        assert_eq!(metadata.tls_client_certificate_bound_access_tokens, expected);
    }
}

/// Returns the headers of a request with a proof of the key for the token.
fn proven(key: &SigningKey, token: &str, id: &str) -> HeaderMap {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({"jti": id, "htm": "POST", "htu": RESOURCE, "iat": now, "ath": jose::sha256(token.as_bytes())});
    let mut jwk = key.jwk().clone();
    jwk.as_object_mut().unwrap().retain(|name, _| ["kty", "crv", "x", "y"].contains(&name.as_str()));
    let header = json!({"typ": "dpop+jwt", "jwk": jwk});
    let proof = key.sign(header.as_object().unwrap(), claims.as_object().unwrap()).unwrap();
    HeaderMap::from_iter([
        ("authorization".parse().unwrap(), format!("DPoP {token}").parse().unwrap()),
        ("dpop".parse().unwrap(), proof.parse().unwrap()),
    ])
}

#[tokio::test]
async fn results_of_issuers_that_are_known_without_a_wait_are_those_of_the_check() {
    let key = SigningKey::generate().unwrap();
    let thumbprint = key.thumbprint().to_owned();
    let asked = Issuer::start(move |_, body| {
        let (status, text) = introspected(body);
        (status, text.replace(r#"{"jkt":"k"}"#, &json!({"jkt": thumbprint}).to_string()))
    })
    .await;
    let app = Issuer::start(|_, body| checked(body)).await;
    let introspection = || Introspection::issuer(&asked.url, "id", "secret").unwrap();
    let github = GitHub::new("app", "secret").unwrap().enterprise(&app.url, &app.url).unwrap();
    let (dpop, required) = (Dpop::new(introspection()), Dpop::new(introspection()).required());
    let chain = Chain::new().with(Dpop::new(introspection()));
    let bearer = |token: &str| {
        HeaderMap::from_iter([("authorization".parse().unwrap(), format!("Bearer {token}").parse().unwrap())])
    };
    let all: [(&str, &dyn Authenticator); 5] = [
        ("introspection", &introspection()),
        ("github", &github),
        ("dpop", &dpop),
        ("required", &required),
        ("chain", &chain),
    ];
    for (name, auth) in all {
        // The result of an outage is not remembered, and neither is that of a proof.
        for (headers, is_remembered) in [
            (HeaderMap::new(), name != "required"),
            (bearer("good"), name != "required"),
            (bearer("unknown"), name != "required"),
            (bearer("bound"), name != "required"),
            (bearer("broken"), false),
            (proven(&key, "good", "1"), ["introspection", "github"].contains(&name)),
            (proven(&key, "unknown", "2"), ["introspection", "github"].contains(&name)),
        ] {
            let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
            let shown = |result: Result<Authenticated, Rejection>| result.map(|it| (it.principal, it.valid_until));
            let before = auth.authenticate_now(&request).map(shown);
            let expected = shown(auth.authenticate(&request).await);
            assert!(before.is_none_or(|before| before == expected), "{name} {headers:?}");
            let after = auth.authenticate_now(&request).map(shown);
            assert_eq!(after, is_remembered.then(|| expected.clone()), "{name} {headers:?}");
            assert_eq!(shown(auth.authenticate(&request).await), expected, "{name} {headers:?}");
        }
    }
    // A remembered token does not make a proof valid twice, and the synchronous path does not use a proof.
    for auth in [&dpop as &dyn Authenticator, &required, &chain] {
        let headers = proven(&key, "bound", "3");
        let request = AuthRequest::new(&Method::POST, RESOURCE, &headers);
        assert!(auth.authenticate_now(&request).is_none());
        assert_eq!(auth.authenticate(&request).await.unwrap().principal.subject, "user-7");
        assert!(auth.authenticate_now(&request).is_none());
        assert_eq!(auth.authenticate(&request).await.unwrap_err(), Rejection::InvalidProof);
    }
}
