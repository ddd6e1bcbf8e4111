//! The request states of approved calls that were used: each of them continues its call once.

use std::{collections::HashMap, sync::Arc, time::Duration};

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
}

struct Used {
    principal: Option<Arc<str>>,
    until: Instant,
}

/// Returns the id of a sealed state.
pub(super) fn id_of(sealed: &str) -> StateId {
    Sha256::digest(sealed.as_bytes()).into()
}

impl UsedStates {
    /// Marks a state as used for its lifetime.
    ///
    /// # Errors
    /// `-32602` with the reason `request_state_expired` if the state was used before. `-32603` if too many states are used.
    pub(super) fn claim(&self, id: StateId, principal: Option<&Arc<str>>, lifetime: Duration) -> Result<(), RpcError> {
        let now = Instant::now();
        let mut used = self.used.lock();
        used.retain(|_, used| now < used.until);
        if used.contains_key(&id) {
            return Err(InputRound::state_expired());
        }
        let of_principal = used.values().filter(|used| used.principal.as_ref() == principal).count();
        if of_principal >= PER_PRINCIPAL || used.len() >= TOTAL {
            let text = "too many approved calls wait for input: repeat the request later";
            return Err(RpcError::internal(text).with_data(json!({ "retryable": true })));
        }
        used.insert(id, Used { principal: principal.cloned(), until: now + lifetime });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_state_is_used_once_and_a_principal_does_not_affect_the_others() {
        let (states, ada) = (UsedStates::default(), Arc::<str>::from("ada"));
        let life = Duration::from_secs(600);
        let number = |n: usize| id_of(&n.to_string());
        for n in 0..PER_PRINCIPAL {
            states.claim(number(n), Some(&ada), life).unwrap();
        }
        let reason = |error: RpcError| error.data.unwrap()["reason"].clone();
        assert_eq!(reason(states.claim(number(0), Some(&ada), life).unwrap_err()), "request_state_expired");
        assert_eq!(states.claim(number(PER_PRINCIPAL), Some(&ada), life).unwrap_err().code.0, -32603);
        states.claim(number(PER_PRINCIPAL), None, life).unwrap();
        tokio::time::advance(life).await;
        states.claim(number(PER_PRINCIPAL), Some(&ada), life).unwrap();
        assert_eq!(states.used.lock().len(), 1);
    }
}
