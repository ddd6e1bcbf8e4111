//! Finds out what a request asks for: which method, which tool or resource, with parameters that fit. Nothing runs yet.

use std::sync::Arc;

use bytes::Bytes;
use mcp_protocol::{
    ClientCapabilities, CompleteParams, CompletionReference, DiscoverResult, EmptyResult, ErrorCode, GetPromptParams,
    Method, PaginatedParams, ProtocolVersion, ReadResourceParams, RequestId, RequestMeta, RpcError, SetLevelParams,
    SubscribeParams, TaskSupport,
    jsonrpc::{Request, decode_params},
    method,
};
use mcp_schema::header::HeaderParam;
use mcp_uri_template::VarValue;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tracing::Span;

use super::{listen::ListenWork, task_requests::TaskWork};
use crate::{
    Server,
    context::{Completing, Context, ResourceUri},
    handler::{CompletionKind, Ready, StringArgument},
    inputs::InputCollector,
    registry::{PromptEntry, ResourceEntry, TemplateEntry, ToolEntry},
    request::{Refusal, Reply, Said, Scope},
    session::{Client, InFlightGuard, Pass},
    tasks::{self, Plan, TaskUpgrade, ToolTasks},
    trace::{self, Target},
};

/// A request that is understood and may run.
pub struct Prepared {
    pub(super) server: Server,
    pub(super) id: RequestId,
    pub(super) scope: Scope,
    pub(super) context: Context,
    pub(super) work: Work,
    pub(super) place: Option<Place>,
}

/// The places that a request takes while it runs, given back when dropped.
pub(super) struct Place {
    pub(super) _passes: (Option<Pass>, Option<Pass>),
    pub(super) _listed: Option<InFlightGuard>,
}

/// What a request asks for.
pub(super) enum Work {
    /// Nothing that is not answered already.
    Done(Reply),
    /// A handler.
    Handler(HandlerWork),
    /// A stream of notices.
    Listen(Box<ListenWork>),
    /// Nothing: it was taken out to be run.
    Over,
    /// Something about tasks.
    Task(TaskWork),
}

/// Which handler, and what it is given.
pub(crate) enum HandlerWork {
    Tool { entry: Arc<ToolEntry>, arguments: Value, plan: Plan },
    Resource { entry: Arc<ResourceEntry>, uri: String },
    Template { entry: Arc<TemplateEntry>, uri: String, variables: Vec<(String, StringArgument)> },
    Prompt { entry: Arc<PromptEntry>, arguments: Vec<(String, StringArgument)> },
    Complete { source: Ready<CompletionKind> },
}

impl Work {
    /// What its span is named after.
    fn target(&self) -> Target<'_> {
        match self {
            Self::Handler(HandlerWork::Tool { entry, .. }) => Target::Tool(&entry.spec.tool.name),
            Self::Handler(HandlerWork::Prompt { entry, .. }) => Target::Prompt(&entry.prompt.name),
            Self::Handler(HandlerWork::Resource { uri, .. } | HandlerWork::Template { uri, .. }) => {
                Target::Resource(uri)
            }
            Self::Handler(HandlerWork::Complete { .. })
            | Self::Done(_)
            | Self::Listen(_)
            | Self::Over
            | Self::Task(_) => Target::None,
        }
    }
}

impl HandlerWork {
    /// Whether the handler takes `Inputs`.
    fn asks(&self) -> bool {
        match self {
            Self::Tool { entry, .. } => entry.run.asks(),
            Self::Resource { entry, .. } => entry.run.asks(),
            Self::Template { entry, .. } => entry.run.asks(),
            Self::Prompt { entry, .. } => entry.run.asks(),
            // The revisions have no questions for completions.
            Self::Complete { .. } => false,
        }
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("id", &self.id).field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

impl Prepared {
    /// The revision that the answer speaks.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.scope.version
    }

    /// Whether the answer is there already, so that running it takes no time.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.work, Work::Done(_))
    }

    /// The arguments of a tool call that HTTP mirrors in headers, and the arguments themselves.
    #[must_use]
    pub fn header_params(&self) -> Option<(&[HeaderParam], &Value)> {
        match &self.work {
            Work::Handler(HandlerWork::Tool { entry, arguments, .. }) if !entry.spec.header_params.is_empty() => {
                Some((&entry.spec.header_params, arguments))
            }
            _ => None,
        }
    }

