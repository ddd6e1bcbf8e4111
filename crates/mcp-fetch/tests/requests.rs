//! Requests to a server on this machine.

#![allow(clippy::unwrap_used, reason = "helpers outside the test functions fail the test too")]

use std::{
    collections::VecDeque,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_fetch::{Fetch, FetchBuilder, FetchErrorKind, Resolver, Resolving};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
};

/// A server that answers the requests of one path each with a fixed response.
struct Peer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Peer {
    async fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer) = (Arc::clone(&requests), Arc::new(answer));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move { serve(stream, &seen, &*answer).await });
            }
        });
        Self { address, requests }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn seen(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// Answers one request and closes the connection.
async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Mutex<Vec<String>>,
    answer: &(dyn Fn(&str) -> String + Send + Sync),
) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let Ok(read @ 1..) = stream.read(&mut buffer).await else { return };
        request.extend_from_slice(&buffer[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.to_lowercase().lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        if body.len() < length.unwrap_or(0) {
            continue;
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        seen.lock().unwrap().push(text.clone());
        let _ = stream.write_all(answer(&path).as_bytes()).await;
        let _ = stream.shutdown().await;
        return;
    }
}

fn response(status: &str, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn local() -> FetchBuilder {
    Fetch::builder().allow_loopback(true)
}

#[tokio::test]
async fn gets_a_json_document() {
    let peer = Peer::start(|_| response("200 OK", "x-a: b\r\n", r#"{"issuer":"https://as.example"}"#)).await;
    let answer = local().build().get(&peer.url("/jwks?a=b#c")).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.headers()["x-a"], "b");
    assert_eq!(answer.json::<serde_json::Value>().unwrap()["issuer"], "https://as.example");
    let [request] = &peer.seen()[..] else { panic!("one request") };
    assert!(request.starts_with("GET /jwks?a=b HTTP/1.1\r\n") && request.contains("accept: application/json"));
}

#[tokio::test]
async fn posts_an_encoded_form() {
    let peer = Peer::start(|_| response("400 Bad Request", "", r#"{"error":"invalid_grant"}"#)).await;
    let form = [("grant_type", "x"), ("resource", "https://a.example/mcp?a=b&c")];
    let authorization = "Basic YTpi".parse().unwrap();
    let answer = local().build().post_form(&peer.url("/token"), &form, Some(authorization)).await.unwrap();
    assert_eq!(answer.status(), 400);
    let [request] = &peer.seen()[..] else { panic!("one request") };
    assert!(request.starts_with("POST /token HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("authorization: Basic YTpi\r\n"), "{request}");
    assert!(request.ends_with("\r\n\r\ngrant_type=x&resource=https%3A%2F%2Fa.example%2Fmcp%3Fa%3Db%26c"), "{request}");
}

#[tokio::test]
async fn redirects_are_followed_within_the_origin_only() {
    let other = Peer::start(|_| response("200 OK", "", "{}")).await;
    let elsewhere = other.url("/");
    let peer = Peer::start(move |path| {
        let to = |status: &str, location: &str| response(status, &format!("location: {location}\r\n"), "");
        match path {
            "/same" => to("302 Found", "/end"),
            "/permanent" => to("308 Permanent Redirect", "same"),
            "/loop" => to("302 Found", "/loop"),
            "/other" => to("302 Found", &elsewhere),
            "/file" => to("302 Found", "file:///etc/passwd"),
            "/metadata" => to("302 Found", "http://169.254.169.254/"),
            "/nowhere" => response("302 Found", "", ""),
            "/not-modified" => response("304 Not Modified", "location: /end\r\n", ""),
            _ => response("200 OK", "", "{}"),
        }
    })
    .await;
    let fetch = local().build();
    for (path, expected) in [
        ("/same", Ok(200)),
        ("/permanent", Ok(200)),
        ("/not-modified", Ok(304)),
        ("/nowhere", Ok(302)),
        ("/loop", Err(FetchErrorKind::Redirect)),
        ("/other", Err(FetchErrorKind::Redirect)),
        ("/file", Err(FetchErrorKind::Redirect)),
        ("/metadata", Err(FetchErrorKind::Redirect)),
    ] {
        let got = fetch.get(&peer.url(path)).await;
        assert_eq!(got.map(|answer| answer.status().as_u16()).map_err(|error| error.kind()), expected, "{path}");
    }
    assert_eq!(peer.seen().iter().filter(|request| request.contains("/loop")).count(), 4);
    for path in ["/same", "/nowhere"] {
        let posted = fetch.post_form(&peer.url(path), &[], None).await.unwrap_err();
        assert_eq!(posted.kind(), FetchErrorKind::Redirect, "{path}");
        let document = serde_json::json!({"a": 1});
        let posted = fetch.post_json_once(&peer.url(path), &document, http::HeaderMap::new()).await.unwrap();
        assert_eq!(posted.status(), 302, "{path}");
        let seen = peer.seen();
        let last = seen.last().unwrap();
        assert!(last.starts_with("POST ") && last.contains("content-type: application/json\r\n"), "{last}");
        assert!(last.ends_with("\r\n\r\n{\"a\":1}"), "{last}");
    }
    assert!(other.seen().is_empty());
}

#[tokio::test]
async fn large_bodies_are_refused() {
    let peer = Peer::start(|path| match path {
        "/declared" => response("200 OK", "", &"a".repeat(1_001)),
        "/chunked" => format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3e9\r\n{}\r\n0\r\n\r\n",
            "a".repeat(1_001)
        ),
        _ => response("200 OK", "", &"a".repeat(1_000)),
    })
    .await;
    let fetch = local().body_limit(1_000).build();
    for (path, expected) in
        [("/", None), ("/declared", Some(FetchErrorKind::TooLarge)), ("/chunked", Some(FetchErrorKind::TooLarge))]
    {
        let got = fetch.get(&peer.url(path)).await;
        assert_eq!(got.err().map(|error| error.kind()), expected, "{path}");
    }
}

#[tokio::test]
async fn a_silent_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let error = local().timeout(Duration::from_millis(50)).build().get(&url).await.unwrap_err();
    assert_eq!(error.kind(), FetchErrorKind::TimedOut);
    assert!(error.is_temporary());
    drop(listener);
    let error = local().build().get(&url).await.unwrap_err();
    assert_eq!(error.kind(), FetchErrorKind::Connection);
    assert!(error.is_temporary());
}

/// A resolver with one result for each lookup.
#[derive(Clone, Default)]
struct Script {
    results: Arc<Mutex<VecDeque<Vec<IpAddr>>>>,
    lookups: Arc<AtomicUsize>,
}

impl Script {
    fn new(results: &[&[&str]]) -> Self {
        let addresses = |result: &&[&str]| result.iter().map(|address| address.parse().unwrap()).collect();
        Self { results: Arc::new(Mutex::new(results.iter().map(addresses).collect())), ..Self::default() }
    }
}

impl Resolver for Script {
    fn resolve<'a>(&'a self, _host: &'a str) -> Resolving<'a> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let result = self.results.lock().unwrap().pop_front();
        Box::pin(std::future::ready(result.ok_or_else(|| std::io::ErrorKind::NotFound.into())))
    }
}

#[tokio::test]
async fn a_name_whose_addresses_change_reaches_no_forbidden_address() {
    let peer = Peer::start(|_| response("200 OK", "", "{}")).await;
    let port = peer.address.port();
    let script = Script::new(&[&["127.0.0.1"], &["10.0.0.1"], &["127.0.0.1", "169.254.169.254"], &["::ffff:10.0.0.1"]]);
    let fetch = local().resolver(script.clone()).build();
    let url = format!("http://rebind.localhost:{port}/");
    // The check uses the addresses of the connection: one lookup for each.
    assert_eq!(fetch.get(&url).await.unwrap().status(), 200);
    assert_eq!(script.lookups.load(Ordering::SeqCst), 1);
    for lookups in 2..=4 {
        let error = fetch.get(&url).await.unwrap_err();
        assert_eq!(error.kind(), FetchErrorKind::Blocked, "{error}");
        assert_eq!(script.lookups.load(Ordering::SeqCst), lookups);
    }
    // A name without addresses.
    assert_eq!(fetch.get(&url).await.unwrap_err().kind(), FetchErrorKind::Connection);
    assert_eq!(peer.seen().len(), 1);
}

#[tokio::test]
async fn https_uses_the_given_certificates_and_the_allowed_network() {
    let key = rcgen::generate_simple_self_signed(["as.example".to_owned()]).unwrap();
    let chain = vec![key.cert.der().clone()];
    let private = rustls::pki_types::PrivateKeyDer::Pkcs8(key.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                serve(stream, &Mutex::default(), &|_| response("200 OK", "", "{}")).await;
            });
        }
    });
    let url = format!("https://as.example:{port}/");
    let trusting = |builder: FetchBuilder| builder.root_certificates(key.cert.pem().as_bytes()).unwrap();
    for (case, allows, trusts, expected) in [
        ("trusted and allowed", true, true, Ok(200)),
        ("not allowed", false, true, Err(FetchErrorKind::Blocked)),
        ("not trusted", true, false, Err(FetchErrorKind::Connection)),
    ] {
        let mut builder = Fetch::builder().resolver(Script::new(&[&["127.0.0.1"]]));
        if allows {
            builder = builder.allow_network("127.0.0.0/8".parse().unwrap());
        }
        let other = rcgen::generate_simple_self_signed(["other.example".to_owned()]).unwrap();
        builder =
            if trusts { trusting(builder) } else { builder.root_certificates(other.cert.pem().as_bytes()).unwrap() };
        let got = builder.build().get(&url).await;
        assert_eq!(got.map(|answer| answer.status().as_u16()).map_err(|error| error.kind()), expected, "{case}");
    }
}

