//! The renewal of tokens.

use std::{sync::Arc, time::Duration};

use mcp_oauth::{ErrorKind, MemoryStore, OAuth, TokenStore as _};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, ResponseFault};
use serde_json::Value;

use crate::common::World;

/// A world whose user is logged in, and a client that starts with the stored tokens of that login.
async fn logged_in(builder: mcp_test::authorization_server::AuthorizationServerBuilder) -> (World, MemoryStore, OAuth) {
    let world = World::with(builder).await;
    let store = MemoryStore::new();
    world.site.token(&world.builder().store(store.clone()).build()).await;
    let auth = world.builder().store(store.clone()).build();
    (world, store, auth)
}

async fn expired() -> (World, MemoryStore, OAuth) {
    let (world, store, auth) = logged_in(AuthorizationServer::builder()).await;
    world.site.expire(&store).await;
    (world, store, auth)
}

#[tokio::test]
async fn stored_tokens_serve_the_next_process() {
    let (world, _, auth) = logged_in(AuthorizationServer::builder()).await;
    world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_requests_at_the_end_of_a_token_send_one_refresh() {
    let (world, _, auth) = expired().await;
    let site = Arc::new(world.site);
    let calls: Vec<_> = (0..1_000)
        .map(|_| {
            let (auth, site) = (auth.clone(), Arc::clone(&site));
            tokio::spawn(async move { site.token(&auth).await })
        })
        .collect();
    let mut tokens = Vec::new();
    for call in calls {
        tokens.push(call.await.unwrap());
    }
    tokens.dedup();
    assert_eq!((tokens.len(), world.authorization.count(Endpoint::Token)), (1, 2));
    let requests = world.authorization.requests();
    let resources: Vec<_> = requests
        .iter()
        .filter(|request| request.endpoint() == Endpoint::Token)
        .map(|request| request.parameter("resource"))
        .collect();
    assert_eq!(resources, [Some(site.endpoint.as_str()); 2]);
}

#[tokio::test]
async fn a_refused_token_is_renewed_first_and_then_replaced_by_a_login() {
    let (world, _, auth) = logged_in(AuthorizationServer::builder()).await;
    let counts = || (world.user.count(), world.authorization.count(Endpoint::Token));
    for (rejections, logins, requests) in [(1, 1, 2), (1, 1, 3), (2, 2, 5)] {
        world.site.reject(rejections);
        world.site.token(&auth).await;
        assert_eq!(counts(), (logins, requests));
    }
}

#[tokio::test]
async fn a_late_answer_to_an_earlier_token_does_not_accept_the_current_one() {
    use http::{HeaderMap, StatusCode};
    use mcp_client_http::{Authorizer as _, Refusal, Verdict};
    use mcp_protocol::Challenge;

    for (is_late, logins) in [(true, 2), (false, 1)] {
        let (world, _, auth) = logged_in(AuthorizationServer::builder()).await;
        let target = world.site.target();
        let refusal_of = |sent: &HeaderMap| {
            let mut refusal = Refusal::new(target.clone(), StatusCode::UNAUTHORIZED);
            refusal.challenges.push(Challenge::invalid_token());
            refusal.challenges[0].resource_metadata =
                Some(format!("{}/prm", world.site.endpoint.origin().ascii_serialization()));
            refusal.sent = sent.clone();
            refusal
        };
        let first = auth.authorize(&target).await.unwrap();
        auth.answered(&target, &first, StatusCode::OK, &HeaderMap::new());
        assert_eq!(auth.refused(&refusal_of(&first)).await.unwrap(), Verdict::Retry);
        let second = auth.authorize(&target).await.unwrap();
        assert_ne!(first["authorization"], second["authorization"]);
        let answered = if is_late { &first } else { &second };
        auth.answered(&target, answered, StatusCode::OK, &HeaderMap::new());
        // A renewed token that the server never accepted is not renewed again.
        assert_eq!(auth.refused(&refusal_of(&second)).await.unwrap(), Verdict::Retry);
        assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (logins, 3), "{is_late}");
    }
}

