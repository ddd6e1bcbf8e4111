//! Follows tasks to their end, in both dialects: 2025-11-25, and the tasks extension.

use std::{
    collections::{BTreeSet, HashSet},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use mcp_protocol::{
    ErrorCode, InputRequiredResult, LoggingLevel, Meta, Method, RpcError,
    method::{CallTool, CancelTask, GetTask, GetTaskPayload, UpdateTask},
    tasks::{
        CreateTaskResult, Task, TaskParams, TaskState, TaskStatus,
        ext::{self, DetailedTask, UpdateTaskParams},
    },
};
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    Answer, CallOptions, ClientCore, ClientHandle, Clocks, Mark, Reply, answer_inputs, execute,
    options::ProgressCallback, send_until_answered,
};
use crate::{
    Error,
    connection::{Connection, Request, RequestGuard, RunningCall},
    error::Kind,
};

/// The interval between two status requests, if the server names none.
const POLL: Duration = Duration::from_secs(1);
/// The shortest interval that a server can name.
const SHORTEST: Duration = Duration::from_millis(20);
/// The longest interval that a server can name.
const LONGEST: Duration = Duration::from_secs(60);

/// The options of the requests about a task.
#[derive(Clone)]
pub(super) struct TaskOptions {
    pub(super) idle_timeout: Option<Duration>,
    /// The total timeout of the call that the task belongs to.
    total_timeout: Option<Duration>,
    /// The remaining part of the total timeout.
    left: Option<Duration>,
    pub(super) meta: Option<Meta>,
    log_level: Option<LoggingLevel>,
    /// The call that the task belongs to.
    questions: Option<Arc<RunningCall>>,
    /// The connection whose process has the task. `None`: each connection reaches the task.
    connection: Option<u64>,
}

impl TaskOptions {
    pub(super) fn new(idle_timeout: Option<Duration>) -> Self {
        let (meta, log_level, questions, connection) = (None, None, None, None);
        Self { idle_timeout, total_timeout: None, left: None, meta, log_level, questions, connection }
    }

    /// Returns the options for a task that a call became on the connection with this number.
    pub(super) fn of(core: &ClientCore, options: CallOptions, connection: u64) -> Self {
        let CallOptions { idle_timeout, total_timeout, meta, log_level, questions, .. } = options;
        let options =
            Self { total_timeout, left: total_timeout, meta, log_level, questions, ..Self::new(idle_timeout) };
        options.created_on(core, connection)
    }

    /// Limits the requests to the connection of the task, if it has a process of its own. Another process can have another task with
    /// the same id.
    pub(super) fn created_on(self, core: &ClientCore, connection: u64) -> Self {
        Self { connection: core.connections.connector.starts_process().then_some(connection), ..self }
    }

    pub(super) fn without_total_timeout(self) -> Self {
        Self { total_timeout: None, left: None, ..self }
    }

    /// Returns the options of one request. Its timeout is the idle timeout, or the remaining time if that is shorter.
    pub(super) fn request(&self) -> CallOptions {
        let limit = self.idle_timeout.into_iter().chain(self.left).min();
        CallOptions {
            idle_timeout: limit,
            total_timeout: limit,
            meta: self.meta.clone(),
            log_level: self.log_level,
            questions: self.questions.clone(),
            connection: self.connection,
            ..CallOptions::default()
        }
    }

    /// Subtracts a time from the remaining time.
    fn spend(&mut self, time: Duration) {
        self.left = self.left.map(|left| left.saturating_sub(time));
    }

    fn timeout(&self) -> Error {
        Error::timeout("the task", self.total_timeout.unwrap_or_default())
    }

    /// Sends one request about the task. The time in which handlers answer the server does not count.
    async fn send(&mut self, core: &Arc<ClientCore>, request: &Request) -> Result<Answer, Error> {
        let mut options = self.request();
        let before = options.total_timeout;
        match send_until_answered(core, request, None, &mut options).await {
            Err(error) if error.is_timeout() && self.left.is_some() && before == self.left => Err(self.timeout()),
            answer => {
                let spent = before.zip(options.total_timeout).map(|(before, after)| before.saturating_sub(after));
                self.spend(spent.unwrap_or_default());
                answer
            }
        }
    }
}

