//! Tasks: calls that run on by themselves, in both dialects.

use std::{collections::HashSet, fmt, sync::Arc, time::Duration};

use mcp_protocol::{
    ErrorCode, InputRequiredResult, Method, RpcError,
    method::{CallTool, CancelTask, GetTask, GetTaskPayload, UpdateTask},
    tasks::{
        Task, TaskMetadata, TaskParams, TaskState, TaskStatus,
        ext::{DetailedTask, UpdateTaskParams},
    },
};
use mcp_transport::BoxFuture;
use tokio::time::{sleep, timeout};

use crate::{
    Call, Client, Error, ToolResult,
    client::tool_result,
    drive::{Answered, Options, Reply, answer, drive, exchange, start},
    error::Kind,
    shared::Shared,
    wire::Request,
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
pub enum Started {
    /// It is one.
    Task(TaskHandle),
    /// It is none, and done.
    Done(ToolResult),
}

/// A task of a server, by its id. Dropping it leaves the task alone.
#[derive(Clone)]
pub struct TaskHandle {
    client: Client,
    id: String,
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
    type Output = Result<Started, Error>;
    type IntoFuture = BoxFuture<'static, Result<Started, Error>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { call: Call { client, request, options, .. }, task } = self;
        Box::pin(async move {
            let mut request = request?;
            request.task = Some(task);
            let reply = start(client.shared(), request, options).await?;
            match &reply.task {
                Some(task) => Ok(Started::Task(client.task(&*task.task_id))),
                None => Ok(Started::Done(tool_result(client.shared(), &reply)?)),
            }
        })
    }
}

impl Started {
    /// The task, when it is one.
    #[must_use]
    pub fn task(&self) -> Option<&TaskHandle> {
        match self {
            Self::Task(task) => Some(task),
            Self::Done(_) => None,
        }
    }

    /// The result, however long it takes.
    ///
    /// # Errors
    /// As for [`TaskHandle::result`].
    pub async fn result(self) -> Result<ToolResult, Error> {
        match self {
            Self::Task(task) => task.result().await,
            Self::Done(result) => Ok(result),
        }
    }
}

impl TaskHandle {
    pub(crate) fn new(client: &Client, id: String) -> Self {
        Self { client: client.clone(), id }
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
        let mut options = options(self.client.shared());
        Ok(look(self.client.shared(), &self.id, &mut options).await?.task)
    }

    /// Its result, however long it takes: nothing but looking at it has a bound. What it asks for meanwhile is answered.
    ///
    /// # Errors
    /// [`Error::is_cancelled`] when the task was cancelled, [`Error::rpc`] when it ended with an error, and as for every [`Call`].
    pub async fn result(&self) -> Result<ToolResult, Error> {
        let shared = self.client.shared();
        let mut options = options(shared);
        options.total = None;
        let reply = follow(shared, &self.id, Duration::ZERO, None, &mut options).await?;
        tool_result(shared, &reply)
    }

    /// Asks the server to cancel it. It may end in another way all the same.
    ///
    /// # Errors
    /// As for every [`Call`]; before 2026-07-28 also when it has ended.
    pub async fn cancel(&self) -> Result<(), Error> {
        let shared = self.client.shared();
        let request = Request::new(CancelTask::NAME, &TaskParams::new(&*self.id))?.named(&self.id);
        drive(shared, request, options(shared)).await.map(drop)
    }
}

impl fmt::Debug for TaskHandle {
    /// Leaves out the id, which is all that it takes to read the result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").finish_non_exhaustive()
    }
}

/// The result of a call that became a task, within what is left of its time.
pub(crate) async fn finish(
    shared: &Arc<Shared>,
    task: &Task,
    tool: Option<Box<str>>,
    call: &mut Options,
) -> Result<Reply, Error> {
    let mut options = options(shared);
    let following = follow(shared, &task.task_id, interval(task), tool, &mut options);
    match call.total {
        None => following.await,
        Some(total) => {
            let followed = timeout(total, following).await;
            followed.unwrap_or_else(|_| Err(Error::timeout("the task", total)))
        }
    }
}

