//! Sends a request once, and waits for its answer within the timeouts of the call.

use std::{pin::pin, sync::Arc, time::Duration};

use mcp_protocol::{
    Method,
    method::CallTool,
    tasks::{TaskMetadata, ext::IDENTIFIER},
};
use mcp_transport::PauseClock;
use tokio::time::{Instant, sleep};

use super::{
    CallOptions, ClientCore,
    capabilities::own_template,
    catalog::KnownTool,
    tasks::{TaskOptions, cancel_when_created},
};
use crate::{
    Error, Limits,
    connection::{
        self, Agreement, Connection, InputResponses, OnAbandon, Request, RequestExtras, RequestGuard, RequestOutcome,
        RunningCall,
    },
};

/// A request, with the members that depend on the attempt.
pub(super) struct Sending<'a> {
    pub(super) request: &'a Request,
    pub(super) inputs: Option<&'a InputResponses>,
    pub(super) known: Option<&'a KnownTool>,
    /// The `task` parameter (2025-11-25).
    pub(super) task: Option<TaskMetadata>,
    /// The request declares that it can become a task (tasks extension).
    pub(super) declares_tasks: bool,
}

impl<'a> Sending<'a> {
    /// Returns a request without such members.
    pub(super) fn new(request: &'a Request) -> Self {
        Self { request, inputs: None, known: None, task: None, declares_tasks: false }
    }

    /// Returns true if the revision and the capabilities of the server allow a task as the result of this attempt.
    fn can_become_task(&self, agreed: &Agreement) -> bool {
        let has_extension =
            agreed.negotiated.version.has_extensions() && agreed.negotiated.capabilities.supports_extension(IDENTIFIER);
        // The `task` parameter is set only if the revision, the server and the tool support it (2025-11-25).
        let declares_tasks = self.declares_tasks && self.request.method == CallTool::NAME;
        self.task.is_some() || (declares_tasks && has_extension)
    }
}

/// Sends a request once and waits for its answer. After a timeout the request is cancelled on the server.
///
/// The returned guard receives the progress of a task, if the answer is a task that reports progress.
pub(super) async fn send_once(
    core: &Arc<ClientCore>,
    connection: &Arc<Connection>,
    agreed: &Agreement,
    sending: &Sending<'_>,
    options: &mut CallOptions,
) -> Result<(RequestOutcome, Option<RequestGuard>), Error> {
    let Sending { request, inputs, known, ref task, declares_tasks } = *sending;
    let id = core.connections.next_id();
    let traced = core.config.bridge.as_ref().and_then(|bridge| bridge.meta(options.meta.as_ref()));
    let extra = RequestExtras {
        wants_progress: options.wants_progress,
        log_level: options.log_level.or_else(|| core.connections.log_level()),
        meta: traced.as_ref().or(options.meta.as_ref()),
        inputs,
        task: task.as_ref(),
    };
    let own_template = own_template(core, agreed, options, declares_tasks);
    let template = own_template.as_deref().unwrap_or_else(|| agreed.meta_template(declares_tasks));
    let message = connection::write_request(id, request, template, &extra);
    let mut hints = connection::hints(agreed.negotiated.version, &request.method);
    // An authorizer receives the name in each revision.
    if agreed.negotiated.version.has_mirrored_headers() || core.connections.authorization.is_some() {
        hints.name = request.name.clone();
    }
    if agreed.negotiated.version.has_mirrored_headers() {
        hints.params = known.map(|known| known.mirrored(&request.body.text)).unwrap_or_default();
    }
    // A server of the extension can also serve the call without a task. The client then cancels the call.
    let relays_task = options.relayed_task == Some(true) && agreed.negotiated.version.has_core_tasks();
    let follows = (task.is_some() || relays_task) && options.on_progress.is_some();
    let mut request_sending = pin!(connection.send_request(id, message, hints, follows, options.questions.clone()));
    let mut guard: Option<RequestGuard> = None;
    let limits = &core.config.limits;
    let questions = options.questions.clone();
    let clocks = Clocks { connection: &connection.clock, call: questions.as_deref() };
    let started = Mark::now(clocks, limits);
    let mut last_activity = started;
    let outcome = loop {
        let left = [
            options.idle_timeout.map(|idle| (idle, last_activity)),
            options.total_timeout.map(|total| (total, started)),
        ]
        .into_iter()
        .flatten()
        .map(|(limit, since)| (limit.saturating_sub(since.elapsed(clocks)), limit))
        .min();
        let is_paused = clocks.is_paused() && started.may_pause(clocks);
        if let Some((Duration::ZERO, limit)) = left
            && !is_paused
        {
            spend(options, started.elapsed(clocks));
            return Err(Error::timeout(&*request.method, limit));
        }
        // The clock is paused while the user answers. It is checked once a second then.
        let wait = left.map(|(left, _)| if is_paused { left.max(Duration::from_secs(1)) } else { left });
        tokio::select! {
            biased;
            sent = &mut request_sending, if guard.is_none() => match sent {
                Ok(mut sent) => {
                    if sending.can_become_task(agreed) || relays_task {
                        cancel_task_on_drop(core, &mut sent, agreed, options, request.task.is_some() || relays_task);
                    }
                    guard = Some(sent);
                }
                Err(failure) => break Err(failure),
            },
            () = changed(guard.as_mut()) => {
                let Some(guard) = &mut guard else { continue };
                let outcome = guard.take_outcome();
                for notice in guard.slot().take_progress() {
                    last_activity = Mark::now(clocks, limits);
                    if let Some(on_progress) = &mut options.on_progress {
                        on_progress(notice);
                    }
                }
                if let Some(outcome) = outcome {
                    break outcome;
                }
            }
            () = sleep_for(wait) => {}
        }
    };
    spend(options, started.elapsed(clocks));
    options.quiet = last_activity.elapsed(clocks);
    Ok((outcome, guard))
}

