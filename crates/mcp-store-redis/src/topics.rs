//! The connection for topics: one subscription of the server for each topic, shared by its readers.

mod connection;
mod loss;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_store::{StoreError, Subscription, SubscriptionSender, subscription};
use redis::{Msg, RedisResult, aio::PubSubSink};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::{JoinHandle, unconstrained, yield_now},
    time::{Instant, timeout},
};

use self::{
    connection::{Incoming, connect, heartbeat},
    loss::{End, Loss},
};
use crate::{dial::Dialer, error::store_error, link::Backoff, names::Names};

/// The maximum number of channels in one command.
const BATCH: usize = 500;
/// The number of messages after which other tasks run.
const TURN: u32 = 128;

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
    /// Starts the task that serves the subscriptions. It connects when the first reader comes, and again when the connection for
    /// commands has a new number. After a failover, the former server would accept subscriptions without messages.
    pub(crate) fn start(
        dialer: Arc<Dialer>,
        names: Names,
        call_time: Duration,
        commands: watch::Receiver<u64>,
    ) -> Self {
        let (changes, receiver) = mpsc::unbounded_channel();
        let (topics, due) = (HashMap::new(), Due::default());
        let loss = Loss::default();
        let actor = Actor { dialer, names, call_time, changes: receiver, commands, topics, due, loss };
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
    /// The topic is in the queue of topics to subscribe.
    is_queued: bool,
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
    /// The number of the connection for commands.
    commands: watch::Receiver<u64>,
    topics: HashMap<Box<str>, Topic>,
    due: Due,
    loss: Loss,
}

