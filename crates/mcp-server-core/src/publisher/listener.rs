//! One `subscriptions/listen` stream and the changes that wait for it.

use std::{
    collections::VecDeque,
    convert::Infallible,
    sync::{Arc, Weak},
};

use mcp_protocol::{
    CancelledParams, ListenResult, NotificationMethod, RequestId, RpcError, SubscriptionFilter,
    SubscriptionsAcknowledgedParams, jsonrpc, notification, tasks::ext::DetailedTask,
};
use mcp_transport::{Frame, FrameSender, Route, TransportError};
use parking_lot::{Mutex, MutexGuard};
use serde::Serialize;
use tokio::{sync::Notify, time::Instant};

use super::{Filter, Readers, fleet::PAUSES};
use crate::{
    change::{Change, LISTS, PendingChanges, subscription_meta},
    tasks::{RunningTask, TaskListener},
};

/// The subscriptions and waiting changes of one stream.
#[derive(Debug)]
pub(crate) struct Listener {
    state: Mutex<State>,
    more: Notify,
}

/// The subscriptions, and the changes that wait to be sent.
#[derive(Debug, Default)]
struct State {
    filter: Filter,
    changes: PendingChanges,
    /// Each task once. The stream sends the latest state of a task.
    tasks: VecDeque<TaskUpdate>,
    /// Whether the next message is a task when both kinds wait. The kinds alternate.
    is_turn_of_tasks: bool,
}

enum Next {
    Change(Change),
    Task(TaskUpdate),
}

/// A task whose state waits to be sent.
#[derive(Debug)]
struct TaskUpdate {
    id: Box<str>,
    /// `None` after a large outcome. The stream then fetches the outcome when it sends it, so a slow reader does not
    /// keep an outcome that the task table has dropped.
    running_task: Option<Arc<RunningTask>>,
}