    /// The capabilities that the call needs and the client did not declare.
    #[must_use]
    pub fn missing_client_capabilities(&self) -> Option<ClientCapabilities> {
        match &self.work {
            Work::Handler(HandlerWork::Tool { plan: Plan::Refused(error), .. })
                if error.code == ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY =>
            {
                Some(tasks::required())
            }
            Work::Handler(HandlerWork::Tool { entry, .. }) => {
                entry.spec.required_client.as_ref()?.missing_from(self.context.client_capabilities())
            }
            _ => None,
        }
    }
}

impl Server {
    /// Finds out what a request asks for. Scopes are checked here, between the method and its parameters.
    ///
    /// # Errors
    /// A [`Refusal`]: the method does not exist in this revision or nothing stands behind it, the caller lacks scopes, or
    /// the parameters do not fit.
    pub fn prepare(&self, request: &Request<'_>, scope: Scope) -> Result<Prepared, Refusal> {
        // A span of another library with our target may have left a slot.
        #[cfg(feature = "log-layer")]
        drop(crate::log_layer::opened());
        let span = trace::open(request, scope.is_local);
        #[cfg(feature = "log-layer")]
        let slot = crate::log_layer::opened();
        trace::belongs(&span, scope.version, scope.client.session());
        let meta = || match &scope.said {
            Some(said) => said.meta(),
            None => trace::meta_of(request),
        };
        trace::follow(&span, meta, self.data.config.bridge.as_ref());
        let prepared = span.in_scope(|| self.prepare_in(request, scope, &span));
        #[cfg(feature = "log-layer")]
        if let (Some(slot), Ok(prepared)) = (slot, &prepared) {
            slot.fill(&prepared.context);
        }
        match &prepared {
            Ok(prepared) => trace::name(&span, &request.method, prepared.work.target()),
            Err(Refusal::Error(error)) => trace::failed_at(&span, &request.method, error),
            Err(Refusal::Scopes(_)) => trace::insufficient_scope(&span, &request.method),
        }
        prepared
    }

    fn prepare_in(&self, request: &Request<'_>, scope: Scope, span: &Span) -> Result<Prepared, Refusal> {
        let version = scope.version;
        let name = &*request.method;
        if !method::exists_in(name, version) {
            return Err(RpcError::method_not_in(name, version).into());
        }
        if !self.serves(name) || (scope.lacks_session() && needs_session(name)) {
            return Err(RpcError::method_not_found(name).into());
        }
        self.check_scopes(&scope, &self.data.config.required_scopes)?;
        let mut completing = None;
        let work = self.work(request, &scope, &mut completing)?;
        let collector = match &work {
            Work::Handler(work) if work.asks() => {
                Some(Arc::new(InputCollector::new(&self.data.inputs, request, scope.origin())?))
            }
            _ => None,
        };
        let mut scope = scope;
        if let Some(completing) = completing {
            scope.extensions.insert(completing);
        }
        if let Work::Handler(HandlerWork::Resource { uri, .. } | HandlerWork::Template { uri, .. }) = &work {
            scope.extensions.insert(ResourceUri(uri.clone()));
        }
        let said = match scope.said.take() {
            Some(said) => said,
            None => RequestMeta::from_params(request.params)
                .map_err(RpcError::from)?
                .as_ref()
                .map(Said::of)
                .unwrap_or_default(),
        };
        let tasking = match &work {
            Work::Handler(HandlerWork::Tool { plan: Plan::Task { .. }, .. }) => Some(Arc::default()),
            _ => None,
        };
        let context = context(self, request, &scope, said, collector, tasking, span);
        Ok(Prepared { server: self.clone(), id: request.id.clone(), scope, context, work, place: None })
    }

