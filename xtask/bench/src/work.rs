//! The CPU time of this process with all processes below it, and of other processes.

use std::{
    fs,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use crate::{
    busy::{busy, ticks},
    cpu,
    load::since,
};

/// The steps of the wait for the end of late work. A step with at most one tick of the clock of CPU times has no late work.
const SETTLE_STEP: Duration = Duration::from_millis(100);
const SETTLE_STEPS: usize = 100;

/// The ids of this process and of all processes below it. Empty without `/proc`.
pub(crate) fn family() -> Vec<u32> {
    family_of(std::process::id(), processes()).iter().map(|process| process.id).collect()
}

/// The user and system time of this process, of all processes below it, and of those that have ended. `None` without `/proc`.
fn used() -> Option<Duration> {
    let family = family_of(std::process::id(), processes());
    (!family.is_empty()).then(|| family.iter().map(|process| process.used).sum())
}

/// Waits until the processes have finished their late work, such as the answers of a round before. Returns false if the work does not
/// end in time.
pub(crate) async fn settle() -> bool {
    for _ in 0..SETTLE_STEPS {
        let before = used();
        sleep(SETTLE_STEP).await;
        if since(before, used()).is_none_or(is_idle) {
            return true;
        }
    }
    false
}

/// Whether a process has no late work, from the CPU time of a step.
fn is_idle(used: Duration) -> bool {
    used <= ticks(1)
}

/// A reading of the CPU times of the system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    at: Instant,
    /// The time that all cores were busy.
    busy: Duration,
    /// The time of this process and of all processes below it.
    own: Duration,
}

impl Reading {
    /// Reads the times. `None` without `/proc`.
    pub(crate) fn now() -> Option<Self> {
        let busy = busy(&fs::read_to_string("/proc/stat").ok()?)?;
        Some(Self { at: Instant::now(), busy, own: used()? })
    }

    /// The number of cores that other processes, the system and other machines used between two readings.
    fn others(self, after: Self) -> f64 {
        let others = (after.busy.saturating_sub(self.busy)).saturating_sub(after.own.saturating_sub(self.own));
        others.as_secs_f64() / (after.at - self.at).as_secs_f64().max(1e-9)
    }
}

/// The number of cores that other work used since a reading.
pub(crate) fn others_since(before: Option<Reading>) -> Option<f64> {
    Some(before?.others(Reading::now()?))
}

/// A process of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    id: u32,
    parent: u32,
    /// Its time, and the time of its child processes that have ended.
    used: Duration,
}

impl Process {
    /// Reads a process from its `stat` file.
    fn parse(id: u32, stat: &str) -> Option<Self> {
        let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        Some(Self { id, parent, used: cpu::parse(stat, true)? })
    }
}

/// All processes of the system.
fn processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter_map(|id| Process::parse(id, &fs::read_to_string(format!("/proc/{id}/stat")).ok()?)).collect()
}

/// The process `root` and all processes below it.
fn family_of(root: u32, mut others: Vec<Process>) -> Vec<Process> {
    let mut family: Vec<Process> = others.extract_if(.., |process| process.id == root).collect();
    let mut next = 0;
    while let Some(parent) = family.get(next).map(|process| process.id) {
        family.extend(others.extract_if(.., |process| process.parent == parent));
        next += 1;
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_the_time_of_its_ended_children() {
        let stat =
            "42 (a) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 150 75 30 45 20 0 1 0 12345 1000 10 18446744073709551615";
        assert_eq!(Process::parse(42, stat), Some(Process { id: 42, parent: 7, used: Duration::from_secs(3) }));
        for wrong in ["", "42 (a) S 7", "42 (a) S x 42 42 0 -1 0 0 0 0 0 1 1 1 1"] {
            assert_eq!(Process::parse(42, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_family_has_all_processes_below_its_root() {
        let parents = [(1, 0), (5, 2), (2, 1), (3, 1), (4, 5), (6, 3), (7, 4)];
        for (root, expected) in
            [(2, &[2_u32, 4, 5, 7] as &[u32]), (1, &[1, 2, 3, 4, 5, 6, 7]), (3, &[3, 6]), (6, &[6]), (9, &[])]
        {
            let processes = parents.map(|(id, parent)| Process { id, parent, used: Duration::ZERO }).to_vec();
            let mut family: Vec<u32> = family_of(root, processes).iter().map(|process| process.id).collect();
            family.sort_unstable();
            assert_eq!(family, expected, "{root}");
        }
    }

    #[test]
    fn other_work_is_the_busy_time_without_the_own_time() {
        let at = Instant::now();
        let reading = |millis, busy, own| Reading {
            at: at + Duration::from_millis(millis),
            busy: Duration::from_millis(busy),
            own: Duration::from_millis(own),
        };
        let before = reading(0, 10_000, 4_000);
        for (after, others) in [
            (reading(2_000, 10_000, 4_000), 0.0),
            (reading(2_000, 13_000, 7_000), 0.0),
            (reading(2_000, 13_500, 7_000), 0.25),
            (reading(1_000, 12_000, 4_000), 2.0),
            // The clocks of both times have ticks.
            (reading(2_000, 11_990, 6_000), 0.0),
        ] {
            assert!((before.others(after) - others).abs() < 1e-9, "{after:?}");
        }
    }

    #[test]
    fn late_work_uses_more_than_a_tick() {
        for (millis, expected) in [(0, true), (10, true), (20, false), (25, false)] {
            assert_eq!(is_idle(Duration::from_millis(millis)), expected, "{millis}");
        }
    }

    #[test]
    fn this_process_is_in_its_family() {
        let is_known = fs::exists("/proc/self/stat").unwrap();
        assert_eq!((family().contains(&std::process::id()), used().is_some()), (is_known, is_known));
    }
}
