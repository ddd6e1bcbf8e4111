//! Brings a request to its end: over lost connections where that is safe, through the questions of the server, within its time.

use std::{collections::BTreeMap, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use mcp_protocol::{
    ErrorCode, InputRequests, InputRequiredResult, JsonObject, LoggingLevel, Meta, Method, PaginatedParams,
    ProgressParams, ProtocolVersion, ResultType, RpcError, Tool, method,
};
use mcp_transport::Hints;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    Error,
    catalog::Known,
    error::Kind,
    handlers::Asker,
    link::{Agreed, Clock, Failure, Link, OnDrop, Outcome, Ticket},
    list::read_page,
    shared::Shared,
    wire::{self, Extra, Inputs, Request},
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
}

/// A result as it came.
pub(crate) struct Reply {
    pub(crate) bytes: Bytes,
    pub(crate) method: Box<str>,
    /// What the request was about.
    pub(crate) name: Option<Box<str>>,
    pub(crate) version: ProtocolVersion,
    /// Whether the transport mirrors arguments in headers.
    pub(crate) is_mirrored: bool,
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

/// Sends a request and brings it to its end.
pub(crate) async fn drive(shared: &Arc<Shared>, request: Request, mut options: Options) -> Result<Reply, Error> {
    let Some(cancel) = options.cancel.take() else { return rounds(shared, request, options).await };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Kind::Cancelled.into()),
        reply = rounds(shared, request, options) => reply,
    }
}

