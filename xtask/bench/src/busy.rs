//! The time that the cores of the system were busy. `cargo xtask bench` contains this file too.

use std::time::Duration;

/// Ticks per second on common Linux systems (`USER_HZ`).
const TICKS_PER_SECOND: u64 = 100;

/// The time of a number of ticks.
pub(crate) fn ticks(count: u64) -> Duration {
    Duration::from_millis(count * 1000 / TICKS_PER_SECOND)
}

/// The time that all cores were busy, from the first line of `/proc/stat`. Its columns are user, nice, system, idle, the wait for
/// disks, interrupts of two kinds, and the time that the machine gave to other machines.
pub(crate) fn busy(stat: &str) -> Option<Duration> {
    let columns = stat.lines().next()?.strip_prefix("cpu ")?;
    let columns: Vec<u64> = columns.split_whitespace().map_while(|column| column.parse().ok()).collect();
    let idle: u64 = columns.get(3..5)?.iter().sum();
    Some(ticks(columns.get(..8)?.iter().sum::<u64>() - idle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_cores_have_no_idle_time_and_no_waits() {
        let stat = "cpu  100 20 30 9000 800 4 5 6 70 80\ncpu0 50 10 15 4500 400 2 2 3 0 0\n";
        assert_eq!(busy(stat), Some(Duration::from_millis(1_650)));
        for wrong in ["", "cpu 1 2 3 4 5 6 7", "intr 1 2 3 4 5 6 7 8"] {
            assert_eq!(busy(wrong), None, "{wrong}");
        }
    }
}
