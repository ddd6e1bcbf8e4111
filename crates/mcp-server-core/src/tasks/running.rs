//! A task that runs on this node: its state, its input requests, and the requests that wait for its end.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_protocol::{
    InputRequest, JsonObject, NotificationMethod, RpcError, jsonrpc, notification,
    tasks::{TaskState, ext::DetailedTask},
};
use serde_json::Value;
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    record::{Record, TaskOutcome},
    result_waiters::ResultWaiters,
    sync::{Mutex, MutexGuard},
    table::SMALL,
    timestamp,
};
use crate::{
    error::InputError,
    node::{Lease, LeaseEnd},
    session::Session,
};

/// The most open input requests of one task.
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
    /// Cancels the work of the task.
    pub(crate) cancel: CancellationToken,
    /// The end is decided, and the work is over.
    over: CancellationToken,
    state: Mutex<State>,
    /// The number of changes, for requests that wait for one.
    changes: watch::Sender<u64>,
    /// The session that receives status notifications (2025-11-25).
    session: Option<Weak<Session>>,
    /// The end of the lease under which the task runs, in a fleet.
    lease_end: Option<LeaseEnd>,
}

struct State {
    record: Record,
    /// The end that the store has to accept before the task shows it, in a fleet.
    decided: Option<Decided>,
    /// Whether another node ended the task in a different way.
    is_replaced: bool,
    /// The record as the store has it.
    written: Arc<[u8]>,
    /// The lease of this node, until the task ends.
    lease: Option<Lease>,
    /// Open input requests by key (the extension).
    open: BTreeMap<String, oneshot::Sender<Value>>,
    used: HashSet<String>,
    /// The number of input requests that wait in a session.
    waiting: usize,
    /// The waiting `tasks/result` requests (2025-11-25).
    streams: ResultWaiters,
    /// The `subscriptions/listen` streams that receive the task (the extension).
    listeners: Vec<Weak<dyn TaskListener>>,
}

/// The end of a task, and its time.
struct Decided {
    outcome: TaskOutcome,
    updated: String,
}

impl State {
    fn is_over(&self) -> bool {
        self.decided.is_some() || self.record.outcome.is_some()
    }
}

impl RunningTask {
    pub(crate) fn new(
        record: Record,
        written: Arc<[u8]>,
        ttl: Duration,
        session: Option<&Arc<Session>>,
        lease: Option<Lease>,
    ) -> Self {
        let lease_end = lease.as_ref().map(Lease::end);
        let state = State {
            decided: None,
            is_replaced: false,
            written,
            lease,
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
            over: CancellationToken::new(),
            state: Mutex::new(state),
            changes: watch::Sender::new(0),
            session: session.map(Arc::downgrade),
            lease_end,
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

    /// Returns a copy of the current state.
    pub(crate) fn record(&self) -> Record {
        // Read first, so that the number is never newer than the state.
        let version = *self.changes.borrow();
        Record { version, ..self.state().record.clone() }
    }

    /// Waits until the number of changes differs from `version`. Returns it.
    pub(crate) async fn changed_since(&self, version: u64) -> u64 {
        // The sender lives as long as the task, so the wait cannot fail.
        self.changes.subscribe().wait_for(|count| *count != version).await.map_or(version, |count| *count)
    }

    /// Waits until this node loses the lease under which the task runs.
    pub(crate) async fn lease_lost(&self) {
        match &self.lease_end {
            Some(end) => end.wait().await,
            None => std::future::pending().await,
        }
    }

    /// Passes the current state to a closure.
    pub(crate) fn inspect<T>(&self, inspect: impl FnOnce(&Record) -> T) -> T {
        inspect(&self.state().record)
    }

    /// Returns the current state in the form of the extension.
    pub(crate) fn detailed(&self) -> DetailedTask {
        self.record().into_detailed()
    }

    /// Whether the state has no large result or error.
    pub(crate) fn is_small(&self) -> bool {
        match &self.state().record.outcome {
            Some(TaskOutcome::Result(_)) => false,
            Some(TaskOutcome::Error(error)) => error.data.is_none() && error.message.len() <= SMALL,
            Some(TaskOutcome::Cancelled) | None => true,
        }
    }

    /// Whether the end is decided, so that the task has no more work.
    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over()
    }

    /// Whether the task shows its end. In a fleet, the store has accepted the end.
    pub(crate) fn is_final(&self) -> bool {
        self.state().record.outcome.is_some()
    }

    /// Whether another node ended the task in a different way than this node.
    pub(crate) fn is_replaced(&self) -> bool {
        self.state().is_replaced
    }

    /// Returns the record with the decided end. Returns `None` while the task runs.
    pub(super) fn ended_record(&self) -> Option<Record> {
        let state = self.state();
        let mut record = state.record.clone();
        if let Some(Decided { outcome, updated }) = &state.decided {
            (record.outcome, record.updated) = (Some(outcome.clone()), updated.clone());
        }
        record.outcome.is_some().then_some(record)
    }

    /// Returns the record as the store has it.
    pub(crate) fn stored_bytes(&self) -> Arc<[u8]> {
        self.state().written.clone()
    }

    /// Sets the status message of a running task.
    pub(crate) fn set_message(self: &Arc<Self>, message: impl Into<String>) {
        {
            let mut state = self.state();
            if state.is_over() {
                return;
            }
            state.record.message = Some(message.into());
            state.record.updated = timestamp::now();
        }
        self.notify_listeners();
    }

    /// Adds a stream that receives the task from now on, and notifies it once.
    pub(crate) fn listen(self: &Arc<Self>, listener: &Arc<dyn TaskListener>) {
        {
            let mut state = self.state();
            // Closed streams are removed before the vector grows.
            if state.listeners.len() == state.listeners.capacity() {
                state.listeners.retain(|listener| listener.strong_count() > 0);
            }
            state.listeners.push(Arc::downgrade(listener));
        }
        listener.task_changed(self);
    }

    /// Notifies all waiters and streams of a change. They read the state later.
    fn notify_listeners(self: &Arc<Self>) {
        self.wake();
        let listeners: Vec<_> = self.state().listeners.iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            listener.task_changed(self);
        }
    }

