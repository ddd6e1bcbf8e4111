//! The input requests of one call: their delivery in this era, and the answers of earlier rounds.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::{Future, poll_fn},
    sync::{Arc, OnceLock},
    task::{Poll, Waker},
    time::Duration,
};

use mcp_protocol::{
    ClientCapabilities, InputRequest, InputRequests, InputRequiredResult, JsonObject, Principal, RequestId, RpcError,
    jsonrpc::Request,
};
use mcp_transport::FrameSender;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    InputLimits, StateKeys, once,
    round::{self, Round},
    seal::{Effects, Flow, StoredFlow},
    task,
};
use crate::{
    Session,
    error::{InputError, ToolError},
    random,
    session::Client,
    store::RecordStore,
    tasks::RunningTask,
    trace::Bridge,
};

/// The most invalid answers to one input request.
const ATTEMPTS: u8 = 3;
/// The most bytes of one flow, also in the store.
const STATE_CAP: usize = 256 << 10;

/// The parts of a server that input requests need.
pub(crate) struct InputServices {
    pub(crate) limits: InputLimits,
    pub(crate) keys: StateKeys,
    pub(crate) records: RecordStore,
    pub(crate) bridge: Option<Bridge>,
    /// Answers count without a proof that the question was asked.
    pub(crate) accepts_unasked: bool,
}

/// The client of a call and the stream of its request.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    pub(crate) client: &'a Client,
    pub(crate) principal: Option<&'a Principal>,
    pub(crate) sink: Option<&'a Arc<dyn FrameSender>>,
    pub(crate) cancel: &'a CancellationToken,
}

/// Collects the input requests of one call and finds their answers.
pub(crate) struct InputCollector {
    services: Arc<InputServices>,
    delivery: Delivery,
    /// The task that the call became.
    task: OnceLock<Arc<RunningTask>>,
    state: Mutex<State>,
    /// Cancelled when the call is over or was dropped. Later input requests fail.
    ended: CancellationToken,
    /// Notified when the handler stops waiting, when a side effect ends, and when the call becomes a task.
    changed: Notify,
}

enum Delivery {
    /// In the result of the request. The answers arrive with the next round (2026-07-28).
    Rounds {
        /// The caller and the parameters that the request state is bound to.
        binding: Vec<u8>,
    },
    /// As requests of the server, while the handler waits.
    Session { session: Arc<Session>, sink: Option<Arc<dyn FrameSender>>, request_id: RequestId },
}

#[derive(Default)]
struct State {
    flow: Flow,
    /// The key of a flow in the store, until the flow is loaded, and whether a side effect has begun in the flow.
    kept: Option<(String, Effects)>,
    /// The answers of this round that no input request has used yet.
    responses: JsonObject,
    /// The unanswered input requests of this round.
    open: BTreeMap<String, InputRequest>,
    /// The keys that this run of the handler used.
    used: HashSet<String>,
    /// The number of running side effects. The run of the handler does not end before they do.
    effects: usize,
    /// The side effects of this run that have not succeeded.
    claims: HashMap<String, Claimed>,
    /// The input requests on which the run ended.
    round_requests: Option<InputRequests>,
    /// Wakes the task that drives the handler when an input request opens.
    driver: Option<Waker>,
    /// The time that the handler has waited for answers. It does not count towards the time limit.
    waiting: usize,
    waiting_since: Option<Instant>,
    waited: Duration,
}

