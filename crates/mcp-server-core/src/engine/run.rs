//! Runs prepared requests: limits, cancellation, layers, time limits, and validation of results.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::{Pin, pin},
    sync::Arc,
    task::Poll,
    time::Duration,
};

use mcp_protocol::{
    CallToolResult, CompleteResult, ContentBlock, GetPromptResult, Method as _, ProtocolVersion, ReadResourceResult,
    RequestId, RpcError, Shape, method,
};
use serde_json::{Value, value::RawValue};
use tracing::Instrument as _;

use super::{
    Prepared, methods,
    prepare::{HandlerWork, Place, Work},
    task_call::Candidate,
    task_requests::TaskWork,
};
use crate::{
    Server,
    cache_hint::CacheHint,
    context::{Completing, Context, EndGuard},
    error::{ToolError, next_reference},
    handler::{
        Arguments, Call, CallParts, CompletionKind, Kind, PromptKind, Ready, ResourceKind, StringArgument, ToolKind,
    },
    layers::{self, Invocation},
    registry::{MethodCall, MethodFuture, MethodResult, MethodRoute, MethodRun, PromptEntry, ToolEntry, ToolSpec},
    request::{Output, Performed, Reply, Scope, Stop, busy, ending},
    session::NotEntered,
    tasks::Plan,
    trace::Ending,
};

/// The most values of a completion (server/utilities/completion).
const COMPLETIONS: usize = 100;

