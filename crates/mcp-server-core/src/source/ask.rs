//! Input requests of a source in a session: their form, the capability that they need, and their answers.

use std::{future::poll_fn, task::Poll, time::Duration};

use mcp_protocol::{
    ClientCapabilities, CreateMessageParams, ElicitParams, InputRequest, InputRequests, InputRequiredResult,
    JsonObject, Method as _, ProtocolVersion, RawMembers, RpcError, method, shape_object,
};
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{SourceCall, SourceResult};
use crate::{
    Session,
    context::Context,
    inputs::InputLimits,
    json, random,
    session::{OpenPage, ProgressListener},
};

/// The most input requests of one round.
const REQUESTS: usize = 64;

/// Answers the input requests of a result by requests to the client, at the same time. Returns the parameters of the next round,
/// which are the parameters of the first round with the responses.
pub(crate) async fn answer_inputs(
    call: &SourceCall,
    first: &RawValue,
    result: &SourceResult,
) -> Result<Box<RawValue>, RpcError> {
    let invalid = |_| RpcError::internal("the input requests of the source are not valid");
    let InputRequiredResult { input_requests, request_state, .. } = json::from_slice(result.json()).map_err(invalid)?;
    let requests = input_requests.unwrap_or_default();
    if requests.len() > REQUESTS || (requests.is_empty() && request_state.is_none()) {
        return Err(RpcError::internal("the input requests of the source are not valid"));
    }
    let responses = ask_all(call, requests).await?;
    // The other parameters keep their bytes, because the source can bind its state to them.
    let mut params = RawMembers::read(first.get()).map_err(invalid)?;
    let has_responses = !responses.is_empty();
    let (responses, state) =
        (to_raw_value(&responses).map_err(invalid)?, to_raw_value(&request_state).map_err(invalid)?);
    if has_responses {
        params.set("inputResponses", &responses);
    }
    if request_state.is_some() {
        params.set("requestState", &state);
    }
    RawValue::from_string(params.write()).map_err(invalid)
}

/// Sends input requests to the client in their order, and waits for all answers. The first error ends the others. Each page has an id of
/// this server.
///
/// The state of a source has one lifetime for all answers of a round. Answers that arrive one after the other could exceed it.
pub(super) async fn ask_all(call: &SourceCall, requests: InputRequests) -> Result<JsonObject, RpcError> {
    for request in requests.values() {
        call.check_input_request(request)?;
    }
    let ask = |(key, request)| (key, Box::pin(call.ask(without_page_id(request))));
    let mut waiting: Vec<_> = requests.0.into_iter().map(ask).collect();
    let mut responses = JsonObject::new();
    poll_fn(|cx| {
        let mut at = 0;
        while let Some((_, answer)) = waiting.get_mut(at) {
            match answer.as_mut().poll(cx) {
                Poll::Pending => at += 1,
                Poll::Ready(answer) => {
                    let (key, _) = waiting.remove(at);
                    responses.insert(key, answer?);
                }
            }
        }
        if waiting.is_empty() { Poll::Ready(Ok(std::mem::take(&mut responses))) } else { Poll::Pending }
    })
    .await
}

/// Sends an input request to the client of a session, and waits for the answer.
pub(super) async fn ask(
    context: &Context,
    limits: &InputLimits,
    request: InputRequest,
    listener: Option<ProgressListener>,
) -> Result<Value, RpcError> {
    let Some((session, sink, id)) = context.asking() else {
        return Err(RpcError::invalid_request(
            "input requests are a part of results here, because there is no session",
        ));
    };
    let version = context.version();
    let limit = limit_of(&request, limits, context.client_capabilities())?;
    let request = shaped(request, version)?;
    let ended = || RpcError::internal("the call has ended").with_data(serde_json::json!({ "reason": "call_ended" }));
    if context.has_ended() {
        return Err(ended());
    }
    // The user may be done before the client's response arrives.
    let page = open_page(session, &request);
    let error = tokio::select! {
        biased;
        // A call that was cancelled asks no more, also if the source waits on another task.
        () = context.cancelled() => return Err(ended()),
        answered = tokio::time::timeout(limit, session.ask_with_progress(&request, sink, id, listener)) => match answered {
            Ok(Ok(answer)) => {
                page.into_iter().for_each(OpenPage::keep);
                return Ok(answer);
            }
            Ok(Err(error)) => error.rpc().cloned().unwrap_or_else(|| RpcError::internal(error.to_string())),
            Err(_) => RpcError::internal("the client did not answer in time"),
        },
    };
    Err(error)
}

