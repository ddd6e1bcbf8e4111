//! Tasks: calls that run on by themselves, in both dialects.

use std::{collections::HashSet, fmt, pin::pin, sync::Arc, time::Duration};

use mcp_protocol::{
    ErrorCode, InputRequiredResult, LoggingLevel, Meta, Method, ProgressParams, RpcError,
    method::{CallTool, CancelTask, GetTask, GetTaskPayload, UpdateTask},
    tasks::{
        Task, TaskMetadata, TaskParams, TaskState, TaskStatus,
        ext::{DetailedTask, UpdateTaskParams},
    },
};
use mcp_transport::BoxFuture;
use parking_lot::Mutex;
use tokio::{runtime::Handle, time::sleep};

use super::{
    Answer, Call, CallOptions, ClientCore, ClientHandle, Mark, Reply, ToolResult, answer_inputs, execute,
    execute_or_start_task, send_until_answered, tool_result,
};
use crate::{
    Error,
    connection::{Connection, Request, RequestGuard},
    error::Kind,
};

/// The wait between two looks at a task, when the server names none, and the bounds of what it may name.
const POLL: Duration = Duration::from_secs(1);
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(60);

/// A call that wants to be a task; made when it is awaited. See [`Call::as_task`].
#[must_use = "a call does nothing until it is awaited"]
#[derive(Debug)]
pub struct TaskCall {
    call: Call<ToolResult>,
    task: TaskMetadata,
}

/// What became of a call that wanted to be a task.
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskOrResult {
    /// It is one.
    Task(TaskHandle),
    /// It is none, and done.
    Result(ToolResult),
}

/// A task of a server, by its id. Dropping it leaves the task alone.
#[derive(Clone)]
pub struct TaskHandle {
    handle: Arc<ClientHandle>,
    id: String,
    manner: TaskOptions,
    /// Taken by the first who waits for the result.
    hearing: Arc<Mutex<Option<ProgressListener>>>,
}

/// How requests about a task are made.
#[derive(Clone)]
struct TaskOptions {
    idle: Option<Duration>,
    /// What all of it may take, and what is left of that.
    total: Option<Duration>,
    left: Option<Duration>,
    meta: Option<Meta>,
    log_level: Option<LoggingLevel>,
}

/// Who hears of the progress of a task: that of the request that it came from (2025-11-25).
struct ProgressListener {
    guard: RequestGuard,
    heard: Box<dyn FnMut(ProgressParams) + Send>,
}

impl TaskCall {
    pub(crate) fn new(call: Call<ToolResult>) -> Self {
        Self { call, task: TaskMetadata::new() }
    }

    /// For how long the server shall keep the task (2025-11-25; it may decide otherwise).
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.task.ttl = Some(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        self
    }
}

impl IntoFuture for TaskCall {
    type Output = Result<TaskOrResult, Error>;
    type IntoFuture = BoxFuture<'static, Result<TaskOrResult, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { call: Call { handle, request, mut options, .. }, task } = self;
        Box::pin(async move {
            let mut request = request?;
            request.task = Some(task);
            let (reply, guard) = execute_or_start_task(&handle.core, request, &mut options).await?;
            match &reply.task {
                Some(task) => {
                    let handle = TaskHandle::new(&handle, task.task_id.clone());
                    let hearing = Arc::new(Mutex::new(ProgressListener::new(guard, &mut options)));
                    let manner = TaskOptions { total: None, left: None, ..TaskOptions::of(options) };
                    Ok(TaskOrResult::Task(TaskHandle { manner, hearing, ..handle }))
                }
                None => Ok(TaskOrResult::Result(tool_result(&handle.core, &reply)?)),
            }
        })
    }
}

impl TaskOrResult {
    /// The task, when it is one.
    #[must_use]
    pub fn task(&self) -> Option<&TaskHandle> {
        match self {
            Self::Task(task) => Some(task),
            Self::Result(_) => None,
        }
    }

    /// The result, however long it takes.
    ///
    /// # Errors
    /// As for [`TaskHandle::result`].
    pub async fn result(self) -> Result<ToolResult, Error> {
        match self {
            Self::Task(task) => task.result().await,
            Self::Result(result) => Ok(result),
        }
    }
}

impl TaskHandle {
    pub(crate) fn new(handle: &Arc<ClientHandle>, id: String) -> Self {
        let idle = handle.core.config.idle_timeout;
        let manner = TaskOptions { idle, total: None, left: None, meta: None, log_level: None };
        Self { handle: Arc::clone(handle), id, manner, hearing: Arc::default() }
    }

    /// How long the server may be silent when it is asked for the task. The default is that of the call it came from, or of the
    /// client.
    #[must_use]
    pub fn idle_timeout(mut self, limit: Duration) -> Self {
        self.manner.idle = Some(limit);
        self
    }

    /// Metadata of every request about the task. The default is that of the call it came from, or none.
    #[must_use]
    pub fn meta(mut self, meta: Meta) -> Self {
        self.manner.meta = Some(meta);
        self
    }

