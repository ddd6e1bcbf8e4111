//! The current time in the form of the wire.

use std::time::{SystemTime, UNIX_EPOCH};

use mcp_protocol::timestamp;

/// Returns the current time as an ISO 8601 date and time in UTC, in milliseconds.
pub(super) fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    timestamp::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
