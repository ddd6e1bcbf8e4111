//! Texts of an application that travel through the client as request states, for example those of a relay.

use std::{fmt, time::Duration};

use mcp_protocol::RpcError;

use super::{
    InputRound,
    seal::{Effects, StateKeys},
};

/// The principal, the method, and the parameters that a request state belongs to ([`InputRound::binding`](super::InputRound::binding)).
///
/// See the example of [`StateKeys::seal_text`].
#[derive(Clone, PartialEq, Eq)]
pub struct StateBinding(pub(super) Vec<u8>);

impl StateBinding {
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for StateBinding {
    /// Omits the parameters, which may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateBinding").finish_non_exhaustive()
    }
}

impl StateKeys {
    /// Seals a text as a request state. The text opens with an equal binding only, and only during its lifetime.
    ///
    /// The client receives the text encrypted. All nodes of a fleet with the same keys can open it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_server_core::{InputRound, StateKeys};
    /// use serde_json::{json, value::to_raw_value};
    ///
    /// let keys = StateKeys::random()?;
    /// let call = json!({ "name": "book", "arguments": { "seat": 7 } });
    /// let first = InputRound::read("tools/call", Some(&to_raw_value(&call)?), None)?;
    /// let sealed = keys.seal_text("upstream", Duration::from_secs(600), first.binding())?;
    ///
    /// let next = json!({ "name": "book", "arguments": { "seat": 7 }, "requestState": sealed });
    /// let next = InputRound::read("tools/call", Some(&to_raw_value(&next)?), None)?;
    /// assert_eq!(keys.open_text(&sealed, next.binding())?, "upstream");
    ///
    /// let other = json!({ "name": "book", "arguments": { "seat": 8 } });
    /// let other = InputRound::read("tools/call", Some(&to_raw_value(&other)?), None)?;
    /// let error = keys.open_text(&sealed, other.binding()).unwrap_err();
    /// assert_eq!(error.data.unwrap()["reason"], "request_state_expired");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `-32603` when the system has no random numbers.
    pub fn seal_text(&self, text: &str, lifetime: Duration, binding: &StateBinding) -> Result<String, RpcError> {
        // The call can have had an effect at another server, so the client does not start it anew.
        self.seal_value(&text, Effects::Possible, lifetime, binding.as_bytes())
    }

    /// Opens a text of [`StateKeys::seal_text`].
    ///
    /// See the example of [`StateKeys::seal_text`].
    ///
    /// # Errors
    /// `-32602` with the reason `request_state_expired` for each fault: a foreign key, another binding, the end of the lifetime,
    /// or a state of a registered handler.
    pub fn open_text(&self, sealed: &str, binding: &StateBinding) -> Result<String, RpcError> {
        self.open_value(sealed, binding.as_bytes()).ok_or_else(InputRound::state_expired)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::inputs::seal::{Flow, StoredFlow};

    const LIFETIME: Duration = Duration::from_secs(60);

    #[test]
    fn opens_a_text_only_with_its_binding_and_within_its_lifetime() {
        let keys = StateKeys::new([[1; 32]]);
        let (mine, yours) = (StateBinding(b"mine".to_vec()), StateBinding(b"yours".to_vec()));
        let text = "\"quoted\" \u{0} \u{1f600}";
        let sealed = keys.seal_text(text, LIFETIME, &mine).unwrap();
        assert_eq!(keys.open_text(&sealed, &mine).unwrap(), text);
        let lapsed = keys.seal_text(text, Duration::ZERO, &mine).unwrap();
        let foreign = StateKeys::new([[2; 32]]);
        for (opened, case) in [
            (keys.open_text(&sealed, &yours), "binding"),
            (keys.open_text(&lapsed, &mine), "lifetime"),
            (foreign.open_text(&sealed, &mine), "key"),
            (keys.open_text("state", &mine), "text"),
        ] {
            let data = opened.unwrap_err().data;
            assert_eq!(data, Some(json!({ "reason": "request_state_expired", "canRestart": false })), "{case}");
        }
    }

    #[test]
    fn a_text_is_not_the_state_of_a_handler() {
        let keys = StateKeys::new([[1; 32]]);
        let binding = StateBinding(b"mine".to_vec());
        let flow = StoredFlow::Inline(Flow { id: "f".into(), ..Flow::default() });
        let state = keys.seal(&flow, Effects::None, LIFETIME, binding.as_bytes()).unwrap();
        assert!(keys.open_text(&state, &binding).is_err());
        let written: Value = serde_json::to_value(&flow).unwrap();
        let sealed = keys.seal_text(&written.to_string(), LIFETIME, &binding).unwrap();
        assert_eq!(keys.open(&sealed, binding.as_bytes(), 4096), None);
    }
}
