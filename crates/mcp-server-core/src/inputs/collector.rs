//! The input requests of one call: their delivery in this era, and the answers of earlier rounds.

mod ask;
mod guards;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Poll, Waker},
    time::Duration,
};

use mcp_protocol::{
    InputRequest, InputRequests, InputRequiredResult, JsonObject, Principal, RequestId, RpcError, jsonrpc::Request,
};
use mcp_transport::FrameSender;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, value::to_raw_value};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

pub(super) use self::guards::Claim;
use self::guards::Claimed;
use super::{
    InputLimits, StateBinding, StateKeys,
    round::{self, Round},
    seal::{Effects, Flow, StoredFlow},
};
use crate::{
    Session,
    error::ToolError,
    json,
    node::Node,
    random,
    session::Client,
    store::{ServerStore, is_away, not_taken, unavailable},
    tasks::RunningTask,
    trace::Bridge,
};

/// The most bytes of one flow, also in the store.
const STATE_CAP: usize = 256 << 10;

/// The parts of a server that input requests need.
pub(crate) struct InputServices {
    pub(crate) limits: InputLimits,
    pub(crate) keys: StateKeys,
    pub(crate) records: ServerStore,
    /// This node of a fleet.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) bridge: Option<Bridge>,
    /// Answers count without a proof that the question was asked.
    pub(crate) accepts_unsolicited: bool,
}

impl InputServices {
    /// Starts the node of a fleet, so that the nodes compare their keys.
    pub(super) fn uses_keys(&self) {
        if let Some(node) = &self.node {
            node.uses_keys();
        }
    }
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
        binding: StateBinding,
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
            if is_away(&error) {
                return unavailable();
            }
            RpcError::internal("the state of the call cannot be fetched")
        })?;
        let flow = kept.and_then(|bytes| json::from_slice(&bytes).ok()).ok_or_else(|| round::expired(effects))?;
        self.state().flow = flow;
        Ok(())
    }

    /// Polls a handler until it is done or has opened input requests. In the second case its output does not count: see
    /// [`InputCollector::take_requests`].
    pub(crate) async fn drive<T>(
        &self,
        mut handler: Pin<&mut impl Future<Output = Result<T, ToolError>>>,
    ) -> Result<T, ToolError> {
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
        let written = to_raw_value(&flow).map_err(|_| RpcError::internal("the state cannot be written"))?;
        let len = written.get().len();
        if len > STATE_CAP.max(limits.state_bytes) {
            return Err(RpcError::invalid_params("the answers are too large to continue the call"));
        }
        let state = if len <= limits.state_bytes {
            StoredFlow::Inline(written)
        } else {
            // A round that is stored twice uses the same key.
            let round = flow.answers.len() + flow.remembered.len() + flow.done.len() + flow.failures.len();
            let name = format!("state/{}/{round}", flow.id);
            self.services.records.put(&name, written.get().as_bytes().into(), Some(limits.state)).await.map_err(
                |error| {
                    tracing::error!(%error, "the state of a call cannot be kept");
                    not_taken("the state of the call cannot be kept")
                },
            )?;
            StoredFlow::Handle(name)
        };
        let mut result = InputRequiredResult::new(requests);
        self.services.uses_keys();
        let sealed = self.services.keys.seal(&state, effects, limits.state, binding.as_bytes());
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

    /// Ends the call: waiting input requests fail, and so do new ones.
    pub(crate) fn end(&self) {
        self.ended.cancel();
    }
}

impl std::fmt::Debug for InputCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InputCollector").finish_non_exhaustive()
    }
}
