//! Runs handlers inside of their layers: time limits, panics, and the checks of results.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use mcp_protocol::{
    CacheScope, CallToolResult, CompleteResult, ContentBlock, Excerpt, GetPromptResult, Method as _, ProtocolVersion,
    ReadResourceResult, Rounded, RpcError, Shape, method,
};
use serde_json::Value;

use super::prepare::HandlerWork;
use crate::{
    Server,
    access::Access,
    cache_hint::CacheHint,
    context::{Completing, Context},
    error::{CALL_FAILED, Fault, ToolError, contain_async},
    handler::{
        Arguments, CallParts, CompletionKind, HandlerCall, Kind, PromptKind, Ready, ResourceKind, StringArgument,
        ToolKind,
    },
    layers::{self, Invocation, Outcome},
    registry::{PromptEntry, ToolEntry, ToolSpec},
    request::{Output, Performed},
};

/// The most values of a completion (server/utilities/completion).
const COMPLETIONS: usize = 100;

/// Describes a call for its layers.
pub(super) fn invocation(
    server: &Server,
    version: ProtocolVersion,
    context: &Context,
    mut work: HandlerWork,
) -> Invocation {
    let (method, name) = match &work {
        HandlerWork::Tool { entry, .. } => (method::CallTool::NAME, entry.spec.tool.name.clone()),
        HandlerWork::Resource { uri, .. } | HandlerWork::Template { uri, .. } => {
            (method::ReadResource::NAME, uri.clone())
        }
        HandlerWork::Prompt { entry, .. } => (method::GetPrompt::NAME, entry.spec.prompt.name.clone()),
        HandlerWork::Source(work) => (work.method(), work.name().to_owned()),
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
        Box::pin(async move { handled(&server, version, &run_context, work).await.map(Outcome) }) as layers::Running
    });
    Invocation { method, name, arguments, context: context.clone(), tool_layers, run }
}

/// Runs a handler, inside of all layers.
pub(super) async fn handled(
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
            let definition = (entry.spec.resource.mime_type.as_deref(), entry.spec.cache, &entry.spec.access);
            let run = pin!(call_of::<ResourceKind>(&entry.run, context, Arguments::Strings(Vec::new())));
            read(server, context, run, &uri, definition, version).await.map(Output::Resource)
        }
        HandlerWork::Template { entry, uri, variables } => {
            let definition = (entry.spec.template.mime_type.as_deref(), entry.spec.cache, &entry.spec.access);
            let run = pin!(call_of::<ResourceKind>(&entry.run, context, Arguments::Strings(variables)));
            read(server, context, run, &uri, definition, version).await.map(Output::Resource)
        }
        HandlerWork::Prompt { entry, arguments } => {
            get_prompt(server, &entry, context, arguments, version).await.map(Output::Prompt)
        }
        // Boxed, so that calls of registered handlers have a smaller future.
        HandlerWork::Source(work) => Box::pin(work.run(server, version, context)).await,
        HandlerWork::Complete { source } => complete(server, &source, context).await.map(Output::Completion),
    }
}

fn call_of<K: Kind>(
    run: &Ready<K>,
    context: &Context,
    arguments: Arguments,
) -> impl Future<Output = Result<K::Output, ToolError>> + Send + use<K> {
    let call = HandlerCall { parts: CallParts { context: context.clone() }, arguments };
    let collector = context.collector().cloned();
    let run = run.clone();
    async move {
        // Pinned here, because an async function stores its arguments twice.
        let handler = pin!(guarded::<K>(run, call));
        match collector {
            Some(collector) => collector.drive(handler).await,
            None => handler.await,
        }
    }
}

