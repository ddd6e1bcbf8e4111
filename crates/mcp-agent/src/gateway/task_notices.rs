//! The notifications about running tasks, for the sessions whose calls became the tasks (2025-11-25): progress, log records and states.

use std::{collections::HashMap, sync::Arc, time::Duration};

use mcp_client::{Client, CreatedTask, Notification, Notifications, TaskProgress};
use mcp_protocol::{LoggingMessageParams, NotificationMethod as _, ProgressParams, notification, tasks::TaskStatus};
use mcp_server_core::source::{SourceCall, TaskNotifier};
use parking_lot::Mutex;
use tokio::{
    task::coop::consume_budget,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{
    Core,
    caller::Downstream,
    members::Members,
    process::Process,
    task_form::{lifetime, status},
    task_questions::TaskKey,
    tasks::ServerTask,
};
use crate::registry::forward_meta;

/// The most tasks that the gateway follows, and the most of a principal. The notifications of further tasks are not forwarded.
const TASKS: usize = 1024;
const OF_PRINCIPAL: usize = 256;
/// The interval in which the gateway detects the end of a session.
const CHECK: Duration = Duration::from_secs(60);

/// The tasks whose notifications are forwarded now.
#[derive(Debug, Clone, Default)]
pub(super) struct TaskNotices(Arc<Mutex<HashMap<TaskKey, CancellationToken>>>);

/// A followed task. The drop of the value makes room for another task.
struct Followed {
    notices: TaskNotices,
    key: TaskKey,
    ended: CancellationToken,
}

impl TaskNotices {
    fn follow(&self, key: TaskKey) -> Option<Followed> {
        let mut followed = self.0.lock();
        let of_principal = followed.keys().filter(|other| other.holder.principal == key.holder.principal).count();
        if followed.len() >= TASKS || of_principal >= OF_PRINCIPAL {
            tracing::debug!("too many tasks run: the notifications of a task are not forwarded");
            return None;
        }
        let ended = CancellationToken::new();
        if let Some(former) = followed.insert(key.clone(), ended.clone()) {
            former.cancel();
        }
        Some(Followed { notices: self.clone(), key, ended })
    }

    /// Whether the notifications of a task are forwarded.
    pub(super) fn has(&self, key: &TaskKey) -> bool {
        self.0.lock().contains_key(key)
    }

    /// Ends the notifications of a task, because its client receives a final state.
    pub(super) fn end(&self, key: &TaskKey) {
        if let Some(ended) = self.0.lock().remove(key) {
            ended.cancel();
        }
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.ended.cancel();
        // A newer task can have the same id.
        self.notices.0.lock().retain(|_, ended| !ended.is_cancelled());
    }
}

impl Core {
    /// Forwards the notifications about a task to the session of its call, for the lifetime of the task, and while the connection to
    /// the server and the session are open. `id` is the id for the client.
    pub(super) fn follow_task(
        self: &Arc<Self>,
        call: &SourceCall,
        task: &ServerTask,
        id: &str,
        created: &CreatedTask,
        upstream: &Client,
    ) {
        if !created.result().version().has_core_tasks() {
            return;
        }
        let Some(notifier) = call.task_notifier(id) else { return };
        let key = TaskKey::new(self.holder(&task.server, &Downstream::of(call)), task);
        let Some(followed) = self.task_notices.follow(key) else { return };
        let (progress, notices) = (created.take_progress(), upstream.notifications());
        let core = Arc::downgrade(self);
        let (task, id, limit) = (task.clone(), id.to_owned(), lifetime(created.result()));
        let upstream = upstream.clone();
        tokio::spawn(async move {
            let ended = followed.ended.clone();
            let (mut progress, mut notices) = (progress, notices);
            let forwarding = async {
                while let Some(event) = next(&mut progress, &mut notices, &task.id, &ended).await {
                    if !notifier.is_open() {
                        return;
                    }
                    // The next process can give its own tasks the same id.
                    let process = task.process.as_ref().and_then(Process::number);
                    if process.is_some() && upstream.connection_number() != process {
                        return;
                    }
                    // A server that sends without a pause does not delay the time limit.
                    consume_budget().await;
                    let Some(core) = core.upgrade() else { return };
                    if !core.hides_task(&task, followed.key.holder.principal.as_ref()) && event.forward(&notifier, &id)
                    {
                        return;
                    }
                }
            };
            let _ = timeout(limit, forwarding).await;
            drop(followed);
        });
    }
}

/// An event of a followed task.
enum Event {
    Progress(ProgressParams),
    Log(LoggingMessageParams),
    /// The parameters of a state, with the id at the server.
    Status(Notification),
    /// The session can have ended.
    Check,
}

/// Returns the next event of a task; `None` after its end.
async fn next(
    progress: &mut Option<TaskProgress>,
    notices: &mut Notifications,
    task: &str,
    ended: &CancellationToken,
) -> Option<Event> {
    loop {
        tokio::select! {
            biased;
            notice = next_progress(progress) => match notice {
                Some(notice) => return Some(Event::Progress(notice)),
                None => *progress = None,
            },
            notice = notices.next() => if let Some(event) = Event::of(&notice?, task) {
                return Some(event);
            },
            () = ended.cancelled() => return None,
            () = sleep(CHECK) => return Some(Event::Check),
        }
    }
}

async fn next_progress(progress: &mut Option<TaskProgress>) -> Option<ProgressParams> {
    match progress {
        Some(progress) => progress.next().await,
        None => std::future::pending().await,
    }
}

impl Event {
    /// Returns the event of a notification; `None` if it is not about the task.
    fn of(notice: &Notification, task: &str) -> Option<Self> {
        match notice.method() {
            notification::TaskStatus::NAME => {
                let state = Members::read(notice.raw_params()?.get()).ok()?;
                (state.decode::<String>("taskId")? == task).then(|| Self::Status(notice.clone()))
            }
            notification::LoggingMessage::NAME => {
                let record: LoggingMessageParams = notice.decode().ok()?;
                (record.meta.as_ref()?.related_task()? == task).then_some(Self::Log(record))
            }
            _ => None,
        }
    }

    /// Forwards the event with the id for the client. Returns true if the task has ended.
    fn forward(self, notifier: &TaskNotifier, id: &str) -> bool {
        match self {
            Self::Progress(mut notice) => {
                notice.meta = notice.meta.as_ref().and_then(forward_meta);
                notifier.progress(notice);
            }
            Self::Log(mut record) => {
                record.meta = record.meta.as_ref().and_then(forward_meta);
                notifier.log(record);
            }
            Self::Status(notice) => {
                let state = notice.raw_params().and_then(|params| Members::read(params.get()).ok());
                let Some(mut state) = state else { return false };
                state.set("taskId", id);
                notifier.status(&state.write());
                return status(&state).is_some_and(TaskStatus::is_terminal);
            }
            Self::Check => {}
        }
        false
    }
}
