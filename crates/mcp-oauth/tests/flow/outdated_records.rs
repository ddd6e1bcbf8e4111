//! Stored tokens that are older or newer than the tokens of a process.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_oauth::{Error, ErrorKind, MemoryStore, StoreLock, TokenStore};
use mcp_protocol::auth::{ProtectedResourceMetadata, Secret};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior};
use mcp_transport::BoxFuture;

use crate::common::{World, claims_of};

/// A store whose writes can fail, and whose first read can return an old record.
#[derive(Clone, Default)]
struct FaultyStore {
    records: MemoryStore,
    fails_writes: Arc<AtomicBool>,
    old: Arc<Mutex<Option<Secret>>>,
}

impl TokenStore for FaultyStore {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        let old = self.old.lock().unwrap().take_if(|_| key.starts_with("tokens/"));
        match old {
            Some(old) => Box::pin(std::future::ready(Ok(Some(old)))),
            None => self.records.load(key),
        }
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        if self.fails_writes.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err(Error::new(ErrorKind::Store, "the disk is full"))));
        }
        self.records.save(key, record)
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.records.remove(key)
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        self.records.lock(key, limit)
    }
}

#[tokio::test]
async fn a_refresh_after_a_failed_write_uses_the_tokens_of_the_process() {
    // A second use of a refresh token revokes all tokens of the login.
    let world = World::with(AuthorizationServer::builder().misbehave(Misbehavior::NoRefreshGrace)).await;
    let store = FaultyStore::default();
    let auth = world.builder().store(store.clone()).build();
    let mut token = world.site.token(&auth).await;
    store.fails_writes.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        world.site.revoke(&token);
        token = world.site.token(&auth).await;
    }
    store.fails_writes.store(false, Ordering::SeqCst);
    world.site.revoke(&token);
    token = world.site.token(&auth).await;
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 5));
    // The store has the latest tokens again.
    assert_eq!(world.site.token(&world.builder().store(store).build()).await, token);
    assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 5));
}

#[tokio::test]
async fn newer_tokens_of_another_issuer_replace_the_tokens_of_a_process() {
    for is_expired in [true, false] {
        let world = World::new().await;
        let second = AuthorizationServer::builder().auto_approve().start().await.unwrap();
        let store = FaultyStore::default();
        let first = world.site.token(&world.builder().store(store.clone()).build()).await;
        if is_expired {
            world.site.expire(&store).await;
        }
        let old = store.load(&world.site.key()).await.unwrap();
        // Another process logs in at the second issuer.
        world.site.revoke(&first);
        world.site.publish(ProtectedResourceMetadata::new(world.site.endpoint.as_str(), [second.issuer()]));
        store.remove(&world.site.key()).await.unwrap();
        let token = world.site.token(&world.builder().store(store.clone()).build()).await;
        assert_eq!(claims_of(&token)["iss"], second.issuer());
        let record = store.load(&world.site.key()).await.unwrap();

        *store.old.lock().unwrap() = old;
        assert_eq!(world.site.token(&world.builder().store(store.clone()).build()).await, token);
        assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (2, 1));
        assert!(store.load(&world.site.key()).await.unwrap() == record);
    }
}
