//! Questions inside of a task: the answer to the call is out, and the handler stays where it asks.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{InputRequest, RequestId};
use serde_json::{Map, Value, json};

use super::{
    InputError,
    asking::{ATTEMPTS, Asking, again},
};
use crate::{session::Session, tasks::Live};

impl Asking {
    /// Asks where the client looks for the task (the extension), until an answer passes `check`, or three did not.
    pub(super) async fn ask_in_task<T>(
        &self,
        task: &Arc<Live>,
        key: &str,
        request: InputRequest,
        limit: Duration,
        check: impl Fn(&Value) -> Result<(T, Value), InputError>,
    ) -> Result<T, InputError> {
        let mut asking = request.clone();
        for attempt in 1.. {
            let _waiting = self.wait();
            let asked = tokio::time::timeout(limit, task.ask(key, asking.clone()));
            let answer = tokio::select! {
                answer = asked => answer.map_err(|_| InputError::timed_out())??,
                () = self.ended() => return Err(InputError::gone()),
            };
            match check(&answer) {
                Err(error) if error.is_invalid() && attempt < ATTEMPTS => asking = again(&request, &error),
                checked => return checked.map(|(answer, _)| answer),
            }
        }
        Err(InputError::gone())
    }
}

/// Asks the client of a session about a task. The question goes on the stream of a request for the result (2025-11-25
/// tasks), for which HTTP waits; elsewhere there is one stream for everything.
pub(super) async fn ask_about(
    task: &Live,
    session: &Session,
    request: &InputRequest,
    call: &RequestId,
) -> Result<Value, InputError> {
    let stream = if session.id().is_some() { task.next_stream().await } else { task.stream() };
    match stream {
        Some(stream) => session.ask(request, Some(&*stream.sink), &stream.request).await,
        None => session.ask(request, None, call).await,
    }
}

/// The same question, which names the task that it is about.
pub(super) fn related(request: &InputRequest, task: &str) -> InputRequest {
    let mut request = request.clone();
    let params = request.params.get_or_insert_with(|| Value::Object(Map::new()));
    params["_meta"][mcp_protocol::meta::keys::RELATED_TASK] = json!({ "taskId": task });
    request
}
