//! Brings a request to its end: over lost connections where that is safe, through the questions of the server, within its time.

use std::{
    collections::BTreeMap,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use mcp_protocol::{
    InputRequests, InputRequiredResult, JsonObject, LoggingLevel, Meta, Method, ProgressParams, ProtocolVersion,
    ResultType, RpcError, method, tasks,
};
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Answered, Cache, exchange, url_elicitation::Pages};
use crate::{
    Error,
    connection::{Agreed, Inputs, Link, Request, Shared, Ticket},
    error::Kind,
    inbound::Asker,
};

/// How one call is made.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) idle: Option<Duration>,
    pub(crate) total: Option<Duration>,
    pub(crate) wants_progress: bool,
    pub(crate) on_progress: Option<Box<dyn FnMut(ProgressParams) + Send>>,
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) meta: Option<Meta>,
    pub(crate) cancel: Option<CancellationToken>,
    /// What is cached does not count.
    pub(crate) is_fresh: bool,
}

/// A result as it came.
#[derive(Clone)]
pub(crate) struct Reply {
    pub(crate) bytes: Bytes,
    pub(crate) method: Box<str>,
    /// What the request was about.
    pub(crate) name: Option<Box<str>>,
    pub(crate) version: ProtocolVersion,
    /// Whether the transport mirrors arguments in headers.
    pub(crate) is_mirrored: bool,
    /// What the request became instead of having a result.
    pub(crate) task: Option<tasks::Task>,
}

impl Reply {
    pub(crate) fn new(bytes: Bytes, request: &Request, link: &Link, agreed: &Agreed) -> Self {
        let version = agreed.negotiated.version;
        Self {
            bytes,
            method: (*request.method).into(),
            name: request.name.clone(),
            version,
            is_mirrored: version.has_mirrored_headers() && link.sender.has_request_streams(),
            task: None,
        }
    }

    /// The result of the method.
    pub(crate) fn read<R: DeserializeOwned>(&self) -> Result<R, Error> {
        // A derived reader would take an array for the members in their order.
        if !self.bytes.starts_with(b"{") {
            return Err(Error::invalid(format!("the result of {} is not an object", self.method)));
        }
        serde_json::from_slice(&self.bytes)
            .map_err(|error| Error::invalid(format!("the result of {}: {error}", self.method)))
    }
}

/// Sends a request and brings it to its end, also when it becomes a task.
pub(crate) async fn drive(shared: &Arc<Shared>, request: Request, mut options: Options) -> Result<Reply, Error> {
    let name = request.name.clone();
    let token = options.cancel.take();
    let work = pin!(async {
        let (reply, ticket) = rounds(shared, request, &mut options).await?;
        match &reply.task {
            // Most calls become none, and a future is as large as the largest that it may become.
            Some(task) => Box::pin(super::tasks::finish(shared, task, name, ticket, options)).await,
            None => Ok(reply),
        }
    });
    until_cancelled(token, work).await
}

/// Sends a request until it is done or has become a task, with the ticket that hears of its progress.
pub(crate) async fn start(
    shared: &Arc<Shared>,
    request: Request,
    options: &mut Options,
) -> Result<(Reply, Option<Ticket>), Error> {
    until_cancelled(options.cancel.take(), pin!(rounds(shared, request, options))).await
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
    shared: &Arc<Shared>,
    request: Request,
    options: &mut Options,
) -> Result<(Reply, Option<Ticket>), Error> {
    let mut inputs = None;
    let mut asked = 0;
    let mut caching = None;
    if shared.config.caches && Cache::takes(&request.method) {
        match shared.cache.find(&request) {
            Ok(reply) if !options.is_fresh => return Ok((reply, None)),
            Ok(_) => {
                // Asked for anew: what is kept is not believed any more.
                shared.cache.forget(&request.method);
                caching = shared.cache.find(&request).err();
            }
            Err(note) => caching = Some(note),
        }
    }
    let mut pages = Pages::default();
    loop {
        let answered = match exchange(shared, &request, inputs.as_ref(), options).await {
            Err(error) if error.is_url_elicitation_required() => {
                asked += 1;
                if asked > shared.config.limits.rounds || !pages.visit(shared, &error, options).await? {
                    return Err(error);
                }
                continue;
            }
            answered => answered?,
        };
        let Answered { mut reply, link, may_be_task, ticket } = answered;
        let kind = if reply.version.has_result_type() { kind(&reply)? } else { ResultType::Complete };
        match kind {
            ResultType::Complete => {
                // What answers made of it is not for everybody who asks.
                if let Some(note) = caching.filter(|_| asked == 0 && reply.version.has_cache_hints()) {
                    shared.cache.keep(&request, &reply, note);
                }
                if may_be_task && reply.version.has_core_tasks() {
                    reply.task = created(&reply);
                }
                return Ok((reply, ticket));
            }
            ResultType::Task if may_be_task => {
                reply.task = Some(reply.read::<tasks::ext::CreateTaskResult>()?.task.into());
                return Ok((reply, ticket));
            }
            ResultType::InputRequired if may_ask(&request.method) => {
                asked += 1;
                if asked > shared.config.limits.rounds {
                    return Err(Kind::Rounds(shared.config.limits.rounds).into());
                }
                inputs = Some(answer(shared, &link, reply.read()?).await?);
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
pub(crate) async fn answer(shared: &Shared, link: &Arc<Link>, result: InputRequiredResult) -> Result<Inputs, Error> {
    let InputRequiredResult { input_requests, request_state, .. } = result;
    let questions: InputRequests = input_requests.unwrap_or_default();
    if questions.len() > shared.config.limits.questions {
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
        let limit = shared.config.limits.question;
        let question = shared.config.handlers.question(&question.method, params.as_deref(), Asker::on(link), limit);
        answering.spawn(async move { (key, question.answer().await) });
    }
    let mut answers = BTreeMap::new();
    while let Some(answered) = answering.join_next().await {
        let Ok((key, answer)) = answered else { return Err(Error::closed()) };
        answers.insert(key, answer.map_err(Kind::Input)?);
    }
    let responses: JsonObject = answers.into_iter().collect();
    Ok(Inputs { responses: (!responses.is_empty()).then_some(responses), state: request_state })
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
        let size = size(|shared: &'static Arc<Shared>, request, options| drive(shared, request, options));
        assert!(size <= 5 * 1024, "{size}");
    }
}
