//! The endpoint with an authenticator: challenges, the metadata document, CORS, anonymous callers, and the end of streams.
#![allow(clippy::unwrap_used, reason = "a failed step ends the test")]

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use mcp_auth::{
    ApiKeys, AuthRequest, Authenticated, Authenticator, Basic, BearerTokens, BoxFuture, Chain, Policy, Rejection,
    SubjectToken, hash_password,
};
use mcp_protocol::{Challenge, Principal, ProtectedResourceMetadata};
use mcp_server_core::{Extension, Server, tool};
use mcp_server_http::{HttpConfig, HttpError, HttpServer, McpService, RequestParts};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower_service::Service as _;

use crate::common::{
    Answer, initialize, legacy, listen, notification, opened, request, send, settle, socket, sse, stateless, within,
};

const PUBLIC: &str = "https://mcp.example.com/mcp";
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// An authenticator for bearer tokens of an authorization server: the token names its result.
pub(crate) struct Tokens;

impl Authenticator for Tokens {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        assert!(request.headers.get(header::AUTHORIZATION).is_none_or(|value| value != "Bearer early"), "early");
        Box::pin(async move {
            let Some(value) = request.headers.get(header::AUTHORIZATION) else { return Err(Rejection::Missing) };
            let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer "));
            let user = |name: &str| Principal::new(name).with_issuer("https://as.example").with_scheme("Bearer");
            match token.ok_or(Rejection::Missing)? {
                "ann" => Ok(Authenticated::new(user("ann").with_scopes(["admin", "reports"]))),
                "bob" => Ok(Authenticated::new(user("bob"))),
                "short" => {
                    let end = SystemTime::now() + Duration::from_secs(10);
                    Ok(Authenticated::new(user("ann").with_expires_at(end)).with_clock_skew(Duration::from_secs(5)))
                }
                "exchange" => {
                    let authenticated = Authenticated::new(user("ann"));
                    Ok(authenticated.with_subject_token(SubjectToken::new("exchange")))
                }
                "nonce" => {
                    let mut authenticated = Authenticated::new(user("ann"));
                    authenticated.headers.insert("dpop-nonce", HeaderValue::from_static("n1"));
                    Ok(authenticated)
                }
                "expired" => Err(Rejection::Expired),
                "malformed" => Err(Rejection::Malformed),
                "forbidden" => Err(Rejection::Forbidden),
                "fresh" => Err(Rejection::FreshProof { nonce: HeaderValue::from_static("n2") }),
                "hang" => std::future::pending().await,
                "panic" => panic!("the database is gone"),
                "away" => Err(Rejection::Unavailable { retry_after: Duration::from_secs(7) }),
                _ => Err(Rejection::Invalid),
            }
        })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::new("DPoP").with_algs(["ES256"]), Challenge::bearer()]
    }

    fn authorization_servers(&self) -> Vec<String> {
        vec!["https://as.example".to_owned()]
    }

    fn describe(&self, metadata: &mut ProtectedResourceMetadata) {
        metadata.dpop_signing_alg_values_supported = Some(vec!["ES256".to_owned()]);
    }
}

pub(crate) fn server() -> Server {
    Server::builder("test", "1")
        .tool(tool("who", async |caller: Option<Principal>| caller.map_or("nobody".into(), |caller| caller.subject)))
        .tool(tool("admin", async || "done").requires_scopes(["admin"]))
        .tool(tool("known", async || "known").requires_authentication())
        .tool(tool("seen", async |Extension(parts): Extension<RequestParts>| {
            let names: Vec<&str> = parts.headers.keys().map(HeaderName::as_str).collect();
            let is_kept = parts.extensions.get::<SubjectToken>().is_some();
            format!("{} {is_kept}", names.join(" "))
        }))
        .build()
}

pub(crate) fn config() -> HttpConfig {
    HttpConfig::new().public_url(PUBLIC).authenticate(Tokens)
}

