//! Refusals with status 403 that name scopes.

use http::StatusCode;
use mcp_oauth::{ErrorKind, MemoryStore};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior};

use crate::common::World;

#[tokio::test]
async fn a_step_up_requests_the_union_of_the_scopes() {
    let world = World::new().await;
    let auth = world.builder().scopes(["a"]).build();
    world.site.token(&auth).await;
    world.site.require(&["b"]);
    world.site.token(&auth).await;
    world.site.require(&["c", "a"]);
    world.site.token(&auth).await;
    let scopes: Vec<_> = world
        .authorization
        .requests()
        .iter()
        .filter(|request| request.endpoint() == Endpoint::Authorization)
        .map(|request| request.parameter("scope").unwrap().to_owned())
        .collect();
    assert_eq!(scopes, ["a", "a b", "a b c"]);
    // A step-up is a login and never a refresh.
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (3, 3));
}

#[tokio::test]
async fn scopes_that_were_already_requested_end_the_step_up() {
    let world = World::with(AuthorizationServer::builder().misbehave(Misbehavior::NarrowScope)).await;
    let auth = world.builder().scopes(["a"]).build();
    world.site.token(&auth).await;
    world.site.require(&["b"]);
    for _ in 0..3 {
        let error = world.site.error(&auth).await;
        assert_eq!(error.kind(), ErrorKind::InsufficientScope);
        assert_eq!(error.required_scopes(), ["b"]);
    }
    assert_eq!(world.user.count(), 2);
}

#[tokio::test]
async fn a_scope_that_an_earlier_login_did_not_grant_is_requested_again_later() {
    let world = World::with(AuthorizationServer::builder().misbehave(Misbehavior::NarrowScope)).await;
    let store = MemoryStore::new();
    let build = || world.builder().scopes(["a"]).store(store.clone()).build();
    let auth = build();
    world.site.token(&auth).await;
    world.site.require(&["b"]);
    assert_eq!(world.site.error(&auth).await.kind(), ErrorKind::InsufficientScope);
    assert_eq!(world.user.count(), 2);
    // The authorization server would grant the scope now, and the login is not recent.
    world.authorization.behave();
    let an_hour_ago = |record: &mut serde_json::Value| {
        record["logged_in_at"] = (record["logged_in_at"].as_u64().unwrap() - 3600).into();
    };
    world.site.edit(&store, an_hour_ago).await;
    world.site.token(&build()).await;
    assert_eq!(world.user.count(), 3);
}

#[tokio::test]
async fn the_scopes_of_a_server_have_a_limit() {
    let world = World::new().await;
    let scopes: Vec<String> = (0..201).map(|number| format!("s{number}")).collect();
    world.site.require(&scopes.iter().map(String::as_str).collect::<Vec<_>>());
    let error = world.site.error(&world.auth()).await;
    assert_eq!(error.kind(), ErrorKind::InsufficientScope, "{error}");
    assert_eq!(world.user.count(), 0);
}

#[tokio::test]
async fn a_server_that_requires_other_scopes_each_time_starts_few_logins() {
    let world = World::new().await;
    let auth = world.auth();
    let mut failure = None;
    for number in 0..20 {
        world.site.require(&[&format!("s{number}")]);
        if let Err(error) = world.site.call(&auth).await {
            failure = Some(error);
        }
    }
    assert_eq!(failure.unwrap().kind(), ErrorKind::LoginRequired);
    assert_eq!(world.user.count(), 10);
}

#[tokio::test]
async fn a_server_chooses_no_scope_of_another_resource() {
    let world = World::new().await;
    let own = format!("{}/read", world.site.endpoint);
    for (required, configured, is_allowed) in [
        (own.as_str(), &[][..], true),
        ("api://app/read", &["api://app/read"][..], true),
        ("api://app/read", &["api://app/write"][..], false),
        ("https://graph.example/.default", &[][..], false),
    ] {
        world.site.require(&[required]);
        let auth = world.builder().omit_resource().scopes(configured.iter().copied()).build();
        match world.site.call(&auth).await {
            Ok(_) => assert!(is_allowed, "{required}"),
            Err(error) => {
                assert!(!is_allowed && error.to_string().contains(required), "{required}: {error}");
                assert_eq!(
                    (error.kind(), error.required_scopes()),
                    (ErrorKind::InsufficientScope, &[required.to_owned()][..])
                );
            }
        }
    }
    assert_eq!(world.user.count(), 2);
}

#[tokio::test]
async fn a_refusal_without_scopes_requests_those_of_the_metadata() {
    use mcp_client_http::{Authorizer as _, Refusal, Verdict};
    use mcp_protocol::{Challenge, auth::ProtectedResourceMetadata};

    let world = World::new().await;
    let document = |scopes: &[&str]| {
        let issuer = world.authorization.issuer();
        ProtectedResourceMetadata::new(world.site.endpoint.as_str(), [issuer]).with_scopes(scopes.iter().copied())
    };
    world.site.publish(document(&["a"]));
    let auth = world.auth();
    world.site.token(&auth).await;
    let metadata = format!("{}/prm", world.site.endpoint.origin().ascii_serialization());
    let refuse = async || {
        let mut refusal = Refusal::new(world.site.target(), StatusCode::FORBIDDEN);
        let challenge = Challenge::bearer().with_error("insufficient_scope");
        refusal.challenges.push(challenge.with_resource_metadata(metadata.clone()));
        refusal.sent = auth.authorize(&world.site.target()).await.unwrap();
        refusal.can_retry = true;
        auth.refused(&refusal).await
    };
    // The metadata names no further scope, so a login would not help.
    assert!(refuse().await.is_err());
    assert_eq!(world.user.count(), 1);
    // The server requires one more scope by now.
    world.site.publish(document(&["a", "b"]));
    assert_eq!(refuse().await.unwrap(), Verdict::Retry);
    assert_eq!(world.user.count(), 2);
    assert!(refuse().await.is_err());
    let scopes: Vec<_> = world
        .authorization
        .requests()
        .iter()
        .filter(|request| request.endpoint() == Endpoint::Authorization)
        .map(|request| request.parameter("scope").unwrap().to_owned())
        .collect();
    assert_eq!((scopes, world.user.count()), (vec!["a".to_owned(), "a b".to_owned()], 2));
}

#[tokio::test]
async fn other_refusals_with_403_start_no_login() {
    use mcp_client_http::{Authorizer as _, Refusal, Verdict};
    use mcp_protocol::Challenge;

    let world = World::new().await;
    let auth = world.auth();
    for challenges in [vec![], vec![Challenge::bearer().with_scopes(["b"])], vec![Challenge::invalid_token()]] {
        let mut refusal = Refusal::new(world.site.target(), StatusCode::FORBIDDEN);
        refusal.challenges = challenges;
        assert_eq!(auth.refused(&refusal).await.unwrap(), Verdict::GiveUp);
    }
    assert_eq!(world.user.count(), 0);
}
