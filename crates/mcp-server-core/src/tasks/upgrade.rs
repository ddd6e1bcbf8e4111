//! The state of a call that may become a task.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::running::RunningTask;

/// What a call that may become a task knows of that.
#[derive(Default)]
pub(crate) struct TaskUpgrade {
    stage: watch::Sender<Stage>,
    live: OnceLock<Arc<RunningTask>>,
    /// What the handler said last, before there was a task.
    words: Mutex<Option<String>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// It is a call so far.
    #[default]
    Call,
    /// The handler wants it to be a task.
    Wanted,
    /// It is a task.
    Task,
    /// It stays a call: there is no room.
    Refused,
}

impl TaskUpgrade {
    /// The task, once it is one.
    pub(crate) fn live(&self) -> Option<&Arc<RunningTask>> {
        self.live.get()
    }

    /// Takes what the handler says of how it goes.
    pub(crate) fn say(&self, words: &str) {
        match self.live() {
            Some(live) => live.say(words),
            None => *self.words.lock() = Some(words.to_owned()),
        }
    }

    /// Makes it a task now; false when that cannot be.
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

    pub(crate) fn become_task(&self, live: &Arc<RunningTask>) {
        let _ = self.live.set(live.clone());
        self.stage.send_replace(Stage::Task);
    }

    /// The last status message of the handler, before the call became a task.
    pub(crate) fn message(&self) -> Option<String> {
        self.words.lock().clone()
    }
}

/// Refuses what was not decided when a call is over, however it came to its end: who waits to be detached learns it.
pub(crate) struct Decided<'a>(pub(crate) Option<&'a Arc<TaskUpgrade>>);

impl Drop for Decided<'_> {
    fn drop(&mut self) {
        if let Some(tasking) = self.0 {
            tasking.stage.send_if_modified(|stage| {
                let is_open = *stage != Stage::Task;
                if is_open {
                    *stage = Stage::Refused;
                }
                is_open
            });
        }
    }
}
