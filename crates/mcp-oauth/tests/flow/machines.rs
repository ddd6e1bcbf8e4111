//! Clients that act for themselves.

use mcp_auth::jose::SigningKey;
use mcp_oauth::{ClientKey, ErrorKind, MemoryStore, OAuthBuilder};
use mcp_test::authorization_server::{
    AuthorizationServer, AuthorizationServerBuilder, Endpoint, RecordedRequest, RegisteredClient,
};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use serde_json::json;

use crate::common::{World, claims_of};

/// A key of a client, and its key set.
fn key() -> (ClientKey, serde_json::Value) {
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let jwk = SigningKey::from_pkcs8(der.as_ref()).unwrap().jwk().clone();
    (ClientKey::from_der(der.as_ref()).unwrap(), json!({"keys": [jwk]}))
}

fn token_requests(world: &World) -> Vec<RecordedRequest> {
    world.authorization.requests().into_iter().filter(|request| request.endpoint() == Endpoint::Token).collect()
}

#[tokio::test]
async fn a_client_authenticates_with_a_secret_or_a_key() {
    let (key, keys) = key();
    for (client, configure) in [
        (
            RegisteredClient::with_secret("service", "hunter2"),
            Box::new(|auth: OAuthBuilder| auth.client_secret("hunter2")) as Box<dyn Fn(OAuthBuilder) -> OAuthBuilder>,
        ),
        (RegisteredClient::with_keys("service", keys), Box::new(move |auth| auth.client_key(key.clone()))),
    ] {
        let world = World::with(AuthorizationServer::builder().client(client)).await;
        let store = MemoryStore::new();
        let auth = configure(world.builder().client_id("service")).client_credentials().scopes(["a"]);
        let auth = auth.store(store.clone()).build();
        let claims = claims_of(&world.site.token(&auth).await);
        assert_eq!((&claims["client_id"], &claims["aud"]), (&json!("service"), &json!(world.site.endpoint.as_str())));
        let first = &token_requests(&world)[0];
        assert_eq!(first.parameter("grant_type"), Some("client_credentials"));
        assert_eq!(
            (first.parameter("resource"), first.parameter("scope")),
            (Some(world.site.endpoint.as_str()), Some("a"))
        );
        assert!(first.parameter("client_secret").is_none());

        // The server requires another scope, and later another token.
        world.site.require(&["b"]);
        let token = world.site.token(&auth).await;
        assert_eq!(token_requests(&world)[1].parameter("scope"), Some("a b"));
        world.site.revoke(&token);
        world.site.token(&auth).await;
        assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (0, 3));
    }
}

#[tokio::test]
async fn wrong_credentials_are_an_error() {
    let (_, keys) = key();
    let (wrong, _) = key();
    let clients = [RegisteredClient::with_secret("a", "hunter2"), RegisteredClient::with_keys("b", keys)];
    let builder = clients.into_iter().fold(AuthorizationServer::builder(), AuthorizationServerBuilder::client);
    let world = World::with(builder).await;
    for (auth, kind) in [
        (world.builder().client_id("a").client_secret("hunter3"), ErrorKind::Token),
        (world.builder().client_id("b").client_key(wrong), ErrorKind::Token),
        (world.builder(), ErrorKind::Configuration),
    ] {
        let error = world.site.error(&auth.client_credentials().build()).await;
        assert_eq!(error.kind(), kind, "{error}");
        let code = error.oauth_error().map(|error| error.error.as_str());
        assert_eq!(code, (kind == ErrorKind::Token).then_some("invalid_client"));
    }
    assert_eq!(world.user.count(), 0);
}
