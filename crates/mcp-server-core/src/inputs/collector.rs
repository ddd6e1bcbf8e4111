//! One request's questions: where answers come from in this era, and what is asked but not answered yet.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::{Future, poll_fn},
    sync::{Arc, OnceLock},
    task::{Poll, Waker},
    time::Duration,
};

use mcp_protocol::{
    ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, JsonObject, Principal, RequestId, RpcError,
    jsonrpc::{Request, decode_params},
};
use mcp_transport::FrameSender;
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    InputLimits, StateKeys, once,
    seal::{self, Flow, Kept},
    task,
};
use crate::{
    Session,
    error::{InputError, ToolError},
    session::Client,
    store::RecordStore,
    tasks::RunningTask,
    trace::Bridge,
};

/// So many answers that do not fit end the question.
const ATTEMPTS: u8 = 3;
/// The most bytes that one flow may come to, in the store as well.
const STATE_CAP: usize = 256 << 10;

/// The parts of a server that input requests need.
pub(crate) struct InputServices {
    pub(crate) limits: InputLimits,
    pub(crate) keys: StateKeys,
    pub(crate) records: RecordStore,
    pub(crate) bridge: Option<Bridge>,
}

/// The client of a call and the stream of its request.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) client: &'a Client,
    pub(crate) principal: Option<&'a Principal>,
    pub(crate) sink: Option<&'a Arc<dyn FrameSender>>,
    pub(crate) cancel: &'a CancellationToken,
}

/// Where the questions of one request go.
pub(crate) struct InputCollector {
    services: Arc<InputServices>,
    way: Way,
    /// The task that the call has become.
    task: OnceLock<Arc<RunningTask>>,
    state: Mutex<State>,
    /// Fires when the call is over, or was dropped: who asks then is told so.
    over: CancellationToken,
    /// Told when the handler no longer waits for answers, when an effect is over, and when the call becomes a task.
    woken: Notify,
}

enum Way {
    /// Into the result; the answers come with the next round (2026-07-28).
    Rounds {
        /// What the state of the flow is bound to.
        binding: Vec<u8>,
    },
    /// To the client at once, as requests of the server's own.
    Session { session: Arc<Session>, sink: Option<Arc<dyn FrameSender>>, request_id: RequestId },
}

#[derive(Default)]
struct State {
    flow: Flow,
    /// The name under which the store has the flow, until it is fetched.
    kept: Option<String>,
    /// Answers that came with this round and were not looked at yet.
    fresh: JsonObject,
    /// Asked in this round, and not answered.
    open: BTreeMap<String, InputRequest>,
    /// Keys that this run of the handler used.
    used: HashSet<String>,
    /// How many side effects run that happen once: the run of the handler does not end before they do.
    effects: usize,
    /// Side effects of this run of the handler that are not done.
    claims: HashMap<String, Claimed>,
    /// What the handler was ended for.
    asked: Option<InputRequests>,
    /// Wakes whoever drives the handler, so that it sees what is open.
    driver: Option<Waker>,
    /// How long the handler has waited for answers, so that its time limit does not count that.
    waiting: usize,
    waiting_since: Option<Instant>,
    waited: Duration,
}

impl InputCollector {
    /// # Errors
    /// `-32602` when what came of an earlier round cannot be read or does not belong to this request.
    pub(crate) fn new(
        services: &Arc<InputServices>,
        request: &Request<'_>,
        origin: Origin<'_>,
    ) -> Result<Self, RpcError> {
        let mut state = State::default();
        let way = match origin.client {
            Client::Session(session) => {
                Way::Session { session: session.clone(), sink: origin.sink.cloned(), request_id: request.id.clone() }
            }
            Client::Request(_) => {
                let round: Round = decode_params(&request.method, request.params)?;
                // What cannot be read as a value cannot be bound to either: `1e400` passes where it is skipped.
                let params = decode_params::<Value>(&request.method, request.params)?;
                let principal = origin.principal.map(Principal::key);
                let binding = seal::binding(principal.as_deref(), &request.method, params)
                    .map_err(|_| RpcError::invalid_params("the parameters cannot be read"))?;
                state.fresh = round.input_responses.unwrap_or_default();
                match round.request_state.map(|text| services.keys.open(&text, &binding, seal_limit(&services.limits)))
                {
                    None => state.flow.id = Uuid::new_v4().simple().to_string(),
                    Some(Some(Kept::Inline(flow))) => state.flow = flow,
                    Some(Some(Kept::Handle(name))) => state.kept = Some(name),
                    Some(None) => return Err(stale()),
                }
                Way::Rounds { binding }
            }
        };
        Ok(Self {
            services: services.clone(),
            way,
            task: OnceLock::new(),
            state: Mutex::new(state),
            over: origin.cancel.child_token(),
            woken: Notify::new(),
        })
    }

