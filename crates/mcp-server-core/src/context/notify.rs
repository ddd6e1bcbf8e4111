//! The notifications that a handler sends: log records, and progress in order.

use mcp_protocol::{LoggingLevel, LoggingMessageParams, jsonrpc, method::NotificationMethod, notification};
use mcp_transport::{Frame, Route, TrySendError};
use serde::Serialize;

use super::{Context, Outgoing};
use crate::{log_guard::hold_records, session::Client, tasks::RunningTask};

impl Context {
    /// Whether the client receives log records of this level.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn logs(&self, level: LoggingLevel) -> bool {
        let wanted = match &self.inner.client {
            Client::Session(session) => Some(session.log_level()),
            Client::Request(_) => self.inner.log_level,
        };
        self.inner.sink.is_some() && wanted.is_some_and(|wanted| level >= wanted)
    }

    /// Sends a log record to the client (`notifications/message`), if the client requested records of this level. In
    /// 2026-07-28 a client receives none by default. Log records must not contain secrets.
    ///
    /// See the [example](Self#example).
    pub async fn log(&self, level: LoggingLevel, data: impl Serialize) {
        self.log_as(level, None, data).await;
    }

    /// Sends a log record with the name of a logger, like [`Context::log`].
    ///
    /// See the [example](Self#example).
    pub async fn log_as(&self, level: LoggingLevel, logger: Option<&str>, data: impl Serialize) {
        if !self.logs(level) {
            return;
        }
        let Ok(data) = serde_json::to_value(data) else {
            tracing::warn!("a log record cannot be written as JSON");
            return;
        };
        let mut params = LoggingMessageParams::new(level, data);
        params.logger = logger.map(str::to_owned);
        self.notify::<notification::LoggingMessage>(&params, None).await;
    }

    /// Sends a log record of another server, if the client receives records of its level.
    pub(crate) async fn forward_log(&self, record: &LoggingMessageParams) {
        if self.logs(record.level) {
            self.notify::<notification::LoggingMessage>(record, None).await;
        }
    }

    /// Sends a log record if the transport has capacity.
    #[cfg(feature = "log-layer")]
    pub(crate) fn try_log(&self, params: &LoggingMessageParams) {
        let Some(sink) = &self.inner.sink else { return };
        if let Some(task) = self.task() {
            return self.notify_about_task::<notification::LoggingMessage>(task, params, None);
        }
        let Some(frame) = self.notification::<notification::LoggingMessage>(params) else { return };
        let outgoing = self.outgoing();
        if outgoing.admits(None) && sink.try_send(frame).is_err() {
            tracing::debug!("a record found no room on its way to the client");
        }
    }

    /// Queues a notification, and waits for capacity if necessary. A progress value is queued only if it is larger than
    /// the last.
    pub(super) async fn notify<N: NotificationMethod>(&self, params: &(impl Serialize + Sync), progress: Option<f64>) {
        let Some(sink) = &self.inner.sink else { return };
        if let Some(task) = self.task() {
            return self.notify_about_task::<N>(task, params, progress);
        }
        let Some(mut frame) = self.notification::<N>(params) else { return };
        let len = frame.message.len();
        loop {
            {
                let _guard = hold_records();
                let mut outgoing = self.outgoing();
                if !outgoing.admits(progress) {
                    return;
                }
                match sink.try_send(frame) {
                    Ok(()) => return outgoing.record(progress),
                    Err(TrySendError::Full(back)) => frame = back,
                    // The stream may be closed while the call continues: a lost connection does not cancel a call of a
                    // session.
                    Err(_) => {
                        tracing::debug!(method = N::NAME, "a notification found its stream closed");
                        break;
                    }
                }
            }
            if sink.ready(len).await.is_err() {
                return;
            }
            // The call may have become a task while it waited, and its response is sent.
            if let Some(task) = self.task() {
                return self.notify_about_task::<N>(task, params, progress);
            }
        }
        // Nothing above waits any more. Yielding lets the runtime cancel a handler that only sends notifications.
        tokio::task::coop::consume_budget().await;
    }

    /// Sends a notification of a task, after the response to its call. In a session it uses the session's own stream
    /// and names the task. The extension has no such notifications (SEP-2663).
    fn notify_about_task<N: NotificationMethod>(
        &self,
        task: &RunningTask,
        params: &(impl Serialize + Sync),
        progress: Option<f64>,
    ) {
        let Client::Session(session) = &self.inner.client else { return };
        let _guard = hold_records();
        let mut outgoing = self.outgoing();
        if !outgoing.admits(progress) {
            return;
        }
        let Ok(mut params) = serde_json::to_value(params) else { return };
        params["_meta"][mcp_protocol::meta::keys::RELATED_TASK] = serde_json::json!({ "taskId": task.id() });
        if let Ok(message) = jsonrpc::notification(N::NAME, &params) {
            session.send(message);
            outgoing.record(progress);
        }
    }

    /// Creates the frame of a notification, with the route of the request.
    fn notification<N: NotificationMethod>(&self, params: &impl Serialize) -> Option<Frame> {
        let mut frame = Frame::new(jsonrpc::notification(N::NAME, params).ok()?);
        if let Some(id) = &self.inner.request_id {
            frame.route = Route::Request(id.clone());
        }
        Some(frame)
    }
}

impl Outgoing {
    /// Whether the handler may send a notification now: the response is not sent, and a progress value is larger than the
    /// last.
    fn admits(&self, progress: Option<f64>) -> bool {
        let is_stale = progress.is_some_and(|new| self.last_progress.is_some_and(|last| new <= last));
        !self.finished && !is_stale
    }

    /// Records the progress value of a sent notification.
    fn record(&mut self, progress: Option<f64>) {
        self.last_progress = progress.or(self.last_progress);
    }
}
