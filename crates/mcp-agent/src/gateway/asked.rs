//! The rounds of a call: the responses of the client to input requests, and the sealed state between two rounds.

use std::sync::Arc;

use mcp_client::InputRequired;
use mcp_protocol::{
    CreateMessageParams, ElicitParams, Excerpt, InputRequest, InputRequests, JsonObject, Method as _, ProtocolVersion,
    RpcError, SamplingMessage, method, shape_object,
};
use mcp_server_core::{
    InputRound,
    source::{SourceCall, SourceOutcome, SourceResult},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Core,
    fault::Fault,
    fleet::{self, Elsewhere},
    members::{Members, check_names},
    parked::{Holder, Parkable, ParkedError, ParkedRound, Questions, Refused},
    relay::{Answered, Relayed},
    rounds::RoundRecord,
    seal::RelayState,
    used::{self, StateId},
};

/// The longest part of the key of an input request in an error.
const KEY: usize = 64;

/// The result of a parked call.
pub(super) type ParkedResult = Result<Relayed, Fault>;

impl Parkable for ParkedResult {
    fn bytes(&self) -> usize {
        match self {
            Ok(Relayed::Complete { result, .. }) => result.json().len(),
            Ok(Relayed::InputRequired { required, .. }) => required.bytes().len(),
            Ok(Relayed::Task { created, .. }) => created.result().bytes().len(),
            Err(Fault::Rpc(error)) => bytes(error),
            Err(Fault::Request { error, .. }) => error.rpc().map_or(0, bytes),
            // These errors contain texts of the gateway.
            Err(Fault::Call(_) | Fault::Hidden) => 0,
        }
    }
}

/// Returns the size of an error of a server, in bytes.
fn bytes(error: &RpcError) -> usize {
    error.message.len() + error.data.as_ref().map_or(0, |data| data.to_string().len())
}

/// A later round of a call: the client has seen an input request of the call.
#[derive(Debug)]
pub(super) enum Round {
    /// A stateless server waits for this round.
    Upstream { place: Place, fingerprint: String, once: Option<StateId>, responses: JsonObject, state: Option<String> },
    /// The call of a server with sessions waits for this round.
    Parked { place: Place, call: u64, number: u32, responses: JsonObject },
    /// The call waits at another node of the fleet.
    Elsewhere { place: Place, at: Elsewhere, responses: JsonObject },
}

impl Round {
    /// Returns the server of the call, and the name of its item there.
    pub(super) fn place(&self) -> &Place {
        match self {
            Self::Parked { place, .. } | Self::Elsewhere { place, .. } | Self::Upstream { place, .. } => place,
        }
    }
}

/// A server, and the name of an item there.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) server: Arc<str>,
    pub(super) name: Box<str>,
}

impl Core {
    /// Returns the round of a call; `None` for the first one.
    ///
    /// # Errors
    /// The error of a state that does not open, or that belongs to another node.
    pub(super) fn round(&self, call: &SourceCall, params: &Members<'_>) -> Result<Option<Round>, RpcError> {
        // Each input request of the gateway has a state.
        if params.get("requestState").is_none() {
            return Ok(None);
        }
        let round = call.round()?;
        let Some(state) = self.seals(call)?.open(&round)? else { return Ok(None) };
        Ok(Some(match state {
            RelayState::Upstream { server, name, fingerprint, is_approved, state } => {
                let once = round.request_state().filter(|_| is_approved).map(used::id_of);
                let place = Place { server: server.into(), name: name.into() };
                Round::Upstream { place, fingerprint, once, responses: round.into_responses(), state }
            }
            RelayState::Parked { node, call, number, server, name, .. } if node == self.hop.as_str() => {
                let place = Place { server: server.into(), name: name.into() };
                Round::Parked { place, call, number, responses: round.into_responses() }
            }
            RelayState::Parked { node: gateway, lease: Some(lease), call, number, server, name } => {
                let place = Place { server: server.into(), name: name.into() };
                let at = Elsewhere { gateway, lease, call, number };
                Round::Elsewhere { place, at, responses: round.into_responses() }
            }
            RelayState::Parked { lease: None, .. } => return Err(fleet::other_node()),
        }))
    }

    /// Continues a parked call whose round is recorded. The call can end during the record, and a refusal is recorded then.
    pub(super) async fn resume_parked(
        self: &Arc<Self>,
        call: &SourceCall,
        place: &Place,
        (parked, holder): (u64, &Holder),
        number: u32,
        responses: JsonObject,
        record: &mut RoundRecord<'_>,
    ) -> Result<SourceOutcome, Fault> {
        let round = self.parked.resume(parked, holder, number, responses, call.clone()).await;
        if round.is_err() {
            record.refuse();
        }
        self.parked_outcome(call, place, round).await
    }

