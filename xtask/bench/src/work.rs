//! The CPU time of this process and of all processes below it.

use std::{fs, time::Duration};

use tokio::time::sleep;

use crate::{cpu, load::since};

/// The steps of the wait for the end of late work.
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

/// Waits until the processes have finished their late work, such as the answers of a round before.
pub(crate) async fn settle() {
    for _ in 0..SETTLE_STEPS {
        let before = used();
        sleep(SETTLE_STEP).await;
        if since(before, used()).is_none_or(|used| used < SETTLE_STEP / 4) {
            return;
        }
    }
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
    fn this_process_is_in_its_family() {
        let is_known = fs::exists("/proc/self/stat").unwrap();
        assert_eq!((family().contains(&std::process::id()), used().is_some()), (is_known, is_known));
    }
}
