//! The `tasks/result` requests that wait for a task. The server sends input requests on their streams (2025-11-25).

use std::sync::{Arc, Weak};

use mcp_protocol::{ClientCapabilities, RequestId};
use mcp_transport::FrameSender;
use tokio_util::sync::CancellationToken;

use super::{offers::Offers, running::RunningTask};
use crate::session::Session;

/// The waiting `tasks/result` requests of a task.
#[derive(Default)]
pub(crate) struct ResultWaiters {
    list: Vec<ResultStream>,
    next: u64,
    /// The input requests for requests that wait on other nodes.
    pub(super) offers: Offers,
}

/// A waiting `tasks/result` request.
#[derive(Clone)]
pub(crate) struct ResultStream {
    number: u64,
    pub(crate) request: RequestId,
    pub(crate) sink: Arc<dyn FrameSender>,
    /// The session of the request. Only its client answers input requests on this stream.
    session: Weak<Session>,
    ended: CancellationToken,
}

impl ResultStream {
    /// Waits until the request is over.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl ResultWaiters {
    fn add(&mut self, request: &RequestId, session: &Arc<Session>, sink: Arc<dyn FrameSender>) -> u64 {
        let number = self.next;
        self.next += 1;
        let session = Arc::downgrade(session);
        let stream = ResultStream { number, request: request.clone(), sink, session, ended: CancellationToken::new() };
        self.list.push(stream);
        number
    }

    fn remove(&mut self, number: u64) -> Option<ResultStream> {
        let at = self.list.iter().position(|stream| stream.number == number)?;
        Some(self.list.remove(at))
    }

    /// Returns the newest stream whose client has the needed capabilities.
    fn newest(&self, needed: &ClientCapabilities) -> Option<(ResultStream, Arc<Session>)> {
        self.list.iter().rev().find_map(|stream| {
            let session = stream.session.upgrade()?;
            let can = !session.is_closed() && needed.missing_from(session.client_capabilities()).is_none();
            can.then(|| (stream.clone(), session))
        })
    }
}

impl RunningTask {
    /// Adds a `tasks/result` request until the guard is dropped.
    pub(crate) fn add_result_waiter(
        &self,
        request: &RequestId,
        session: &Arc<Session>,
        sink: Option<&Arc<dyn FrameSender>>,
    ) -> Option<ResultWaiter<'_>> {
        let sink = sink?.clone();
        let number = self.streams(|streams| streams.add(request, session, sink));
        self.wake();
        Some(ResultWaiter { running_task: self, number })
    }

    /// Returns the newest stream for an input request, and its session.
    pub(crate) fn stream(&self, needed: &ClientCapabilities) -> Option<(ResultStream, Arc<Session>)> {
        self.streams(|streams| streams.newest(needed))
    }

    /// Waits for a stream for an input request; `None` when the task ends first.
    pub(crate) async fn next_stream(&self, needed: &ClientCapabilities) -> Option<(ResultStream, Arc<Session>)> {
        self.wait_until(|| self.is_over() || self.stream(needed).is_some()).await;
        self.stream(needed)
    }
}

/// Removes its `tasks/result` request when dropped.
pub(crate) struct ResultWaiter<'a> {
    running_task: &'a RunningTask,
    number: u64,
}

impl Drop for ResultWaiter<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.running_task.streams(|streams| streams.remove(self.number)) {
            stream.ended.cancel();
        }
    }
}
