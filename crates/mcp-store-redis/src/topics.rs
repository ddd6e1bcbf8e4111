//! The connection for topics: one subscription of the server for each topic, shared by its readers.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures_core::Stream;
use mcp_store::{StoreError, Subscription, SubscriptionSender, subscription};
use redis::{
    Msg, RedisResult,
    aio::{PubSub, PubSubSink, PubSubStream},
};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, unconstrained},
    time::{Instant, sleep, timeout},
};

use crate::{
    dial::Dialer,
    error::store_error,
    link::{Backoff, CONNECT_TIME, HEARTBEAT, connect_error, open_error},
    names::Names,
};

/// The maximum number of channels in one command.
const BATCH: usize = 500;

/// The subscriptions of a store. Its drop ends them.
pub(crate) struct Topics {
    changes: mpsc::UnboundedSender<Change>,
    last_id: AtomicU64,
    call_time: Duration,
    actor: JoinHandle<()>,
}

/// A change of the readers.
enum Change {
    Add { topic: Box<str>, reader: Reader, done: oneshot::Sender<Result<(), StoreError>> },
    Remove { topic: Box<str>, id: u64 },
}

struct Reader {
    id: u64,
    sender: SubscriptionSender,
    /// Its topic was subscribed on an earlier connection, and not yet on this one.
    is_stale: bool,
}

impl Topics {
    /// Starts the task that serves the subscriptions. It connects when the first reader comes.
    pub(crate) fn start(dialer: Arc<Dialer>, names: Names, call_time: Duration) -> Self {
        let (changes, receiver) = mpsc::unbounded_channel();
        let actor = Actor { dialer, names, call_time, changes: receiver, topics: HashMap::new() };
        Self { changes, last_id: AtomicU64::new(0), call_time, actor: tokio::spawn(actor.run()) }
    }

    /// Subscribes, and returns when the server has confirmed it.
    pub(crate) async fn subscribe(&self, topic: &str, capacity: usize) -> Result<Subscription, StoreError> {
        let (sender, subscription) = subscription(capacity)?;
        let id = self.last_id.fetch_add(1, Ordering::Relaxed);
        let (done, confirmed) = oneshot::channel();
        let add = Change::Add { topic: topic.into(), reader: Reader { id, sender, is_stale: false }, done };
        self.changes.send(add).map_err(|_| closed())?;
        let (changes, topic) = (self.changes.clone(), Box::from(topic));
        // The channel is unbounded, because a drop cannot wait. It has at most one entry for each subscription.
        let subscription = subscription.on_drop(move || {
            let _ = changes.send(Change::Remove { topic, id });
        });
        match timeout(self.call_time, confirmed).await {
            Ok(Ok(result)) => result.map(|()| subscription),
            Ok(Err(_)) => Err(closed()),
            Err(_) => {
                let limit = self.call_time.as_millis();
                Err(StoreError::unavailable(format!("redis did not confirm the subscription within {limit} ms")))
            }
        }
    }
}

impl Drop for Topics {
    fn drop(&mut self) {
        self.actor.abort();
    }
}

impl fmt::Debug for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topics").finish_non_exhaustive()
    }
}

fn closed() -> StoreError {
    StoreError::unavailable("the store is closed")
}

/// The readers of a topic.
#[derive(Default)]
struct Topic {
    active: Vec<Reader>,
    /// Readers that wait for the confirmation of the server.
    waiting: Vec<(Reader, oneshot::Sender<Result<(), StoreError>>)>,
    /// Readers that wait for the confirmation of the command under way.
    pending: Vec<(Reader, oneshot::Sender<Result<(), StoreError>>)>,
}

impl Topic {
    fn is_empty(&self) -> bool {
        self.active.is_empty() && self.waiting.is_empty() && self.pending.is_empty()
    }
}

struct Actor {
    dialer: Arc<Dialer>,
    names: Names,
    call_time: Duration,
    changes: mpsc::UnboundedReceiver<Change>,
    topics: HashMap<Box<str>, Topic>,
}

/// A command under way. It returns the topics of the command with its result.
type Command = Pin<Box<dyn Future<Output = (Kind, Vec<Box<str>>, RedisResult<()>)> + Send>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Subscribe,
    Unsubscribe,
}