/// Reports the progress of a task to a callback. The progress belongs to the request that created the task (2025-11-25).
pub(super) struct ProgressListener {
    guard: RequestGuard,
    callback: ProgressCallback,
}

impl ProgressListener {
    pub(super) fn new(guard: Option<RequestGuard>, callback: Option<ProgressCallback>) -> Option<Self> {
        let (mut guard, callback) = guard.zip(callback)?;
        guard.answer_handled();
        Some(Self { guard, callback })
    }

    fn report(&mut self) {
        for progress in self.guard.slot().take_progress() {
            (self.callback)(progress);
        }
    }
}

/// Runs `work` and reports progress meanwhile.
pub(super) async fn with_progress<T>(listener: Option<ProgressListener>, work: impl Future<Output = T>) -> T {
    let Some(mut listener) = listener else { return work.await };
    let mut work = pin!(work);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            () = listener.guard.slot().changed() => listener.report(),
        }
    };
    listener.report();
    done
}

/// The tasks that calls wait for and that have no other owner. They are cancelled when the client is closed.
#[derive(Default)]
pub(crate) struct OwnedTasks {
    state: Mutex<OwnedState>,
    /// An explicit close waits until no receiver is left. A request that can become a task holds one until its call has
    /// handled the answer. A cancellation of a task without an owner holds one until it ends.
    awaited_by_close: watch::Sender<()>,
}

#[derive(Default)]
struct OwnedState {
    /// The ids with the connections of the tasks, because two processes can use one id.
    /// They are ordered, so that a random schedule repeats the order of the cancellations.
    tasks: BTreeSet<(String, Option<u64>)>,
    is_closing: bool,
}

impl OwnedTasks {
    fn is_closing(&self) -> bool {
        self.state.lock().is_closing
    }

    /// Lets an explicit close wait until the value is dropped.
    pub(super) fn delay_close(&self) -> watch::Receiver<()> {
        self.awaited_by_close.subscribe()
    }

    /// Cancels all tasks, also those that running requests still become, within the time for closing. Waits for the
    /// cancellations that dropped calls began. Then lets the supervisor close the client. Calls that wait for tasks fail
    /// as closed from now on. If the future is dropped, the client closes at once.
    pub(crate) async fn close(core: &Arc<ClientCore>) {
        let closing = &core.connections.closing;
        let first = {
            let mut state = core.owned_tasks.state.lock();
            let is_first = !std::mem::replace(&mut state.is_closing, true);
            is_first.then(|| std::mem::take(&mut state.tasks))
        };
        let Some(tasks) = first else {
            closing.cancelled().await;
            return;
        };
        let _closing = closing.clone().drop_guard();
        let awaited = &core.owned_tasks.awaited_by_close;
        if (tasks.is_empty() && awaited.is_closed()) || core.connections.current().is_none() {
            return;
        }
        let options = TaskOptions::new(Some(core.config.limits.close));
        let mut cancelling = JoinSet::new();
        for (id, connection) in tasks {
            let (core, options) = (Arc::clone(core), TaskOptions { connection, ..options.clone() });
            cancelling.spawn(async move { cancel(&core, id, options).await });
        }
        let cancelled = async {
            cancelling.join_all().await;
            awaited.closed().await;
        };
        if timeout(core.config.limits.close, cancelled).await.is_err() {
            tracing::debug!("the server did not cancel all tasks in time");
        }
    }
}

