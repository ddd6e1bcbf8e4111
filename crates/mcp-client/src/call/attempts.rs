//! Sends a request until it is answered: again where the retry policy allows it.

use std::{pin::pin, sync::Arc, time::Duration};

use mcp_protocol::{ErrorCode, Method, PaginatedParams, TaskSupport, Tool, method, tasks::TaskMetadata};
use mcp_transport::PauseClock;
use serde::{Deserialize, de::IgnoredAny};
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use super::{
    CallOptions, ClientCore, Reply, ResultCache,
    catalog::KnownTool,
    list::SeenCursors,
    page::read_page,
    send_once::{Sending, send_once, spend},
};
use crate::{
    Error,
    connection::{Agreement, Connection, InputResponses, Request, RequestGuard, era_check},
    error::Kind,
    retry::{self, Attempt, EraTrust, Next},
    trace::RequestSpan,
};

/// The number of times that a request is sent at most.
const ATTEMPTS: usize = 3;

/// A result, and the connection that it was received on.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) connection: Arc<Connection>,
    /// The request declared that it can become a task.
    pub(crate) may_be_task: bool,
    /// Receives the progress of the task, if the request became one.
    pub(crate) guard: Option<RequestGuard>,
}

/// Sends a request until it is answered, or the retry policy lets it fail.
pub(crate) async fn send_until_answered(
    core: &Arc<ClientCore>,
    request: &Request,
    inputs: Option<&InputResponses>,
    options: &mut CallOptions,
) -> Result<Answer, Error> {
    let span = RequestSpan::open(&request.method, request.name.as_deref(), core.config.peer.as_deref());
    // The answer of an earlier round ended the time without activity.
    options.quiet = Duration::ZERO;
    // Pinned first, because a moved future is copied.
    let attempts = pin!(attempts(core, request, inputs, options));
    let answered = attempts.instrument(span.span()).await;
    span.end(answered.as_ref().map(|answer| (&*answer.reply.bytes, answer.reply.version)));
    answered
}

