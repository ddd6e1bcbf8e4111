//! Handles of tasks, and calls that start one.

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{
    Meta, Method,
    method::CancelTask,
    tasks::{Task, TaskMetadata, TaskParams},
};
use mcp_transport::BoxFuture;
use parking_lot::Mutex;

use super::{
    Call, ClientHandle, ToolResult, execute, execute_or_start_task,
    tasks::{ProgressListener, TaskOptions, cancel_if_closing, follow, get_task, with_progress},
    tool_result,
};
use crate::{Error, connection::Request};

/// A tool call that starts a task. It is sent when it is awaited. See [`Call::as_task`].
///
/// Dropping the future before it is done cancels the call, and the task if the server has created one.
///
/// # Example
/// ```no_run
/// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
/// use std::time::Duration;
///
/// let started = client.call_tool("build", ()).as_task().ttl(Duration::from_secs(3600)).await?;
/// println!("{}", started.result().await?.text());
/// # Ok(())
/// # }
/// ```
#[must_use = "a call is not sent until it is awaited"]
#[derive(Debug)]
pub struct TaskCall {
    call: Call<ToolResult>,
    task: TaskMetadata,
}

/// The outcome of a [`TaskCall`]: a task, or the result if the server ran the call at once.
///
/// # Example
/// ```no_run
/// use mcp_client::TaskOrResult;
///
/// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
/// match client.call_tool("build", ()).as_task().await? {
///     TaskOrResult::Task(task) => println!("started the task {}", task.id()),
///     TaskOrResult::Result(result) => println!("{}", result.text()),
///     _ => {}
/// }
/// // Or without a match:
/// let started = client.call_tool("build", ()).as_task().await?;
/// println!("{}", started.task().map_or("no task", |task| task.id()));
/// println!("{}", started.result().await?.text());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum TaskOrResult {
    /// The server created a task.
    Task(TaskHandle),
    /// The server returned the result.
    Result(ToolResult),
}

/// A handle of a task on the server. Dropping the handle does not cancel the task.
///
/// If each connection starts a process of its own ([`Connect::starts_process`](crate::transport::Connect::starts_process)), the
/// handle of a [`TaskCall`] uses only the connection of its call. After the end of that process its requests fail. A handle of
/// [`Client::task`](crate::Client::task) uses each connection.
///
/// # Example
/// ```no_run
/// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
/// use std::time::Duration;
///
/// use mcp_client::protocol::Meta;
///
/// // The id can be stored and used by another program.
/// let task = client.task("786512e2-9e0d-44bd-8f29-789f320fe840");
/// let task = task.idle_timeout(Duration::from_secs(30)).meta(Meta::default());
/// println!("{} {:?}", task.id(), task.status().await?.status);
/// if std::env::args().any(|argument| argument == "--cancel") {
///     task.cancel().await?;
/// }
/// println!("{}", task.result().await?.text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TaskHandle {
    handle: Arc<ClientHandle>,
    id: String,
    options: TaskOptions,
    /// The first call of [`TaskHandle::result`] takes the listener.
    progress: Arc<Mutex<Option<ProgressListener>>>,
}

impl TaskCall {
    pub(super) fn new(call: Call<ToolResult>) -> Self {
        Self { call, task: TaskMetadata::new() }
    }

    /// Requests that the server keeps the task for this time (2025-11-25). The server can choose another time.
    ///
    /// See the [example](Self#example).
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
            let (reply, guard) = execute_or_start_task(&handle.core, &request, &mut options).await?;
            let Some(task) = &reply.task else {
                return Ok(TaskOrResult::Result(tool_result(&handle.core, &reply)?));
            };
            let callback = options.on_progress.take();
            let options = TaskOptions::of(&handle.core, options, reply.connection).without_total_timeout();
            cancel_if_closing(&handle.core, &task.task_id, &options)?;
            let task = TaskHandle::new(&handle, task.task_id.clone());
            let progress = Arc::new(Mutex::new(ProgressListener::new(guard, callback)));
            Ok(TaskOrResult::Task(TaskHandle { options, progress, ..task }))
        })
    }
}

impl TaskOrResult {
    /// Returns the task, if the server created one.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn task(&self) -> Option<&TaskHandle> {
        match self {
            Self::Task(task) => Some(task),
            Self::Result(_) => None,
        }
    }

    /// Returns the result. Waits for the end of the task, without a timeout.
    ///
    /// See the [example](Self#example).
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
        let options = TaskOptions::new(handle.core.config.idle_timeout);
        Self { handle: Arc::clone(handle), id, options, progress: Arc::default() }
    }

    /// Sets the idle timeout of each request about the task. `None`: no limit. The default is that of the call that
    /// started the task, or that of the client.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn idle_timeout(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.options.idle_timeout = limit.into();
        self
    }

    /// Sets the metadata of each request about the task. The default is that of the call that started the task, or none.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn meta(mut self, meta: Meta) -> Self {
        self.options.meta = Some(meta);
        self
    }

    /// Returns the id of the task. [`Client::task`](crate::Client::task) returns a new handle for it.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Requests the current state of the task.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// As for every [`Call`]. [`Error::rpc`] if the server does not know the task.
    pub async fn status(&self) -> Result<Task, Error> {
        Ok(get_task(&self.handle.core, &self.id, &mut self.options.clone()).await?.task)
    }

    /// Waits for the end of the task and returns its result. Only the requests about the task have a timeout.
    ///
    /// The client answers the requests of the task for input. It reports the progress of the task to the listener of the call
    /// that started it ([`Call::on_progress`]; 2025-11-25).
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// [`Error::is_cancelled`] if the task was cancelled, [`Error::rpc`] if it ended with an error, and as for every [`Call`].
    pub async fn result(&self) -> Result<ToolResult, Error> {
        let core = &self.handle.core;
        let progress = self.progress.lock().take();
        let mut is_over = false;
        let following = follow(core, &self.id, Duration::ZERO, None, None, self.options.clone(), &mut is_over);
        let reply = with_progress(progress, following).await?;
        tool_result(core, &reply)
    }

    /// Requests the cancellation of the task. The task can still end in another way.
    ///
    /// See the [example](Self#example).
    ///
    /// # Errors
    /// As for every [`Call`]. Before 2026-07-28 also if the task has ended.
    pub async fn cancel(&self) -> Result<(), Error> {
        let mut request = Request::new(CancelTask::NAME, &TaskParams::new(&*self.id))?.named(&self.id);
        execute(&self.handle.core, &mut request, &mut self.options.request()).await.map(drop)
    }
}

impl fmt::Debug for TaskHandle {
    /// Omits the id, because it is sufficient to read the result.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").finish_non_exhaustive()
    }
}