    /// Its id, which can be kept and given to [`Client::task`].
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Where it stands now.
    ///
    /// # Errors
    /// As for every [`Call`]; [`Error::rpc`] when the server does not know it (any more).
    pub async fn status(&self) -> Result<Task, Error> {
        Ok(look(&self.handle.core, &self.id, &mut self.manner.clone()).await?.task)
    }

    /// Its result, however long it takes: nothing but looking at it has a bound. What it asks for meanwhile is answered, and its
    /// progress told to who was to hear of that of the call it came from ([`Call::on_progress`]; 2025-11-25).
    ///
    /// # Errors
    /// [`Error::is_cancelled`] when the task was cancelled, [`Error::rpc`] when it ended with an error, and as for every [`Call`].
    pub async fn result(&self) -> Result<ToolResult, Error> {
        let core = &self.handle.core;
        let hearing = self.hearing.lock().take();
        let reply =
            hear(hearing, follow(core, &self.id, Duration::ZERO, None, None, self.manner.clone(), &mut false)).await?;
        tool_result(core, &reply)
    }

    /// Asks the server to cancel it. It may end in another way all the same.
    ///
    /// # Errors
    /// As for every [`Call`]; before 2026-07-28 also when it has ended.
    pub async fn cancel(&self) -> Result<(), Error> {
        let core = &self.handle.core;
        let request = Request::new(CancelTask::NAME, &TaskParams::new(&*self.id))?.named(&self.id);
        execute(core, request, self.manner.options()).await.map(drop)
    }
}

impl fmt::Debug for TaskHandle {
    /// Leaves out the id, which is all that it takes to read the result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").finish_non_exhaustive()
    }
}

impl TaskOptions {
    fn of(options: CallOptions) -> Self {
        let CallOptions { idle_timeout: idle, total_timeout: total, meta, log_level, .. } = options;
        Self { idle, total, left: total, meta, log_level }
    }

    /// For one request, which may take as long as the server may be silent, and no longer than all of it.
    fn options(&self) -> CallOptions {
        let limit = self.idle.into_iter().chain(self.left).min();
        let (meta, log_level) = (self.meta.clone(), self.log_level);
        CallOptions { idle_timeout: limit, total_timeout: limit, meta, log_level, ..CallOptions::default() }
    }

    /// Takes time from what is left.
    fn spend(&mut self, time: Duration) {
        self.left = self.left.map(|left| left.saturating_sub(time));
    }

    fn timeout(&self) -> Error {
        Error::timeout("the task", self.total.unwrap_or_default())
    }

    /// Makes one request about the task. The time of the user, who is asked meanwhile, does not count.
    async fn ask(&mut self, core: &Arc<ClientCore>, request: &Request) -> Result<Answer, Error> {
        let mut options = self.options();
        let before = options.total_timeout;
        match send_until_answered(core, request, None, &mut options).await {
            Err(error) if error.is_timeout() && self.left.is_some() && before == self.left => Err(self.timeout()),
            asked => {
                self.spend(
                    before
                        .zip(options.total_timeout)
                        .map_or(Duration::ZERO, |(before, after)| before.saturating_sub(after)),
                );
                asked
            }
        }
    }
}

impl ProgressListener {
    fn new(guard: Option<RequestGuard>, options: &mut CallOptions) -> Option<Self> {
        Some(Self { guard: guard?, heard: options.on_progress.take()? })
    }

    fn tell(&mut self) {
        for notice in self.guard.slot().take_progress() {
            (self.heard)(notice);
        }
    }
}

/// Tells of the progress until the work is done.
async fn hear<T>(hearing: Option<ProgressListener>, work: impl Future<Output = T>) -> T {
    let Some(mut hearing) = hearing else { return work.await };
    let mut work = pin!(work);
    let done = loop {
        tokio::select! {
            biased;
            done = &mut work => break done,
            () = hearing.guard.slot().news() => hearing.tell(),
        }
    };
    hearing.tell();
    done
}

/// The result of a call that became a task: within what is left of its time, told of as it is.
pub(crate) async fn finish(
    core: &Arc<ClientCore>,
    task: &Task,
    tool: Option<Box<str>>,
    guard: Option<RequestGuard>,
    mut call: CallOptions,
) -> Result<Reply, Error> {
    let connection = guard.as_ref().map(|guard| Arc::clone(guard.connection()));
    let hearing = ProgressListener::new(guard, &mut call);
    let manner = TaskOptions::of(call);
    let mut abandoned = CancelOnDrop { core, id: Some(task.task_id.clone()), manner: manner.clone() };
    let mut is_over = false;
    let followed =
        hear(hearing, follow(core, &task.task_id, interval(task), tool, connection, manner, &mut is_over)).await;
    if is_over || followed.is_ok() {
        abandoned.id = None;
    }
    followed
}

/// A task that nobody has but the call that became it: when that is over before the task is, the server is told.
struct CancelOnDrop<'a> {
    core: &'a Arc<ClientCore>,
    id: Option<String>,
    manner: TaskOptions,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        let core = Arc::clone(self.core);
        let limit = Some(core.config.limits.close);
        let manner = TaskOptions { idle: limit, total: limit, left: limit, ..self.manner.clone() };
        runtime.spawn(async move {
            let told = match Request::new(CancelTask::NAME, &TaskParams::new(&*id)) {
                Ok(request) => execute(&core, request.named(&id), manner.options()).await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = told {
                tracing::debug!(%error, "the server was not told that nobody waits for a task any more");
            }
        });
    }
}