    /// Decides the end of the task. Returns false when it is decided already.
    ///
    /// A task of a fleet shows its end after [`RunningTask::show_end`], because another node may have ended it first.
    pub(crate) fn settle(self: &Arc<Self>, outcome: TaskOutcome) -> bool {
        {
            let mut state = self.state();
            if state.is_over() {
                return false;
            }
            state.decided = Some(Decided { outcome, updated: timestamp::now() });
            // The handlers that wait for these answers are dropped next.
            state.open.clear();
            state.lease = None;
        }
        self.over.cancel();
        if self.lease_end.is_none() {
            self.show_end(None);
        }
        true
    }

    /// Replaces the result that the task ended with by an error. Returns false if the task did not end with a result, or shows its
    /// end.
    pub(super) fn discard_result(&self) -> bool {
        match &mut self.state().decided {
            Some(Decided { outcome: outcome @ TaskOutcome::Result(_), .. }) => {
                *outcome = TaskOutcome::Error(RpcError::internal("the result of this task cannot be stored"));
                true
            }
            _ => false,
        }
    }

    /// Shows the end that the store has, or else the decided end. It has no effect on a task that shows its end.
    pub(super) fn show_end(self: &Arc<Self>, stored: Option<Record>) {
        {
            let mut state = self.state();
            let Some(Decided { outcome, updated }) = state.decided.take() else { return };
            let stored = stored.and_then(|record| Some((record.outcome?, record.updated)));
            let (shown, updated) = match stored {
                Some((stored, at)) if stored != outcome => {
                    state.is_replaced = true;
                    (stored, at)
                }
                _ => (outcome, updated),
            };
            (state.record.outcome, state.record.updated) = (Some(shown), updated);
            state.record.awaits_input = false;
            state.record.questions.clear();
            self.notify_session(&state);
        }
        self.notify_listeners();
    }

    /// Waits until the end is decided.
    pub(crate) async fn over(&self) {
        self.over.cancelled().await;
    }

    /// Waits until the task shows its end.
    pub(crate) async fn ended(&self) {
        // The sender lives as long as the task, so the wait cannot fail.
        let _ = self.changes.subscribe().wait_for(|_| self.is_final()).await;
    }

    /// Wakes all waiters. The caller must not hold the state lock, because waiters read the state.
    pub(crate) fn wake(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Waits until a condition is true, or the end is decided.
    pub(crate) async fn wait_until(&self, condition: impl Fn() -> bool) {
        let mut changes = self.changes.subscribe();
        tokio::select! {
            biased;
            // The sender lives as long as the task, so the wait cannot fail.
            _ = changes.wait_for(|_| condition()) => {}
            () = self.over.cancelled() => {}
        }
    }

    pub(crate) fn streams<T>(&self, change: impl FnOnce(&mut ResultWaiters) -> T) -> T {
        change(&mut self.state().streams)
    }

    /// Sends the status to the session. The state lock is held meanwhile, which keeps notifications in order.
    ///
    /// The message is queued or dropped; this does not wait.
    fn notify_session(&self, state: &State) {
        let Some(session) = self.session.as_ref().and_then(Weak::upgrade) else { return };
        let params = TaskState::new(state.record.legacy());
        if let Ok(message) = jsonrpc::notification(notification::TaskStatus::NAME, &params) {
            session.send(message);
        }
    }

    /// Marks the task as waiting for input until the guard is dropped.
    pub(crate) fn wait_for_answer(self: &Arc<Self>) -> InputWait<'_> {
        self.update(|state| state.waiting += 1);
        InputWait { running_task: self }
    }