/// Sends a request until it is answered. All attempts have the same span.
async fn attempts(
    core: &Arc<ClientCore>,
    request: &Request,
    inputs: Option<&InputResponses>,
    options: &mut CallOptions,
) -> Result<Answer, Error> {
    let whole = options.total_timeout;
    let (begin, mut attempts) = (Instant::now(), 0);
    let mut is_declared = core.config.declares_tasks();
    let mut known = known_tool(core, request);
    if let Some(known) = known.as_ref().filter(|_| core.config.checks_arguments) {
        known.check_arguments(&request.body.text)?;
    }
    loop {
        attempts += 1;
        let connection = reach(core, options).await?;
        let Some(agreed) = connection.agreed() else { return Err(Error::closed()) };
        check_support(core, request, agreed)?;
        if request.task.is_some() && known.is_none() && runs_tools_as_tasks(agreed) {
            // The list of tools contains the task support of this tool.
            Box::pin(list_again(core, &connection, agreed, options)).await;
            known = known_tool(core, request);
        }
        if let (Some(Duration::ZERO), Some(whole)) = (options.total_timeout, whole) {
            return Err(Error::timeout(&*request.method, whole));
        }
        // A caller that relays tasks has its own parameter `task`, and receives the error of a server that requires a task.
        let task = task_metadata(request, known.as_deref(), agreed).filter(|_| options.relayed_task.is_none());
        let declares_tasks = options.relayed_task.unwrap_or_else(|| is_declared || request.declares_tasks());
        if options.raw_inputs && inputs.is_some() && !agreed.negotiated.version.has_input_required() {
            let version = agreed.negotiated.version;
            return Err(Error::unsupported(format!("revision {version} has no input responses")));
        }
        // Input responses belong to the era whose server asked for them. In the other era the call starts anew.
        let inputs = inputs.filter(|_| agreed.negotiated.version.has_input_required());
        let sending = Sending { request, inputs, known: known.as_deref(), task, declares_tasks };
        if options.relayed_task == Some(true) {
            connection.pending.relay_tasks();
        }
        let may_be_task = sending.task.is_some() || (declares_tasks && request.method == method::CallTool::NAME);
        let (outcome, guard) = match send_once(core, &connection, agreed, &sending, options).await {
            Ok(waited) => waited,
            Err(error) => {
                if connection.is_assumed() {
                    // Silence can mean that the server is of the other era. The check ends after this call.
                    drop(era_check::begin(&core.connections, &connection));
                }
                return Err(error);
            }
        };
        let failure = match outcome {
            Ok(bytes) => {
                let reply = Reply::new(bytes, request, &connection, agreed);
                if connection.is_assumed() {
                    confirm_era(core, &connection, &reply, options).await;
                }
                return Ok(Answer { reply, connection, may_be_task, guard });
            }
            Err(failure) => failure,
        };
        drop(guard);
        let calls_tool = request.method == method::CallTool::NAME;
        let mut attempt = Attempt {
            is_safe: request.is_safe || known.as_ref().is_some_and(|known| known.is_safe),
            is_repeatable: attempts < ATTEMPTS,
            is_first: attempts == 1,
            is_stateless: agreed.negotiated.version.is_stateless(),
            is_closing: core.connections.closing.is_cancelled(),
            reconnects: core.config.reconnect.attempts > 0,
            era: connection.era_trust(),
            declared_tasks: declares_tasks || options.relayed_task.is_some(),
            age: begin.elapsed(),
            calls_tool,
            may_need_task: calls_tool
                && known.is_none()
                && options.relayed_task.is_none()
                && runs_tools_as_tasks(agreed),
        };
        let mut next = retry::next(&failure, &attempt);
        if let Next::Reprobe { can_resend } = next {
            let is_changed = has_changed(core, &connection, options).await;
            attempt.era = EraTrust::Certain;
            next = if is_changed && can_resend { Next::Resend } else { retry::next(&failure, &attempt) };
        }
        match next {
            Next::Resend | Next::Reprobe { .. } => {}
            Next::ResendAfter(wait, error) => {
                if options.total_timeout.is_some_and(|rest| rest <= wait) {
                    return Err(error);
                }
                tracing::debug!(%error, ?wait, "the client sends the request again after a wait");
                tokio::select! {
                    biased;
                    () = core.connections.closing.cancelled() => return Err(Error::closed()),
                    () = tokio::time::sleep(wait) => spend(options, wait),
                }
            }
            // The reading task may not have noticed the loss yet. On a retired connection other requests keep waiting.
            Next::Reconnect if connection.is_ended() => {}
            Next::Reconnect => connection.end(None),
            Next::Retire(fault) => {
                tracing::debug!(%fault, "the client sends no more requests over this connection");
                connection.retire(fault);
            }
            Next::DeclareTasks => is_declared = true,
            Next::ListForTask(error) => {
                Box::pin(list_again(core, &connection, agreed, options)).await;
                known = known_tool(core, request);
                if task_metadata(request, known.as_deref(), agreed).is_none() {
                    return Err(error);
                }
            }
            Next::ListForHeaders(error) => {
                let former = mirrored(known.as_deref(), request);
                if Box::pin(list_again(core, &connection, agreed, options)).await {
                    known = known_tool(core, request);
                }
                if mirrored(known.as_deref(), request) == former {
                    return Err(error);
                }
            }
            Next::Fail(error) => {
                let is_invalid = error.rpc().is_some_and(|error| error.code == ErrorCode::INVALID_PARAMS);
                if is_invalid && ResultCache::takes(&request.method) {
                    // The cursor of a cached page may be invalid by now.
                    core.inbound.cache.forget(&request.method);
                }
                return Err(error);
            }
        }
    }
}

/// Confirms an assumed era by a result. A result of the other era starts a check, which can retire the connection.
async fn confirm_era(core: &Arc<ClientCore>, connection: &Arc<Connection>, reply: &Reply, options: &mut CallOptions) {
    #[derive(Deserialize)]
    struct Typed {
        #[serde(rename = "resultType")]
        _kind: IgnoredAny,
    }
    if serde_json::from_slice::<Typed>(&reply.bytes).is_ok() {
        connection.assume(false);
    } else {
        has_changed(core, connection, options).await;
    }
}

/// Waits within the time of the call until it is known whether the server changed its era. The check continues after that time.
async fn has_changed(core: &Arc<ClientCore>, connection: &Arc<Connection>, options: &mut CallOptions) -> bool {
    let since = Instant::now();
    let limit = options.total_timeout.unwrap_or(Duration::MAX);
    let has_changed = timeout(limit, era_check::has_changed(&core.connections, connection)).await.unwrap_or(false);
    spend(options, since.elapsed());
    has_changed
}

/// Returns true if the server runs tool calls as tasks on request (2025-11-25).
fn runs_tools_as_tasks(agreed: &Agreement) -> bool {
    let tasks = agreed.negotiated.capabilities.tasks.as_ref();
    agreed.negotiated.version.has_core_tasks() && tasks.is_some_and(|tasks| tasks.supports_request("tools", "call"))
}