#[tokio::test]
async fn a_server_that_rejects_each_token_starts_one_login() {
    let (world, _, auth) = logged_in(AuthorizationServer::builder()).await;
    world.site.reject(usize::MAX);
    let (status, _) = world.site.call(&auth).await.unwrap();
    assert_eq!(status, http::StatusCode::UNAUTHORIZED);
    // The third refusal of the request has no effect: a login would not help the request.
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (2, 3));
    for _ in 0..3 {
        let error = world.site.error(&auth).await;
        assert_eq!(error.kind(), ErrorKind::Token);
        assert!(error.to_string().contains("a login that just succeeded"), "{error}");
    }
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (2, 3));
}

#[tokio::test]
async fn a_rejected_refresh_token_leads_to_a_login_and_is_not_sent_again() {
    let (world, store, auth) = expired().await;
    world.authorization.misbehave(Misbehavior::RefreshRejected);
    world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (2, 3));

    // Without a user agent, the refusal is remembered.
    world.site.expire(&store).await;
    let auth = OAuth::builder().store(store.clone());
    #[cfg(feature = "browser")]
    let auth = auth.user_agent(crate::common::User { declines: true, ..Default::default() });
    let auth = auth.build();
    for _ in 0..3 {
        assert!(!world.site.error(&auth).await.is_temporary());
    }
    assert_eq!(world.authorization.count(Endpoint::Token), 4);
    let record = store.load(&world.site.key()).await.unwrap().unwrap();
    let record: Value = serde_json::from_str(record.expose()).unwrap();
    assert!(record["is_revoked"] == true && record["refresh_token"].is_string());
}

#[tokio::test]
async fn an_outage_deletes_nothing() {
    let (world, store, _) = expired().await;
    let wait = Duration::from_secs(7);
    for (fault, retry_after) in [
        (ResponseFault::Status(500), None),
        (ResponseFault::Status(429), None),
        (ResponseFault::Unavailable { retry_after: wait }, Some(wait)),
    ] {
        let auth = world.builder().store(store.clone()).build();
        let before = world.authorization.count(Endpoint::Token);
        world.authorization.misbehave(Misbehavior::Response(Endpoint::Token, fault));
        for _ in 0..2 {
            let error = world.site.error(&auth).await;
            assert_eq!((error.kind(), error.retry_after()), (ErrorKind::Unavailable, retry_after), "{error}");
        }
        // An answer with a status is not repeated, and the next requests wait.
        assert_eq!(world.authorization.count(Endpoint::Token), before + 1);
        world.authorization.behave();
    }
    world.site.token(&world.builder().store(store).build()).await;
    assert_eq!(world.user.count(), 1);
}

#[tokio::test]
async fn a_valid_token_is_used_during_an_outage() {
    let (world, store, auth) = logged_in(AuthorizationServer::builder()).await;
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 20;
    world.site.edit(&store, |record| record["expires_at"] = soon.into()).await;
    world.site.edit(&store, |record| record["obtained_at"] = (soon - 3600).into()).await;
    world.authorization.misbehave(Misbehavior::Response(Endpoint::Token, ResponseFault::Status(500)));
    let token = world.site.token(&auth).await;
    // The next requests do not try again at once.
    let count = world.authorization.count(Endpoint::Token);
    assert_eq!(world.site.token(&auth).await, token);
    assert_eq!(world.authorization.count(Endpoint::Token), count);
    assert_eq!(world.user.count(), 1);
}