/// Answers what the server asks by its results, and asks again, until there is a result.
async fn rounds(shared: &Arc<Shared>, request: Request, mut options: Options) -> Result<Reply, Error> {
    let mut inputs = None;
    let mut asked = 0;
    loop {
        let (bytes, link) = exchange(shared, &request, inputs.as_ref(), &mut options).await?;
        let Some(agreed) = link.agreed() else { return Err(Error::closed()) };
        let reply = Reply::new(bytes, &request, &link, agreed);
        let kind = if reply.version.has_result_type() { kind(&reply)? } else { ResultType::Complete };
        match kind {
            ResultType::Complete => return Ok(reply),
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
async fn answer(shared: &Shared, link: &Arc<Link>, result: InputRequiredResult) -> Result<Inputs, Error> {
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

/// Times that a request is sent, when the connection is lost under it and it may be.
const SENDINGS: usize = 3;

/// Sends a request until it has an answer, or must not be sent again.
async fn exchange(
    shared: &Arc<Shared>,
    request: &Request,
    inputs: Option<&Inputs>,
    options: &mut Options,
) -> Result<(Bytes, Arc<Link>), Error> {
    let mut sendings = 0;
    let mut known = known_tool(shared, request);
    if let Some(known) = known.as_ref().filter(|_| shared.config.checks_arguments) {
        known.check_arguments(&request.body.text)?;
    }
    loop {
        sendings += 1;
        let is_safe = request.is_safe || known.as_ref().is_some_and(|known| known.is_safe);
        let link = reach(shared, options).await?;
        let Some(agreed) = link.agreed() else { return Err(Error::closed()) };
        check(shared, request, agreed)?;
        let failure = match wait(shared, &link, agreed, request, inputs, known.as_deref(), options).await? {
            Ok(bytes) => return Ok((bytes, link)),
            Err(failure) => failure,
        };
        let may_again = sendings < SENDINGS;
        match failure {
            // The server was exchanged for one of another revision.
            Failure::Rpc(error)
                if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
                    && agreed.negotiated.version.is_stateless()
                    && may_again =>
            {
                tracing::debug!(%error, "the server does not speak its revision any more");
                link.end(None);
            }
            // What is to be mirrored may have changed since the tools were listed.
            Failure::Rpc(error) if error.code == ErrorCode::HEADER_MISMATCH && sendings == 1 => {
                let former = mirrored(known.as_deref(), request);
                if request.method == method::CallTool::NAME && list_again(shared, &link, agreed, options).await {
                    known = known_tool(shared, request);
                }
                if mirrored(known.as_deref(), request) == former {
                    return Err(Kind::Rpc(error).into());
                }
            }
            Failure::Rpc(error) => return Err(Kind::Rpc(error).into()),
            Failure::Invalid(text) => return Err(Error::invalid(text)),
            // Nothing was done with it.
            Failure::Transport(fault) if fault.is_session_lost() && may_again => link.end(Some(fault)),
            Failure::Transport(fault) if fault.is_unanswered() && is_safe && may_again => {}
            Failure::Transport(fault) => return Err(Kind::Transport(fault).into()),
            Failure::Lost { was_sent, .. } if (!was_sent || is_safe) && may_again => {
                // The reading task may not know it yet.
                link.end(None);
            }
            Failure::Lost { fault, .. } => return Err(Kind::Lost(fault).into()),
        }
    }
}

/// What is known of the tool that is called.
fn known_tool(shared: &Shared, request: &Request) -> Option<Arc<Known>> {
    let name = request.name.as_ref().filter(|_| request.method == method::CallTool::NAME)?;
    shared.catalog.find(name)
}

fn mirrored(known: Option<&Known>, request: &Request) -> Vec<(Box<str>, Box<str>)> {
    known.map(|known| known.mirrored(&request.body.text)).unwrap_or_default()
}

/// Lists the tools again, as far as the time of the call allows. Returns whether all were listed.
async fn list_again(shared: &Shared, link: &Arc<Link>, agreed: &Agreed, options: &mut Options) -> bool {
    let mut cursor = None;
    let mut options = Options { idle: options.idle, total: options.total, ..Options::default() };
    for _ in 0..shared.config.limits.pages {
        let mut params = PaginatedParams::new();
        params.cursor = cursor;
        let Ok(request) = Request::of::<method::ListTools>(&params) else { return false };
        let Ok(Ok(bytes)) = wait(shared, link, agreed, &request, None, None, &mut options).await else { return false };
        let Ok(page) = read_page::<Tool>(shared, &Reply::new(bytes, &request, link, agreed)) else { return false };
        cursor = page.next_cursor;
        if cursor.is_none() {
            return true;
        }
    }
    false
}

/// The connection, within the time of the call.
async fn reach(shared: &Shared, options: &mut Options) -> Result<Arc<Link>, Error> {
    let limit = match (options.idle, options.total) {
        (Some(idle), Some(total)) => idle.min(total),
        (Some(limit), None) | (None, Some(limit)) => limit,
        (None, None) => return shared.link().await,
    };
    let since = Instant::now();
    let reached = timeout(limit, shared.link()).await;
    spend(options, since.elapsed());
    reached.unwrap_or_else(|_| Err(Error::timeout("waiting for the connection", limit)))
}

/// Whether the server has what is asked for at all.
fn check(shared: &Shared, request: &Request, agreed: &Agreed) -> Result<(), Error> {
    let negotiated = &agreed.negotiated;
    let method = &*request.method;
    if method::is_known(method) && !method::exists_in(method, negotiated.version) {
        return Err(Error::unsupported(format!("revision {} has no {method}", negotiated.version)));
    }
    match negotiated.lacks(method) {
        Some(capability) if shared.config.trusts_capabilities => {
            Err(Error::unsupported(format!("the server does not declare `{capability}`, which {method} needs")))
        }
        _ => Ok(()),
    }
}

/// Sends a request once and waits for its answer, as long as the call may take. When it took too long, the server is told.
async fn wait(
    shared: &Shared,
    link: &Arc<Link>,
    agreed: &Agreed,
    request: &Request,
    inputs: Option<&Inputs>,
    known: Option<&Known>,
    options: &mut Options,
) -> Result<Outcome, Error> {
    let id = shared.next_id();
    let extra = Extra {
        wants_progress: options.wants_progress,
        log_level: options.log_level.or_else(|| shared.log_level()),
        meta: options.meta.as_ref(),
        inputs,
    };
    let message = wire::request(id, request, &agreed.stamp, &extra);
    let mut hints = Hints::default();
    hints.version = Some(agreed.negotiated.version);
    hints.method = Some((*request.method).into());
    if agreed.negotiated.version.has_mirrored_headers() {
        hints.name = request.name.clone();
        hints.params = known.map(|known| known.mirrored(&request.body.text)).unwrap_or_default();
    }
    let mut beginning = pin!(link.begin(id, message, hints, OnDrop::Cancel));
    let mut ticket: Option<Ticket> = None;
    let started = Mark::now(&link.clock);
    let mut heard = started;
    let outcome = loop {
        let left = [options.idle.map(|idle| (idle, heard)), options.total.map(|total| (total, started))]
            .into_iter()
            .flatten()
            .map(|(limit, since)| (limit.saturating_sub(since.elapsed(&link.clock)), limit))
            .min();
        let is_paused = link.clock.is_paused();
        if let Some((Duration::ZERO, limit)) = left
            && !is_paused
        {
            return Err(Error::timeout(&*request.method, limit));
        }
        // While this side answers questions its clock stands still, and is looked at now and then.
        let nap = left.map(|(left, _)| if is_paused { left.max(Duration::from_secs(1)) } else { left });
        tokio::select! {
            biased;
            begun = &mut beginning, if ticket.is_none() => match begun {
                Ok(begun) => ticket = Some(begun),
                Err(failure) => break Err(failure),
            },
            () = news(ticket.as_ref()) => {
                let Some(slot) = ticket.as_ref().map(Ticket::slot) else { continue };
                let outcome = slot.take_outcome();
                for notice in slot.take_progress() {
                    heard = Mark::now(&link.clock);
                    if let Some(on_progress) = &mut options.on_progress {
                        on_progress(notice);
                    }
                }
                if let Some(outcome) = outcome {
                    break outcome;
                }
            }
            () = nap_for(nap) => {}
        }
    };
    spend(options, started.elapsed(&link.clock));
    Ok(outcome)
}

async fn news(ticket: Option<&Ticket>) {
    match ticket {
        Some(ticket) => ticket.slot().news().await,
        None => std::future::pending().await,
    }
}

async fn nap_for(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Takes time from what the whole call may take.
fn spend(options: &mut Options, time: Duration) {
    options.total = options.total.map(|total| total.saturating_sub(time));
}

/// A moment on a clock that can stand still.
#[derive(Clone, Copy)]
struct Mark {
    at: Instant,
    paused: Duration,
}

impl Mark {
    fn now(clock: &Clock) -> Self {
        Self { at: Instant::now(), paused: clock.paused() }
    }

    fn elapsed(self, clock: &Clock) -> Duration {
        self.at.elapsed().saturating_sub(clock.paused().saturating_sub(self.paused))
    }
}