/// Returns the `task` parameter of a call (2025-11-25): if the caller wants a task and the tool supports tasks, or if the tool
/// requires one.
fn task_metadata(request: &Request, known: Option<&KnownTool>, agreed: &Agreement) -> Option<TaskMetadata> {
    let support = known?.task_support.filter(|_| runs_tools_as_tasks(agreed))?;
    match support {
        TaskSupport::Required => Some(request.task.clone().unwrap_or_default()),
        TaskSupport::Optional => request.task.clone(),
        _ => None,
    }
}

/// Returns the listed facts about the tool that a request calls.
fn known_tool(core: &ClientCore, request: &Request) -> Option<Arc<KnownTool>> {
    let name = request.name.as_ref().filter(|_| request.method == method::CallTool::NAME)?;
    core.inbound.catalog.find(name)
}

fn mirrored(known: Option<&KnownTool>, request: &Request) -> Vec<(Box<str>, Box<str>)> {
    known.map(|known| known.mirrored(&request.body.text)).unwrap_or_default()
}

/// Lists the tools again within the time of the call. Returns true if all pages were read.
async fn list_again(
    core: &Arc<ClientCore>,
    connection: &Arc<Connection>,
    agreed: &Agreement,
    caller: &mut CallOptions,
) -> bool {
    let mut cursor: Option<String> = None;
    let mut seen = SeenCursors::default();
    let mut options = CallOptions {
        idle_timeout: caller.idle_timeout,
        total_timeout: caller.total_timeout,
        ..CallOptions::default()
    };
    for _ in 0..core.config.limits.pages {
        let mut params = PaginatedParams::new();
        params.cursor = cursor;
        let Ok(request) = Request::of::<method::ListTools>(&params) else { return false };
        let sending = Sending::new(&request);
        let listed = send_once(core, connection, agreed, &sending, &mut options).await;
        caller.total_timeout = options.total_timeout;
        let Ok((Ok(bytes), _)) = listed else { return false };
        let Ok(page) = read_page::<Tool>(core, &Reply::new(bytes, &request, connection, agreed)) else { return false };
        cursor = page.next_cursor;
        if !cursor.as_ref().is_some_and(|next| seen.insert(next)) {
            return true;
        }
    }
    false
}

/// Waits for a connection within the time of the call.
async fn reach(core: &ClientCore, options: &mut CallOptions) -> Result<Arc<Connection>, Error> {
    let open = core.connections.open_connection();
    if let Some(number) = options.connection {
        // A later connection can lead to another process.
        let only = open.filter(|connection| connection.number == number);
        return only.ok_or_else(|| Kind::Lost(None).into());
    }
    match open {
        Some(connection) => Ok(connection),
        // Most calls do not wait. Boxing keeps their futures small.
        None => Box::pin(wait_for_connection(core, options)).await,
    }
}

async fn wait_for_connection(core: &ClientCore, options: &mut CallOptions) -> Result<Arc<Connection>, Error> {
    // The wait is a part of the time without activity.
    let idle = options.idle_timeout.map(|idle| idle.saturating_sub(options.quiet));
    let limit = match (idle, options.total_timeout) {
        (Some(idle), Some(total)) => idle.min(total),
        (Some(limit), None) | (None, Some(limit)) => limit,
        (None, None) => return core.connections.connection().await,
    };
    let since = Instant::now();
    let user = core.connections.authorization.as_ref().map(|clocks| &clocks.user);
    let paused_before = user.map_or(Duration::ZERO, PauseClock::paused);
    let reached = core.connections.connection_within(limit).await;
    let paused = user.map_or(Duration::ZERO, PauseClock::paused).saturating_sub(paused_before);
    spend(options, since.elapsed().saturating_sub(paused.min(core.config.limits.login_pause)));
    reached
}

/// Checks that the revision has the method, and that the server declares its capability.
fn check_support(core: &ClientCore, request: &Request, agreed: &Agreement) -> Result<(), Error> {
    let negotiated = &agreed.negotiated;
    let method = &*request.method;
    if method::is_known(method) && !method::exists_in(method, negotiated.version) {
        return Err(Error::unsupported(format!("revision {} has no {method}", negotiated.version)));
    }
    match negotiated.lacks(method) {
        Some(capability) if core.config.trusts_capabilities => {
            Err(Error::unsupported(format!("the server does not declare `{capability}`, which {method} needs")))
        }
        _ => Ok(()),
    }
}
