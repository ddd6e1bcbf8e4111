//! The order of a rotation: the lock, the request, the store, the use. Outages end no step in the wrong state.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use mcp_oauth::{Error, ErrorKind, FileStore, MemoryStore, SharedStore, StoreLock, TokenStore};
use mcp_protocol::auth::Secret;
use mcp_store::{KeyPage, KeyValue, StoreError, StoreFuture, Swap};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior, ResponseFault};
use mcp_transport::BoxFuture;
use tokio::{
    sync::{Notify, Semaphore},
    time::timeout,
};

use crate::{
    common::{World, until},
    sealed::FakeKeyring,
    stores::Dir,
};

/// A store whose saves of tokens wait.
#[derive(Clone)]
struct SlowStore {
    records: MemoryStore,
    /// A save began.
    began: Arc<Notify>,
    /// Each save takes a permit.
    permits: Arc<Semaphore>,
}

impl TokenStore for SlowStore {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        self.records.load(key)
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            if key.starts_with("tokens/") {
                self.began.notify_one();
                self.permits.acquire().await.unwrap().forget();
            }
            self.records.save(key, record).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.records.remove(key)
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        self.records.lock(key, limit)
    }
}

#[tokio::test]
async fn fresh_tokens_are_stored_before_a_request_uses_them() {
    let world = Arc::new(World::new().await);
    let (began, permits) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
    let store = SlowStore { records: MemoryStore::new(), began: Arc::clone(&began), permits: Arc::clone(&permits) };
    let auth = world.builder().store(store.clone()).build();
    // The first call logs in, and the others refresh.
    for number in 1..=3 {
        let calls = [(); 2].map(|()| {
            let (auth, world) = (auth.clone(), Arc::clone(&world));
            tokio::spawn(async move { world.site.token(&auth).await })
        });
        timeout(Duration::from_secs(30), began.notified()).await.unwrap();
        assert_eq!(world.authorization.count(Endpoint::Token), number);
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(calls.iter().all(|call| !call.is_finished()), "no request has a token that is not stored");
        permits.add_permits(1);
        for call in calls {
            let token = call.await.unwrap();
            let record = store.load(&world.site.key()).await.unwrap().unwrap();
            assert!(record.expose().contains(&token));
            world.site.revoke(&token);
        }
    }
    assert_eq!(world.user.count(), 1);
}

/// Each store, after a login whose access token ended. The first two are files, with and without a seal.
async fn stores(world: &World, dir: &Dir) -> Vec<Arc<dyn TokenStore>> {
    let files = FileStore::open(&dir.0).unwrap();
    let sealed = FileStore::open(dir.0.join("sealed")).unwrap();
    let stores: Vec<Arc<dyn TokenStore>> = vec![
        Arc::new(files),
        Arc::new(mcp_oauth::SealedStore::new(sealed, FakeKeyring::default())),
        Arc::new(MemoryStore::new()),
        Arc::new(SharedStore::new(Arc::new(mcp_store::MemoryStore::new()))),
    ];
    for store in &stores {
        world.site.token(&world.builder().store(Handle(Arc::clone(store))).build()).await;
        world.site.expire(&**store).await;
    }
    stores
}

/// A handle on a store.
struct Handle(Arc<dyn TokenStore>);

impl TokenStore for Handle {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        self.0.load(key)
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        self.0.save(key, record)
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.0.remove(key)
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        self.0.lock(key, limit)
    }
}

#[tokio::test]
async fn an_outage_of_any_endpoint_keeps_the_tokens_in_each_store() {
    let world = World::with(AuthorizationServer::builder()).await;
    let dir = Dir::new("outages");
    let stores = stores(&world, &dir).await;
    let faults = [Endpoint::Metadata, Endpoint::Token].map(|endpoint| {
        [ResponseFault::Status(500), ResponseFault::Status(503), ResponseFault::Status(429), ResponseFault::Truncated]
            .map(|fault| Misbehavior::Response(endpoint, fault))
    });
    let key = world.site.key();
    for (number, store) in stores.iter().enumerate() {
        let before = store.load(&key).await.unwrap().unwrap();
        for fault in faults.as_flattened() {
            world.authorization.misbehave(fault.clone());
            let auth = world.builder().store(Handle(Arc::clone(store))).build();
            let error = world.site.error(&auth).await;
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{number} {fault:?}: {error}");
            assert!(store.load(&key).await.unwrap().unwrap() == before, "{number} {fault:?}");
            world.authorization.behave();
        }
    }
    let logins = world.user.count();
    for store in &stores {
        world.site.token(&world.builder().store(Handle(Arc::clone(store))).build()).await;
        world.site.expire(&**store).await;
    }
    assert_eq!(world.user.count(), logins);

    // No process listens at the address of the authorization server.
    let World { site, authorization, user } = world;
    authorization.stop().await;
    for store in stores {
        let before = store.load(&key).await.unwrap().unwrap();
        let auth = mcp_oauth::OAuth::builder().user_agent(user.clone()).store(Handle(Arc::clone(&store))).build();
        assert_eq!(site.error(&auth).await.kind(), ErrorKind::Unavailable);
        assert!(store.load(&key).await.unwrap().unwrap() == before);
    }
    assert_eq!(user.count(), logins);
}

