//! The state of a call that may become a task.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::running::RunningTask;

/// The state of a call that may become a task.
#[derive(Default)]
pub(crate) struct TaskUpgrade {
    stage: watch::Sender<Stage>,
    running_task: OnceLock<Arc<RunningTask>>,
    /// The last status message of the handler, before the task exists.
    message: Mutex<Option<String>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// The call is not a task.
    #[default]
    Call,
    /// The handler requested a task.
    Wanted,
    /// The call is a task.
    Task,
    /// The call stays a call, because no task could be created.
    Refused,
}

impl TaskUpgrade {
    /// Returns the task that the call became.
    pub(crate) fn running_task(&self) -> Option<&Arc<RunningTask>> {
        self.running_task.get()
    }

    /// Sets the status message of the task, or of the call until it is a task.
    pub(crate) fn set_message(&self, message: &str) {
        match self.running_task() {
            Some(running_task) => running_task.set_message(message),
            None => *self.message.lock() = Some(message.to_owned()),
        }
    }

    /// Requests a task now. Returns false when the call stays a call.
    pub(crate) async fn detach(&self) -> bool {
        self.stage.send_if_modified(|stage| {
            let is_call = *stage == Stage::Call;
            if is_call {
                *stage = Stage::Wanted;
            }
            is_call
        });
        let decided = |stage: &Stage| matches!(stage, Stage::Task | Stage::Refused);
        self.stage.subscribe().wait_for(decided).await.is_ok_and(|stage| *stage == Stage::Task)
    }

    pub(crate) async fn wanted(&self) {
        let _ = self.stage.subscribe().wait_for(|stage| *stage == Stage::Wanted).await;
    }

    pub(crate) fn become_task(&self, running_task: &Arc<RunningTask>) {
        let _ = self.running_task.set(running_task.clone());
        self.stage.send_replace(Stage::Task);
    }

    /// The last status message of the handler, before the call became a task.
    pub(crate) fn message(&self) -> Option<String> {
        self.message.lock().clone()
    }
}

/// Marks an undecided call as refused when it ends, so that a waiting [`TaskUpgrade::detach`] returns.
pub(crate) struct Decided<'a>(pub(crate) Option<&'a Arc<TaskUpgrade>>);

impl Drop for Decided<'_> {
    fn drop(&mut self) {
        if let Some(upgrade) = self.0 {
            upgrade.stage.send_if_modified(|stage| {
                let is_open = *stage != Stage::Task;
                if is_open {
                    *stage = Stage::Refused;
                }
                is_open
            });
        }
    }
}
