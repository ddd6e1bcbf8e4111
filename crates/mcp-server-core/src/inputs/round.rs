//! The parameters of a stateless request that belong to the earlier rounds of its call.

use mcp_protocol::{
    JsonObject, Principal, RpcError,
    jsonrpc::{Request, decode_params},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    InputLimits,
    collector::InputServices,
    seal::{self, Effects, StateKeys, StoredFlow},
};

/// The answers of one round and the opened state of the earlier ones.
pub(super) struct Round {
    /// The caller and the parameters that the request state is bound to.
    pub(super) binding: Vec<u8>,
    pub(super) responses: JsonObject,
    pub(super) stored: Option<(StoredFlow, Effects)>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params {
    #[serde(default)]
    input_responses: Option<JsonObject>,
    #[serde(default)]
    request_state: Option<String>,
}

impl Round {
    /// # Errors
    /// `-32602` when the parameters cannot be read, and [`expired`] when the request state does not open.
    pub(super) fn read(
        services: &InputServices,
        request: &Request<'_>,
        principal: Option<&Principal>,
    ) -> Result<Self, RpcError> {
        let Params { input_responses, request_state } = decode_params(&request.method, request.params)?;
        // The binding needs the parameters as values. A number such as `1e400` has none, and is rejected here.
        let params = decode_params::<Value>(&request.method, request.params)?;
        let principal = principal.map(Principal::key);
        let binding = seal::binding(principal.as_deref(), &request.method, params)
            .map_err(|_| RpcError::invalid_params("the parameters cannot be read"))?;
        let open = |text: String| {
            let effects = StateKeys::effects(&text);
            let stored = services.keys.open(&text, &binding, seal_limit(&services.limits));
            stored.map(|stored| (stored, effects)).ok_or_else(|| expired(effects))
        };
        let stored = request_state.map(open).transpose()?;
        Ok(Self { binding, responses: input_responses.unwrap_or_default(), stored })
    }
}

/// Returns the same error for every invalid state, so that the error does not help a forger.
///
/// `canRestart` is true if no side effect of `once` has begun, so the client can start the call anew.
pub(super) fn expired(effects: Effects) -> RpcError {
    let advice = match effects {
        Effects::None => "call again without it",
        Effects::Possible => "a part of the call may have run already, so check before you call again without it",
    };
    RpcError::invalid_params(format!("`requestState` does not belong to this request, or is too old: {advice}"))
        .with_data(json!({ "reason": "request_state_expired", "canRestart": effects == Effects::None }))
}

/// Returns the length of the longest sealed state.
fn seal_limit(limits: &InputLimits) -> usize {
    limits.state_bytes.saturating_add(4096).saturating_mul(2)
}
