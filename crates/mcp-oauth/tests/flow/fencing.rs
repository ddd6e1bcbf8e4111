//! A process that loses its lease during a renewal, and does not know it.

use std::{sync::Arc, time::Duration};

use mcp_fetch::Fetch;
use mcp_oauth::{ErrorKind, OAuth, SharedStore, TokenStore as _};
use mcp_store::{KeyValue as _, MemoryStore};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, ResponseFault};
use serde_json::Value;

use crate::common::{World, until};

/// The time of the response to the first process. The test moves the clock to its end.
const RESPONSE_TIME: Duration = Duration::from_secs(60);

/// Ends the leases of all locks, as the store does after the time of a lease.
async fn end_leases(store: &MemoryStore) {
    let page = store.list("mcp/oauth/lock/", None, 100).await.unwrap();
    assert!(!page.entries.is_empty(), "the renewal holds a lock");
    for (key, _) in &page.entries {
        store.delete(key).await.unwrap();
    }
}

/// The second process, which renews the tokens while the first one waits for the authorization server.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Second {
    /// The authorization server accepts the refresh token twice.
    Renews,
    /// The second use of the refresh token is refused, and a user logs in.
    LogsIn,
    /// The second use of the refresh token is refused, and the process has no user.
    IsRefused,
}

#[tokio::test]
async fn a_process_that_lost_its_lease_keeps_the_newer_tokens() {
    for second in [Second::Renews, Second::LogsIn, Second::IsRefused] {
        let builder = AuthorizationServer::builder();
        let has_grace = second == Second::Renews;
        let builder = if has_grace { builder } else { builder.misbehave(Misbehavior::NoRefreshGrace) };
        let world = Arc::new(World::with(builder).await);
        let records = MemoryStore::new();
        let store = || SharedStore::new(Arc::new(records.clone()));
        world.site.token(&world.builder().store(store()).build()).await;
        world.site.expire(&store()).await;

        let slow = ResponseFault::Slow(RESPONSE_TIME);
        world.authorization.misbehave_times(Misbehavior::Response(Endpoint::Token, slow), 1);
        let first = tokio::spawn({
            let fetch = Fetch::builder().for_server(world.site.endpoint.as_str()).timeout(2 * RESPONSE_TIME).build();
            let (world, auth) = (Arc::clone(&world), world.builder().store(store()).fetch(fetch).build());
            async move { world.site.call(&auth).await.unwrap().1 }
        });
        until(|| world.authorization.count(Endpoint::Token) == 2).await;
        end_leases(&records).await;

        let builder = if second == Second::IsRefused { OAuth::builder() } else { world.builder() };
        let auth = builder.store(store()).build();
        let newer = match second {
            Second::IsRefused => {
                let error = world.site.error(&auth).await;
                assert_eq!(error.kind(), ErrorKind::LoginRequired, "{error}");
                None
            }
            _ => Some(world.site.token(&auth).await),
        };
        assert!(!first.is_finished(), "{second:?}: the first process still waits");
        tokio::time::pause();
        tokio::time::advance(RESPONSE_TIME).await;
        tokio::time::resume();
        let token = tokio::time::timeout(Duration::from_secs(30), first).await.unwrap().unwrap();
        let record = store().load(&world.site.key()).await.unwrap().unwrap();
        let record: Value = serde_json::from_str(record.expose()).unwrap();
        assert_eq!(record["access_token"], token, "{second:?}");
        assert_eq!(record["is_revoked"], false, "{second:?}");
        // A refusal is not newer than tokens that the authorization server issued.
        assert!(newer.is_none_or(|newer| newer == token), "{second:?}");
    }
}