    /// The call has become a task: its handler is not ended for questions any more, and what it asked meanwhile is asked
    /// in the task.
    pub(crate) fn become_task(&self, task: &Arc<RunningTask>) {
        {
            let mut state = self.state();
            let _ = self.task.set(task.clone());
            state.open.clear();
        }
        self.woken.notify_waiters();
    }

    pub(crate) fn services(&self) -> &Arc<InputServices> {
        &self.services
    }

    /// Fetches what an earlier round left in the store.
    ///
    /// # Errors
    /// `-32602` when it is not there any more.
    pub(crate) async fn resume(&self) -> Result<(), RpcError> {
        let Some(name) = self.state().kept.take() else { return Ok(()) };
        let kept = self.services.records.get(&name).await.map_err(|error| {
            tracing::error!(%error, "the state of a call cannot be fetched");
            RpcError::internal("the state of the call cannot be fetched")
        })?;
        let flow = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(stale)?;
        self.state().flow = flow;
        Ok(())
    }

    /// Drives a handler until it is done or has asked. What it then returns does not count: see [`InputCollector::take_asked`].
    pub(crate) async fn drive<T>(&self, handler: impl Future<Output = Result<T, ToolError>>) -> Result<T, ToolError> {
        let mut handler = std::pin::pin!(handler);
        poll_fn(|cx| match handler.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending if self.is_asked(cx.waker()) => Poll::Ready(Err(ToolError::not_found())),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Whether a question is open, on which the handler ends. Otherwise the waker learns of the next one. An effect that
    /// happens once is never broken off for a question.
    fn is_asked(&self, driver: &Waker) -> bool {
        let mut state = self.state();
        if state.open.is_empty() || state.effects > 0 {
            state.driver = Some(driver.clone());
            return false;
        }
        state.asked = Some(std::mem::take(&mut state.open).into_iter().collect());
        true
    }

    /// The questions on which the handler ended.
    pub(crate) fn take_asked(&self) -> Option<InputRequests> {
        self.state().asked.take()
    }

    /// The result that asks them.
    ///
    /// # Errors
    /// `-32603` when the state cannot be sealed or kept.
    pub(crate) async fn result(&self, requests: InputRequests) -> Result<InputRequiredResult, RpcError> {
        let Way::Rounds { binding } = &self.way else { return Err(RpcError::internal("a session has no rounds")) };
        let limits = &self.services.limits;
        let flow = self.state().flow.clone();
        let written = serde_json::to_vec(&flow).map_err(|_| RpcError::internal("the state cannot be written"))?;
        if written.len() > STATE_CAP.max(limits.state_bytes) {
            return Err(RpcError::invalid_params("the answers so far are too large to go on"));
        }
        let state = if written.len() <= limits.state_bytes {
            Kept::Inline(flow)
        } else {
            // The same round kept twice takes the room of one.
            let round = flow.answers.len() + flow.remembered.len() + flow.done.len() + flow.failures.len();
            let name = format!("mcp/state/{}/{round}", flow.id);
            self.services.records.put(&name, written.into(), Some(limits.state)).await.map_err(|error| {
                tracing::error!(%error, "the state of a call cannot be kept");
                RpcError::internal("the state of the call cannot be kept")
            })?;
            Kept::Handle(name)
        };
        let mut result = InputRequiredResult::new(requests);
        let sealed = self.services.keys.seal(&state, limits.state, binding);
        result.request_state = Some(sealed.ok_or_else(no_random_numbers)?);
        Ok(result)
    }

    /// Lets a future take `limit`, not counting the time that it waits for answers. `None` when it took longer.
    pub(crate) async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        let start = Instant::now();
        loop {
            let woken = self.woken.notified();
            let (waited, is_waiting) = self.waited();
            // A limit beyond the end of time is none.
            let deadline = start.checked_add(limit).and_then(|end| end.checked_add(waited));
            let Some(deadline) = deadline else { return Some(future.await) };
            if is_waiting {
                // The clock stands still. What is waited for has a limit of its own.
                tokio::select! {
                    biased;
                    output = future.as_mut() => return Some(output),
                    () = woken => {}
                }
            } else if let Ok(output) = tokio::time::timeout_at(deadline, future.as_mut()).await {
                return Some(output);
            } else if self.waited() == (waited, false) {
                return None;
            }
        }
    }

    /// How long the handler has waited for answers so far, and whether it waits now.
    fn waited(&self) -> (Duration, bool) {
        let state = self.state();
        let now = state.waiting_since.map_or(Duration::ZERO, |since| since.elapsed());
        (state.waited + now, state.waiting > 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(super) fn flow_id(&self) -> Option<String> {
        Some(self.state().flow.id.clone()).filter(|id| !id.is_empty())
    }

    pub(crate) fn remembered(&self, key: &str) -> Option<Value> {
        self.state().flow.remembered.get(key).cloned()
    }

    pub(crate) fn remember(&self, key: &str, value: Value) {
        self.state().flow.remembered.insert(key.to_owned(), value);
    }

    /// Asks until an answer passes `check`, or three did not.
    pub(crate) async fn ask<T>(
        &self,
        key: &str,
        needed: &ClientCapabilities,
        request: InputRequest,
        limit: Duration,
        check: impl Fn(&Value) -> Result<(T, Value), InputError>,
    ) -> Result<T, InputError> {
        if once::is_inside(self) {
            return Err(InputError::misuse(format!("`{key}` is asked inside of a side effect that runs once")));
        }
        if !self.state().used.insert(key.to_owned()) {
            return Err(InputError::misuse(format!("the key `{key}` is used twice in one call")));
        }
        if self.over.is_cancelled() {
            return Err(InputError::gone());
        }
        match &self.way {
            Way::Rounds { .. } => {
                let request = match self.answered(key, &check)? {
                    Found::Answer(answer) => return Ok(answer),
                    Found::Misfit(error) => again(&request, &error),
                    Found::Nothing => request,
                };
                let task = self.wait_for_next_round(key, &request).await?;
                let ask = async |request| task.ask(key, request).await;
                self.attempts(request, limit, check, ask).await
            }
            Way::Session { session, sink, request_id } => match self.task.get() {
                None => {
                    let ask = async |request| session.ask(&request, sink.as_deref(), request_id).await;
                    self.attempts(request, limit, check, ask).await
                }
                Some(task) => {
                    let request = task::related(&request, task.id());
                    let ask = |request| {
                        task::ask_about(task.clone(), session.clone(), request_id.clone(), needed.clone(), request)
                    };
                    self.attempts(request, limit, check, ask).await
                }
            },
        }
    }

    /// Asks until an answer passes `check`, or three did not. The clock of the handler stands still meanwhile.
    async fn attempts<T, F: Future<Output = Result<Value, InputError>>>(
        &self,
        request: InputRequest,
        limit: Duration,
        check: impl Fn(&Value) -> Result<(T, Value), InputError>,
        ask: impl Fn(InputRequest) -> F,
    ) -> Result<T, InputError> {
        let mut asking = request.clone();
        for attempt in 1.. {
            let _waiting = self.wait();
            let answer = tokio::select! {
                answer = tokio::time::timeout(limit, ask(asking)) => answer.map_err(|_| InputError::timed_out())??,
                () = self.over.cancelled() => return Err(InputError::gone()),
            };
            match check(&answer) {
                Err(error) if error.is_invalid() && attempt < ATTEMPTS => asking = again(&request, &error),
                checked => return checked.map(|(answer, _)| answer),
            }
        }
        Err(InputError::gone())
    }

    /// The answer to a question in this round or an earlier one, if there is one that fits.
    fn answered<T>(
        &self,
        key: &str,
        check: impl Fn(&Value) -> Result<(T, Value), InputError>,
    ) -> Result<Found<T>, InputError> {
        let mut state = self.state();
        if let Some(earlier) = state.flow.answers.get(key) {
            return check(earlier).map(|(answer, _)| Found::Answer(answer));
        }
        if state.flow.failures.get(key).is_some_and(|failures| *failures >= ATTEMPTS) {
            return Err(InputError::invalid("too many answers did not"));
        }
        let Some(answer) = state.fresh.remove(key) else { return Ok(Found::Nothing) };
        match check(&answer) {
            Err(error) if error.is_invalid() => {
                let failures = state.flow.failures.entry(key.to_owned()).or_default();
                *failures = failures.saturating_add(1);
                if *failures >= ATTEMPTS { Err(error) } else { Ok(Found::Misfit(error)) }
            }
            Err(error) => {
                // Also a refusal is an answer, and is not asked for again; only what it was counts.
                let action = if error.is_declined() { "decline" } else { "cancel" };
                state.flow.answers.insert(key.to_owned(), json!({ "action": action }));
                Err(error)
            }
            Ok((answer, kept)) => {
                state.flow.answers.insert(key.to_owned(), kept);
                Ok(Found::Answer(answer))
            }
        }
    }

    /// Puts the question where the driver finds it. The handler ends here, and starts again with the answer; unless the call
    /// becomes a task, which is to ask then.
    async fn wait_for_next_round(&self, key: &str, request: &InputRequest) -> Result<&Arc<RunningTask>, InputError> {
        let driver = {
            let mut state = self.state();
            // Under the lock, since what is open when the call becomes a task is taken out.
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
            let woken = self.woken.notified();
            if let Some(task) = self.task.get() {
                return Ok(task);
            }
            // Who drives the handler drops it here. A task that the handler started is told when the round is over.
            tokio::select! {
                () = self.over.cancelled() => return Err(InputError::gone()),
                () = woken => {}
            }
        }
    }

    /// The call is over: nobody is asked any more, and who still waits is told.
    pub(crate) fn end(&self) {
        self.over.cancel();
    }

    /// What came of an effect that happens once; otherwise it is the caller's to try, unless somebody is at it, who is
    /// waited for, or was.
    pub(super) async fn claim(&self, key: &str) -> Claim<'_> {
        loop {
            let woken = self.woken.notified();
            {
                let mut state = self.state();
                if let Some(value) = state.flow.done.get(key) {
                    return Claim::Done(value.clone());
                }
                match state.claims.get(key) {
                    Some(Claimed::Failed) => return Claim::Failed,
                    Some(Claimed::Running) => {}
                    None => {
                        state.claims.insert(key.to_owned(), Claimed::Running);
                        return Claim::Mine(Attempt { asking: self, key: key.to_owned(), value: None });
                    }
                }
            }
            woken.await;
        }
    }

    /// Until the guard is dropped, no question ends the run of the handler.
    pub(super) fn effect(&self) -> Effect<'_> {
        self.state().effects += 1;
        Effect { asking: self }
    }

    /// Stops the clock of the handler until the guard is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        let mut state = self.state();
        state.waiting += 1;
        state.waiting_since.get_or_insert_with(Instant::now);
        Waiting { asking: self }
    }
}

