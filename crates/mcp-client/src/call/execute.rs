//! Executes a request: sends it, answers the input requests of the server, and waits for the task that it becomes.

use std::{
    collections::BTreeMap,
    mem,
    pin::{Pin, pin},
    sync::{Arc, LazyLock},
};

use mcp_protocol::{
    Excerpt, InputRequests, InputRequiredResult, JsonObject, MemberFinder, Method, ResultType, RpcError, method, tasks,
};
use serde_json::value::{RawValue, to_raw_value};
use tokio::task::JoinSet;

use super::{
    Answer, CallOptions, ClientCore, Reply, ResultCache, send_until_answered, url_elicitation::UrlElicitations,
};
use crate::{
    Error,
    connection::{Connection, InputResponses, Request, RequestGuard, RunningCall},
    error::Kind,
    inbound::{RequestSource, own_handler},
    retry,
};

/// Executes a request, and waits for its task if it becomes one.
///
/// The options and the parameters are taken if the request becomes a task, which can take long.
pub(crate) async fn execute(
    core: &Arc<ClientCore>,
    request: &mut Request,
    options: &mut CallOptions,
) -> Result<Reply, Error> {
    let cancel = options.cancel.take();
    let work = pin!(async {
        let (reply, guard) = rounds(core, request, options).await?;
        match &reply.task {
            // Most calls do not become tasks. Boxing keeps their futures small.
            Some(task) => {
                let (name, options) = (request.name.take(), mem::take(options));
                drop(mem::take(&mut request.body.text));
                Box::pin(super::tasks::finish(core, (task, reply.connection), name, guard, options)).await
            }
            None => Ok(reply),
        }
    });
    until_cancelled(cancel, work).await
}

/// Executes a request until it has a result or has become a task. The guard receives the progress of the task.
pub(crate) async fn execute_or_start_task(
    core: &Arc<ClientCore>,
    request: &Request,
    options: &mut CallOptions,
) -> Result<(Reply, Option<RequestGuard>), Error> {
    until_cancelled(options.cancel.take(), pin!(rounds(core, request, options))).await
}

async fn until_cancelled<T>(
    cancel: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    work: Pin<&mut impl Future<Output = Result<T, Error>>>,
) -> Result<T, Error> {
    let Some(cancel) = cancel else { return work.await };
    tokio::select! {
        biased;
        () = cancel => Err(Kind::Cancelled.into()),
        done = work => done,
    }
}

/// Answers the input requests in results and sends the request again, until there is a result.
async fn rounds(
    core: &Arc<ClientCore>,
    request: &Request,
    options: &mut CallOptions,
) -> Result<(Reply, Option<RequestGuard>), Error> {
    if options.questions.is_none() && (may_ask(&request.method) || options.answers.is_some()) {
        let questions =
            RunningCall::new(&request.method, request.name.as_deref(), options.answers.take().map(own_handler));
        options.questions = Some(questions);
    }
    // A round of the caller is never a cached result, because it depends on the responses.
    let mut inputs = options.resume.take().map(|inputs| *inputs);
    let mut input_rounds = 0;
    let mut caching = None;
    if core.config.caches && inputs.is_none() && ResultCache::takes(&request.method) {
        match core.inbound.cache.find(request) {
            Ok(reply) if !options.is_fresh => return Ok((reply, None)),
            Ok(_) => {
                // A fresh result was requested, so the cached ones are evicted.
                core.inbound.cache.forget(&request.method);
                caching = core.inbound.cache.find(request).err();
            }
            Err(note) => caching = Some(note),
        }
    }
    let mut pages = UrlElicitations::default();
    let mut has_restarted = false;
    loop {
        let answered = match send_until_answered(core, request, inputs.as_ref(), options).await {
            Err(error) if error.is_url_elicitation_required() => {
                input_rounds += 1;
                if input_rounds > core.config.limits.rounds || !pages.visit(core, &error, options).await? {
                    return Err(error);
                }
                continue;
            }
            Err(error) if inputs.is_some() && !options.raw_inputs && !has_restarted && retry::starts_anew(&error) => {
                tracing::debug!("the server lost the state of the call, which starts anew");
                has_restarted = true;
                inputs = None;
                continue;
            }
            // An earlier round of the call can have had an effect.
            answered if input_rounds > 0 => answered.map_err(Error::after_sending)?,
            answered => answered?,
        };
        let Answer { mut reply, connection, may_be_task, guard } = answered;
        let invalid = |text: String| Error::invalid(format!("the result of {}: {text}", reply.method));
        let has_type = reply.version.has_result_type();
        let kind = if has_type { kind(&reply.bytes).map_err(invalid)? } else { ResultType::Complete };
        match kind {
            ResultType::Complete => {
                // A result that depends on input responses is not cached.
                if let Some(note) = caching.filter(|_| input_rounds == 0 && reply.version.has_cache_hints()) {
                    core.inbound.cache.keep(request, &reply, note);
                }
                if may_be_task && reply.version.has_core_tasks() {
                    reply.task = created(&reply);
                }
                return Ok((reply, guard));
            }
            ResultType::Task if may_be_task => {
                reply.task = Some(reply.read::<tasks::ext::CreateTaskResult>()?.task.into());
                return Ok((reply, guard));
            }
            ResultType::InputRequired if options.raw_inputs && may_ask(&request.method) => {
                reply.requires_input = true;
                return Ok((reply, None));
            }
            ResultType::InputRequired if may_ask(&request.method) => {
                input_rounds += 1;
                if input_rounds > core.config.limits.rounds {
                    return Err(Kind::Rounds(core.config.limits.rounds).into());
                }
                // A close does not wait for the handlers: the request has its answer.
                drop(guard);
                inputs = Some(answer_inputs(core, &connection, reply.read()?, options.questions.as_ref()).await?);
            }
            other => {
                let word = Excerpt::new(other.as_str()).with_limit(64);
                return Err(Error::invalid(format!("the result of {} has the unknown type {word:?}", request.method)));
            }
        }
    }
}