impl Prepared {
    /// Runs the request. Returns `None` when the client cancelled it, because no response is sent then.
    ///
    /// Dropping the future cancels the request.
    pub async fn run(mut self) -> Option<Reply> {
        if let Err(reply) = self.enter() {
            return Some(reply);
        }
        let work = match std::mem::replace(&mut self.work, Work::Over) {
            Work::Over => return None,
            Work::Done(reply) => return Some(reply),
            Work::Listen(work) => {
                let span = self.context.span().clone();
                return Box::pin(super::listen::run(self, *work).instrument(span)).await;
            }
            Work::Extension { route, params } => {
                let span = self.context.span().clone();
                return Box::pin(self.run_extension(route, params).instrument(span)).await;
            }
            Work::Task(work) => {
                let span = self.context.span().clone();
                return Box::pin(self.run_task(work).instrument(span)).await;
            }
            Work::Handler(work) => work,
        };
        let Self { server, id, scope, context, place, .. } = self;
        let version = scope.version;
        let outcome = answer(&server, &scope, &context, work).await;
        // The permits are released before the response, because the client may reuse the id at once.
        drop(place);
        Some(match outcome {
            Ok(Output::Tool(result)) => Reply::result(&server.data.identity, &id, version, result, 256),
            Ok(Output::Resource(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Ok(Output::Prompt(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Ok(Output::Completion(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Ok(Output::InputRequired(result)) => Reply::result(&server.data.identity, &id, version, result, 2048),
            Ok(Output::TaskOfClient(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Ok(Output::TaskOfServer(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Err(Stop::Cancelled) => return None,
            Err(Stop::Error(error)) => refuse(&scope, &id, &error),
        })
    }

    /// Runs a method about tasks.
    async fn run_task(self, work: TaskWork) -> Option<Reply> {
        let Self { server, id, scope, place, context, .. } = self;
        let _guard = EndGuard(&context);
        let served = tokio::select! {
            biased;
            served = work.run(&server, &scope, &id) => served,
            () = scope.cancel.cancelled() => return None,
            cause = scope.grace_period_over(&server.data.shutdown) => Err(cause.error()),
        };
        drop(place);
        context.end(served.as_ref().map_or_else(Ending::Error, |_| Ending::Done));
        Some(served.unwrap_or_else(|error| refuse(&scope, &id, &error)))
    }

    /// Runs a method of an extension.
    async fn run_extension(self, route: Arc<MethodRoute>, params: Option<Box<RawValue>>) -> Option<Reply> {
        let Self { server, id, scope, place, context, .. } = self;
        let version = scope.version;
        // Work on other tasks is cancelled with the request, also when this future is dropped.
        let drop_cancels = scope.cancel.clone().drop_guard();
        let _guard = EndGuard(&context);
        let limit = server.limits().read_timeout;
        let call = MethodCall::new(route.name.as_str().into(), params, context.clone());
        let served = async {
            match tokio::time::timeout(limit, guarded_method(&route, call)).await {
                Ok(result) => result,
                Err(_) => {
                    context.expire();
                    tracing::warn!(method = route.name, ?limit, "a method of an extension exceeded the read timeout");
                    Err(RpcError::internal("the server did not finish in time"))
                }
            }
        };
        let outcome = unless_stopped(&server, &scope, pin!(served)).await;
        context.finish();
        drop(place);
        if matches!(outcome, Ok(Ok(_))) {
            drop_cancels.disarm();
        }
        let result = match outcome {
            Ok(result) => result,
            Err(Stop::Cancelled) => return None,
            Err(Stop::Error(error)) => Err(error),
        };
        Some(match result {
            Ok(result) => {
                context.end(Ending::Done);
                methods::reply(&server, &id, version, result)
            }
            Err(mut error) => {
                error.shape(version);
                context.end(Ending::Error(&error));
                refuse(&scope, &id, &error)
            }
        })
    }

    /// Acquires the permits of the request. From now on a cancellation finds it. [`Prepared::run`] does this if the
    /// transport did not.
    ///
    /// # Errors
    /// The response when a limit is reached.
    pub(crate) fn enter(&mut self) -> Result<(), Reply> {
        let is_short = match &self.work {
            Work::Done(_) => true,
            Work::Task(work) => !work.waits(),
            Work::Handler(_) | Work::Extension { .. } | Work::Listen(_) | Work::Over => false,
        };
        if is_short || self.place.is_some() {
            return Ok(());
        }
        let busy = || Reply::busy(&self.id);
        let peer = self.scope.surroundings.peer.as_ref();
        let passes = match &mut self.work {
            // A stream is idle most of the time, so it has a limit of its own.
            Work::Listen(work) => {
                if !work.enter(&self.server, &self.scope) {
                    return Err(Reply::too_many_streams(&self.id));
                }
                (None, None)
            }
            _ => {
                let pass = self.server.data.gate.enter().ok_or_else(busy)?;
                (Some(pass), peer.map(|peer| peer.gate().enter().ok_or_else(busy)).transpose()?)
            }
        };
        let listed = peer.map(|peer| {
            peer.in_flight().enter(&self.id, &self.scope.cancel).map_err(|why| {
                let error = RpcError::invalid_request(match why {
                    NotEntered::InUse => "a request with this id is still being served",
                    NotEntered::Over => "the session is over",
                });
                Reply::error(Some(&self.id), &error)
            })
        });
        self.place = Some(Place { _passes: passes, _listed: listed.transpose()? });
        Ok(())
    }

    /// Runs the request and returns its typed output.
    pub(crate) async fn run_for_output(mut self) -> Result<Output, RpcError> {
        self.enter().map_err(|_| busy())?;
        let Work::Handler(work) = self.work else { return Err(RpcError::internal("no handler runs for this")) };
        execute(&self.server, &self.scope, &self.context, work).await.map_err(|stop| match stop {
            Stop::Cancelled => RpcError::internal("cancelled"),
            Stop::Error(error) => error,
        })
    }
}

/// Returns the response to a failed request. The session remembers the pages of the error, so that the server can
/// notify the client when the user is done.
fn refuse(scope: &Scope, id: &RequestId, error: &RpcError) -> Reply {
    if let Some(session) = scope.client.session() {
        for page in error.url_elicitations() {
            page.elicitation_id.iter().for_each(|page| session.add_page(page));
        }
    }
    Reply::error(Some(id), error)
}

/// Runs a handler until it has an output, or until the call becomes a task.
async fn answer(server: &Server, scope: &Scope, context: &Context, mut work: HandlerWork) -> Result<Output, Stop> {
    let HandlerWork::Tool { entry, plan, .. } = &mut work else {
        return execute(server, scope, context, work).await;
    };
    match std::mem::take(plan) {
        Plan::Plain => execute(server, scope, context, work).await,
        Plan::Refused(error) => {
            context.end(Ending::Error(&error));
            Err(error.into())
        }
        Plan::Task { policy, ttl, is_required } => {
            let entry = entry.clone();
            let candidate = Candidate { server, scope, context, tool: &entry.spec.tool.name, policy, ttl, is_required };
            // The grace period ends the call. The driver of tasks ends a task.
            let mut task_scope = scope.clone();
            task_scope.surroundings.grace_period = None;
            // The call may be dropped before its first poll.
            let (task_server, guard) = (server.clone(), EndGuard(context.clone()));
            let work = Box::pin(async move { execute(&task_server, &task_scope, &guard.0, work).await });
            // Boxed, because few calls can become a task and all calls would have the larger future.
            let mut running = Box::pin(candidate.run(work));
            let outcome = unless_stopped(server, scope, running.as_mut()).await.and_then(|outcome| outcome);
            if let Err(stop) = &outcome {
                context.end(stop.ending());
            }
            outcome
        }
    }
}

/// Runs a handler in the span of its request, also after the call became a task.
async fn execute(server: &Server, scope: &Scope, context: &Context, work: HandlerWork) -> Result<Output, Stop> {
    let _guard = EndGuard(context);
    let mut outcome = run_handler(server, scope, context, work).instrument(context.span().clone()).await;
    if let Err(Stop::Error(error)) = &mut outcome {
        error.shape(scope.version);
    }
    context.end(ending(&outcome));
    outcome
}

async fn run_handler(server: &Server, scope: &Scope, context: &Context, work: HandlerWork) -> Result<Output, Stop> {
    // Work on other tasks is cancelled with the request, also when this future is dropped.
    let drop_cancels = scope.cancel.clone().drop_guard();
    if let Some(collector) = context.collector() {
        unless_stopped(server, scope, pin!(collector.resume())).await??;
    }
    let layers = match (&server.data.config.layers, &work) {
        (None, HandlerWork::Tool { entry, .. }) => entry.spec.layers.clone(),
        (layers, _) => layers.clone(),
    };
    let served = async {
        match layers {
            None => handled(server, scope.version, context, work).await,
            // Boxed, so that calls without layers have a smaller future.
            Some(layers) => {
                let is_tool = matches!(work, HandlerWork::Tool { .. });
                let invocation = invocation(server, scope.version, context, work);
                Box::pin(layers::run(&layers, invocation, is_tool)).await
            }
        }
    };
    // The future is dropped at the end of this statement, with the handler.
    let performed = unless_stopped(server, scope, pin!(served)).await;
    context.finish();
    let performed = performed?;
    if scope.cancel.is_cancelled() {
        return Err(Stop::Cancelled);
    }
    // A handler that returned in time may leave work on other tasks. Otherwise that work is cancelled too.
    if !context.has_expired() && !matches!(performed, Ok(Performed::InputRequired(_))) {
        drop_cancels.disarm();
    }
    match (performed?, context.collector()) {
        (Performed::Output(output), _) => Ok(output),
        (Performed::InputRequired(requests), Some(collector)) => {
            Ok(Output::InputRequired(unless_stopped(server, scope, pin!(collector.result(requests))).await??))
        }
        (Performed::InputRequired(_), None) => Err(RpcError::internal("the call cannot send input requests").into()),
    }
}

/// Waits for work unless the request is cancelled. It takes a reference, because an `async fn` stores its arguments
/// twice.
async fn unless_stopped<T>(server: &Server, scope: &Scope, work: Pin<&mut impl Future<Output = T>>) -> Result<T, Stop> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = scope.cancel.cancelled() => Err(Stop::Cancelled),
        cause = scope.grace_period_over(&server.data.shutdown) => Err(cause.error().into()),
    }
}

/// Describes a call for its layers.
fn invocation(server: &Server, version: ProtocolVersion, context: &Context, mut work: HandlerWork) -> Invocation {
    let (method, name) = match &work {
        HandlerWork::Tool { entry, .. } => (method::CallTool::NAME, entry.spec.tool.name.clone()),
        HandlerWork::Resource { uri, .. } | HandlerWork::Template { uri, .. } => {
            (method::ReadResource::NAME, uri.clone())
        }
        HandlerWork::Prompt { entry, .. } => (method::GetPrompt::NAME, entry.prompt.name.clone()),
        HandlerWork::Complete { .. } => {
            let completing = context.extension::<Completing>();
            (method::Complete::NAME, completing.map_or_else(String::new, |completing| completing.argument.clone()))
        }
    };
    let (arguments, tool_layers) = match &mut work {
        HandlerWork::Tool { entry, arguments, .. } => (Some(arguments.take()), entry.spec.layers.clone()),
        _ => (None, None),
    };
    let (server, run_context) = (server.clone(), context.clone());
    let run = Box::new(move |changed: Option<Value>| {
        if let (HandlerWork::Tool { arguments, .. }, Some(changed)) = (&mut work, changed) {
            *arguments = changed;
        }
        Box::pin(async move { handled(&server, version, &run_context, work).await }) as layers::Running
    });
    Invocation { method, name, arguments, context: context.clone(), tool_layers, run }
}

/// Runs a handler, inside of all layers.
async fn handled(
    server: &Server,
    version: ProtocolVersion,
    context: &Context,
    work: HandlerWork,
) -> Result<Performed, RpcError> {
    let output = perform(server, version, context, work).await;
    match context.collector().and_then(|collector| collector.take_requests()) {
        Some(requests) => Ok(Performed::InputRequired(requests)),
        None => output.map(Performed::Output),
    }
}

async fn perform(
    server: &Server,
    version: ProtocolVersion,
    context: &Context,
    work: HandlerWork,
) -> Result<Output, RpcError> {
    match work {
        HandlerWork::Tool { entry, arguments, .. } => {
            call_tool(server, &entry, context, arguments, version).await.map(Output::Tool)
        }
        HandlerWork::Resource { entry, uri } => {
            let definition = (entry.spec.resource.mime_type.as_deref(), entry.spec.cache);
            let run = call_of::<ResourceKind>(&entry.run, context, Arguments::Strings(Vec::new()));
            read(server, context, run, &uri, definition, version).await.map(Output::Resource)
        }
        HandlerWork::Template { entry, uri, variables } => {
            let definition = (entry.spec.template.mime_type.as_deref(), entry.spec.cache);
            let run = call_of::<ResourceKind>(&entry.run, context, Arguments::Strings(variables));
            read(server, context, run, &uri, definition, version).await.map(Output::Resource)
        }
        HandlerWork::Prompt { entry, arguments } => {
            get_prompt(server, &entry, context, arguments, version).await.map(Output::Prompt)
        }
        HandlerWork::Complete { source } => complete(server, &source, context).await.map(Output::Completion),
    }
}

fn call_of<K: Kind>(
    run: &Ready<K>,
    context: &Context,
    arguments: Arguments,
) -> impl Future<Output = Result<K::Output, ToolError>> + Send + use<K> {
    let call = Call { parts: CallParts { context: context.clone() }, arguments };
    let collector = context.collector().cloned();
    let handler = guarded::<K>(run.clone(), call);
    async move {
        match collector {
            Some(collector) => collector.drive(handler).await,
            None => handler.await,
        }
    }
}

/// Runs a handler and converts panics into errors, also a panic before the first await.
async fn guarded<K: Kind>(run: Ready<K>, call: Call) -> Result<K::Output, ToolError> {
    let mut future: Pin<Box<dyn Future<Output = _> + Send>> = match catch_unwind(AssertUnwindSafe(|| run.call(call))) {
        Ok(future) => future,
        Err(payload) => return Err(ToolError::panic(&*payload)),
    };
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(payload) => Poll::Ready(Err(ToolError::panic(&*payload))),
    })
    .await
}

/// Runs the function of an extension's method. A panic becomes an error with a reference number.
async fn guarded_method(route: &MethodRoute, call: MethodCall) -> Result<MethodResult, RpcError> {
    let MethodRun::Async(run) = &route.run else { return Err(RpcError::internal("the method has no async function")) };
    let panicked = |payload: Box<dyn std::any::Any + Send>| {
        ToolError::panic(&*payload).into_rpc_error(|| RpcError::internal("not found"))
    };
    let mut future: MethodFuture = catch_unwind(AssertUnwindSafe(|| run(call))).map_err(panicked)?;
    poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(poll) => poll,
        Err(payload) => Poll::Ready(Err(panicked(payload))),
    })
    .await
}

async fn call_tool(
    server: &Server,
    entry: &ToolEntry,
    context: &Context,
    mut arguments: Value,
    version: ProtocolVersion,
) -> Result<CallToolResult, RpcError> {
    let spec = &entry.spec;
    if let Value::Object(given) = &mut arguments {
        for (name, value) in spec.defaults.iter().filter(|(name, _)| !given.contains_key(*name)).collect::<Vec<_>>() {
            given.insert(name.clone(), value.clone());
        }
    }
    let limit = spec.timeout.unwrap_or(server.limits().tool_timeout);
    if let Some(Err(errors)) = spec.input.as_ref().map(|schema| schema.validate(&arguments)) {
        return ToolError::new(format!("Invalid arguments: {errors}")).into_tool_result();
    }
    let outcome = match timed(
        context,
        limit,
        spec.timeout.is_none(),
        call_of::<ToolKind>(&entry.run, context, Arguments::Json(arguments)),
    )
    .await
    {
        Some(outcome) => outcome,
        None => {
            context.expire();
            Err(ToolError::new(format!("the tool did not finish within {} seconds", limit.as_secs_f32())))
        }
    };
    let mut result = match outcome {
        Ok(result) => checked(spec, result),
        Err(error) => error.into_tool_result()?,
    };
    result.shape(version);
    Ok(result)
}

/// Checks structured output against its schema. Invalid output is a fault of the server, and the client does not
/// receive it.
fn checked(spec: &ToolSpec, mut result: CallToolResult) -> CallToolResult {
    if result.is_error {
        return result;
    }
    if spec.text_is_data && result.structured_content.is_none() {
        let text = result.content.first().and_then(ContentBlock::as_text);
        result.structured_content = text.and_then(|text| serde_json::from_str(text).ok());
    }
    let Some(schema) = &spec.output else { return result };
    let problem = match &result.structured_content {
        None => "there is no structured content".to_owned(),
        Some(data) => match schema.validate(data) {
            Ok(()) => return result,
            Err(errors) => errors.to_string(),
        },
    };
    let reference = next_reference();
    tracing::error!(tool = spec.tool.name, reference, problem, "the output of a tool does not fit its schema");
    let text = format!("the tool's output does not fit its own schema (reference {reference})");
    let mut failure = CallToolResult::new(vec![ContentBlock::text(text)]);
    failure.is_error = true;
    failure
}

async fn read(
    server: &Server,
    context: &Context,
    run: impl Future<Output = Result<ReadResourceResult, ToolError>>,
    uri: &str,
    (mime_type, cache): (Option<&str>, Option<CacheHint>),
    version: ProtocolVersion,
) -> Result<ReadResourceResult, RpcError> {
    let not_found = || RpcError::resource_not_found(version, uri);
    let mut result = within(server, context, run).await?.map_err(|error| error.into_rpc_error(not_found))?;
    if result.contents.is_empty() && version.is_stateless() {
        return Err(not_found());
    }
    for contents in &mut result.contents {
        if contents.uri.is_empty() {
            uri.clone_into(&mut contents.uri);
        }
        if contents.mime_type.is_none() {
            contents.mime_type = mime_type.map(str::to_owned);
        }
    }
    let hint = cache.unwrap_or(server.data.config.read_cache);
    result.ttl_ms.get_or_insert(hint.ttl_ms());
    result.cache_scope.get_or_insert(hint.scope);
    result.shape(version);
    Ok(result)
}

async fn get_prompt(
    server: &Server,
    entry: &PromptEntry,
    context: &Context,
    arguments: Vec<(String, StringArgument)>,
    version: ProtocolVersion,
) -> Result<GetPromptResult, RpcError> {
    let run = call_of::<PromptKind>(&entry.run, context, Arguments::Strings(arguments));
    let not_found = || RpcError::invalid_params("not found");
    let mut result = within(server, context, run).await?.map_err(|error| error.into_rpc_error(not_found))?;
    if result.description.is_none() {
        result.description.clone_from(&entry.prompt.description);
    }
    result.shape(version);
    Ok(result)
}

async fn complete(
    server: &Server,
    source: &Ready<CompletionKind>,
    context: &Context,
) -> Result<CompleteResult, RpcError> {
    let run = call_of::<CompletionKind>(source, context, Arguments::Strings(Vec::new()));
    let not_found = || RpcError::invalid_params("not found");
    let mut completion = within(server, context, run).await?.map_err(|error| error.into_rpc_error(not_found))?;
    let count = completion.values.len();
    if count > COMPLETIONS {
        completion.values.truncate(COMPLETIONS);
        completion.total.get_or_insert(count as u64);
        completion.has_more = Some(true);
    } else {
        completion.has_more.get_or_insert(false);
        if completion.has_more == Some(false) {
            completion.total.get_or_insert(count as u64);
        }
    }
    Ok(CompleteResult::new(completion))
}

async fn within<T>(server: &Server, context: &Context, run: impl Future<Output = T>) -> Result<T, RpcError> {
    let limit = server.limits().read_timeout;
    timed(context, limit, true, run).await.ok_or_else(|| {
        context.expire();
        tracing::warn!(?limit, "a handler did not finish in time");
        RpcError::internal("the server did not finish in time")
    })
}

/// Limits the time of a handler, without the time that it waits for input. Returns `None` when the time is over.
async fn timed<T>(
    context: &Context,
    limit: Duration,
    is_server_limit: bool,
    run: impl Future<Output = T>,
) -> Option<T> {
    let mut run = std::pin::pin!(run);
    let in_time = match context.collector() {
        Some(collector) => collector.within(limit, run.as_mut()).await,
        None => tokio::time::timeout(limit, run.as_mut()).await.ok(),
    };
    match in_time {
        // The lifetime limits a task, unless its tool has a time limit.
        None if is_server_limit && context.task_id().is_some() => Some(run.await),
        in_time => in_time,
    }
}
