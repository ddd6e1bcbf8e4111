//! Sends a request until it has an answer: again where the connection was lost under it and that is safe.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{
    ErrorCode, Method, PaginatedParams, RpcError, TaskSupport, Tool, method,
    tasks::{TaskMetadata, ext::IDENTIFIER},
};
use mcp_transport::TransportError;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use tokio::time::{Instant, timeout};

use super::{
    CallOptions, ClientCore, Reply, ResultCache,
    catalog::KnownTool,
    list::read_page,
    send_once::{Sending, send_once, spend},
};
use crate::{
    Error,
    connection::{Agreement, Connection, InputResponses, Request, RequestFailure, RequestGuard, era},
    error::Kind,
};

/// Times that a request is sent, when the connection is lost under it and it may be.
const SENDINGS: usize = 3;

/// A result, and what it came by.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) connection: Arc<Connection>,
    /// Whether the server was told that the request may become a task.
    pub(crate) may_be_task: bool,
    /// Hears of the progress, when it is one.
    pub(crate) guard: Option<RequestGuard>,
}

/// Sends a request until it has an answer, or must not be sent again.
pub(crate) async fn send_until_answered(
    core: &Arc<ClientCore>,
    request: &Request,
    inputs: Option<&InputResponses>,
    options: &mut CallOptions,
) -> Result<Answer, Error> {
    let whole = options.total_timeout;
    let mut sendings = 0;
    let mut is_declared = core.config.declares_tasks();
    let mut known = known_tool(core, request);
    if let Some(known) = known.as_ref().filter(|_| core.config.checks_arguments) {
        known.check_arguments(&request.body.text)?;
    }
    loop {
        sendings += 1;
        let is_safe = request.is_safe || known.as_ref().is_some_and(|known| known.is_safe);
        let connection = reach(core, options).await?;
        let Some(agreed) = connection.agreed() else { return Err(Error::closed()) };
        check(core, request, agreed)?;
        if request.task.is_some() && known.is_none() && takes_tasks(agreed) {
            // Whether it may be one stands in the list.
            list_again(core, &connection, agreed, options).await;
            known = known_tool(core, request);
        }
        if let (Some(Duration::ZERO), Some(whole)) = (options.total_timeout, whole) {
            return Err(Error::timeout(&*request.method, whole));
        }
        let task = as_task(request, known.as_deref(), agreed);
        let declares_tasks = is_declared || request.declares_tasks();
        // Answers belong to the era that asked: elsewhere the call begins anew, and the server asks again in its own way.
        let inputs = inputs.filter(|_| agreed.negotiated.version.has_input_required());
        let sending = Sending { request, inputs, known: known.as_deref(), task, declares_tasks };
        let may_be_task = sending.task.is_some() || (declares_tasks && request.method == method::CallTool::NAME);
        let (outcome, guard) = match send_once(core, &connection, agreed, &sending, options).await {
            Ok(waited) => waited,
            Err(error) => {
                if connection.is_assumed() {
                    // Silence may mean as much. The next call knows.
                    drop(era::find_out(&core.connections, &connection));
                }
                return Err(error);
            }
        };
        let failure = match outcome {
            Ok(bytes) => {
                let reply = Reply::new(bytes, request, &connection, agreed);
                if connection.is_assumed() {
                    confirm(core, &connection, &reply, options).await;
                }
                return Ok(Answer { reply, connection, may_be_task, guard });
            }
            Err(failure) => failure,
        };
        drop(guard);
        let may_again = sendings < SENDINGS;
        if may_again
            && era::is_doubtful(&connection, &failure)
            && has_changed(core, &connection, options).await
            && (is_safe || era::is_refusal(&failure))
        {
            continue;
        }
        match failure {
            // The server was exchanged for one of another revision.
            RequestFailure::Rpc(error)
                if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
                    && agreed.negotiated.version.is_stateless()
                    && may_again =>
            {
                tracing::debug!(%error, "the server does not speak its revision any more");
                connection.retire(TransportError::closed());
            }
            // Some tools are tasks and nothing else.
            RequestFailure::Rpc(error) if !declares_tasks && needs_tasks(&error) => is_declared = true,
            // So do those of 2025-11-25 in the list, and in words that could mean anything.
            RequestFailure::Rpc(error)
                if matches!(error.code, ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_REQUEST)
                    && request.method == method::CallTool::NAME
                    && known.is_none()
                    && takes_tasks(agreed)
                    && may_again =>
            {
                list_again(core, &connection, agreed, options).await;
                known = known_tool(core, request);
                if as_task(request, known.as_deref(), agreed).is_none() {
                    return Err(Kind::Rpc(error).into());
                }
            }
            // What is to be mirrored may have changed since the tools were listed.
            RequestFailure::Rpc(error) if error.code == ErrorCode::HEADER_MISMATCH && sendings == 1 => {
                let former = mirrored(known.as_deref(), request);
                if request.method == method::CallTool::NAME && list_again(core, &connection, agreed, options).await {
                    known = known_tool(core, request);
                }
                if mirrored(known.as_deref(), request) == former {
                    return Err(Kind::Rpc(error).into());
                }
            }
            RequestFailure::Rpc(error) => {
                // A cursor of a page that is kept may be none any more.
                if error.code == ErrorCode::INVALID_PARAMS && ResultCache::takes(&request.method) {
                    core.inbound.cache.forget(&request.method);
                }
                return Err(Kind::Rpc(error).into());
            }
            RequestFailure::Invalid(text) => return Err(Error::invalid(text)),
            RequestFailure::Unsendable(fault) => return Err(Kind::Unsendable(fault).into()),
            RequestFailure::Lost { .. } if core.connections.closing.is_cancelled() => return Err(Error::closed()),
            // Nothing was done with it.
            RequestFailure::Transport(fault) if fault.is_session_lost() && may_again => connection.retire(fault),
            // Nothing was handed over, and another connection is opened as soon as there is somebody to connect to.
            RequestFailure::Transport(fault)
                if fault.is_unreachable() && !fault.is_lasting() && may_again && core.config.reconnect.attempts > 0 =>
            {
                connection.retire(fault);
            }
            RequestFailure::Transport(fault) if fault.is_unanswered() && is_safe && may_again => {}
            RequestFailure::Transport(fault) => return Err(Kind::Transport(fault).into()),
            RequestFailure::Lost { was_sent, .. } if (!was_sent || is_safe) && may_again => {
                // The reading task may not know it yet. One that is retired goes on for those who wait on it.
                if !connection.is_ended() {
                    connection.end(None);
                }
            }
            RequestFailure::Lost { fault, .. } => return Err(Kind::Lost(fault).into()),
        }
    }
}

