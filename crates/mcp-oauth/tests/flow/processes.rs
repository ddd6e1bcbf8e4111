//! Several processes with one store. In some tests each `OAuth` stands for a process: they share only the store.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_oauth::{
    Answer, Error, ErrorKind, FileStore, Login, MemoryStore, OAuth, SharedStore, StoreLock, TokenStore, UserAgent,
};
use mcp_protocol::auth::{OAuthError, Secret};
use mcp_test::authorization_server::{AuthorizationServer, Endpoint, Misbehavior};
use mcp_transport::BoxFuture;
use tokio::sync::Semaphore;

use crate::{
    children::Child,
    common::{World, until},
    stores::Dir,
};

/// Returns processes with one store of files, and processes with one shared store.
fn processes(world: &World, dir: &Dir, number: usize) -> [Vec<OAuth>; 2] {
    let shared: Arc<dyn mcp_store::KeyValue> = Arc::new(mcp_store::MemoryStore::new());
    let files = || world.builder().store(FileStore::open(&dir.0).unwrap()).build();
    let shared = || world.builder().store(SharedStore::new(Arc::clone(&shared))).build();
    [(0..number).map(|_| files()).collect(), (0..number).map(|_| shared()).collect()]
}

async fn all(world: &Arc<World>, processes: &[OAuth]) -> Vec<String> {
    let calls: Vec<_> = processes
        .iter()
        .map(|auth| {
            let (auth, world) = (auth.clone(), Arc::clone(world));
            tokio::spawn(async move { world.site.token(&auth).await })
        })
        .collect();
    let mut tokens = Vec::new();
    for call in calls {
        tokens.push(call.await.unwrap());
    }
    tokens.sort();
    tokens.dedup();
    tokens
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_that_start_together_show_one_page() {
    for kind in 0..2 {
        let dir = Dir::new(&format!("login-{kind}"));
        let mut world = World::new().await;
        world.user.delay = Duration::from_millis(200);
        let processes = processes(&world, &dir, 4).into_iter().nth(kind).unwrap();
        let world = Arc::new(world);
        assert_eq!(all(&world, &processes).await.len(), 1);
        assert_eq!((world.user.count(), world.authorization.count(Endpoint::Token)), (1, 1));
    }
}

/// The number of processes that wait for a login.
const WAITING: usize = 4;

/// A user who declines as soon as all processes wait for the login.
#[derive(Clone)]
struct Decliner {
    /// The number of locks for which the processes waited.
    locks: Arc<AtomicUsize>,
    pages: Arc<AtomicUsize>,
}

impl UserAgent for Decliner {
    fn open<'a>(&'a self, _: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        Box::pin(async move {
            self.pages.fetch_add(1, Ordering::SeqCst);
            until(|| self.locks.load(Ordering::SeqCst) >= WAITING).await;
            Err(Error::with_source(ErrorKind::Denied, "the user declined", OAuthError::new("access_denied")))
        })
    }
}

/// A store that counts the waits for the lock of the tokens. With a gate, each lock also waits for a permit of the test.
struct Counted {
    store: Arc<dyn TokenStore>,
    locks: Arc<AtomicUsize>,
    gate: Option<Arc<Semaphore>>,
}

impl TokenStore for Counted {
    fn load<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<Secret>, Error>> {
        self.store.load(key)
    }