/// Runs a handler. A panic becomes an error with a reference number.
async fn guarded<K: Kind>(run: Ready<K>, call: HandlerCall) -> Result<K::Output, ToolError> {
    match contain_async(|| run.call(call)).await {
        Ok(output) => output,
        Err(panic) => Err(Fault::report("a handler panicked", CALL_FAILED, &panic).into()),
    }
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
    if let Some(schema) = &spec.input {
        if let Err(error) = schema.prepare() {
            let fault = Fault::report("the input schema of a tool is invalid", CALL_FAILED, error);
            return ToolError::from(fault).into_tool_result(context.shows_faults());
        }
        if let Err(errors) = schema.validate(&arguments) {
            return ToolError::new(format!("Invalid arguments: {errors}")).into_tool_result(false);
        }
    }
    let run = pin!(call_of::<ToolKind>(&entry.run, context, Arguments::Json(arguments)));
    let outcome = match timed(context, limit, spec.timeout.is_none(), run).await {
        Some(outcome) => outcome,
        None => {
            context.expire();
            Err(ToolError::server_text(format!("the tool `{}` took longer than {}", spec.tool.name, Rounded(limit))))
        }
    };
    let mut result = match outcome {
        Ok(result) => checked(spec, result, context.shows_faults()),
        Err(error) => error.into_tool_result(context.shows_faults())?,
    };
    result.shape(version);
    Ok(result)
}

/// Checks structured output against its schema. Invalid output is a fault of the server, and the client does not
/// receive it.
fn checked(spec: &ToolSpec, mut result: CallToolResult, shows_faults: bool) -> CallToolResult {
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
    let details = format!("`{}`: {problem}", spec.tool.name);
    let text = "the tool's output does not fit its own schema";
    let fault = Fault::report("the output of a tool does not fit its schema", text, &details);
    let mut failure = CallToolResult::new(vec![ContentBlock::text(fault.text(shows_faults))]);
    failure.is_error = true;
    failure
}

async fn read(
    server: &Server,
    context: &Context,
    run: Pin<&mut impl Future<Output = Result<ReadResourceResult, ToolError>>>,
    uri: &str,
    (mime_type, cache, access): (Option<&str>, Option<CacheHint>, &Access),
    version: ProtocolVersion,
) -> Result<ReadResourceResult, RpcError> {
    let not_found = || RpcError::resource_not_found(version, uri);
    let mut result = within(server, context, || format!("the resource `{}`", Excerpt::new(uri)), run)
        .await?
        .map_err(|error| error.into_rpc_error(context.shows_faults(), not_found))?;
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
    if access.is_public() && server.data.config.access.is_public() {
        result.cache_scope.get_or_insert(hint.scope);
    } else {
        // A shared cache would return the contents to callers without access.
        result.cache_scope = Some(CacheScope::Private);
    }
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
    let run = pin!(call_of::<PromptKind>(&entry.run, context, Arguments::Strings(arguments)));
    let what = || format!("the prompt `{}`", entry.spec.prompt.name);
    let result = within(server, context, what, run).await?;
    let mut result = result.map_err(|error| error.into_prompt_error(context.shows_faults()))?;
    if result.description.is_none() {
        result.description.clone_from(&entry.spec.prompt.description);
    }
    result.shape(version);
    Ok(result)
}

async fn complete(
    server: &Server,
    source: &Ready<CompletionKind>,
    context: &Context,
) -> Result<CompleteResult, RpcError> {
    let run = pin!(call_of::<CompletionKind>(source, context, Arguments::Strings(Vec::new())));
    let not_found = || RpcError::invalid_params("not found");
    let what = || "the completion".to_owned();
    let completion = within(server, context, what, run).await?;
    let mut completion = completion.map_err(|error| error.into_rpc_error(context.shows_faults(), not_found))?;
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

/// Limits the time of a handler that is not a tool. `what` names the item in the error.
async fn within<T>(
    server: &Server,
    context: &Context,
    what: impl FnOnce() -> String,
    run: Pin<&mut impl Future<Output = T>>,
) -> Result<T, RpcError> {
    let limit = server.limits().read_timeout;
    timed(context, limit, true, run).await.ok_or_else(|| {
        context.expire();
        let text = format!("{} took longer than {}", what(), Rounded(limit));
        tracing::warn!("{text}");
        RpcError::internal(text)
    })
}

/// Limits the time of a handler, without the time that it waits for input. Returns `None` when the time is over.
async fn timed<T>(
    context: &Context,
    limit: Duration,
    is_server_limit: bool,
    mut run: Pin<&mut impl Future<Output = T>>,
) -> Option<T> {
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