    /// Returns the outcome of a round of a parked call.
    pub(super) async fn parked_outcome(
        self: &Arc<Self>,
        call: &SourceCall,
        place: &Place,
        round: Result<ParkedRound<ParkedResult>, ParkedError>,
    ) -> Result<SourceOutcome, Fault> {
        match round {
            Ok(ParkedRound::Complete(result)) => Ok(self.outcome(call, result?)?),
            Ok(ParkedRound::Asked { call: parked, number, requests }) => {
                let (server, name) = (place.server.to_string(), place.name.to_string());
                let (node, lease) = (self.hop.as_str().to_owned(), self.lease_for_rounds(call).await);
                let state = RelayState::Parked { node, lease, call: parked, number, server, name };
                Ok(self.asked(call, Some(&requests), &state)?)
            }
            Err(error) => Err(parked_error(&error).into()),
        }
    }

    /// Returns the outcome of a request at a server for the client.
    pub(super) fn outcome(self: &Arc<Self>, call: &SourceCall, relayed: Relayed) -> Result<SourceOutcome, RpcError> {
        match relayed {
            Relayed::Complete { server, result } => {
                self.learn_links(call, call.method(), &server, result.json());
                Ok(SourceOutcome::Complete(result))
            }
            Relayed::InputRequired { place, fingerprint, is_approved, required } => {
                self.required(call, &place, &fingerprint, is_approved, &required)
            }
            Relayed::Task { server, tool, fingerprint, process, created, upstream } => {
                self.created_task(call, (&server, tool, fingerprint, process), &created, &upstream)
            }
        }
    }

    /// Returns the input requests of a stateless server for the client, with the state of the server under a seal.
    fn required(
        &self,
        call: &SourceCall,
        place: &Place,
        fingerprint: &str,
        is_approved: bool,
        required: &InputRequired,
    ) -> Result<SourceOutcome, RpcError> {
        if let Some(requests) = &required.result().input_requests {
            check_declared(call, &place.server, requests)?;
            let version = call.context().version();
            if !version.has_input_required() {
                check_form(&place.server, requests, version)?;
            }
        }
        let state = RelayState::Upstream {
            server: place.server.to_string(),
            name: place.name.to_string(),
            fingerprint: fingerprint.to_owned(),
            is_approved,
            state: required.result().request_state.clone(),
        };
        let json = std::str::from_utf8(required.bytes()).ok().and_then(|json| Members::read(json).ok());
        let is_plain = |members: &Members<'_>| {
            members.get("inputRequests").is_none_or(|requests| check_names(requests.get()).is_ok())
        };
        let json = json.filter(is_plain);
        // The client receives the requests that the gateway checked.
        let Some(mut members) = json else {
            return self.asked(call, required.result().input_requests.as_ref(), &state);
        };
        members.set("requestState", &self.seals(call)?.seal_for(call, &state)?);
        let json = members.write().get().to_owned();
        Ok(SourceOutcome::InputRequired(SourceResult::new(json, ProtocolVersion::LATEST)))
    }

    pub(super) fn asked(
        &self,
        call: &SourceCall,
        requests: Option<&InputRequests>,
        state: &RelayState,
    ) -> Result<SourceOutcome, RpcError> {
        let sealed = self.seals(call)?.seal_for(call, state)?;
        let mut result = json!({ "resultType": "input_required", "requestState": sealed });
        if let Some(requests) = requests {
            result["inputRequests"] = json!(requests);
        }
        Ok(SourceOutcome::InputRequired(SourceResult::new(result.to_string(), ProtocolVersion::LATEST)))
    }
}

/// Checks that the client declared the capabilities for the input requests of a server.
pub(super) fn check_declared(call: &SourceCall, server: &str, requests: &InputRequests) -> Result<(), RpcError> {
    requests.0.iter().try_for_each(|(key, request)| {
        call.check_input_request(request).map_err(|error| {
            tracing::warn!(server, key, %error, "a server sent an input request that its client cannot answer");
            let text = format!("the server {server:?} sent an input request that the client did not declare");
            RpcError::internal(text).with_data(json!({ "server": server, "retryable": false }))
        })
    })
}

