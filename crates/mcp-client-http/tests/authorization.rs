//! The authorizer: the transport calls it for each request and each challenge, a bounded number of times.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{HeaderMap, HeaderValue, StatusCode, header};
use mcp_client_http::{Authorizer, AuthorizerError, Http, Refusal, Target, Verdict, mcp_fetch::Fetch, reqwest::Url};
use mcp_transport::{BoxFuture, Route};
use tokio::sync::Notify;

use crate::common::{
    LEGACY, MODERN, Peer,
    byte_server::{ByteServer, Reply},
    request_with, within,
};

/// Returns `token-0`, `token-1` and so on: a new token after each challenge.
#[derive(Clone, Default)]
struct Tokens {
    number: Arc<AtomicUsize>,
    /// The method, the status, the sent token and the nonce of each response.
    answers: Arc<Mutex<Vec<String>>>,
    refusals: Arc<Mutex<Vec<String>>>,
    /// Whether each refused request could be repeated with another token.
    can_retry: Arc<Mutex<Vec<bool>>>,
    /// The verdicts in turn, of which the last one remains. Without verdicts, each request is repeated.
    verdicts: Arc<Mutex<Vec<Verdict>>>,
    /// The error of each refusal.
    error: Option<fn() -> AuthorizerError>,
}

impl Authorizer for Tokens {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async {
            let token = format!("Bearer token-{}", self.number.load(Ordering::Relaxed));
            let token = HeaderValue::from_str(&token)?;
            Ok(HeaderMap::from_iter([(header::AUTHORIZATION, token)]))
        })
    }

    fn refused<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(async move {
            let sent = refusal.sent[header::AUTHORIZATION].to_str().unwrap();
            let target = &refusal.target;
            let challenges: Vec<String> = refusal.challenges.iter().map(ToString::to_string).collect();
            let nonce = &refusal.headers["dpop-nonce"];
            let description = format!("{} {} {challenges:?} {nonce:?} {sent}", refusal.status, target.method);
            self.refusals.lock().unwrap().push(description);
            self.can_retry.lock().unwrap().push(refusal.can_retry);
            if let Some(error) = self.error {
                return Err(error());
            }
            self.number.fetch_add(1, Ordering::Relaxed);
            let mut verdicts = self.verdicts.lock().unwrap();
            if verdicts.len() > 1 {
                return Ok(verdicts.remove(0));
            }
            Ok(verdicts.first().copied().unwrap_or(Verdict::Retry))
        })
    }

    fn answered(&self, target: &Target, sent: &HeaderMap, status: StatusCode, headers: &HeaderMap) {
        let nonce = headers.get("dpop-nonce").map_or("", |nonce| nonce.to_str().unwrap());
        let token = sent["authorization"].to_str().unwrap().strip_prefix("Bearer token-").unwrap();
        self.answers.lock().unwrap().push(format!("{} {} {token} {nonce}", target.method, status.as_u16()));
    }
}

/// Refuses all tokens but one.
async fn server(token: &'static str, status: u16) -> ByteServer {
    ByteServer::serve(move |_, seen| {
        if seen.header("authorization") != Some(token) {
            let challenges = [
                ("www-authenticate", "Bearer error=\"invalid_token\", DPoP algs=\"ES256\""),
                ("www-authenticate", "Basic"),
                ("dpop-nonce", "n-1"),
            ];
            return Reply::full(status, &challenges, "");
        }
        match (seen.method.as_str(), seen.call().as_str()) {
            ("POST", "initialize") => Reply::opening(seen, "s-1"),
            ("POST", method) if method.starts_with("notifications/") => Reply::status(202),
            ("POST", _) => Reply::result(seen),
            ("GET", _) => Reply::events().hold(),
            _ => Reply::status(200),
        }
    })
    .await
}

