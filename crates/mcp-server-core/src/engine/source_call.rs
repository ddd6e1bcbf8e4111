//! Requests that the source of a server serves instead of a registered handler.

use std::{any::Any, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use mcp_protocol::{
    CompleteParams, Method as _, PaginatedParams, Principal, ProtocolVersion, ResultType, Rounded, RpcError,
    jsonrpc::{Request, decode_params},
    method, shape_params,
};
use serde::Deserialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{
    MirroredHeaders,
    prepare::{HandlerWork, Work},
    source_task::{TaskMethod, is_task, not_a_task},
};
use crate::{
    Server,
    context::Context,
    error::{CALL_FAILED, Fault, contain, contain_async},
    json,
    request::{Output, RawOutput, Refusal, Scope, SourceResult},
    source::{
        CallClock, InstalledSource, Source, SourceCall, SourceDefinition, SourceList, SourceOutcome, StreamTurns,
        Subscriber, answer_inputs,
    },
    trace::Target,
};

/// The most rounds of input requests of one call in a session.
const ROUNDS: usize = 16;

/// The function of a source that a method calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SourceMethod {
    List(SourceList),
    CallTool,
    ReadResource,
    GetPrompt,
    Complete,
    Subscribe,
    SubscribeTask,
    Task(TaskMethod),
}

/// The value that keeps a subscription alive.
pub(super) type SubscriptionGuard = Box<dyn Any + Send + Sync>;

/// A request for a source.
pub(crate) struct SourceWork {
    source: Arc<dyn Source>,
    kind: SourceMethod,
    method: &'static str,
    name: Arc<str>,
    params: Arc<RawValue>,
    cursor: Option<Box<str>>,
    /// The definition of the tool or the prompt, if the source knows it.
    definition: Option<SourceDefinition>,
    /// The call may become a task.
    accepts_task: bool,
}

impl Server {
    /// Returns the source of the server, if it has one.
    pub(crate) fn source(&self) -> Option<&InstalledSource> {
        self.data.config.source.as_ref()
    }

    /// Returns the instructions of the server, or those of its source.
    pub(crate) fn instructions(&self, caller: Option<&Principal>) -> Option<String> {
        let of_source = || contain(|| self.source()?.source.instructions(caller)).ok().flatten();
        self.data.config.instructions.clone().or_else(of_source)
    }

    /// Prepares a request for the source; `None` if registered handlers serve the server.
    pub(super) fn source_work(
        &self,
        kind: SourceMethod,
        request: &Request<'_>,
        scope: &Scope,
    ) -> Option<Result<Work, Refusal>> {
        let installed = self.source()?;
        let work = SourceWork::read(&installed.source, kind, request, scope).and_then(|mut work| {
            if kind == SourceMethod::CallTool {
                work.accepts_task = self.source_call_accepts_task(&work.params, work.definition.as_ref(), scope)?;
            }
            Ok(work)
        });
        Some(work.map(|work| Work::Handler(HandlerWork::Source(Box::new(work)))).map_err(Refusal::from))
    }
}

impl SourceWork {
    fn read(
        source: &Arc<dyn Source>,
        kind: SourceMethod,
        request: &Request<'_>,
        scope: &Scope,
    ) -> Result<Self, RpcError> {
        #[derive(Deserialize)]
        struct Named {
            name: Box<str>,
        }
        #[derive(Deserialize)]
        struct Located {
            uri: Box<str>,
        }
        let (method, params) = (&*request.method, request.params);
        let (mut name, mut cursor): (Arc<str>, Option<Box<str>>) = Default::default();
        match kind {
            SourceMethod::List(_) => {
                cursor = decode_params::<PaginatedParams>(method, params)?.cursor.map(String::into_boxed_str);
            }
            SourceMethod::Complete => name = decode_params::<CompleteParams>(method, params)?.argument.name.into(),
            SourceMethod::CallTool | SourceMethod::GetPrompt => {
                name = match request.mirrored("name") {
                    Some(name) => name.into(),
                    None => decode_params::<Named>(method, params)?.name.into(),
                };
            }
            SourceMethod::ReadResource | SourceMethod::Subscribe => {
                name = match request.mirrored("uri") {
                    Some(uri) => uri.into(),
                    None => decode_params::<Located>(method, params)?.uri.into(),
                };
            }
            // A subscription of a stream is not a request.
            SourceMethod::SubscribeTask => return Err(RpcError::method_not_found(method)),
            SourceMethod::Task(task) => {
                let (id, next) = task.read(params)?;
                (name, cursor) = (id.into(), next);
            }
        }
        let list = match kind {
            SourceMethod::CallTool => Some(SourceList::Tools),
            SourceMethod::GetPrompt => Some(SourceList::Prompts),
            _ => None,
        };
        let definition = list.and_then(|list| source.find(list, &name, scope.principal.as_deref()));
        // A client of an older revision cannot send input responses with their meaning.
        let unreadable = |_| RpcError::invalid_params("the parameters cannot be read");
        let shape = |params: &RawValue| shape_params(method, params.get(), scope.version);
        let shaped = params.map(shape).transpose().map_err(unreadable)?;
        let params: Box<RawValue> = match (shaped, params) {
            (Some(None), Some(params)) => params.to_owned(),
            (shaped, _) => {
                let text = shaped.flatten().unwrap_or_else(|| "{}".to_owned());
                RawValue::from_string(text).map_err(unreadable)?
            }
        };
        Ok(Self {
            source: Arc::clone(source),
            kind,
            method: kind.method(),
            name,
            params: params.into(),
            cursor,
            definition,
            accepts_task: false,
        })
    }

