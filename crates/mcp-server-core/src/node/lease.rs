//! The lease of a node: its id, its end, and the work that runs under it.

use std::{convert::Infallible, fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

/// The identity of a node while its lease is valid.
///
/// Work that other nodes can see runs under a lease. Such work holds a clone of the lease and ends when the lease is lost. The
/// node gets its next identity when all clones are dropped.
#[derive(Clone)]
pub struct Lease {
    state: Arc<State>,
    /// The node waits until all clones are dropped.
    _held: mpsc::Sender<Infallible>,
}

struct State {
    id: String,
    until: Mutex<Instant>,
    lost: CancellationToken,
}

/// The end of a lease, for the work that runs under it. It does not hold the lease.
#[derive(Debug, Clone)]
pub(crate) struct LeaseEnd(CancellationToken);

impl LeaseEnd {
    /// Waits until the lease is lost.
    pub(crate) async fn wait(&self) {
        self.0.cancelled().await;
    }
}

impl Lease {
    /// Creates a lease that is valid until a time. The receiver ends when all clones are dropped.
    pub(super) fn new(id: String, until: Instant) -> (Self, mpsc::Receiver<Infallible>) {
        let (held, released) = mpsc::channel(1);
        let state = State { id, until: Mutex::new(until), lost: CancellationToken::new() };
        (Self { state: Arc::new(state), _held: held }, released)
    }

    /// Returns the random id of the node.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// Whether the node still has the lease, by its own clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.state.lost.is_cancelled() && Instant::now() < *self.state.until.lock()
    }

    /// Waits until the lease is lost.
    pub async fn lost(&self) {
        self.state.lost.cancelled().await;
    }

    pub(crate) fn end(&self) -> LeaseEnd {
        LeaseEnd(self.state.lost.clone())
    }

    pub(super) fn until(&self) -> Instant {
        *self.state.until.lock()
    }

    /// Records a renewal that began at `asked`.
    pub(super) fn renewed(&self, asked: Instant, lifetime: Duration) {
        *self.state.until.lock() = asked + lifetime;
    }

    pub(super) fn lose(&self) {
        self.state.lost.cancel();
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("id", &self.state.id).field("is_held", &self.is_held()).finish_non_exhaustive()
    }
}