/// How requests about a task are made.
fn options(shared: &Shared) -> Options {
    Options { idle: shared.config.idle, total: shared.config.idle, ..Options::default() }
}

fn interval(task: &Task) -> Duration {
    task.poll_interval.map_or(POLL, Duration::from_millis).clamp(SHORTEST, LONGEST)
}

/// What a look at a task showed.
struct Look {
    task: Task,
    /// With what its status brings along, where the server inlines that (tasks extension).
    detailed: Option<DetailedTask>,
    answered: Answered,
}

async fn look(shared: &Arc<Shared>, id: &str, options: &mut Options) -> Result<Look, Error> {
    let request = Request::new(GetTask::NAME, &TaskParams::new(id))?.named(id);
    let answered = exchange(shared, &request, None, options).await?;
    // Each look has its own time.
    options.total = shared.config.idle;
    if answered.reply.version.has_core_tasks() {
        let state: TaskState = answered.reply.read()?;
        return Ok(Look { task: state.task, detailed: None, answered });
    }
    let detailed: DetailedTask = answered.reply.read()?;
    Ok(Look { task: detailed.task.clone().into(), detailed: Some(detailed), answered })
}

/// Waits for the end of a task, and answers what it asks for.
async fn follow(
    shared: &Arc<Shared>,
    id: &str,
    first: Duration,
    tool: Option<Box<str>>,
    options: &mut Options,
) -> Result<Reply, Error> {
    let mut wait = first;
    let mut answered_keys = HashSet::new();
    let mut rounds = 0;
    loop {
        sleep(wait).await;
        let Look { task, detailed, answered } = look(shared, id, options).await?;
        wait = interval(&task);
        let Answered { mut reply, link, .. } = answered;
        reply.method = CallTool::NAME.into();
        reply.name.clone_from(&tool);
        let Some(detailed) = detailed else {
            // What it asks for comes as questions of the session, for which the result has to be waited for.
            if task.status.is_terminal() || task.status == TaskStatus::InputRequired {
                let done = payload(shared, id, task.status, wait, options).await?;
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
                    if rounds > shared.config.limits.rounds {
                        return Err(Kind::Rounds(shared.config.limits.rounds).into());
                    }
                    let inputs = answer(shared, &link, InputRequiredResult::new(questions)).await?;
                    let params = UpdateTaskParams::new(id, inputs.responses.unwrap_or_default());
                    let request = Request::of::<UpdateTask>(&params)?.named(id);
                    exchange(shared, &request, None, options).await?;
                    options.total = shared.config.idle;
                }
            }
            _ => {}
        }
    }
}

/// The result of a task of 2025-11-25 by the request that waits for it. A task that has ended has its result at once.
async fn payload(
    shared: &Arc<Shared>,
    id: &str,
    status: TaskStatus,
    interval: Duration,
    options: &mut Options,
) -> Result<Reply, Error> {
    let request = Request::of::<GetTaskPayload>(&TaskParams::new(id))?.named(id);
    if status.is_terminal() {
        let result = exchange(shared, &request, None, options).await;
        options.total = shared.config.idle;
        return match result {
            Ok(answered) => Ok(answered.reply),
            Err(_) if status == TaskStatus::Cancelled => Err(Kind::Cancelled.into()),
            Err(error) => Err(error),
        };
    }
    // It has no bound of its own: as long as looking at the task works, the server is there.
    let mut unbounded = Options::default();
    let waiting = exchange(shared, &request, None, &mut unbounded);
    tokio::pin!(waiting);
    loop {
        tokio::select! {
            answered = &mut waiting => return answered.map(|answered| answered.reply),
            () = sleep(interval) => {}
        }
        // The session's questions stop no clock here: only the looks have one.
        let looking = look(shared, id, options);
        tokio::select! {
            answered = &mut waiting => return answered.map(|answered| answered.reply),
            looked = looking => drop(looked?),
        }
    }
}