fn service() -> McpService {
    server().into_service(config())
}

fn call(name: &str) -> Request<Full<Bytes>> {
    stateless("tools/call", json!({ "name": name }), &[])
}

fn with(mut request: Request<Full<Bytes>>, headers: &[(&'static str, &str)]) -> Request<Full<Bytes>> {
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    request
}

pub(crate) fn bearer(token: &str, request: Request<Full<Bytes>>) -> Request<Full<Bytes>> {
    with(request, &[("authorization", &format!("Bearer {token}"))])
}

pub(crate) fn challenges(answer: &Answer) -> Vec<String> {
    let values = answer.headers.get_all(header::WWW_AUTHENTICATE).iter();
    values.map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn each_rejection_has_its_status_and_its_challenges() {
    let service = service();
    let url = format!(r#"resource_metadata="https://mcp.example.com{WELL_KNOWN}/mcp""#);
    let invalid = r#"error="invalid_token", error_description="the credentials are invalid""#;
    let expired = r#"error="invalid_token", error_description="the token has expired""#;
    let malformed = r#"error="invalid_request", error_description="the credentials are malformed""#;
    let fresh = r#"error="use_dpop_nonce", error_description="the DPoP proof needs the nonce of this response""#;
    let both = |error: &str| {
        let error = if error.is_empty() { String::new() } else { format!("{error}, ") };
        vec![format!(r#"DPoP {error}{url}, algs="ES256""#), format!("Bearer {error}{url}")]
    };
    for (token, status, expected, extra) in [
        (None, 401, both(""), None),
        (Some("Bearer x"), 401, both(invalid), None),
        (Some("Basic x"), 401, both(""), None),
        (Some("Bearer expired"), 401, both(expired), None),
        (Some("Bearer malformed"), 400, both(malformed), None),
        (Some("Bearer forbidden"), 403, vec![], None),
        (Some("Bearer fresh"), 401, vec![both(fresh)[0].clone(), both("")[1].clone()], Some(("dpop-nonce", "n2"))),
        (Some("Bearer away"), 503, vec![], Some(("retry-after", "7"))),
    ] {
        for made in [
            call("who"),
            initialize(),
            stateless("server/discover", json!({}), &[]),
            legacy(Some("mcp_0"), "ping", json!({})),
            notification("mcp_0", "notifications/initialized", json!({})),
            listen("mcp_0"),
            request(Method::DELETE, &[("mcp-session-id", "mcp_0")], ""),
        ] {
            let named = format!("{token:?} {} {:?}", made.method(), made.body());
            let made = token.map_or_else(|| made.clone(), |token| with(made.clone(), &[("authorization", token)]));
            let answer = send(&service, made).await;
            assert_eq!(answer.status.as_u16(), status, "{named}");
            assert_eq!(challenges(&answer), expected, "{named}");
            assert_eq!(answer.header("cache-control"), Some("no-store"), "{named}");
            if let Some((name, value)) = extra {
                assert_eq!(answer.header(name), Some(value), "{named}");
            }
            assert!(answer.json()["error"]["message"].is_string() && answer.json()["id"].is_null(), "{named}");
        }
    }
    assert_eq!(service.open_sessions(), 0);
}

#[tokio::test]
async fn handlers_receive_the_principal_and_no_credentials() {
    let service = service();
    let who = send(&service, bearer("bob", call("who"))).await.json();
    assert_eq!(who["result"]["content"][0]["text"], "bob");
    for (token, expected) in [("bob", "false"), ("exchange", "true")] {
        let seen = send(&service, bearer(token, call("seen"))).await.json();
        let seen = seen["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        assert!(seen.contains("mcp-method") && !seen.contains("authorization"), "{seen}");
        assert!(seen.ends_with(expected), "{seen}");
    }
    let rotated = send(&service, bearer("nonce", call("who"))).await;
    assert_eq!((rotated.status, rotated.header("dpop-nonce")), (StatusCode::OK, Some("n1")));
    // The header of an API key is a credential too.
    let keys = ApiKeys::new().key("k", Principal::new("ann")).unwrap();
    let service = server().into_service(HttpConfig::new().public_url(PUBLIC).authenticate(keys));
    let seen = send(&service, with(call("seen"), &[("x-api-key", "k")])).await.json();
    let seen = seen["result"]["content"][0]["text"].as_str().unwrap();
    assert!(seen.contains("mcp-method") && !seen.contains("x-api-key"), "{seen}");
}

#[tokio::test]
async fn missing_scopes_are_403_for_known_and_401_for_anonymous_callers() {
    let url = format!(r#"resource_metadata="https://mcp.example.com{WELL_KNOWN}/mcp""#);
    let service = server().into_service(config().allow_anonymous());
    let step_up = vec![format!(r#"Bearer error="insufficient_scope", scope="admin", {url}"#)];
    let login = vec![format!(r#"DPoP scope="admin", {url}, algs="ES256""#), format!(r#"Bearer scope="admin", {url}"#)];
    let known = vec![format!(r#"DPoP {url}, algs="ES256""#), format!("Bearer {url}")];
    let open = |token: Option<&'static str>| {
        let service = &service;
        async move {
            let made = token.map_or_else(initialize, |token| bearer(token, initialize()));
            send(service, made).await.header("mcp-session-id").unwrap().to_owned()
        }
    };
    for (token, tool, status, expected) in [
        (Some("ann"), "admin", 200, vec![]),
        (Some("bob"), "admin", 403, step_up),
        (None, "admin", 401, login),
        (Some("bob"), "known", 200, vec![]),
        (None, "known", 401, known),
        (None, "who", 200, vec![]),
    ] {
        let session = open(token).await;
        for made in [call(tool), legacy(Some(&session), "tools/call", json!({ "name": tool }))] {
            let made = token.map_or_else(|| made.clone(), |token| bearer(token, made.clone()));
            let answer = send(&service, made).await;
            assert_eq!(answer.status.as_u16(), status, "{token:?} {tool}");
            assert_eq!(challenges(&answer), expected, "{token:?} {tool}");
            if status == 403 {
                assert_eq!(answer.json()["error"]["data"]["requiredScopes"], json!(["admin"]));
            }
        }
    }
    // Anonymous callers see the open tools.
    let listed = send(&service, stateless("tools/list", json!({}), &[])).await.json();
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!((names, &listed["result"]["cacheScope"]), (vec!["who", "seen"], &json!("private")));
    // A request with invalid credentials is not anonymous.
    assert_eq!(send(&service, bearer("x", call("who"))).await.status, StatusCode::UNAUTHORIZED);
    assert_eq!(
        send(&service, with(call("who"), &[("authorization", "Digest x")])).await.status,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn challenges_name_the_scopes_of_the_server_and_the_scheme_of_the_caller() {
    let server = || {
        Server::builder("test", "1")
            .tool(tool("admin", async || "done").requires_scopes(["admin", "base"]))
            .requires_scopes(["base", "offline_access"])
            .build()
    };
    let answer = send(&server().into_service(config()), call("admin")).await;
    assert!(challenges(&answer)[1].starts_with(r#"Bearer scope="base", resource_metadata="#), "{answer:?}");
    let denied = send(&server().into_service(config()), bearer("bob", call("admin"))).await;
    assert!(challenges(&denied)[0].contains(r#"scope="base""#), "{denied:?}");
    // A caller with an API key cannot obtain scopes by a login.
    let auth = Chain::new().with(ApiKeys::new().key("k", Principal::new("ann")).unwrap()).with(Tokens);
    let service = server().into_service(HttpConfig::new().public_url(PUBLIC).authenticate(auth));
    let denied = send(&service, with(call("admin"), &[("x-api-key", "k")])).await;
    assert_eq!(denied.status, StatusCode::FORBIDDEN);
    assert_eq!(challenges(&denied), [r#"ApiKey error="insufficient_scope", scope="base", header="x-api-key""#]);
    // Scopes that imply others.
    let tokens = Policy::new(BearerTokens::new().token("t", Principal::new("ann").with_scopes(["all"])).unwrap())
        .scope_implies("all", ["base", "offline_access", "admin"]);
    let service = server().into_service(HttpConfig::new().public_url(PUBLIC).authenticate(tokens));
    assert_eq!(send(&service, bearer("t", call("admin"))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_metadata_document_is_public() {
    let configured = ProtectedResourceMetadata::new("https://ignored.example", ["https://other.example"])
        .with_scopes(["a", "offline_access"]);
    let own = json!({
        "resource": PUBLIC, "authorization_servers": ["https://as.example"], "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": ["ES256"],
    });
    let replaced = json!({
        "resource": PUBLIC, "authorization_servers": ["https://other.example"], "bearer_methods_supported": ["header"],
        "scopes_supported": ["a"], "dpop_signing_alg_values_supported": ["ES256"],
    });
    let get = |method: Method, path: &str, headers: &[(&str, &str)]| {
        let mut made = request(method, headers, "");
        *made.uri_mut() = path.parse().unwrap();
        made
    };
    let scopes = ProtectedResourceMetadata::default().with_scopes(["files:read"]);
    let mut with_scopes = own.clone();
    with_scopes["scopes_supported"] = json!(["files:read"]);
    for (config, expected) in [
        (config(), own),
        (config().protected_resource(scopes), with_scopes),
        (config().protected_resource(configured), replaced),
    ] {
        let service = server().into_service(config);
        for path in [WELL_KNOWN.to_owned(), format!("{WELL_KNOWN}/mcp")] {
            // A web page of any origin may read the document.
            for headers in [&[("host", "mcp.example.com")][..], &[("origin", "https://evil.example")]] {
                let answer = send(&service, get(Method::GET, &path, headers)).await;
                assert_eq!((answer.status, answer.json()), (StatusCode::OK, expected.clone()), "{path}");
                assert_eq!(answer.header("content-type"), Some("application/json"));
                assert_eq!(answer.header("access-control-allow-origin"), Some("*"));
                assert_eq!(answer.header("cache-control"), Some("public, max-age=3600"));
            }
            let head = send(&service, get(Method::HEAD, &path, &[])).await;
            assert_eq!((head.status, head.body.len()), (StatusCode::OK, 0));
            let preflight = send(&service, get(Method::OPTIONS, &path, &[("origin", "https://evil.example")])).await;
            assert_eq!(preflight.status, StatusCode::NO_CONTENT);
            assert_eq!(preflight.header("access-control-allow-origin"), Some("*"));
            assert_eq!(send(&service, get(Method::POST, &path, &[])).await.status, StatusCode::METHOD_NOT_ALLOWED);
            let foreign = send(&service, get(Method::GET, &path, &[("host", "evil.example")])).await;
            assert_eq!(foreign.status, StatusCode::FORBIDDEN);
        }
    }
    // Without an authorization server there is no document, and challenges name none.
    let keys = ApiKeys::new().key("k", Principal::new("ann")).unwrap();
    let basic = Basic::new("tools").user("ann", &hash_password("x").unwrap(), Principal::new("ann")).unwrap();
    let config = HttpConfig::new().public_url(PUBLIC).authenticate(Chain::new().with(keys).with(basic));
    let service = server().into_service(config);
    let answer = send(&service, get(Method::GET, WELL_KNOWN, &[])).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert_eq!(challenges(&answer), [r#"ApiKey header="x-api-key""#, r#"Basic realm="tools", charset="UTF-8""#]);
}

#[tokio::test]
async fn credentials_of_up_to_16_kib_are_accepted() {
    let long = "t".repeat(12 << 10);
    let keys = ApiKeys::new().key(&long, Principal::new("ann")).unwrap();
    let tokens = BearerTokens::new().token(&long, Principal::new("ann")).unwrap();
    let config = config().authenticate(Chain::new().with(keys).with(tokens)).allowed_hosts(["127.0.0.1"]);
    let server = server();
    let endpoint = socket::serve(&server, config).await;
    for (header, value, status) in [
        ("authorization", format!("Bearer {long}"), 200),
        ("x-api-key", long.clone(), 200),
        ("authorization", format!("Bearer {long}{long}"), 431),
        ("x-api-key", long.repeat(2), 431),
        ("x-other", long.clone(), 431),
    ] {
        let answer = endpoint.exchange(with(call("known"), &[(header, &value)])).await;
        assert_eq!(answer.status.as_u16(), status, "{header} {}", value.len());
    }
    server.shutdown();
    endpoint.ended().await.unwrap();
}

/// An authenticator whose principal has the public URL of the request as its subject.
struct Target;

impl Authenticator for Target {
    fn authenticate<'a>(&'a self, request: &'a AuthRequest<'a>) -> BoxFuture<'a, Result<Authenticated, Rejection>> {
        Box::pin(async { Ok(Authenticated::new(Principal::new(request.target))) })
    }

    fn challenges(&self) -> Vec<Challenge> {
        vec![Challenge::bearer()]
    }
}

#[tokio::test]
async fn an_endpoint_at_any_path_of_a_router_has_its_public_url() {
    let config = || HttpConfig::new().public_url(PUBLIC).authenticate(Target).sse("/sse", "/messages");
    let mounted = axum::Router::new().nest_service("/mcp", server().into_service(config()));
    let renamed = axum::Router::new().route_service("/tools", server().into_service(config()));
    for (name, app, path) in [("nested", mounted, "/mcp"), ("renamed", renamed, "/tools")] {
        let mut made = call("who");
        *made.uri_mut() = path.parse().unwrap();
        let answer = app.clone().call(made).await.unwrap();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        let value: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(value["result"]["content"][0]["text"], PUBLIC, "{name}: {value}");
    }
}

#[tokio::test]
async fn routers_serve_the_document_where_clients_look_for_it() {
    let behind = || HttpConfig::new().public_url("https://mcp.example.com/team/mcp").authenticate(Tokens);
    let merged = server().into_router(config());
    let nested =
        axum::Router::new().merge(server().metadata_router(&behind())).nest("/team", server().into_router(behind()));
    let several = axum::Router::new()
        .merge(server().into_router(config().no_root_metadata()))
        .merge(server().into_router(behind().path("/team/mcp").no_root_metadata()));
    for (name, app, path, expected) in [
        ("merged", &merged, WELL_KNOWN.to_owned(), Some(PUBLIC)),
        ("merged", &merged, format!("{WELL_KNOWN}/mcp"), Some(PUBLIC)),
        ("nested", &nested, WELL_KNOWN.to_owned(), Some("https://mcp.example.com/team/mcp")),
        ("nested", &nested, format!("{WELL_KNOWN}/team/mcp"), Some("https://mcp.example.com/team/mcp")),
        ("several", &several, WELL_KNOWN.to_owned(), None),
        ("several", &several, format!("{WELL_KNOWN}/mcp"), Some(PUBLIC)),
        ("several", &several, format!("{WELL_KNOWN}/team/mcp"), Some("https://mcp.example.com/team/mcp")),
    ] {
        let mut made = request(Method::GET, &[], "");
        *made.uri_mut() = path.parse().unwrap();
        let answer = app.clone().call(made.map(axum::body::Body::new)).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let resource = serde_json::from_slice::<Value>(&body).ok().map(|document| document["resource"].clone());
        assert_eq!(resource, expected.map(Value::from), "{name} {path}");
    }
    // The challenge of a nested endpoint names the document at the root.
    let mut made = call("who");
    *made.uri_mut() = "/team/mcp".parse().unwrap();
    let answer = nested.clone().call(made.map(axum::body::Body::new)).await.unwrap();
    let challenge = answer.headers().get_all(header::WWW_AUTHENTICATE).iter().nth(1).unwrap().to_str().unwrap();
    assert_eq!(challenge, format!(r#"Bearer resource_metadata="https://mcp.example.com{WELL_KNOWN}/team/mcp""#));
}

#[tokio::test]
async fn browsers_read_challenges_and_send_credentials() {
    let keys = ApiKeys::new().header("x-team-key").unwrap().key("k", Principal::new("ann")).unwrap();
    let auth = Chain::new().with(keys).with(Tokens);
    let config = HttpConfig::new().public_url(PUBLIC).authenticate(auth).allowed_origins(["https://app.example"]);
    let service = server().into_service(config);
    let origin = ("origin", "https://app.example");
    let preflight =
        [origin, ("access-control-request-method", "POST"), ("access-control-request-headers", "x-team-key")];
    let answer = send(&service, request(Method::OPTIONS, &preflight, "")).await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT);
    let allowed = answer.header("access-control-allow-headers").unwrap();
    for name in ["authorization", "dpop", "x-team-key"] {
        assert!(allowed.split(", ").any(|allowed| allowed == name), "{name}: {allowed}");
    }
    let refused = send(&service, with(call("who"), &[origin])).await;
    assert_eq!(
        (refused.status, refused.header("access-control-allow-origin")),
        (StatusCode::UNAUTHORIZED, Some(origin.1))
    );
    let exposed = refused.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("www-authenticate") && exposed.contains("dpop-nonce"), "{exposed}");
    let foreign = send(&service, with(call("who"), &[("origin", "https://evil.example")])).await;
    assert_eq!((foreign.status, foreign.header("access-control-allow-origin")), (StatusCode::FORBIDDEN, None));
}

#[tokio::test]
async fn the_public_url_is_required_beyond_loopback() {
    let missing =
        std::panic::catch_unwind(|| drop(server().into_service(HttpConfig::new().authenticate(Tokens)))).unwrap_err();
    assert!(missing.downcast_ref::<String>().unwrap().starts_with("`authenticate` needs `public_url`"));
    let config = HttpConfig::new().authenticate(Tokens);
    for made in [
        server().try_into_service(config.clone()).map(drop),
        server().try_into_router(config.clone()).map(drop),
        server().try_metadata_router(&config).map(drop),
    ] {
        assert!(made.unwrap_err().to_string().starts_with("`authenticate` needs `public_url`"));
    }
    let open = HttpConfig::new().allowed_hosts(["mcp.example.com"]).authenticate(Tokens);
    let error = server().serve_http_with("0.0.0.0:0", open).await.unwrap_err();
    assert!(matches!(error, HttpError::PublicUrlRequired(_)), "{error}");
    // At a loopback address the URL is that of the listener.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (server, config) = (server(), HttpConfig::new().authenticate(Tokens).ignore_signals());
    let serving = tokio::spawn({
        let server = server.clone();
        async move { server.serve_http_on(listener, config).await }
    });
    let document = within("the document", get(address, &format!("{WELL_KNOWN}/mcp"))).await;
    assert!(document.contains(&format!(r#""resource":"http://{address}/mcp""#)), "{document}");
    server.shutdown();
    within("the end", serving).await.unwrap().unwrap();
}

/// Returns the response to a GET request.
async fn get(address: std::net::SocketAddr, path: &str) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_second_source_of_principals_is_an_error() {
    let mut made = bearer("ann", call("who"));
    made.extensions_mut().insert(Principal::new("bob"));
    let answer = send(&service(), made).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!answer.json().to_string().contains("bob"));
}

#[tokio::test(start_paused = true)]
async fn an_authenticator_that_hangs_or_panics_is_an_outage() {
    for token in ["hang", "panic", "early"] {
        let answer = send(&service(), bearer(token, call("who"))).await;
        assert_eq!((answer.status, answer.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("5")));
        assert!(!answer.json().to_string().contains("database"));
    }
}

#[tokio::test]
async fn the_reader_of_an_anonymous_session_receives_nothing_after_its_adoption() {
    let server = server();
    let service = server.clone().into_service(config().allow_anonymous());
    let session = send(&service, initialize()).await.header("mcp-session-id").unwrap().to_owned();
    let initialized = notification(&session, "notifications/initialized", json!({}));
    assert_eq!(send(&service, initialized).await.status, StatusCode::ACCEPTED);
    // The anonymous caller does not read for a while.
    let mut stream = service.handle(listen(&session)).await.into_body();
    let ping = legacy(Some(&session), "ping", json!({}));
    assert_eq!(send(&service, bearer("ann", ping)).await.status, StatusCode::OK);
    server.notify().tools_changed();
    settle().await;
    let mut text = String::new();
    while let Some(frame) = within("the end of the stream", stream.frame()).await {
        text += std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap();
    }
    assert!(!text.contains("list_changed"), "{text}");
    // The stream of the principal has the event.
    let mut stream = service.handle(bearer("ann", listen(&session))).await.into_body();
    let mut text = String::new();
    while !text.contains("list_changed") {
        let frame = within("the change", stream.frame()).await.unwrap().unwrap().into_data().unwrap();
        text += std::str::from_utf8(&frame).unwrap();
    }
}

#[tokio::test]
async fn an_anonymous_session_belongs_to_its_first_principal() {
    let service = server().into_service(config().allow_anonymous());
    let session = send(&service, initialize()).await.header("mcp-session-id").unwrap().to_owned();
    let ping = || legacy(Some(&session), "ping", json!({}));
    let mut stream = opened(&service, &session).await;
    // An `initialize` does not use the session.
    let reopened = with(initialize(), &[("mcp-session-id", &session)]);
    assert_eq!(send(&service, bearer("bob", reopened)).await.status, StatusCode::BAD_REQUEST);
    assert_eq!(send(&service, ping()).await.status, StatusCode::OK);
    assert_eq!(send(&service, bearer("ann", ping())).await.status, StatusCode::OK);
    // The anonymous caller loses the session and its stream.
    assert!(within("the end of the stream", stream.frame()).await.is_none());
    for made in [ping(), listen(&session), bearer("bob", ping()), bearer("bob", listen(&session))] {
        assert_eq!(send(&service, made).await.status, StatusCode::NOT_FOUND);
    }
    assert_eq!(send(&service, bearer("ann", ping())).await.status, StatusCode::OK);
}

/// Waits until the time of the token has passed, and returns whether the stream has ended at the right time.
async fn ends_with_its_token(mut body: mcp_server_http::Body) {
    let early = tokio::time::timeout(Duration::from_secs(14), async {
        while let Some(frame) = body.frame().await {
            frame.unwrap();
        }
    });
    assert!(early.await.is_err(), "the stream ended before its token");
    let end = tokio::time::timeout(Duration::from_millis(1_500), async {
        let mut rest = Vec::new();
        while let Some(frame) = body.frame().await {
            rest.extend_from_slice(&frame.unwrap().into_data().unwrap());
        }
        rest
    });
    end.await.expect("the stream ends within a second of its token");
}

#[tokio::test(start_paused = true)]
async fn streams_end_with_the_token_and_its_clock_skew() {
    let service = server().into_service(config().sse("/sse", "/messages"));
    let session = send(&service, bearer("short", initialize())).await.header("mcp-session-id").unwrap().to_owned();
    let standalone = service.handle(bearer("short", listen(&session))).await;
    ends_with_its_token(standalone.into_body()).await;
    let filter = json!({ "notifications": { "toolsListChanged": true } });
    let subscription = service.handle(bearer("short", stateless("subscriptions/listen", filter, &[]))).await;
    assert_eq!(subscription.headers()["content-type"], "text/event-stream");
    ends_with_its_token(subscription.into_body()).await;
    let old = service.handle(bearer("short", sse::get())).await;
    ends_with_its_token(old.into_body()).await;
    settle().await;
    assert_eq!(service.open_sessions(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ended_with_its_token_resumes_without_loss() {
    let server = server();
    let service = server.clone().into_service(config());
    let session = send(&service, bearer("short", initialize())).await.header("mcp-session-id").unwrap().to_owned();
    let initialized = notification(&session, "notifications/initialized", json!({}));
    assert_eq!(send(&service, bearer("ann", initialized)).await.status, StatusCode::ACCEPTED);
    let mut stream = service.handle(bearer("short", listen(&session))).await.into_body();
    let first = stream.frame().await.unwrap().unwrap().into_data().unwrap();
    let id =
        std::str::from_utf8(&first).unwrap().lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    ends_with_its_token(stream).await;
    // A change between the two connections.
    server.notify().tools_changed();
    settle().await;
    let resumed = bearer("ann", with(listen(&session), &[("last-event-id", &id)]));
    let mut stream = service.handle(resumed).await.into_body();
    let mut text = String::new();
    while !text.contains("notifications/tools/list_changed") {
        let frame = within("the change", stream.frame()).await.unwrap().unwrap().into_data().unwrap();
        text += std::str::from_utf8(&frame).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn streams_of_credentials_without_an_end_end_after_an_hour() {
    let service = service();
    let session = send(&service, bearer("ann", initialize())).await.header("mcp-session-id").unwrap().to_owned();
    let mut stream = service.handle(bearer("ann", listen(&session))).await.into_body();
    let ended = async { while stream.frame().await.is_some() {} };
    let start = tokio::time::Instant::now();
    tokio::time::timeout(Duration::from_secs(3_700), ended).await.unwrap();
    assert_eq!(start.elapsed().as_secs(), 3_600);
}

#[tokio::test]
async fn a_batch_with_one_denied_member_is_refused_whole() {
    let service = service();
    let params = json!({
        "protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" }
    });
    let opened = send(&service, bearer("bob", legacy(None, "initialize", params))).await;
    let session = opened.header("mcp-session-id").unwrap().to_owned();
    let batch = |members: Value| {
        let mut made = notification(&session, "x", json!({}));
        *made.body_mut() = Full::from(members.to_string());
        bearer("bob", made)
    };
    let member = |id: u64, tool: &str| {
        json!({
            "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool }
        })
    };
    let refused = send(&service, batch(json!([member(1, "who"), member(2, "admin")]))).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    assert!(challenges(&refused)[0].contains(r#"error="insufficient_scope", scope="admin""#), "{refused:?}");
    assert!(refused.json()["result"].is_null());
    let allowed = send(&service, batch(json!([member(1, "who"), member(2, "known")]))).await;
    assert_eq!((allowed.status, allowed.json().as_array().map(Vec::len)), (StatusCode::OK, Some(2)));
}

#[tokio::test]
async fn messages_of_http_sse_need_credentials_too() {
    let service = server().into_service(config().sse("/sse", "/messages"));
    assert_eq!(service.handle(sse::get()).await.status(), StatusCode::UNAUTHORIZED);
    let mut stream = service.handle(bearer("ann", sse::get())).await.into_body();
    let frame = within("the endpoint", stream.frame()).await.unwrap().unwrap().into_data().unwrap();
    let text = std::str::from_utf8(&frame).unwrap().to_owned();
    let endpoint = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let ping = || sse::post(endpoint, &json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    for (made, status) in [(ping(), 401), (bearer("bob", ping()), 404), (bearer("ann", ping()), 202)] {
        assert_eq!(send(&service, made).await.status.as_u16(), status);
    }
}