#[tokio::test]
async fn every_request_carries_the_new_headers_after_a_challenge() {
    let server = server("Bearer token-1", 401).await;
    let tokens = Tokens::default();
    let http = Http::new(server.url()).unwrap().authorizer(tokens.clone()).header("x-a", "b").unwrap();
    let mut peer = Peer::open(&http).await;
    peer.initialize().await;
    server.saw(4).await;
    peer.request(LEGACY, 1, "tools/list").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(1.into()));
    peer.sender().shutdown().await.unwrap();
    let refusals = tokens.refusals.lock().unwrap().clone();
    let challenges = r#"["Bearer error=\"invalid_token\"", "DPoP algs=\"ES256\"", "Basic"]"#;
    assert_eq!(refusals, [format!("401 Unauthorized POST {challenges} \"n-1\" Bearer token-0")]);
    let seen = server.seen();
    assert_eq!((seen[0].call(), &seen[0].body), ("initialize".to_owned(), &seen[1].body));
    let sent: Vec<_> = seen.iter().map(|seen| (seen.method.as_str(), seen.headers("authorization"))).collect();
    assert_eq!(sent[0], ("POST", vec!["Bearer token-0"]));
    assert!(sent[1..].iter().all(|(_, tokens)| *tokens == ["Bearer token-1"]), "{sent:?}");
    assert_eq!(
        sent.iter().map(|(method, _)| *method).collect::<Vec<_>>(),
        ["POST", "POST", "POST", "GET", "POST", "DELETE"]
    );
    assert!(seen.iter().all(|seen| seen.header("x-a") == Some("b")));
    // The authorizer receives the head of each response, also of a refused request.
    let answers = tokens.answers.lock().unwrap().clone();
    let mut sorted = answers.clone();
    sorted[2..].sort();
    assert_eq!(
        sorted,
        ["POST 401 0 n-1", "POST 200 1 ", "DELETE 200 1 ", "GET 200 1 ", "POST 200 1 ", "POST 202 1 "],
        "{answers:?}"
    );
}

/// Records the targets of requests.
#[derive(Clone, Default)]
struct Targets(Arc<Mutex<Vec<Target>>>);

impl Authorizer for Targets {
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        self.0.lock().unwrap().push(target.clone());
        Box::pin(std::future::ready(Ok(HeaderMap::new())))
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }
}

impl Targets {
    /// Returns the targets as lines: HTTP method, path, revision, method and name of the message.
    fn lines(&self, endpoint: &str) -> Vec<String> {
        let line = |target: &Target| {
            assert_eq!(target.endpoint.as_str(), endpoint);
            let version = target.version.map_or("-", |version| version.as_str());
            let operation = target.operation.as_ref();
            let method = operation.map_or("-", |operation| &operation.method);
            let name = operation.and_then(|operation| operation.name.as_deref()).unwrap_or("-");
            format!("{} {} {version} {method} {name}", target.method, target.url.path())
        };
        self.0.lock().unwrap().iter().map(line).collect()
    }
}

#[tokio::test]
async fn the_authorizer_receives_the_endpoint_the_revision_and_the_operation() {
    let server = ByteServer::serve(|_, seen| match (seen.method.as_str(), seen.call().as_str()) {
        ("POST", "initialize") => Reply::opening(seen, "s-1"),
        ("POST", method) if method.starts_with("notifications/") => Reply::status(202),
        ("POST", _) => Reply::result(seen),
        ("GET", _) => Reply::events().hold(),
        _ => Reply::status(200),
    })
    .await;
    let targets = Targets::default();
    let http = Http::new(server.url()).unwrap().authorizer(targets.clone());
    let mut peer = Peer::open(&http).await;
    peer.initialize().await;
    server.saw(3).await;
    peer.sender().shutdown().await.unwrap();
    assert_eq!(
        targets.lines(&server.url()),
        [
            "POST /mcp 2025-11-25 initialize -",
            "POST /mcp 2025-11-25 notifications/initialized -",
            "GET /mcp 2025-11-25 - -",
            "DELETE /mcp 2025-11-25 - -",
        ]
    );
    let targets = Targets::default();
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().authorizer(targets.clone())).await;
    peer.send(request_with(MODERN, 1, "tools/call", serde_json::json!({ "name": "sum" }))).await;
    peer.next().await.unwrap();
    assert_eq!(targets.lines(&server.url()), ["POST /mcp 2026-07-28 tools/call sum"]);
}

#[tokio::test]
async fn over_http_sse_the_endpoint_is_the_configured_url() {
    let server = ByteServer::serve(|_, seen| match seen.method.as_str() {
        "GET" => Reply::events().chunk("event: endpoint\ndata: /messages?sessionId=1\n\n").hold(),
        _ => Reply::status(202),
    })
    .await;
    let targets = Targets::default();
    let peer = Peer::open(&Http::sse(server.url()).unwrap().authorizer(targets.clone())).await;
    peer.request("2024-11-05", 1, "tools/list").await;
    server.saw(2).await;
    assert_eq!(targets.lines(&server.url()), ["GET /mcp - - -", "POST /messages 2024-11-05 tools/list -"]);
}

