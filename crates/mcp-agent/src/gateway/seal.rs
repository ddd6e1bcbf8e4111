//! The request states of a gateway: the server of a call with its own state, or the parked call.

use std::time::Duration;

use mcp_protocol::{ProtocolVersion, RpcError};
use mcp_server_core::{InputRound, StateBinding, StateKeys, source::SourceCall};
use serde::{Deserialize, Serialize};

use super::source::LIMIT;

/// The time between two rounds of a stateless client.
pub(super) const LIFETIME: Duration = Duration::from_secs(600);

/// The state of a call between two rounds. The client receives it sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum RelayState {
    /// A stateless upstream server waits for the next round.
    #[serde(rename = "u")]
    Upstream {
        /// The server of all rounds, also if the name of the tool has moved to another server meanwhile.
        #[serde(rename = "s")]
        server: String,
        /// The name of the tool or prompt, or the URI of the resource, at the server.
        #[serde(rename = "n")]
        name: String,
        /// The definition of the server. Another server under its name must not receive the responses.
        #[serde(rename = "f")]
        fingerprint: String,
        /// A person approved the call, so the state continues it once.
        #[serde(rename = "a", default)]
        is_approved: bool,
        /// The state of the server, if it sent any. A response without this seal could reach a server that has not asked.
        #[serde(rename = "r", default, skip_serializing_if = "Option::is_none")]
        state: Option<String>,
    },
    /// The call of a server of the session era is parked.
    #[serde(rename = "p")]
    Parked {
        /// The node that runs the call.
        #[serde(rename = "o")]
        node: String,
        /// The lease of the node, if the nodes have a shared store.
        #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
        lease: Option<String>,
        #[serde(rename = "c")]
        call: u64,
        /// The number of the last question that the client received.
        #[serde(rename = "q")]
        number: u32,
        #[serde(rename = "s")]
        server: String,
        #[serde(rename = "n")]
        name: String,
    },
}

/// The keys of a gateway. All nodes of a fleet share them.
#[derive(Debug, Clone)]
pub(super) struct Seals {
    keys: StateKeys,
}

impl Seals {
    pub(super) fn new(keys: StateKeys) -> Self {
        Self { keys }
    }

    pub(super) fn keys(&self) -> &StateKeys {
        &self.keys
    }

    /// Seals the state of a call for its next round.
    pub(super) fn seal_for(&self, call: &SourceCall, state: &RelayState) -> Result<String, RpcError> {
        self.seal(state, lifetime(call.context().version()), call.round()?.binding())
    }

    /// Seals the state of a call. It opens only for the same principal, method, name and arguments.
    fn seal(&self, state: &RelayState, lifetime: Duration, binding: &StateBinding) -> Result<String, RpcError> {
        let text = serde_json::to_string(state).map_err(|_| RpcError::internal("the state cannot be written"))?;
        self.keys.seal_text(&text, lifetime, binding)
    }

    /// Opens the state of a round.
    ///
    /// # Errors
    /// `-32602` with the reason `request_state_expired`. `None` if the round has no state.
    pub(super) fn open(&self, round: &InputRound) -> Result<Option<RelayState>, RpcError> {
        let Some(sealed) = round.request_state() else { return Ok(None) };
        let text = self.keys.open_text(sealed, round.binding())?;
        serde_json::from_str(&text).map(Some).map_err(|_| InputRound::state_expired())
    }
}

/// Returns the time between two rounds of a client of a revision.
fn lifetime(version: ProtocolVersion) -> Duration {
    // In a session, the gateway keeps the seal while it asks the client. The time limits of the answers hold there.
    if version.has_input_required() { LIFETIME } else { LIMIT }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::Principal;
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    fn round(method: &str, params: &Value, principal: Option<&Principal>) -> InputRound {
        InputRound::read(method, Some(&to_raw_value(params).unwrap()), principal).unwrap()
    }

    fn states() -> [RelayState; 3] {
        let (fingerprint, is_approved) = (String::from("f"), true);
        let upstream = |state| RelayState::Upstream {
            server: "files".into(),
            name: "read".into(),
            fingerprint: fingerprint.clone(),
            is_approved,
            state,
        };
        let parked = RelayState::Parked {
            node: "n1".into(),
            lease: Some("l1".into()),
            call: 7,
            number: 2,
            server: "files".into(),
            name: "read".into(),
        };
        [upstream(Some("\"state\" of files".into())), upstream(None), parked]
    }

    #[test]
    fn a_state_opens_only_for_the_same_principal_method_name_and_arguments() {
        let seals = Seals::new(StateKeys::new([[7; 32]]));
        let (ada, grace) = (Principal::new("ada"), Principal::new("grace"));
        let call = json!({ "name": "files__read", "arguments": { "path": "a", "line": 1 }, "_meta": { "x": 1 } });
        for state in states() {
            let first = round("tools/call", &call, Some(&ada));
            let sealed = seals.seal(&state, LIFETIME, first.binding()).unwrap();
            let next = |method: &str, name: &str, path: &str, principal| {
                let params = json!({
                    "requestState": sealed, "inputResponses": { "k": 1 },
                    "arguments": { "line": 1, "path": path }, "name": name,
                });
                seals.open(&round(method, &params, principal))
            };
            assert_eq!(next("tools/call", "files__read", "a", Some(&ada)).unwrap(), Some(state));
            for (opened, case) in [
                (next("tools/call", "files__read", "a", Some(&grace)), "principal"),
                (next("tools/call", "files__read", "a", None), "anonymous"),
                (next("prompts/get", "files__read", "a", Some(&ada)), "method"),
                (next("tools/call", "files__write", "a", Some(&ada)), "name"),
                (next("tools/call", "files__read", "b", Some(&ada)), "arguments"),
            ] {
                assert_eq!(opened.unwrap_err().data.unwrap()["reason"], "request_state_expired", "{case}");
            }
        }
        assert_eq!(seals.open(&round("tools/call", &call, None)).unwrap(), None);
    }

    #[test]
    fn the_state_of_a_session_opens_after_the_longest_answers() {
        let answer = mcp_server_core::Limits::default().inputs.elicitation;
        assert!(lifetime(ProtocolVersion::V2025_11_25) > 60 * answer);
        assert_eq!(lifetime(ProtocolVersion::V2026_07_28), LIFETIME);
    }

    #[test]
    fn each_node_with_the_keys_opens_a_state_and_a_foreign_text_does_not_open() {
        let call = json!({ "name": "t" });
        let first = round("tools/call", &call, None);
        let [state, ..] = states();
        let sealed = Seals::new(StateKeys::new([[7; 32]])).seal(&state, LIFETIME, first.binding()).unwrap();
        let opened = |keys: StateKeys, sealed: &str| {
            Seals::new(keys).open(&round("tools/call", &json!({ "name": "t", "requestState": sealed }), None))
        };
        assert_eq!(opened(StateKeys::new([[7; 32]]), &sealed).unwrap(), Some(state));
        let foreign = StateKeys::new([[7; 32]]).seal_text("7", LIFETIME, first.binding()).unwrap();
        for (keys, text) in [([8; 32], &*sealed), ([7; 32], &foreign), ([7; 32], "state")] {
            let error = opened(StateKeys::new([keys]), text).unwrap_err();
            assert_eq!(error.data.unwrap()["reason"], "request_state_expired", "{text}");
        }
    }
}
