//! The notifications about a task of a source, for the session whose call became the task (2025-11-25).

use std::{
    fmt,
    sync::{Arc, Weak},
};

use mcp_protocol::{
    LoggingMessageParams, Meta, NotificationMethod, ProgressParams, ProgressToken, jsonrpc, notification,
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{Session, context::Context};

/// Notifies the client of one session about a task that its call became ([`SourceCall::task_notifier`](super::SourceCall::task_notifier)).
///
/// The notifications use the stream of the session. A client that does not read misses them, so clients do not depend on them. They
/// have no effect after the end of the session.
///
/// ```
/// use mcp_protocol::ProgressParams;
/// use mcp_server_core::source::SourceCall;
///
/// /// Forwards the progress of another server, for a task of the application.
/// fn forward(call: &SourceCall, mut notices: tokio::sync::mpsc::Receiver<ProgressParams>) {
///     let Some(notifier) = call.task_notifier("task-7") else { return };
///     tokio::spawn(async move {
///         while let Some(notice) = notices.recv().await.filter(|_| notifier.is_open()) {
///             notifier.progress(notice);
///         }
///     });
/// }
/// # let _ = forward;
/// ```
pub struct TaskNotifier {
    session: Weak<Session>,
    task: Box<str>,
    progress_token: Option<ProgressToken>,
    last_progress: Mutex<Option<f64>>,
}

impl TaskNotifier {
    pub(super) fn new(context: &Context, task: &str) -> Option<Self> {
        let session = context.shared_session().filter(|_| context.version().has_core_tasks())?;
        Some(Self {
            session: Arc::downgrade(session),
            task: task.into(),
            progress_token: context.progress_token().cloned(),
            last_progress: Mutex::new(context.last_progress()),
        })
    }

    /// Whether the session is open.
    ///
    /// See the example of the [type](Self).
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.session.upgrade().is_some_and(|session| !session.is_closed())
    }

    /// Forwards a progress notification of another server. The server sets the token of the client and the related task. It sends
    /// nothing if the client gave no token, or if the value does not grow.
    ///
    /// See the example of the [type](Self).
    pub fn progress(&self, mut notice: ProgressParams) {
        let Some(token) = &self.progress_token else { return };
        {
            let mut last = self.last_progress.lock();
            if !notice.progress.is_finite() || last.is_some_and(|last| notice.progress <= last) {
                return;
            }
            *last = Some(notice.progress);
        }
        notice.progress_token = token.clone();
        self.relate(&mut notice.meta);
        self.send::<notification::Progress>(&notice);
    }

    /// Forwards a log record of another server, if the client receives records of its level. The server sets the related task.
    ///
    /// See the example of the [type](Self).
    pub fn log(&self, mut record: LoggingMessageParams) {
        if self.session.upgrade().is_none_or(|session| record.level < session.log_level()) {
            return;
        }
        self.relate(&mut record.meta);
        self.send::<notification::LoggingMessage>(&record);
    }

    /// Sends a state of the task (`notifications/tasks/status`). It has the id for the client.
    ///
    /// See the example of the [type](Self).
    pub fn status(&self, state: &RawValue) {
        self.send::<notification::TaskStatus>(&state);
    }

    fn relate(&self, meta: &mut Option<Meta>) {
        meta.get_or_insert_default().set_related_task(&self.task);
    }

    fn send<N: NotificationMethod>(&self, params: &impl Serialize) {
        if let Some(session) = self.session.upgrade()
            && let Ok(message) = jsonrpc::notification(N::NAME, params)
        {
            session.send(message);
        }
    }
}

impl fmt::Debug for TaskNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskNotifier").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}