#[tokio::test]
async fn limits_repeated_challenges() {
    use Verdict::{GiveUp, Retry, RetryFresh};
    // The verdicts in turn, the last one again and again; then the requests, and `can_retry` of each call of `refused`.
    for (verdicts, requests, can_retry) in [
        (&[GiveUp][..], 1, &[true][..]),
        (&[Retry], 3, &[true, true, false]),
        (&[RetryFresh], 3, &[true, true, true]),
        // No token, a nonce, step-up, a new nonce.
        (&[Retry, RetryFresh, Retry, RetryFresh], 5, &[true, true, true, false]),
        (&[RetryFresh, RetryFresh, Retry, GiveUp], 4, &[true, true, true, true]),
    ] {
        for status in [401, 403] {
            let server = server("never", status).await;
            let tokens = Tokens { verdicts: Arc::new(Mutex::new(verdicts.to_vec())), ..Tokens::default() };
            let mut peer = Peer::open(&Http::new(server.url()).unwrap().authorizer(tokens.clone())).await;
            peer.request(MODERN, 1, "tools/list").await;
            assert_eq!(peer.fault(1).await.http_status(), Some(status));
            let seen = (server.seen().len(), tokens.can_retry.lock().unwrap().clone());
            assert_eq!(seen, (requests, can_retry.to_vec()), "{verdicts:?}");
        }
    }
}

#[tokio::test]
async fn an_authorizer_may_give_up_or_fail() {
    let challenges = r#"[Bearer error="invalid_token", DPoP algs="ES256", Basic]"#;
    let wait = Duration::from_secs(2);
    for (error, text, status, is_lasting, retry_after) in [
        (None, "the peer answered with HTTP status 401", Some(401), false, None),
        (Some((|| AuthorizerError::denied("no")) as fn() -> _), "the request cannot be authorized", None, true, None),
        (Some(|| AuthorizerError::login_required("no")), "the request cannot be authorized", None, true, None),
        (Some(|| "no".into()), "the request cannot be authorized", None, true, None),
        (
            Some(|| AuthorizerError::unavailable("away", Some(Duration::from_secs(2)))),
            "the request cannot be authorized",
            None,
            false,
            Some(wait),
        ),
    ] {
        let verdicts = Arc::new(Mutex::new(vec![Verdict::GiveUp]));
        let tokens = Tokens { verdicts, error, ..Tokens::default() };
        let server = server("never", 401).await;
        let mut peer = Peer::open(&Http::new(server.url()).unwrap().authorizer(tokens)).await;
        peer.request(MODERN, 1, "tools/list").await;
        let fault = peer.fault(1).await;
        assert_eq!((fault.to_string().as_str(), fault.http_status()), (text, status));
        assert_eq!((fault.is_lasting(), fault.retry_after()), (is_lasting, retry_after));
        assert_eq!(fault.is_unauthorized(), error.is_some());
        let shown: Vec<String> = fault.challenges().iter().map(ToString::to_string).collect();
        assert_eq!(format!("[{}]", shown.join(", ")), if error.is_none() { challenges } else { "[]" });
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn without_an_authorizer_a_challenge_is_an_error() {
    let server = server("never", 401).await;
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().bearer("x").unwrap()).await;
    peer.request(MODERN, 1, "tools/list").await;
    let fault = peer.fault(1).await;
    assert_eq!((fault.http_status(), fault.challenges().len()), (Some(401), 3));
    assert_eq!(server.seen()[0].header("authorization"), Some("Bearer x"));
    assert_eq!(server.seen().len(), 1);
}

/// Proves each request with its URL and a number.
#[derive(Clone, Default)]
struct Proofs(Arc<AtomicUsize>);

impl Authorizer for Proofs {
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        let proof = format!("{} {}", target.url.path(), self.0.fetch_add(1, Ordering::Relaxed));
        Box::pin(std::future::ready(Ok(HeaderMap::from_iter([(
            http::HeaderName::from_static("dpop"),
            HeaderValue::try_from(proof).unwrap(),
        )]))))
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }
}