impl Actor {
    async fn run(mut self) {
        let mut backoff = Backoff::new();
        loop {
            while self.topics.is_empty() {
                let Some(change) = self.changes.recv().await else { return };
                self.apply(change);
            }
            match self.while_connecting().await {
                Some(Ok((sink, stream))) => {
                    backoff = Backoff::new();
                    let start = Instant::now();
                    let is_open = self.serve(sink, stream).await;
                    self.lost();
                    if !is_open {
                        return;
                    }
                    tracing::warn!("the connection to the topics of redis is lost");
                    Backoff::wait_after(start).await;
                }
                Some(Err(error)) => {
                    tracing::debug!(?error, "the topics of redis are not connected");
                    self.dialer.reset();
                    self.fail(&error);
                    if !self.pause(&error, &mut backoff).await {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Connects, and takes changes in the meantime. Returns `None` when the store is closed.
    async fn while_connecting(&mut self) -> Option<Result<(PubSubSink, PubSubStream), StoreError>> {
        let dialer = self.dialer.clone();
        let mut connecting = Box::pin(connect(&dialer));
        loop {
            tokio::select! {
                result = &mut connecting => return Some(result),
                change = self.changes.recv() => self.apply(change?),
            }
        }
    }

    /// Waits before the next attempt to connect. New readers fail at once. Returns false when the store is closed.
    async fn pause(&mut self, error: &StoreError, backoff: &mut Backoff) -> bool {
        let mut wait = Box::pin(backoff.wait());
        loop {
            tokio::select! {
                () = &mut wait => return true,
                change = self.changes.recv() => {
                    let Some(change) = change else { return false };
                    self.apply(change);
                    self.fail(error);
                }
            }
        }
    }

    /// Serves the readers until the connection is lost. Returns false when the store is closed.
    async fn serve(&mut self, sink: PubSubSink, mut stream: PubSubStream) -> bool {
        let mut heartbeat = Box::pin(heartbeat(sink.clone(), self.call_time));
        let mut subscribed = HashSet::new();
        let mut command: Option<Command> = None;
        loop {
            if command.is_none() {
                command = self.next_command(&sink, &subscribed);
            }
            tokio::select! {
                message = poll_fn(|context| next(&mut stream, context)) => match message {
                    Some(message) => self.deliver(&message),
                    None => return true,
                },
                (kind, topics, result) = command_result(&mut command) => {
                    command = None;
                    // The messages before the confirmation belong to the earlier readers alone.
                    while let Some(message) = ready(&mut stream).await {
                        self.deliver(&message);
                    }
                    if !self.finish(kind, topics, result, &mut subscribed) {
                        return true;
                    }
                }
                change = self.changes.recv() => match change {
                    Some(change) => self.apply(change),
                    None => return false,
                },
                () = &mut heartbeat => return true,
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Add { topic, reader, done } => self.topics.entry(topic).or_default().waiting.push((reader, done)),
            Change::Remove { topic, id } => {
                let Some(entry) = self.topics.get_mut(&topic) else { return };
                entry.active.retain(|reader| reader.id != id);
                entry.waiting.retain(|(reader, _)| reader.id != id);
                entry.pending.retain(|(reader, _)| reader.id != id);
                if entry.is_empty() {
                    self.topics.remove(&topic);
                }
            }
        }
    }

    /// Returns the next command: topics with new readers first, then topics without readers.
    ///
    /// A topic with a new reader is subscribed again, because the confirmation marks the first message of that reader.
    fn next_command(&mut self, sink: &PubSubSink, subscribed: &HashSet<Box<str>>) -> Option<Command> {
        let wanted =
            self.topics.iter_mut().filter(|(topic, entry)| !entry.waiting.is_empty() || !subscribed.contains(*topic));
        let mut topics = Vec::new();
        for (topic, entry) in wanted.take(BATCH) {
            entry.pending.append(&mut entry.waiting);
            topics.push(topic.clone());
        }
        let mut kind = Kind::Subscribe;
        if topics.is_empty() {
            kind = Kind::Unsubscribe;
            let left = subscribed.iter().filter(|topic| !self.topics.contains_key(*topic));
            topics.extend(left.take(BATCH).cloned());
        }
        if topics.is_empty() {
            return None;
        }
        let channels: Vec<String> = topics.iter().map(|topic| self.names.channel(topic)).collect();
        let (mut sink, limit) = (sink.clone(), self.call_time);
        Some(Box::pin(async move {
            let request = async {
                match kind {
                    Kind::Subscribe => sink.subscribe(&channels).await,
                    Kind::Unsubscribe => sink.unsubscribe(&channels).await,
                }
            };
            let late = || Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
            let result = timeout(limit, request).await.unwrap_or_else(|_| late());
            (kind, topics, result)
        }))
    }

    /// Notes the result of a command. Returns false if the connection is not usable.
    fn finish(
        &mut self,
        kind: Kind,
        topics: Vec<Box<str>>,
        result: RedisResult<()>,
        subscribed: &mut HashSet<Box<str>>,
    ) -> bool {
        if let Err(error) = result {
            tracing::debug!(%error, "redis rejected a command for topics");
            // The readers of a rejected command fail. After a lost connection they wait for the next one.
            if error.is_unrecoverable_error() || error.is_timeout() || kind == Kind::Unsubscribe {
                return false;
            }
            let error = store_error(error);
            for topic in topics {
                let Some(entry) = self.topics.get_mut(&topic) else { continue };
                entry.pending.drain(..).for_each(|(_, done)| _ = done.send(Err(copy(&error))));
                let is_gone = entry.is_empty();
                if is_gone {
                    self.topics.remove(&topic);
                }
            }
            // Readers of earlier connections remain without a subscription, so the connection is tried again.
            return self.topics.iter().all(|(topic, entry)| entry.active.is_empty() || subscribed.contains(topic));
        }
        for topic in topics {
            if kind == Kind::Unsubscribe {
                subscribed.remove(&topic);
                continue;
            }
            if let Some(entry) = self.topics.get_mut(&topic) {
                // The messages between the loss of a connection and this moment are lost too.
                for reader in entry.active.iter_mut().filter(|reader| reader.is_stale) {
                    reader.is_stale = false;
                    reader.sender.lost(1);
                }
                for (reader, done) in entry.pending.drain(..) {
                    if done.send(Ok(())).is_ok() {
                        entry.active.push(reader);
                    }
                }
            }
            subscribed.insert(topic);
        }
        true
    }

    fn deliver(&self, message: &Msg) {
        let Some(entry) = self.names.topic(message.get_channel_name()).and_then(|topic| self.topics.get(topic)) else {
            return;
        };
        let data: Arc<[u8]> = Arc::from(message.get_payload_bytes());
        for reader in &entry.active {
            reader.sender.send(data.clone());
        }
    }

    /// Reports a gap to all readers. Readers that wait for a confirmation wait for the next connection.
    fn lost(&mut self) {
        for entry in self.topics.values_mut() {
            for reader in &mut entry.active {
                reader.is_stale = true;
                reader.sender.lost(1);
            }
            entry.waiting.append(&mut entry.pending);
        }
    }

    /// Fails the readers that wait for a confirmation.
    fn fail(&mut self, error: &StoreError) {
        self.topics.retain(|_, entry| {
            entry.waiting.drain(..).for_each(|(_, done)| _ = done.send(Err(copy(error))));
            !entry.is_empty()
        });
    }
}

/// Returns the same error for another reader, without its cause.
fn copy(error: &StoreError) -> StoreError {
    StoreError::unavailable(error.to_string())
}

async fn connect(dialer: &Dialer) -> Result<(PubSubSink, PubSubStream), StoreError> {
    let attempt = async {
        let stream = dialer.open().await.map_err(open_error)?;
        Ok(PubSub::new(&dialer.info, stream).await.map_err(connect_error)?.split())
    };
    match timeout(CONNECT_TIME, attempt).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::unavailable(format!("redis did not accept a connection in {CONNECT_TIME:?}"))),
    }
}

/// Returns when the server does not respond in time.
async fn heartbeat(mut sink: PubSubSink, limit: Duration) {
    loop {
        sleep(HEARTBEAT).await;
        if !matches!(timeout(limit, sink.ping::<redis::Value>()).await, Ok(Ok(_))) {
            return;
        }
    }
}

async fn command_result(command: &mut Option<Command>) -> (Kind, Vec<Box<str>>, RedisResult<()>) {
    match command {
        Some(command) => command.await,
        None => std::future::pending().await,
    }
}

fn next(stream: &mut PubSubStream, context: &mut Context<'_>) -> Poll<Option<Msg>> {
    Pin::new(stream).poll_next(context)
}

/// Returns the next message that has arrived already, without a wait and without a yield to other tasks.
async fn ready(stream: &mut PubSubStream) -> Option<Msg> {
    unconstrained(poll_fn(|context| match next(stream, context) {
        Poll::Ready(message) => Poll::Ready(message),
        Poll::Pending => Poll::Ready(None),
    }))
    .await
}
