//! Questions inside of a task of a session: the answer to the call is out, and the handler stays where it asks.

use std::sync::Arc;

use mcp_protocol::{ClientCapabilities, InputRequest, RequestId};
use serde_json::{Map, Value, json};

use crate::{error::InputError, session::Session, tasks::RunningTask};

/// Asks about a task of a session (2025-11-25). The question goes on the stream of a request for the result, whichever
/// session that belongs to, and is asked again on the next one when that ends without an answer. HTTP waits for such a
/// stream; elsewhere the session of the call has one for everything, as long as it lasts.
pub(super) async fn ask_about(
    task: Arc<RunningTask>,
    session: Arc<Session>,
    call: RequestId,
    needed: ClientCapabilities,
    request: InputRequest,
) -> Result<Value, InputError> {
    let _asks = task.wait_for_answer();
    loop {
        if task.stream(&needed).is_none() && session.id().is_none() {
            match session.ask(&request, None, &call).await {
                // Another session may have taken its place, whose client can still ask for the result.
                Err(error) if error.is_gone() => {}
                answered => return answered,
            }
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

/// The same question, which names the task that it is about.
pub(super) fn related(request: &InputRequest, task: &str) -> InputRequest {
    let mut request = request.clone();
    let params = request.params.get_or_insert_with(|| Value::Object(Map::new()));
    params["_meta"][mcp_protocol::meta::keys::RELATED_TASK] = json!({ "taskId": task });
    request
}
