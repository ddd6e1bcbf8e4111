//! The explanation of a discovery.

use std::time::Duration;

use mcp_client_http::{Authorizer as _, Refusal};
use mcp_fetch::Fetch;
use mcp_oauth::{
    DiscoveryRule, DiscoveryStep, Error, ErrorKind, Explanation, MemoryStore, OAuth, OAuthBuilder, StepKind,
    TokenStore as _,
};
use mcp_protocol::{Challenge, auth::ProtectedResourceMetadata};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, ResponseFault};
use tokio::net::TcpListener;
use url::Url;

use crate::common::{self, User, World};

fn failed(steps: &[DiscoveryStep]) -> Vec<DiscoveryRule> {
    let checks = steps.iter().flat_map(|step| &step.checks);
    checks.filter(|check| check.failure.is_some()).map(|check| check.rule).collect()
}

#[tokio::test]
async fn an_explanation_shows_each_step_and_sends_no_credentials() {
    let builder = AuthorizationServer::builder().scopes(["a", "offline_access"]);
    let world = World::with(builder).await;
    let resource = world.site.endpoint.as_str();
    let document = ProtectedResourceMetadata::new(resource, [world.authorization.issuer()]).with_scopes(["a"]);
    world.site.publish(document);
    let store = MemoryStore::new();
    let build = || world.builder().store(store.clone()).build();
    let explanation = build().explain(&world.site.endpoint).await.unwrap();
    assert!(explanation.error.is_none() && failed(&explanation.steps).is_empty(), "{explanation:?}");
    let [challenge, metadata, server, login] = &explanation.steps[..] else { panic!("{explanation:?}") };
    let kinds = [challenge, metadata, server, login].map(|step| step.kind);
    let expected = [StepKind::Challenge, StepKind::ResourceMetadata, StepKind::ServerMetadata, StepKind::Login];
    assert_eq!(kinds, expected);
    let statuses = [challenge, metadata, server, login].map(|step| step.status.map(|status| status.as_u16()));
    assert_eq!(statuses, [Some(401), Some(200), Some(200), None]);
    let url = metadata.url.as_deref().unwrap();
    assert_eq!(challenge.document.as_ref().unwrap()["challenges"][0]["resource_metadata"], url);
    assert_eq!(metadata.document.as_ref().unwrap()["resource"], resource);
    assert_eq!(server.document.as_ref().unwrap()["issuer"], world.authorization.issuer());
    let plan = login.document.as_ref().unwrap();
    assert_eq!((&plan["client"], &plan["resource"]), (&"a dynamic registration".into(), &resource.into()));
    assert_eq!(plan["scopes"], serde_json::json!(["a", "offline_access"]));
    let rules: Vec<_> = explanation.steps.iter().flat_map(|step| &step.checks).map(|check| check.rule.name()).collect();
    assert_eq!(
        rules,
        [
            "endpoint",
            "resource-document",
            "resource-covers-server",
            "names-issuer",
            "issuer-url",
            "issuer-equal",
            "scopes",
            "registration",
            "token-endpoint",
            "login-page",
            "pkce"
        ]
    );
    let all = DiscoveryRule::ALL.map(DiscoveryRule::name);
    let positions = rules.iter().map(|rule| all.iter().position(|name| name == rule).unwrap());
    assert!(positions.is_sorted(), "`DiscoveryRule::ALL` has the order of the checks");
    assert!(assumed(&explanation.steps).is_empty(), "{explanation:?}");
    let requests = || world.authorization.requests();
    assert!(requests().iter().all(|request| request.endpoint() == Endpoint::Metadata));

    // Stored tokens are neither sent nor changed. The site closes the connection of a request with a token.
    world.site.token(&build()).await;
    let (tokens, count) = (store.load(&world.site.key()).await.unwrap(), requests().len());
    let explanation = build().explain(&world.site.endpoint).await.unwrap();
    assert_eq!(explanation.steps[0].status.map(|status| status.as_u16()), Some(401));
    let plan = explanation.steps.last().unwrap().document.as_ref().unwrap();
    assert!(plan["client"].as_str().unwrap().starts_with("the registered client "), "{plan}");
    assert!(requests()[count..].iter().all(|request| !request.headers().contains_key("authorization")));
    assert!(store.load(&world.site.key()).await.unwrap() == tokens);
    assert_eq!((world.user.count(), requests().len()), (1, count + 1));
}

