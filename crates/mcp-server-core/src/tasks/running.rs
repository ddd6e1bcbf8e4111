//! A task that runs on this node: where it stands, what it asks, who waits for its end.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_protocol::{
    InputRequest, JsonObject, NotificationMethod, jsonrpc, notification,
    tasks::{TaskState, ext::DetailedTask},
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::Value;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    record::{Outcome, Record},
    result_waiters::ResultWaiters,
    table::SMALL,
    timestamp,
};
use crate::{error::InputError, session::Session};

/// So many questions of one task may wait at once.
const QUESTIONS: usize = 256;

/// A stream that is notified when a task changes.
pub(crate) trait TaskListener: Send + Sync {
    /// The task changed. The implementation queues it and reads its state later.
    fn task_changed(&self, task: &Arc<RunningTask>);
}

/// A task that runs on this node.
pub(crate) struct RunningTask {
    id: String,
    expires: Instant,
    /// Fires when the work shall stop.
    pub(crate) cancel: CancellationToken,
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
    streams: ResultWaiters,
    /// Streams of notices that are told of this task (the extension).
    listeners: Vec<Weak<dyn TaskListener>>,
}

impl RunningTask {
    pub(crate) fn new(record: Record, written: Arc<[u8]>, ttl: Duration, session: Option<&Arc<Session>>) -> Self {
        let state = State {
            written,
            open: BTreeMap::new(),
            used: HashSet::new(),
            waiting: 0,
            streams: ResultWaiters::default(),
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

    pub(crate) fn expires(&self) -> Instant {
        self.expires
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// The task as it is now.
    pub(crate) fn record(&self) -> Record {
        self.state().record.clone()
    }

    /// Looks at the task as it is now.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&Record) -> T) -> T {
        look(&self.state().record)
    }

    /// The task as the extension shows it now.
    pub(crate) fn detailed(&self) -> DetailedTask {
        self.record().into_detailed()
    }

    /// Whether it holds nothing that is large: a result, or an error with much to it.
    pub(crate) fn is_small(&self) -> bool {
        match &self.state().record.outcome {
            Some(Outcome::Result(_)) => false,
            Some(Outcome::Error(error)) => error.data.is_none() && error.message.len() <= SMALL,
            Some(Outcome::Cancelled) | None => true,
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.state().record.outcome.is_some()
    }

    /// What stands in the store.
    pub(crate) fn written(&self) -> Arc<[u8]> {
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
            state.record.updated = timestamp::now();
        }
        self.tell_listeners();
    }

    /// Tells a stream of notices of this task from now on, beginning with how it stands.
    pub(crate) fn listen(self: &Arc<Self>, listener: Arc<dyn TaskListener>) {
        {
            let mut state = self.state();
            // Streams that ended make room before there is more of it.
            if state.listeners.len() == state.listeners.capacity() {
                state.listeners.retain(|listener| listener.strong_count() > 0);
            }
            state.listeners.push(Arc::downgrade(&listener));
        }
        listener.task_changed(self);
    }

    /// Streams are told that there is something new, and read what it is when they come to it.
    fn tell_listeners(self: &Arc<Self>) {
        let listeners: Vec<_> = self.state().listeners.iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            listener.task_changed(self);
        }
    }

    /// Ends the task; false when it ended before. What comes later changes nothing.
    pub(crate) fn settle(self: &Arc<Self>, outcome: Outcome) -> bool {
        {
            let mut state = self.state();
            if state.record.outcome.is_some() {
                return false;
            }
            state.record.outcome = Some(outcome);
            state.record.asks = false;
            state.record.questions.clear();
            state.record.updated = timestamp::now();
            // Whoever waits for an answer is about to be dropped.
            state.open.clear();
            self.tell_session(&state);
        }
        self.wake();
        self.tell_listeners();
        true
    }

    /// Waits for the end.
    pub(crate) async fn ended(&self) {
        self.wait_until(|| self.is_over()).await;
    }

    /// Wakes who waits for a change. Nobody may hold the state: who is woken looks at it.
    pub(crate) fn wake(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) async fn wait_until(&self, is_so: impl Fn() -> bool) {
        // The sender lives as long as the task, so that the wait cannot fail.
        let _ = self.changes.subscribe().wait_for(|_| is_so()).await;
    }

    pub(crate) fn streams<T>(&self, change: impl FnOnce(&mut ResultWaiters) -> T) -> T {
        change(&mut self.state().streams)
    }

    /// Tells the session of a status. The state is held meanwhile, so that two never change places; the message is queued
    /// or dropped, and nobody is waited for.
    fn tell_session(&self, state: &State) {
        let Some(session) = self.session.as_ref().and_then(Weak::upgrade) else { return };
        let params = TaskState::new(state.record.legacy());
        if let Ok(message) = jsonrpc::notification(notification::TaskStatus::NAME, &params) {
            session.send(message);
        }
    }

    /// Marks that an answer is waited for until the guard is dropped.
    pub(crate) fn wait_for_answer(self: &Arc<Self>) -> Waits<'_> {
        self.update(|state| state.waiting += 1);
        Waits { live: self }
    }

