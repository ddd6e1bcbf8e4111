//! One node of a fleet: its identity, its lease in the shared store, and its messages to other nodes.
//!
//! A node is one server process. Its random id is valid while its lease is: a record in the store that the node renews. Records
//! of running work name the node. After the lease of the named node, another node ends the record by compare-and-swap.

mod error;
mod keeper;
mod lease;
mod members;
mod message;
mod requests;

use std::{
    collections::{HashMap, HashSet},
    fmt,
    future::Future,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_store::{Store, StoreError};
use mcp_transport::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::AbortHandle,
    time::{Instant, timeout},
};

pub use self::{error::NodeError, keeper::Failing, lease::Lease};
use self::{keeper::Keeper, requests::Pending};
pub(crate) use self::{lease::LeaseEnd, members::Walk};
use crate::store::{STORE_TIMEOUT, ServerStore};

/// The prefix of the leases.
const LEASES: &str = "node/";
/// How long a node that stops waits for the store.
const RELEASE: Duration = Duration::from_secs(1);
/// The most nodes whose life is remembered.
const REMEMBERED: usize = 1024;
/// The longest time, which keeps deadlines within the range of the clock.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The times of a node of a fleet. They have no effect without a shared store.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::Server;
///
/// let server = Server::builder("jobs", "1.0").limits(|limits| limits.node.lease = Duration::from_secs(20)).build();
/// assert_eq!(server.limits().node.lease, Duration::from_secs(20));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NodeLimits {
    /// The lifetime of a lease. When a node stops, the other nodes end its work after this time. When the store fails for this
    /// time, the node ends its own work. The same holds for a runtime that is blocked for this time. Default 4 seconds.
    pub lease: Duration,
    /// The interval at which a node renews its lease. It must be shorter than the lease. A renewal may take longer than the interval:
    /// the lease stays while each renewal takes less than half of the lease. Default 1 second.
    pub renewal: Duration,
    /// The time until another node acknowledges a message. Default 2 seconds.
    pub acknowledgement: Duration,
    /// The time until another node replies to an acknowledged message. Default 30 seconds.
    pub reply: Duration,
}

impl Default for NodeLimits {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(4),
            renewal: Duration::from_secs(1),
            acknowledgement: Duration::from_secs(2),
            reply: Duration::from_secs(30),
        }
    }
}

/// A handler of requests of one kind: from the bytes of the request to the bytes of the reply. `None` leaves the request to the
/// other handlers of the kind.
type NodeHandler = Arc<dyn Fn(Vec<u8>) -> BoxFuture<'static, Option<Vec<u8>>> + Send + Sync>;

/// Ends the records of nodes that stopped, in one part of the store.
type Ending = Arc<dyn Fn(Arc<HashSet<String>>) -> BoxFuture<'static, Result<(), StoreError>> + Send + Sync>;

/// This node of a fleet. It exists if the server has a shared store, and starts when its lease is needed first.
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_server_core::{Server, engine::Engine as _};
/// use mcp_store::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), mcp_server_core::engine::NodeError> {
/// let store = Arc::new(MemoryStore::new());
/// let [one, two] = [0, 1].map(|_| Server::builder("fleet", "1.0").store(store.clone()).build());
/// let (one, two) = (one.node().expect("a shared store"), two.node().expect("a shared store"));
/// two.handle("upper", |text| async move { text.to_ascii_uppercase() });
///
/// let lease = two.lease().await?;
/// assert!(one.is_alive(lease.id()).await?);
/// assert_eq!(one.request(lease.id(), "upper", b"hello".to_vec()).await?, b"HELLO");
/// # Ok(())
/// # }
/// ```
pub struct Node {
    shared: Arc<Shared>,
    task: Mutex<Option<AbortHandle>>,
    is_released: AtomicBool,
}