    /// Whether something stands behind a method: an undeclared capability has no methods.
    fn serves(&self, name: &str) -> bool {
        match name {
            method::ListTools::NAME | method::CallTool::NAME => self.has_tools(),
            method::ListResources::NAME
            | method::ListResourceTemplates::NAME
            | method::ReadResource::NAME
            | method::Subscribe::NAME
            | method::Unsubscribe::NAME => self.has_resources(),
            method::ListPrompts::NAME | method::GetPrompt::NAME => self.has_prompts(),
            method::Complete::NAME => self.has_completions(),
            method::Listen::NAME => self.has_tools() || self.has_resources() || self.has_prompts() || self.has_tasks(),
            method::GetTask::NAME
            | method::GetTaskPayload::NAME
            | method::ListTasks::NAME
            | method::CancelTask::NAME
            | method::UpdateTask::NAME => self.has_tasks(),
            #[cfg(feature = "skills")]
            method::ListSkills::NAME | method::GetSkill::NAME | method::ReadDirectory::NAME => self.has_skills(),
            method::Ping::NAME | method::Discover::NAME | method::SetLevel::NAME => true,
            _ => false,
        }
    }

    fn work(&self, request: &Request<'_>, scope: &Scope, completing: &mut Option<Completing>) -> Result<Work, Refusal> {
        let (name, params, version) = (&*request.method, request.params, scope.version);
        let done = |reply: Reply| Ok(Work::Done(reply));
        match name {
            method::CallTool::NAME => self.tool_call(name, params, scope).map(Work::Handler),
            method::ReadResource::NAME => self.resource_read(name, params, version).map(Work::Handler),
            method::GetPrompt::NAME => self.prompt_get(name, params).map(Work::Handler),
            method::Complete::NAME => self.completion(name, params, completing).map(Work::Handler),
            method::GetTask::NAME
            | method::GetTaskPayload::NAME
            | method::ListTasks::NAME
            | method::CancelTask::NAME
            | method::UpdateTask::NAME => Ok(Work::Task(TaskWork::read(name, params, scope)?)),
            method::ListTools::NAME
            | method::ListResources::NAME
            | method::ListResourceTemplates::NAME
            | method::ListPrompts::NAME => {
                let params: PaginatedParams = decode_params(name, params)?;
                let page = self.list(name, version, params.cursor.as_deref())?;
                done(Reply::written(&request.id, page))
            }
            #[cfg(feature = "skills")]
            method::ListSkills::NAME | method::GetSkill::NAME | method::ReadDirectory::NAME => {
                done(Reply::written(&request.id, self.skills_result(name, params, version)?))
            }
            method::Ping::NAME => {
                done(Reply::result(&self.data.identity, &request.id, version, EmptyResult::default(), 16))
            }
            method::Discover::NAME => {
                let names = self.versions().iter().map(|version| version.as_str().to_owned());
                let mut result = DiscoverResult::new(names.collect(), self.capabilities(version, false));
                result.instructions.clone_from(&self.data.config.instructions);
                let hint = self.data.config.discover_cache;
                result.ttl_ms = Some(hint.ttl_ms());
                result.cache_scope = Some(hint.scope);
                done(Reply::result(&self.data.identity, &request.id, version, result, 512))
            }
            method::SetLevel::NAME => {
                let params: SetLevelParams = decode_params(name, params)?;
                if let Client::Session(session) = &scope.client {
                    session.set_log_level(params.level);
                }
                done(Reply::result(&self.data.identity, &request.id, version, EmptyResult::default(), 16))
            }
            method::Subscribe::NAME | method::Unsubscribe::NAME => {
                let params: SubscribeParams = decode_params(name, params)?;
                let Client::Session(session) = &scope.client else {
                    return Err(RpcError::invalid_params(format!("{name}: there is no session to be told in")).into());
                };
                if name == method::Subscribe::NAME {
                    session.subscribe(&params.uri, self.limits().subscribed_uris)?;
                } else {
                    session.unsubscribe(&params.uri);
                }
                done(Reply::result(&self.data.identity, &request.id, version, EmptyResult::default(), 16))
            }
            method::Listen::NAME => Ok(Work::Listen(Box::new(ListenWork::prepare(self, params, scope)?))),
            _ => Err(RpcError::method_not_found(name).into()),
        }
    }

