//! The explanation of a discovery.

use mcp_fetch::Fetch;
use mcp_oauth::{DiscoveryRule, DiscoveryStep, MemoryStore, OAuthBuilder, StepKind, TokenStore as _};
use mcp_protocol::auth::ProtectedResourceMetadata;
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, ResponseFault};

use crate::common::World;

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
            "resource-document",
            "resource-covers-server",
            "names-issuer",
            "issuer-url",
            "issuer-equal",
            "registration",
            "token-endpoint",
            "login-page",
            "pkce"
        ]
    );
    let all = DiscoveryRule::ALL.map(DiscoveryRule::name);
    let positions = rules.iter().map(|rule| all.iter().position(|name| name == rule).unwrap());
    assert!(positions.is_sorted(), "`DiscoveryRule::ALL` has the order of the checks");
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

#[tokio::test]
async fn an_explanation_fails_with_the_error_of_the_login() {
    type Configure = fn(OAuthBuilder) -> OAuthBuilder;
    let same: Configure = |auth| auth;
    for (misbehavior, configure, expected) in [
        (Some(Misbehavior::NoPkceMethods), same, Some(DiscoveryRule::Pkce)),
        (Some(Misbehavior::WrongIssuer), same, Some(DiscoveryRule::IssuerEqual)),
        (Some(Misbehavior::Response(Endpoint::Metadata, ResponseFault::Status(503))), same, None),
        (None, |auth| auth.issuer("https://as.example"), Some(DiscoveryRule::IssuerConfigured)),
        (None, |auth| auth.client_secret("hunter2"), None),
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
async fn check(world: &World, auth: &mcp_oauth::OAuth, expected: Option<DiscoveryRule>) {
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