    /// Changes what is asked; who waits is told when the status becomes another, and listeners of each other question.
    fn update<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let (value, is_other, differs) = {
            let mut state = self.state();
            // One change adds a question, or takes one away.
            let questions = state.record.questions.len();
            let value = change(&mut state);
            let asks = (state.waiting > 0 || !state.open.is_empty()) && state.record.outcome.is_none();
            let is_other = state.record.asks != asks;
            let differs = is_other || (asks && state.record.questions.len() != questions);
            if differs {
                state.record.updated = timestamp::now();
            }
            if is_other {
                state.record.asks = asks;
                self.tell_session(&state);
            }
            (value, is_other, differs)
        };
        if is_other {
            self.wake();
        }
        if differs {
            self.tell_listeners();
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
    pub(crate) fn answer(self: &Arc<Self>, answers: JsonObject) {
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
}

/// Marks that an answer is waited for.
pub(crate) struct Waits<'a> {
    live: &'a Arc<RunningTask>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.live.update(|state| state.waiting -= 1);
    }
}

/// Takes a question back that was not answered.
struct TakeBack<'a> {
    live: &'a Arc<RunningTask>,
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

impl std::fmt::Debug for RunningTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Whoever has the id may ask for the task, so it is not printed.
        f.debug_struct("RunningTask").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use mcp_protocol::{ClientCapabilities, Implementation, InputRequests, ProtocolVersion, ServerCapabilities};
    use mcp_transport::{BoxFuture, Frame, TransportError, TrySendError};

    use super::*;
    use crate::Peer;

    /// Keeps what is sent; the first message that asks is kept late.
    struct Slow {
        kept: Mutex<Vec<String>>,
        asks: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
    }

    impl mcp_transport::FrameSender for Slow {
        fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
            let sent = self.try_send(frame);
            Box::pin(async move { sent.map_err(|_| TransportError::closed()) })
        }

        fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
            let message: Value = serde_json::from_slice(&frame.message).unwrap();
            let status = message["params"]["status"].as_str().unwrap().to_owned();
            if status == "input_required"
                && let Some((begun, over)) = self.asks.lock().take()
            {
                begun.send(()).unwrap();
                // Whoever ends the task meanwhile would be told first; whoever has to wait for this is not.
                let _ = over.recv_timeout(Duration::from_millis(100));
            }
            self.kept.lock().push(status);
            Ok(())
        }

        fn ready(&self, _len: usize) -> BoxFuture<'_, Result<(), TransportError>> {
            Box::pin(async { Ok(()) })
        }

        fn close(&self, _id: &mcp_protocol::RequestId) {}

        fn shutdown(&self) -> BoxFuture<'_, Result<(), TransportError>> {
            Box::pin(async { Ok(()) })
        }
    }

    #[test]
    fn nothing_is_told_after_the_end() {
        let ((begun, begins), (over, ends)) = (mpsc::channel(), mpsc::channel());
        let slow = Arc::new(Slow { kept: Mutex::default(), asks: Mutex::new(Some((begun, ends))) });
        let peer = Peer::new(slow.clone(), 1);
        let (info, version) = (Implementation::new("t", "1"), ProtocolVersion::V2025_11_25);
        let (able, offered) = (ClientCapabilities::default(), ServerCapabilities::default());
        let session = Arc::new(Session::new(None, version, info, able, &offered, &peer));
        session.mark_initialized();
        let record = Record {
            id: "t".into(),
            owner: "o".into(),
            tool: None,
            created: timestamp::now(),
            updated: timestamp::now(),
            ttl: 1,
            poll: 1,
            message: None,
            questions: InputRequests::new(),
            asks: false,
            outcome: None,
        };
        let live = Arc::new(RunningTask::new(record, Arc::default(), Duration::from_secs(1), Some(&session)));
        let asking = live.clone();
        let asks = std::thread::spawn(move || drop(asking.wait_for_answer()));
        begins.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(live.settle(Outcome::Cancelled));
        let _ = over.send(());
        asks.join().unwrap();
        assert_eq!(slow.kept.lock().last().unwrap(), "cancelled");
    }
}
