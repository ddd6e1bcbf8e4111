//! Prepares a request: finds its method and its handler, and checks scopes, headers, capabilities and parameters.

use std::sync::Arc;

use mcp_protocol::{
    CompleteParams, CompletionReference, ErrorCode, Excerpt, GetPromptParams, Method, ProtocolVersion,
    ReadResourceParams, RequestId, RequestMeta, RpcError, TaskSupport,
    jsonrpc::{Request, decode_params},
    method,
};
use mcp_uri_template::VarValue;
use serde::Deserialize;
use serde_json::{Map, Value, json, value::RawValue};
use tracing::Span;

use super::{
    MirroredHeaders,
    listen::ListenWork,
    methods::{self, Preparation},
    source_call::SourceWork,
    task_requests::TaskWork,
};
use crate::{
    Server,
    access::Access,
    context::{Completing, Context, EndGuard, ResourceUri},
    error::FaultItem,
    handler::{CompletionKind, Ready, StringArgument},
    inputs::InputCollector,
    registry::{MethodRoute, PromptEntry, ResourceEntry, TemplateEntry, ToolEntry, ToolSpec},
    request::{Denied, ParsedMeta, Refusal, Reply, Scope},
    session::{InFlightGuard, Pass},
    tasks::{Plan, TaskUpgrade, ToolTasks},
    trace::{self, AccessRecord, Target},
};

/// A request that passed all checks and can run.
pub struct Prepared {
    pub(super) server: Server,
    pub(super) id: RequestId,
    pub(super) scope: Scope,
    pub(super) context: EndGuard,
    pub(super) work: Work,
    pub(super) place: Option<Place>,
}

/// The permits of a running request. Dropping them releases them.
pub(super) struct Place {
    pub(super) _passes: (Option<Pass>, Option<Pass>),
    pub(super) _listed: Option<InFlightGuard>,
}

/// The work of a request.
pub(super) enum Work {
    /// The response exists already.
    Done(Reply),
    /// A handler.
    Handler(HandlerWork),
    /// A `subscriptions/listen` stream.
    Listen(Box<ListenWork>),
    /// An async method of an extension.
    Extension { route: Arc<MethodRoute>, params: Option<Box<RawValue>> },
    /// Nothing: the work was moved out to run.
    Over,
    /// A method about tasks.
    Task(TaskWork),
}

/// A handler and its arguments.
pub(crate) enum HandlerWork {
    Tool {
        entry: Arc<ToolEntry>,
        arguments: Value,
        plan: Plan,
    },
    Resource {
        entry: Arc<ResourceEntry>,
        uri: String,
    },
    Template {
        entry: Arc<TemplateEntry>,
        uri: String,
        variables: Vec<(String, StringArgument)>,
    },
    Prompt {
        entry: Arc<PromptEntry>,
        arguments: Vec<(String, StringArgument)>,
    },
    Complete {
        source: Ready<CompletionKind>,
    },
    /// A request that the source of the server serves.
    Source(Box<SourceWork>),
}

impl Work {
    /// Returns the subject of the request's span.
    fn target(&self) -> Target<'_> {
        match self {
            Self::Handler(HandlerWork::Tool { entry, .. }) => Target::Tool(&entry.spec.tool.name),
            Self::Handler(HandlerWork::Prompt { entry, .. }) => Target::Prompt(&entry.spec.prompt.name),
            Self::Handler(HandlerWork::Resource { uri, .. } | HandlerWork::Template { uri, .. }) => {
                Target::Resource(uri)
            }
            Self::Handler(HandlerWork::Source(work)) => work.target(),
            Self::Handler(HandlerWork::Complete { .. })
            | Self::Done(_)
            | Self::Listen(_)
            | Self::Extension { .. }
            | Self::Over
            | Self::Task(_) => Target::None,
        }
    }
}

impl HandlerWork {
    /// Returns the item that a fault of the handler names. Completions and sources have none.
    pub(super) fn subject(&self) -> Option<FaultItem> {
        match self {
            Self::Tool { entry, .. } => Some(entry.clone()),
            Self::Resource { entry, .. } => Some(entry.clone()),
            Self::Template { entry, .. } => Some(entry.clone()),
            Self::Prompt { entry, .. } => Some(entry.clone()),
            Self::Complete { .. } | Self::Source(_) => None,
        }
    }

    /// Whether the handler takes `Inputs`.
    fn uses_inputs(&self) -> bool {
        match self {
            Self::Tool { entry, .. } => entry.run.uses_inputs(),
            Self::Resource { entry, .. } => entry.run.uses_inputs(),
            Self::Template { entry, .. } => entry.run.uses_inputs(),
            Self::Prompt { entry, .. } => entry.run.uses_inputs(),
            // No revision has input requests for completions. A source returns them in its result.
            Self::Complete { .. } | Self::Source(_) => false,
        }
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("id", &self.id).field("is_done", &self.is_done()).finish_non_exhaustive()
    }
}

