//! Sends input requests, and checks their answers.

use std::{future::Future, sync::Arc, time::Duration};

use mcp_protocol::{ClientCapabilities, InputRequest};
use serde_json::{Value, json};

use super::{Delivery, InputCollector};
use crate::{
    error::InputError,
    inputs::{once, task},
    tasks::RunningTask,
};

/// The most invalid answers to one input request.
const ATTEMPTS: u8 = 3;

impl InputCollector {
    /// Sends an input request until an answer passes `check`, three times at most.
    pub(crate) async fn ask<T>(
        &self,
        key: &str,
        needed: &ClientCapabilities,
        request: InputRequest,
        limit: Duration,
        check: impl Fn(&Value) -> Result<(T, Value), InputError>,
    ) -> Result<T, InputError> {
        if once::is_inside(self) {
            return Err(InputError::misuse(format!(
                "`{key}` is an input request inside of a side effect that runs once"
            )));
        }
        if !self.state().used.insert(key.to_owned()) {
            return Err(InputError::misuse(format!("the key `{key}` is used twice in one call")));
        }
        if self.ended.is_cancelled() {
            return Err(InputError::gone());
        }
        match &self.delivery {
            Delivery::Rounds { .. } => {
                let request = match self.answered(key, &check)? {
                    Earlier::Answer(answer) => return Ok(answer),
                    Earlier::Invalid(error) => with_error(&request, &error),
                    Earlier::Nothing => request,
                };
                let task = self.wait_for_next_round(key, &request).await?;
                let ask = async |request| task.ask(key, request).await;
                self.attempts(request, limit, check, ask).await
            }
            Delivery::Session { session, sink, request_id } => match self.task.get() {
                None => {
                    let ask = async |request| session.ask(&request, sink.as_deref(), request_id).await;
                    self.attempts(request, limit, check, ask).await
                }
                Some(task) => {
                    let request = task::related(&request, task.id());
                    let ask = |request| {
                        let node = self.services.node.clone();
                        task::ask_about(
                            task.clone(),
                            session.clone(),
                            request_id.clone(),
                            needed.clone(),
                            request,
                            node,
                        )
                    };
                    self.attempts(request, limit, check, ask).await
                }
            },
        }
    }

    /// Sends an input request until an answer passes `check`, three times at most. The waiting time does not count
    /// towards the time limit of the handler.
    async fn attempts<T, F: Future<Output = Result<Value, InputError>>>(
        &self,
        request: InputRequest,
        limit: Duration,
        check: impl Fn(&Value) -> Result<(T, Value), InputError>,
        ask: impl Fn(InputRequest) -> F,
    ) -> Result<T, InputError> {
        let mut next = request.clone();
        for attempt in 1.. {
            let _waiting = self.wait();
            let answer = tokio::select! {
                biased;
                () = self.ended.cancelled() => return Err(InputError::gone()),
                answer = tokio::time::timeout(limit, ask(next)) => answer.map_err(|_| InputError::timed_out())??,
            };
            match check(&answer) {
                Err(error) if error.is_invalid() && attempt < ATTEMPTS => next = with_error(&request, &error),
                checked => return checked.map(|(answer, _)| answer),
            }
        }
        Err(InputError::gone())
    }

    /// Returns a valid answer of this round or an earlier one.
    fn answered<T>(
        &self,
        key: &str,
        check: impl Fn(&Value) -> Result<(T, Value), InputError>,
    ) -> Result<Earlier<T>, InputError> {
        let mut state = self.state();
        if let Some(earlier) = state.flow.answers.get(key) {
            return check(earlier).map(|(answer, _)| Earlier::Answer(answer));
        }
        if state.flow.failures.get(key).is_some_and(|failures| *failures >= ATTEMPTS) {
            return Err(InputError::invalid("too many invalid answers"));
        }
        // An answer counts only if the sealed state proves that the user was asked.
        if !self.services.accepts_unsolicited && !state.flow.asked.contains(key) {
            return Ok(Earlier::Nothing);
        }
        let Some(answer) = state.responses.remove(key) else { return Ok(Earlier::Nothing) };
        match check(&answer) {
            Err(error) if error.is_invalid() => {
                let failures = state.flow.failures.entry(key.to_owned()).or_default();
                *failures = failures.saturating_add(1);
                if *failures >= ATTEMPTS { Err(error) } else { Ok(Earlier::Invalid(error)) }
            }
            Err(error) => {
                // A refusal is an answer too: the flow keeps its action, and the user is not asked again.
                let action = if error.is_declined() { "decline" } else { "cancel" };
                state.flow.answers.insert(key.to_owned(), json!({ "action": action }));
                Err(error)
            }
            Ok((answer, kept)) => {
                state.flow.answers.insert(key.to_owned(), kept);
                Ok(Earlier::Answer(answer))
            }
        }
    }

    /// Opens an input request and waits. The run of the handler ends here, unless the call becomes a task.
    async fn wait_for_next_round(&self, key: &str, request: &InputRequest) -> Result<&Arc<RunningTask>, InputError> {
        let driver = {
            let mut state = self.state();
            // Checked under the lock, because becoming a task clears the open requests.
            if let Some(task) = self.task.get() {
                return Ok(task);
            }
            state.open.insert(key.to_owned(), request.clone());
            state.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        loop {
            let woken = self.changed.notified();
            if let Some(task) = self.task.get() {
                return Ok(task);
            }
            // The driver drops the handler here. A task that the handler spawned gets an error when the round is over.
            tokio::select! {
                biased;
                () = self.ended.cancelled() => return Err(InputError::gone()),
                () = woken => {}
            }
        }
    }
}

/// The answer of this round or an earlier one to an input request.
enum Earlier<T> {
    Answer(T),
    /// An invalid answer, with attempts left.
    Invalid(InputError),
    Nothing,
}

/// Returns the same input request with the error of the last answer in its message.
fn with_error(request: &InputRequest, error: &InputError) -> InputRequest {
    let mut request = request.clone();
    if let (Some(Value::String(message)), Some(problem)) =
        (request.params.as_mut().and_then(|params| params.get_mut("message")), error.problem())
    {
        let problem: String = problem.chars().take(ERROR_CHARS).collect();
        message.push_str(&format!("\n\nThe last answer did not fit: {problem}"));
    }
    request
}

/// The most characters of an error that the message includes.
const ERROR_CHARS: usize = 500;
