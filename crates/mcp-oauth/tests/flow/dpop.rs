//! Tokens that are bound to a key of the client.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, Method, StatusCode};
use mcp_auth::jose;
use mcp_client_http::{Authorizer as _, Refusal, Target, Verdict};
use mcp_oauth::{ErrorKind, MemoryStore};
use mcp_protocol::{Challenge, auth::ProtectedResourceMetadata};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior};

use crate::common::{World, claims_of};

#[tokio::test]
async fn bound_tokens_are_sent_with_a_fresh_proof() {
    let mut world = World::with(AuthorizationServer::builder().require_dpop()).await;
    world.site.require_proofs();
    let store = MemoryStore::new();
    let auth = world.builder().store(store.clone()).build();
    let first = world.site.token(&auth).await;
    assert_eq!(world.site.token(&auth).await, first);

    // Another process uses the stored key, and the refresh keeps it.
    world.site.expire(&store).await;
    let other = world.builder().store(store).build();
    let second = world.site.token(&other).await;
    assert_ne!(first, second);
    assert_eq!(claims_of(&first)["cnf"], claims_of(&second)["cnf"]);
    // The page of the login already names the key, so the code is bound to it.
    let requests = world.authorization.requests();
    let page = requests.iter().find(|request| request.endpoint() == Endpoint::Authorization).unwrap();
    assert_eq!(page.parameter("dpop_jkt"), claims_of(&first)["cnf"]["jkt"].as_str());
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 2));
}

#[tokio::test]
async fn proofs_have_the_nonces_of_both_servers() {
    let mut world = World::with(AuthorizationServer::builder().require_dpop().dpop_nonces()).await;
    world.site.require_proofs();
    *world.site.proofs().nonce.lock().unwrap() = Some("first".into());
    let auth = world.auth();
    let token = world.site.token(&auth).await;
    // The first token request has no nonce.
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 2));

    // A server changes its nonce with any response. The token stays.
    let proofs = world.site.proofs();
    *proofs.nonce.lock().unwrap() = Some("second".into());
    assert_eq!(world.site.token(&auth).await, token);
    let ids = proofs.ids.lock().unwrap().len();
    assert_eq!(world.site.token(&auth).await, token);
    assert_eq!(proofs.ids.lock().unwrap().len(), ids + 1, "the client knows the nonce");
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 2));
}

#[tokio::test]
async fn a_redirected_request_has_a_proof_and_a_nonce_of_its_own() {
    let mut world = World::with(AuthorizationServer::builder().require_dpop()).await;
    world.site.require_proofs();
    let auth = world.auth();
    world.site.token(&auth).await;
    // The HTTP client authorizes a request again after a redirect, and after the refusal at its target.
    let (start, mut moved) = (world.site.target(), world.site.target());
    moved.url = start.url.join("/mcp/v2?page=1").unwrap();
    let nonce = |nonce: &str| HeaderMap::from_iter([(HeaderName::from_static("dpop-nonce"), nonce.parse().unwrap())]);
    let mut ids = Vec::new();
    let mut proof = |sent: &HeaderMap, target: &Target| {
        let text = sent["dpop"].to_str().unwrap();
        let mut url = target.url.clone();
        url.set_query(None);
        let checked =
            jose::check_proof(text, &Method::POST, url.as_str(), Duration::from_secs(60), SystemTime::now()).unwrap();
        assert!(!ids.contains(&checked.id));
        ids.push(checked.id);
        checked.nonce
    };
    let first = auth.authorize(&start).await.unwrap();
    assert_eq!(proof(&first, &start), None);
    auth.answered(&start, &first, StatusCode::TEMPORARY_REDIRECT, &nonce("start"));
    let second = auth.authorize(&moved).await.unwrap();
    assert_eq!((proof(&second, &moved), &second["authorization"]), (None, &first["authorization"]));
    let mut refusal = Refusal::new(moved.clone(), StatusCode::UNAUTHORIZED);
    refusal.challenges.push(Challenge::new("DPoP").with_error("use_dpop_nonce"));
    (refusal.headers, refusal.sent) = (nonce("moved"), second.clone());
    auth.answered(&moved, &second, StatusCode::UNAUTHORIZED, &refusal.headers);
    assert_eq!(auth.refused(&refusal).await.unwrap(), Verdict::RetryFresh);
    for (target, expected) in [(&moved, "moved"), (&start, "start")] {
        let sent = auth.authorize(target).await.unwrap();
        assert_eq!(proof(&sent, target).as_deref(), Some(expected));
    }
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 1));
}

#[tokio::test]
async fn a_nonce_that_is_never_accepted_ends_the_login() {
    let builder = AuthorizationServer::builder().require_dpop().misbehave(Misbehavior::NonceLoop);
    let mut world = World::with(builder).await;
    world.site.require_proofs();
    let error = world.site.error(&world.auth()).await;
    assert_eq!(error.kind(), ErrorKind::Token, "{error}");
    assert_eq!(world.authorization.count(Endpoint::Token), 2);
}

#[tokio::test]
async fn the_metadata_document_selects_bound_tokens() {
    for (algorithms, is_required, is_bound) in
        [(Some("ES256"), None, true), (None, Some(true), true), (Some("RS256"), None, false), (None, None, false)]
    {
        let mut world = World::new().await;
        let mut document = ProtectedResourceMetadata::new(world.site.endpoint.as_str(), [world.authorization.issuer()]);
        document.dpop_signing_alg_values_supported = algorithms.map(|algorithm| vec![algorithm.to_owned()]);
        document.dpop_bound_access_tokens_required = is_required;
        world.site.publish(document);
        if is_bound {
            world.site.require_proofs();
        }
        world.site.challenges_dpop = false;
        let token = world.site.token(&world.auth()).await;
        assert_eq!(claims_of(&token)["cnf"].is_object(), is_bound, "{algorithms:?} {is_required:?}");
    }
}