impl Prepared {
    /// Returns the revision of the response.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.scope.version
    }

    /// Returns the id of the request.
    #[must_use]
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    fn is_done(&self) -> bool {
        matches!(self.work, Work::Done(_))
    }

    /// Ends the request and returns its response, if the response exists already.
    ///
    /// # Errors
    /// The request itself, if it has to run.
    pub fn into_reply(self: Box<Self>) -> Result<Reply, Box<Self>> {
        match *self {
            Self { work: Work::Done(reply), context, .. } => {
                context.end(reply.ending());
                Ok(reply)
            }
            _ => Err(self),
        }
    }
}

impl Server {
    /// Prepares a request whose headers mirror its arguments.
    pub(super) fn prepare_with(
        &self,
        request: &Request<'_>,
        scope: Scope,
        headers: Option<&MirroredHeaders<'_>>,
    ) -> Result<Box<Prepared>, Refusal> {
        // A span of another library with our target may have left a slot.
        #[cfg(feature = "log-layer")]
        drop(crate::log_layer::opened());
        let span = trace::open(request, scope.transport());
        #[cfg(feature = "log-layer")]
        let slot = crate::log_layer::opened();
        trace::belongs(&span, scope.version, scope.client.session());
        // A call of the application itself is not an access.
        let mut access = match scope.transport() {
            Some(_) => AccessRecord::start(&request.method, scope.is_local, scope.principal.as_deref()),
            None => None,
        };
        if let Some(access) = &mut access {
            access.belongs(scope.version, scope.client.session());
        }
        let meta = || match &scope.parsed_meta {
            Some(parsed_meta) => parsed_meta.meta(),
            None => trace::meta_of(request),
        };
        trace::follow(&span, meta, self.data.config.bridge.as_ref());
        let prepared = span.in_scope(|| self.prepare_in(request, scope, headers, &span, &mut access));
        #[cfg(feature = "log-layer")]
        if let (Some(slot), Ok(prepared)) = (slot, &prepared) {
            slot.fill(&prepared.context);
        }
        match &prepared {
            Ok(prepared) => trace::name(&span, &request.method, prepared.work.target()),
            Err(refusal) => {
                trace::name(&span, &request.method, Target::None);
                trace::ended(&span, refusal.ending());
                if let Some(mut access) = access {
                    self.name_refused(request, &mut access);
                    access.ended(&span, refusal.ending(), false);
                }
            }
        }
        prepared
    }

