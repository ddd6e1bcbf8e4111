//! Runs prepared requests: their permits, cancellation, shutdown and end.

use std::{
    pin::{Pin, pin},
    sync::Arc,
};

use mcp_protocol::{RequestId, Rounded, RpcError, Shape as _};
use mcp_transport::BoxFuture;
use serde_json::value::RawValue;
use tracing::Instrument as _;

use super::{
    Prepared,
    handle::{handled, invocation},
    methods::{self, method_panicked},
    prepare::{HandlerWork, Place, Work},
    task_call::Candidate,
    task_requests::TaskWork,
};
use crate::{
    Server,
    context::{Context, EndGuard},
    error::{FaultItem, contain_async, for_subject},
    layers,
    registry::{MethodCall, MethodResult, MethodRoute, MethodRun},
    request::{Output, Performed, Refusal, Reply, Scope, Stop, busy, ending},
    session::NotEntered,
    tasks::Plan,
    trace::Ending,
};

impl Prepared {
    /// Runs the request. Returns `None` when the client cancelled it, because no response is sent then.
    ///
    /// Dropping the future cancels the request. The future is boxed here, because each place that boxes or polls its own type
    /// has another copy of the machine code of the engine.
    pub fn run(self: Box<Self>) -> BoxFuture<'static, Option<Reply>> {
        match self.is_listen() {
            // A stream stays open, so a future around its own one would occupy memory.
            true => Box::pin(self.run_listen()),
            false => Box::pin(self.run_to_reply()),
        }
    }

    async fn run_listen(mut self: Box<Self>) -> Option<Reply> {
        if let Err(reply) = self.enter() {
            return Some(reply);
        }
        let Work::Listen(work) = std::mem::replace(&mut self.work, Work::Over) else { return None };
        let span = self.context.span().clone();
        super::listen::run(self, work).instrument(span).await
    }

    async fn run_to_reply(self: Box<Self>) -> Option<Reply> {
        let mut prepared = self;
        if let Err(reply) = prepared.enter() {
            return Some(reply);
        }
        let work = match std::mem::replace(&mut prepared.work, Work::Over) {
            Work::Over | Work::Listen(_) => return None,
            Work::Done(reply) => {
                prepared.context.end(reply.ending());
                return Some(reply);
            }
            Work::Extension { route, params } => {
                let span = prepared.context.span().clone();
                return Box::pin(prepared.run_extension(route, params).instrument(span)).await;
            }
            Work::Task(work) => {
                let span = prepared.context.span().clone();
                return Box::pin(prepared.run_task(work).instrument(span)).await;
            }
            Work::Handler(work) => work,
        };
        let Self { server, id, scope, context, place, .. } = *prepared;
        let version = scope.version;
        let outcome = answer(&server, &scope, context, work).await;
        // The permits are released before the response, because the client may reuse the id at once.
        drop(place);
        Some(match outcome {
            Ok(Output::Raw(raw)) => raw.reply(&server.data.identity, &id, version),
            Ok(Output::Tool(result)) => Reply::result(&server.data.identity, &id, version, result, 256),
            Ok(Output::Resource(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Ok(Output::Prompt(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Ok(Output::Completion(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Ok(Output::InputRequired(result)) => Reply::result(&server.data.identity, &id, version, result, 2048),
            Ok(Output::TaskOfClient(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Ok(Output::TaskOfServer(result)) => Reply::result(&server.data.identity, &id, version, result, 512),
            Err(stop) => refuse(&scope, &id, &stop.into_error()?),
        })
    }

    /// Runs a method about tasks.
    async fn run_task(self: Box<Self>, work: TaskWork) -> Option<Reply> {
        let Self { server, id, scope, place, context, .. } = *self;
        let served = unless_stopped(&server, &scope, pin!(work.run(&server, &scope, &id))).await;
        let served = served.and_then(|served| match served {
            Ok(reply) => Ok(reply),
            Err(Refusal::Denied(denied)) => Ok(Reply::denied(&id, denied)),
            Err(Refusal::Error(error)) => Err(Stop::from(error)),
        });
        context.end(served.as_ref().map_or_else(Stop::ending, Reply::ending));
        drop(place);
        match served {
            Ok(reply) => Some(reply),
            Err(stop) => Some(refuse(&scope, &id, &stop.into_error()?)),
        }
    }

    /// Runs a method of an extension.
    async fn run_extension(self: Box<Self>, route: Arc<MethodRoute>, params: Option<Box<RawValue>>) -> Option<Reply> {
        let Self { server, id, scope, place, context, .. } = *self;
        let version = scope.version;
        // Work on other tasks is cancelled with the request, also when this future is dropped.
        let drop_cancels = scope.cancel.clone().drop_guard();
        let limit = server.limits().read_timeout;
        let call = MethodCall::new(route.name.as_str().into(), params, Context::clone(&context));
        let served = async {
            match tokio::time::timeout(limit, guarded_method(&route, call, context.shows_faults())).await {
                Ok(result) => result,
                Err(_) => {
                    context.expire();
                    tracing::warn!(method = route.name, ?limit, "a method of an extension exceeded the read timeout");
                    let text = format!("the method `{}` took longer than {}", route.name, Rounded(limit));
                    Err(RpcError::internal(text))
                }
            }
        };
        let subject = Some(route.clone() as FaultItem);
        let outcome = unless_stopped(&server, &scope, pin!(for_subject(subject, pin!(served)))).await;
        let mut outcome = outcome.and_then(|result| result.map_err(Stop::from));
        if let Err(Stop::Error(error)) = &mut outcome {
            error.shape(version);
        }
        context.end(outcome.as_ref().map_or_else(Stop::ending, |_| Ending::Done));
        drop(place);
        match outcome {
            Ok(result) => {
                drop_cancels.disarm();
                Some(methods::reply(&server, &id, version, result))
            }
            Err(stop) => Some(refuse(&scope, &id, &stop.into_error()?)),
        }
    }

    /// Acquires the permits of the request. From now on a cancellation finds it. [`Prepared::run`] does this if the
    /// transport did not.
    ///
    /// # Errors
    /// The response when a limit is reached.
    pub(crate) fn enter(&mut self) -> Result<(), Reply> {
        let entered = self.acquire();
        if let Err(reply) = &entered {
            self.context.end(reply.refusal());
        }
        entered
    }

    fn acquire(&mut self) -> Result<(), Reply> {
        let is_short = match &self.work {
            Work::Done(_) => true,
            Work::Task(work) => !work.waits(),
            Work::Handler(_) | Work::Extension { .. } | Work::Listen(_) | Work::Over => false,
        };
        if is_short || self.place.is_some() {
            return Ok(());
        }
        let busy = || Reply::busy(&self.id);
        let peer = self.scope.surroundings.peer();
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
        let listed = listed.transpose()?;
        if let Some(listed) = &listed {
            self.context.set_cancel_reason(listed.reason());
        }
        self.place = Some(Place { _passes: passes, _listed: listed });
        Ok(())
    }

    /// Runs the request and returns its typed output.
    pub(crate) fn run_for_output(mut self: Box<Self>) -> BoxFuture<'static, Result<Output, RpcError>> {
        Box::pin(async move {
            self.enter().map_err(|_| busy())?;
            let Self { server, scope, context, work, place: _place, .. } = *self;
            let Work::Handler(work) = work else { return Err(RpcError::internal("no handler runs for this")) };
            let outcome = execute(&server, &scope, context, work).await;
            outcome.map_err(|stop| stop.into_error().unwrap_or_else(|| RpcError::internal("cancelled")))
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
async fn answer(server: &Server, scope: &Scope, context: EndGuard, mut work: HandlerWork) -> Result<Output, Stop> {
    let HandlerWork::Tool { entry, plan, .. } = &mut work else {
        return execute(server, scope, context, work).await;
    };
    match std::mem::take(plan) {
        Plan::Plain => execute(server, scope, context, work).await,
        Plan::Refused(error) => {
            context.end(Ending::Error(error.code));
            Err(error.into())
        }
        Plan::Task { policy, ttl, is_required } => {
            let entry = entry.clone();
            // The work owns the guard of the call, because it outlives this future in a task.
            let (context, guard) = (Context::clone(&context), context);
            let (tool, access) = (&*entry.spec.tool.name, &entry.spec.access);
            let candidate = Candidate { server, scope, context: &context, tool, access, policy, ttl, is_required };
            // The grace period ends the call. The driver of tasks ends a task.
            let mut task_scope = scope.clone();
            task_scope.surroundings.grace_period = None;
            let task_server = server.clone();
            let work = Box::pin(async move { (perform(&task_server, &task_scope, &guard, work).await, guard) });
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

/// Runs a handler and ends its request.
async fn execute(server: &Server, scope: &Scope, context: EndGuard, work: HandlerWork) -> Result<Output, Stop> {
    let outcome = perform(server, scope, &context, work).await;
    context.end(ending(&outcome));
    outcome
}

/// Runs a handler in the span of its request, also after the call became a task.
async fn perform(server: &Server, scope: &Scope, context: &Context, work: HandlerWork) -> Result<Output, Stop> {
    // Pinned first, because a moved future is copied.
    let run = pin!(run_handler(server, scope, context, work));
    let mut outcome = run.instrument(context.span().clone()).await;
    if let Err(Stop::Error(error)) = &mut outcome {
        error.shape(scope.version);
    }
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
        (_, HandlerWork::Source(work)) if !work.has_layers() => None,
        (layers, _) => layers.clone(),
    };
    let subject = work.subject();
    let served = async {
        match layers {
            None => handled(server, scope.version, context, work).await,
            // Boxed, so that calls without layers have a smaller future.
            Some(layers) => {
                let is_tool = match &work {
                    HandlerWork::Source(work) => work.is_tool_call(),
                    work => matches!(work, HandlerWork::Tool { .. }),
                };
                let invocation = invocation(server, scope.version, context, work);
                Box::pin(layers::run(&layers, invocation, is_tool)).await
            }
        }
    };
    // The future is dropped at the end of this statement, with the handler.
    let performed = unless_stopped(server, scope, pin!(for_subject(subject, pin!(served)))).await?;
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
        cause = scope.grace_period_over(&server.data.shutdown) => Err(Stop::after_grace_period(cause)),
    }
}

/// Runs the function of an extension's method. A panic becomes an error with a reference number.
async fn guarded_method(route: &MethodRoute, call: MethodCall, shows_faults: bool) -> Result<MethodResult, RpcError> {
    let MethodRun::Async(run) = &route.run else { return Err(RpcError::internal("the method has no async function")) };
    contain_async(|| run(call)).await.unwrap_or_else(|panic| Err(method_panicked(&panic, shows_faults)))
}
