//! The messages of a client that belong to other nodes of a fleet: answers to their questions, progress of these questions, and
//! cancellations of their requests.

use std::sync::Arc;

use http::Response;
use mcp_protocol::{
    CancelledParams, NotificationMethod as _, RequestId, RpcError,
    jsonrpc::{self, Message, Notification},
    notification,
};
use mcp_server_core::engine::{NodeError, Session};
use serde_json::{json, value::RawValue};

use super::{
    sessions::HttpSession,
    shared::{Passed, SharedSessions},
};
use crate::answer::{body::Body, respond};

/// Returns the request that a cancellation names, if this node does not run it.
pub(super) fn cancelled_request(http: &HttpSession, notification: &Notification<'_>) -> Option<RequestId> {
    if notification.method != notification::Cancelled::NAME {
        return None;
    }
    let params: CancelledParams = jsonrpc::decode_params(&notification.method, notification.params).ok()?;
    params.request_id.filter(|id| !http.peer.is_running(id))
}

/// Passes the cancellation of a request to the node that runs it.
///
/// # Errors
/// The response if a node that may run the request does not acknowledge the cancellation, or the store fails.
pub(super) async fn pass_cancellation(
    shared: &SharedSessions,
    http: &HttpSession,
    request: RequestId,
) -> Result<(), Response<Body>> {
    acknowledged(shared.cancel(http, &request).await, "the node of the request did not acknowledge the cancellation")
}

/// Passes the progress of a question to the node that asked.
///
/// # Errors
/// The response if a node that may have asked does not acknowledge the progress, or the store fails.
pub(super) async fn pass_progress(
    shared: &SharedSessions,
    http: &HttpSession,
    notification: &Notification<'_>,
) -> Result<(), Response<Body>> {
    acknowledged(shared.progress(http, notification).await, "the node of the question did not acknowledge the progress")
}

fn acknowledged(passed: Result<Passed, NodeError>, text: &'static str) -> Result<(), Response<Body>> {
    match passed {
        Ok(Passed::Taken | Passed::Unknown) => Ok(()),
        Ok(Passed::Unacknowledged) => {
            let data = json!({ "reason": "node_unavailable", "retryable": true });
            Err(respond::unavailable(None, &RpcError::internal(text).with_data(data)))
        }
        Err(error) => Err(respond::unavailable(None, &error.to_rpc())),
    }
}

/// Passes a response of the client to the node that asked. Also accepts a response that is too late.
///
/// # Errors
/// The response if the node does not acknowledge the answer, or the store fails.
pub(super) async fn pass_answer(
    shared: &SharedSessions,
    http: &HttpSession,
    node: &str,
    response: &jsonrpc::Response<'_>,
) -> Result<(), Response<Body>> {
    match shared.pass_answer(http, node, response).await {
        // The question ended with its node, so the answer is too late.
        Err(error) if !error.is_gone() => {
            tracing::warn!(%error, "the answer of a client does not reach the node that asked");
            Err(respond::unavailable(None, &error.to_rpc()))
        }
        _ => Ok(()),
    }
}

/// Passes the responses, progress and cancellations of a batch, until one of them fails.
///
/// # Errors
/// The response to the batch.
pub(super) async fn pass_all(
    shared: &Arc<SharedSessions>,
    http: &HttpSession,
    messages: &[Box<RawValue>],
) -> Result<(), Response<Body>> {
    for message in messages {
        // The messages were valid before.
        match Message::parse(message.get().as_bytes()) {
            Ok(Message::Response(response)) => {
                if let Some(node) = response.id.as_ref().and_then(Session::node_of_question) {
                    pass_answer(shared, http, node, &response).await?;
                }
            }
            Ok(Message::Notification(notification)) => {
                if let Some(request) = cancelled_request(http, &notification) {
                    pass_cancellation(shared, http, request).await?;
                } else if notification.method == notification::Progress::NAME {
                    pass_progress(shared, http, &notification).await?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