    /// Changes the open input requests. Notifies waiters when the status changes, and streams when a request is added
    /// or removed.
    fn update<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let (value, has_changed) = {
            let mut state = self.state();
            // One change adds or removes one input request.
            let questions = state.record.questions.len();
            let value = change(&mut state);
            let awaits_input = state.waiting > 0 || !state.open.is_empty();
            let status_changed = state.record.awaits_input != awaits_input;
            let questions_changed = awaits_input && state.record.questions.len() != questions;
            // After the decision, the next status is the final one.
            let status_changed = status_changed && !state.is_over();
            let has_changed = (status_changed || questions_changed) && !state.is_over();
            if has_changed {
                state.record.updated = timestamp::now();
            }
            if status_changed {
                state.record.awaits_input = awaits_input;
                self.notify_session(&state);
            }
            (value, has_changed)
        };
        if has_changed {
            self.notify_listeners();
        }
        value
    }

    /// Adds an input request and waits for the answer (the extension). A key that is in use gets a number appended.
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
        let _guard = QuestionGuard { running_task: self, key };
        receiver.await.map_err(|_| InputError::gone())
    }

    /// Passes answers to their input requests. Unknown keys are ignored.
    pub(crate) fn answer(self: &Arc<Self>, answers: JsonObject) {
        for (key, answer) in answers {
            let asker = self.update(|state| {
                state.record.questions.remove(&key);
                state.open.remove(&key)
            });
            if let Some(asker) = asker {
                // The handler may have stopped waiting in this moment.
                let _ = asker.send(answer);
            }
        }
    }
}

/// Marks a task as waiting for input.
pub(crate) struct InputWait<'a> {
    running_task: &'a Arc<RunningTask>,
}

impl Drop for InputWait<'_> {
    fn drop(&mut self) {
        self.running_task.update(|state| state.waiting -= 1);
    }
}

/// Removes an unanswered input request when dropped.
struct QuestionGuard<'a> {
    running_task: &'a Arc<RunningTask>,
    key: String,
}

impl Drop for QuestionGuard<'_> {
    fn drop(&mut self) {
        self.running_task.update(|state| {
            state.record.questions.remove(&self.key);
            state.open.remove(&self.key)
        });
    }
}

impl std::fmt::Debug for RunningTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The id may be the only secret that protects the task, so it is not printed.
        f.debug_struct("RunningTask").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use mcp_protocol::{ClientCapabilities, Implementation, InputRequests, ProtocolVersion, ServerCapabilities};
    use mcp_transport::{BoxFuture, Frame, TransportError, TrySendError};

    use super::*;
    use crate::{Peer, session::ClientIdentity};

    /// Records the sent statuses. It delays the first `input_required`.
    struct DelayingSender {
        statuses: Mutex<Vec<String>>,
        /// Reports the start of the delay, and receives its end.
        delay: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
    }

    impl mcp_transport::FrameSender for DelayingSender {
        fn send(&self, frame: Frame) -> BoxFuture<'_, Result<(), TransportError>> {
            let sent = self.try_send(frame);
            Box::pin(async move { sent.map_err(|_| TransportError::closed()) })
        }

        fn try_send(&self, frame: Frame) -> Result<(), TrySendError> {
            let message: Value = serde_json::from_slice(&frame.message).unwrap();
            let status = message["params"]["status"].as_str().unwrap().to_owned();
            if status == "input_required"
                && let Some((begun, end)) = self.delay.lock().take()
            {
                begun.send(()).unwrap();
                // Without the lock, the thread that ends the task would send its status before this one.
                let _ = end.recv_timeout(Duration::from_millis(100));
            }
            self.statuses.lock().push(status);
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
    fn no_status_follows_the_final_status() {
        let ((begun, delay_begun), (end_delay, end)) = (mpsc::channel(), mpsc::channel());
        let sender = Arc::new(DelayingSender { statuses: Mutex::default(), delay: Mutex::new(Some((begun, end))) });
        let peer = Peer::new(sender.clone(), 1);
        let (client, version) = (Implementation::new("t", "1"), ProtocolVersion::V2025_11_25);
        let identity = Arc::new(ClientIdentity::new(client, ClientCapabilities::default()));
        let session = Arc::new(Session::new(None, version, identity, &ServerCapabilities::default(), &peer));
        session.mark_initialized();
        let record = Record {
            id: "t".into(),
            owner: "o".into(),
            tool: None,
            access: crate::access::Access::PUBLIC,
            created: timestamp::now(),
            updated: timestamp::now(),
            ttl: 1,
            poll: 1,
            message: None,
            node: None,
            version: 0,
            questions: InputRequests::new(),
            awaits_input: false,
            outcome: None,
        };
        let running_task =
            Arc::new(RunningTask::new(record, Arc::default(), Duration::from_secs(1), Some(&session), None));
        let waiting_task = running_task.clone();
        let waiting_thread = std::thread::spawn(move || drop(waiting_task.wait_for_answer()));
        delay_begun.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(running_task.settle(TaskOutcome::Cancelled));
        let _ = end_delay.send(());
        waiting_thread.join().unwrap();
        assert_eq!(sender.statuses.lock().last().unwrap(), "cancelled");
    }
}
