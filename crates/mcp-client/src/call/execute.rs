//! Brings a request to its end: over lost connections where that is safe, through the questions of the server, within its time.

use std::{
    collections::BTreeMap,
    pin::{Pin, pin},
    sync::Arc,
};

use mcp_protocol::{InputRequests, InputRequiredResult, JsonObject, Method, ResultType, RpcError, method, tasks};
use serde_json::value::{RawValue, to_raw_value};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{
    Answer, CallOptions, ClientCore, Reply, ResultCache, send_until_answered, url_elicitation::UrlElicitations,
};
use crate::{
    Error,
    connection::{Connection, InputResponses, Request, RequestGuard},
    error::Kind,
    inbound::RequestSource,
};

/// Sends a request and brings it to its end, also when it becomes a task.
pub(crate) async fn execute(
    core: &Arc<ClientCore>,
    request: Request,
    mut options: CallOptions,
) -> Result<Reply, Error> {
    let name = request.name.clone();
    let token = options.cancel.take();
    let work = pin!(async {
        let (reply, guard) = rounds(core, request, &mut options).await?;
        match &reply.task {
            // Most calls become none, and a future is as large as the largest that it may become.
            Some(task) => Box::pin(super::tasks::finish(core, task, name, guard, options)).await,
            None => Ok(reply),
        }
    });
    until_cancelled(token, work).await
}

/// Sends a request until it is done or has become a task, with the guard that hears of its progress.
pub(crate) async fn execute_or_start_task(
    core: &Arc<ClientCore>,
    request: Request,
    options: &mut CallOptions,
) -> Result<(Reply, Option<RequestGuard>), Error> {
    until_cancelled(options.cancel.take(), pin!(rounds(core, request, options))).await
}

async fn until_cancelled<T>(
    token: Option<CancellationToken>,
    work: Pin<&mut impl Future<Output = Result<T, Error>>>,
) -> Result<T, Error> {
    let Some(token) = token else { return work.await };
    tokio::select! {
        biased;
        () = token.cancelled() => Err(Kind::Cancelled.into()),
        done = work => done,
    }
}

/// Answers what the server asks by its results, and asks again, until there is a result.
async fn rounds(
    core: &Arc<ClientCore>,
    request: Request,
    options: &mut CallOptions,
) -> Result<(Reply, Option<RequestGuard>), Error> {
    let mut inputs = None;
    let mut asked = 0;
    let mut caching = None;
    if core.config.caches && ResultCache::takes(&request.method) {
        match core.inbound.cache.find(&request) {
            Ok(reply) if !options.is_fresh => return Ok((reply, None)),
            Ok(_) => {
                // Asked for anew: what is kept is not believed any more.
                core.inbound.cache.forget(&request.method);
                caching = core.inbound.cache.find(&request).err();
            }
            Err(note) => caching = Some(note),
        }
    }
    let mut pages = UrlElicitations::default();
    loop {
        let answered = match send_until_answered(core, &request, inputs.as_ref(), options).await {
            Err(error) if error.is_url_elicitation_required() => {
                asked += 1;
                if asked > core.config.limits.rounds || !pages.visit(core, &error, options).await? {
                    return Err(error);
                }
                continue;
            }
            answered => answered?,
        };
        let Answer { mut reply, connection, may_be_task, guard } = answered;
        let kind = if reply.version.has_result_type() { kind(&reply)? } else { ResultType::Complete };
        match kind {
            ResultType::Complete => {
                // What answers made of it is not for everybody who asks.
                if let Some(note) = caching.filter(|_| asked == 0 && reply.version.has_cache_hints()) {
                    core.inbound.cache.keep(&request, &reply, note);
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
            ResultType::InputRequired if may_ask(&request.method) => {
                asked += 1;
                if asked > core.config.limits.rounds {
                    return Err(Kind::Rounds(core.config.limits.rounds).into());
                }
                inputs = Some(answer_inputs(core, &connection, reply.read()?).await?);
            }
            other => {
                let word: String = other.as_str().chars().take(64).collect();
                return Err(Error::invalid(format!("the result of {} is of the kind {word:?}", request.method)));
            }
        }
    }
}

/// The task that a result of 2025-11-25 shows; there a server may also take no notice of being asked for one.
fn created(reply: &Reply) -> Option<tasks::Task> {
    reply.read::<tasks::CreateTaskResult>().ok().map(|created| created.task)
}

/// The kind of a result of a revision that tells them apart.
fn kind(reply: &Reply) -> Result<ResultType, Error> {
    if reply.bytes.starts_with(br#"{"resultType":"complete""#) {
        return Ok(ResultType::Complete);
    }
    let invalid = |text: String| Error::invalid(format!("the result of {}: {text}", reply.method));
    let raw: &RawValue = serde_json::from_slice(&reply.bytes).map_err(|error| invalid(error.to_string()))?;
    ResultType::of(raw).map_err(|error| invalid(error.message))
}

/// Whether the server may answer a request with questions.
fn may_ask(method: &str) -> bool {
    matches!(method, method::CallTool::NAME | method::GetPrompt::NAME | method::ReadResource::NAME)
        || !method::is_known(method)
}

/// Answers all questions of a result. They are asked at the same time; when one has no answer, the call has none.
pub(crate) async fn answer_inputs(
    core: &ClientCore,
    connection: &Arc<Connection>,
    result: InputRequiredResult,
) -> Result<InputResponses, Error> {
    let InputRequiredResult { input_requests, request_state, .. } = result;
    let questions: InputRequests = input_requests.unwrap_or_default();
    if questions.len() > core.config.limits.questions {
        return Err(Error::invalid(format!("{} questions at once", questions.len())));
    }
    if questions.is_empty() && request_state.is_none() {
        return Err(Error::invalid("an input is required, and none is named"));
    }
    let mut answering = JoinSet::new();
    for (key, question) in questions.0 {
        let params =
            question.params.as_ref().map(to_raw_value).transpose().map_err(|e| Error::invalid(e.to_string()))?;
        if !matches!(
            question.method.as_str(),
            method::Elicit::NAME | method::CreateMessage::NAME | method::ListRoots::NAME
        ) {
            let error = RpcError::method_not_found(&question.method);
            return Err(Kind::Input(error).into());
        }
        let limit = core.config.limits.question;
        let question =
            core.inbound.handlers.request(&question.method, params.as_deref(), RequestSource::on(connection), limit);
        answering.spawn(async move { (key, question.answer().await) });
    }
    let mut answers = BTreeMap::new();
    while let Some(answered) = answering.join_next().await {
        let Ok((key, answer)) = answered else { return Err(Error::closed()) };
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
    fn a_call_is_a_small_future() {
        // It is copied on its way, and each call needs room for it.
        let size = size(|core: &'static Arc<ClientCore>, request, options| execute(core, request, options));
        assert!(size <= 5 * 1024, "{size}");
    }
}