/// Returns the rules that no document shows.
fn assumed(steps: &[DiscoveryStep]) -> Vec<DiscoveryRule> {
    let checks = steps.iter().flat_map(|step| &step.checks);
    checks.filter(|check| check.assumption.is_some()).map(|check| check.rule).collect()
}

#[tokio::test]
async fn an_explanation_fails_with_the_error_of_the_login() {
    type Configure = fn(OAuthBuilder) -> OAuthBuilder;
    let same: Configure = |auth| auth;
    for (misbehavior, configure, expected) in [
        (Some(Misbehavior::NoPkceMethods), same, Some(DiscoveryRule::Pkce)),
        (Some(Misbehavior::WrongIssuer), same, Some(DiscoveryRule::IssuerEqual)),
        (Some(Misbehavior::Response(Endpoint::Metadata, ResponseFault::Status(503))), same, None),
        (None, |auth| auth.issuer("https://as.example"), Some(DiscoveryRule::IssuerConfigured)),
        (None, |auth| auth.client_secret("hunter2"), Some(DiscoveryRule::Credentials)),
        (None, |auth| auth.client_id("app").client_secret("hunter2"), Some(DiscoveryRule::Credentials)),
        (None, |auth| auth.client_id(""), Some(DiscoveryRule::ClientId)),
        (None, |auth| auth.scopes(["a", "b\"c"]), Some(DiscoveryRule::ScopeSyntax)),
        (None, |auth| auth.redirect_uri("http://app.example/callback"), Some(DiscoveryRule::RedirectUri)),
        // The client may not reach this machine. The server is not one without metadata.
        (None, |auth| auth.fetch(Fetch::builder().build()), None),
    ] {
        let builder = misbehavior
            .clone()
            .into_iter()
            .fold(AuthorizationServer::builder(), |builder, misbehavior| builder.misbehave(misbehavior));
        let world = World::with(builder).await;
        let auth = configure(world.builder()).build();
        check(&world, &auth, expected).await;
    }
    let world = World::with(AuthorizationServer::builder().no_registration()).await;
    check(&world, &world.auth(), Some(DiscoveryRule::Registration)).await;
    for (document, expected) in [
        (
            ProtectedResourceMetadata::new("https://b.example/mcp", ["https://as.example"]),
            DiscoveryRule::ResourceCoversServer,
        ),
        (ProtectedResourceMetadata::new(world.site.endpoint.as_str(), [""; 0]), DiscoveryRule::NamesIssuer),
        (ProtectedResourceMetadata::new(world.site.endpoint.as_str(), ["as.example\u{1b}"]), DiscoveryRule::IssuerUrl),
    ] {
        world.site.publish(document);
        check(&world, &world.auth(), Some(expected)).await;
    }
    // A server of 2025-03-26 without metadata.
    world.site.unpublish();
    check(&world, &world.builder().device_flow().build(), Some(DiscoveryRule::DeviceFlow)).await;
}

/// Compares the explanation with a login.
async fn check(world: &World, auth: &OAuth, expected: Option<DiscoveryRule>) {
    let explanation = auth.explain(&world.site.endpoint).await.unwrap();
    let error = explanation.error.as_ref().unwrap_or_else(|| panic!("{expected:?}: {explanation:?}"));
    let failures = failed(&explanation.steps);
    assert!(failures.iter().all(|rule| Some(*rule) == expected), "{expected:?}: {failures:?}");
    assert_eq!(failures.is_empty(), expected.is_none(), "{expected:?}: {explanation:?}");
    assert!(!format!("{explanation:?} {error}").contains('\u{1b}'), "{error}");
    assert!(world.authorization.requests().iter().all(|request| request.endpoint() == Endpoint::Metadata));
    let real = world.site.error(auth).await;
    assert_eq!((error.kind(), error.to_string()), (real.kind(), real.to_string()));
}