/// The parts of a node that its background task uses.
struct Shared {
    store: ServerStore,
    limits: NodeLimits,
    /// The number of the background task that may change the lease. A task that was stopped can still run for a moment.
    keeper: AtomicU64,
    /// The public ids of the state keys, which the lease shows to the other nodes. Empty if no other node needs the keys.
    keys: Vec<String>,
    lease: watch::Sender<Option<Lease>>,
    handlers: Mutex<HashMap<&'static str, Vec<(u64, NodeHandler)>>>,
    last_handler: AtomicU64,
    /// The kinds of requests that wait for a change.
    waiting_kinds: Mutex<HashSet<&'static str>>,
    pending: Pending,
    endings: Mutex<Vec<Ending>>,
    /// The nodes that were alive a short time ago.
    alive: Mutex<HashMap<String, Instant>>,
}

impl Node {
    pub(crate) fn new(store: ServerStore, limits: &NodeLimits, keys: Vec<String>) -> Self {
        let limits = NodeLimits {
            lease: limits.lease.min(LONGEST),
            renewal: limits.renewal.min(LONGEST),
            acknowledgement: limits.acknowledgement.min(LONGEST),
            reply: limits.reply.min(LONGEST),
        };
        let shared = Shared {
            store,
            limits,
            keeper: AtomicU64::new(0),
            keys,
            lease: watch::Sender::new(None),
            handlers: Mutex::default(),
            last_handler: AtomicU64::new(0),
            waiting_kinds: Mutex::default(),
            pending: Pending::default(),
            endings: Mutex::default(),
            alive: Mutex::default(),
        };
        let (task, is_released) = (Mutex::default(), AtomicBool::new(false));
        Self { shared: Arc::new(shared), task, is_released }
    }

    /// Ends the work of the node for good: it gets no other lease. The other nodes need not wait until its lease expires.
    pub(crate) async fn release(&self) {
        self.is_released.store(true, Ordering::Release);
        self.delete_lease().await;
    }

