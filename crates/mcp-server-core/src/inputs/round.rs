//! The parameters of a stateless request that belong to the earlier rounds of its call.

use std::fmt;

use mcp_protocol::{
    JsonObject, Principal, RpcError, UniqueNames,
    jsonrpc::{Request, decode_params},
};
use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Map, Value, json, value::RawValue};

use super::{
    InputLimits, StateBinding,
    collector::InputServices,
    seal::{self, Effects, StateKeys, StoredFlow},
};

/// The answers of one round and the opened state of the earlier ones.
pub(super) struct Round {
    /// The caller and the parameters that the request state is bound to.
    pub(super) binding: StateBinding,
    pub(super) responses: JsonObject,
    pub(super) stored: Option<(StoredFlow, Effects)>,
}

/// The parameters of a request that belong to the rounds of its call: the responses and the request state
/// ([`SourceCall::round`](crate::source::SourceCall::round)).
///
/// ```
/// use mcp_server_core::InputRound;
/// use serde_json::value::to_raw_value;
///
/// let params = serde_json::json!({
///     "name": "book",
///     "inputResponses": { "date": { "action": "decline" } },
///     "requestState": "sealed",
/// });
/// let round = InputRound::read("tools/call", Some(&to_raw_value(&params)?), None)?;
/// assert_eq!(round.request_state(), Some("sealed"));
/// assert_eq!(round.responses()["date"]["action"], "decline");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct InputRound {
    binding: StateBinding,
    responses: JsonObject,
    state: Option<String>,
}

impl InputRound {
    /// Reads the parameters of a request. `principal` is its caller.
    ///
    /// See the example of the [type](Self).
    ///
    /// # Errors
    /// `-32602` when the parameters cannot be read.
    pub fn read(method: &str, params: Option<&RawValue>, principal: Option<&Principal>) -> Result<Self, RpcError> {
        let Params { input_responses, request_state, repeated } = decode_params(method, params)?;
        let principal = principal.map(Principal::key);
        let binding = seal::binding(principal.as_deref(), method, repeated)
            .map_err(|_| RpcError::invalid_params("the parameters cannot be read"))?;
        let responses = input_responses.unwrap_or_default();
        Ok(Self { binding: StateBinding(binding), responses, state: request_state })
    }

    /// Returns the responses of the client, by the keys of their input requests.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn responses(&self) -> &JsonObject {
        &self.responses
    }

    /// Returns the responses of the client by value.
    #[must_use]
    pub fn into_responses(self) -> JsonObject {
        self.responses
    }

    /// Returns the request state as the client sent it; `None` in the first round.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn request_state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Returns the error of a request state whose call has ended, for example in a relay: `-32602` with the reason
    /// `request_state_expired`.
    ///
    /// ```
    /// use mcp_server_core::InputRound;
    ///
    /// assert_eq!(InputRound::state_expired().data.unwrap()["reason"], "request_state_expired");
    /// ```
    #[must_use]
    pub fn state_expired() -> RpcError {
        expired(Effects::Possible)
    }

    /// Returns the binding of the request states of the call. All rounds of a call have the same binding.
    ///
    /// See the example of [`StateKeys::seal_text`].
    #[must_use]
    pub fn binding(&self) -> &StateBinding {
        &self.binding
    }
}

/// The parameters of a request.
#[derive(Default)]
struct Params {
    input_responses: Option<JsonObject>,
    request_state: Option<String>,
    /// The parameters that each round repeats. A number such as `1e400` has no value, so it is rejected.
    repeated: Map<String, Value>,
}

