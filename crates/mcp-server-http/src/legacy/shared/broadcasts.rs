//! The cancellations of requests that another node runs, and the progress of questions that another node asked. They go to all nodes,
//! because they do not name theirs.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{
    RequestId,
    jsonrpc::{self, Notification},
};
use mcp_server_core::engine::{Engine as _, HandlerGuard, NodeError};
use tokio::{task::JoinSet, time::timeout};

use super::{SharedSessions, record::read_passed};
use crate::legacy::sessions::HttpSession;

/// The kind of the requests between nodes that cancel a request of a client. The node that ran it replies with one byte.
const CANCELLATIONS: &str = "session-cancellation";
/// The kind of the requests between nodes that pass the progress of a question. The node that asked replies with one byte.
const PROGRESS: &str = "session-progress";
/// The longest time for the list of the nodes and their replies.
const REPLIES: Duration = Duration::from_secs(3);

/// The result of a message to all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Passed {
    /// The node of the message has it.
    Taken,
    /// No node with a lease is that of the message.
    Unknown,
    /// A node that may be that of the message does not acknowledge it.
    Unacknowledged,
}

impl SharedSessions {
    /// Cancels a request at the node that runs it. A request that no node with a lease runs has ended already, or ends with the lease
    /// of its node.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn cancel(&self, http: &HttpSession, request: &RequestId) -> Result<Passed, NodeError> {
        // A string or a number always serializes.
        let request = serde_json::to_vec(request).unwrap_or_default();
        self.ask_all(http, CANCELLATIONS, &request).await
    }

    /// Passes the progress of a question to the application of the node that asked. Without such a node, the application of this node
    /// receives it.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn progress(
        &self,
        http: &HttpSession,
        notification: &Notification<'_>,
    ) -> Result<Passed, NodeError> {
        // The message was JSON before.
        let message = jsonrpc::notification(&notification.method, &notification.params).unwrap_or_default();
        let passed = self.ask_all(http, PROGRESS, &message).await?;
        if passed == Passed::Unknown {
            self.server.notified(Some(&http.session), &http.peer, notification);
        }
        Ok(passed)
    }

    async fn ask_all(&self, http: &HttpSession, kind: &'static str, message: &[u8]) -> Result<Passed, NodeError> {
        let Some(shared) = http.shared() else { return Ok(Passed::Unknown) };
        let body = [shared.digest.as_bytes(), b"\n", message].concat();
        timeout(REPLIES, self.ask_each(kind, body)).await.unwrap_or(Ok(Passed::Unacknowledged))
    }

    async fn ask_each(&self, kind: &'static str, body: Vec<u8>) -> Result<Passed, NodeError> {
        let node = &self.store.node;
        let mut asked = JoinSet::new();
        // Another endpoint of this node may have the request or the question.
        for other in node.running().await? {
            let (node, body) = (node.clone(), body.clone());
            asked.spawn(async move { node.request(&other, kind, body).await });
        }
        let mut passed = Passed::Unknown;
        while let Some(reply) = asked.join_next().await {
            match reply {
                Ok(Ok(reply)) if reply == [1] => return Ok(Passed::Taken),
                // The node is another one, serves no sessions, or has stopped.
                Ok(Ok(_)) => {}
                Ok(Err(error)) if error.is_gone() || error.is_unsupported() => {}
                failed => {
                    tracing::warn!(?failed, kind, "a node does not acknowledge a message of a client");
                    passed = Passed::Unacknowledged;
                }
            }
        }
        Ok(passed)
    }

    /// Receives the cancellations of requests that this node runs.
    pub(super) fn receive_cancellations(self: &Arc<Self>) -> HandlerGuard {
        let sessions = Arc::downgrade(self);
        self.store.node.add_handler(CANCELLATIONS, move |body| {
            let sessions = sessions.upgrade();
            async move { sessions?.cancelled(&body).then(|| vec![1]) }
        })
    }

    /// Receives the progress of the questions that this node asked.
    pub(super) fn receive_progress(self: &Arc<Self>) -> HandlerGuard {
        let sessions = Arc::downgrade(self);
        self.store.node.add_handler(PROGRESS, move |body| {
            let sessions = sessions.upgrade();
            async move { sessions?.progress_arrived(&body).then(|| vec![1]) }
        })
    }

    /// Passes progress to the application. Returns false if this node did not ask the question.
    fn progress_arrived(&self, body: &[u8]) -> bool {
        let Some((session, message)) = read_passed(body) else { return false };
        let Some(http) = self.find_known(session) else { return false };
        let Ok(jsonrpc::Message::Notification(notification)) = jsonrpc::Message::parse(message) else { return false };
        let is_mine = !self.server.is_progress_elsewhere(&http.session, &notification);
        if is_mine {
            self.server.notified(Some(&http.session), &http.peer, &notification);
        }
        is_mine
    }

    /// Cancels a request. Returns false if this node does not run it.
    fn cancelled(&self, body: &[u8]) -> bool {
        let Some((session, request)) = read_passed(body) else { return false };
        let Ok(request) = serde_json::from_slice::<RequestId>(request) else { return false };
        let Some(http) = self.find_known(session) else { return false };
        let is_running = http.peer.is_running(&request);
        http.peer.cancel(&request);
        is_running
    }
}