/// Waits for the result of a call that became a task on the connection with a number, within the remaining time of the call.
pub(super) async fn finish(
    core: &Arc<ClientCore>,
    (task, number): (&Task, u64),
    tool: Option<Box<str>>,
    guard: Option<RequestGuard>,
    mut call: CallOptions,
) -> Result<Reply, Error> {
    let connection = guard.as_ref().map(|guard| Arc::clone(guard.connection()));
    let callback = call.on_progress.take();
    let options = TaskOptions::of(core, call, number);
    let mut owned = OwnedTask::new(core, &task.task_id, options.clone());
    // The listener comes after the owner, because an explicit close waits for the guard only until then.
    let listener = ProgressListener::new(guard, callback);
    let mut is_over = false;
    let following = follow(core, &task.task_id, interval(task), tool, connection, options, &mut is_over);
    let followed = with_progress(listener, following).await;
    owned.is_over = is_over || followed.is_ok();
    match followed {
        // The close cancelled the task. Other errors have another cause, and reach the caller.
        Err(error) if core.owned_tasks.is_closing() && error.is_cancelled() => Err(Error::closed().after_sending()),
        // The server received the call that became the task.
        followed => followed.map_err(Error::after_sending),
    }
}

/// Cancels a task whose id the caller will not receive, because the client is being closed.
///
/// # Errors
/// [`Error::is_closed`] if the client is being closed.
pub(super) fn cancel_if_closing(core: &Arc<ClientCore>, id: &str, options: &TaskOptions) -> Result<(), Error> {
    if !core.owned_tasks.is_closing() {
        return Ok(());
    }
    cancel_later(core, id.to_owned(), options);
    Err(Error::closed().after_sending())
}

/// A task that belongs to one call. When the call ends before the task, the client cancels the task.
struct OwnedTask<'a> {
    core: &'a Arc<ClientCore>,
    id: String,
    options: TaskOptions,
    is_over: bool,
}

impl<'a> OwnedTask<'a> {
    fn new(core: &'a Arc<ClientCore>, id: &str, options: TaskOptions) -> Self {
        let is_closing = {
            let mut state = core.owned_tasks.state.lock();
            if !state.is_closing {
                state.tasks.insert((id.to_owned(), options.connection));
            }
            state.is_closing
        };
        if is_closing {
            // `OwnedTasks::close` has taken the tasks that it cancels. It waits for this cancellation too.
            cancel_later(core, id.to_owned(), &options);
        }
        Self { core, id: id.to_owned(), options, is_over: false }
    }
}

impl Drop for OwnedTask<'_> {
    fn drop(&mut self) {
        // False if the close of the client cancels the task.
        let task = (std::mem::take(&mut self.id), self.options.connection);
        let is_owned = self.core.owned_tasks.state.lock().tasks.remove(&task);
        if is_owned && !self.is_over {
            cancel_later(self.core, task.0, &self.options);
        }
    }
}

/// A cancellation that runs after the end of its call. It keeps the client open, and an explicit close waits for it.
struct Cancellation {
    core: Arc<ClientCore>,
    _open: Option<Arc<ClientHandle>>,
    _is_running: watch::Receiver<()>,
}

impl Cancellation {
    fn begin(core: &Arc<ClientCore>) -> Self {
        Self { core: Arc::clone(core), _open: core.handle(), _is_running: core.owned_tasks.delay_close() }
    }

    /// Cancels a task within the time for closing.
    async fn run(self, id: String, options: TaskOptions) {
        let limit = Some(self.core.config.limits.close);
        let options = TaskOptions { idle_timeout: limit, total_timeout: limit, left: limit, ..options };
        cancel(&self.core, id, options).await;
    }
}

/// Starts to cancel a task.
fn cancel_later(core: &Arc<ClientCore>, id: String, options: &TaskOptions) {
    let Ok(runtime) = Handle::try_current() else { return };
    runtime.spawn(Cancellation::begin(core).run(id, options.clone()));
}

async fn cancel(core: &Arc<ClientCore>, id: String, options: TaskOptions) {
    let cancelled = match Request::new(CancelTask::NAME, &TaskParams::new(&*id)) {
        Ok(request) => execute(core, &mut request.named(&id), &mut options.request()).await.map(drop),
        Err(error) => Err(error),
    };
    if let Err(error) = cancelled {
        tracing::debug!(%error, "the client could not cancel a task");
    }
}

