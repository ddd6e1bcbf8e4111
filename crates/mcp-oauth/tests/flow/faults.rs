//! Faulty and hostile servers.

use std::time::Duration;

use mcp_oauth::{ErrorKind, MemoryStore, SealedStore, TokenStore as _};
use mcp_protocol::auth::ProtectedResourceMetadata;
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, ResponseFault};

use crate::{common::World, sealed::FakeKeyring};

#[tokio::test]
async fn a_faulty_authorization_server_gets_no_token_request() {
    use Misbehavior::{ChangedState, NoIss, NoPkceMethods, RegistrationRejected, Response, WrongIss, WrongIssuer};
    for (misbehavior, kind, text, pages) in [
        (WrongIssuer, ErrorKind::Discovery, "the document has the issuer \"https://wrong.example\"", 0),
        (NoPkceMethods, ErrorKind::Discovery, "`code_challenge_methods_supported` is missing", 0),
        (RegistrationRejected, ErrorKind::Registration, "refused the registration", 0),
        (WrongIss, ErrorKind::Callback, "has another issuer", 1),
        (NoIss, ErrorKind::Callback, "lacks `iss`", 1),
        (ChangedState, ErrorKind::Callback, "does not belong to this login", 1),
        (Response(Endpoint::Metadata, ResponseFault::Html), ErrorKind::Discovery, "not the expected JSON", 0),
        (Response(Endpoint::Metadata, ResponseFault::Status(503)), ErrorKind::Unavailable, "503", 0),
        (Response(Endpoint::Metadata, ResponseFault::Huge), ErrorKind::Discovery, "larger than", 0),
        (
            Response(Endpoint::Metadata, ResponseFault::Redirect("http://169.254.169.254/".into())),
            ErrorKind::Discovery,
            "a redirect leads to another origin",
            0,
        ),
        (Response(Endpoint::Registration, ResponseFault::Status(500)), ErrorKind::Unavailable, "500", 0),
        (Response(Endpoint::Registration, ResponseFault::Html), ErrorKind::Registration, "is not a registration", 0),
    ] {
        let mut world = World::with(AuthorizationServer::builder().misbehave(misbehavior.clone())).await;
        world.user.pastes = true;
        let error = world.site.error(&world.auth()).await;
        assert_eq!(error.kind(), kind, "{misbehavior:?}: {error}");
        assert!(error.to_string().contains(text), "{misbehavior:?}: {error}");
        let counts = [Endpoint::Authorization, Endpoint::Token].map(|endpoint| world.authorization.count(endpoint));
        assert_eq!(counts, [pages, 0], "{misbehavior:?}");
    }
}

#[tokio::test]
async fn faulty_answers_of_the_token_endpoint_are_errors() {
    use Misbehavior::{ResourceRejected, Response, WrongTokenType};
    for (misbehavior, kind, text) in [
        (WrongTokenType, ErrorKind::Token, "not a bearer token"),
        (Response(Endpoint::Token, ResponseFault::Html), ErrorKind::Token, "is not a token response"),
        (Response(Endpoint::Token, ResponseFault::Huge), ErrorKind::Token, "larger than"),
        (Response(Endpoint::Token, ResponseFault::Status(404)), ErrorKind::Token, "404"),
        (Response(Endpoint::Token, ResponseFault::Status(502)), ErrorKind::Unavailable, "502"),
        (Response(Endpoint::Token, ResponseFault::Truncated), ErrorKind::Unavailable, "failed"),
        (
            Response(Endpoint::Token, ResponseFault::Redirect("http://127.0.0.1:9/".into())),
            ErrorKind::Token,
            "a POST must not be redirected",
        ),
        (ResourceRejected, ErrorKind::Denied, "invalid_target"),
    ] {
        let world = World::with(AuthorizationServer::builder().misbehave(misbehavior.clone())).await;
        let error = world.site.error(&world.auth()).await;
        assert!(error.to_string().contains(text), "{misbehavior:?}: {error}");
        assert_eq!(error.kind(), kind, "{misbehavior:?}: {error}");
    }
}