impl Listener {
    pub(super) fn new(filter: Filter) -> Self {
        Self { state: Mutex::new(State { filter, ..State::default() }), more: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Ends the subscriptions to all other resources, and drops their waiting changes.
    fn retain_uris(&self, accepted: &[String]) {
        let state = &mut *self.state();
        for uri in state.filter.retain_uris(accepted) {
            state.changes.forget(&uri);
        }
    }

    /// Queues a task whose state is fetched when the stream sends it.
    fn stored_task_changed(&self, id: &str) {
        {
            let mut state = self.state();
            if state.tasks.iter().any(|waiting| *waiting.id == *id) {
                return;
            }
            state.tasks.push_back(TaskUpdate { id: id.into(), running_task: None });
        }
        self.more.notify_one();
    }

    pub(crate) fn notify(&self, change: &Change) {
        let is_wanted = self.state().insert(change);
        if is_wanted {
            self.more.notify_one();
        }
    }

    pub(super) fn notify_all(&self) {
        {
            let mut state = self.state();
            let updates: Vec<Change> = state.filter.uris().cloned().map(Change::Updated).collect();
            for change in LISTS.iter().chain(&updates) {
                state.insert(change);
            }
        }
        self.more.notify_one();
    }

    fn try_next(&self) -> Option<Next> {
        let state = &mut *self.state();
        let mut task = || state.tasks.pop_front().map(Next::Task);
        let mut change = || state.changes.pop().map(Next::Change);
        let next = if state.is_turn_of_tasks { task().or_else(change) } else { change().or_else(task) };
        state.is_turn_of_tasks = matches!(next, Some(Next::Change(_)));
        next
    }

    async fn next(&self) -> Next {
        loop {
            match self.try_next() {
                Some(next) => return next,
                None => self.more.notified().await,
            }
        }
    }
}

impl State {
    /// Queues a change. Returns whether the stream subscribes to it.
    fn insert(&mut self, change: &Change) -> bool {
        let is_wanted = self.filter.wants(change);
        if is_wanted {
            self.changes.insert(change.clone());
        }
        is_wanted
    }
}

impl TaskListener for Listener {
    fn task_changed(&self, task: &Arc<RunningTask>) {
        {
            let mut state = self.state();
            // The queue is locked, so no other thread can queue an older state. The state of the task is not locked
            // here.
            let running_task = task.is_small().then(|| task.clone());
            if let Some(waiting) = state.tasks.iter_mut().find(|waiting| *waiting.id == *task.id()) {
                waiting.running_task = running_task;
                return;
            }
            state.tasks.push_back(TaskUpdate { id: task.id().into(), running_task });
        }
        self.more.notify_one();
    }
}

/// Notifies a stream of the changes of a task that runs on another node.
pub(crate) struct StoredTaskChanges {
    listener: Arc<Listener>,
    id: Box<str>,
}

impl StoredTaskChanges {
    pub(crate) fn notify(&self) {
        self.listener.stored_task_changed(&self.id);
    }
}

/// The registration of a stream with the publisher. Dropping it removes the stream.
pub(crate) struct Listening {
    readers: Arc<Readers>,
    number: u64,
    listener: Arc<Listener>,
}

impl Listening {
    pub(super) fn new(readers: Arc<Readers>, number: u64, listener: Arc<Listener>) -> Self {
        Self { readers, number, listener }
    }

    /// Returns the stream, for single changes.
    pub(crate) fn stream(&self) -> Weak<Listener> {
        Arc::downgrade(&self.listener)
    }

    /// Ends the subscriptions to all other resources.
    pub(crate) fn retain_uris(&self, accepted: &[String]) {
        self.listener.retain_uris(accepted);
    }

    /// Adds a task that runs. The stream receives its current state first.
    pub(crate) fn add_task(&self, task: &Arc<RunningTask>) {
        let listener: Arc<dyn TaskListener> = self.listener.clone();
        task.listen(&listener);
    }

    /// Adds a task that has ended or runs on another node. The stream receives its current state, and again after each
    /// notification.
    pub(crate) fn add_stored(&self, id: &str) -> StoredTaskChanges {
        self.listener.stored_task_changed(id);
        StoredTaskChanges { listener: self.listener.clone(), id: id.into() }
    }

    /// Sends changes until the stream breaks.
    ///
    /// `fetch` returns the state of a task, or `None` for an unknown task. A failed fetch is repeated later.
    pub(crate) async fn run<F: Future<Output = Result<Option<DetailedTask>, RpcError>>>(
        &self,
        stream: &ListenStream<'_>,
        fetch: impl Fn(Box<str>) -> F,
    ) -> Result<Infallible, TransportError> {
        // The tasks whose fetch failed, without duplicates.
        let mut late = VecDeque::new();
        let (mut pause, mut again) = (PAUSES.0, Instant::now());
        loop {
            let next = tokio::select! {
                biased;
                () = tokio::time::sleep_until(again), if !late.is_empty() => {
                    // Repeated fetches and other messages alternate.
                    again = Instant::now() + PAUSES.0;
                    late.pop_front().map(|id| Next::Task(TaskUpdate { id, running_task: None }))
                }
                next = self.listener.next() => Some(next),
            };
            let task = match next {
                None => continue,
                Some(Next::Change(change)) => {
                    stream.send(change.message(Some(stream.id))).await?;
                    continue;
                }
                Some(Next::Task(TaskUpdate { id, running_task })) => {
                    late.retain(|late| *late != id);
                    match running_task {
                        Some(running_task) => Some(running_task.detailed()),
                        None => match fetch(id.clone()).await {
                            Ok(task) => {
                                pause = PAUSES.0;
                                task
                            }
                            Err(_) => {
                                late.push_back(id);
                                again = Instant::now() + pause;
                                pause = (pause * 2).min(PAUSES.1);
                                None
                            }
                        },
                    }
                }
            };
            if let Some(task) = task {
                stream.send_task(task).await?;
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.readers.leave(self.number);
    }
}

/// The outgoing messages of one subscription.
pub(crate) struct ListenStream<'a> {
    pub(crate) id: &'a RequestId,
    pub(crate) sink: &'a dyn FrameSender,
}

impl ListenStream<'_> {
    async fn send(&self, message: Vec<u8>) -> Result<(), TransportError> {
        self.sink.send(Frame::new(message).with_route(Route::Request(self.id.clone()))).await
    }

    async fn notify<N: NotificationMethod>(&self, params: &(impl Serialize + Sync)) -> Result<(), TransportError> {
        // Strings, flags, ids and JSON values always serialize.
        self.send(jsonrpc::notification(N::NAME, params).unwrap_or_default()).await
    }

    /// Sends the accepted subscriptions. It is the first message.
    pub(crate) async fn acknowledge(&self, accepted: SubscriptionFilter) -> Result<(), TransportError> {
        let mut params = SubscriptionsAcknowledgedParams::new(accepted);
        params.meta = Some(subscription_meta(self.id));
        self.notify::<notification::SubscriptionsAcknowledged>(&params).await
    }

    /// Sends the state of a task.
    pub(crate) async fn send_task(&self, mut task: DetailedTask) -> Result<(), TransportError> {
        task.meta = Some(subscription_meta(self.id));
        self.notify::<notification::Task>(&task).await
    }

    /// Sends a cancellation, on transports where no closed stream shows the end (basic/patterns/cancellation).
    pub(crate) async fn send_end(&self) {
        let params = CancelledParams::new(self.id.clone()).with_reason("the server ends the subscription");
        let _ = self.notify::<notification::Cancelled>(&params).await;
    }

    /// Returns the response, which ends the subscription.
    pub(crate) fn result(&self) -> ListenResult {
        let mut result = ListenResult::new();
        result.meta = Some(subscription_meta(self.id));
        result
    }
}