#[tokio::test]
async fn each_redirect_is_authorized_again() {
    for status in [307, 308] {
        let server = ByteServer::serve(move |_, seen| match seen.path.as_str() {
            "/mcp" => Reply::full(status, &[("location", "/mcp/")], ""),
            "/mcp/" => Reply::full(status, &[("location", "v2")], ""),
            _ => Reply::result(seen),
        })
        .await;
        let mut peer = Peer::open(&Http::new(server.url()).unwrap().authorizer(Proofs::default())).await;
        peer.request(MODERN, 1, "tools/call").await;
        peer.next().await.unwrap();
        let seen = server.seen();
        let proofs: Vec<_> = seen.iter().map(|seen| seen.headers("dpop").join(",")).collect();
        assert_eq!(proofs, ["/mcp 0", "/mcp/ 1", "/mcp/v2 2"]);
        assert!(seen.iter().all(|request| request.method == "POST" && request.body == seen[0].body));
    }
}

#[tokio::test]
async fn redirects_of_authorized_requests_have_the_same_rules() {
    let other = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    let elsewhere = format!("`{}`", other.origin);
    for (status, to, text, requests) in [
        (307, other.url(), elsewhere.as_str(), 1),
        (302, "/x".to_owned(), "would change the method", 1),
        (307, String::new(), "redirects", 4),
        (308, "/mcp".to_owned(), "redirects to itself too often", 4),
    ] {
        let server = ByteServer::serve(move |_, _| Reply::full(status, &[("location", to.as_str())], "")).await;
        let mut peer = Peer::open(&Http::new(server.url()).unwrap().authorizer(Proofs::default())).await;
        peer.request(MODERN, 1, "tools/call").await;
        let error = peer.fault(1).await;
        assert!(error.to_string().contains(text) && error.is_lasting(), "{error}");
        assert_eq!(server.seen().len(), requests, "{text}");
    }
    assert!(other.seen().is_empty());
}

/// Fails the first requests with some HTTP methods: the authorization server is unavailable.
#[derive(Clone, Default)]
struct Outage {
    attempts: Arc<Mutex<Vec<String>>>,
}

impl Authorizer for Outage {
    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        let operation = target.operation.as_ref().map_or("-", |operation| &operation.method);
        let attempt = format!("{} {operation}", target.method);
        let mut attempts = self.attempts.lock().unwrap();
        attempts.push(attempt.clone());
        let is_first = attempts.iter().filter(|other| **other == attempt).count() == 1;
        let fails = is_first && matches!(attempt.as_str(), "GET -" | "POST notifications/initialized");
        Box::pin(std::future::ready(match fails {
            true => Err(AuthorizerError::unavailable("HTTP status 503", Some(Duration::from_millis(20)))),
            false => Ok(HeaderMap::new()),
        }))
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }
}

#[tokio::test]
async fn a_session_survives_an_outage_of_the_authorization_server() {
    crate::common::pause();
    let server = ByteServer::serve(|_, seen| match (seen.method.as_str(), seen.call().as_str()) {
        ("POST", "initialize") => Reply::opening(seen, "s-1"),
        ("POST", _) => Reply::status(202),
        ("GET", _) => Reply::events().event(&crate::common::notice(1)).hold(),
        _ => Reply::status(200),
    })
    .await;
    let outage = Outage::default();
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().authorizer(outage.clone())).await;
    peer.initialize().await;
    // The notification of the server arrives on the stream, which the client opened at the second attempt.
    let (route, message) = peer.next().await.unwrap();
    assert_eq!((route, message["method"].as_str()), (Route::Connection, Some("notifications/message")));
    assert_eq!(
        *outage.attempts.lock().unwrap(),
        ["POST initialize", "POST notifications/initialized", "POST notifications/initialized", "GET -", "GET -"]
    );
}

/// Refreshes a token once, on a task of its own. Each use of the refresh token rotates it.
#[derive(Clone, Default)]
struct Rotation {
    /// The stored token, once the refresh is complete.
    stored: Arc<tokio::sync::watch::Sender<Option<usize>>>,
    is_started: Arc<Mutex<bool>>,
    rotations: Arc<AtomicUsize>,
    /// The calls of `authorize` that wait.
    waiting: Arc<()>,
    /// The authorization server answers when this is notified.
    answer: Arc<Notify>,
}

impl Rotation {
    /// Returns a number that is larger while a call of `authorize` waits.
    fn waits(&self) -> usize {
        Arc::strong_count(&self.waiting)
    }
}

