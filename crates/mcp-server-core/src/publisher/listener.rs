//! One `subscriptions/listen` stream and the changes that wait for it.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Weak},
    task::Poll,
    time::Duration,
};

use mcp_protocol::{
    CancelledParams, ListenResult, NotificationMethod, RequestId, RpcError, SubscriptionFilter,
    SubscriptionsAcknowledgedParams, jsonrpc, notification, tasks::ext::DetailedTask,
};
use mcp_transport::{Frame, FrameSender, Route, TransportError};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::Notify;

use super::{Filter, Readers, failed_fetches::FailedFetches};
use crate::{
    change::{Change, LISTS, PendingChanges, subscription_meta},
    tasks::{
        RunningTask, TaskListener,
        sync::{Mutex, MutexGuard},
    },
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
    /// The tasks whose states the stream fetches now. A change of such a task waits for the end of the fetch.
    fetched: Vec<Fetch>,
    /// The tasks that the source of the server follows for the stream, with their servers.
    followed: HashMap<Box<str>, Arc<str>>,
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

/// The fetch of a state that runs now.
#[derive(Debug)]
struct Fetch {
    task: Box<str>,
    server: Arc<str>,
    /// The last fetch of the task failed.
    is_repeated: bool,
}

/// The most states that a stream fetches at the same time. Tasks whose last fetch failed have half of the places, so that tasks without
/// an answer do not delay the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fetches {
    pub(crate) all: usize,
    pub(crate) of_server: usize,
}

impl Fetches {
    /// Whether another fetch can begin.
    fn permit(self, running: &[Fetch], server: &str, is_repeated: bool) -> bool {
        let at_server = |fetch: &&Fetch| *fetch.server == *server;
        let (all, of_server) = (running.iter(), running.iter().filter(at_server));
        let repeated = |fetch: &&Fetch| fetch.is_repeated;
        all.clone().count() < self.all
            && of_server.clone().count() < self.of_server
            && (!is_repeated
                || all.filter(repeated).count() < self.all.div_ceil(2)
                    && of_server.filter(repeated).count() < self.of_server.div_ceil(2))
    }
}

/// The state of a task, for its notification.
pub(crate) enum TaskState {
    Registered(Box<DetailedTask>),
    /// The parameters of the notification of a task of a source, with the metadata of the stream.
    OfSource(Box<RawValue>),
}

/// The fetches of states that run now, with the ids of their tasks.
struct Running<F>(Vec<(Box<str>, Pin<Box<F>>)>);

