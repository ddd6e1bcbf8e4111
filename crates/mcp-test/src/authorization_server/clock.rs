//! Times in records and tokens: seconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the seconds since 1970. A time before 1970 is 0.
pub(super) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the time after a duration, in seconds since 1970.
pub(super) fn after(now: SystemTime, lifetime: Duration) -> u64 {
    seconds(now).saturating_add(lifetime.as_secs())
}