    /// Prepares the subscription to a resource of a `subscriptions/listen` stream.
    pub(super) fn subscription(source: &Arc<dyn Source>, uri: &str) -> Result<Self, RpcError> {
        Self::of_stream(source, SourceMethod::Subscribe, "uri", uri)
    }

    /// Prepares the subscription to a task of a `subscriptions/listen` stream.
    pub(super) fn task_subscription(source: &Arc<dyn Source>, id: &str) -> Result<Self, RpcError> {
        Self::of_stream(source, SourceMethod::SubscribeTask, "taskId", id)
    }

    /// Prepares the request for the state of a task of a `subscriptions/listen` stream.
    pub(super) fn task_state(source: &Arc<dyn Source>, id: &str) -> Result<Self, RpcError> {
        Self::of_stream(source, SourceMethod::Task(TaskMethod::Get), "taskId", id)
    }

    fn of_stream(source: &Arc<dyn Source>, kind: SourceMethod, member: &str, name: &str) -> Result<Self, RpcError> {
        let params = to_raw_value(&serde_json::json!({ member: name }))
            .map_err(|_| RpcError::internal("the parameters cannot be written"))?;
        Ok(Self {
            source: Arc::clone(source),
            kind,
            method: kind.method(),
            name: name.into(),
            params: params.into(),
            cursor: None,
            definition: None,
            accepts_task: false,
        })
    }

    pub(super) fn method(&self) -> &'static str {
        self.method
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_tool_call(&self) -> bool {
        self.kind == SourceMethod::CallTool
    }

    /// Whether layers wrap the request. They wrap the methods that have handlers.
    pub(super) fn has_layers(&self) -> bool {
        use SourceMethod::{List, Subscribe, SubscribeTask, Task};
        !matches!(self.kind, List(_) | Subscribe | SubscribeTask | Task(_))
    }

