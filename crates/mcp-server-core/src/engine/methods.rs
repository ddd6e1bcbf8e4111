//! The table of methods: one row per request of the protocol. The dispatch, its checks and the check of the header
//! `Mcp-Name` follow from the rows.
//!
//! [`RequestName`] is exhaustive, so that a method without a row does not compile. Methods of extensions are found by the
//! same lookup; see [`find`].

use std::sync::Arc;

use mcp_protocol::{
    CacheScope, DiscoverResult, EmptyResult, Method, PaginatedParams, ProtocolVersion, RequestId, RpcError,
    SetLevelParams, SubscribeParams,
    jsonrpc::{Request, decode_params},
    method::{self, RequestName},
};

use super::{listen::ListenWork, prepare::Work, source_call::SourceMethod, task_requests::TaskWork};
use crate::{
    Server,
    context::Completing,
    error::{CALL_FAILED, Fault, Panic, contain, with_subject},
    registry::{Entry, MethodRequest, MethodResult, MethodRoute, MethodRun, Registry, ResultForm},
    request::{Body, Refusal, Reply, Scope},
    session::Client,
    source::SourceList,
};

/// A request whose work is being prepared.
pub(super) struct Preparation<'a> {
    pub(super) server: &'a Server,
    pub(super) request: &'a Request<'a>,
    pub(super) scope: &'a Scope,
    /// The argument that a completion request completes.
    pub(super) completing: &'a mut Option<Completing>,
}

/// The declaration of a method.
struct Row {
    /// The parameter that the header `Mcp-Name` mirrors over HTTP.
    mirrored_param: Option<&'static str>,
    dispatch: Dispatch,
}

/// How the server treats a method.
enum Dispatch {
    /// The engine serves the method.
    Served(Served),
    /// An extension may serve the method.
    LeftToExtensions,
    /// The method is not dispatched: `initialize` opens a session, and the others are requests of servers to clients.
    NotDispatched,
}

/// A method that the engine serves.
pub(super) struct Served {
    requires: Requirement,
    /// Whether the method has a meaning only within a session, in the revisions of the session era.
    needs_session: bool,
    prepare: Prepare,
}

/// The capability without which a method does not exist.
#[derive(Clone, Copy)]
enum Requirement {
    Nothing,
    Tools,
    Resources,
    Prompts,
    Completions,
    Tasks,
    /// The server has a list, a resource or tasks that can change.
    Changes,
}

impl Requirement {
    fn is_met(self, server: &Server) -> bool {
        match self {
            Self::Nothing => true,
            Self::Tools => server.has_tools(),
            Self::Resources => server.has_resources(),
            Self::Prompts => server.has_prompts(),
            Self::Completions => server.has_completions(),
            Self::Tasks => server.has_tasks(),
            Self::Changes => server.has_tools() || server.has_resources() || server.has_prompts() || server.has_tasks(),
        }
    }
}

/// Builds the table. Each row has the name, the session need (`anywhere` or `in_session`), the required capability and the
/// function. The row takes its mirrored parameter from the declaration of the same name in `mcp-protocol`, because the
/// client reads that declaration, too.
macro_rules! methods {
    ($($name:ident => $dispatch:expr;)*) => {
        /// Returns the row of a method.
        fn row(name: RequestName) -> &'static Row {
            match name {
                $(RequestName::$name => {
                    static ROW: Row =
                        Row { mirrored_param: <method::$name as Method>::MIRRORED_PARAM, dispatch: $dispatch };
                    &ROW
                })*
            }
        }
    };
}