    fn tool_call(&self, name: &str, params: Option<&RawValue>, scope: &Scope) -> Result<HandlerWork, Refusal> {
        #[derive(Deserialize)]
        struct Params<'a> {
            name: std::borrow::Cow<'a, str>,
            #[serde(default)]
            arguments: Option<Map<String, Value>>,
            #[serde(default, borrow)]
            task: Option<&'a RawValue>,
        }
        let params: Params<'_> = decode_params(name, params)?;
        let tools = self.data.tools.load();
        let Some(entry) = tools.find(&params.name) else {
            let shown: String = params.name.chars().take(128).collect();
            return Err(RpcError::invalid_params(format!("Unknown tool: {shown}")).into());
        };
        self.check_scopes(scope, &entry.spec.required_scopes)?;
        let plan = self.plan(&entry.spec.tasks, params.task, scope)?;
        let arguments = params.arguments.unwrap_or_default();
        Ok(HandlerWork::Tool { entry: entry.clone(), arguments: Value::Object(arguments), plan })
    }

    fn plan(&self, tool: &ToolTasks, task: Option<&RawValue>, scope: &Scope) -> Result<Plan, RpcError> {
        // Where no tasks are declared, nobody takes notice of those who ask for one.
        let is_declared = self.has_tasks() && !scope.lacks_session();
        if !is_declared || (tool.support == TaskSupport::Forbidden && task.is_none()) {
            return Ok(Plan::Plain);
        }
        let config = &self.data.config;
        let server = (config.task_policy, &config.limits.tasks);
        Plan::of(tool, task, scope.version, scope.client.capabilities(), server)
    }

    fn resource_read(
        &self,
        name: &str,
        params: Option<&RawValue>,
        version: ProtocolVersion,
    ) -> Result<HandlerWork, Refusal> {
        let params: ReadResourceParams = decode_params(name, params)?;
        if let Some(entry) = self.data.resources.load().find(&params.uri) {
            return Ok(HandlerWork::Resource { entry: entry.clone(), uri: params.uri });
        }
        for entry in self.data.templates.load().iter() {
            if let Some(variables) = entry.spec.matcher.matches(&params.uri) {
                let variables = variables.iter().map(|(name, value)| (name.to_owned(), captured(value))).collect();
                return Ok(HandlerWork::Template { entry: entry.clone(), uri: params.uri, variables });
            }
        }
        Err(RpcError::resource_not_found(version, &params.uri).into())
    }

    fn prompt_get(&self, name: &str, params: Option<&RawValue>) -> Result<HandlerWork, Refusal> {
        let params: GetPromptParams = decode_params(name, params)?;
        let prompts = self.data.prompts.load();
        let entry = prompts.find(&params.name).ok_or_else(|| unknown_prompt(&params.name))?;
        let arguments = params.arguments.unwrap_or_default();
        let missing: Vec<_> = entry
            .prompt
            .arguments
            .iter()
            .filter(|argument| argument.required == Some(true) && !arguments.contains_key(&argument.name))
            .map(|argument| argument.name.as_str())
            .collect();
        if !missing.is_empty() {
            let text = format!("the prompt `{}` needs the arguments: {}", entry.prompt.name, missing.join(", "));
            return Err(RpcError::invalid_params(text).into());
        }
        let arguments = arguments.into_iter().map(|(name, value)| (name, StringArgument::One(value))).collect();
        Ok(HandlerWork::Prompt { entry: entry.clone(), arguments })
    }

    fn completion(
        &self,
        name: &str,
        params: Option<&RawValue>,
        completing: &mut Option<Completing>,
    ) -> Result<HandlerWork, Refusal> {
        let params: CompleteParams = decode_params(name, params)?;
        let argument = &*params.argument.name;
        let source = match &params.reference {
            CompletionReference::Prompt { name, .. } => {
                let prompts = self.data.prompts.load();
                let entry = prompts.find(name).ok_or_else(|| unknown_prompt(name))?;
                let mut arguments = entry.prompt.arguments.iter();
                if !arguments.any(|known| known.name == argument) {
                    return Err(unknown_argument(&format!("the prompt `{name}`"), argument).into());
                }
                source_of(&entry.completions, argument)
            }
            CompletionReference::ResourceTemplate { uri } => {
                let templates = self.data.templates.load();
                match templates.find(uri) {
                    Some(entry) if entry.spec.matcher.variables().any(|known| known == argument) => {
                        source_of(&entry.completions, argument)
                    }
                    Some(_) => return Err(unknown_argument(&format!("the template `{uri}`"), argument).into()),
                    // A URI of a plain resource has nothing to complete, but it is not unknown.
                    None if self.data.resources.load().find(uri).is_some() => None,
                    None => {
                        let error = RpcError::new(ErrorCode::INVALID_PARAMS, "Unknown resource template");
                        return Err(error.with_data(json!({ "uri": uri })).into());
                    }
                }
            }
            _ => return Err(RpcError::invalid_params("unknown type of reference").into()),
        };
        *completing = Some(Completing {
            argument: params.argument.name,
            value: params.argument.value,
            context: params.context.and_then(|context| context.arguments).unwrap_or_default(),
        });
        Ok(HandlerWork::Complete { source: source.unwrap_or_else(no_completions) })
    }

    fn list(&self, name: &str, version: ProtocolVersion, cursor: Option<&str>) -> Result<Bytes, RpcError> {
        let (data, style) = (&self.data, &self.data.list_style);
        match name {
            method::ListTools::NAME => data.tools.load().page(version, cursor, style),
            method::ListResources::NAME => data.resources.load().page(version, cursor, style),
            method::ListResourceTemplates::NAME => data.templates.load().page(version, cursor, style),
            _ => data.prompts.load().page(version, cursor, style),
        }
        .map_err(|_| RpcError::invalid_params("invalid cursor"))
    }

    pub(crate) fn check_scopes(&self, scope: &Scope, required: &[String]) -> Result<(), Refusal> {
        if required.is_empty() || scope.is_local {
            return Ok(());
        }
        let granted = scope.principal.as_deref();
        if granted.is_some_and(|principal| required.iter().all(|needed| principal.scopes.contains(needed))) {
            return Ok(());
        }
        let mut all = self.data.config.required_scopes.clone();
        all.extend(required.iter().filter(|scope| !self.data.config.required_scopes.contains(scope)).cloned());
        Err(Refusal::Scopes(all))
    }
}

