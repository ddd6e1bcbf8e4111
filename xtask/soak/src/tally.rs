//! The checks of a run: their counts, their faults and their table.

use std::{
    collections::BTreeMap,
    fmt,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// The faults of a check that are printed.
const PRINTED: u64 = 10;

/// A promise that the run checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    Events,
    Logs,
    Ends,
    Answers,
    Undisturbed,
    Changes,
    Recovery,
    Exits,
    Canary,
    Files,
    Tasks,
    Memory,
}

impl Check {
    const ALL: [Self; 12] = [
        Self::Events,
        Self::Logs,
        Self::Ends,
        Self::Answers,
        Self::Undisturbed,
        Self::Changes,
        Self::Recovery,
        Self::Exits,
        Self::Canary,
        Self::Files,
        Self::Tasks,
        Self::Memory,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Logs => "logs",
            Self::Ends => "ends",
            Self::Answers => "answers",
            Self::Undisturbed => "undisturbed",
            Self::Changes => "changes",
            Self::Recovery => "recovery",
            Self::Exits => "exits",
            Self::Canary => "canary",
            Self::Files => "files",
            Self::Tasks => "tasks",
            Self::Memory => "memory",
        }
    }

    /// The promise, and the unit of the count.
    fn promise(self) -> &'static str {
        match self {
            Self::Events => "each event of a call arrives once and in order",
            Self::Logs => "each log record of a session arrives once, or the client reports the loss",
            Self::Ends => "each call ends within its time limit",
            Self::Answers => "each answer belongs to its request and is complete",
            Self::Undisturbed => "each call over an undisturbed connection succeeds",
            Self::Changes => "a subscriber receives each change, or the report of a loss",
            Self::Recovery => "calls succeed again within 30 s after a kill",
            Self::Exits => "a process ends within its time limit after its client vanished, or after SIGTERM",
            Self::Canary => "an undisturbed echo returns within 250 ms (1 s in a run of less than 2 minutes)",
            Self::Files => "the open files return to their start",
            Self::Tasks => "the tasks and the running handlers return to their start",
            Self::Memory => "the memory does not grow, and returns after the load",
        }
    }
}

/// The counts of the faults that the run causes.
#[derive(Debug, Default)]
pub(crate) struct Caused {
    pub(crate) cuts: AtomicU64,
    pub(crate) kills: AtomicU64,
    pub(crate) vanished: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) cancelled: AtomicU64,
}

#[derive(Debug, Default)]
struct Line {
    count: AtomicU64,
    faults: AtomicU64,
}