#[tokio::test]
async fn an_application_can_omit_the_resource() {
    let world = World::with(AuthorizationServer::builder().misbehave(Misbehavior::ResourceRejected)).await;
    world.site.token(&world.builder().omit_resource().build()).await;
}

#[tokio::test]
async fn metadata_of_another_server_starts_no_login() {
    let world = World::new().await;
    for resource in ["https://b.example/mcp", "http://127.0.0.1:1/mcp"] {
        world.site.publish(ProtectedResourceMetadata::new(resource, [world.authorization.issuer()]));
        let error = world.site.error(&world.auth()).await;
        assert_eq!(error.kind(), ErrorKind::Discovery, "{error}");
    }
    assert!(world.authorization.requests().is_empty() && world.user.count() == 0);
}

#[tokio::test]
async fn a_declined_login_fails_all_waiting_requests_after_one_page() {
    let mut world = World::new().await;
    world.user.declines = true;
    world.user.delay = Duration::from_secs(1);
    let (auth, user, site) = (world.auth(), world.user.clone(), std::sync::Arc::new(world.site));
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let (auth, site) = (auth.clone(), std::sync::Arc::clone(&site));
            tokio::spawn(async move { site.error(&auth).await.kind() })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), ErrorKind::Denied);
    }
    let declined_at = user.declined_at.lock().unwrap().unwrap();
    assert!(declined_at.elapsed() < Duration::from_secs(1), "{:?}", declined_at.elapsed());
    assert_eq!(user.count(), 1);
}

#[tokio::test]
async fn a_declined_login_does_not_answer_other_refusals() {
    use mcp_client_http::{Authorizer as _, Refusal, Verdict};

    let mut world = World::new().await;
    world.user.declines = true;
    world.user.delay = Duration::from_secs(2);
    let (auth, user, target) = (world.auth(), world.user.clone(), world.site.target());
    let login = tokio::spawn({
        let auth = auth.clone();
        async move { world.site.error(&auth).await.kind() }
    });
    while user.count() == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // This refusal waits for the login, and names no scopes.
    let refusal = Refusal::new(target, http::StatusCode::FORBIDDEN);
    assert_eq!(auth.refused(&refusal).await.unwrap(), Verdict::GiveUp);
    assert_eq!(login.await.unwrap(), ErrorKind::Denied);
}

#[tokio::test]
async fn a_login_has_a_time_limit() {
    let mut world = World::new().await;
    world.user.delay = Duration::from_secs(60);
    let auth = world.builder().login_limit(Duration::from_millis(100)).build();
    let error = world.site.error(&auth).await;
    assert_eq!(error.kind(), ErrorKind::LoginRequired);
    assert!(error.to_string().contains("did not complete the login"), "{error}");
}

#[cfg(not(feature = "browser"))]
#[tokio::test]
async fn a_required_login_without_a_user_agent_is_an_error() {
    let world = World::new().await;
    assert_eq!(world.site.error(&mcp_oauth::OAuth::new()).await.kind(), ErrorKind::LoginRequired);
}

#[tokio::test]
async fn an_unreadable_record_of_a_declined_login_does_not_block_logins() {
    let (world, store) = (World::new().await, MemoryStore::new());
    let key = format!("declined/{}", world.site.endpoint);
    let sealing = SealedStore::new(store.clone(), FakeKeyring::default());
    sealing.save(&key, &"{}".into()).await.unwrap();
    let sealed = store.load(&key).await.unwrap().unwrap();
    // The last record is older than the login, although its clock is ahead.
    for record in [sealed, "{".into(), format!("{{\"id\":\"a\",\"at\":{}}}", u64::MAX).into()] {
        store.save(&key, &record).await.unwrap();
        world.site.token(&world.builder().store(store.clone()).build()).await;
        assert!(store.load(&key).await.unwrap().is_none(), "the login removes the record");
        store.remove(&world.site.key()).await.unwrap();
    }
    assert_eq!(world.user.count(), 3);
}