    fn save<'a>(&'a self, key: &'a str, record: &'a Secret) -> BoxFuture<'a, Result<(), Error>> {
        self.store.save(key, record)
    }

    fn remove<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(), Error>> {
        self.store.remove(key)
    }

    fn lock<'a>(&'a self, key: &'a str, limit: Duration) -> BoxFuture<'a, Result<StoreLock, Error>> {
        Box::pin(async move {
            if key.starts_with("tokens/") {
                self.locks.fetch_add(1, Ordering::SeqCst);
                if let Some(gate) = &self.gate {
                    gate.acquire().await.unwrap().forget();
                }
            }
            self.store.lock(key, limit).await
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_declined_login_is_the_result_of_all_waiting_processes() {
    for kind in 0..2 {
        let dir = Dir::new(&format!("declined-{kind}"));
        let world = World::new().await;
        let agent = Decliner { locks: Arc::default(), pages: Arc::default() };
        let shared: Arc<dyn mcp_store::KeyValue> = Arc::new(mcp_store::MemoryStore::new());
        let process = |_| {
            let store: Arc<dyn TokenStore> = match kind {
                0 => Arc::new(FileStore::open(&dir.0).unwrap()),
                _ => Arc::new(SharedStore::new(Arc::clone(&shared))),
            };
            let store = Counted { store, locks: Arc::clone(&agent.locks), gate: None };
            world.builder().user_agent(agent.clone()).store(store).build()
        };
        let mut auths: Vec<_> = (0..WAITING).map(process).collect();
        let world = Arc::new(world);
        let calls: Vec<_> = auths
            .drain(..)
            .map(|auth| {
                let world = Arc::clone(&world);
                tokio::spawn(async move { (world.site.error(&auth).await, auth) })
            })
            .collect();
        for call in calls {
            let (error, auth) = call.await.unwrap();
            assert_eq!(error.kind(), ErrorKind::Denied);
            assert_eq!(error.oauth_error().map(|error| error.error.as_str()), Some("access_denied"));
            auths.push(auth);
        }
        assert_eq!(agent.pages.load(Ordering::SeqCst), 1);
        // The next login asks another user, who approves.
        let auth = world.builder();
        let auth = match kind {
            0 => auth.store(FileStore::open(&dir.0).unwrap()).build(),
            _ => auth.store(SharedStore::new(Arc::clone(&shared))).build(),
        };
        world.site.token(&auth).await;
        assert_eq!(world.user.count(), 1);
        // The processes whose login was declined use its tokens.
        all(&world, &auths).await;
        assert_eq!((world.user.count(), agent.pages.load(Ordering::SeqCst)), (1, 1));
    }
}

/// A user who never completes a login.
#[derive(Clone, Default)]
struct Absent(Arc<AtomicUsize>);

impl UserAgent for Absent {
    fn open<'a>(&'a self, _: &'a Login) -> BoxFuture<'a, Result<Answer, Error>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(Answer::Redirect)))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_login_that_times_out_is_the_result_of_all_waiting_processes() {
    let world = Arc::new(World::new().await);
    let (store, user) = (MemoryStore::new(), Absent::default());
    let (locks, gate) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let gate = Some(Arc::clone(&gate));
            let store = Counted { store: Arc::new(store.clone()), locks: Arc::clone(&locks), gate };
            let auth = world.builder().user_agent(user.clone()).store(store).build();
            let world = Arc::clone(&world);
            tokio::spawn(async move { (world.site.error(&auth).await, auth) })
        })
        .collect();
    until(|| locks.load(Ordering::SeqCst) == 3).await;
    let first = world.builder().user_agent(user.clone()).store(store.clone()).login_limit(Duration::from_millis(100));
    let error = world.site.error(&first.build()).await;
    assert_eq!(error.kind(), ErrorKind::LoginRequired, "{error}");
    gate.add_permits(100);
    for call in waiting {
        let (error, _) = call.await.unwrap();
        assert_eq!(error.kind(), ErrorKind::LoginRequired);
        assert!(error.to_string().contains("which another process started"), "{error}");
    }
    assert_eq!(user.0.load(Ordering::SeqCst), 1, "one process showed the page");
    // A later login shows the page again.
    world.site.token(&world.builder().store(store).build()).await;
    assert_eq!(world.user.count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn processes_refresh_a_rotating_token_once() {
    for (kind, rounds) in [(0, 10), (1, 5)] {
        // A second use of a refresh token revokes all tokens of the login.
        let builder = AuthorizationServer::builder().misbehave(Misbehavior::NoRefreshGrace);
        let world = Arc::new(World::with(builder).await);
        let dir = Dir::new(&format!("refresh-{kind}"));
        let processes = processes(&world, &dir, 8).into_iter().nth(kind).unwrap();
        all(&world, &processes).await;
        for _ in 0..rounds {
            let tokens = all(&world, &processes).await;
            assert_eq!(tokens.len(), 1);
            world.site.revoke(&tokens[0]);
        }
        all(&world, &processes).await;
        assert_eq!(world.authorization.count(Endpoint::Token), 1 + rounds);
        assert_eq!(world.user.count(), 1);
    }
}

/// Lets all processes call at once. The server rejects the token `revoked`. Returns the token that all of them use then.
async fn call(children: &mut [Child], revoked: &str) -> String {
    children.iter_mut().for_each(|child| child.call(revoked));
    let mut tokens = Vec::new();
    for child in children {
        tokens.push(child.line().await);
    }
    tokens.dedup();
    assert_eq!(tokens.len(), 1, "all processes use the same token");
    tokens.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_processes_open_one_page() {
    let (world, dir) = (World::new().await, Dir::new("four"));
    let mut children: Vec<_> = (0..4).map(|_| Child::start(&world.site, &dir.0, None)).collect();
    call(&mut children, "").await;
    let counts = [Endpoint::Registration, Endpoint::Authorization, Endpoint::Token];
    assert_eq!(counts.map(|endpoint| world.authorization.count(endpoint)), [1; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_send_one_request_for_each_of_200_rotations() {
    // A second use of a refresh token revokes all tokens of the login, which would start another login.
    let builder = AuthorizationServer::builder().misbehave(Misbehavior::NoRefreshGrace);
    let (world, dir) = (World::with(builder).await, Dir::new("eight"));
    let mut children: Vec<_> = (0..8).map(|_| Child::start(&world.site, &dir.0, None)).collect();
    let mut token = call(&mut children, "").await;
    for rotation in 1..=200 {
        let fresh = call(&mut children, &token).await;
        assert_ne!(fresh, token);
        token = fresh;
        assert_eq!(world.authorization.count(Endpoint::Token), 1 + rotation);
    }
    assert_eq!(world.authorization.count(Endpoint::Authorization), 1);
    let requests = world.authorization.requests();
    let mut answers = requests.iter().filter(|request| request.endpoint() == Endpoint::Token);
    assert!(answers.all(|request| request.status() == http::StatusCode::OK));
}