/// Returns the task that a result contains (2025-11-25). A server may ignore the request for a task.
fn created(reply: &Reply) -> Option<tasks::Task> {
    reply.read::<tasks::CreateTaskResult>().ok().map(|created| created.task)
}

/// Returns the type of a result, in revisions that declare it.
///
/// # Errors
/// If the type is not a string, or occurs twice. Two readers could use different types.
fn kind(result: &[u8]) -> Result<ResultType, String> {
    static MEMBER: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new("resultType"));
    // Most results begin with their type, and are not parsed.
    let rest = result.strip_prefix(br#"{"resultType":"complete""#);
    if rest.is_some_and(|rest| !MEMBER.may_have(rest)) {
        return Ok(ResultType::Complete);
    }
    let raw: &RawValue = serde_json::from_slice(result).map_err(|error| error.to_string())?;
    ResultType::of(raw).map_err(|error| error.message)
}

/// Returns true if the server may answer the method with input requests.
fn may_ask(method: &str) -> bool {
    matches!(method, method::CallTool::NAME | method::GetPrompt::NAME | method::ReadResource::NAME)
        || !method::is_known(method)
}

/// Answers all input requests of a result at the same time. If a handler fails, the call fails.
pub(crate) async fn answer_inputs(
    core: &ClientCore,
    connection: &Arc<Connection>,
    result: InputRequiredResult,
    call: Option<&Arc<RunningCall>>,
) -> Result<InputResponses, Error> {
    let InputRequiredResult { input_requests, request_state, .. } = result;
    let input_requests: InputRequests = input_requests.unwrap_or_default();
    if input_requests.len() > core.config.limits.server_requests {
        return Err(Error::invalid(format!("{} input requests at once", input_requests.len())));
    }
    if input_requests.is_empty() && request_state.is_none() {
        return Err(Error::invalid("the result requires input but contains no input requests"));
    }
    let handlers = core.inbound.handlers.during(call.map(|call| &**call));
    let mut answering = JoinSet::new();
    for (key, request) in input_requests.0 {
        let params =
            request.params.as_ref().map(to_raw_value).transpose().map_err(|e| Error::invalid(e.to_string()))?;
        if !matches!(
            request.method.as_str(),
            method::Elicit::NAME | method::CreateMessage::NAME | method::ListRoots::NAME
        ) {
            let error = RpcError::method_not_found(&request.method);
            return Err(Kind::Input(error).into());
        }
        let limit = core.config.limits.server_request_timeout;
        let source = RequestSource::on(connection).during(call);
        let request = handlers.request(&request.method, params.as_deref(), source, limit);
        answering.spawn(async move { (key, request.answer().await) });
    }
    let mut answers = BTreeMap::new();
    while let Some(answered) = answering.join_next().await {
        let Ok((key, answer)) = answered else { return Err(Error::closed().after_sending()) };
        answers.insert(key, answer.map_err(Kind::Input)?);
    }
    let responses: JsonObject = answers.into_iter().collect();
    Ok(InputResponses { responses: (!responses.is_empty()).then_some(responses), state: request_state })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, C, F: Future>(_: impl FnOnce(A, B, C) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_result_has_one_type() {
        for (result, expected) in [
            (r#"{"resultType":"complete","content":[]}"#, Ok(ResultType::Complete)),
            (r#"{"resultType":"complete","structuredContent":{"resultType":"task"}}"#, Ok(ResultType::Complete)),
            (
                r#"{"resultType":"complete","content":[{"type":"text","text":"\"resultType\" \u0041"}]}"#,
                Ok(ResultType::Complete),
            ),
            (r#"{"result\u0054ype":"task"}"#, Ok(ResultType::Task)),
            (r#"{"resultType":"complete","resultType":"input_required","requestState":"x"}"#, Err(())),
            (r#"{"resultType":"complete","x":1,"result\u0054ype":"input_required"}"#, Err(())),
            (r#"{"resultType":"complete","resultType":"complete"}"#, Err(())),
        ] {
            assert_eq!(kind(result.as_bytes()).map_err(drop), expected, "{result}");
        }
    }

    #[test]
    fn the_future_of_a_call_is_small() {
        // Each call copies its future and needs memory for it.
        let size =
            size(|core: &'static Arc<ClientCore>, request: &'static mut Request, options: &'static mut CallOptions| {
                execute(core, request, options)
            });
        assert!(size <= 3 * 1024, "{size}");
    }
}