impl InputCollector {
    /// # Errors
    /// `-32602` when the request state is invalid or belongs to another request (see [`round::expired`]). `-32603` when the system has no random
    /// numbers.
    pub(crate) fn new(
        services: &Arc<InputServices>,
        request: &Request<'_>,
        origin: Origin<'_>,
    ) -> Result<Self, RpcError> {
        let mut state = State::default();
        let delivery = match origin.client {
            Client::Session(session) => Delivery::Session {
                session: session.clone(),
                sink: origin.sink.cloned(),
                request_id: request.id.clone(),
            },
            Client::Request(_) => {
                let Round { binding, responses, stored } = Round::read(services, request, origin.principal)?;
                state.responses = responses;
                match stored {
                    None => state.flow.id = random::id()?,
                    Some((StoredFlow::Inline(flow), _)) => state.flow = flow,
                    Some((StoredFlow::Handle(name), effects)) => state.kept = Some((name, effects)),
                }
                Delivery::Rounds { binding }
            }
        };
        Ok(Self {
            services: services.clone(),
            delivery,
            task: OnceLock::new(),
            state: Mutex::new(state),
            ended: origin.cancel.child_token(),
            changed: Notify::new(),
        })
    }

    /// Continues the call as a task. The handler is no longer ended for input requests; open ones are sent inside of
    /// the task.
    pub(crate) fn become_task(&self, task: &Arc<RunningTask>) {
        {
            let mut state = self.state();
            let _ = self.task.set(task.clone());
            state.open.clear();
        }
        self.changed.notify_waiters();
    }

    pub(crate) fn services(&self) -> &Arc<InputServices> {
        &self.services
    }

    /// Loads the flow that an earlier round left in the store.
    ///
    /// # Errors
    /// `-32602` when the store no longer has it.
    pub(crate) async fn resume(&self) -> Result<(), RpcError> {
        let Some((name, effects)) = self.state().kept.take() else { return Ok(()) };
        let kept = self.services.records.get(&name).await.map_err(|error| {
            tracing::error!(%error, "the state of a call cannot be fetched");
            RpcError::internal("the state of the call cannot be fetched")
        })?;
        let flow = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok()).ok_or_else(|| round::expired(effects))?;
        self.state().flow = flow;
        Ok(())
    }

    /// Polls a handler until it is done or has opened input requests. In the second case its output does not count: see
    /// [`InputCollector::take_requests`].
    pub(crate) async fn drive<T>(&self, handler: impl Future<Output = Result<T, ToolError>>) -> Result<T, ToolError> {
        let mut handler = std::pin::pin!(handler);
        poll_fn(|cx| match handler.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending if self.ends_round(cx.waker()) => Poll::Ready(Err(ToolError::not_found())),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Whether open input requests end the run now. Otherwise the waker is called for the next one. A running side
    /// effect is never interrupted.
    fn ends_round(&self, driver: &Waker) -> bool {
        let mut state = self.state();
        if state.open.is_empty() || state.effects > 0 {
            state.driver = Some(driver.clone());
            return false;
        }
        state.round_requests = Some(std::mem::take(&mut state.open).into_iter().collect());
        true
    }

    /// Returns the input requests on which the run ended.
    pub(crate) fn take_requests(&self) -> Option<InputRequests> {
        self.state().round_requests.take()
    }

    /// Returns the result with the input requests and the sealed state.
    ///
    /// # Errors
    /// `-32603` when the state cannot be sealed or stored.
    pub(crate) async fn result(&self, requests: InputRequests) -> Result<InputRequiredResult, RpcError> {
        let Delivery::Rounds { binding } = &self.delivery else {
            return Err(RpcError::internal("a session has no rounds"));
        };
        let limits = &self.services.limits;
        let mut flow = self.state().flow.clone();
        flow.asked = requests.0.keys().cloned().collect();
        let effects = flow.effects();
        let written = serde_json::to_vec(&flow).map_err(|_| RpcError::internal("the state cannot be written"))?;
        if written.len() > STATE_CAP.max(limits.state_bytes) {
            return Err(RpcError::invalid_params("the answers are too large to continue the call"));
        }
        let state = if written.len() <= limits.state_bytes {
            StoredFlow::Inline(flow)
        } else {
            // A round that is stored twice uses the same key.
            let round = flow.answers.len() + flow.remembered.len() + flow.done.len() + flow.failures.len();
            let name = format!("mcp/state/{}/{round}", flow.id);
            self.services.records.put(&name, written.into(), Some(limits.state)).await.map_err(|error| {
                tracing::error!(%error, "the state of a call cannot be kept");
                RpcError::internal("the state of the call cannot be kept")
            })?;
            StoredFlow::Handle(name)
        };
        let mut result = InputRequiredResult::new(requests);
        let sealed = self.services.keys.seal(&state, effects, limits.state, binding);
        result.request_state = Some(sealed?);
        Ok(result)
    }

    /// Limits the time of a future, without the time that it waits for answers. Returns `None` when the time is over.
    pub(crate) async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        let start = Instant::now();
        loop {
            let woken = self.changed.notified();
            let (waited, is_waiting) = self.waited();
            // A deadline beyond the range of the clock is no limit.
            let deadline = start.checked_add(limit).and_then(|end| end.checked_add(waited));
            let Some(deadline) = deadline else { return Some(future.await) };
            if is_waiting {
                // Waiting time does not count. The input request has a timeout of its own.
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

    /// Returns the time that the handler has waited so far, and whether it waits now.
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
                        task::ask_about(task.clone(), session.clone(), request_id.clone(), needed.clone(), request)
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
                answer = tokio::time::timeout(limit, ask(next)) => answer.map_err(|_| InputError::timed_out())??,
                () = self.ended.cancelled() => return Err(InputError::gone()),
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
        if !self.services.accepts_unasked && !state.flow.asked.contains(key) {
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
                () = self.ended.cancelled() => return Err(InputError::gone()),
                () = woken => {}
            }
        }
    }

    /// Ends the call: waiting input requests fail, and so do new ones.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }

    /// Claims a side effect, or returns its earlier result. Waits while another claim of the same key runs.
    pub(super) async fn claim(&self, key: &str) -> Claim<'_> {
        loop {
            let woken = self.changed.notified();
            {
                let mut state = self.state();
                if let Some(value) = state.flow.done.get(key) {
                    return Claim::Done(value.clone());
                }
                match state.claims.get(key) {
                    Some(Claimed::Failed) => return Claim::Failed,
                    Some(Claimed::Running) => {}
                    None => {
                        state.flow.has_begun = true;
                        state.claims.insert(key.to_owned(), Claimed::Running);
                        return Claim::Mine(Attempt { collector: self, key: key.to_owned(), value: None });
                    }
                }
            }
            woken.await;
        }
    }

    /// Keeps input requests from ending the run until the guard is dropped.
    pub(super) fn effect(&self) -> Effect<'_> {
        self.state().effects += 1;
        Effect { collector: self }
    }

    /// Stops the time limit of the handler until the guard is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        let mut state = self.state();
        state.waiting += 1;
        state.waiting_since.get_or_insert_with(Instant::now);
        Waiting { collector: self }
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