fn interval(task: &Task) -> Duration {
    task.poll_interval.map_or(POLL, Duration::from_millis).clamp(SHORTEST, LONGEST)
}

/// What a look at a task showed.
struct Look {
    task: Task,
    /// With what its status brings along, where the server inlines that (tasks extension).
    detailed: Option<DetailedTask>,
    answered: Answer,
}

async fn look(core: &Arc<ClientCore>, id: &str, manner: &mut TaskOptions) -> Result<Look, Error> {
    let request = Request::new(GetTask::NAME, &TaskParams::new(id))?.named(id);
    let answered = manner.ask(core, &request).await?;
    if answered.reply.version.has_core_tasks() {
        let state: TaskState = answered.reply.read()?;
        return Ok(Look { task: state.task, detailed: None, answered });
    }
    let detailed: DetailedTask = answered.reply.read()?;
    Ok(Look { task: detailed.task.clone().into(), detailed: Some(detailed), answered })
}

/// Waits before the next look, by the clock of the connection, which stands still while this side is asked something.
async fn rest(
    core: &ClientCore,
    wait: Duration,
    connection: Option<&Connection>,
    manner: &mut TaskOptions,
) -> Result<(), Error> {
    let mark = connection.map(|connection| (connection, Mark::now(&connection.clock, &core.config.limits)));
    sleep(manner.left.map_or(wait, |left| wait.min(left))).await;
    manner.spend(mark.map_or(wait, |(connection, mark)| mark.elapsed(&connection.clock)));
    if manner.left == Some(Duration::ZERO) { Err(manner.timeout()) } else { Ok(()) }
}

/// Waits for the end of a task, and answers what it asks for. Says whether the task was seen to be over, whatever is made of it.
async fn follow(
    core: &Arc<ClientCore>,
    id: &str,
    first: Duration,
    tool: Option<Box<str>>,
    mut connection: Option<Arc<Connection>>,
    mut manner: TaskOptions,
    is_over: &mut bool,
) -> Result<Reply, Error> {
    let mut wait = first;
    let mut answered_keys = HashSet::new();
    let mut rounds = 0;
    loop {
        rest(core, wait, connection.as_deref(), &mut manner).await?;
        let Look { task, detailed, answered } = look(core, id, &mut manner).await?;
        wait = interval(&task);
        *is_over = task.status.is_terminal();
        let mut reply = answered.reply;
        let connection = connection.insert(answered.connection);
        reply.method = CallTool::NAME.into();
        reply.name.clone_from(&tool);
        let Some(detailed) = detailed else {
            // What it asks for comes as questions of the session, for which the result has to be waited for.
            if task.status.is_terminal() || task.status == TaskStatus::InputRequired {
                let done = payload(core, id, task.status, wait, &mut manner).await?;
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
                let mut questions = detailed.input_requests.unwrap_or_default();
                // A question stands until the server has seen the answer: it is asked once.
                questions.retain(|key, _| answered_keys.insert(key.clone()));
                if !questions.is_empty() {
                    rounds += 1;
                    if rounds > core.config.limits.rounds {
                        return Err(Kind::Rounds(core.config.limits.rounds).into());
                    }
                    let inputs = answer_inputs(core, connection, InputRequiredResult::new(questions)).await?;
                    let params = UpdateTaskParams::new(id, inputs.responses.unwrap_or_default());
                    manner.ask(core, &Request::of::<UpdateTask>(&params)?.named(id)).await?;
                }
            }
            _ => {}
        }
    }
}

/// The result of a task of 2025-11-25 by the request that waits for it. A task that has ended has its result at once.
async fn payload(
    core: &Arc<ClientCore>,
    id: &str,
    status: TaskStatus,
    interval: Duration,
    manner: &mut TaskOptions,
) -> Result<Reply, Error> {
    let request = Request::of::<GetTaskPayload>(&TaskParams::new(id))?.named(id);
    if status.is_terminal() {
        return match manner.ask(core, &request).await {
            Ok(answered) => Ok(answered.reply),
            Err(_) if status == TaskStatus::Cancelled => Err(Kind::Cancelled.into()),
            Err(error) => Err(error),
        };
    }
    // The server may be silent: as long as looking at the task works, it is there.
    let mut waiting = TaskOptions { idle: None, ..manner.clone() };
    let mut looks = TaskOptions { left: None, ..manner.clone() };
    let mut waiting = pin!(waiting.ask(core, &request));
    loop {
        tokio::select! {
            answered = &mut waiting => return answered.map(|answered| answered.reply),
            () = sleep(interval) => {}
        }
        let looking = look(core, id, &mut looks);
        tokio::select! {
            answered = &mut waiting => return answered.map(|answered| answered.reply),
            looked = looking => drop(looked?),
        }
    }
}