    /// Names a rejected call in the access log after its tool or its prompt, if the server has it.
    fn name_refused(&self, request: &Request<'_>, access: &mut AccessRecord) {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow)]
            name: std::borrow::Cow<'a, str>,
        }
        let is_tool = request.method == method::CallTool::NAME;
        if !is_tool && request.method != method::GetPrompt::NAME {
            return;
        }
        let Ok(Params { name }) = decode_params(&request.method, request.params) else { return };
        if is_tool && self.data.tools.load().find(&name).is_some() {
            access.name(Target::Tool(&name));
        } else if !is_tool && self.data.prompts.load().find(&name).is_some() {
            access.name(Target::Prompt(&name));
        }
    }

    fn prepare_in(
        &self,
        request: &Request<'_>,
        scope: Scope,
        headers: Option<&MirroredHeaders<'_>>,
        span: &Span,
        access: &mut Option<Box<AccessRecord>>,
    ) -> Result<Box<Prepared>, Refusal> {
        self.check_access(&scope, &self.data.config.access)?;
        let method = methods::find(self, &request.method, &scope)?;
        let mut completing = None;
        let work =
            method.prepare(&mut Preparation { server: self, request, scope: &scope, completing: &mut completing })?;
        if let Work::Handler(HandlerWork::Tool { entry, arguments, .. }) = &work {
            check_tool(&entry.spec, arguments, &scope, headers)?;
        }
        if let Work::Handler(HandlerWork::Source(work)) = &work {
            work.check_headers(headers)?;
        }
        let collector = match &work {
            Work::Handler(work) if work.uses_inputs() => {
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
        let parsed_meta = match scope.parsed_meta.take() {
            Some(parsed_meta) => parsed_meta,
            None => RequestMeta::from_params(request.params)
                .map_err(RpcError::from)?
                .as_ref()
                .map(ParsedMeta::of)
                .unwrap_or_default(),
        };
        let task_upgrade = match &work {
            Work::Handler(HandlerWork::Tool { plan: Plan::Task { .. }, .. }) => Some(Arc::default()),
            _ => None,
        };
        let mut access = access.take();
        if let Some(access) = &mut access {
            access.name(work.target());
        }
        let context = context(self, request, &scope, parsed_meta, collector, task_upgrade, (span, access));
        let context = EndGuard(context);
        Ok(Box::new(Prepared { server: self.clone(), id: request.id.clone(), scope, context, work, place: None }))
    }

    pub(super) fn tool_call(&self, params: Option<&RawValue>, scope: &Scope) -> Result<HandlerWork, Refusal> {
        #[derive(Deserialize)]
        struct Params<'a> {
            name: std::borrow::Cow<'a, str>,
            #[serde(default)]
            arguments: Option<Map<String, Value>>,
            #[serde(default, borrow)]
            task: Option<&'a RawValue>,
        }
        let params: Params<'_> = decode_params(method::CallTool::NAME, params)?;
        let tools = self.data.tools.load();
        let Some(entry) = tools.find(&params.name) else {
            return Err(RpcError::invalid_params(format!("Unknown tool: {}", Excerpt::new(&params.name))).into());
        };
        self.check_access(scope, &entry.spec.access)?;
        let plan = self.plan(&entry.spec.tasks, params.task, scope)?;
        let arguments = params.arguments.unwrap_or_default();
        Ok(HandlerWork::Tool { entry: entry.clone(), arguments: Value::Object(arguments), plan })
    }

    fn plan(&self, tool: &ToolTasks, task: Option<&RawValue>, scope: &Scope) -> Result<Plan, RpcError> {
        // A server that declares no tasks ignores the `task` parameter.
        let is_declared = self.has_tasks() && !scope.lacks_session();
        if !is_declared || (tool.support == TaskSupport::Forbidden && task.is_none()) {
            return Ok(Plan::Plain);
        }
        let config = &self.data.config;
        let server = (config.task_policy, &config.limits.tasks);
        Plan::of(tool, task, scope.version, scope.client.capabilities(), server)
    }

    pub(super) fn resource_read(&self, params: Option<&RawValue>, scope: &Scope) -> Result<HandlerWork, Refusal> {
        let params: ReadResourceParams = decode_params(method::ReadResource::NAME, params)?;
        if let Some(entry) = self.data.resources.load().find(&params.uri) {
            self.check_access(scope, &entry.spec.access)?;
            return Ok(HandlerWork::Resource { entry: entry.clone(), uri: params.uri });
        }
        for entry in self.data.templates.load().iter() {
            if let Some(variables) = entry.spec.matcher.matches(&params.uri) {
                self.check_access(scope, &entry.spec.access)?;
                let variables = variables.iter().map(|(name, value)| (name.to_owned(), captured(value))).collect();
                return Ok(HandlerWork::Template { entry: entry.clone(), uri: params.uri, variables });
            }
        }
        Err(RpcError::resource_not_found(scope.version, &params.uri).into())
    }

    pub(super) fn prompt_get(&self, params: Option<&RawValue>, scope: &Scope) -> Result<HandlerWork, Refusal> {
        let params: GetPromptParams = decode_params(method::GetPrompt::NAME, params)?;
        let prompts = self.data.prompts.load();
        let entry = prompts.find(&params.name).ok_or_else(|| unknown_prompt(&params.name))?;
        self.check_access(scope, &entry.spec.access)?;
        let arguments = params.arguments.unwrap_or_default();
        let missing: Vec<_> = entry
            .spec
            .prompt
            .arguments
            .iter()
            .filter(|argument| argument.required == Some(true) && !arguments.contains_key(&argument.name))
            .map(|argument| argument.name.as_str())
            .collect();
        if !missing.is_empty() {
            let text = format!("the prompt `{}` needs the arguments: {}", entry.spec.prompt.name, missing.join(", "));
            return Err(RpcError::invalid_params(text).into());
        }
        let arguments = arguments.into_iter().map(|(name, value)| (name, StringArgument::One(value))).collect();
        Ok(HandlerWork::Prompt { entry: entry.clone(), arguments })
    }

    pub(super) fn completion(
        &self,
        params: Option<&RawValue>,
        scope: &Scope,
        completing: &mut Option<Completing>,
    ) -> Result<HandlerWork, Refusal> {
        let params: CompleteParams = decode_params(method::Complete::NAME, params)?;
        let argument = &*params.argument.name;
        let source = match &params.reference {
            CompletionReference::Prompt { name, .. } => {
                let prompts = self.data.prompts.load();
                let entry = prompts.find(name).ok_or_else(|| unknown_prompt(name))?;
                self.check_access(scope, &entry.spec.access)?;
                let mut arguments = entry.spec.prompt.arguments.iter();
                if !arguments.any(|known| known.name == argument) {
                    return Err(unknown_argument(&format!("the prompt `{name}`"), argument).into());
                }
                source_of(&entry.completions, argument)
            }
            CompletionReference::ResourceTemplate { uri } => {
                let templates = self.data.templates.load();
                match templates.find(uri) {
                    Some(entry) => {
                        self.check_access(scope, &entry.spec.access)?;
                        if !entry.spec.matcher.variables().any(|known| known == argument) {
                            return Err(unknown_argument(&format!("the template `{uri}`"), argument).into());
                        }
                        source_of(&entry.completions, argument)
                    }
                    // A plain resource has no arguments to complete, but its URI is valid.
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

    /// Checks the access rule of the resource at a URI. A URI of no resource has no rule.
    pub(crate) fn check_resource_access(&self, scope: &Scope, uri: &str) -> Result<(), Refusal> {
        if let Some(entry) = self.data.resources.load().find(uri) {
            return self.check_access(scope, &entry.spec.access);
        }
        let templates = self.data.templates.load();
        match templates.iter().find(|entry| entry.spec.matcher.matches(uri).is_some()) {
            Some(entry) => self.check_access(scope, &entry.spec.access),
            None => Ok(()),
        }
    }

    /// Checks the access rule of an entry. A denied caller learns all scopes that it needs, with those of the server.
    pub(crate) fn check_access(&self, scope: &Scope, rule: &Access) -> Result<(), Refusal> {
        if scope.has_access(rule) {
            return Ok(());
        }
        let mut denied = self.denied_by_server(scope.principal.is_none());
        denied.merge(Denied { scopes: rule.scopes.clone(), is_anonymous: denied.is_anonymous });
        Err(Refusal::Denied(denied))
    }
}

/// Checks the mirrored headers of a tool call, then the capabilities of its client.
fn check_tool(
    tool: &ToolSpec,
    arguments: &Value,
    scope: &Scope,
    headers: Option<&MirroredHeaders<'_>>,
) -> Result<(), RpcError> {
    if let Some(headers) = headers {
        headers.check_arguments(&tool.header_params, arguments)?;
    }
    let required = tool.required_client.as_ref();
    match required.and_then(|required| required.missing_from(scope.client.capabilities())) {
        Some(missing) => Err(RpcError::missing_client_capability(&missing)),
        None => Ok(()),
    }
}

fn captured(value: &VarValue) -> StringArgument {
    match value {
        VarValue::Text(text) => StringArgument::One(text.clone()),
        VarValue::List(texts) => StringArgument::Many(texts.clone()),
    }
}

fn unknown_prompt(name: &str) -> RpcError {
    RpcError::invalid_params(format!("Unknown prompt: {}", Excerpt::new(name)))
}

fn unknown_argument(of: &str, argument: &str) -> RpcError {
    RpcError::invalid_params(format!("{of} has no argument `{}` to complete", Excerpt::new(argument)))
}

fn source_of(sources: &[(String, Ready<CompletionKind>)], argument: &str) -> Option<Ready<CompletionKind>> {
    sources.iter().find(|(name, _)| name == argument).map(|(_, source)| source.clone())
}

fn no_completions() -> Ready<CompletionKind> {
    Ready::new(|_call| Box::pin(async { Ok(mcp_protocol::Completion::new(Vec::<String>::new())) }))
}

fn context(
    server: &Server,
    request: &Request<'_>,
    scope: &Scope,
    parsed_meta: ParsedMeta,
    collector: Option<Arc<InputCollector>>,
    task_upgrade: Option<Arc<TaskUpgrade>>,
    (span, access): (&Span, Option<Box<AccessRecord>>),
) -> Context {
    Context::new(crate::context::Inner {
        version: scope.version,
        request_id: Some(request.id.clone()),
        client: scope.client.clone(),
        principal: scope.principal.clone(),
        progress_token: parsed_meta.progress_token,
        raw_meta: parsed_meta.raw_meta,
        collector,
        task_upgrade,
        is_local: scope.is_local,
        meta: std::sync::OnceLock::new(),
        log_level: scope.log_level,
        sink: scope.surroundings.sink().cloned(),
        cancel: scope.cancel.clone(),
        cancel_reason: std::sync::OnceLock::new(),
        extensions: scope.extensions.clone(),
        outgoing: parking_lot::Mutex::default(),
        expired: std::sync::atomic::AtomicBool::new(false),
        span: span.clone(),
        shows_faults: server.data.config.shows_faults,
        access,
        server: server.clone(),
    })
}
