//! The gateways of a fleet: rounds of parked calls that arrive at another node, and states that are used once on all nodes.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{CallToolResult, InputRequests, JsonObject, ProtocolVersion, RpcError};
use mcp_server_core::{
    InputRound,
    engine::{self, Engine as _, Node},
    source::{SourceCall, SourceOutcome, SourceResult},
};
use serde::{Deserialize, Serialize};
use serde_json::{json, value::RawValue};
use tokio::{runtime::Handle, time::timeout};

use super::{
    Core,
    asked::{Place, parked_error},
    fault::Fault,
    parked::{Holder, ParkedRound},
    relay::Relayed,
    rounds::{RoundRecord, is_expired},
    seal::{LIFETIME, RelayState},
    used::{Claim, StateId},
};

/// The kind of the requests between nodes that pass a round of a parked call.
const ROUND: &str = "gateway/round";
/// The longest wait for the store.
const STORE_LIMIT: Duration = Duration::from_secs(5);

/// The parked call of another node.
#[derive(Debug)]
pub(super) struct Elsewhere {
    /// The id of the gateway that runs the call.
    pub(super) gateway: String,
    /// The lease of its node.
    pub(super) lease: String,
    pub(super) call: u64,
    pub(super) number: u32,
}

/// A round for the node of its call.
#[derive(Clone, Serialize, Deserialize)]
struct PassedRound {
    gateway: String,
    holder: Holder,
    call: u64,
    number: u32,
    responses: JsonObject,
    /// The client cancelled the round.
    is_cancelled: bool,
}

/// Passes the cancellation of a round on when the value is dropped before the outcome of the round.
struct Passing<'a> {
    node: &'a Arc<Node>,
    lease: &'a str,
    round: PassedRound,
    has_outcome: bool,
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        if self.has_outcome {
            return;
        }
        let cancelled = PassedRound { responses: JsonObject::new(), is_cancelled: true, ..self.round.clone() };
        // Without a runtime, the lifetime of the call ends it.
        let (Ok(body), Ok(runtime)) = (serde_json::to_vec(&cancelled), Handle::try_current()) else { return };
        let (node, lease) = (Arc::clone(self.node), self.lease.to_owned());
        runtime.spawn(async move { node.request(&lease, ROUND, body).await.map(drop) });
    }
}

/// The outcome of a passed round.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum RoundReply {
    /// The call still runs, and no question is open. The next request only waits.
    Running,
    Asked {
        number: u32,
        requests: InputRequests,
    },
    Complete {
        version: String,
        result: Box<RawValue>,
    },
    Failed(RpcError),
    /// The round does not continue the call.
    Refused(RpcError),
}

fn node_of(call: &SourceCall) -> Option<&Arc<Node>> {
    call.context().server().node()
}

impl Core {
    /// Returns the lease of this node, to which other nodes pass the rounds of its parked calls. `None` outside of a fleet.
    pub(super) async fn lease_for_rounds(self: &Arc<Self>, call: &SourceCall) -> Option<String> {
        let node = node_of(call)?;
        self.passed_rounds.get_or_init(|| {
            let (core, limit) = (Arc::downgrade(self), node.limits().reply / 2);
            node.add_waiting_handler(ROUND, move |body| {
                let core = core.upgrade();
                async move { core?.passed_round(&body, limit).await }
            })
        });
        let lease = node.lease().await;
        lease
            .map(|lease| lease.id().to_owned())
            .inspect_err(|error| tracing::warn!(%error, "a call stays on this node"))
            .ok()
    }