fn captured(value: &VarValue) -> StringArgument {
    match value {
        VarValue::Text(text) => StringArgument::One(text.clone()),
        VarValue::List(texts) => StringArgument::Many(texts.clone()),
    }
}

fn unknown_prompt(name: &str) -> RpcError {
    let shown: String = name.chars().take(128).collect();
    RpcError::invalid_params(format!("Unknown prompt: {shown}"))
}

fn unknown_argument(of: &str, argument: &str) -> RpcError {
    let shown: String = argument.chars().take(128).collect();
    RpcError::invalid_params(format!("{of} has no argument `{shown}` to complete"))
}

fn source_of(sources: &[(String, Ready<CompletionKind>)], argument: &str) -> Option<Ready<CompletionKind>> {
    sources.iter().find(|(name, _)| name == argument).map(|(_, source)| source.clone())
}

fn no_completions() -> Ready<CompletionKind> {
    Ready::new(|_call| Box::pin(async { Ok(mcp_protocol::Completion::new(Vec::<String>::new())) }))
}

/// Whether a method of a revision with sessions means nothing outside of one.
fn needs_session(name: &str) -> bool {
    matches!(
        name,
        method::SetLevel::NAME
            | method::Subscribe::NAME
            | method::Unsubscribe::NAME
            | method::GetTask::NAME
            | method::GetTaskPayload::NAME
            | method::ListTasks::NAME
            | method::CancelTask::NAME
            | method::UpdateTask::NAME
    )
}

fn context(
    server: &Server,
    request: &Request<'_>,
    scope: &Scope,
    said: Said,
    collector: Option<Arc<InputCollector>>,
    tasking: Option<Arc<TaskUpgrade>>,
    span: &Span,
) -> Context {
    Context::new(crate::context::Inner {
        version: scope.version,
        request_id: Some(request.id.clone()),
        client: scope.client.clone(),
        principal: scope.principal.clone(),
        progress_token: said.progress_token,
        raw_meta: said.raw_meta,
        collector,
        tasking,
        is_local: scope.is_local,
        meta: std::sync::OnceLock::new(),
        log_level: scope.log_level,
        sink: scope.sink.clone(),
        cancel: scope.cancel.clone(),
        extensions: scope.extensions.clone(),
        outgoing: parking_lot::Mutex::default(),
        expired: std::sync::atomic::AtomicBool::new(false),
        span: span.clone(),
        server: server.clone(),
    })
}