impl<'de> Deserialize<'de> for Params {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Params;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Params, A::Error> {
        let mut params = Params::default();
        while let Some(name) = members.next_key::<String>()? {
            match &*name {
                "inputResponses" if params.input_responses.is_some() => {
                    return Err(de::Error::duplicate_field("inputResponses"));
                }
                "requestState" if params.request_state.is_some() => {
                    return Err(de::Error::duplicate_field("requestState"));
                }
                "inputResponses" => params.input_responses = members.next_value()?,
                "requestState" => params.request_state = members.next_value()?,
                "_meta" => {
                    members.next_value::<IgnoredAny>()?;
                }
                _ if params.repeated.contains_key(&name) => {
                    return Err(de::Error::custom(format_args!("the member {name:?} occurs twice")));
                }
                // The seal binds each value that a reader of the arguments could use.
                _ => {
                    let value: UniqueNames = members.next_value()?;
                    params.repeated.insert(name, value.into_value());
                }
            }
        }
        Ok(params)
    }
}

impl Round {
    /// # Errors
    /// `-32602` when the parameters cannot be read, and [`expired`] when the request state does not open.
    pub(super) fn read(
        services: &InputServices,
        request: &Request<'_>,
        principal: Option<&Principal>,
    ) -> Result<Self, RpcError> {
        let InputRound { binding, responses, state } = InputRound::read(&request.method, request.params, principal)?;
        let open = |text: String| {
            services.uses_keys();
            let effects = StateKeys::effects(&text);
            let stored = services.keys.open(&text, binding.as_bytes(), seal_limit(&services.limits));
            stored.map(|stored| (stored, effects)).ok_or_else(|| expired(effects))
        };
        let stored = state.map(open).transpose()?;
        Ok(Self { binding, responses, stored })
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

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn params(value: &Value) -> Result<Params, RpcError> {
        decode_params("tools/call", Some(&to_raw_value(value).unwrap()))
    }

    #[test]
    fn the_binding_ignores_the_member_order_and_round_parameters() {
        let first = json!({ "name": "x", "arguments": { "a": 1, "b": { "c": 1, "d": 2 } }, "_meta": { "p": 1 } });
        let again = json!({ "requestState": "s", "inputResponses": {}, "arguments": { "b": { "d": 2, "c": 1 }, "a": 1 }, "name": "x" });
        let bind = |principal: Option<&str>, method: &str, value: &Value| {
            seal::binding(principal, method, params(value).unwrap().repeated).unwrap()
        };
        let of_call = |value: &Value| bind(Some("me"), "tools/call", value);
        assert_eq!(of_call(&first), of_call(&again));
        let other = json!({ "name": "x", "arguments": { "a": 2, "b": { "c": 1, "d": 2 } } });
        assert_ne!(of_call(&first), of_call(&other));
        assert_ne!(of_call(&first), bind(None, "tools/call", &first));
        assert_ne!(of_call(&first), bind(Some("me"), "prompts/get", &first));
    }

    #[test]
    fn reads_the_answers_and_the_state_once() {
        let read = params(&json!({ "inputResponses": { "a": 1 }, "requestState": "s", "name": "x" })).unwrap();
        assert_eq!(read.input_responses.unwrap().get("a"), Some(&json!(1)));
        assert_eq!(read.request_state.as_deref(), Some("s"));
        let absent = params(&json!({ "inputResponses": null, "requestState": null })).unwrap();
        assert!(absent.input_responses.is_none() && absent.request_state.is_none());
        for (text, expected) in [
            (r#"{"requestState":"a","requestState":"b"}"#, "duplicate field `requestState`"),
            (r#"{"inputResponses":{},"inputResponses":{}}"#, "duplicate field `inputResponses`"),
            (r#"{"inputResponses":[]}"#, "`/inputResponses`: invalid type: array, expected an object"),
            (r#"{"arguments":{"n":1e400}}"#, "`/arguments/n`: number out of range"),
            (r#"{"arguments":{"a":{"b":1,"b":2}}}"#, "`/arguments/a`: the member \"b\" occurs twice"),
            (r#"{"name":"x","name":"y"}"#, "the member \"name\" occurs twice"),
        ] {
            let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
            let error = decode_params::<Params>("m", Some(&raw)).err().unwrap();
            assert!(error.message.contains(expected), "{text}: {}", error.message);
        }
    }
}
