//! The task that owns the process, and waits for its end or forces it.

use std::{io, process::ExitStatus, time::Duration};

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    group::Group,
    stderr::LastLines,
    transport::{Exit, Wanted},
};

/// How often the keeper checks a group whose leader has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long the keeper waits for the last lines: a grandchild may keep the pipe open.
const STDERR_GRACE: Duration = Duration::from_millis(200);

/// The minimum time for a killed process to end.
const AFTER_KILL: Duration = Duration::from_secs(1);

/// The maximum time that ending a process takes: closed input, SIGTERM, SIGKILL, and then the rest of its group.
pub(super) fn longest(end_within: Duration) -> Duration {
    let of_leader = end_within.saturating_mul(2).saturating_add(end_within.max(AFTER_KILL));
    // One second more for a busy machine.
    of_leader.saturating_add(STDERR_GRACE).saturating_add(end_within).saturating_add(Duration::from_secs(1))
}

/// Owns the process until the whole group has ended.
pub(super) struct Keeper {
    pub(super) group: Group,
    pub(super) wanted: watch::Receiver<Wanted>,
    pub(super) ended: watch::Sender<Option<Exit>>,
    pub(super) stderr: JoinHandle<()>,
    pub(super) last: LastLines,
    pub(super) end_within: Duration,
}

impl Keeper {
    pub(super) async fn run(mut self) {
        let by_itself = tokio::select! {
            status = self.group.wait() => Some(status),
            () = unwanted(&mut self.wanted) => None,
        };
        let status = match by_itself {
            Some(status) => status,
            None => self.end().await,
        };
        // The last lines are read before the end is reported, and before the rest of the group is killed.
        let _ = timeout(STDERR_GRACE, &mut self.stderr).await;
        self.stderr.abort();
        if let Err(error) = &status {
            tracing::warn!(%error, "waiting for a server process failed");
        }
        // The first send reports the end of the process. The end of the group is reported when this sender is
        // dropped.
        self.ended.send_replace(Some(Exit { status: status.ok(), last_lines: self.last.lines().into() }));
        if self.group.has_processes() {
            self.group.terminate();
            // After the timeout the kill below ends the group.
            let _ = timeout(self.end_within, gone(&self.group)).await;
            self.group.kill();
        }
    }

    /// The input of the process is closed: waits, then sends SIGTERM, then kills.
    async fn end(&mut self) -> io::Result<ExitStatus> {
        if let Ok(status) = timeout(self.end_within, self.group.wait()).await {
            return status;
        }
        self.group.terminate();
        if let Ok(status) = timeout(self.end_within, self.group.wait()).await {
            return status;
        }
        tracing::debug!("a server process is killed: it ended neither with its input nor by SIGTERM");
        self.group.kill();
        // A killed process ends, unless it is blocked in the kernel.
        timeout(self.end_within.max(AFTER_KILL), self.group.wait())
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the killed process does not end")))
    }
}

/// Completes when the process is asked to end, or when the transport and its senders are dropped.
async fn unwanted(wanted: &mut watch::Receiver<Wanted>) {
    // An error means that the transport and its senders are dropped.
    let _ = wanted.wait_for(|wanted| *wanted == Wanted::Not).await;
}

async fn gone(group: &Group) {
    while group.has_processes() {
        sleep(LOOK).await;
    }
}