methods! {
    Initialize => Dispatch::NotDispatched;
    Ping => anywhere(Requirement::Nothing, |p| Ok(Work::Done(empty(p))));
    Discover => anywhere(Requirement::Nothing, discover);
    Listen => anywhere(Requirement::Changes, |p| {
        Ok(Work::Listen(Box::new(ListenWork::prepare(p.server, p.request.params, p.scope)?)))
    });
    ListTools => anywhere(Requirement::Tools, |p| list(p, &p.server.data.tools, SourceList::Tools));
    CallTool => anywhere(Requirement::Tools, |p| {
        sourced(p, SourceMethod::CallTool, |p| p.server.tool_call(p.request.params, p.scope).map(Work::Handler))
    });
    ListResources => anywhere(Requirement::Resources, |p| list(p, &p.server.data.resources, SourceList::Resources));
    ListResourceTemplates => anywhere(Requirement::Resources, |p| list(p, &p.server.data.templates, SourceList::ResourceTemplates));
    ReadResource => anywhere(Requirement::Resources, |p| {
        sourced(p, SourceMethod::ReadResource, |p| {
            p.server.resource_read(p.request.params, p.scope).map(Work::Handler)
        })
    });
    Subscribe => in_session(Requirement::Resources, subscribe);
    Unsubscribe => in_session(Requirement::Resources, subscribe);
    ListPrompts => anywhere(Requirement::Prompts, |p| list(p, &p.server.data.prompts, SourceList::Prompts));
    GetPrompt => anywhere(Requirement::Prompts, |p| {
        sourced(p, SourceMethod::GetPrompt, |p| p.server.prompt_get(p.request.params, p.scope).map(Work::Handler))
    });
    Complete => anywhere(Requirement::Completions, |p| {
        sourced(p, SourceMethod::Complete, |p| {
            p.server.completion(p.request.params, p.scope, p.completing).map(Work::Handler)
        })
    });
    SetLevel => in_session(Requirement::Nothing, set_level);
    CreateMessage => Dispatch::NotDispatched;
    ListRoots => Dispatch::NotDispatched;
    Elicit => Dispatch::NotDispatched;
    GetTask => in_session(Requirement::Tasks, task);
    GetTaskPayload => in_session(Requirement::Tasks, task);
    ListTasks => in_session(Requirement::Tasks, task);
    CancelTask => in_session(Requirement::Tasks, task);
    UpdateTask => in_session(Requirement::Tasks, task);
    ListSkills => Dispatch::LeftToExtensions;
    GetSkill => Dispatch::LeftToExtensions;
    ReadDirectory => Dispatch::LeftToExtensions;
}

type Prepare = fn(&mut Preparation<'_>) -> Result<Work, Refusal>;

const fn anywhere(requires: Requirement, prepare: Prepare) -> Dispatch {
    Dispatch::Served(Served { requires, needs_session: false, prepare })
}

const fn in_session(requires: Requirement, prepare: Prepare) -> Dispatch {
    Dispatch::Served(Served { requires, needs_session: true, prepare })
}

/// Returns the parameter that the header `Mcp-Name` mirrors. Methods of other extensions have none.
pub(super) fn mirrored_param(name: &str) -> Option<&'static str> {
    RequestName::parse(name).and_then(|known| row(known).mirrored_param)
}

/// A method that the server serves.
pub(super) enum Found<'a> {
    Engine(&'static Served),
    Extension(&'a Arc<MethodRoute>),
}

/// Finds a method by its name.
///
/// # Errors
/// Returns `-32601` when the revision does not have the method, or the server does not serve it.
pub(super) fn find<'a>(server: &'a Server, name: &str, scope: &Scope) -> Result<Found<'a>, RpcError> {
    let known = RequestName::parse(name);
    if let Some(known) = known
        && !method::exists_in(name, scope.version)
    {
        return Err(RpcError::method_not_in(known.as_str(), scope.version));
    }
    match known.map(|known| &row(known).dispatch) {
        Some(Dispatch::Served(served))
            if served.requires.is_met(server) && !(served.needs_session && scope.lacks_session()) =>
        {
            Ok(Found::Engine(served))
        }
        Some(Dispatch::Served(_) | Dispatch::NotDispatched) => Err(RpcError::method_not_found(name)),
        Some(Dispatch::LeftToExtensions) | None => match server.data.extensions.method(name) {
            Some(route) if !(route.exists_in)(scope.version) => Err(RpcError::method_not_in(name, scope.version)),
            Some(route) if !(route.needs_session && scope.lacks_session()) => Ok(Found::Extension(route)),
            _ if known.is_none() => Err(RpcError::method_not_in(name, scope.version)),
            _ => Err(RpcError::method_not_found(name)),
        },
    }
}

impl Found<'_> {
    /// Prepares the work of a request for this method.
    pub(super) fn prepare(&self, preparation: &mut Preparation<'_>) -> Result<Work, Refusal> {
        match self {
            Self::Engine(served) => (served.prepare)(preparation),
            Self::Extension(route) => extension(route, preparation),
        }
    }
}

fn extension(route: &Arc<MethodRoute>, p: &Preparation<'_>) -> Result<Work, Refusal> {
    p.server.check_access(p.scope, &route.access)?;
    let (name, params, version) = (&*p.request.method, p.request.params, p.scope.version);
    match &route.run {
        MethodRun::Immediate(run) => {
            let request = MethodRequest::new(name, params, version, &p.server.data.list_style);
            let result = with_subject(route.clone(), || {
                contain(|| run(&request)).map_err(|panic| method_panicked(&panic, p.server.data.config.shows_faults))
            })??;
            Ok(Work::Done(reply(p.server, &p.request.id, version, result)))
        }
        MethodRun::Async(_) => Ok(Work::Extension { route: route.clone(), params: params.map(ToOwned::to_owned) }),
    }
}

