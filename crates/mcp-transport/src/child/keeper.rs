//! The task that owns the process: it waits for its end, or brings it about.

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

/// How often a group is looked at whose leader has ended.
const LOOK: Duration = Duration::from_millis(20);
/// How long the last lines are waited for: a grandchild may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// How long a process that was killed has to be gone, at least.
const AFTER_KILL: Duration = Duration::from_secs(1);

/// How long the end of a process takes at most: by itself, by SIGTERM, by SIGKILL, and then of what it left behind.
pub(super) fn longest(end_within: Duration) -> Duration {
    let of_leader = end_within.saturating_mul(2).saturating_add(end_within.max(AFTER_KILL));
    // A second for a machine that has much to do.
    of_leader.saturating_add(LAST_WORDS).saturating_add(end_within).saturating_add(Duration::from_secs(1))
}

/// Owns the process until it has ended and nothing of its group is left.
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
        // What it wrote last is read before anybody is told, and before what it left behind is ended.
        let _ = timeout(LAST_WORDS, &mut self.stderr).await;
        self.stderr.abort();
        if let Err(error) = &status {
            tracing::warn!(%error, "waiting for a server process failed");
        }
        // The first is told at once; whoever waits for the end of everything waits until this sender is dropped.
        self.ended.send_replace(Some(Exit { status: status.ok(), last_lines: self.last.take().into() }));
        if self.group.lingers() {
            self.group.terminate();
            // An elapsed time is what the kill below is for.
            let _ = timeout(self.end_within, gone(&self.group)).await;
            self.group.kill();
        }
    }

    /// Its input is closed: waits, asks, forces.
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
        // A process that was killed ends, unless the system itself is stuck with it.
        timeout(self.end_within.max(AFTER_KILL), self.group.wait())
            .await
            .unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "the killed process does not end")))
    }
}

/// Resolves when the process is asked to end, or nobody is left who could ask for anything.
async fn unwanted(wanted: &mut watch::Receiver<Wanted>) {
    // An error says that the transport and its senders are gone.
    let _ = wanted.wait_for(|wanted| *wanted == Wanted::Not).await;
}

async fn gone(group: &Group) {
    while group.lingers() {
        sleep(LOOK).await;
    }
}