    /// Continues a parked call for another node. `None` if another gateway of the process runs the call.
    async fn passed_round(&self, body: &[u8], limit: Duration) -> Option<Vec<u8>> {
        let PassedRound { gateway, holder, call, number, responses, is_cancelled } =
            serde_json::from_slice(body).ok()?;
        if gateway != self.hop.as_str() {
            return None;
        }
        if is_cancelled {
            self.parked.cancel(call, &holder, limit).await;
            return Some(Vec::new());
        }
        let reply = match timeout(limit, self.parked.resume_for_node(call, &holder, number, responses)).await {
            Err(_) => RoundReply::Running,
            Ok(Ok(ParkedRound::Asked { number, requests, .. })) => RoundReply::Asked { number, requests },
            Ok(Ok(ParkedRound::Complete(result))) => match result {
                Ok(Relayed::Complete { result, .. }) => match serde_json::from_slice(result.json()) {
                    Ok(json) => RoundReply::Complete { version: result.version().as_str().to_owned(), result: json },
                    Err(_) => RoundReply::Failed(RpcError::internal("the result of the server is not valid")),
                },
                // A server of the session era sends no input requests as results. Its tasks belong to its connection.
                Ok(Relayed::InputRequired { .. } | Relayed::Task { .. }) => {
                    RoundReply::Failed(RpcError::internal("the result cannot be passed to another node"))
                }
                Err(fault) => RoundReply::Failed(fault.into()),
            },
            Ok(Err(error)) => RoundReply::Refused(parked_error(&error)),
        };
        serde_json::to_vec(&reply).ok()
    }

    /// Continues the parked call of another node. Only that node knows whether the round continues the call, so a refusal is recorded after
    /// the permission.
    pub(super) async fn resume_elsewhere(
        self: &Arc<Self>,
        call: &SourceCall,
        place: &Place,
        (at, holder): (Elsewhere, Holder),
        responses: JsonObject,
        record: &mut RoundRecord<'_>,
    ) -> Result<SourceOutcome, Fault> {
        let Some(node) = node_of(call) else {
            record.refuse();
            return Err(other_node().into());
        };
        record.allow().await?;
        let Elsewhere { gateway, lease, call: parked, number } = at;
        let round = PassedRound { gateway, holder, call: parked, number, responses, is_cancelled: false };
        let mut passing = Passing { node, lease: &lease, round, has_outcome: false };
        let reply = pass(&mut passing).await;
        passing.has_outcome = true;
        let reply = reply.inspect_err(|error| {
            if is_expired(error) {
                record.refuse();
            }
        });
        match reply? {
            RoundReply::Running => Err(InputRound::state_expired().into()),
            RoundReply::Refused(error) => {
                record.refuse();
                Err(error.into())
            }
            RoundReply::Asked { number, requests } => {
                let (server, name) = (place.server.to_string(), place.name.to_string());
                let (node, lease) = (passing.round.gateway.clone(), Some(lease.clone()));
                let state = RelayState::Parked { node, lease, call: parked, number, server, name };
                Ok(self.asked(call, Some(&requests), &state)?)
            }
            RoundReply::Complete { version, result } => {
                let Some(version) = ProtocolVersion::parse(&version) else { return Err(other_node().into()) };
                let is_error = CallToolResult::is_failed(result.get().as_bytes());
                let result = SourceResult::new(String::from(Box::<str>::from(result)), version);
                let result = if is_error { result.failed() } else { result };
                Ok(self.outcome(call, Relayed::Complete { server: Arc::clone(&place.server), result })?)
            }
            RoundReply::Failed(error) => Err(error.into()),
        }
    }

    /// Marks a state as used on this node and on all nodes of its fleet. A node without capacity does not use the state up for the other
    /// nodes and for a repetition.
    ///
    /// # Errors
    /// `-32602` with the reason `request_state_expired` if a node has used the state. `-32603` if this node has no capacity, or the store
    /// fails.
    pub(super) async fn claim(
        &self,
        call: &SourceCall,
        state: StateId,
        principal: Option<&Arc<str>>,
    ) -> Result<FleetClaim, RpcError> {
        let of_node = Some(self.used.claim(state, principal, LIFETIME)?);
        let Some(node) = node_of(call) else { return Ok(FleetClaim { of_node, in_store: None }) };
        let value = format!("{}/{}", self.hop.as_str(), self.used.next_claim());
        let mark = Mark { node: Arc::clone(node), key: key_of(node, &state), value: value.into_bytes().into() };
        // The drop of this future can follow the write of the mark.
        let mut claim = FleetClaim { of_node, in_store: Some(mark) };
        claim.mark().await?;
        Ok(claim)
    }
}

