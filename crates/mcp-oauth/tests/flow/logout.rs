//! The end of logins.

use std::time::{Duration, Instant};

use mcp_oauth::{ErrorKind, MemoryStore, OAuthBuilder, Revocation, TokenStore as _};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, RegisteredClient, ResponseFault};
use serde_json::Value;

use crate::common::World;

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
