//! Tasks: calls that outlive their answer, in the dialect of 2025-11-25 and in that of the extension
//! `io.modelcontextprotocol/tasks` for 2026-07-28. One table holds them all; the dialects are two ways to show them.

mod drive;
mod id;
mod owner;
mod policy;
mod record;
mod result_waiters;
mod running;
mod table;
mod timestamp;
mod upgrade;

use std::time::Duration;

pub use self::policy::TaskPolicy;
#[cfg(feature = "fs")]
pub(crate) use self::timestamp::timestamp;
pub(crate) use self::{
    drive::Driver,
    id::is_id,
    owner::Owner,
    policy::{Plan, ToolTasks, required, undeclared},
    record::{Outcome, Record},
    running::{RunningTask, TaskListener},
    table::{Cancelled, Found, TaskTable, Wanted},
    upgrade::{Decided, TaskUpgrade},
};

/// No task lives longer, whatever the limits say: the end of time is not far behind it.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// What bounds tasks. No time may be zero; no room is no tasks.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TaskLimits {
    /// How long a task lives from its creation, running or ended, where nobody says otherwise. Default 5 minutes.
    pub ttl: Duration,
    /// The longest that anybody can ask for; more is cut. Default 1 hour.
    pub max_ttl: Duration,
    /// How long clients are told to wait between two looks. Default 1 second.
    pub poll_interval: Duration,
    /// Tasks that one caller may have on this node, ended ones included until they expire. Default 1,000.
    pub per_principal: usize,
    /// Tasks of all callers that nobody authenticated. Default 10,000.
    pub unauthenticated: usize,
    /// Bytes of JSON that all tasks of this node may have come to until they expire. A task whose result finds no room
    /// fails with an error that says so; 512 bytes find it always. Default 64 MiB.
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
    /// How long a task lives for which somebody asks for `ttl`.
    pub(crate) fn clamped(&self, ttl: Option<Duration>) -> Duration {
        ttl.unwrap_or(self.ttl).min(self.max_ttl).clamp(Duration::from_millis(1), LONGEST)
    }
}
