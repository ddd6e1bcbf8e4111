//! The requests that this node sent, and the requests of other nodes that it runs.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_transport::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, mpsc},
    task::{AbortHandle, JoinSet},
    time::{Instant, timeout, timeout_at},
};

use super::{
    Lease, NodeError, Shared,
    message::{self, Head, Part, Rejection},
};
use crate::error::contain_async;

/// The most requests of other nodes that run at the same time. Each kind of requests that wait for a change has the same limit again.
const RUNNING: usize = 4096;
/// The most rejections that are sent at the same time. The sender of a further request times out.
const REJECTIONS: usize = 64;
/// A handler that takes longer than this is acknowledged before its reply.
const QUICK: Duration = Duration::from_millis(100);

/// The requests that wait for other nodes.
#[derive(Default)]
pub(super) struct Pending {
    last: AtomicU64,
    waiting: Mutex<HashMap<u64, mpsc::Sender<Answer>>>,
}

/// A message that belongs to a waiting request.
enum Answer {
    Acknowledged,
    Reply(Vec<u8>),
    Rejected(Rejection),
}

impl Pending {
    /// Ends all requests, because their replies cannot arrive.
    pub(super) fn clear(&self) {
        self.waiting.lock().clear();
    }
}

impl Shared {
    pub(super) async fn request(
        self: &Arc<Self>,
        lease: &Lease,
        node: &str,
        kind: &'static str,
        body: Vec<u8>,
    ) -> Result<Vec<u8>, NodeError> {
        let limits = &self.limits;
        if node == lease.id() {
            let handled = timeout(limits.reply, self.run_handler(kind, body)).await;
            return handled.map_err(|_| NodeError::no_reply())?.map_err(NodeError::from);
        }
        let number = self.pending.last.fetch_add(1, Ordering::Relaxed) + 1;
        // An acknowledgement and a reply.
        let (sender, mut answers) = mpsc::channel(2);
        self.pending.waiting.lock().insert(number, sender);
        let mut guard = WaitGuard { shared: self, lease, node, number, is_gone: false };
        let deadline = Instant::now() + limits.acknowledgement;
        let sent = message::send(&self.store, node, lease.id(), number, Part::Request(kind.to_owned()), body);
        timeout_at(deadline, sent).await.map_err(|_| NodeError::interrupted())??;
        let first = match timeout_at(deadline, answers.recv()).await {
            Ok(answer) => answer,
            Err(_) if self.is_alive_now(node).await => return Err(NodeError::unacknowledged()),
            Err(_) => {
                guard.is_gone = true;
                return Err(NodeError::gone());
            }
        };
        // Without an answer, this node lost its lease.
        match first.ok_or_else(NodeError::interrupted)? {
            Answer::Reply(body) => return Ok(body),
            Answer::Rejected(rejection) => return Err(rejection.into()),
            Answer::Acknowledged => {}
        }
        let end = Instant::now() + limits.reply;
        loop {
            let next = (Instant::now() + limits.renewal).min(end);
            match timeout_at(next, answers.recv()).await {
                Ok(Some(Answer::Reply(body))) => return Ok(body),
                Ok(Some(Answer::Rejected(rejection))) => return Err(rejection.into()),
                Ok(Some(Answer::Acknowledged)) => {}
                // This node lost its lease.
                Ok(None) => return Err(NodeError::interrupted()),
                Err(_) if Instant::now() >= end => return Err(NodeError::no_reply()),
                Err(_) if !self.is_alive_now(node).await => {
                    guard.is_gone = true;
                    return Err(NodeError::gone());
                }
                Err(_) => {}
            }
        }
    }

    /// Whether a node has a lease. An unavailable store counts as yes, because the node may work.
    async fn is_alive_now(&self, node: &str) -> bool {
        self.alive.lock().remove(node);
        !matches!(timeout(self.limits.acknowledgement, self.is_alive(node)).await, Ok(Ok(false)))
    }

    /// Runs the handler of a kind.
    async fn run_handler(&self, kind: &str, body: Vec<u8>) -> Result<Vec<u8>, Rejection> {
        let Some(handlers) = self.handlers.lock().get(kind).cloned() else { return Err(Rejection::Unsupported) };
        for (_, handler) in handlers {
            let run = || -> BoxFuture<'static, Option<Vec<u8>>> { handler(body.clone()) };
            let reply = contain_async(run).await.map_err(|panic| {
                tracing::error!(%panic, kind, "a request of another node panicked");
                Rejection::Failed
            })?;
            if let Some(reply) = reply {
                return Ok(reply);
            }
        }
        Ok(Vec::new())
    }
}