impl<F: Future> Running<F> {
    /// Waits for the end of a fetch.
    async fn next(&mut self) -> (Box<str>, F::Output) {
        poll_fn(|cx| {
            let mut fetches = self.0.iter_mut().enumerate();
            let done = fetches.find_map(|(at, (_, fetch))| match fetch.as_mut().poll(cx) {
                Poll::Ready(state) => Some((at, state)),
                Poll::Pending => None,
            });
            match done {
                Some((at, state)) => Poll::Ready((self.0.swap_remove(at).0, state)),
                None => Poll::Pending,
            }
        })
        .await
    }
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
        let is_new = self.state().insert_task(id);
        if is_new {
            self.more.notify_one();
        }
    }

    /// Queues a task of the source, if the stream still follows it.
    pub(crate) fn followed_task_changed(&self, id: &str) {
        let is_new = {
            let mut state = self.state();
            state.followed.contains_key(id) && state.insert_task(id)
        };
        if is_new {
            self.more.notify_one();
        }
    }

    /// Ends the fetch of the state of a task.
    fn end_fetch(&self, id: &str) {
        self.state().fetched.retain(|fetch| *fetch.task != *id);
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
            let mut uris: Vec<_> = state.filter.uris().cloned().collect();
            uris.sort_unstable();
            let updates: Vec<Change> = uris.into_iter().map(Change::Updated).collect();
            for change in LISTS.iter().chain(&updates) {
                state.insert(change);
            }
        }
        self.more.notify_one();
    }

    /// Returns the next message.
    fn try_next(&self, fetches: Fetches, failed: &FailedFetches) -> Option<Next> {
        let state = &mut *self.state();
        let task = |state: &mut State| state.next_task(fetches, failed).map(Next::Task);
        let change = |state: &mut State| state.changes.pop().map(Next::Change);
        let next = match state.is_turn_of_tasks {
            true => task(state).or_else(|| change(state)),
            false => change(state).or_else(|| task(state)),
        };
        state.is_turn_of_tasks = matches!(next, Some(Next::Change(_)));
        next
    }

    async fn next(&self, fetches: Fetches, failed: &FailedFetches) -> Next {
        loop {
            match self.try_next(fetches, failed) {
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

    /// Queues a task whose state is fetched when the stream sends it. Returns false if it waits already.
    fn insert_task(&mut self, id: &str) -> bool {
        let is_new = self.tasks.iter().all(|waiting| *waiting.id != *id);
        if is_new {
            self.tasks.push_back(TaskUpdate { id: id.into(), running_task: None });
        }
        is_new
    }

    /// Returns the first task whose state the stream can send or fetch now.
    fn next_task(&mut self, fetches: Fetches, failed: &FailedFetches) -> Option<TaskUpdate> {
        let Self { tasks, fetched, followed, .. } = self;
        let server = |id: &str| followed.get(id).map_or("", |server| &**server);
        let at = tasks.iter().position(|TaskUpdate { id, running_task }| {
            fetched.iter().all(|fetch| fetch.task != *id)
                && (running_task.is_some() || fetches.permit(fetched, server(id), failed.contains(id)))
        })?;
        let update = tasks.remove(at)?;
        if update.running_task.is_none() {
            let server = followed.get(&update.id).map(Arc::clone).unwrap_or_default();
            fetched.push(Fetch { task: update.id.clone(), server, is_repeated: failed.contains(&update.id) });
        }
        Some(update)
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

    /// Adds a task that the source of the server follows. The stream fetches its current state, and again after each notice of the
    /// source. `server` is the server of the task, if the source names it.
    pub(crate) fn follow_task(&self, id: &str, server: Arc<str>) {
        self.listener.state().followed.insert(id.into(), server);
        self.listener.stored_task_changed(id);
    }

    /// Ends the notices of the source about a task.
    pub(crate) fn end_task(&self, id: &str) {
        let state = &mut *self.listener.state();
        state.followed.remove(id);
        state.tasks.retain(|update| *update.id != *id);
    }

    /// Sends changes until the stream breaks. The stream has no tasks: [`Listening::run`] would touch more memory for each change.
    pub(crate) async fn run_without_tasks(&self, stream: &ListenStream<'_>) -> Result<Infallible, TransportError> {
        loop {
            let next = self.listener.state().changes.pop();
            match next {
                Some(change) => {
                    stream.send(change.message(Some(stream.id))).await?;
                    // Neither a queue with capacity nor a stored notice lets other tasks run.
                    tokio::task::coop::consume_budget().await;
                }
                None => self.listener.more.notified().await,
            }
        }
    }

    /// Sends changes and the states of tasks until the stream breaks.
    ///
    /// `fetch` returns the state of a task, or `None` if there is no state to send. A failed fetch is repeated after a pause, which
    /// doubles with each failure of the task. `pauses` are the first pause and the longest one.
    pub(crate) async fn run<F: Future<Output = Result<Option<TaskState>, RpcError>>>(
        &self,
        stream: &ListenStream<'_>,
        most: Fetches,
        pauses: (Duration, Duration),
        fetch: impl Fn(Box<str>) -> F,
    ) -> Result<Infallible, TransportError> {
        let mut failed = FailedFetches::new(pauses);
        let mut fetches = Running(Vec::new());
        loop {
            let task = tokio::select! {
                biased;
                id = failed.due() => {
                    failed.repeated(&id);
                    self.listener.stored_task_changed(&id);
                    None
                }
                (id, state) = fetches.next() => {
                    self.listener.end_fetch(&id);
                    match state {
                        Ok(state) => {
                            failed.fetched(&id);
                            state
                        }
                        Err(_) => {
                            failed.failed(id);
                            None
                        }
                    }
                }
                next = self.listener.next(most, &failed) => match next {
                    Next::Change(change) => {
                        stream.send(change.message(Some(stream.id))).await?;
                        None
                    }
                    Next::Task(TaskUpdate { id, running_task: Some(running_task) }) => {
                        failed.fetched(&id);
                        Some(TaskState::Registered(running_task.detailed().into()))
                    }
                    Next::Task(TaskUpdate { id, running_task: None }) => {
                        failed.begun(&id);
                        fetches.0.push((id.clone(), Box::pin(fetch(id))));
                        None
                    }
                },
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
        let frame = Frame::new(message).with_route(Route::Request(self.id.clone()));
        // A queue with capacity needs no future.
        match self.sink.try_send(frame) {
            Ok(()) => Ok(()),
            Err(error) => self.sink.send(error.into_frame()).await,
        }
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
    pub(crate) async fn send_task(&self, task: TaskState) -> Result<(), TransportError> {
        match task {
            TaskState::Registered(mut task) => {
                task.meta = Some(subscription_meta(self.id));
                self.notify::<notification::Task>(&task).await
            }
            TaskState::OfSource(params) => self.notify::<notification::Task>(&params).await,
        }
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

#[cfg(test)]
mod models {
    //! Models of the changes of a stream: each order of the threads that publish, unsubscribe and send.

    use mcp_protocol::{ClientCapabilities, SubscriptionFilter};
    use mcp_schedule::model::{block_on, check, spawn};

    use super::*;
    use crate::{Limits, publisher::Offered};

    const FETCHES: Fetches = Fetches { all: 1, of_server: 1 };

    /// Returns a stream that subscribes to the resources `a` and `b`.
    fn listener() -> Arc<Listener> {
        let mut requested = SubscriptionFilter::new();
        requested.resource_subscriptions = vec!["a".into(), "b".into()];
        let offered = Offered { tools: true, prompts: true, resources: true, tasks: false };
        let accepted = Filter::accept(&requested, offered, &Limits::default(), &ClientCapabilities::default());
        Arc::new(Listener::new(accepted.unwrap().1))
    }

    async fn next(listener: &Listener) -> Change {
        let pauses = (Duration::from_secs(1), Duration::from_secs(1));
        match listener.next(FETCHES, &FailedFetches::new(pauses)).await {
            Next::Change(change) => change,
            Next::Task(_) => panic!("the stream has no tasks"),
        }
    }

    #[test]
    fn a_stream_sends_each_change_of_several_publishers() {
        check(|| {
            let listener = listener();
            let publishing = ["a", "b"].map(|uri| {
                let listener = listener.clone();
                spawn(move || listener.notify(&Change::Updated(uri.into())))
            });
            let sent = block_on(async { [next(&listener).await, next(&listener).await] });
            publishing.into_iter().for_each(|publishing| publishing.join().unwrap());
            assert!(["a", "b"].iter().all(|uri| sent.contains(&Change::Updated((*uri).into()))), "{sent:?}");
        });
    }

    #[test]
    fn a_change_during_its_delivery_is_sent_again() {
        check(|| {
            let listener = listener();
            let value = Arc::new(Mutex::new(0));
            let publishing = spawn({
                let (listener, value) = (listener.clone(), value.clone());
                move || {
                    for _ in 0..2 {
                        *value.lock() += 1;
                        listener.notify(&Change::Updated("a".into()));
                    }
                }
            });
            // A client reads the resource after each change. It finds the last value.
            block_on(async {
                while *value.lock() < 2 {
                    assert_eq!(next(&listener).await, Change::Updated("a".into()));
                }
            });
            publishing.join().unwrap();
        });
    }

    #[test]
    fn a_stream_sends_no_change_after_the_end_of_its_subscription() {
        check(|| {
            let listener = listener();
            let publishing = spawn({
                let listener = listener.clone();
                move || {
                    listener.notify(&Change::Updated("a".into()));
                    listener.notify(&Change::Updated("b".into()));
                }
            });
            listener.retain_uris(&["b".to_owned()]);
            assert_eq!(block_on(next(&listener)), Change::Updated("b".into()));
            publishing.join().unwrap();
        });
    }
}