/// A result came where the era was assumed: it says that it is of that era, or the next requests go elsewhere.
async fn confirm(core: &Arc<ClientCore>, connection: &Arc<Connection>, reply: &Reply, options: &mut CallOptions) {
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

/// Whether the server is another one, as far as that can be known in the time of the call; the question goes on without it.
async fn has_changed(core: &Arc<ClientCore>, connection: &Arc<Connection>, options: &mut CallOptions) -> bool {
    let since = Instant::now();
    let limit = options.total_timeout.unwrap_or(Duration::MAX);
    let has_changed = timeout(limit, era::has_changed(&core.connections, connection)).await.unwrap_or(false);
    spend(options, since.elapsed());
    has_changed
}

/// Whether a server of 2025-11-25 takes calls of tools as tasks.
fn takes_tasks(agreed: &Agreement) -> bool {
    let tasks = agreed.negotiated.capabilities.tasks.as_ref();
    agreed.negotiated.version.has_core_tasks() && tasks.is_some_and(|tasks| tasks.supports_request("tools", "call"))
}

/// The `task` parameter of a call, where a client asks for a task by one: when it is wanted and the tool may be one, and when
/// the tool is nothing else.
fn as_task(request: &Request, known: Option<&KnownTool>, agreed: &Agreement) -> Option<TaskMetadata> {
    let support = known?.task_support.filter(|_| takes_tasks(agreed))?;
    match support {
        TaskSupport::Required => Some(request.task.clone().unwrap_or_default()),
        TaskSupport::Optional => request.task.clone(),
        _ => None,
    }
}

/// Whether all that a server misses is the tasks extension.
fn needs_tasks(error: &RpcError) -> bool {
    let required = error.data.as_ref().and_then(|data| data.get("requiredCapabilities")).and_then(Value::as_object);
    error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
        && required.is_some_and(|required| required.keys().eq(["extensions"]))
        && required.and_then(|required| required["extensions"].as_object()).is_some_and(|e| e.keys().eq([IDENTIFIER]))
}

/// What is known of the tool that is called.
fn known_tool(core: &ClientCore, request: &Request) -> Option<Arc<KnownTool>> {
    let name = request.name.as_ref().filter(|_| request.method == method::CallTool::NAME)?;
    core.inbound.catalog.find(name)
}

fn mirrored(known: Option<&KnownTool>, request: &Request) -> Vec<(Box<str>, Box<str>)> {
    known.map(|known| known.mirrored(&request.body.text)).unwrap_or_default()
}

/// Lists the tools again, as far as the time of the call allows. Returns whether all were listed.
async fn list_again(
    core: &ClientCore,
    connection: &Arc<Connection>,
    agreed: &Agreement,
    caller: &mut CallOptions,
) -> bool {
    let mut cursor = None;
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
        if cursor.is_none() {
            return true;
        }
    }
    false
}

/// The connection, within the time of the call.
async fn reach(core: &ClientCore, options: &mut CallOptions) -> Result<Arc<Connection>, Error> {
    let limit = match (options.idle_timeout, options.total_timeout) {
        (Some(idle), Some(total)) => idle.min(total),
        (Some(limit), None) | (None, Some(limit)) => limit,
        (None, None) => return core.connections.connection().await,
    };
    let since = Instant::now();
    let reached = core.connections.connection_within(limit).await;
    spend(options, since.elapsed());
    reached
}

/// Whether the server has what is asked for at all.
fn check(core: &ClientCore, request: &Request, agreed: &Agreement) -> Result<(), Error> {
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