    /// Returns the subject of the request's span. A tool or a prompt that the source does not know has none.
    pub(super) fn target(&self) -> Target<'_> {
        match self.kind {
            SourceMethod::CallTool if self.definition.is_some() => Target::Tool(&self.name),
            SourceMethod::GetPrompt if self.definition.is_some() => Target::Prompt(&self.name),
            SourceMethod::ReadResource => Target::Resource(&self.name),
            _ => Target::None,
        }
    }

    /// Compares the headers that mirror arguments, if the source knows the tool.
    pub(super) fn check_headers(&self, headers: Option<&MirroredHeaders<'_>>) -> Result<(), RpcError> {
        #[derive(Deserialize)]
        struct Params {
            #[serde(default)]
            arguments: Value,
        }
        let (Some(headers), Some(definition)) = (headers, &self.definition) else { return Ok(()) };
        let mirrored = definition.header_params();
        if !self.is_tool_call() || mirrored.is_empty() {
            return Ok(());
        }
        let Params { arguments } = decode_params(self.method, Some(&self.params))?;
        headers.check_arguments(mirrored, &arguments)
    }

    fn call(&self, context: &Context, clock: &CallClock, stream: Option<Subscriber>) -> SourceCall {
        SourceCall {
            method: self.method,
            name: Arc::clone(&self.name),
            params: Arc::clone(&self.params),
            cursor: self.cursor.clone(),
            definition: self.definition.clone(),
            accepts_task: self.accepts_task,
            context: context.clone(),
            clock: clock.clone(),
            stream,
            turns: None,
        }
    }

    /// Begins a subscription of a stream, or of the session of the request. The returned value keeps it alive.
    pub(super) async fn subscribe(
        self,
        server: &Server,
        context: &Context,
        stream: Option<(Subscriber, Arc<StreamTurns>, usize)>,
    ) -> Result<Option<SubscriptionGuard>, RpcError> {
        let clock = CallClock::new(&server.limits().inputs);
        let is_of_stream = stream.is_some();
        let (stream, turns) = stream.map(|(stream, turns, number)| (stream, (turns, number))).unzip();
        let call = SourceCall { turns, ..self.call(context, &clock, stream) };
        let limit = self.limit(server, &call);
        let begun = pin!(contain_async(|| match self.kind {
            SourceMethod::SubscribeTask => self.source.subscribe_task(call),
            _ => self.source.subscribe(call),
        }));
        match clock.within(limit, begun).await {
            Some(begun) => Ok(begun.map_err(|panic| panicked(&panic, context))??.into_guard()),
            // The request of a stream continues without this subscription.
            None if is_of_stream => Err(self.too_late(limit)),
            None => Err(self.late(context, limit)),
        }
    }

    /// Returns the state of a task for a stream, in the form of a revision. The source has this time at most, and the time of a read,
    /// because other tasks of the stream can wait.
    pub(super) async fn state(
        self,
        server: &Server,
        version: ProtocolVersion,
        context: &Context,
        most: Duration,
    ) -> Result<Bytes, RpcError> {
        let clock = CallClock::new(&server.limits().inputs);
        let call = self.call(context, &clock, None);
        let limit = self.limit(server, &call).min(server.limits().read_timeout).min(most);
        let requested = pin!(self.once(server, version, context, call));
        match clock.within(limit, requested).await.unwrap_or_else(|| Err(self.too_late(limit)))? {
            SourceOutcome::Complete(result) => {
                RawOutput { method: self.method, result, requires_input: false }.into_json(version)
            }
            SourceOutcome::InputRequired(_) | SourceOutcome::Task(_) => Err(invalid(context)),
        }
    }

    /// Subscribes the session of the request.
    async fn subscribe_session(
        self,
        server: &Server,
        version: ProtocolVersion,
        context: &Context,
    ) -> Result<Output, RpcError> {
        let (method, uri) = (self.method, Arc::clone(&self.name));
        let Some(session) = context.session() else {
            return Err(RpcError::invalid_params(format!("{method}: the request has no session")));
        };
        let cap = server.limits().subscribed_uris;
        // Another node of a fleet can have begun the subscription of a session. This node then begins one of its own.
        if session.can_subscribe(&uri, cap)? || !session.keeps_subscription(&uri) {
            let guard = self.subscribe(server, context, None).await?;
            session.subscribe(&uri, cap)?;
            session.keep_subscription(&uri, guard.unwrap_or_else(|| Box::new(())));
        }
        let result = SourceResult::new("{}", version);
        Ok(Output::Raw(Box::new(RawOutput { method, result, requires_input: false })))
    }

    /// Runs the request.
    pub(super) async fn run(
        self,
        server: &Server,
        version: ProtocolVersion,
        context: &Context,
    ) -> Result<Output, RpcError> {
        if self.kind == SourceMethod::Subscribe {
            return self.subscribe_session(server, version, context).await;
        }
        let clock = CallClock::new(&server.limits().inputs);
        let mut call = self.call(context, &clock, None);
        let limit = self.limit(server, &call);
        for _ in 0..ROUNDS {
            let outcome = {
                let run = pin!(self.once(server, version, context, call.clone()));
                clock.within(limit, run).await.unwrap_or_else(|| Err(self.late(context, limit)))?
            };
            let raw = |result, requires_input| {
                Output::Raw(Box::new(RawOutput { method: self.kind.result_method(), result, requires_input }))
            };
            match outcome {
                SourceOutcome::Complete(result) => return Ok(raw(result, false)),
                SourceOutcome::Task(result) => {
                    if !self.accepts_task || !is_task(&result, version) {
                        return Err(not_a_task(context));
                    }
                    context.record_task();
                    return Ok(raw(result, false));
                }
                SourceOutcome::InputRequired(result) if !requires_input(&result) => return Err(invalid(context)),
                SourceOutcome::InputRequired(result) if version.has_input_required() => return Ok(raw(result, true)),
                SourceOutcome::InputRequired(result) => {
                    call.params = answer_inputs(&call, &self.params, &result).await?.into();
                }
            }
        }
        Err(RpcError::internal(format!("the call needs more than {ROUNDS} rounds of input")))
    }

    /// Calls the source once.
    async fn once(
        &self,
        server: &Server,
        version: ProtocolVersion,
        context: &Context,
        call: SourceCall,
    ) -> Result<SourceOutcome, RpcError> {
        let source = &self.source;
        let complete = |result| SourceOutcome::Complete(SourceResult::new(result, version));
        let outcome = match self.kind {
            SourceMethod::List(list) => contain_async(|| source.list(list, call))
                .await
                .map(|page| page.map(|page| complete(page.write(list, version, &server.data.identity.opening)))),
            SourceMethod::CallTool => contain_async(|| source.call_tool(call)).await,
            SourceMethod::ReadResource => contain_async(|| source.read_resource(call)).await,
            SourceMethod::GetPrompt => contain_async(|| source.get_prompt(call)).await,
            SourceMethod::Complete => {
                contain_async(|| source.complete(call)).await.map(|result| result.map(SourceOutcome::Complete))
            }
            SourceMethod::Task(task) => {
                contain_async(|| task.run(&**source, call)).await.map(|result| result.map(SourceOutcome::Complete))
            }
            // Subscriptions do not run as handlers.
            SourceMethod::Subscribe | SourceMethod::SubscribeTask => Ok(Err(RpcError::method_not_found(self.method))),
        };
        outcome.map_err(|panic| panicked(&panic, context))?
    }

    /// Returns the time limit of a request.
    fn limit(&self, server: &Server, call: &SourceCall) -> Duration {
        if self.kind == SourceMethod::Task(TaskMethod::Result) {
            // The lifetime of the task limits the wait for its result.
            return Duration::MAX;
        }
        let of_source = contain(|| self.source.time_limit(call)).ok().flatten();
        of_source.unwrap_or(match self.kind {
            SourceMethod::CallTool => server.limits().tool_timeout,
            _ => server.limits().read_timeout,
        })
    }

    fn late(&self, context: &Context, limit: Duration) -> RpcError {
        context.expire();
        self.too_late(limit)
    }

    fn too_late(&self, limit: Duration) -> RpcError {
        tracing::warn!(method = self.method, ?limit, "a source exceeded the time limit");
        RpcError::internal(format!("{} took longer than {}", self.method, Rounded(limit)))
    }
}