#[tokio::test]
async fn an_explanation_checks_the_settings_of_the_application() {
    let world = World::with(AuthorizationServer::builder().scopes(["a"])).await;
    let explain = async |auth: OAuthBuilder| auth.build().explain(&world.site.endpoint).await.unwrap();
    let explanation = explain(world.builder().client_id("app").scopes(["a", "b"])).await;
    assert!(explanation.error.is_none(), "{explanation:?}");
    let settings = &explanation.steps[0];
    assert_eq!((settings.kind, settings.url.as_deref()), (StepKind::Settings, None));
    assert_eq!(settings.document, Some(serde_json::json!({"client_id": "app", "scopes": ["a", "b"]})));
    let rules: Vec<_> = settings.checks.iter().map(|check| check.rule).collect();
    assert_eq!(rules, [DiscoveryRule::ClientId, DiscoveryRule::ScopeSyntax, DiscoveryRule::RedirectUri]);
    // The registration may exclude a free port, and the authorization server may have further scopes.
    assert_eq!(assumed(&explanation.steps), [DiscoveryRule::RedirectUri, DiscoveryRule::Scopes]);
    let scopes = explanation.steps.last().unwrap().checks.iter().find(|check| check.rule == DiscoveryRule::Scopes);
    assert!(scopes.unwrap().assumption.as_ref().unwrap().contains("[\"b\"]"), "{scopes:?}");

    // An occupied port fails like the login.
    let occupied = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = occupied.local_addr().unwrap().port();
    let auth = world.builder().redirect_port(port).build();
    check(&world, &auth, Some(DiscoveryRule::RedirectUri)).await;
    let shown = &auth.explain(&world.site.endpoint).await.unwrap().steps[0];
    let uri = format!("http://127.0.0.1:{port}/callback");
    assert_eq!(shown.document, Some(serde_json::json!({"redirect_uri": uri})));

    // A secret is not shown.
    let auth = world.builder().client_id("app").client_secret("hunter2").issuer(world.authorization.issuer());
    let explanation = explain(auth).await;
    assert!(explanation.error.is_none() && !format!("{explanation:?}").contains("hunter2"), "{explanation:?}");
    let rules: Vec<_> = explanation.steps.iter().flat_map(|step| &step.checks).map(|check| check.rule).collect();
    assert!(rules.contains(&DiscoveryRule::Credentials) && rules.contains(&DiscoveryRule::IssuerConfigured));
}

/// Starts a server with a response for each method and path. `ORIGIN` is its origin. All other requests receive 404.
async fn pages(pages: &[(&'static str, &'static str)]) -> Url {
    let pages = pages.to_vec();
    let origin = common::pages(move |request, origin| {
        let page = pages.iter().find(|(known, _)| *known == request);
        page.map_or("404 Not Found\r\n\r\n", |(_, page)| page).replace("ORIGIN", origin)
    });
    Url::parse(&origin.await).unwrap().join("/mcp").unwrap()
}

async fn explain(endpoint: &Url) -> Explanation {
    OAuth::builder().build().explain(endpoint).await.unwrap()
}

const BEARER: (&str, &str) = ("POST /mcp", "401 Unauthorized\r\nwww-authenticate: Bearer\r\n");

#[tokio::test]
async fn servers_with_other_credentials_offer_no_login() {
    const API_KEY: &str = "401 Unauthorized\r\nwww-authenticate: ApiKey realm=\"a\", header=\"x-api-key\"\r\n";
    for (challenge, header) in [
        (API_KEY, Some("x-api-key")),
        ("401 Unauthorized\r\nwww-authenticate: ApiKey in=header, name=X-Key\r\n", Some("X-Key")),
        ("401 Unauthorized\r\nwww-authenticate: ApiKey header=\"a'b\"\r\n", None),
        ("401 Unauthorized\r\nwww-authenticate: Basic realm=\"a\"\r\n", Some("Authorization")),
        // The server has no page for a login either.
        (BEARER.1, Some("Authorization")),
        ("401 Unauthorized\r\n\r\n", None),
    ] {
        let endpoint = pages(&[("POST /mcp", challenge)]).await;
        let explanation = explain(&endpoint).await;
        let error = explanation.error.as_ref().unwrap_or_else(|| panic!("{challenge}: {explanation:?}"));
        assert_eq!((error.kind(), error.credentials_header()), (ErrorKind::NoLogin, header), "{challenge}: {error}");
        assert_eq!(failed(&explanation.steps), [DiscoveryRule::OffersLogin], "{challenge}");
        assert!(error.to_string().contains("no OAuth metadata"), "{error}");
        // A login fails for the same reason.
        let user = User::default();
        for builder in [OAuth::builder(), OAuth::builder().client_id("app")] {
            let failure = refused(&builder.user_agent(user.clone()).build(), &endpoint, challenge).await;
            assert_eq!((failure.kind(), failure.credentials_header()), (ErrorKind::NoLogin, header), "{failure}");
        }
        assert_eq!(user.count(), 0, "{challenge}");
    }
}

