//! Input requests that a server returns as a result, and the responses of the client to them.

use mcp_client::InputRequired;
use mcp_protocol::{JsonObject, ProtocolVersion};
use mcp_server_core::source::{SourceOutcome, SourceResult};

use super::members::Members;

/// The responses of the client to the input requests of the former round.
#[derive(Debug)]
pub(super) struct Responses {
    pub(super) responses: JsonObject,
    pub(super) state: Option<String>,
}

impl Responses {
    /// Takes the responses out of the parameters of a request; `None` in the first round.
    pub(super) fn take(params: &mut Members<'_>) -> Option<Self> {
        let has_responses = params.get("inputResponses").is_some() || params.get("requestState").is_some();
        let responses = params.decode("inputResponses").unwrap_or_default();
        let state = params.decode("requestState");
        params.remove("inputResponses");
        params.remove("requestState");
        has_responses.then_some(Self { responses, state })
    }
}

/// Returns the input requests of a server for the client.
pub(super) fn outcome(asked: &InputRequired) -> SourceOutcome {
    SourceOutcome::InputRequired(SourceResult::new(asked.bytes().clone(), ProtocolVersion::LATEST))
}
