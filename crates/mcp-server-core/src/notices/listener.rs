//! One `subscriptions/listen` stream: acknowledged first, told of what it asked for, answered when the server ends it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcp_protocol::{
    CancelledParams, ListenResult, NotificationMethod, RequestId, SubscriptionFilter, SubscriptionsAcknowledgedParams,
    jsonrpc, notification,
};
use mcp_transport::{Frame, FrameSender, Route, TransportError};
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Filter, LISTS, Notice, Pending, subscription_meta};
use crate::Server;

/// A stream of notices as the publisher sees it.
#[derive(Debug)]
pub(crate) struct Listener {
    filter: Filter,
    pending: Mutex<Pending>,
    more: Notify,
}

impl Listener {
    pub(super) fn new(filter: Filter) -> Self {
        Self { filter, pending: Mutex::default(), more: Notify::new() }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn tell(&self, notice: &Notice) {
        if self.filter.wants(notice) {
            self.pending().insert(notice.clone());
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

    async fn next(&self) -> Notice {
        loop {
            let notice = self.pending().pop();
            match notice {
                Some(notice) => return notice,
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

    /// Sends the acknowledgement, then notices, until the stream is to end. False when it broke before.
    pub(crate) async fn run(
        &self,
        stream: &Stream<'_>,
        honoured: SubscriptionFilter,
        ending: &CancellationToken,
    ) -> bool {
        let telling = async {
            let mut params = SubscriptionsAcknowledgedParams::new(honoured);
            params.meta = Some(subscription_meta(stream.id));
            stream.notify::<notification::SubscriptionsAcknowledged>(&params).await?;
            loop {
                let notice = self.listener.next().await;
                stream.send(notice.message(Some(stream.id))).await?;
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
        // Texts, flags and ids: writing those into memory has no way to fail.
        self.send(jsonrpc::notification(N::NAME, params).unwrap_or_default()).await
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
