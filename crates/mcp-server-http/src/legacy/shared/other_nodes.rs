//! The work of other nodes: answers to their questions, and the streams of nodes that have stopped.

use std::sync::{Arc, Weak};

use mcp_protocol::{RequestId, RpcError, jsonrpc};
use mcp_server_core::engine::{NodeError, Reply};
use mcp_store::StoreError;

use super::{
    SharedSessions,
    record::{passed_answer, read_answer},
};
use crate::legacy::{
    event_log::batch::{BatchId, BatchWriter, Kind},
    sessions::HttpSession,
};

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
    pub(super) fn receive_answers(self: &Arc<Self>) {
        // The node outlives the endpoint, and the server can have several endpoints.
        self.answers.get_or_init(|| {
            let sessions = Arc::downgrade(self);
            self.store.node.add_handler(ANSWERS, move |body| {
                let sessions = sessions.upgrade();
                async move { sessions.is_some_and(|sessions| sessions.answer_arrived(&body)).then(Vec::new) }
            })
        });
    }

    /// Completes the question of an answer. Returns false if nothing waits for it.
    fn answer_arrived(&self, body: &[u8]) -> bool {
        let Some((session, message)) = read_answer(body) else { return false };
        let Some(http) = self.known.lock().get(session).and_then(Weak::upgrade) else { return false };
        matches!(jsonrpc::Message::parse(message), Ok(jsonrpc::Message::Response(answer)) if http.session.answered(&answer))
    }

    /// Ends the stream of a call whose node has stopped, with an error as the response. One node does it.
    pub(crate) async fn end_stream(
        &self,
        session: &str,
        stream: u64,
        request: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        if !self.store.claim_end(session, stream).await? {
            return Ok(());
        }
        let mut batch = BatchWriter::new(BatchId { writer: 0, number: 0 }, "");
        match request.and_then(|id| serde_json::from_slice::<RequestId>(id).ok()) {
            Some(id) => {
                let data = serde_json::json!({ "reason": "node_unavailable", "retryable": true });
                let error = RpcError::internal("the node of this call has stopped").with_data(data);
                batch.push(Kind::Answer, stream, &Reply::error(Some(&id), &error).payload.into_bytes());
            }
            None => batch.push(Kind::End, stream, b""),
        }
        self.store.append(session, batch.into_bytes().into(), self.ttl()).await?;
        self.store.announce_events(session).await
    }
}
