//! The task that a relayed call became, and its progress.

use std::{collections::VecDeque, fmt, sync::Arc};

use mcp_protocol::ProgressParams;
use parking_lot::Mutex;

use super::RawResult;
use crate::connection::RequestGuard;

/// The created task of a call ([`Round::Task`](super::Round::Task)).
///
/// ```
/// use mcp_client::CreatedTask;
///
/// async fn show(created: &CreatedTask) {
///     println!("{} bytes", created.result().bytes().len());
///     let Some(mut progress) = created.take_progress() else { return };
///     while let Some(notice) = progress.next().await {
///         println!("{} of {:?}", notice.progress, notice.total);
///     }
/// }
/// # let _ = show;
/// ```
#[derive(Debug, Clone)]
pub struct CreatedTask {
    result: RawResult,
    progress: Arc<Mutex<Option<TaskProgress>>>,
}

/// The progress of a task, for as long as the connection is open ([`CreatedTask::take_progress`]).
///
/// See the example of [`CreatedTask`].
pub struct TaskProgress {
    guard: RequestGuard,
    received: VecDeque<ProgressParams>,
}

impl CreatedTask {
    pub(super) fn new(result: RawResult, guard: Option<RequestGuard>) -> Self {
        let progress = guard.map(|mut guard| {
            guard.answer_handled();
            guard.call_ended();
            TaskProgress { guard, received: VecDeque::new() }
        });
        Self { result, progress: Arc::new(Mutex::new(progress)) }
    }

    /// Returns the created task in the dialect of the revision, as the server sent it.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn result(&self) -> &RawResult {
        &self.result
    }

    /// Returns the created task by value. The client receives no progress of the task any more.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn into_result(self) -> RawResult {
        self.result
    }

    /// Returns the progress of the task. The first call takes it from all clones. `None` for a call without
    /// [`Call::on_progress`](super::Call::on_progress), and for the extension, whose tasks report none.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn take_progress(&self) -> Option<TaskProgress> {
        self.progress.lock().take()
    }
}

impl TaskProgress {
    /// Returns the next progress notification; `None` after the end of the connection. Cancel safe.
    ///
    /// The oldest of 64 waiting notifications is dropped. The notifications do not show the end of the task.
    ///
    /// See the example of [`CreatedTask`].
    pub async fn next(&mut self) -> Option<ProgressParams> {
        loop {
            if let Some(notice) = self.received.pop_front() {
                return Some(notice);
            }
            self.received = self.guard.slot().take_progress();
            if !self.received.is_empty() {
                continue;
            }
            tokio::select! {
                biased;
                () = self.guard.slot().changed() => {}
                () = self.guard.connection().ended() => return None,
            }
        }
    }
}

impl fmt::Debug for TaskProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskProgress").field("received", &self.received.len()).finish_non_exhaustive()
    }
}
