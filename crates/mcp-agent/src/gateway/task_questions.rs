//! The questions of tasks of 2025-11-25 for clients of 2026-07-28: a parked request for the result of the task receives them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_protocol::{InputRequests, JsonObject, Meta, Method as _, RpcError, method};
use mcp_server_core::source::SourceCall;
use parking_lot::Mutex;
use serde_json::{json, value::to_raw_value};
use tokio::{sync::mpsc, time::timeout};

use super::{
    Core,
    caller::{Downstream, of_input_requests},
    fault::Fault,
    parked::{ParkedError, ParkedRound},
    questions::{AskedClient, Asker},
    reach::Reached,
    relay::{Relayed, of_client},
    tasks::{ServerTask, exchange, invalid},
};

/// How long a state waits for the first question of a task, and for a further one.
const FIRST: Duration = Duration::from_secs(5);
const FURTHER: Duration = Duration::from_secs(1);

/// The task of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TaskKey {
    pub(super) principal: Option<Arc<str>>,
    pub(super) task: ServerTask,
}

/// The parked requests for the results of tasks that ask.
#[derive(Default)]
pub(super) struct TaskQuestions {
    calls: Mutex<HashMap<TaskKey, u64>>,
}

impl Core {
    /// Returns the open questions of a task whose state is `input_required`. The first time, it parks a request for the result. No
    /// question is open while the server works with the answers.
    pub(super) async fn task_questions(
        &self,
        key: TaskKey,
        call: &SourceCall,
        reached: Reached,
        client: Downstream,
        meta: Meta,
    ) -> Result<InputRequests, Fault> {
        let known = self.task_questions.calls.lock().get(&key).copied();
        if let Some(parked) = known {
            let round = self.parked.resume(parked, 0, JsonObject::new(), call.clone());
            match timeout(FURTHER, round).await {
                Ok(Ok(ParkedRound::Asked { requests, .. })) => return Ok(self.with_prefix(parked, requests)),
                Err(_) => return Ok(InputRequests::new()),
                Ok(round) => {
                    self.task_questions.calls.lock().remove(&key);
                    if round.is_ok() {
                        return Ok(InputRequests::new());
                    }
                }
            }
        }
        let params = to_raw_value(&json!({ "taskId": key.task.id })).map_err(|error| invalid(&error))?;
        let (names, pages) = (self.names, self.pages.clone());
        let started = self.parked.start(key.principal.clone(), call.clone(), |questions| async move {
            let (notices, _) = mpsc::channel(1);
            let asker = Asker {
                client: AskedClient::LaterRound(questions),
                server: Arc::clone(&reached.server),
                upstream: reached.client.clone(),
                pages,
                capabilities: of_input_requests(&client.capabilities),
                notices,
                task: None,
            };
            let result = exchange(&reached, method::GetTaskPayload::NAME, &params, &client, meta, Some(asker)).await?;
            let (server, version) = (Arc::clone(&reached.server), result.version());
            let result = of_client(names, method::CallTool::NAME, &server, result.into_bytes(), version)?;
            Ok(Relayed::Complete { server, result })
        });
        match timeout(FIRST, started).await {
            Ok(Ok(ParkedRound::Asked { call: parked, requests, .. })) => {
                let mut calls = self.task_questions.calls.lock();
                calls.retain(|_, parked| self.parked.contains(*parked));
                calls.insert(key, parked);
                drop(calls);
                Ok(self.with_prefix(parked, requests))
            }
            // The next state shows the end of the task.
            _ => Ok(InputRequests::new()),
        }
    }

    /// Sends responses to the questions of a task. Responses to unknown and to answered questions have no effect.
    ///
    /// # Errors
    /// `-32602` for a response of another form. The question stays open.
    pub(super) fn answer_task_questions(&self, key: &TaskKey, responses: JsonObject) -> Result<(), RpcError> {
        let Some(parked) = self.task_questions.calls.lock().get(key).copied() else { return Ok(()) };
        let prefix = self.prefix(parked);
        for (question, response) in responses.0 {
            let Some(question) = question.strip_prefix(&prefix) else { continue };
            match self.parked.answer(parked, JsonObject::new().with(question, response)) {
                Err(error @ ParkedError::Invalid { .. }) => return Err(RpcError::invalid_params(error.to_string())),
                Ok(()) | Err(ParkedError::Gone | ParkedError::Dropped | ParkedError::Answered { .. }) => {}
            }
        }
        Ok(())
    }

    /// Keys of questions are unique for the life of a task, also if its request for the result is parked again.
    fn prefix(&self, parked: u64) -> String {
        format!("{}.{parked}.", self.hop.as_str())
    }

    fn with_prefix(&self, parked: u64, requests: InputRequests) -> InputRequests {
        let prefix = self.prefix(parked);
        requests.0.into_iter().map(|(key, request)| (format!("{prefix}{key}"), request)).collect()
    }
}
