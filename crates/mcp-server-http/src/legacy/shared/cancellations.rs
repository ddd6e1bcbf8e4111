//! The cancellations of requests that another node runs.

use std::{sync::Arc, time::Duration};

use mcp_protocol::RequestId;
use mcp_server_core::engine::{HandlerGuard, NodeError};
use tokio::{task::JoinSet, time::timeout};

use super::SharedSessions;
use crate::legacy::sessions::HttpSession;

/// The kind of the requests between nodes that cancel a request of a client. The node that ran it replies with one byte.
const CANCELLATIONS: &str = "session-cancellation";
/// The longest time for the list of the nodes and their replies.
const REPLIES: Duration = Duration::from_secs(3);

impl SharedSessions {
    /// Cancels a request at the node that runs it. Returns false if a node that may run it does not acknowledge the cancellation.
    /// A request that no node with a lease runs has ended already, or ends with the lease of its node.
    ///
    /// # Errors
    /// If the store fails.
    pub(crate) async fn cancel(&self, http: &HttpSession, request: &RequestId) -> Result<bool, NodeError> {
        let Some(shared) = http.shared() else { return Ok(true) };
        let mut body = format!("{}\n", shared.digest).into_bytes();
        // A string or a number always serializes.
        body.extend(serde_json::to_vec(request).unwrap_or_default());
        timeout(REPLIES, self.cancel_elsewhere(body)).await.unwrap_or(Ok(false))
    }

    async fn cancel_elsewhere(&self, body: Vec<u8>) -> Result<bool, NodeError> {
        let node = &self.store.node;
        let mut asked = JoinSet::new();
        // Another endpoint of this node may run the request.
        for other in node.running().await? {
            let (node, body) = (node.clone(), body.clone());
            asked.spawn(async move { node.request(&other, CANCELLATIONS, body).await });
        }
        let mut is_acknowledged = true;
        while let Some(reply) = asked.join_next().await {
            match reply {
                Ok(Ok(reply)) if reply == [1] => return Ok(true),
                // The node does not run the request, serves no sessions, or has stopped.
                Ok(Ok(_)) => {}
                Ok(Err(error)) if error.is_gone() || error.is_unsupported() => {}
                failed => {
                    tracing::warn!(?failed, "a node does not acknowledge a cancellation");
                    is_acknowledged = false;
                }
            }
        }
        Ok(is_acknowledged)
    }

    /// Receives the cancellations of requests that this node runs.
    pub(super) fn receive_cancellations(self: &Arc<Self>) -> HandlerGuard {
        let sessions = Arc::downgrade(self);
        self.store.node.add_handler(CANCELLATIONS, move |body| {
            let sessions = sessions.upgrade();
            async move { sessions?.cancelled(&body).then(|| vec![1]) }
        })
    }

    /// Cancels a request. Returns false if this node does not run it.
    fn cancelled(&self, body: &[u8]) -> bool {
        let Some(end) = body.iter().position(|byte| *byte == b'\n') else { return false };
        let Ok(session) = std::str::from_utf8(&body[..end]) else { return false };
        let Ok(request) = serde_json::from_slice::<RequestId>(&body[end + 1..]) else { return false };
        let Some(http) = self.find_known(session) else { return false };
        let is_running = http.peer.is_running(&request);
        http.peer.cancel(&request);
        is_running
    }
}
