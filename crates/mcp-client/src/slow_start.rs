//! Reports of servers that do not answer soon after their connection was opened.

use std::{fmt, sync::Arc, time::Duration};

use mcp_protocol::{Excerpt, Rounded};

/// A server that has not answered since its connection was opened ([`ClientBuilder::on_slow_start`](crate::ClientBuilder::on_slow_start)).
///
/// # Example
/// ```
/// use std::time::Duration;
///
/// use mcp_client::{Client, SlowStart};
///
/// let builder = Client::builder("my-app", "1.0").on_slow_start(Duration::from_secs(5), |slow: &SlowStart| {
///     eprintln!("{} is silent for {:?}", slow.peer(), slow.waited());
///     for line in slow.stderr() {
///         eprintln!("{line}");
///     }
/// });
/// ```
#[derive(Debug, Clone)]
pub struct SlowStart {
    peer: Arc<str>,
    waited: Duration,
    stderr: Arc<[String]>,
}

impl SlowStart {
    pub(crate) fn new(peer: &str, waited: Duration, stderr: Vec<String>) -> Self {
        Self { peer: peer.into(), waited, stderr: stderr.into() }
    }

    /// Returns the description of the server: its URL or its program.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Returns the time since the client began to open the connection.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Returns the last lines that a child process wrote to its standard error, oldest first. Empty for other servers.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn stderr(&self) -> &[String] {
        &self.stderr
    }

    /// Writes the lines of the standard error, escaped and shortened.
    pub(crate) fn write_stderr(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.stderr.iter().enumerate() {
            f.write_str(if index == 0 { "; its standard error ends with:\n  " } else { "\n  " })?;
            write!(f, "{}", Excerpt::new(line))?;
        }
        Ok(())
    }
}

impl fmt::Display for SlowStart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has not answered for {}: it is still starting", self.peer, Rounded(self.waited))?;
        self.write_stderr(f)
    }
}

/// Calls a function with a [`SlowStart`] when a server does not answer within a time.
#[derive(Clone)]
pub(crate) struct SlowStartReport {
    pub(crate) after: Duration,
    pub(crate) report: Arc<dyn Fn(&SlowStart) + Send + Sync>,
}