/// Waits for a late answer to a dropped request that asked for a task, and cancels the task that it names. If no answer
/// comes within the time for closing, the request itself is cancelled.
pub(super) fn cancel_when_created(
    core: &Arc<ClientCore>,
    mut guard: RequestGuard,
    has_core_tasks: bool,
    options: TaskOptions,
) {
    // Without a runtime the guard is dropped here, which cancels the request.
    let Ok(runtime) = Handle::try_current() else { return };
    let cancellation = Cancellation::begin(core);
    runtime.spawn(async move {
        let limit = cancellation.core.config.limits.close;
        let Ok(Ok(bytes)) = timeout(limit, guard.outcome()).await else { return };
        let id = match has_core_tasks {
            true => serde_json::from_slice::<CreateTaskResult>(&bytes).map(|created| created.task.task_id),
            false => serde_json::from_slice::<ext::CreateTaskResult>(&bytes).map(|created| created.task.task_id),
        };
        if let Ok(id) = id {
            cancellation.run(id, options).await;
        }
    });
}

fn interval(task: &Task) -> Duration {
    task.poll_interval.map_or(POLL, Duration::from_millis).clamp(SHORTEST, LONGEST)
}

/// The answer to a status request.
pub(super) struct TaskSnapshot {
    pub(super) task: Task,
    /// The task with its result, error or input requests (tasks extension).
    detailed: Option<DetailedTask>,
    answer: Answer,
}

/// Requests the status of a task.
pub(super) async fn get_task(
    core: &Arc<ClientCore>,
    id: &str,
    options: &mut TaskOptions,
) -> Result<TaskSnapshot, Error> {
    let request = Request::new(GetTask::NAME, &TaskParams::new(id))?.named(id);
    let answer = options.send(core, &request).await?;
    if answer.reply.version.has_core_tasks() {
        let state: TaskState = answer.reply.read()?;
        return Ok(TaskSnapshot { task: state.task, detailed: None, answer });
    }
    let detailed: DetailedTask = answer.reply.read()?;
    Ok(TaskSnapshot { task: detailed.task.clone().into(), detailed: Some(detailed), answer })
}

/// Waits before the next status request. The clocks of the call pause while handlers answer the server.
async fn pause(
    core: &ClientCore,
    wait: Duration,
    connection: Option<&Connection>,
    options: &mut TaskOptions,
) -> Result<(), Error> {
    let questions = options.questions.clone();
    let clocks = connection.map(|connection| Clocks { connection: &connection.clock, call: questions.as_deref() });
    let mark = clocks.map(|clocks| (clocks, Mark::now(clocks, &core.config.limits)));
    sleep(options.left.map_or(wait, |left| wait.min(left))).await;
    options.spend(mark.map_or(wait, |(clocks, mark)| mark.elapsed(clocks)));
    if options.left == Some(Duration::ZERO) { Err(options.timeout()) } else { Ok(()) }
}

