//! The end of logins.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use mcp_client_http::Authorizer as _;
use mcp_oauth::{
    Answer, Error, ErrorKind, Login, MemoryStore, OAuthBuilder, Revocation, SealedStore, TokenStore as _, UserAgent,
};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, RegisteredClient, ResponseFault};
use mcp_transport::BoxFuture;
use serde_json::Value;
use tokio::time::timeout;

use crate::{
    common::{World, until},
    sealed::FakeKeyring,
};

fn requests(world: &World) -> Vec<[String; 2]> {
    let requests = world.authorization.requests();
    let revocations = requests.iter().filter(|request| request.endpoint() == Endpoint::Revocation);
    revocations
        .map(|request| ["token_type_hint", "token"].map(|name| request.parameter(name).unwrap().to_owned()))
        .collect()
}

#[tokio::test]
async fn a_logout_revokes_the_refresh_token_and_then_the_access_token() {
    type Configure = fn(OAuthBuilder) -> OAuthBuilder;
    let with_secret: Configure = |auth| auth.client_id("app").client_secret("hunter2");
    for (configure, is_loaded) in [((|auth| auth) as Configure, true), (with_secret, false)] {
        let client = RegisteredClient::with_secret("app", "hunter2").redirect_uri("http://127.0.0.1/callback");
        let world = World::with(AuthorizationServer::builder().client(client)).await;
        let store = MemoryStore::new();
        let build = || configure(world.builder()).issuer(world.authorization.issuer()).store(store.clone()).build();
        let first = build();
        let token = world.site.token(&first).await;
        let record = store.load(&world.site.key()).await.unwrap().unwrap();
        let record: Value = serde_json::from_str(record.expose()).unwrap();
        let auth = if is_loaded { first } else { build() };
        let revocation = auth.log_out(&world.site.endpoint).await.unwrap();
        assert!(matches!(revocation, Revocation::Revoked), "{revocation:?}");
        let refresh = record["refresh_token"].as_str().unwrap();
        let expected = [["refresh_token", refresh], ["access_token", token.as_str()]];
        assert_eq!(requests(&world), expected.map(|pair| pair.map(str::to_owned)));
        assert!(store.load(&world.site.key()).await.unwrap().is_none());
        // The authorization server revoked the login.
        assert!(world.authorization.requests().iter().all(|request| request.status().as_u16() < 400));
        store.save(&world.site.key(), &record.to_string().as_str().into()).await.unwrap();
        world.site.expire(&store).await;
        world.site.token(&build()).await;
        assert_eq!(world.user.count(), 2);
    }
}

#[tokio::test]
async fn a_logout_removes_the_tokens_if_the_revocation_fails() {
    use ResponseFault::{Slow, Status};
    for (endpoint, fault, kind) in [
        (Endpoint::Revocation, Status(503), ErrorKind::Unavailable),
        (Endpoint::Revocation, Status(404), ErrorKind::Token),
        (Endpoint::Revocation, Slow(Duration::from_secs(20)), ErrorKind::Unavailable),
        (Endpoint::Metadata, Status(500), ErrorKind::Unavailable),
        (Endpoint::Metadata, Slow(Duration::from_secs(20)), ErrorKind::Unavailable),
    ] {
        let world = World::new().await;
        let store = MemoryStore::new();
        world.site.token(&world.builder().store(store.clone()).build()).await;
        world.authorization.misbehave(Misbehavior::Response(endpoint, fault.clone()));
        let auth = world.builder().store(store.clone()).build();
        let started = Instant::now();
        let revocation = auth.log_out(&world.site.endpoint).await.unwrap();
        assert!(started.elapsed() < Duration::from_secs(8), "{fault:?}");
        let Revocation::Failed(error) = revocation else { panic!("{fault:?}: {revocation:?}") };
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        assert!(store.load(&world.site.key()).await.unwrap().is_none());
        assert!(auth.stored_login(&world.site.endpoint).await.unwrap().is_none());
    }
}

#[tokio::test]
async fn a_logout_without_tokens_or_endpoint_sends_nothing() {
    let world = World::new().await;
    let auth = world.auth();
    assert!(matches!(auth.log_out(&world.site.endpoint).await.unwrap(), Revocation::NoLogin));
    // The tokens of another configured issuer are removed, and not sent.
    let store = MemoryStore::new();
    world.site.token(&world.builder().store(store.clone()).build()).await;
    let other = world.builder().issuer("https://as.example").store(store.clone()).build();
    let revocation = other.log_out(&world.site.endpoint).await.unwrap();
    assert!(matches!(&revocation, Revocation::Failed(error) if error.kind() == ErrorKind::Registration));
    assert!(store.load(&world.site.key()).await.unwrap().is_none());
    // A server of 2025-03-26 without metadata has no endpoint.
    world.site.token(&world.builder().store(store.clone()).build()).await;
    world.site.edit(&store, |record| record["is_legacy"] = true.into()).await;
    let legacy = world.builder().store(store).build();
    assert!(matches!(legacy.log_out(&world.site.endpoint).await.unwrap(), Revocation::Unsupported));
    assert_eq!(world.authorization.count(Endpoint::Revocation), 0);
}