pub(super) struct Waiting<'a> {
    collector: &'a InputCollector,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.collector.state();
        state.waiting -= 1;
        if state.waiting == 0
            && let Some(since) = state.waiting_since.take()
        {
            state.waited += since.elapsed();
        }
        drop(state);
        self.collector.changed.notify_waiters();
    }
}

pub(super) struct Effect<'a> {
    collector: &'a InputCollector,
}

impl Drop for Effect<'_> {
    fn drop(&mut self) {
        let mut state = self.collector.state();
        state.effects -= 1;
        // Input requests that opened beside the side effect end the run now.
        let is_due = state.effects == 0 && !state.open.is_empty();
        let driver = if is_due { state.driver.take() } else { None };
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

/// The state of a side effect that has not succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claimed {
    Running,
    Failed,
}

/// The result of claiming a side effect.
pub(super) enum Claim<'a> {
    Mine(Attempt<'a>),
    Done(Value),
    Failed,
}

/// The attempt at a side effect. It fails when it is dropped without a value.
pub(super) struct Attempt<'a> {
    collector: &'a InputCollector,
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
        let mut state = self.collector.state();
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
        self.collector.changed.notify_waiters();
    }
}

impl std::fmt::Debug for InputCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputCollector").finish_non_exhaustive()
    }
}