/// Waits for the end of a task and answers its input requests. Sets `is_over` when the server reports that the task has ended.
pub(super) async fn follow(
    core: &Arc<ClientCore>,
    id: &str,
    first: Duration,
    tool: Option<Box<str>>,
    mut connection: Option<Arc<Connection>>,
    mut options: TaskOptions,
    is_over: &mut bool,
) -> Result<Reply, Error> {
    let mut wait = first;
    let mut answered_keys = HashSet::new();
    let mut rounds = 0;
    loop {
        pause(core, wait, connection.as_deref(), &mut options).await?;
        let TaskSnapshot { task, detailed, answer } = get_task(core, id, &mut options).await?;
        wait = interval(&task);
        *is_over = task.status.is_terminal();
        let mut reply = answer.reply;
        let connection = connection.insert(answer.connection);
        reply.method = CallTool::NAME.into();
        reply.name.clone_from(&tool);
        let Some(detailed) = detailed else {
            // The session delivers the input requests of the task while a `tasks/result` request waits.
            if task.status.is_terminal() || task.status == TaskStatus::InputRequired {
                let done = payload(core, id, task.status, wait, &mut options).await?;
                return Ok(Reply { name: tool, method: CallTool::NAME.into(), ..done });
            }
            continue;
        };
        match task.status {
            TaskStatus::Completed => {
                let Some(result) = detailed.result else {
                    return Err(Error::invalid("a completed task has no result"));
                };
                let bytes = serde_json::to_vec(&result).map_err(|error| Error::invalid(error.to_string()))?;
                return Ok(Reply { bytes: bytes.into(), ..reply });
            }
            TaskStatus::Failed => {
                let unknown = || RpcError::new(ErrorCode::INTERNAL_ERROR, "the task failed without an error");
                return Err(Kind::Rpc(detailed.error.unwrap_or_else(unknown)).into());
            }
            TaskStatus::Cancelled => return Err(Kind::Cancelled.into()),
            TaskStatus::InputRequired => {
                let mut requests = detailed.input_requests.unwrap_or_default();
                // The server repeats an input request until it has the answer. The client answers it once.
                requests.retain(|key, _| answered_keys.insert(key.clone()));
                if !requests.is_empty() {
                    rounds += 1;
                    if rounds > core.config.limits.rounds {
                        return Err(Kind::Rounds(core.config.limits.rounds).into());
                    }
                    let inputs =
                        answer_inputs(core, connection, InputRequiredResult::new(requests), options.questions.as_ref())
                            .await?;
                    let params = UpdateTaskParams::new(id, inputs.responses.unwrap_or_default());
                    options.send(core, &Request::of::<UpdateTask>(&params)?.named(id)).await?;
                }
            }
            _ => {}
        }
    }
}

/// Requests the result of a task (2025-11-25). The server answers when the task has ended.
async fn payload(
    core: &Arc<ClientCore>,
    id: &str,
    status: TaskStatus,
    interval: Duration,
    options: &mut TaskOptions,
) -> Result<Reply, Error> {
    let request = Request::of::<GetTaskPayload>(&TaskParams::new(id))?.named(id);
    if status.is_terminal() {
        return match options.send(core, &request).await {
            Ok(answered) => Ok(answered.reply),
            Err(_) if status == TaskStatus::Cancelled => Err(Kind::Cancelled.into()),
            Err(error) => Err(error),
        };
    }
    // The server sends nothing while the task runs. Status requests detect a lost server.
    let mut waiting = TaskOptions { idle_timeout: None, ..options.clone() };
    let mut snapshots = TaskOptions { left: None, ..options.clone() };
    let mut waiting = pin!(waiting.send(core, &request));
    let answered = loop {
        tokio::select! {
            biased;
            answered = &mut waiting => break answered,
            () = sleep(interval) => {}
        }
        let requesting = get_task(core, id, &mut snapshots);
        tokio::select! {
            biased;
            answered = &mut waiting => break answered,
            snapshot = requesting => drop(snapshot?),
        }
    };
    match answered {
        Ok(answered) => Ok(answered.reply),
        Err(error) if core.owned_tasks.is_closing() && error.rpc().is_some() => {
            Err(cancelled_by_close(core, id, &mut snapshots).await.unwrap_or(error))
        }
        Err(error) => Err(error),
    }
}

/// Returns the error of a task that the close of the client cancelled; `None` if the task ended differently.
///
/// The error of `tasks/result` does not show whether the task was cancelled, so the client requests the status.
async fn cancelled_by_close(core: &Arc<ClientCore>, id: &str, options: &mut TaskOptions) -> Option<Error> {
    // The close waits for this request too.
    let _is_running = core.owned_tasks.delay_close();
    match get_task(core, id, options).await {
        Ok(snapshot) => (snapshot.task.status == TaskStatus::Cancelled).then(|| Kind::Cancelled.into()),
        Err(error) => error.is_closed().then_some(error),
    }
}