/// The counts of a run.
pub(crate) struct Tally {
    start: Instant,
    lines: [Line; Check::ALL.len()],
    details: Mutex<Vec<(Check, String)>>,
    pub(crate) caused: Caused,
    /// The calls that run now.
    pub(crate) open: AtomicU64,
    /// The calls that failed over disturbed connections.
    pub(crate) failed: AtomicU64,
    /// Their numbers by the kind of the error.
    kinds: Mutex<BTreeMap<String, u64>>,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            lines: Default::default(),
            details: Mutex::default(),
            caused: Caused::default(),
            open: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            kinds: Mutex::default(),
        }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Counts observations that keep the promise.
    pub(crate) fn add(&self, check: Check, count: u64) {
        self.lines[check as usize].count.fetch_add(count, Relaxed);
    }

    /// Counts a fault, and prints the first ones.
    pub(crate) fn fault(&self, check: Check, text: impl fmt::Display) {
        self.add(check, 1);
        let earlier = self.lines[check as usize].faults.fetch_add(1, Relaxed);
        if earlier < PRINTED {
            println!("  FAULT at {:.1} s, {}: {text}", self.elapsed().as_secs_f64(), check.name());
        }
    }

    /// Counts an observation as kept or as a fault.
    pub(crate) fn judge(&self, check: Check, outcome: Result<(), impl fmt::Display>) {
        match outcome {
            Ok(()) => self.add(check, 1),
            Err(error) => self.fault(check, error),
        }
    }

    /// Counts a call that failed over a disturbed connection, by the kind of its error.
    pub(crate) fn failed(&self, kind: impl fmt::Display) {
        self.failed.fetch_add(1, Relaxed);
        *self.kinds.lock().entry(kind.to_string()).or_default() += 1;
    }

    /// Adds a line to the report of a check.
    pub(crate) fn detail(&self, check: Check, text: String) {
        self.details.lock().push((check, text));
    }

    pub(crate) fn count(&self, check: Check) -> u64 {
        self.lines[check as usize].count.load(Relaxed)
    }

    /// The number of all faults.
    pub(crate) fn faults(&self) -> u64 {
        self.lines.iter().map(|line| line.faults.load(Relaxed)).sum()
    }

    /// The line of the state.
    pub(crate) fn state(&self) -> String {
        let (caused, load) = (&self.caused, |counter: &AtomicU64| counter.load(Relaxed));
        format!(
            "{} calls, {} open, {} failed; {} events; {} cuts, {} kills, {} vanished, {} slow, {} cancelled; {} faults",
            self.count(Check::Ends),
            load(&self.open),
            load(&self.failed),
            self.count(Check::Events),
            load(&caused.cuts),
            load(&caused.kills),
            load(&caused.vanished),
            load(&caused.slow),
            load(&caused.cancelled),
            self.faults(),
        )
    }

    /// The table of the report.
    pub(crate) fn table(&self) -> String {
        let mut table = format!("{:<12} {:>10} {:>7} {:<8} promise\n", "check", "count", "faults", "verdict");
        for check in Check::ALL {
            let line = &self.lines[check as usize];
            let (count, faults) = (line.count.load(Relaxed), line.faults.load(Relaxed));
            let verdict = match (faults, count) {
                (0, 0) => "none",
                (0, _) => "ok",
                _ => "FAILED",
            };
            table += &format!("{:<12} {count:>10} {faults:>7} {verdict:<8} {}\n", check.name(), check.promise());
            for (_, detail) in self.details.lock().iter().filter(|(of, _)| *of == check) {
                table += &format!("{:<12} {detail}\n", "");
            }
        }
        let (failed, calls) = (self.failed.load(Relaxed), self.count(Check::Ends));
        table += &format!(
            "\n{failed} of {calls} calls, connects and closes failed over disturbed connections, which is not a fault:\n"
        );
        for (kind, count) in &*self.kinds.lock() {
            table += &format!("{count:>23} {kind}\n");
        }
        table
    }

    /// The names of the checks that failed. In a run of the whole load, a check without an observation has failed too.
    pub(crate) fn failures(&self, is_whole: bool) -> Vec<&'static str> {
        let is_failed = |line: &Line| line.faults.load(Relaxed) > 0 || (is_whole && line.count.load(Relaxed) == 0);
        Check::ALL.into_iter().filter(|check| is_failed(&self.lines[*check as usize])).map(Check::name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_with_a_fault_or_without_an_observation_has_failed() {
        let tally = Tally::new();
        for check in Check::ALL {
            if check != Check::Logs {
                tally.add(check, 1);
            }
        }
        tally.fault(Check::Events, "the event 2 is missing");
        assert_eq!(tally.failures(true), ["events", "logs"]);
        assert_eq!(tally.failures(false), ["events"]);
        assert_eq!((tally.count(Check::Events), tally.faults()), (2, 1));
    }

    #[test]
    fn the_report_counts_failed_calls_by_the_kinds_of_their_errors() {
        let tally = Tally::new();
        tally.add(Check::Ends, 5);
        for kind in ["timed out", "closed", "timed out"] {
            tally.failed(kind);
        }
        let table = tally.table();
        let (_, kinds) = table.split_once("3 of 5 calls, connects and closes failed").unwrap();
        let lines: Vec<&str> = kinds.lines().skip(1).map(str::trim).collect();
        assert_eq!(lines, ["1 closed", "2 timed out"]);
    }
}