/// Returns the error of a login after a response with the status 401.
async fn refused(auth: &OAuth, endpoint: &Url, challenge: &str) -> Error {
    let target = mcp_client_http::Target::new(http::Method::POST, endpoint.clone());
    let mut refusal = Refusal::new(target, 401.try_into().unwrap());
    let value = challenge.split_once("authenticate: ").and_then(|(_, rest)| rest.lines().next());
    refusal.challenges = Challenge::parse(value);
    refusal.can_retry = true;
    let failure = auth.refused(&refusal).await.unwrap_err();
    std::error::Error::source(&failure).unwrap().downcast_ref::<Error>().unwrap().clone()
}

#[tokio::test]
async fn a_registered_client_opens_the_default_page_of_a_server_without_metadata() {
    // A page that needs parameters, one that is away for a moment, and one that redirects.
    for page in
        ["400 Bad Request\r\n\r\n", "503 Service Unavailable\r\n\r\n", "302 Found\r\nlocation: https://a.example/\r\n"]
    {
        let endpoint = pages(&[BEARER, ("GET /authorize", page)]).await;
        let user = User::default();
        let builder = OAuth::builder().client_id("app").user_agent(user.clone());
        let error = refused(&builder.login_limit(Duration::from_millis(100)).build(), &endpoint, BEARER.1).await;
        assert_eq!((error.kind(), user.count()), (ErrorKind::LoginRequired, 1), "{page}: {error}");
    }
}

#[tokio::test]
async fn rules_of_default_endpoints_are_assumed() {
    use DiscoveryRule::{IssuerConfigured, LoginPage, OffersLogin, Pkce, Registration, TokenEndpoint};

    let endpoint = pages(&[BEARER, ("GET /authorize", "302 Found\r\nlocation: https://login.example/\r\n")]).await;
    let explanation = explain(&endpoint).await;
    assert!(explanation.error.is_none(), "{explanation:?}");
    assert_eq!(assumed(&explanation.steps), [OffersLogin, Registration, TokenEndpoint, LoginPage, Pkce]);
    let origin = endpoint.origin().ascii_serialization();
    let auth = OAuth::builder().issuer(&origin).client_id("app").redirect_port(0).build();
    let explanation = auth.explain(&endpoint).await.unwrap();
    assert_eq!(assumed(&explanation.steps), [IssuerConfigured, OffersLogin, TokenEndpoint, LoginPage, Pkce]);
    let other = OAuth::builder().issuer("https://as.example").build().explain(&endpoint).await.unwrap();
    assert_eq!(failed(&other.steps), [IssuerConfigured]);

    // A document without PKCE: the revision requires it.
    let document = r#"{"issuer":"ORIGIN","authorization_endpoint":"ORIGIN/a","token_endpoint":"ORIGIN/t","registration_endpoint":"ORIGIN/r"}"#;
    let page: &'static str = format!("200 OK\r\n\r\n{document}").leak();
    let endpoint = pages(&[BEARER, ("GET /.well-known/oauth-authorization-server", page)]).await;
    let explanation = explain(&endpoint).await;
    assert!(explanation.error.is_none(), "{explanation:?}");
    assert_eq!(assumed(&explanation.steps), [Pkce]);

    // An open server needs no login, and its default page is not requested.
    let endpoint = pages(&[("POST /mcp", "200 OK\r\ncontent-type: application/json\r\n{}")]).await;
    let explanation = explain(&endpoint).await;
    assert!(explanation.error.is_none(), "{explanation:?}");
    assert!(explanation.steps.iter().all(|step| step.kind != StepKind::DefaultPage));
}