/// Lets a dropped call cancel the task that the server creates. An explicit close of the client waits for the answer.
///
/// If the call asks for a task, the client also waits for a late answer, because the id of the task is in it. This also
/// holds after a timeout of the call. The request keeps its permit meanwhile, at most for the time for closing.
fn cancel_task_on_drop(
    core: &Arc<ClientCore>,
    guard: &mut RequestGuard,
    agreed: &Agreement,
    options: &CallOptions,
    asks_for_task: bool,
) {
    let has_core_tasks = agreed.negotiated.version.has_core_tasks();
    let mut task_options = TaskOptions::new(options.idle_timeout).created_on(core, guard.connection().number);
    task_options.meta.clone_from(&options.meta);
    let core = Arc::clone(core);
    let delays_close = core.owned_tasks.delay_close();
    let take_over = move |guard| {
        cancel_when_created(&core, guard, has_core_tasks, task_options);
        // The cancellation delays the close from now on.
        drop(delays_close);
    };
    guard.on_abandon(OnAbandon { awaits_answer: asks_for_task, take_over: Box::new(take_over) });
}

async fn changed(guard: Option<&mut RequestGuard>) {
    match guard {
        Some(guard) => guard.changed().await,
        None => std::future::pending().await,
    }
}

async fn sleep_for(time: Option<Duration>) {
    match time {
        Some(time) => sleep(time).await,
        None => std::future::pending().await,
    }
}

/// Subtracts a time from the total timeout.
pub(super) fn spend(options: &mut CallOptions, time: Duration) {
    options.total_timeout = options.total_timeout.map(|total| total.saturating_sub(time));
}

/// The clocks on which the time limits of a call depend: that of its connection, and that of its questions.
#[derive(Clone, Copy)]
pub(crate) struct Clocks<'a> {
    pub(crate) connection: &'a PauseClock,
    pub(crate) call: Option<&'a RunningCall>,
}

impl Clocks<'_> {
    /// Returns how long the clocks were paused. The server can ask during a login, so both times can overlap.
    fn paused(self) -> Duration {
        self.connection.paused() + self.of_call().map_or(Duration::ZERO, PauseClock::paused)
    }

    fn is_paused(self) -> bool {
        self.connection.is_paused() || self.of_call().is_some_and(PauseClock::is_paused)
    }

    fn of_call(&self) -> Option<&PauseClock> {
        self.call.and_then(RunningCall::used_clock)
    }
}

/// A point in time on clocks that can pause, up to a limit.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    at: Instant,
    paused: Duration,
    longest: Duration,
}

impl Mark {
    pub(crate) fn now(clocks: Clocks<'_>, limits: &Limits) -> Self {
        // A server that sends requests without end must not stop the clock forever.
        let longest = limits.server_request_timeout.saturating_mul(u32::try_from(limits.rounds).unwrap_or(u32::MAX));
        Self { at: Instant::now(), paused: clocks.paused(), longest }
    }

    fn paused(self, clocks: Clocks<'_>) -> Duration {
        clocks.paused().saturating_sub(self.paused)
    }

    fn may_pause(self, clocks: Clocks<'_>) -> bool {
        self.paused(clocks) < self.longest
    }

    pub(crate) fn elapsed(self, clocks: Clocks<'_>) -> Duration {
        self.at.elapsed().saturating_sub(self.paused(clocks).min(self.longest))
    }
}
