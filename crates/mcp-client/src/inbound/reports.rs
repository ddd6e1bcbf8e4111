//! The progress of an answer to a request of the server: at most one report waits, the newest.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use mcp_protocol::{
    NotificationMethod, ProgressParams, ProgressToken, ProtocolVersion, Shape, jsonrpc, notification::Progress,
};
use mcp_transport::TrySendError;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{sleep, timeout},
};

use crate::connection::Connection;

/// The shortest time between two reports. Calls of other users can share the queue of the connection.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long an answer waits until its last report is sent.
const LAST: Duration = Duration::from_secs(1);

/// The reports of a handler. The future of the answer sends them.
pub(crate) struct Reports {
    token: ProgressToken,
    connection: Weak<Connection>,
    newest: Mutex<Option<ProgressParams>>,
    added: Notify,
}

impl Reports {
    pub(super) fn new(token: ProgressToken, connection: &Arc<Connection>) -> Arc<Self> {
        let connection = Arc::downgrade(connection);
        Arc::new(Self { token, connection, newest: Mutex::default(), added: Notify::new() })
    }

    /// Adds a report in the place of the report that waits.
    pub(super) fn add(&self, mut report: ProgressParams, version: ProtocolVersion) {
        report.progress_token = self.token.clone();
        report.shape(version);
        let former = self.newest.lock().replace(report);
        if let Some(former) = former {
            tracing::trace!(progress = former.progress, "a newer report of progress replaced a report that waited");
        }
        self.added.notify_one();
    }

    /// Sends the reports of a future until it ends, and then the last report.
    pub(super) async fn beside<T>(&self, answered: impl Future<Output = T>) -> T {
        let sending = async {
            loop {
                self.added.notified().await;
                self.send_newest().await;
                sleep(INTERVAL).await;
            }
        };
        let answer = tokio::select! {
            biased;
            answer = answered => answer,
            never = sending => never,
        };
        if timeout(LAST, self.send_newest()).await.is_err() {
            tracing::debug!("the last report of progress was dropped: the server does not read");
        }
        answer
    }

    /// Sends the newest report when the transport has capacity. Cancel safe: the report waits until it is sent.
    async fn send_newest(&self) {
        loop {
            let Some(connection) = self.connection.upgrade() else { return };
            let Some(len) = self.try_send_newest(&connection) else { return };
            if connection.sender.ready(len).await.is_err() {
                return;
            }
        }
    }

    /// Sends the newest report. Returns its length if the transport has no capacity for it.
    fn try_send_newest(&self, connection: &Connection) -> Option<usize> {
        let mut newest = self.newest.lock();
        let message = jsonrpc::notification(Progress::NAME, newest.as_ref()?).ok()?;
        let len = message.len();
        match connection.sender.try_send(connection.notice(Progress::NAME, message)) {
            Err(TrySendError::Full(_)) => return Some(len),
            Ok(()) => {}
            Err(_) => tracing::debug!("a report of progress was not sent"),
        }
        *newest = None;
        None
    }
}