#[tokio::test]
async fn a_slow_renewal_delays_no_request_with_a_valid_token() {
    let (world, store, auth) = logged_in(AuthorizationServer::builder()).await;
    let old = world.site.token(&auth).await;
    let soon = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 300;
    let edit = |record: &mut Value| {
        record["expires_at"] = soon.into();
        record["obtained_at"] = (soon - 36_000).into();
    };
    world.site.edit(&store, edit).await;
    let auth = world.builder().store(store.clone()).build();
    let slow = Misbehavior::Response(Endpoint::Token, ResponseFault::Slow(Duration::from_secs(4)));
    world.authorization.misbehave(slow);
    let site = Arc::new(world.site);
    let renewing = tokio::spawn({
        let (auth, site) = (auth.clone(), Arc::clone(&site));
        async move { site.token(&auth).await }
    });
    let renewed = async {
        let mut uses = 0;
        while site.token(&auth).await == old {
            uses += 1;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        uses
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), renewed).await.unwrap() > 1);
    // The request that renews the token waits for a part of that time.
    assert_eq!(renewing.await.unwrap(), old);
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 2));
}

#[tokio::test]
async fn an_outage_fails_all_requests_with_an_expired_token_together() {
    let (world, _, auth) = expired().await;
    world.authorization.misbehave(Misbehavior::Response(Endpoint::Token, ResponseFault::Status(503)));
    let site = Arc::new(world.site);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let (auth, site) = (auth.clone(), Arc::clone(&site));
            tokio::spawn(async move { site.error(&auth).await.kind() })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), ErrorKind::Unavailable);
    }
    assert_eq!(world.authorization.count(Endpoint::Token), 2);
    // The next attempt follows after a short time.
    world.authorization.behave();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 3));
}

#[tokio::test]
async fn a_lost_answer_is_requested_once_more() {
    let (world, _, auth) = expired().await;
    let lost = Misbehavior::Response(Endpoint::Token, ResponseFault::Truncated);
    world.authorization.misbehave_times(lost, 1);
    world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 3));
}

#[tokio::test]
async fn a_dropped_request_does_not_stop_the_refresh() {
    let (world, store, auth) = expired().await;
    let before = store.load(&world.site.key()).await.unwrap().unwrap();
    let slow = Misbehavior::Response(Endpoint::Token, ResponseFault::Slow(Duration::from_millis(300)));
    world.authorization.misbehave(slow);
    let call = tokio::time::timeout(Duration::from_millis(100), world.site.call(&auth));
    assert!(call.await.is_err());
    let stored = async {
        while store.load(&world.site.key()).await.unwrap().unwrap() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), stored).await.unwrap();
    world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 2));
}

#[tokio::test]
async fn a_dropped_request_does_not_stop_the_login() {
    let mut world = World::new().await;
    world.user.delay = Duration::from_millis(500);
    let store = MemoryStore::new();
    let auth = world.builder().store(store.clone()).build();
    let opened = async {
        while world.user.count() == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        _ = world.site.call(&auth) => panic!("the login takes longer"),
        () = opened => {}
    }
    let stored = async {
        while store.load(&world.site.key()).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), stored).await.unwrap();
    world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 1));
}

#[tokio::test]
async fn a_forgotten_client_registers_again() {
    let (world, _, auth) = expired().await;
    world.authorization.misbehave_times(Misbehavior::ForgetsClients, 1);
    world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Registration)), (2, 2));
}

#[tokio::test]
async fn a_token_without_an_end_is_used_until_it_is_refused() {
    let (world, _, auth) = logged_in(AuthorizationServer::builder().misbehave(Misbehavior::NoExpiresIn)).await;
    let token = world.site.token(&auth).await;
    assert_eq!(world.authorization.count(Endpoint::Token), 1);
    world.site.revoke(&token);
    world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 2));
}

#[tokio::test]
async fn a_login_without_a_refresh_token_ends_with_its_access_token() {
    let (world, store, auth) = logged_in(AuthorizationServer::builder()).await;
    world.site.edit(&store, |record| _ = record.as_object_mut().unwrap().remove("refresh_token")).await;
    world.site.expire(&store).await;
    world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (2, 2));
}
