//! One `subscriptions/listen` stream: acknowledged first, told of what it asked for, answered when the server ends it.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

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

/// A stream of notices as the publisher sees it.
#[derive(Debug)]
pub(crate) struct Listener {
    filter: Filter,
    waiting: Mutex<Waiting>,
    more: Notify,
}

/// What a stream was not told yet.
#[derive(Debug, Default)]
struct Waiting {
    changes: PendingChanges,
    /// Each task once, however often it changed: what is told is how it stands then.
    tasks: VecDeque<Told>,
    /// Whether a task is next where both wait: neither keeps the other from being told.
    is_turn_of_tasks: bool,
}

enum Next {
    Change(Change),
    Task(Told),
}

/// A task that waits to be told of.
#[derive(Debug)]
struct Told {
    id: Box<str>,
    /// Not there once it came to something large: that is fetched when it is its turn, so that a slow reader keeps nothing
    /// which the table of tasks has counted and forgotten.
    live: Option<Arc<RunningTask>>,
}

impl Listener {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, waiting: Mutex::default(), more: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }

    /// A task that the stream asked for has ended before.
    fn tell_ended(&self, id: &str) {
        self.waiting().tasks.push_back(Told { id: id.into(), live: None });
        self.more.notify_one();
    }

    pub(super) fn tell(&self, notice: &Change) {
        if self.filter.wants(notice) {
            self.waiting().changes.insert(notice.clone());
            self.more.notify_one();
        }
    }

    pub(super) fn tell_all(&self) {
        for notice in &LISTS {
            self.tell(notice);
        }
        for uri in self.filter.uris() {
            self.tell(&Change::Updated(uri.clone()));
        }
    }

    fn try_next(&self) -> Option<Next> {
        let mut waiting = self.waiting();
        let waiting = &mut *waiting;
        let mut task = || waiting.tasks.pop_front().map(Next::Task);
        let mut change = || waiting.changes.pop().map(Next::Change);
        let next = if waiting.is_turn_of_tasks { task().or_else(change) } else { change().or_else(task) };
        waiting.is_turn_of_tasks = matches!(next, Some(Next::Change(_)));
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

impl TaskListener for Listener {
    fn task_changed(&self, task: &Arc<RunningTask>) {
        {
            let mut waiting = self.waiting();
            // Looked at while nobody else can say how it stood before. Whoever holds the state of a task tells nobody.
            let live = task.is_small().then(|| task.clone());
            if let Some(waiting) = waiting.tasks.iter_mut().find(|waiting| *waiting.id == *task.id()) {
                waiting.live = live;
                return;
            }
            waiting.tasks.push_back(Told { id: task.id().into(), live });
        }
        self.more.notify_one();
    }
}

/// The place of a stream among the readers, given back when dropped.
pub(crate) struct Listening {
    readers: Arc<Readers>,
    number: u64,
    listener: Arc<Listener>,
}

impl Listening {
    pub(super) fn new(readers: Arc<Readers>, number: u64, listener: Arc<Listener>) -> Self {
        Self { readers, number, listener }
    }

    /// Tells the stream of a task from now on, beginning with how it stands.
    pub(crate) fn add_task(&self, task: &Arc<RunningTask>) {
        task.listen(self.listener.clone());
    }

    /// Tells the stream once of a task that has ended.
    pub(crate) fn add_ended(&self, id: &str) {
        self.listener.tell_ended(id);
    }

    /// Sends notices, until the stream breaks. `fetch` knows how a task stands, unless it is no more; where it fails it
    /// is asked again later.
    pub(crate) async fn tell<F: Future<Output = Result<Option<DetailedTask>, RpcError>>>(
        &self,
        stream: &Stream<'_>,
        fetch: impl Fn(Box<str>) -> F,
    ) -> Result<Infallible, TransportError> {
        // Tasks of which it is not known how they stand: none is in it twice.
        let mut late = VecDeque::new();
        let (mut pause, mut again) = (PAUSES.0, Instant::now());
        loop {
            let next = tokio::select! {
                biased;
                () = tokio::time::sleep_until(again), if !late.is_empty() => {
                    // In turn with what waits, so that neither keeps the other from being told.
                    again = Instant::now() + PAUSES.0;
                    late.pop_front().map(|id| Next::Task(Told { id, live: None }))
                }
                next = self.listener.next() => Some(next),
            };
            let task = match next {
                None => continue,
                Some(Next::Change(notice)) => {
                    stream.send(notice.message(Some(stream.id))).await?;
                    continue;
                }
                Some(Next::Task(Told { id, live })) => {
                    late.retain(|late| *late != id);
                    match live {
                        Some(live) => Some(live.detailed()),
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
                stream.tell_task(task).await?;
            }
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.readers.leave(self.number);
    }
}

/// Where the messages of one subscription go.
pub(crate) struct Stream<'a> {
    pub(crate) id: &'a RequestId,
    pub(crate) sink: &'a dyn FrameSender,
}

impl Stream<'_> {
    async fn send(&self, message: Vec<u8>) -> Result<(), TransportError> {
        self.sink.send(Frame::new(message).with_route(Route::Request(self.id.clone()))).await
    }

    async fn notify<N: NotificationMethod>(&self, params: &(impl Serialize + Sync)) -> Result<(), TransportError> {
        // Texts, flags, ids and JSON values: writing those into memory has no way to fail.
        self.send(jsonrpc::notification(N::NAME, params).unwrap_or_default()).await
    }

    /// Says what is honoured, before anything else.
    pub(crate) async fn acknowledge(&self, honoured: SubscriptionFilter) -> Result<(), TransportError> {
        let mut params = SubscriptionsAcknowledgedParams::new(honoured);
        params.meta = Some(subscription_meta(self.id));
        self.notify::<notification::SubscriptionsAcknowledged>(&params).await
    }

    /// How a task stands, with what its status brings along.
    pub(crate) async fn tell_task(&self, mut task: DetailedTask) -> Result<(), TransportError> {
        task.meta = Some(subscription_meta(self.id));
        self.notify::<notification::Task>(&task).await
    }

    /// Says that the subscription ends, where no end of a stream says it (basic/patterns/cancellation).
    pub(crate) async fn tell_end(&self) {
        let params = CancelledParams::new(self.id.clone()).with_reason("the server ends the subscription");
        let _ = self.notify::<notification::Cancelled>(&params).await;
    }

    /// The answer to the request, at the end.
    pub(crate) fn result(&self) -> ListenResult {
        let mut result = ListenResult::new();
        result.meta = Some(subscription_meta(self.id));
        result
    }
}
