//! The answers to the questions of other nodes.

use std::sync::Arc;

use mcp_protocol::jsonrpc;
use mcp_server_core::engine::{HandlerGuard, NodeError};

use super::{
    SharedSessions,
    record::{passed_answer, read_passed},
};
use crate::legacy::sessions::HttpSession;

/// The kind of the requests between nodes that pass an answer of a client.
const ANSWERS: &str = "session-answer";

impl SharedSessions {
    /// Passes the answer of a client to the node that asked.
    ///
    /// # Errors
    /// If the node does not acknowledge the answer, or the store fails.
    pub(crate) async fn pass_answer(
        &self,
        http: &HttpSession,
        node: &str,
        response: &jsonrpc::Response<'_>,
    ) -> Result<(), NodeError> {
        let Some(shared) = http.shared() else { return Ok(()) };
        let Some(body) = passed_answer(&shared.digest, response) else { return Ok(()) };
        self.store.node.request(node, ANSWERS, body).await.map(drop)
    }

    /// Receives the answers that other nodes pass to this node.
    pub(super) fn receive_answers(self: &Arc<Self>) -> HandlerGuard {
        let sessions = Arc::downgrade(self);
        self.store.node.add_handler(ANSWERS, move |body| {
            let sessions = sessions.upgrade();
            async move { sessions.is_some_and(|sessions| sessions.answer_arrived(&body)).then(Vec::new) }
        })
    }

    /// Completes the question of an answer. Returns false if nothing waits for it.
    fn answer_arrived(&self, body: &[u8]) -> bool {
        let Some((session, message)) = read_passed(body) else { return false };
        let Some(http) = self.find_known(session) else { return false };
        matches!(jsonrpc::Message::parse(message), Ok(jsonrpc::Message::Response(answer)) if http.session.answered(&answer))
    }
}
