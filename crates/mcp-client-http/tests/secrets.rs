//! Secrets do not appear in texts, over cleartext connections or at other origins.

use http::HeaderMap;
use mcp_client_http::{Authorizer, AuthorizerError, Http, Refusal, Target, Verdict};
use mcp_transport::{BoxFuture, Connect};
use rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::common::{
    MODERN, Peer,
    byte_server::{ByteServer, Reply},
};

struct UnusedAuthorizer;

impl Authorizer for UnusedAuthorizer {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async { Ok(HeaderMap::new()) })
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(async { Ok(Verdict::GiveUp) })
    }
}

#[test]
fn debug_and_description_contain_no_secrets() {
    let http = Http::new("https://user:hunter2@a.example/mcp?key=hunter2").unwrap().bearer("hunter2").unwrap();
    let http = http.header("x-team", "hunter2").unwrap();
    let shown = format!("{http:?}");
    assert!(!shown.contains("hunter2") && shown.contains("authorization") && shown.contains("x-team"), "{shown}");
    assert_eq!(http.describe(), "https://a.example/mcp");
}

#[tokio::test]
async fn rejects_credentials_over_cleartext_http() {
    let remote = || Http::new("http://mcp.example/mcp").unwrap();
    for (what, http, is_refused) in [
        ("nothing", remote(), false),
        ("a header", remote().header("x-team", "blue").unwrap(), false),
        ("a token", remote().bearer("hunter2").unwrap(), true),
        ("a cookie", remote().header("cookie", "hunter2").unwrap(), true),
        ("a key", remote().header("x-api-key", "hunter2").unwrap(), true),
        ("a user", Http::new("http://a:hunter2@mcp.example/").unwrap(), true),
        ("an authorizer", remote().authorizer(UnusedAuthorizer), true),
        ("on purpose", remote().bearer("hunter2").unwrap().dangerous_cleartext_credentials(), false),
        ("here", Http::new("http://127.0.0.1:9/").unwrap().bearer("hunter2").unwrap(), false),
        ("here by name", Http::new("http://localhost:9/").unwrap().bearer("hunter2").unwrap(), false),
    ] {
        // The transport connects with the first message.
        match http.connect().await {
            Ok(_) => assert!(!is_refused, "{what}"),
            Err(error) => {
                let text = error.to_string();
                assert!(is_refused && text.contains("not encrypted") && !text.contains("hunter2"), "{what}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn does_not_show_echoed_secrets() {
    let server = ByteServer::serve(|_, seen| {
        let echo = format!("bad header {}", seen.header("authorization").unwrap());
        Reply::full(500, &[("content-type", "text/plain")], &echo)
    })
    .await;
    let mut peer = Peer::open(&Http::new(server.url()).unwrap().bearer("hunter2").unwrap()).await;
    peer.request(MODERN, 1, "tools/list").await;
    assert!(peer.fault(1).await.to_string().ends_with("500: bad header Bearer …"));
}

struct Token(&'static str);

impl Authorizer for Token {
    fn authorize<'a>(&'a self, _: &'a Target) -> BoxFuture<'a, Result<HeaderMap, AuthorizerError>> {
        Box::pin(async { Ok(HeaderMap::from_iter([(http::header::AUTHORIZATION, self.0.parse()?)])) })
    }

    fn refused<'a>(&'a self, _: &'a Refusal) -> BoxFuture<'a, Result<Verdict, AuthorizerError>> {
        Box::pin(async { Ok(Verdict::GiveUp) })
    }
}

#[tokio::test]
async fn does_not_show_echoed_cookies_users_and_authorizer_headers() {
    for status in [401, 500] {
        let server = ByteServer::serve(move |_, seen| {
            let sent = ["authorization", "cookie"].map(|name| seen.header(name).unwrap_or_default());
            Reply::full(status, &[("content-type", "text/plain")], &format!("not {} nor hunter2", sent.join(" nor ")))
        })
        .await;
        let http = || Http::new(server.url()).unwrap();
        let with_user = Http::new(server.url().replace("//", "//user:hunter2@")).unwrap();
        for (http, shown) in [
            (http().authorizer(Token("Bearer hunter2")), "not Bearer … nor nor …"),
            (http().header("cookie", "a=hunter2; b=c").unwrap(), "not nor a=…; b=… nor …"),
            (with_user, "not Basic … nor nor …"),
        ] {
            let mut peer = Peer::open(&http).await;
            peer.request(MODERN, 1, "tools/list").await;
            let error = peer.fault(1).await;
            let text = error.to_string();
            assert_eq!(text, format!("the peer answered with HTTP status {status}: {shown}"));
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn sends_the_user_of_the_url_to_its_origin_only() {
    let other = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    let to = other.url();
    let server = ByteServer::serve(move |number, seen| match number {
        1 => Reply::result(seen),
        2 => Reply::full(307, &[("location", "/there")], ""),
        3 => Reply::result(seen),
        _ => Reply::full(307, &[("location", &to)], ""),
    })
    .await;
    let http = Http::new(server.url().replace("//", "//user:hunter2@")).unwrap();
    assert!(!format!("{http:?} {}", http.describe()).contains("user:"));
    let mut peer = Peer::open(&http).await;
    for id in 1..3 {
        peer.request(MODERN, id, "tools/list").await;
        peer.next().await.unwrap();
    }
    peer.request(MODERN, 3, "tools/list").await;
    assert!(peer.fault(3).await.to_string().contains("redirects"));
    for seen in server.seen() {
        assert_eq!(seen.header("authorization"), Some("Basic dXNlcjpodW50ZXIy"));
    }
    assert!(other.seen().is_empty());
    // An explicit header replaces it.
    let mut peer = Peer::open(&http.bearer("other").unwrap()).await;
    peer.request(MODERN, 1, "tools/list").await;
    peer.fault(1).await;
    assert_eq!(server.seen().pop().unwrap().header("authorization"), Some("Bearer other"));
}

#[tokio::test]
async fn uses_a_client_or_proxy_of_the_application() {
    let proxy = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    let remote = || Http::new("http://mcp.example/mcp").unwrap();
    let made = builder().user_agent("mine");
    let made = made.proxy(reqwest::Proxy::all(&proxy.origin).unwrap()).build().unwrap();
    for (http, agent) in [
        (remote().proxy(&proxy.origin).unwrap(), concat!("mcp-client-http/", env!("CARGO_PKG_VERSION"))),
        (remote().dangerous_client(made), "mine"),
    ] {
        let mut peer = Peer::open(&http).await;
        peer.request(MODERN, 1, "tools/list").await;
        peer.next().await.unwrap();
        let seen = proxy.seen().pop().unwrap();
        assert_eq!((seen.path.as_str(), seen.header("user-agent")), ("http://mcp.example/mcp", Some(agent)));
    }
}

/// A client of the application, with TLS that trusts no root.
fn builder() -> reqwest::ClientBuilder {
    let tls = ClientConfig::builder_with_provider(ring::default_provider().into());
    let tls = tls.with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy()
}

#[tokio::test]
async fn rejects_redirects_of_a_custom_client_to_another_origin() {
    let other = ByteServer::serve(|_, seen| Reply::result(seen)).await;
    let to = other.url();
    let server = ByteServer::serve(move |_, _| Reply::full(307, &[("location", &to)], "")).await;
    let http = Http::new(server.url()).unwrap().dangerous_client(builder().build().unwrap());
    let mut peer = Peer::open(&http).await;
    peer.request(MODERN, 1, "tools/list").await;
    let error = peer.fault(1).await;
    assert!(error.to_string().contains(&format!("redirects to `{}`", other.origin)), "{error}");
}