impl Authorizer for Rotation {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        let waiting = Arc::clone(&self.waiting);
        Box::pin(async move {
            let _waiting = waiting;
            if !std::mem::replace(&mut *self.is_started.lock().unwrap(), true) {
                let (rotations, answer) = (Arc::clone(&self.rotations), Arc::clone(&self.answer));
                let stored = Arc::clone(&self.stored);
                tokio::spawn(async move {
                    let rotation = rotations.fetch_add(1, Ordering::Relaxed) + 1;
                    answer.notified().await;
                    stored.send_replace(Some(rotation));
                });
            }
            let mut stored = self.stored.subscribe();
            let token = stored.wait_for(Option::is_some).await.map_err(|_| "the refresh ended")?.unwrap();
            let token = HeaderValue::try_from(format!("Bearer token-{token}"))?;
            Ok(HeaderMap::from_iter([(header::AUTHORIZATION, token)]))
        })
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_during_a_refresh_keeps_the_rotated_token() {
    let server = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    let rotation = Rotation::default();
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().authorizer(rotation.clone())).await;
    let idle = rotation.waits();
    peer.request(MODERN, 1, "tools/list").await;
    within("the refresh", async {
        while rotation.waits() == idle || rotation.rotations.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    peer.sender().close(&1.into());
    within("the drop", async {
        while rotation.waits() > idle {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(server.seen().is_empty());
    rotation.answer.notify_one();
    peer.request(MODERN, 2, "tools/list").await;
    assert_eq!(peer.next().await.unwrap().0, Route::Request(2.into()));
    assert_eq!(server.seen()[0].header("authorization"), Some("Bearer token-1"));
    assert_eq!(rotation.rotations.load(Ordering::Relaxed), 1);
}

/// Records its endpoints, and fetches a document of the authorization server for each request.
#[derive(Clone, Default)]
pub(crate) struct Attached(Arc<Mutex<Vec<(Url, Fetch)>>>);

impl Authorizer for Attached {
    fn attach(&self, endpoint: &Url, fetch: &Fetch) {
        self.0.lock().unwrap().push((endpoint.clone(), fetch.clone()));
    }

    fn authorize<'a>(&'a self, target: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async {
            let attached = self.0.lock().unwrap().clone();
            let (_, fetch) = attached.iter().find(|(endpoint, _)| *endpoint == target.endpoint).unwrap();
            let document = target.endpoint.join("/metadata").unwrap();
            let response = fetch.get(document.as_str()).await;
            let response = response.map_err(|error| AuthorizerError::unavailable(error, None))?;
            assert!(response.status().is_success());
            Ok(HeaderMap::new())
        })
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(std::future::ready(Ok(Verdict::GiveUp)))
    }
}

#[tokio::test]
async fn an_authorizer_is_attached_once_to_each_endpoint() {
    let attached = Arc::new(Attached::default());
    let mut endpoints = Vec::new();
    for _ in 0..2 {
        let server = ByteServer::serve(|_, seen| match seen.path.as_str() {
            "/metadata" => Reply::json("{}"),
            _ => Reply::result(seen),
        })
        .await;
        let http = Http::new(server.url()).unwrap().authorizer(Arc::clone(&attached));
        // Clones and further connections share the endpoint.
        for http in [http.clone(), http.clone(), http] {
            let mut peer = Peer::open(&http).await;
            peer.request(MODERN, 1, "tools/list").await;
            peer.next().await.unwrap();
        }
        endpoints.push(server.url());
    }
    let attached: Vec<_> = attached.0.lock().unwrap().iter().map(|(url, _)| url.to_string()).collect();
    assert_eq!(attached, endpoints);
}

#[tokio::test]
async fn requests_of_an_authorizer_use_the_proxy_of_the_endpoint() {
    // The proxy answers the request for a tunnel to the authorization server with an error.
    let proxy = ByteServer::serve(|_, _| Reply::status(502)).await;
    let attached = Attached::default();
    let http = Http::new("https://mcp.example.com/mcp").unwrap().proxy(&proxy.origin).unwrap();
    let mut peer = Peer::open(&http.authorizer(attached.clone())).await;
    peer.request(MODERN, 1, "tools/list").await;
    let fault = peer.fault(1).await;
    assert!(fault.is_unauthorized() && !fault.is_lasting(), "{fault}");
    let seen = proxy.seen();
    assert_eq!((seen[0].method.as_str(), seen[0].path.as_str()), ("CONNECT", "mcp.example.com:443"));
}