/// A state that is marked as used on this node and in the store of its fleet. The drop of the value removes both marks, unless they are
/// kept.
#[must_use = "a claim ends with its drop"]
pub(super) struct FleetClaim {
    of_node: Option<Claim>,
    /// `None` outside of a fleet.
    in_store: Option<Mark>,
}

/// The mark of a used state in the store of a fleet.
struct Mark {
    node: Arc<Node>,
    key: String,
    /// No other claim writes this value, so a claim never removes the mark of another claim.
    value: Arc<[u8]>,
}

impl FleetClaim {
    /// Keeps the marks for the lifetime of the state.
    pub(super) fn keep(mut self) {
        self.in_store = None;
        if let Some(claim) = self.of_node.take() {
            claim.keep();
        }
    }

    /// Removes the marks, and waits for the store. After a fault of the store, the state stays used on the other nodes.
    pub(super) async fn release(mut self) {
        // The mark stays in the claim, so a drop of this future removes it too.
        if let Some(mark) = &self.in_store {
            mark.remove().await;
        }
        self.in_store = None;
    }

    /// Writes the mark to the store.
    async fn mark(&mut self) -> Result<(), RpcError> {
        let Some(Mark { node, key, value }) = &self.in_store else { return Ok(()) };
        let written = node.store().compare_and_swap(key, None, Some(Arc::clone(value)), Some(LIFETIME));
        match timeout(STORE_LIMIT, written).await {
            Ok(Ok(swap)) if swap.is_done() => return Ok(()),
            Ok(Ok(_)) => {}
            failed => {
                if let Ok(Err(error)) = failed {
                    tracing::warn!(%error, "the use of a state cannot be stored");
                }
                // The store can have the mark.
                return Err(engine::store_unavailable());
            }
        }
        self.in_store = None;
        Err(InputRound::state_expired())
    }
}

impl Drop for FleetClaim {
    fn drop(&mut self) {
        let Some(mark) = self.in_store.take() else { return };
        // Without a runtime, the mark stays for the lifetime of the state.
        let Ok(runtime) = Handle::try_current() else { return };
        // The node keeps its own mark until then, so the limits of used states bound the number of these tasks.
        let of_node = self.of_node.take().inspect(Claim::end_soon);
        runtime.spawn(async move {
            mark.remove().await;
            drop(of_node);
        });
    }
}

impl Mark {
    /// Removes the mark from the store.
    async fn remove(&self) {
        let removed = self.node.store().compare_and_swap(&self.key, Some(&self.value), None, None);
        match timeout(STORE_LIMIT, removed).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the mark of a used state cannot be removed"),
            Err(_) => tracing::warn!("the mark of a used state was not removed in time"),
        }
    }
}

/// Returns the key of a used state in the store of a fleet.
fn key_of(node: &Node, state: &StateId) -> String {
    let id: String = state.iter().map(|byte| format!("{byte:02x}")).collect();
    node.name(&format!("gateway/used/{id}"))
}

/// Passes a round to the node of its call, and waits for the outcome.
async fn pass(passing: &mut Passing<'_>) -> Result<RoundReply, RpcError> {
    loop {
        let body = serde_json::to_vec(&passing.round).map_err(|_| RpcError::internal("the round cannot be written"))?;
        let reply = match passing.node.request(passing.lease, ROUND, body).await {
            Ok(reply) => reply,
            // The call ended with its node.
            Err(error) if error.is_gone() => return Err(InputRound::state_expired()),
            Err(error) => return Err(error.to_rpc()),
        };
        match serde_json::from_slice(&reply) {
            Ok(RoundReply::Running) => passing.round.responses = JsonObject::new(),
            Ok(outcome) => return Ok(outcome),
            // The gateway of the call has ended, or has another version.
            Err(_) => return Err(InputRound::state_expired()),
        }
    }
}

/// The error of a round at another node that cannot reach the node of the call.
pub(super) fn other_node() -> RpcError {
    let text = "another node of the gateway runs the call: send the request to that node";
    RpcError::internal(text).with_data(json!({ "reason": "other_node", "retryable": true }))
}