/// Reports the panic of an extension's method, and returns the error for the client.
pub(super) fn method_panicked(panic: &Panic, shows_faults: bool) -> RpcError {
    RpcError::internal(Fault::report("a method of an extension panicked", CALL_FAILED, panic).text(shows_faults))
}

/// Writes the reply of an extension's method.
pub(super) fn reply(server: &Server, id: &RequestId, version: ProtocolVersion, result: MethodResult) -> Reply {
    match result.0 {
        ResultForm::Members(members) => Reply::result(&server.data.identity, id, version, members, 512),
        ResultForm::Written(result) => Reply::written(id, Body::Line(result)),
    }
}

/// Prepares a request for the source of the server, or for a registered handler if the server has no source.
fn sourced(
    p: &mut Preparation<'_>,
    method: SourceMethod,
    registered: impl FnOnce(&mut Preparation<'_>) -> Result<Work, Refusal>,
) -> Result<Work, Refusal> {
    match p.server.source_work(method, p.request, p.scope) {
        Some(work) => work,
        None => registered(p),
    }
}

fn list<E: Entry>(p: &Preparation<'_>, registry: &Registry<E>, list: SourceList) -> Result<Work, Refusal> {
    if let Some(work) = p.server.source_work(SourceMethod::List(list), p.request, p.scope) {
        return work;
    }
    let params: PaginatedParams = decode_params(&p.request.method, p.request.params)?;
    let (snapshot, style, cursor) = (registry.load(), &p.server.data.list_style, params.cursor.as_deref());
    let page = if p.server.data.config.lists_forbidden_entries {
        snapshot.page(p.scope.version, cursor, style)
    } else {
        let is_public = p.server.data.config.access.is_public();
        snapshot.visible_page(p.scope.version, cursor, style, is_public, |rule| p.scope.has_access(rule))
    };
    let page = page.map_err(|_| RpcError::invalid_params("invalid cursor"))?;
    Ok(Work::Done(Reply::written(&p.request.id, Body::Line(page))))
}

fn empty(p: &Preparation<'_>) -> Reply {
    Reply::result(&p.server.data.identity, &p.request.id, p.scope.version, EmptyResult::default(), 16)
}

fn discover(p: &mut Preparation<'_>) -> Result<Work, Refusal> {
    let (server, version) = (p.server, p.scope.version);
    let names = server.versions().iter().map(|version| version.as_str().to_owned());
    let mut result = DiscoverResult::new(names.collect(), server.capabilities(version, false)?);
    let caller = p.scope.principal.as_deref();
    result.instructions = server.instructions(caller);
    let mut hint = server.data.config.discover_cache;
    if server.source().is_some() && caller.is_some() {
        // The instructions of a source can depend on the caller.
        hint.scope = CacheScope::Private;
    }
    result.ttl_ms = Some(hint.ttl_ms());
    result.cache_scope = Some(hint.scope);
    Ok(Work::Done(Reply::result(&server.data.identity, &p.request.id, version, result, 512)))
}

fn set_level(p: &mut Preparation<'_>) -> Result<Work, Refusal> {
    let params: SetLevelParams = decode_params(&p.request.method, p.request.params)?;
    if let Client::Session(session) = &p.scope.client {
        session.set_log_level(params.level);
    }
    Ok(Work::Done(empty(p)))
}

fn subscribe(p: &mut Preparation<'_>) -> Result<Work, Refusal> {
    let name = &*p.request.method;
    let params: SubscribeParams = decode_params(name, p.request.params)?;
    let Client::Session(session) = &p.scope.client else {
        return Err(RpcError::invalid_params(format!("{name}: the request has no session")).into());
    };
    if name == method::Subscribe::NAME {
        if let Some(work) = p.server.source_work(SourceMethod::Subscribe, p.request, p.scope) {
            return work;
        }
        p.server.check_resource_access(p.scope, &params.uri)?;
        session.subscribe(&params.uri, p.server.limits().subscribed_uris)?;
    } else {
        session.unsubscribe(&params.uri);
    }
    Ok(Work::Done(empty(p)))
}

fn task(p: &mut Preparation<'_>) -> Result<Work, Refusal> {
    if let Some(work) = p.server.source_task(p.request, p.scope) {
        return work;
    }
    Ok(Work::Task(TaskWork::read(&p.request.method, p.request.params, p.scope)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_can_add_exactly_the_methods_that_the_table_leaves_to_them() {
        for name in RequestName::ALL {
            let route = MethodRoute::immediate(name.as_str(), |_| MethodResult::json(&serde_json::json!({})));
            assert_eq!(matches!(row(*name).dispatch, Dispatch::LeftToExtensions), route.check().is_ok(), "{name:?}");
        }
    }
}