/// Whether a result has input requests in the form of a revision that has them.
fn requires_input(result: &SourceResult) -> bool {
    let raw = json::from_slice::<&RawValue>(result.json()).ok();
    let kind = raw.and_then(|raw| ResultType::of(raw).ok());
    result.version().has_input_required() && kind == Some(ResultType::InputRequired)
}

fn invalid(context: &Context) -> RpcError {
    let details = "the result is not `input_required` in the form of 2026-07-28";
    let event = "a source returned invalid input requests";
    RpcError::internal(Fault::report(event, CALL_FAILED, &details).text(context.shows_faults()))
}

fn panicked(panic: &crate::error::Panic, context: &Context) -> RpcError {
    RpcError::internal(Fault::report("a source panicked", CALL_FAILED, panic).text(context.shows_faults()))
}

impl SourceMethod {
    fn method(self) -> &'static str {
        match self {
            Self::List(list) => list.method(),
            Self::CallTool => method::CallTool::NAME,
            Self::ReadResource => method::ReadResource::NAME,
            Self::GetPrompt => method::GetPrompt::NAME,
            Self::Complete => method::Complete::NAME,
            Self::Subscribe => method::Subscribe::NAME,
            Self::SubscribeTask => method::Listen::NAME,
            Self::Task(task) => task.name(),
        }
    }

    /// Returns the method whose result the source returns.
    fn result_method(self) -> &'static str {
        match self {
            Self::Task(TaskMethod::Result) => method::CallTool::NAME,
            other => other.method(),
        }
    }
}