/// What this round has for a question.
enum Found<T> {
    Answer(T),
    /// An answer that does not fit, not for the last time.
    Misfit(InputError),
    Nothing,
}

/// The same question to the user, which says what was wrong with the last answer.
fn again(request: &InputRequest, error: &InputError) -> InputRequest {
    let mut request = request.clone();
    if let (Some(Value::String(message)), Some(problem)) =
        (request.params.as_mut().and_then(|params| params.get_mut("message")), error.problem())
    {
        let problem: String = problem.chars().take(MISFIT_CHARS).collect();
        message.push_str(&format!("\n\nThe last answer did not fit: {problem}"));
    }
    request
}

/// So much of what was wrong is told.
const MISFIT_CHARS: usize = 500;

pub(super) struct Waiting<'a> {
    asking: &'a InputCollector,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.asking.state();
        state.waiting -= 1;
        if state.waiting == 0
            && let Some(since) = state.waiting_since.take()
        {
            state.waited += since.elapsed();
        }
        drop(state);
        self.asking.woken.notify_waiters();
    }
}

pub(super) struct Effect<'a> {
    asking: &'a InputCollector,
}

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        let mut state = self.asking.state();
        state.effects -= 1;
        // What was asked beside it ends the run now.
        let is_due = state.effects == 0 && !state.open.is_empty();
        let driver = if is_due { state.driver.take() } else { None };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// How far an effect came that is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claimed {
    Running,
    Failed,
}