/// Removes a request that no longer waits, and cancels its handler.
struct WaitGuard<'a> {
    shared: &'a Arc<Shared>,
    lease: &'a Lease,
    node: &'a str,
    number: u64,
    /// The other node stopped, so it runs no handler.
    is_gone: bool,
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        // The receiver removes the entry of an answered request.
        let is_waiting = self.shared.pending.waiting.lock().remove(&self.number).is_some();
        if !is_waiting || self.is_gone {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (store, to, from, number) =
            (self.shared.store.clone(), self.node.to_owned(), self.lease.id().to_owned(), self.number);
        runtime.spawn(Box::pin(async move {
            let _ = message::send(&store, &to, &from, number, Part::Cancel, Vec::new()).await;
        }) as BoxFuture<'static, ()>);
    }
}

/// The requests of other nodes that run here. Dropping it cancels them.
pub(super) struct Running {
    /// Each task of a request returns its sender and its number.
    tasks: JoinSet<Option<(String, u64)>>,
    handles: HashMap<(String, u64), AbortHandle>,
    /// The free places of requests.
    places: Arc<Semaphore>,
    /// The free places of requests that wait for a change, for each kind.
    waiting: HashMap<String, Arc<Semaphore>>,
    rejections: Arc<Semaphore>,
}

impl Default for Running {
    fn default() -> Self {
        let [places, rejections] = [RUNNING, REJECTIONS].map(|places| Arc::new(Semaphore::new(places)));
        Self { tasks: JoinSet::new(), handles: HashMap::new(), places, waiting: HashMap::new(), rejections }
    }
}