#[tokio::test]
async fn another_process_does_not_undo_a_logout() {
    // The tokens remain valid, because the revocation fails.
    let fault = Misbehavior::Response(Endpoint::Revocation, ResponseFault::Status(503));
    let mut world = World::with(AuthorizationServer::builder().misbehave(fault)).await;
    let store = MemoryStore::new();
    let first = world.builder().store(store.clone()).build();
    let token = world.site.token(&first).await;
    world.user.declines = true;
    let second = world.builder().store(store.clone()).build();
    assert_eq!(world.site.token(&second).await, token);
    first.log_out(&world.site.endpoint).await.unwrap();
    world.site.revoke(&token);
    // The second process asks the user, and does not renew its tokens.
    assert_eq!(world.site.error(&second).await.kind(), ErrorKind::Denied);
    assert_eq!(world.authorization.count(Endpoint::Token), 1);
    assert!(store.load(&world.site.key()).await.unwrap().is_none());
    assert!(second.authorize(&world.site.target()).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_logout_revokes_the_stored_tokens_and_those_of_the_process() {
    let (world, store) = (World::new().await, MemoryStore::new());
    let auth = world.builder().store(store.clone()).build();
    world.site.token(&auth).await;
    let other = |record: &mut Value| {
        record["access_token"] = "other-access".into();
        record["refresh_token"] = "other-refresh".into();
    };
    world.site.edit(&store, other).await;
    let revocation = auth.log_out(&world.site.endpoint).await.unwrap();
    assert!(matches!(revocation, Revocation::Revoked), "{revocation:?}");
    let requests = requests(&world);
    assert_eq!(requests.len(), 4, "{requests:?}");
    assert_eq!([&*requests[0][1], &*requests[1][1]], ["other-refresh", "other-access"]);
}

#[tokio::test]
async fn a_logout_reports_tokens_that_it_cannot_read() {
    let (world, store) = (World::new().await, MemoryStore::new());
    world.site.token(&world.builder().store(SealedStore::new(store.clone(), FakeKeyring::default())).build()).await;
    let sealed = store.load(&world.site.key()).await.unwrap().unwrap();
    for record in [sealed, "{".into()] {
        store.save(&world.site.key(), &record).await.unwrap();
        let auth = world.builder().store(store.clone()).build();
        let revocation = auth.log_out(&world.site.endpoint).await.unwrap();
        assert!(matches!(&revocation, Revocation::Failed(_)), "{revocation:?}");
        assert!(store.load(&world.site.key()).await.unwrap().is_none());
        let again = auth.log_out(&world.site.endpoint).await.unwrap();
        assert!(matches!(again, Revocation::NoLogin), "{again:?}");
    }
}

/// A user who does not decide.
#[derive(Clone, Default)]
struct Undecided(Arc<AtomicUsize>);

impl UserAgent for Undecided {
    fn open<'a>(&'a self, _: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_logout_does_not_wait_for_a_login() {
    let (world, store, user) = (Arc::new(World::new().await), MemoryStore::new(), Undecided::default());
    let asking = world.builder().user_agent(user.clone()).store(store.clone()).build();
    let call = tokio::spawn({
        let (world, asking) = (Arc::clone(&world), asking.clone());
        async move { world.site.error(&asking).await }
    });
    until(|| user.0.load(Ordering::SeqCst) > 0).await;
    // Another process waits a short time for the lock, and its user stays logged out.
    let other = world.builder().store(store.clone()).build();
    let limit = Duration::from_secs(15);
    let revocation = timeout(limit, other.log_out(&world.site.endpoint)).await.unwrap().unwrap();
    assert!(matches!(revocation, Revocation::NoLogin), "{revocation:?}");
    assert!(!call.is_finished());
    let revocation = timeout(limit, asking.log_out(&world.site.endpoint)).await.unwrap().unwrap();
    assert!(matches!(revocation, Revocation::NoLogin), "{revocation:?}");
    let error = timeout(limit, call).await.unwrap().unwrap();
    assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::LoginRequired, "a logout ended the login"));
}