/// Checks that a session of a revision can receive the input requests of a server. They change their form for it.
fn check_form(server: &str, requests: &InputRequests, version: ProtocolVersion) -> Result<(), RpcError> {
    requests.0.iter().try_for_each(|(key, request)| {
        let params = request.params.clone().map(serde_json::from_value).transpose();
        let checked = params.map(Option::unwrap_or_default).and_then(|mut params| match &*request.method {
            method::Elicit::NAME => shape_object::<ElicitParams>(&mut params, version),
            method::CreateMessage::NAME => shape_object::<CreateMessageParams>(&mut params, version),
            _ => Ok(()),
        });
        checked.map_err(|error| {
            tracing::warn!(server, key, %error, "an input request of a server is not valid");
            let (key, fault) = (Excerpt::new(key).with_limit(KEY), form_fault(request));
            RpcError::internal(format!("the input request {key:?} of the server {server:?} is not valid: {fault}"))
                .with_data(json!({ "server": server, "retryable": false }))
        })
    })
}

/// Returns the member of an input request without its form, and the expected form.
fn form_fault(request: &InputRequest) -> &'static str {
    fn is<T: DeserializeOwned>(value: &Value) -> bool {
        T::deserialize(value).is_ok()
    }
    let Some(Value::Object(params)) = &request.params else { return "`params` must be a JSON object" };
    let has = |name: &str, is: fn(&Value) -> bool| params.get(name).is_some_and(is);
    let is_form = params.get("mode").is_none_or(|mode| mode == "form");
    match &*request.method {
        method::Elicit::NAME if !has("message", Value::is_string) => "`message` must be a string",
        method::Elicit::NAME if !is_form && params.get("mode").is_some_and(|mode| mode != "url") => {
            "`mode` must be \"form\" or \"url\""
        }
        method::Elicit::NAME if is_form && !has("requestedSchema", Value::is_object) => {
            "`requestedSchema` must be a JSON object"
        }
        method::Elicit::NAME if !is_form && !has("url", Value::is_string) => "`url` must be a string",
        method::CreateMessage::NAME if !has("messages", is::<Vec<SamplingMessage>>) => {
            "`messages` must be a list of messages with a `role` and a `content`"
        }
        method::CreateMessage::NAME if !has("maxTokens", Value::is_number) => "`maxTokens` must be a number",
        _ => "an optional member has another type than the specification names",
    }
}

/// Returns the error of a round for its client.
pub(super) fn parked_error(error: &ParkedError) -> RpcError {
    match error {
        ParkedError::Gone => InputRound::state_expired(),
        ParkedError::Dropped => RpcError::internal(error.to_string()),
        ParkedError::Answered { .. } | ParkedError::Invalid { .. } => RpcError::invalid_params(error.to_string()),
    }
}

/// Parks the call of a question, and waits for the response of a later round. `is_of_any_call`: another call of the client can have
/// caused the question.
pub(super) async fn park(
    questions: &Questions<ParkedResult, SourceCall>,
    request: InputRequest,
    is_of_any_call: bool,
) -> Result<Value, RpcError> {
    questions.ask(request, is_of_any_call).await.map_err(|refused: Refused| {
        let error = RpcError::internal(refused.to_string());
        // Another call of the client then asks, if it can have caused the question.
        if refused == Refused::Ended { error.with_data(json!({ "reason": "call_ended" })) } else { error }
    })
}

/// Whether a client answers the input requests of a server with sessions in later rounds.
pub(super) fn parks(call: &SourceCall, answered: &Answered, server: ProtocolVersion) -> bool {
    // The result of another method cannot contain input requests.
    let has_rounds = [method::CallTool::NAME, method::ReadResource::NAME, method::GetPrompt::NAME];
    has_rounds.contains(&call.method())
        && call.context().version().has_input_required()
        && !server.has_input_required()
        && answered.can_be_asked()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fault_of_an_input_request_names_the_member_and_its_form() {
        let (elicit, sample) = (method::Elicit::NAME, method::CreateMessage::NAME);
        for (method, params, expected) in [
            (elicit, Value::Null, "`params` must be a JSON object"),
            (elicit, json!({ "message": 7 }), "`message` must be a string"),
            (elicit, json!({ "message": "?", "mode": "voice" }), "`mode` must be \"form\" or \"url\""),
            (elicit, json!({ "message": "?", "requestedSchema": [] }), "`requestedSchema` must be a JSON object"),
            (elicit, json!({ "message": "?", "mode": "url" }), "`url` must be a string"),
            (
                sample,
                json!({ "messages": [{ "role": "x" }] }),
                "`messages` must be a list of messages with a `role` and a `content`",
            ),
            (sample, json!({ "messages": [], "maxTokens": "1" }), "`maxTokens` must be a number"),
            (
                sample,
                json!({ "messages": [], "maxTokens": 1, "stopSequences": 1 }),
                "an optional member has another type than the specification names",
            ),
        ] {
            let request = InputRequest::new(method, (!params.is_null()).then(|| params.clone()));
            assert_eq!(form_fault(&request), expected, "{method} {params}");
        }
    }
}