/// Removes the id of a page, which the newest form lacks. The author of a request could otherwise name the page of another author.
fn without_page_id(mut request: InputRequest) -> InputRequest {
    if let (method::Elicit::NAME, Some(Value::Object(params))) = (&*request.method, &mut request.params) {
        params.shift_remove("elicitationId");
    }
    request
}

/// Removes the token of the author of a request from its metadata. It could be that of another request of the session.
fn remove_progress_token(params: &mut JsonObject) {
    let Some(Value::Object(meta)) = params.get_mut("_meta") else { return };
    if meta.shift_remove("progressToken").is_some() && meta.is_empty() {
        params.shift_remove("_meta");
    }
}

/// Returns the page of a URL, about whose completion the session can be notified.
fn open_page<'a>(session: &'a Session, request: &InputRequest) -> Option<OpenPage<'a>> {
    let id = request.params.as_ref().and_then(|params| params.get("elicitationId")?.as_str());
    let id = id.filter(|_| request.method == method::Elicit::NAME)?;
    Some(session.open_page(id.to_owned()))
}

/// Checks that the client declared the capability of an input request.
pub(super) fn check_declared(request: &InputRequest, declared: &ClientCapabilities) -> Result<(), RpcError> {
    limit_of(request, &InputLimits::default(), declared).map(drop)
}

/// Returns the time for the answer to an input request.
///
/// # Errors
/// `-32601` if the client did not declare the capability, or if the method is not an input request.
fn limit_of(request: &InputRequest, limits: &InputLimits, declared: &ClientCapabilities) -> Result<Duration, RpcError> {
    let has = |name: &str| request.params.as_ref().is_some_and(|params| params.get(name).is_some());
    let is_url = request.params.as_ref().is_some_and(|params| params.get("mode").is_some_and(|mode| mode == "url"));
    let (is_declared, limit) = match &*request.method {
        method::Elicit::NAME if is_url => (declared.supports_url_elicitation(), limits.elicitation),
        method::Elicit::NAME => (declared.supports_form_elicitation(), limits.elicitation),
        method::CreateMessage::NAME if has("tools") => (declared.supports_sampling_tools(), limits.sampling),
        method::CreateMessage::NAME => (declared.supports_sampling(), limits.sampling),
        method::ListRoots::NAME => (declared.supports_roots(), limits.roots),
        _ => (false, Duration::ZERO),
    };
    match is_declared {
        true => Ok(limit),
        false => {
            let has_other_mode = declared.elicitation.is_some() && request.method == method::Elicit::NAME;
            let mode = match is_url {
                true if has_other_mode => " in URL mode",
                false if has_other_mode => " in form mode",
                _ => "",
            };
            let text = format!("the client does not support this input request: {}{mode}", request.method);
            Err(RpcError::new(mcp_protocol::ErrorCode::METHOD_NOT_FOUND, text))
        }
    }
}

/// Returns an input request in the form of a session's revision.
fn shaped(request: InputRequest, version: ProtocolVersion) -> Result<InputRequest, RpcError> {
    let invalid = |error: serde_json::Error| RpcError::internal(format!("an input request is not valid: {error}"));
    let InputRequest { method, params, .. } = request;
    let mut params: JsonObject = params.map(serde_json::from_value).transpose().map_err(invalid)?.unwrap_or_default();
    remove_progress_token(&mut params);
    match &*method {
        method::Elicit::NAME => {
            shape_object::<ElicitParams>(&mut params, version).map_err(invalid)?;
            let is_url = params.get("mode").is_some_and(|mode| mode == "url");
            if is_url && version.has_elicitation_complete() && params.get("elicitationId").is_none_or(Value::is_null) {
                params.insert("elicitationId".to_owned(), random::id()?.into());
            }
            if !version.has_elicitation_modes() {
                params.shift_remove("mode");
            }
        }
        method::CreateMessage::NAME => {
            shape_object::<CreateMessageParams>(&mut params, version).map_err(invalid)?;
        }
        _ => {}
    }
    Ok(InputRequest::new(method, Some(params.into())))
}