/// The topics of a connection, and the changes that need a command.
#[derive(Default)]
struct Due {
    subscribed: HashSet<Box<str>>,
    /// Topics with new readers. An entry whose topic is not queued any more is outdated.
    subscribe: VecDeque<Box<str>>,
    /// Topics that may have no readers.
    unsubscribe: VecDeque<Box<str>>,
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
            self.commands.mark_unchanged();
            match self.while_connecting().await {
                Some(Ok((sink, stream))) => {
                    let start = Instant::now();
                    let end = self.serve(sink, stream).await;
                    self.lost();
                    match end {
                        End::Closed => return,
                        End::Replaced => {
                            self.loss.begin_quietly();
                            tracing::debug!("the topics of redis need a new connection, as the commands do");
                        }
                        End::Lost(reason) if self.loss.begin() => {
                            tracing::warn!(reason, "the connection to the topics of redis is lost");
                        }
                        End::Rejected(error) if self.loss.begin() => {
                            tracing::warn!(
                                error,
                                "redis rejects the topics of this process, and the store tries again"
                            );
                        }
                        End::Lost(_) | End::Rejected(_) => {}
                    }
                    if !self.pause(None, backoff.wait_after(start)).await {
                        return;
                    }
                }
                Some(Err(error)) => {
                    tracing::debug!(?error, "the topics of redis are not connected");
                    self.dialer.reset();
                    self.fail(&error);
                    if !self.pause(Some(&error), backoff.wait()).await {
                        return;
                    }
                }
                None => return,
            }
        }
    }

    /// Connects, and takes changes in the meantime. Returns `None` when the store is closed.
    async fn while_connecting(&mut self) -> Option<Result<(PubSubSink, Incoming), StoreError>> {
        let dialer = self.dialer.clone();
        let mut connecting = Box::pin(connect(&dialer));
        loop {
            tokio::select! {
                result = &mut connecting => return Some(result),
                change = self.changes.recv() => self.apply(change?),
            }
        }
    }

    /// Waits before the next attempt to connect. After an error, new readers fail at once. Returns false when the store is
    /// closed.
    async fn pause(&mut self, error: Option<&StoreError>, wait: impl Future<Output = ()>) -> bool {
        let mut wait = std::pin::pin!(wait);
        loop {
            tokio::select! {
                () = &mut wait => return true,
                change = self.changes.recv() => match (change, error) {
                    (Some(Change::Add { done, .. }), Some(error)) => _ = done.send(Err(copy(error))),
                    (Some(change), _) => self.apply(change),
                    (None, _) => return false,
                }
            }
        }
    }

    /// Serves the readers until the connection is lost or the store is closed.
    async fn serve(&mut self, sink: PubSubSink, mut stream: Incoming) -> End {
        let mut heartbeat = Box::pin(heartbeat(sink.clone(), self.call_time));
        let mut command: Option<Command> = None;
        let mut turn = 0;
        self.start_due();
        loop {
            if command.is_none() {
                command = self.next_command(&sink);
            }
            tokio::select! {
                message = unconstrained(poll_fn(|context| stream.poll(context))) => match message {
                    Some(message) => {
                        self.deliver(&message);
                        turn += 1;
                        if turn % TURN == 0 {
                            yield_now().await;
                        }
                    }
                    None => return End::Lost("closed"),
                },
                (kind, topics, result) = command_result(&mut command) => {
                    command = None;
                    // The messages before the confirmation belong to the earlier readers alone.
                    while let Some(message) = stream.ready().await {
                        self.deliver(&message);
                    }
                    if let Err(end) = self.finish(kind, topics, result) {
                        return end;
                    }
                }
                change = self.changes.recv() => match change {
                    Some(change) => self.apply(change),
                    None => return End::Closed,
                },
                () = &mut heartbeat => return End::Lost("silent"),
                Ok(()) = self.commands.changed() => return End::Replaced,
            }
        }
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Add { topic, reader, done } => {
                let entry = self.topics.entry(topic.clone()).or_default();
                entry.waiting.push((reader, done));
                if !std::mem::replace(&mut entry.is_queued, true) {
                    self.due.subscribe.push_back(topic);
                }
            }
            Change::Remove { topic, id } => {
                let Some(entry) = self.topics.get_mut(&topic) else { return };
                entry.active.retain(|reader| reader.id != id);
                entry.waiting.retain(|(reader, _)| reader.id != id);
                entry.pending.retain(|(reader, _)| reader.id != id);
                if entry.is_empty() {
                    self.topics.remove(&topic);
                    self.due.unsubscribe.push_back(topic);
                }
            }
        }
    }

    /// Queues all topics for a new connection.
    fn start_due(&mut self) {
        self.due = Due::default();
        for (topic, entry) in &mut self.topics {
            entry.is_queued = true;
            self.due.subscribe.push_back(topic.clone());
        }
    }

    /// Returns the topics of the next command: topics with new readers first, then topics without readers.
    ///
    /// A topic with a new reader is subscribed again, because the confirmation marks the first message of that reader.
    fn next_topics(&mut self) -> Option<(Kind, Vec<Box<str>>)> {
        let mut topics = Vec::new();
        while topics.len() < BATCH
            && let Some(topic) = self.due.subscribe.pop_front()
        {
            if let Some(entry) = self.topics.get_mut(&topic)
                && std::mem::take(&mut entry.is_queued)
            {
                entry.pending.append(&mut entry.waiting);
                topics.push(topic);
            }
        }
        if !topics.is_empty() {
            return Some((Kind::Subscribe, topics));
        }
        while topics.len() < BATCH
            && let Some(topic) = self.due.unsubscribe.pop_front()
        {
            if !self.topics.contains_key(&topic) && self.due.subscribed.remove(&topic) {
                topics.push(topic);
            }
        }
        (!topics.is_empty()).then_some((Kind::Unsubscribe, topics))
    }

    fn next_command(&mut self, sink: &PubSubSink) -> Option<Command> {
        let (kind, topics) = self.next_topics()?;
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

    /// Notes the result of a command. Returns an error if the connection is not usable.
    fn finish(&mut self, kind: Kind, topics: Vec<Box<str>>, result: RedisResult<()>) -> Result<(), End> {
        let subscribed = &mut self.due.subscribed;
        if let Err(error) = result {
            tracing::debug!(%error, "redis rejected a command for topics");
            // The readers of a rejected command fail. After a lost connection they wait for the next one.
            if error.is_unrecoverable_error() || error.is_timeout() {
                return Err(End::Lost("failed"));
            }
            let error = store_error(error);
            let rejected = || Err(End::Rejected(error.to_string()));
            if kind == Kind::Unsubscribe {
                return rejected();
            }
            for topic in topics {
                let Some(entry) = self.topics.get_mut(&topic) else { continue };
                entry.pending.drain(..).for_each(|(_, done)| _ = done.send(Err(copy(&error))));
                let is_gone = entry.is_empty();
                if is_gone {
                    self.topics.remove(&topic);
                }
            }
            // Readers of earlier connections remain without a subscription, so the connection is tried again.
            let is_complete =
                self.topics.iter().all(|(topic, entry)| entry.active.is_empty() || subscribed.contains(topic));
            return if is_complete { Ok(()) } else { rejected() };
        }
        if kind == Kind::Unsubscribe {
            return Ok(());
        }
        for topic in topics {
            let Some(entry) = self.topics.get_mut(&topic) else {
                // The last reader left meanwhile.
                self.due.unsubscribe.push_back(topic.clone());
                subscribed.insert(topic);
                continue;
            };
            {
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
        if self.due.subscribe.is_empty() && self.loss.end() {
            tracing::info!("the topics of redis are connected again");
        }
        Ok(())
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
        self.clear_due();
    }

    /// Forgets the queued changes. The next connection begins with all topics.
    fn clear_due(&mut self) {
        self.due = Due::default();
        self.topics.values_mut().for_each(|entry| entry.is_queued = true);
    }

    /// Fails the readers that wait for a confirmation.
    fn fail(&mut self, error: &StoreError) {
        self.topics.retain(|_, entry| {
            entry.waiting.drain(..).for_each(|(_, done)| _ = done.send(Err(copy(error))));
            !entry.is_empty()
        });
        self.clear_due();
    }
}

/// Returns the same error for another reader, without its cause.
fn copy(error: &StoreError) -> StoreError {
    StoreError::unavailable(error.to_string())
}

async fn command_result(command: &mut Option<Command>) -> (Kind, Vec<Box<str>>, RedisResult<()>) {
    match command {
        Some(command) => command.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use mcp_store::Delivery;

    use super::*;
    use crate::options::RedisOptions;

    fn actor() -> Actor {
        let names = Names::new("t").unwrap();
        let dialer = Arc::new(Dialer::new(&RedisOptions::tcp("localhost", 1), names.index()).unwrap());
        let (_, changes) = mpsc::unbounded_channel();
        let call_time = Duration::from_secs(1);
        let (_, commands) = watch::channel(1);
        Actor {
            dialer,
            names,
            call_time,
            changes,
            commands,
            topics: HashMap::new(),
            due: Due::default(),
            loss: Loss::default(),
        }
    }

    fn add(actor: &mut Actor, topic: &str, id: u64) -> (Subscription, oneshot::Receiver<Result<(), StoreError>>) {
        let (sender, subscription) = subscription(1).unwrap();
        let (done, confirmed) = oneshot::channel();
        let reader = Reader { id, sender, is_stale: false };
        actor.apply(Change::Add { topic: topic.into(), reader, done });
        (subscription, confirmed)
    }

    fn remove(actor: &mut Actor, topic: &str, id: u64) {
        actor.apply(Change::Remove { topic: topic.into(), id });
    }

    fn command(actor: &mut Actor, kind: Kind, topics: &[&str]) -> Vec<Box<str>> {
        let (next, found) = actor.next_topics().unwrap();
        assert_eq!((next == kind, &found.iter().map(|topic| &**topic).collect::<Vec<_>>()[..]), (true, topics));
        found
    }

    #[test]
    fn only_changes_of_readers_cause_commands() {
        let actor = &mut actor();
        let (_a, mut confirmed) = add(actor, "a", 1);
        let (_b, _) = add(actor, "b", 2);
        let (_c, _) = add(actor, "a", 3);
        let topics = command(actor, Kind::Subscribe, &["a", "b"]);
        // A reader that arrives during the command waits for the next one.
        let (_d, mut late) = add(actor, "a", 4);
        assert_eq!(actor.finish(Kind::Subscribe, topics, Ok(())), Ok(()));
        assert!(matches!((confirmed.try_recv(), late.try_recv()), (Ok(Ok(())), Err(_))));
        let topics = command(actor, Kind::Subscribe, &["a"]);
        // The last reader of a topic leaves during its command.
        for id in [1, 3, 4] {
            remove(actor, "a", id);
        }
        assert_eq!(actor.finish(Kind::Subscribe, topics, Ok(())), Ok(()));
        let topics = command(actor, Kind::Unsubscribe, &["a"]);
        let (_e, _) = add(actor, "a", 5);
        assert_eq!(actor.finish(Kind::Unsubscribe, topics, Ok(())), Ok(()));
        // Readers that come and leave cause one command at most.
        for id in 6..9 {
            drop(add(actor, "c", id));
            remove(actor, "c", id);
        }
        let (_f, _) = add(actor, "c", 9);
        let topics = command(actor, Kind::Subscribe, &["a", "c"]);
        assert_eq!(actor.finish(Kind::Subscribe, topics, Ok(())), Ok(()));
        assert!(actor.next_topics().is_none() && actor.due.subscribe.is_empty() && actor.due.unsubscribe.is_empty());
        // A new connection needs all topics.
        actor.start_due();
        let (_, mut topics) = actor.next_topics().unwrap();
        topics.sort();
        assert_eq!(topics, ["a", "b", "c"].map(Box::from));
        assert!(actor.next_topics().is_none());
    }

    #[test]
    fn a_subscribed_topic_is_not_examined_again() {
        let actor = &mut actor();
        let readers: Vec<_> = (0..5_000).map(|id| add(actor, &id.to_string(), id)).collect();
        while let Some((kind, topics)) = actor.next_topics() {
            assert_eq!(actor.finish(kind, topics, Ok(())), Ok(()));
        }
        assert_eq!((actor.due.subscribe.len(), actor.due.unsubscribe.len()), (0, 0));
        drop(readers);
    }

    #[test]
    fn readers_that_fail_to_connect_leave_nothing_behind() {
        let actor = &mut actor();
        let (_kept, _confirmed) = add(actor, "kept", 0);
        let topics = command(actor, Kind::Subscribe, &["kept"]);
        assert_eq!(actor.finish(Kind::Subscribe, topics, Ok(())), Ok(()));
        actor.lost();
        for id in 1..=100 {
            let added = [add(actor, "kept", id), add(actor, "new", id)];
            actor.fail(&StoreError::unavailable("redis is not reachable"));
            drop(added);
            remove(actor, "kept", id);
        }
        assert_eq!((actor.topics.len(), actor.due.subscribe.len(), actor.due.unsubscribe.len()), (1, 0, 0));
    }

    #[tokio::test]
    async fn a_new_subscription_reports_the_messages_before_it_as_lost() {
        let actor = &mut actor();
        let (mut reader, _confirmed) = add(actor, "a", 1);
        let topics = command(actor, Kind::Subscribe, &["a"]);
        assert_eq!(actor.finish(Kind::Subscribe, topics, Ok(())), Ok(()));
        actor.lost();
        assert_eq!(reader.recv().await, Some(Delivery::Lagged(1)));
        actor.start_due();
        let topics = command(actor, Kind::Subscribe, &["a"]);
        assert_eq!(actor.finish(Kind::Subscribe, topics, Ok(())), Ok(()));
        assert_eq!(reader.recv().await, Some(Delivery::Lagged(1)));
    }
}
