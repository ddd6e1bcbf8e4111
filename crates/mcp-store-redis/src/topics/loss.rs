//! The ends of the connection for topics, and their log records.

use std::time::Duration;

use tokio::time::Instant;

/// The interval of log records while the connection is lost repeatedly.
const NEWS: Duration = Duration::from_secs(30);

/// The reason why a connection is not in use any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The store is closed.
    Closed,
    /// The connection for commands was replaced.
    Replaced,
    /// The connection is lost.
    Lost(&'static str),
    /// Redis rejected a subscription.
    Rejected(String),
}

/// The log records about a lost connection: the first loss, one record in each interval, and the end.
#[derive(Debug, Default)]
pub(super) struct Loss {
    is_lost: bool,
    logged: Option<Instant>,
}

impl Loss {
    /// Records a loss that needs no record in the log.
    pub(super) fn begin_quietly(&mut self) {
        self.is_lost = true;
    }

    /// Records a loss. Returns whether the log needs a record of it.
    pub(super) fn begin(&mut self) -> bool {
        self.is_lost = true;
        let now = Instant::now();
        let is_news = self.logged.is_none_or(|logged| now >= logged + NEWS);
        if is_news {
            self.logged = Some(now);
        }
        is_news
    }

    /// Records that all topics are subscribed. Returns whether the connection was lost before.
    pub(super) fn end(&mut self) -> bool {
        self.logged = None;
        std::mem::take(&mut self.is_lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_repeated_loss_is_logged_once_in_thirty_seconds() {
        let (mut loss, mut logged) = (Loss::default(), 0);
        for _ in 0..240 {
            logged += usize::from(loss.begin());
            tokio::time::advance(Duration::from_millis(250)).await;
        }
        assert_eq!((logged, loss.end(), loss.end()), (2, true, false));
        assert!(loss.begin(), "the first loss after a connection");
    }
}
