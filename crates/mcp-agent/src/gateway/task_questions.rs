//! The questions of tasks of 2025-11-25 for clients of 2026-07-28: a parked request for the result of the task receives them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_protocol::{InputRequests, JsonObject, Meta, Method as _, RpcError, method};
use mcp_server_core::source::{SourceCall, SourceResult};
use parking_lot::Mutex;
use serde_json::{json, value::to_raw_value};
use tokio::{sync::OnceCell, time::timeout};

use super::{
    Core,
    caller::Downstream,
    fault::Fault,
    parked::{Holder, ParkedError, ParkedRound},
    questions::{AskedClient, Asker},
    reach::Reached,
    relay::Relayed,
    tasks::{ServerTask, exchange, invalid, untranslated},
};

/// How long a state waits for the first question of a task, and for a further one.
const FIRST: Duration = Duration::from_secs(5);
const FURTHER: Duration = Duration::from_secs(1);

/// The task of a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct TaskKey {
    pub(super) holder: Holder,
    pub(super) task: ServerTask,
}

impl TaskKey {
    pub(super) fn new(holder: Holder, task: &ServerTask) -> Self {
        // The id of a list can lack the tool.
        Self { holder, task: ServerTask { tool: None, ..task.clone() } }
    }
}

/// The parked requests for the results of tasks that ask.
#[derive(Default)]
pub(super) struct TaskQuestions {
    calls: Mutex<HashMap<TaskKey, Arc<TaskCall>>>,
}

/// The parked request for the result of one task; `None` if the task asks nothing. Requests for its state at the same time park one
/// request, and share its outcome.
type TaskCall = OnceCell<Option<u64>>;

impl TaskQuestions {
    /// Returns the request for the result of a task, which may not be parked yet. `is_open` is whether a parked request has not ended.
    fn call(&self, key: TaskKey, is_open: impl Fn(u64) -> bool) -> Arc<TaskCall> {
        let mut calls = self.calls.lock();
        calls.retain(|_, call| match call.get() {
            Some(parked) => parked.is_some_and(&is_open),
            // The cell belongs to a state that parks the request now.
            None => Arc::strong_count(call) > 1,
        });
        Arc::clone(calls.entry(key).or_default())
    }

    /// Returns the number of the parked request of a task.
    fn parked(&self, key: &TaskKey) -> Option<u64> {
        *self.calls.lock().get(key)?.get()?
    }

    /// Removes the parked request of a task, and returns its number. A request that a state parks now stays.
    fn take(&self, key: &TaskKey) -> Option<u64> {
        let mut calls = self.calls.lock();
        let parked = (*calls.get(key)?.get()?)?;
        calls.remove(key);
        Some(parked)
    }

    /// Removes the request of a task, unless a newer one has its place.
    fn remove(&self, key: &TaskKey, call: &Arc<TaskCall>) {
        let mut calls = self.calls.lock();
        if calls.get(key).is_some_and(|current| Arc::ptr_eq(current, call)) {
            calls.remove(key);
        }
    }
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
        let known = self.task_questions.call(key.clone(), |parked| self.parked.contains(parked));
        let mut asked = None;
        let parked = known
            .get_or_try_init(|| async {
                let started = self.park_task(&key, call, reached, client, meta).await?;
                Ok::<_, Fault>(started.map(|(parked, requests)| {
                    asked = Some(requests);
                    parked
                }))
            })
            .await;
        let parked = match (parked, asked) {
            (Ok(Some(parked)), Some(requests)) => return Ok(self.with_prefix(*parked, requests)),
            (Ok(Some(parked)), None) => *parked,
            (Ok(None), _) => {
                self.task_questions.remove(&key, &known);
                // The next state shows the end of the task, or parks another request.
                return Ok(InputRequests::new());
            }
            (Err(fault), _) => {
                self.task_questions.remove(&key, &known);
                return Err(fault);
            }
        };
        let round = self.parked.next(parked, &key.holder, call.clone());
        match timeout(FURTHER, round).await {
            Ok(Ok(ParkedRound::Asked { requests, .. })) => Ok(self.with_prefix(parked, requests)),
            Err(_) => Ok(InputRequests::new()),
            Ok(_) => {
                // The next state parks another request if the task has not ended.
                self.task_questions.remove(&key, &known);
                Ok(InputRequests::new())
            }
        }
    }

    /// Parks a request for the result of a task. Returns its number and its questions; `None` if it does not ask.
    async fn park_task(
        &self,
        key: &TaskKey,
        call: &SourceCall,
        reached: Reached,
        client: Downstream,
        meta: Meta,
    ) -> Result<Option<(u64, InputRequests)>, Fault> {
        let params = to_raw_value(&json!({ "taskId": key.task.id })).map_err(|error| invalid(&error))?;
        let (pages, process) = (self.pages.clone(), key.task.process.clone());
        let started = self.parked.start(key.holder.clone(), call.clone(), |questions| async move {
            let asker = Asker {
                client: AskedClient::LaterRound(questions),
                server: Arc::clone(&reached.server),
                upstream: reached.client.clone(),
                pages,
                capabilities: Arc::clone(&client.capabilities),
                // The extension has no log records of tasks.
                notices: Weak::new(),
                task: None,
                caller: None,
            };
            let (method, process) = (method::GetTaskPayload::NAME, process.as_ref());
            let result = exchange(&reached, process, method, &params, &client, meta, Some(asker)).await?;
            // The state that contains the result receives the URIs of the gateway.
            Ok(Relayed::Complete { server: Arc::clone(&reached.server), result: untranslated(result) })
        });
        Ok(match timeout(FIRST, started).await {
            Ok(Ok(ParkedRound::Asked { call: parked, requests, .. })) => {
                // A client can stop to request the state, and the server has the result for a later request.
                self.parked.shorten(parked, &key.holder);
                Some((parked, requests))
            }
            _ => None,
        })
    }

    /// Ends the parked request of a task that has ended, and returns its result, with the URIs of the server. `None`: the task needs
    /// another request for its result.
    pub(super) async fn take_task_result(&self, key: &TaskKey, call: &SourceCall) -> Option<SourceResult> {
        let parked = self.task_questions.take(key)?;
        let round = self.parked.resume(parked, &key.holder, 0, JsonObject::new(), call.clone());
        // The state of the task can precede the result.
        let round = timeout(FURTHER, round).await;
        self.parked.end(parked, &key.holder);
        match round {
            Ok(Ok(ParkedRound::Complete(Ok(Relayed::Complete { result, .. })))) => Some(result),
            // An error can have preceded the end of the task.
            _ => None,
        }
    }

    /// Ends the parked request of a task that has ended.
    pub(super) fn end_task_questions(&self, key: &TaskKey) {
        if let Some(parked) = self.task_questions.take(key) {
            self.parked.end(parked, &key.holder);
        }
    }

    /// Sends responses to the questions of a task. Responses to unknown and to answered questions have no effect.
    ///
    /// # Errors
    /// `-32602` for a response of another form. The question stays open.
    pub(super) fn answer_task_questions(&self, key: &TaskKey, responses: JsonObject) -> Result<(), RpcError> {
        let Some(parked) = self.task_questions.parked(key) else { return Ok(()) };
        let prefix = self.prefix(parked);
        for (question, response) in responses {
            let Some(question) = question.strip_prefix(&prefix) else { continue };
            match self.parked.answer(parked, &key.holder, JsonObject::new().with(question, response)) {
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
