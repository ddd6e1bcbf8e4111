//! Requests for the result of a task that wait: on their streams the client can be asked (2025-11-25).

use std::sync::{Arc, Weak};

use mcp_protocol::{ClientCapabilities, RequestId};
use mcp_transport::FrameSender;
use tokio_util::sync::CancellationToken;

use super::running::RunningTask;
use crate::session::Session;

/// The streams of a task that are lent to questions.
#[derive(Default)]
pub(crate) struct ResultWaiters {
    list: Vec<ResultStream>,
    next: u64,
}

/// A request for the result that waits, and can carry questions.
#[derive(Clone)]
pub(crate) struct ResultStream {
    number: u64,
    pub(crate) request: RequestId,
    pub(crate) sink: Arc<dyn FrameSender>,
    /// Whose request it is: what goes on its stream is answered there, and nowhere else.
    session: Weak<Session>,
    ended: CancellationToken,
}

impl ResultStream {
    /// Resolves when the request is over.
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

    /// The newest whose client can be asked for what is needed.
    fn newest(&self, needed: &ClientCapabilities) -> Option<(ResultStream, Arc<Session>)> {
        self.list.iter().rev().find_map(|stream| {
            let session = stream.session.upgrade()?;
            let can = !session.is_closed() && needed.missing_from(session.client_capabilities()).is_none();
            can.then(|| (stream.clone(), session))
        })
    }
}

impl RunningTask {
    /// Lends the stream of a request for the result to questions, until the guard is dropped.
    pub(crate) fn lend(
        &self,
        request: &RequestId,
        session: &Arc<Session>,
        sink: Option<&Arc<dyn FrameSender>>,
    ) -> Option<ResultWaiter<'_>> {
        let sink = sink?.clone();
        let number = self.streams(|streams| streams.add(request, session, sink));
        self.wake();
        Some(ResultWaiter { live: self, number })
    }

    /// The newest stream on which this can be asked, and the session that answers there.
    pub(crate) fn stream(&self, needed: &ClientCapabilities) -> Option<(ResultStream, Arc<Session>)> {
        self.streams(|streams| streams.newest(needed))
    }

    /// The same, and waits for one; `None` when the task ends before.
    pub(crate) async fn next_stream(&self, needed: &ClientCapabilities) -> Option<(ResultStream, Arc<Session>)> {
        self.wait_until(|| self.is_over() || self.stream(needed).is_some()).await;
        self.stream(needed)
    }
}

/// A stream that is lent to questions.
pub(crate) struct ResultWaiter<'a> {
    live: &'a RunningTask,
    number: u64,
}

impl Drop for ResultWaiter<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.live.streams(|streams| streams.remove(self.number)) {
            stream.ended.cancel();
        }
    }
}
