//! A task that runs on this node: where it stands, what it asks, who waits for its end.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use mcp_protocol::{
    InputRequest, JsonObject, NotificationMethod, RequestId, jsonrpc, notification,
    tasks::{TaskState, ext::DetailedTask},
};
use mcp_transport::FrameSender;
use serde_json::Value;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    clock,
    record::{Outcome, Record},
};
use crate::{inputs::InputError, notices::Listener, session::Session};

/// So many questions of one task may wait at once.
const QUESTIONS: usize = 256;

/// A task that runs on this node.
pub(crate) struct Live {
    id: String,
    expires: Instant,
    /// Fires when the work shall stop.
    pub(super) cancel: CancellationToken,
    state: Mutex<State>,
    /// Counts what changed, for who waits.
    changes: watch::Sender<u64>,
    /// The session that is told of changes (2025-11-25).
    session: Option<Weak<Session>>,
}

struct State {
    record: Record,
    /// What stands in the store.
    written: Arc<[u8]>,
    /// Questions by their keys (the extension).
    open: BTreeMap<String, oneshot::Sender<Value>>,
    used: HashSet<String>,
    /// How many answers are waited for in a session.
    waiting: usize,
    /// Requests for the result, on whose streams the client can be asked (2025-11-25).
    streams: Vec<Stream>,
    next_stream: u64,
    /// Streams of notices that are told of this task (the extension).
    listeners: Vec<Weak<Listener>>,
}

/// A request for the result that waits, and can carry questions.
#[derive(Clone)]
pub(crate) struct Stream {
    number: u64,
    pub(crate) request: RequestId,
    pub(crate) sink: Arc<dyn FrameSender>,
}

impl Live {
    pub(super) fn new(record: Record, written: Arc<[u8]>, ttl: Duration, session: Option<&Arc<Session>>) -> Self {
        let state = State {
            written,
            open: BTreeMap::new(),
            used: HashSet::new(),
            waiting: 0,
            streams: Vec::new(),
            next_stream: 0,
            listeners: Vec::new(),
            record,
        };
        Self {
            id: state.record.id.clone(),
            expires: Instant::now() + ttl,
            cancel: CancellationToken::new(),
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
            session: session.map(Arc::downgrade),
        }
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn expires(&self) -> Instant {
        self.expires
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task as it is now.
    pub(super) fn record(&self) -> Record {
        self.state().record.clone()
    }

    /// The task as the extension shows it now.
    pub(crate) fn detailed(&self) -> DetailedTask {
        self.record().detailed()
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().record.outcome.is_some()
    }

    /// What stands in the store.
    pub(super) fn written(&self) -> Arc<[u8]> {
        self.state().written.clone()
    }

    /// Says in words what goes on.
    pub(crate) fn say(self: &Arc<Self>, words: impl Into<String>) {
        {
            let mut state = self.state();
            if state.record.outcome.is_some() {
                return;
            }
            state.record.message = Some(words.into());
            state.record.updated = clock::now();
        }
        self.tell_listeners();
    }

    /// Tells a stream of notices of this task from now on, beginning with how it stands.
    pub(crate) fn listen(self: &Arc<Self>, listener: &Arc<Listener>) {
        {
            let mut state = self.state();
            // Streams that ended make room before there is more of it.
            if state.listeners.len() == state.listeners.capacity() {
                state.listeners.retain(|listener| listener.strong_count() > 0);
            }
            state.listeners.push(Arc::downgrade(listener));
        }
        listener.tell_task(self);
    }

    /// Streams are told that there is something new, and read what it is when they come to it.
    fn tell_listeners(self: &Arc<Self>) {
        let listeners: Vec<_> = self.state().listeners.iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            listener.tell_task(self);
        }
    }

    /// Ends the task; false when it ended before. What comes later changes nothing.
    pub(super) fn settle(self: &Arc<Self>, outcome: Outcome) -> bool {
        {
            let mut state = self.state();
            if state.record.outcome.is_some() {
                return false;
            }
            state.record.outcome = Some(outcome);
            state.record.asks = false;
            state.record.questions.clear();
            state.record.updated = clock::now();
            // Whoever waits for an answer is about to be dropped.
            state.open.clear();
        }
        self.changed();
        true
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) {
        // The sender lives as long as the task, so that the wait cannot fail.
        let _ = self.changes.subscribe().wait_for(|_| self.is_over()).await;
    }

    /// Tells who waits, the session, and the streams of notices.
    fn changed(self: &Arc<Self>) {
        self.changes.send_modify(|count| *count += 1);
        self.tell_listeners();
        if let Some(session) = self.session.as_ref().and_then(Weak::upgrade) {
            let params = TaskState::new(self.state().record.legacy());
            if let Ok(message) = jsonrpc::notification(notification::TaskStatus::NAME, &params) {
                session.send(message);
            }
        }
    }

    /// Marks that an answer is waited for until the guard is dropped.
    pub(crate) fn wait_for_answer(self: &Arc<Self>) -> Waits<'_> {
        self.update(|state| state.waiting += 1);
        Waits { live: self }
    }

