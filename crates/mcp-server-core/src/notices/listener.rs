//! One `subscriptions/listen` stream: acknowledged first, told of what it asked for, answered when the server ends it.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use mcp_protocol::{
    CancelledParams, ListenResult, NotificationMethod, RequestId, SubscriptionFilter, SubscriptionsAcknowledgedParams,
    jsonrpc, notification, tasks::ext::DetailedTask,
};
use mcp_transport::{Frame, FrameSender, Route, TransportError};
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Filter, LISTS, Notice, Pending, subscription_meta};
use crate::{Server, tasks::Live};

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
    changes: Pending,
    /// Each task once, however often it changed: what is told is how it stands then.
    tasks: VecDeque<Arc<Live>>,
}

enum Next {
    Change(Notice),
    Task(Arc<Live>),
}

impl Listener {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, waiting: Mutex::default(), more: Notify::new() }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task that the stream asked for changed.
    pub(crate) fn tell_task(&self, task: &Arc<Live>) {
        {
            let tasks = &mut self.waiting().tasks;
            if tasks.iter().any(|waiting| Arc::ptr_eq(waiting, task)) {
                return;
            }
            tasks.push_back(task.clone());
        }
        self.more.notify_one();
    }

    pub(super) fn tell(&self, notice: &Notice) {
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
            self.tell(&Notice::Updated(uri.clone()));
        }
    }

    fn try_next(&self) -> Option<Next> {
        let mut waiting = self.waiting();
        let change = waiting.changes.pop().map(Next::Change);
        change.or_else(|| waiting.tasks.pop_front().map(Next::Task))
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

/// The place of a stream among the readers, given back when dropped.
pub(crate) struct Listening {
    server: Server,
    number: u64,
    listener: Arc<Listener>,
}

impl Listening {
    pub(super) fn new(server: Server, (number, listener): (u64, Arc<Listener>)) -> Self {
        Self { server, number, listener }
    }

    /// Tells the stream of a task from now on, beginning with how it stands.
    pub(crate) fn add_task(&self, task: &Arc<Live>) {
        task.listen(&self.listener);
    }

    /// Sends the acknowledgement, the tasks that have ended, then notices, until the stream is to end. False when it broke
    /// before.
    pub(crate) async fn run(
        &self,
        stream: &Stream<'_>,
        honoured: SubscriptionFilter,
        ended: Vec<DetailedTask>,
        ending: &CancellationToken,
    ) -> bool {
        let telling = async {
            let mut params = SubscriptionsAcknowledgedParams::new(honoured);
            params.meta = Some(subscription_meta(stream.id));
            stream.notify::<notification::SubscriptionsAcknowledged>(&params).await?;
            for task in ended {
                stream.tell_task(task).await?;
            }
            loop {
                match self.listener.next().await {
                    Next::Change(notice) => stream.send(notice.message(Some(stream.id))).await?,
                    Next::Task(task) => stream.tell_task(task.detailed()).await?,
                }
            }
        };
        tokio::select! {
            biased;
            broken = telling => {
                let broken: Result<std::convert::Infallible, TransportError> = broken;
                tracing::debug!(?broken, "a subscription broke off");
                false
            }
            () = ending.cancelled() => true,
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.server.inner.publisher.leave(self.number);
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

    /// How a task stands, with what its status brings along.
    async fn tell_task(&self, mut task: DetailedTask) -> Result<(), TransportError> {
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
