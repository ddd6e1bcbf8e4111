//! Tasks: calls whose result the client fetches later.
//!
//! One table holds the tasks of both dialects: 2025-11-25, and the extension `io.modelcontextprotocol/tasks` for
//! 2026-07-28.

mod drive;
mod elsewhere;
mod id;
#[cfg(test)]
mod models;
mod offers;
mod owner;
mod policy;
mod polls;
mod record;
mod result_waiters;
mod running;
#[cfg(test)]
mod schedules;
#[cfg(test)]
mod stress;
pub(crate) mod sync;
mod table;
mod timestamp;
mod upgrade;

use std::time::Duration;

pub use self::policy::TaskPolicy;
pub(crate) use self::{
    drive::Driver,
    elsewhere::{CancelOutcome, StoredTask},
    id::is_id,
    offers::OfferAnswer,
    owner::Owner,
    policy::{Plan, ToolTasks, required, undeclared},
    record::{Record, TaskOutcome},
    running::{RunningTask, TaskListener},
    table::{Found, TaskSpec, TaskTable, not_created},
    upgrade::{Decided, TaskUpgrade},
};

/// The longest lifetime of a task, which keeps deadlines within the range of the clock.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// The limits of tasks. No duration may be zero. A count of zero disables tasks.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_server_core::Server;
///
/// let builder = Server::builder("jobs", "1.0").limits(|limits| limits.tasks.ttl = Duration::from_secs(60));
/// let server = builder.build();
/// assert_eq!(server.limits().tasks.ttl, Duration::from_secs(60));
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskLimits {
    /// The lifetime of a task from its creation, when the client requests none. Default 5 minutes.
    pub ttl: Duration,
    /// The longest lifetime that a client can request. A longer one is reduced to it. Default 1 hour.
    pub max_ttl: Duration,
    /// The interval at which clients should poll a task. Default 1 second.
    pub poll_interval: Duration,
    /// The most tasks of one caller on this node, ended tasks included until they expire. Default 1,000.
    pub per_principal: usize,
    /// The most tasks of all callers without a principal. Default 10,000.
    pub unauthenticated: usize,
    /// The most bytes of JSON that the outcomes of all tasks on this node may use until they expire.
    ///
    /// A task whose outcome exceeds the rest of this budget fails. Outcomes up to 512 bytes are always stored. Default
    /// 64 MiB.
    pub result_bytes: usize,
}

impl Default for TaskLimits {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(300),
            max_ttl: Duration::from_secs(3600),
            poll_interval: Duration::from_secs(1),
            per_principal: 1000,
            unauthenticated: 10_000,
            result_bytes: 64 << 20,
        }
    }
}

impl TaskLimits {
    /// Returns the lifetime of a task for a requested `ttl`.
    pub(crate) fn clamped(&self, ttl: Option<Duration>) -> Duration {
        ttl.unwrap_or(self.ttl).min(self.max_ttl).clamp(Duration::from_millis(1), LONGEST)
    }
}