/// Whose an effect is.
pub(super) enum Claim<'a> {
    Mine(Attempt<'a>),
    Done(Value),
    Failed,
}

/// The one attempt at an effect; it has failed when it is dropped without a value.
pub(super) struct Attempt<'a> {
    asking: &'a InputCollector,
    key: String,
    value: Option<Value>,
}

impl Attempt<'_> {
    pub(super) fn done(mut self, value: Value) {
        self.value = Some(value);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut state = self.asking.state();
        let key = std::mem::take(&mut self.key);
        match self.value.take() {
            Some(value) => {
                state.claims.remove(&key);
                state.flow.done.insert(key, value);
            }
            None => {
                state.claims.insert(key, Claimed::Failed);
            }
        }
        drop(state);
        self.asking.woken.notify_waiters();
    }
}

/// What a stateless request brings of earlier rounds.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Round {
    #[serde(default)]
    input_responses: Option<JsonObject>,
    #[serde(default)]
    request_state: Option<String>,
}

/// One answer for whatever is wrong with a state, so that it teaches a forger nothing.
fn stale() -> RpcError {
    RpcError::invalid_params("`requestState` does not belong to this request, or is too old: call again without it")
}

/// The longest text that a state of this server can be.
fn seal_limit(limits: &InputLimits) -> usize {
    limits.state_bytes.saturating_add(4096).saturating_mul(2)
}

pub(super) fn no_random_numbers() -> RpcError {
    tracing::error!("the system has no random numbers");
    RpcError::internal("the call cannot be continued")
}

impl std::fmt::Debug for InputCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputCollector").finish_non_exhaustive()
    }
}