impl Running {
    /// Waits until a request ends. Pending while none runs.
    pub(super) async fn ended(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(Some(key))) => drop(self.handles.remove(&key)),
            // A cancelled request is removed already.
            Some(Ok(None) | Err(_)) => {}
            None => std::future::pending().await,
        }
    }

    /// Receives a message to this node.
    pub(super) fn receive(&mut self, shared: &Arc<Shared>, lease: &Lease, head: Head, inline: Vec<u8>) {
        let key = (head.from.clone(), head.number);
        match &head.part {
            Part::Request(kind) => {
                let is_waiting = shared.waiting_kinds.lock().contains(kind.as_str());
                let places = if is_waiting {
                    self.waiting.entry(kind.clone()).or_insert_with(|| Arc::new(Semaphore::new(RUNNING)))
                } else {
                    &self.places
                };
                let Ok(place) = places.clone().try_acquire_owned() else {
                    return self.reject(shared, lease, head);
                };
                let (shared, me, kind) = (shared.clone(), lease.id().to_owned(), kind.clone());
                let number = key.clone();
                let handle = self.tasks.spawn(Box::pin(async move {
                    let _place = place;
                    shared.serve(&me, head, &kind, inline).await;
                    Some(number)
                }) as BoxFuture<'static, _>);
                self.handles.insert(key, handle);
            }
            Part::Cancel => {
                if let Some(handle) = self.handles.remove(&key) {
                    handle.abort();
                }
            }
            Part::Acknowledged => shared.answered(head.number, Answer::Acknowledged, false),
            Part::Rejected(rejection) => shared.answered(head.number, Answer::Rejected(*rejection), true),
            Part::Reply if head.is_inline() => shared.answered(head.number, Answer::Reply(inline), true),
            Part::Reply => {
                // The record of an unknown reply expires.
                if !shared.pending.waiting.lock().contains_key(&head.number) {
                    return;
                }
                let shared = shared.clone();
                self.tasks.spawn(Box::pin(async move {
                    if let Some(body) = message::body(&shared.store, &head, inline).await {
                        shared.answered(head.number, Answer::Reply(body), true);
                    }
                    None
                }) as BoxFuture<'static, _>);
            }
        }
    }

    /// Rejects a request for which the node has no place.
    fn reject(&mut self, shared: &Arc<Shared>, lease: &Lease, head: Head) {
        let Ok(place) = self.rejections.clone().try_acquire_owned() else {
            tracing::debug!("a request of another node is dropped, because too many requests run");
            return;
        };
        let (shared, me) = (shared.clone(), lease.id().to_owned());
        self.tasks.spawn(Box::pin(async move {
            let _place = place;
            let rejected = Part::Rejected(Rejection::Busy);
            // Without the rejection, the sender times out.
            let _ = message::send(&shared.store, &head.from, &me, head.number, rejected, Vec::new()).await;
            None
        }) as BoxFuture<'static, _>);
    }
}

impl Shared {
    /// Passes an answer to its request.
    fn answered(&self, number: u64, answer: Answer, is_last: bool) {
        let sender = {
            let mut waiting = self.pending.waiting.lock();
            if is_last { waiting.remove(&number) } else { waiting.get(&number).cloned() }
        };
        if let Some(sender) = sender {
            // The queue has a place for each answer. A node that sends more is ignored.
            let _ = sender.try_send(answer);
        }
    }

    /// Runs a request of another node and sends its reply.
    async fn serve(&self, me: &str, head: Head, kind: &str, inline: Vec<u8>) {
        let send = |part: Part, body: Vec<u8>| message::send(&self.store, &head.from, me, head.number, part, body);
        let handled = async {
            let body = message::body(&self.store, &head, inline).await.ok_or(Rejection::Failed)?;
            let handled = timeout(self.limits.reply, self.run_handler(kind, body)).await;
            handled.unwrap_or(Err(Rejection::Failed))
        };
        let mut handled = std::pin::pin!(handled);
        let reply = match timeout(QUICK, handled.as_mut()).await {
            Ok(reply) => reply,
            Err(_) => {
                // A lost acknowledgement ends the request at its sender.
                let (_, reply) = tokio::join!(send(Part::Acknowledged, Vec::new()), handled);
                reply
            }
        };
        let sent = match reply {
            Ok(body) => send(Part::Reply, body).await,
            Err(rejection) => send(Part::Rejected(rejection), Vec::new()).await,
        };
        if let Err(error) = sent {
            tracing::warn!(%error, kind, "the reply to another node is lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_store::MemoryStore;

    use super::*;
    use crate::{
        node::{Node, NodeLimits},
        store::ServerStore,
    };

    /// A node whose requests `never`, `waits` and `waits_too` do not end.
    fn shared() -> Arc<Shared> {
        let node = Node::new(ServerStore::new(Arc::new(MemoryStore::new()), "t"), &NodeLimits::default(), Vec::new());
        node.handle("never", |_| std::future::pending());
        node.handle_waiting("waits", |_| std::future::pending());
        node.handle_waiting("waits_too", |_| std::future::pending());
        node.shared.clone()
    }

    fn head(number: u64, part: &serde_json::Value) -> Head {
        serde_json::from_value(serde_json::json!({ "from": "other", "number": number, "part": part })).unwrap()
    }

    #[tokio::test]
    async fn requests_that_wait_take_no_place_of_other_requests() {
        let (shared, mut running) = (shared(), Running::default());
        let (lease, _released) = Lease::new("me".to_owned(), Instant::now() + Duration::from_secs(60));
        let request = |kind: &str| serde_json::json!({ "request": kind });
        for number in 0..2 * RUNNING as u64 {
            running.receive(&shared, &lease, head(number, &request("waits")), Vec::new());
        }
        assert_eq!(running.tasks.len(), RUNNING + REJECTIONS);
        assert_eq!((running.waiting["waits"].available_permits(), running.places.available_permits()), (0, RUNNING));
        // Another kind of requests that wait has its own places.
        running.receive(&shared, &lease, head(RUNNING as u64 * 4, &request("waits_too")), Vec::new());
        assert_eq!(running.tasks.len(), RUNNING + REJECTIONS + 1);
        for number in 0..2 * RUNNING as u64 {
            running.receive(&shared, &lease, head(RUNNING as u64 * 2 + number, &request("never")), Vec::new());
        }
        // The limit of rejections is common.
        assert_eq!(running.tasks.len(), 2 * RUNNING + REJECTIONS + 1);
        assert_eq!(running.places.available_permits(), 0);
        // A reply needs no place.
        running.receive(&shared, &lease, head(1, &serde_json::json!("reply")), Vec::new());
        assert_eq!(running.tasks.len(), 2 * RUNNING + REJECTIONS + 1);
        // A cancelled request returns its place.
        running.receive(&shared, &lease, head(0, &serde_json::json!("cancel")), Vec::new());
        while running.waiting["waits"].available_permits() == 0 {
            running.ended().await;
        }
    }
}