    /// Changes what is asked; who waits is told when the status becomes another.
    fn update<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let (value, is_other) = {
            let mut state = self.state();
            let value = change(&mut state);
            let asks = (state.waiting > 0 || !state.open.is_empty()) && state.record.outcome.is_none();
            let is_other = state.record.asks != asks;
            if is_other {
                state.record.asks = asks;
                state.record.updated = clock::now();
            }
            (value, is_other)
        };
        if is_other {
            self.changed();
        }
        value
    }

    /// Puts a question where the client finds it (the extension), and waits for the answer. Its key never comes again.
    pub(crate) async fn ask(self: &Arc<Self>, key: &str, request: InputRequest) -> Result<Value, InputError> {
        let (sender, receiver) = oneshot::channel();
        let key = self.update(|state| {
            if state.open.len() >= QUESTIONS {
                return Err(InputError::misuse("too many questions of one task wait"));
            }
            let mut name = key.to_owned();
            let mut number = 1;
            while !state.used.insert(name.clone()) {
                number += 1;
                name = format!("{key}#{number}");
            }
            state.open.insert(name.clone(), sender);
            state.record.questions.insert(name.clone(), request);
            Ok(name)
        })?;
        let _taken_back = TakeBack { live: self, key };
        receiver.await.map_err(|_| InputError::gone())
    }

    /// Takes answers. Keys that nobody asked, or that were answered, are nobody's.
    pub(super) fn answer(self: &Arc<Self>, answers: JsonObject) {
        for (key, answer) in answers {
            let asker = self.update(|state| {
                state.record.questions.remove(&key);
                state.open.remove(&key)
            });
            if let Some(asker) = asker {
                // The handler may have given up in this moment.
                let _ = asker.send(answer);
            }
        }
    }

    /// Lends the stream of a request for the result to questions, until the guard is dropped.
    pub(super) fn lend(&self, request: &RequestId, sink: Option<&Arc<dyn FrameSender>>) -> Option<Lent<'_>> {
        let sink = sink?.clone();
        let number = {
            let mut state = self.state();
            let number = state.next_stream;
            state.next_stream += 1;
            state.streams.push(Stream { number, request: request.clone(), sink });
            number
        };
        self.changes.send_modify(|count| *count += 1);
        Some(Lent { live: self, number })
    }

    /// The newest stream that a question can go on.
    pub(crate) fn stream(&self) -> Option<Stream> {
        self.state().streams.last().cloned()
    }

    /// The same, and waits for one.
    pub(crate) async fn next_stream(&self) -> Option<Stream> {
        let _ = self.changes.subscribe().wait_for(|_| self.is_over() || self.stream().is_some()).await;
        self.stream()
    }
}

/// Marks that an answer is waited for.
pub(crate) struct Waits<'a> {
    live: &'a Arc<Live>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.live.update(|state| state.waiting -= 1);
    }
}

/// Takes a question back that was not answered.
struct TakeBack<'a> {
    live: &'a Arc<Live>,
    key: String,
}

impl Drop for TakeBack<'_> {
    fn drop(&mut self) {
        self.live.update(|state| {
            state.record.questions.remove(&self.key);
            state.open.remove(&self.key)
        });
    }
}

/// A stream that is lent to questions.
pub(super) struct Lent<'a> {
    live: &'a Live,
    number: u64,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.live.state().streams.retain(|stream| stream.number != self.number);
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whoever has the id may ask for the task, so it is not printed.
        f.debug_struct("Live").finish_non_exhaustive()
    }
}