/// The store of a fleet, as one node sees it. A node that ended does nothing.
#[derive(Debug, Clone)]
struct Node {
    store: mcp_store::MemoryStore,
    is_ended: Arc<AtomicBool>,
}

impl Node {
    async fn run<T>(&self, run: StoreFuture<'_, T>) -> Result<T, StoreError> {
        if self.is_ended.load(Ordering::SeqCst) {
            return Err(StoreError::unavailable("the node ended"));
        }
        run.await
    }
}

impl KeyValue for Node {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Arc<[u8]>>> {
        Box::pin(self.run(self.store.get(key)))
    }

    fn put<'a>(&'a self, key: &'a str, value: Arc<[u8]>, ttl: Option<Duration>) -> StoreFuture<'a, ()> {
        Box::pin(self.run(self.store.put(key, value, ttl)))
    }

    fn compare_and_swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a [u8]>,
        new: Option<Arc<[u8]>>,
        ttl: Option<Duration>,
    ) -> StoreFuture<'a, Swap> {
        Box::pin(self.run(self.store.compare_and_swap(key, expected, new, ttl)))
    }

    fn delete<'a>(&'a self, key: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(self.run(self.store.delete(key)))
    }

    fn list<'a>(&'a self, prefix: &'a str, after: Option<&'a str>, limit: usize) -> StoreFuture<'a, KeyPage> {
        Box::pin(self.run(self.store.list(prefix, after, limit)))
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_keeps_its_lock_until_it_releases_it_or_ends() {
    let store = mcp_store::MemoryStore::new();
    let is_ended = Arc::new(AtomicBool::new(false));
    let node = SharedStore::new(Arc::new(Node { store: store.clone(), is_ended: Arc::clone(&is_ended) }));
    let other = SharedStore::new(Arc::new(store));
    let held = node.lock("key", Duration::from_secs(5)).await.unwrap();
    // A refresh may last longer than a lease.
    let error = other.lock("key", Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);

    is_ended.store(true, Ordering::SeqCst);
    let start = tokio::time::Instant::now();
    drop(other.lock("key", Duration::from_secs(60)).await.unwrap());
    assert!(start.elapsed() <= Duration::from_secs(16), "{:?}", start.elapsed());
    drop(held);
}

#[tokio::test]
async fn a_program_can_wait_for_its_renewals() {
    // A second use of a refresh token revokes all tokens of the login.
    let world = World::with(AuthorizationServer::builder().misbehave(Misbehavior::NoRefreshGrace)).await;
    let store = MemoryStore::new();
    let auth = world.builder().store(store.clone()).build();
    let token = world.site.token(&auth).await;
    assert!(auth.finish_renewals(Duration::ZERO).await, "no renewal runs");
    world.site.revoke(&token);
    let response_time = Duration::from_secs(5);
    let slow = ResponseFault::Slow(response_time);
    world.authorization.misbehave_times(Misbehavior::Response(Endpoint::Token, slow), 1);
    // The request is cancelled as soon as its renewal is sent.
    tokio::select! {
        _ = world.site.call(&auth) => panic!("the renewal is slow"),
        () = until(|| world.authorization.count(Endpoint::Token) == 2) => {}
    }
    assert!(!auth.finish_renewals(Duration::ZERO).await, "a renewal runs");
    tokio::time::pause();
    tokio::time::advance(response_time).await;
    tokio::time::resume();
    assert!(auth.finish_renewals(Duration::from_secs(30)).await);
    let record = store.load(&world.site.key()).await.unwrap().unwrap();
    assert!(!record.expose().contains(&token), "the new tokens are stored");
    assert_eq!((world.authorization.count(Endpoint::Token), world.user.count()), (2, 1));
}
