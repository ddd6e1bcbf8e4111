//! The changes of lists that a server reports.

use std::{future::pending, time::Duration};

use mcp_client::{Client, Error, Subscription, Update, transport::BoxFuture};
use tokio::time::{Instant, sleep_until, timeout};

use super::{Lists, back_off::doubled, runner::until};

/// How long the first reading of the lists waits for the acknowledgement of a subscription.
const FIRST_ACKNOWLEDGEMENT: Duration = Duration::from_secs(1);
/// How long a server may take to acknowledge a subscription. Another attempt follows.
const ACKNOWLEDGEMENT: Duration = Duration::from_secs(30);
/// The waits before the host subscribes again, or reads a failed list again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// The subscription to the changes of the lists of a server. It is renewed after a failure.
pub(super) struct Changes {
    client: Client,
    lists: Lists,
    phase: Phase,
    failures: u32,
    /// The time of the next reading of a list that failed.
    reading: Option<Instant>,
    failed_readings: u32,
}

enum Phase {
    Opening(BoxFuture<'static, Result<Subscription, Failed>>),
    Open(Box<Subscription>),
    /// The next attempt begins at this time.
    Failed(Instant),
    /// The server reports no changes.
    Unsupported,
}

enum Failed {
    Late,
    Error(Error),
}

impl Changes {
    /// Subscribes. Waits for a short time until the server acknowledges the subscription.
    pub(super) async fn open(client: &Client, lists: Lists) -> Self {
        let (client, phase) = (client.clone(), opening(client, lists));
        let mut changes = Self { client, lists, phase, failures: 0, reading: None, failed_readings: 0 };
        if let Phase::Opening(opening) = &mut changes.phase
            && let Ok(opened) = timeout(FIRST_ACKNOWLEDGEMENT, opening).await
        {
            changes.opened(opened);
        }
        changes
    }

    /// Takes the outcome of a reading of the lists. Failed lists are read again later.
    pub(super) fn after_reading(mut self, is_complete: bool) -> Self {
        self.reading = (!is_complete).then(|| Instant::now() + retry_wait(self.failed_readings));
        self.failed_readings = if is_complete { 0 } else { self.failed_readings + 1 };
        self
    }

    /// Waits until the lists must be read: a list has changed, may have changed before the subscription, or could not be read.
    /// Cancel safe.
    pub(super) async fn next(&mut self) {
        let reading = self.reading;
        tokio::select! {
            () = self.changed() => {}
            () = until(reading) => {}
        }
    }

    async fn changed(&mut self) {
        loop {
            match &mut self.phase {
                Phase::Opening(opening) => {
                    let opened = opening.await;
                    self.opened(opened);
                    if matches!(self.phase, Phase::Open(_)) {
                        return;
                    }
                }
                Phase::Open(subscription) => match subscription.next().await {
                    Some(Ok(
                        Update::ToolsChanged | Update::PromptsChanged | Update::ResourcesChanged | Update::Missed,
                    )) => return,
                    Some(Ok(_)) => {}
                    Some(Err(error)) => {
                        tracing::debug!(%error, "the subscription of a server ended");
                        self.failed();
                    }
                    None => self.failed(),
                },
                Phase::Failed(next) => {
                    sleep_until(*next).await;
                    self.phase = opening(&self.client, self.lists);
                }
                Phase::Unsupported => pending().await,
            }
        }
    }

    /// Subscribes again on a new connection, which can lead to another version of the server.
    pub(super) async fn reopen(&mut self) {
        if !matches!(self.phase, Phase::Open(_)) {
            *self = Self {
                reading: self.reading,
                failed_readings: self.failed_readings,
                ..Self::open(&self.client, self.lists).await
            };
        }
    }

    fn opened(&mut self, opened: Result<Subscription, Failed>) {
        match opened {
            Ok(subscription) => {
                self.failures = 0;
                self.phase = Phase::Open(Box::new(subscription));
            }
            Err(Failed::Error(error)) if error.is_unsupported() => {
                tracing::debug!(%error, "the server reports no changes of lists");
                self.phase = Phase::Unsupported;
            }
            Err(Failed::Error(error)) => {
                tracing::debug!(%error, "the subscription of a server failed");
                self.failed();
            }
            Err(Failed::Late) => self.failed(),
        }
    }

    fn failed(&mut self) {
        self.phase = Phase::Failed(Instant::now() + retry_wait(self.failures));
        self.failures += 1;
    }
}

/// Returns the wait before another attempt after this number of failures.
fn retry_wait(failures: u32) -> Duration {
    doubled(FIRST_RETRY, failures).min(LONGEST_RETRY)
}

fn opening(client: &Client, lists: Lists) -> Phase {
    let Some(filter) = lists.changes() else { return Phase::Unsupported };
    let client = client.clone();
    Phase::Opening(Box::pin(async move {
        let listening = client.listen(filter);
        timeout(ACKNOWLEDGEMENT, listening).await.map_err(|_| Failed::Late)?.map_err(Failed::Error)
    }))
}