#[tokio::test]
async fn redirects_of_the_first_request_are_those_of_the_client() {
    let endpoint = pages(&[
        ("POST /mcp", "308 Permanent Redirect\r\nlocation: /mcp/?key=hunter2\r\n"),
        ("POST /mcp/?key=hunter2", "307 Temporary Redirect\r\nlocation: ORIGIN/v1\r\n"),
        ("POST /v1", "401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"ORIGIN/prm?key=hunter2\"\r\n"),
        ("GET /prm?key=hunter2", "200 OK\r\n\r\n{\"resource\":\"ORIGIN/mcp\"}"),
    ])
    .await;
    let explanation = explain(&endpoint).await;
    let origin = endpoint.origin().ascii_serialization();
    let redirects: Vec<_> = explanation.steps.iter().map(|step| step.redirect.as_deref()).collect();
    let [first, second] = ["/mcp/", "/v1"].map(|path| format!("{origin}{path}"));
    assert_eq!(redirects, [Some(first.as_str()), Some(&second), None, None], "{explanation:?}");
    let urls: Vec<_> = explanation.steps.iter().filter_map(|step| step.url.as_deref()).collect();
    assert_eq!(urls, [endpoint.as_str(), &first, &second, &format!("{origin}/prm")]);
    assert_eq!(failed(&explanation.steps), [DiscoveryRule::NamesIssuer]);
    assert!(!format!("{explanation:?}").contains("hunter2"), "{explanation:?}");

    for (redirect, expected) in [
        ("307 Temporary Redirect\r\nlocation: https://b.example/mcp\r\n", "redirects to https://b.example"),
        ("302 Found\r\nlocation: /mcp/\r\n", "the status 302 changes the method"),
        ("308 Permanent Redirect\r\n\r\n", "the status 308 has no target"),
        ("308 Permanent Redirect\r\nlocation: /mcp\r\n", "too many redirects"),
    ] {
        let explanation = explain(&pages(&[("POST /mcp", redirect)]).await).await;
        let error = explanation.error.as_ref().unwrap_or_else(|| panic!("{redirect}: {explanation:?}"));
        assert!(error.to_string().contains(expected), "{redirect}: {error}");
        assert_eq!(failed(&explanation.steps), [DiscoveryRule::Endpoint], "{redirect}");
        let requests = explanation.steps.iter().filter(|step| step.kind == StepKind::Challenge).count();
        assert_eq!(requests, if expected.starts_with("too many") { 4 } else { 1 }, "{redirect}");
    }
}

#[tokio::test]
async fn a_wrong_path_is_a_fault_of_the_url() {
    // The metadata of the origin does not hide the fault.
    const OTHER: (&str, &str) =
        ("GET /.well-known/oauth-protected-resource", "200 OK\r\n\r\n{\"resource\":\"ORIGIN/other\"}");
    for (post, get, expected) in [
        ("404 Not Found\r\n\r\n", "404 Not Found\r\n\r\n", Some("404 Not Found")),
        ("405 Method Not Allowed\r\n\r\n", "200 OK\r\ncontent-type: text/html\r\n<p>", Some("405 Method Not Allowed")),
        ("200 OK\r\ncontent-type: text/html; charset=utf-8\r\n<p>", "200 OK\r\n\r\n", Some("an HTML page")),
        // A server with HTTP+SSE, and one of 2026-07-28 without tools.
        ("405 Method Not Allowed\r\n\r\n", "401 Unauthorized\r\nwww-authenticate: Bearer\r\n", None),
        ("404 Not Found\r\n\r\n", "200 OK\r\ncontent-type: text/event-stream\r\n", None),
        (
            "404 Not Found\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"\"}}",
            "404 Not Found\r\n\r\n",
            None,
        ),
    ] {
        let endpoint = pages(&[("POST /mcp", post), ("GET /mcp", get), OTHER]).await;
        let explanation = explain(&endpoint).await;
        let rules = failed(&explanation.steps);
        let error = explanation.error.as_ref().map(ToString::to_string).unwrap_or_default();
        match expected {
            Some(text) => {
                assert_eq!(rules, [DiscoveryRule::Endpoint], "{post} {get}");
                assert!(error.contains(text) && error.contains(endpoint.as_str()), "{post} {get}: {error}");
            }
            None => assert_eq!(rules, [DiscoveryRule::ResourceCoversServer], "{post} {get}: {error}"),
        }
    }
    for rule in [DiscoveryRule::Endpoint, DiscoveryRule::ResourceCoversServer] {
        assert!(rule.remedy().starts_with("Check the URL"), "{rule}");
    }
    let endpoint = pages(&[("POST /mcp", "503 Service Unavailable\r\n\r\n")]).await;
    let document = (
        "GET /.well-known/oauth-authorization-server",
        "200 OK\r\n\r\n{\"issuer\":\"ORIGIN\",\"authorization_endpoint\":\"ORIGIN/a\",\"token_endpoint\":\"ORIGIN/t\",\"registration_endpoint\":\"ORIGIN/r\"}",
    );
    let open = pages(&[("POST /mcp", "503 Service Unavailable\r\n\r\n"), document]).await;
    for endpoint in [endpoint, open] {
        let explanation = explain(&endpoint).await;
        let kind = explanation.error.as_ref().map(Error::kind);
        assert_eq!(kind, Some(ErrorKind::Unavailable), "{explanation:?}");
    }
}