#[tokio::test]
async fn a_proxy_receives_the_name_of_the_host() {
    let proxy = Peer::start(|_| response("502 Bad Gateway", "", "")).await;
    let script = Script::default();
    let fetch = Fetch::builder().resolver(script.clone()).proxy(&format!("http://{}", proxy.address)).unwrap();
    let fetch = fetch.root_certificates(rcgen::generate_simple_self_signed([]).unwrap().cert.pem().as_bytes()).unwrap();
    let fetch = fetch.build();
    assert_eq!(fetch.get("https://as.example/").await.unwrap_err().kind(), FetchErrorKind::Connection);
    let [request] = &proxy.seen()[..] else { panic!("one request") };
    assert!(request.starts_with("CONNECT as.example:443 "), "{request}");
    for url in ["https://10.0.0.1/", "https://keycloak/", "https://metadata.google.internal/"] {
        assert_eq!(fetch.get(url).await.unwrap_err().kind(), FetchErrorKind::Blocked, "{url}");
    }
    assert_eq!((proxy.seen().len(), script.lookups.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn requests_to_this_machine_do_not_use_the_proxy() {
    let proxy = Peer::start(|_| response("502 Bad Gateway", "", "")).await;
    let pem = rcgen::generate_simple_self_signed([]).unwrap().cert.pem();
    let fetch = local().proxy(&format!("http://{}", proxy.address)).unwrap();
    let fetch = fetch.root_certificates(pem.as_bytes()).unwrap().resolver(Script::new(&[&["127.0.0.1"]])).build();
    // The listener accepts no TLS, so each request fails after it reached the listener directly.
    let peer = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = peer.local_addr().unwrap().port();
    for host in ["127.0.0.1", "app.localhost"] {
        let url = format!("https://{host}:{port}/");
        let (got, accepted) = tokio::join!(fetch.get(&url), async { peer.accept().await.map(drop) });
        assert_eq!(got.unwrap_err().kind(), FetchErrorKind::Connection, "{host}");
        accepted.unwrap();
    }
    assert!(proxy.seen().is_empty());
}

#[test]
fn an_allowed_host_has_no_port() {
    let error = Fetch::builder().allow_host("login.corp:8443").unwrap_err();
    assert_eq!(error.kind(), FetchErrorKind::Configuration);
}

#[tokio::test]
async fn errors_show_no_secrets() {
    let peer = Peer::start(|_| response("200 OK", "", "{\"access_token\":hunter2}")).await;
    let fetch = local().build();
    let answer = fetch.get(&peer.url("/?code=hunter2")).await.unwrap();
    let json = answer.json::<serde_json::Value>().unwrap_err();
    assert_eq!(json.kind(), FetchErrorKind::Json);
    let blocked = fetch.get("https://10.0.0.1/?code=hunter2").await.unwrap_err();
    drop(peer);
    let refused = fetch.get("http://127.0.0.1:1/?code=hunter2").await.unwrap_err();
    let user = fetch.get("https://a:hunter2@as.example/").await.unwrap_err();
    for error in [&json, &blocked, &refused, &user] {
        let mut shown = format!("{error} {error:?}");
        let mut source = std::error::Error::source(error);
        while let Some(error) = source {
            shown += &format!("{error} {error:?}");
            source = error.source();
        }
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    assert!(!format!("{answer:?} {fetch:?}").contains("hunter2"));
}
