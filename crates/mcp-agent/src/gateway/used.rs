//! The request states of approved calls that were used: each of them continues its call once.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_protocol::RpcError;
use mcp_server_core::InputRound;
use parking_lot::Mutex;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// The largest number of states of one principal, and of all principals. All callers without a principal count as one.
const PER_PRINCIPAL: usize = 1024;
const TOTAL: usize = 65_536;

/// The hash of a sealed state.
pub(super) type StateId = [u8; 32];

/// The used states of this node, until they expire. The nodes of a fleet also mark them in their store.
#[derive(Default)]
pub(super) struct UsedStates {
    used: Mutex<HashMap<StateId, Used>>,
    /// The number of claims since the start.
    claims: AtomicU64,
}

struct Used {
    principal: Option<Arc<str>>,
    until: Instant,
    /// The claim ends as soon as the store of the fleet has removed its mark.
    is_ending: bool,
}

/// A state that is marked as used. The drop of the value removes the mark, unless it is kept.
#[must_use = "a claim ends with its drop"]
pub(super) struct Claim {
    states: Arc<UsedStates>,
    id: Option<StateId>,
}

impl Claim {
    /// Keeps the mark for the lifetime of the state.
    pub(super) fn keep(mut self) {
        self.id = None;
    }

    /// Marks the claim as one that ends soon, so that a repeated round receives an error that is worth a repetition.
    pub(super) fn end_soon(&self) {
        let Some(id) = self.id else { return };
        if let Some(used) = self.states.used.lock().get_mut(&id) {
            used.is_ending = true;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.states.used.lock().remove(&id);
        }
    }
}

/// Returns the id of a sealed state.
pub(super) fn id_of(sealed: &str) -> StateId {
    Sha256::digest(sealed.as_bytes()).into()
}

impl UsedStates {
    /// Marks a state as used for its lifetime.
    ///
    /// # Errors
    /// `-32602` with the reason `request_state_expired` if the state was used before. `-32603` if too many states are used, or if the
    /// former claim of the state ends soon.
    pub(super) fn claim(
        self: &Arc<Self>,
        id: StateId,
        principal: Option<&Arc<str>>,
        lifetime: Duration,
    ) -> Result<Claim, RpcError> {
        let now = Instant::now();
        let mut used = self.used.lock();
        used.retain(|_, used| now < used.until);
        if let Some(former) = used.get(&id) {
            let text = "a former round of the call still ends: repeat the request later";
            return Err(if former.is_ending { busy(text) } else { InputRound::state_expired() });
        }
        let of_principal = used.values().filter(|used| used.principal.as_ref() == principal).count();
        if of_principal >= PER_PRINCIPAL || used.len() >= TOTAL {
            return Err(busy("too many approved calls wait for input: repeat the request later"));
        }
        used.insert(id, Used { principal: principal.cloned(), until: now + lifetime, is_ending: false });
        Ok(Claim { states: Arc::clone(self), id: Some(id) })
    }

    /// Returns another number for each claim.
    pub(super) fn next_claim(&self) -> u64 {
        self.claims.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns an error that is worth a repetition.
fn busy(text: &str) -> RpcError {
    RpcError::internal(text).with_data(json!({ "retryable": true }))
}

#[cfg(test)]
mod tests {
    use mcp_client::{Client, Round};
    use mcp_protocol::{ClientCapabilities, ElicitationCapability, ProtocolVersion};
    use mcp_server::{inputs::StateKeys, prelude::*, store::MemoryStore};
    use serde_json::Value;

    use super::*;
    use crate::{
        Gateway, Host,
        policy::{Effect, PendingApproval},
    };

    #[derive(Deserialize, JsonSchema)]
    struct Answer {
        name: String,
    }

    fn number(n: usize) -> StateId {
        id_of(&n.to_string())
    }

    fn reason(error: &RpcError) -> &Value {
        &error.data.as_ref().unwrap()["reason"]
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_is_used_once_and_a_principal_does_not_affect_the_others() {
        let (states, ada) = (Arc::<UsedStates>::default(), Arc::<str>::from("ada"));
        let life = Duration::from_secs(600);
        let claim = |n, principal| states.claim(number(n), principal, life).map(Claim::keep);
        for n in 0..PER_PRINCIPAL {
            // A claim that is not kept has no effect.
            drop(states.claim(number(n), Some(&ada), life).unwrap());
            claim(n, Some(&ada)).unwrap();
        }
        assert_eq!(reason(&claim(0, Some(&ada)).unwrap_err()), "request_state_expired");
        assert_eq!(claim(PER_PRINCIPAL, Some(&ada)).unwrap_err().code.0, -32603);
        claim(PER_PRINCIPAL, None).unwrap();
        // A claim that ends soon is worth a repetition.
        tokio::time::advance(life).await;
        let ending = states.claim(number(0), None, life).unwrap();
        ending.end_soon();
        let error = claim(0, None).unwrap_err();
        assert_eq!((error.code.0, &error.data.unwrap()["retryable"]), (-32603, &json!(true)));
        drop(ending);
        tokio::time::advance(life).await;
        claim(PER_PRINCIPAL, Some(&ada)).unwrap();
        assert_eq!(states.used.lock().len(), 1);
    }

    #[tokio::test]
    async fn a_node_without_capacity_does_not_use_a_state_up() {
        let form = async |inputs: Inputs| {
            let Answer { name } = inputs.elicit("name", "Your name?").await?;
            Ok::<_, ToolError>(name)
        };
        let server = Server::builder("s", "1").versions([ProtocolVersion::LATEST]).tool(tool("form", form)).build();
        let host = Host::builder("gateway", "1").server("s", &server).default_effect(Effect::Ask);
        let host = host.approver(|_: PendingApproval| async { true }).start().await.unwrap();
        let builder = Gateway::builder(host).state_keys(StateKeys::new([[1; 32]]));
        let core = builder.core();
        let node = builder.build().unwrap().store(Arc::new(MemoryStore::new())).versions([ProtocolVersion::LATEST]);
        let user = Client::builder("client", "1").connect(&node.build()).await.unwrap();
        let send = async |params: Value| {
            let forms = ElicitationCapability::new().with_form();
            let call = user.request_raw("tools/call", params).raw_result();
            call.capabilities(ClientCapabilities::new().with_elicitation(forms)).raw_inputs().await
        };
        let first = send(json!({ "name": "s__form", "arguments": {} })).await.unwrap();
        let Round::InputRequired(asked) = first else { panic!("the tool asks") };
        let asked = asked.into_result();
        let answer = json!({ "action": "accept", "content": { "name": "ada" } });
        let responses: Value = asked.input_requests.unwrap().keys().map(|key| (key.clone(), answer.clone())).collect();
        let state = asked.request_state;
        let round = json!({ "name": "s__form", "arguments": {}, "requestState": state, "inputResponses": responses });
        for n in 0..PER_PRINCIPAL {
            core.used.claim(number(n), None, Duration::from_secs(600)).unwrap().keep();
        }
        let full = send(round.clone()).await.unwrap_err().rpc().unwrap().clone();
        assert_eq!((full.code.0, &full.data.unwrap()["retryable"]), (-32603, &json!(true)));
        core.used.used.lock().clear();
        // The repetition succeeds, and a further one does not.
        assert!(matches!(send(round.clone()).await.unwrap(), Round::Complete(_)));
        assert_eq!(reason(send(round).await.unwrap_err().rpc().unwrap()), "request_state_expired");
    }
}
