//! Input requests of a task in a session: the response to the call is sent, and the handler waits.

use std::sync::Arc;

use mcp_protocol::{ClientCapabilities, InputRequest, RequestId};
use serde_json::{Map, Value, json};

use crate::{
    error::InputError,
    node::Node,
    session::Session,
    tasks::{OfferAnswer, RunningTask},
};

/// Sends an input request of a task (2025-11-25).
///
/// It uses the stream of a waiting `tasks/result` request, of any session of the owner, on any node of a fleet. When that request ends
/// without an answer, the input request is sent again on the next one. HTTP waits for such a stream. On one-stream
/// transports the session of the call is used while it lasts.
pub(super) async fn ask_about(
    task: Arc<RunningTask>,
    session: Arc<Session>,
    call: RequestId,
    needed: ClientCapabilities,
    request: InputRequest,
    node: Option<Arc<Node>>,
) -> Result<Value, InputError> {
    let _asks = task.wait_for_answer();
    loop {
        if task.stream(&needed).is_none() && session.id().is_none() {
            match session.ask(&request, None, &call).await {
                // Another session may have replaced this one, and its client can still request the result.
                Err(error) if error.is_gone() => {}
                answered => return answered,
            }
        }
        let mut offer = task.offer(&request, &needed);
        let answer = tokio::select! {
            biased;
            answer = offer.answered(node.as_deref()) => Some(answer),
            stream = task.next_stream(&needed) => {
                stream.ok_or_else(InputError::gone)?;
                if offer.is_taken() { Some(offer.answered(node.as_deref()).await) } else { None }
            }
        };
        drop(offer);
        match answer {
            Some(OfferAnswer::Answer(answer)) => return Ok(answer),
            Some(OfferAnswer::Refused(error)) => return Err(InputError::refused(error)),
            Some(OfferAnswer::Gone) => continue,
            None => {}
        }
        let (stream, session) = task.next_stream(&needed).await.ok_or_else(InputError::gone)?;
        tokio::select! {
            biased;
            answered = session.ask(&request, Some(&*stream.sink), &stream.request) => match answered {
                Err(error) if error.is_gone() && session.is_closed() => {}
                Err(error) if error.is_gone() => stream.ended().await,
                answered => return answered,
            },
            () = stream.ended() => {}
        }
    }
}

/// Returns the same input request with the id of its task.
pub(super) fn related(request: &InputRequest, task: &str) -> InputRequest {
    let mut request = request.clone();
    let params = request.params.get_or_insert_with(|| Value::Object(Map::new()));
    params["_meta"][mcp_protocol::meta::keys::RELATED_TASK] = json!({ "taskId": task });
    request
}