    /// Ends the work of the current lease, and deletes the lease. Waits for the store for one second.
    pub(crate) async fn delete_lease(&self) {
        let Some(lease) = self.end() else { return };
        match timeout(RELEASE, self.shared.store.delete(&key(lease.id()))).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the lease of this node is not deleted and expires later"),
            Err(_) => tracing::warn!("the lease of this node is not deleted in time and expires later"),
        }
    }

    /// Stops the background task, and ends the work of the lease. Returns the lease.
    fn end(&self) -> Option<Lease> {
        // Held until the end, so that the next task starts after it.
        let mut task = self.task.lock();
        if let Some(task) = task.take() {
            task.abort();
        }
        self.shared.keeper.fetch_add(1, Ordering::AcqRel);
        let lease = self.shared.lease.send_replace(None);
        self.shared.pending.clear();
        lease.inspect(Lease::lose)
    }

    /// Returns the current lease. Starts the node if it does not run, and waits until it has a lease, at most 5 seconds.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`NodeError::is_unavailable`] when the store does not grant a lease in time.
    pub async fn lease(&self) -> Result<Lease, NodeError> {
        if let Some(lease) = self.current() {
            return Ok(lease);
        }
        if !self.start() {
            return Err(NodeError::unavailable());
        }
        let mut leases = self.shared.lease.subscribe();
        let held = leases.wait_for(|lease| lease.as_ref().is_some_and(Lease::is_held));
        match timeout(STORE_TIMEOUT, held).await {
            Ok(Ok(lease)) => lease.clone().ok_or_else(NodeError::unavailable),
            _ => Err(NodeError::unavailable()),
        }
    }

    /// Returns the lease if this node has one now.
    #[must_use]
    pub fn current(&self) -> Option<Lease> {
        self.shared.current()
    }

    /// Whether a node has a lease. A node counts as alive for a third of the renewal interval after it was seen.
    ///
    /// # Errors
    /// [`NodeError::is_unavailable`] when the store fails.
    pub async fn is_alive(&self, node: &str) -> Result<bool, NodeError> {
        self.shared.is_alive(node).await
    }

    /// Returns the nodes that have a lease, with this node if it has one.
    ///
    /// # Errors
    /// [`NodeError::is_unavailable`] when the store fails.
    pub async fn running(&self) -> Result<Vec<String>, NodeError> {
        members::running(&self.shared.store).await.map_err(|error| {
            tracing::warn!(%error, "the nodes of the fleet cannot be listed");
            NodeError::unavailable()
        })
    }

    /// Sends a request to a node and returns its reply. A request to this node runs its handler here.
    ///
    /// Some errors leave open whether the request has run ([`NodeError`]). Dropping the future cancels the handler, if the node has
    /// acknowledged the request.
    ///
    /// # Errors
    /// [`NodeError`]: the node did not acknowledge the request in time, it stopped, it does not know the kind, or the store
    /// fails.
    pub async fn request(&self, node: &str, kind: &'static str, body: Vec<u8>) -> Result<Vec<u8>, NodeError> {
        let lease = self.lease().await?;
        self.shared.request(&lease, node, kind, body).await
    }

    /// Registers the handler of a kind of requests, and replaces earlier ones. The handler must not keep the server alive.
    ///
    /// See the [example](Self#example).
    pub fn handle<F, Fut>(&self, kind: &'static str, handler: F)
    where
        F: Fn(Vec<u8>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<u8>> + Send + 'static,
    {
        let handler: NodeHandler = Arc::new(move |body| {
            let reply = handler(body);
            Box::pin(async move { Some(reply.await) })
        });
        self.shared.handlers.lock().insert(kind, vec![(0, handler)]);
    }

    /// Adds a handler of a kind of requests, for a part of the server that can exist more than once. A request goes from handler to
    /// handler until one of them returns a reply. Without such a handler, the reply is empty. The drop of the value removes the
    /// handler.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_server_core::{Server, engine::Engine as _};
    /// use mcp_store::MemoryStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_server_core::engine::NodeError> {
    /// let server = Server::builder("fleet", "1.0").store(Arc::new(MemoryStore::new())).build();
    /// let node = server.node().expect("a shared store");
    /// let parts = [b'a', b'b'].map(|part| {
    ///     node.add_handler("parts", move |body| async move { (body == [part]).then(|| b"found".to_vec()) })
    /// });
    /// let me = node.lease().await?;
    /// assert_eq!(node.request(me.id(), "parts", b"b".to_vec()).await?, b"found");
    /// drop(parts);
    /// assert!(node.request(me.id(), "parts", b"b".to_vec()).await?.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_handler<F, Fut>(&self, kind: &'static str, handler: F) -> HandlerGuard
    where
        F: Fn(Vec<u8>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<Vec<u8>>> + Send + 'static,
    {
        let number = self.shared.last_handler.fetch_add(1, Ordering::Relaxed) + 1;
        let handler: NodeHandler = Arc::new(move |body| Box::pin(handler(body)));
        self.shared.handlers.lock().entry(kind).or_default().push((number, handler));
        HandlerGuard { shared: Arc::downgrade(&self.shared), kind, number }
    }

    /// Adds a handler of a kind of requests that wait for a change, as [`Node::add_handler`] does for other requests.
    ///
    /// Such requests have a limit of their own. They therefore take no place of other requests.
    pub fn add_waiting_handler<F, Fut>(&self, kind: &'static str, handler: F) -> HandlerGuard
    where
        F: Fn(Vec<u8>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<Vec<u8>>> + Send + 'static,
    {
        self.shared.waiting_kinds.lock().insert(kind);
        self.add_handler(kind, handler)
    }

    /// Adds a function that ends the records of nodes that stopped, by compare-and-swap. It must not keep the server alive.
    pub(crate) fn on_stopped<F, Fut>(&self, ending: F)
    where
        F: Fn(Arc<HashSet<String>>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), StoreError>> + Send + 'static,
    {
        self.shared.endings.lock().push(Arc::new(move |stopped| Box::pin(ending(stopped))));
    }

    /// Registers the handler of a kind of requests that wait for a change. They have the limit of [`Node::add_waiting_handler`].
    pub(crate) fn handle_waiting<F, Fut>(&self, kind: &'static str, handler: F)
    where
        F: Fn(Vec<u8>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Vec<u8>> + Send + 'static,
    {
        self.shared.waiting_kinds.lock().insert(kind);
        self.handle(kind, handler);
    }

    /// Returns the shared store. Names in it need [`Node::name`].
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        self.shared.store.raw()
    }

    /// Returns a name in the namespace of the server: `session/1` becomes `mcp/{server}/session/1`.
    #[must_use]
    pub fn name(&self, name: &str) -> String {
        self.shared.store.full(name)
    }

    /// Returns the times of the node.
    #[must_use]
    pub fn limits(&self) -> &NodeLimits {
        &self.shared.limits
    }

    /// Starts the node because it uses its state keys, so that the nodes compare their keys.
    #[doc(hidden)]
    pub fn uses_keys(&self) {
        if !self.shared.keys.is_empty() {
            self.start();
        }
    }

    /// Starts the background task, if a Tokio runtime is present and the task does not run. Returns false if the node is released.
    fn start(&self) -> bool {
        let mut task = self.task.lock();
        // A release ends the task under the same lock, so no task starts after it.
        if self.is_released.load(Ordering::Acquire) {
            return false;
        }
        // The runtime of an earlier start may have ended.
        if task.as_ref().is_none_or(AbortHandle::is_finished)
            && let Ok(runtime) = Handle::try_current()
        {
            let number = self.shared.keeper.fetch_add(1, Ordering::AcqRel) + 1;
            let keeper = Keeper::new(self.shared.clone(), number);
            *task = Some(runtime.spawn(Box::pin(keeper.run()) as BoxFuture<'static, ()>).abort_handle());
        }
        true
    }
}

/// A handler of [`Node::add_handler`]. Its drop removes the handler.
#[derive(Debug)]
#[must_use]
pub struct HandlerGuard {
    shared: Weak<Shared>,
    kind: &'static str,
    number: u64,
}

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        // A kind without handlers stays known, so that its requests have an empty reply.
        let removed = shared.handlers.lock().get_mut(self.kind).and_then(|handlers| {
            let at = handlers.iter().position(|(number, _)| *number == self.number)?;
            Some(handlers.remove(at))
        });
        // The values of the handler are dropped after the lock.
        drop(removed);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let (Some(lease), Ok(runtime)) = (self.end(), Handle::try_current()) else { return };
        let store = self.shared.store.clone();
        // The other nodes need not wait until the lease expires.
        runtime.spawn(Box::pin(async move {
            if let Err(error) = store.delete(&key(lease.id())).await {
                tracing::debug!(%error, "the lease of this node is not deleted and expires later");
            }
        }) as BoxFuture<'static, ()>);
    }
}

impl Shared {
    fn current(&self) -> Option<Lease> {
        self.lease.borrow().clone().filter(Lease::is_held)
    }

    async fn is_alive(&self, node: &str) -> Result<bool, NodeError> {
        if self.current().is_some_and(|lease| lease.id() == node) {
            return Ok(true);
        }
        let now = Instant::now();
        if self.alive.lock().get(node).is_some_and(|until| now < *until) {
            return Ok(true);
        }
        let is_alive = match self.store.get(&key(node)).await {
            Ok(lease) => lease.is_some(),
            Err(error) => {
                tracing::warn!(%error, "the lease of another node cannot be read");
                return Err(NodeError::unavailable());
            }
        };
        let mut alive = self.alive.lock();
        if is_alive {
            if alive.len() >= REMEMBERED {
                alive.retain(|_, until| now < *until);
            }
            if alive.len() < REMEMBERED {
                alive.insert(node.to_owned(), now + self.limits.renewal / 3);
            }
        } else {
            alive.remove(node);
        }
        Ok(is_alive)
    }
}

/// Returns the key of a node's lease.
fn key(node: &str) -> String {
    format!("{LEASES}{node}")
}

/// Returns the topic of the messages to a node.
fn topic(node: &str) -> String {
    format!("{LEASES}{node}/messages")
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("lease", &self.current()).finish_non_exhaustive()
    }
}
