//! The shutdown of a server or the end of a connection: its signal, its cause and the deadline of its grace period.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use mcp_protocol::RpcError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The reason why calls end before they finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The application or a signal shut the server down.
    ServerShutdown,
    /// The client closed its end of the connection.
    ClientClosed,
    /// Reading from the connection failed.
    ConnectionFailed,
}

impl Cause {
    /// Returns the error of a call that runs longer than the grace period.
    pub(crate) fn error(self) -> RpcError {
        RpcError::internal(match self {
            Self::ServerShutdown => "the server was shut down",
            Self::ClientClosed => "the client closed its input before the call finished",
            Self::ConnectionFailed => "the connection failed before the call finished",
        })
    }
}

/// The shutdown of a server, or the end of one of its connections.
#[derive(Debug, Clone)]
pub(crate) struct Shutdown {
    token: CancellationToken,
    /// The first entry is the shutdown of this connection or server, the second of the server.
    begun: [Arc<OnceLock<(Instant, Cause)>>; 2],
}

impl Shutdown {
    /// Creates the shutdown of a server.
    pub(crate) fn of_server() -> Self {
        let begun = Arc::default();
        Self { token: CancellationToken::new(), begun: [Arc::clone(&begun), begun] }
    }

    /// Creates the end of a connection, which also begins with the shutdown of the server.
    ///
    /// It has a token of its own, so that connections do not share one lock for every message.
    pub(crate) fn of_connection(&self) -> Self {
        let [_, server] = &self.begun;
        Self { token: self.token.child_token(), begun: [Arc::default(), server.clone()] }
    }

    /// Begins the shutdown, unless it began already.
    pub(crate) fn begin(&self, cause: Cause) {
        if !self.token.is_cancelled() {
            self.begun[0].get_or_init(|| (Instant::now(), cause));
            self.token.cancel();
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until the shutdown begins.
    pub(crate) async fn wait(&self) {
        self.token.cancelled().await;
    }

    /// Returns the token that is cancelled when the shutdown begins.
    pub(crate) fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Waits until the grace period is over, counted from the beginning of the shutdown. Returns the cause.
    pub(crate) async fn is_over(&self, grace_period: Duration) -> Cause {
        self.token.cancelled().await;
        let begun = self.begun.iter().filter_map(|begun| begun.get()).min_by_key(|(at, _)| *at);
        let (at, cause) = begun.copied().unwrap_or_else(|| (Instant::now(), Cause::ServerShutdown));
        match at.checked_add(grace_period) {
            Some(deadline) => tokio::time::sleep_until(deadline).await,
            // A deadline beyond the range of the clock is no limit.
            None => std::future::pending().await,
        }
        cause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    #[tokio::test(start_paused = true)]
    async fn the_grace_period_counts_from_the_beginning_and_names_the_first_cause() {
        let start = Instant::now();
        let server = Shutdown::of_server();
        let closed = server.of_connection();
        let open = server.of_connection();
        closed.begin(Cause::ClientClosed);
        assert!(!server.has_begun() && !open.has_begun());
        tokio::time::advance(Duration::from_secs(4)).await;
        server.begin(Cause::ServerShutdown);
        open.begin(Cause::ClientClosed);
        assert_eq!(closed.is_over(GRACE).await, Cause::ClientClosed);
        assert_eq!(start.elapsed(), GRACE);
        for shutdown in [open, server] {
            assert_eq!(shutdown.is_over(GRACE).await, Cause::ServerShutdown);
            assert_eq!(start.elapsed(), GRACE + Duration::from_secs(4));
        }
    }
}
