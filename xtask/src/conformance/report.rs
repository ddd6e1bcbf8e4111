//! The table that a conformance run prints, and its total.

use std::{fmt, time::Duration};

use super::{
    Leg,
    outcome::{Checks, Verdict},
};
use anyhow::Error;

/// The number of printed complaints per scenario.
const COMPLAINTS: usize = 8;

/// One scenario in the table.
pub(super) struct Row {
    label: String,
    checks: Checks,
    verdict: Verdict,
    took: Option<Duration>,
}

impl Row {
    pub(super) fn new(label: String, checks: Checks, verdict: Verdict) -> Self {
        Self { label, checks, verdict, took: None }
    }

    /// A scenario without a result.
    pub(super) fn no_result(label: &str, reason: &str) -> Self {
        Self::new(label.to_owned(), Checks::default(), Verdict::NoResult(reason.to_owned()))
    }

    pub(super) fn labelled(mut self, label: &str) -> Self {
        label.clone_into(&mut self.label);
        self
    }

    pub(super) fn took(mut self, took: Duration) -> Self {
        self.took = Some(took);
        self
    }
}

/// Prints rows incrementally and counts them.
pub(super) struct Report {
    leg: Leg,
    /// The cell of the gateway, which begins each line. Several cells print at the same time.
    cell: &'static str,
    scenarios: usize,
    passed: usize,
    expected: usize,
    stale: usize,
    /// The unexpected results: group, scenario and verdict.
    bad: Vec<String>,
    not_required: usize,
    not_run: usize,
    checks: [usize; 3],
    group: String,
}

impl Report {
    pub(super) fn new(leg: Leg) -> Self {
        Self::of_cell(leg, "")
    }

    /// A report of a part of a run, which [`Report::add`] adds to the whole.
    pub(super) fn of_cell(leg: Leg, cell: &'static str) -> Self {
        Self {
            leg,
            cell,
            scenarios: 0,
            passed: 0,
            expected: 0,
            stale: 0,
            bad: Vec::new(),
            not_required: 0,
            not_run: 0,
            checks: [0; 3],
            group: String::new(),
        }
    }

    /// Adds the counts of a cell.
    pub(super) fn add(&mut self, other: Self) {
        let Self { scenarios, passed, expected, stale, bad, not_required, not_run, checks, .. } = other;
        self.scenarios += scenarios;
        self.passed += passed;
        self.expected += expected;
        self.stale += stale;
        self.bad.extend(bad);
        self.not_required += not_required;
        self.not_run += not_run;
        for (sum, count) in self.checks.iter_mut().zip(checks) {
            *sum += count;
        }
    }

    /// Returns the begin of the line of a scenario.
    fn label(&self, scenario: &str) -> String {
        if self.cell.is_empty() { format!("{scenario:<50}") } else { format!("{:<17}{scenario:<50}", self.cell) }
    }

    /// Begins a part of the table.
    pub(super) fn heading(&mut self, what: fmt::Arguments<'_>) {
        self.group = what.to_string();
        println!("\n{}: {what}", self.leg);
        let scenario = self.label("scenario");
        println!("{scenario} {:>6} {:>6} {:>8} {:>7}  verdict", "passed", "failed", "warnings", "time");
    }

    pub(super) fn row(&mut self, row: Row) {
        let Row { label, checks, verdict, took } = row;
        let word = match &verdict {
            Verdict::Passed => "pass".to_owned(),
            Verdict::Expected(why) => format!("expected failure ({why})"),
            Verdict::Unexpected => "FAIL".to_owned(),
            Verdict::Stale => "STALE: passes, take it off the list of expected failures".to_owned(),
            Verdict::NoResult(reason) => format!("NO RESULT: {reason}"),
            Verdict::NotRequired(missing) => format!("fails, not required yet ({missing})"),
        };
        let took = took.map_or_else(String::new, |took| format!("{:.1} s", took.as_secs_f64()));
        let Checks { passed, failed, warnings, complaints, .. } = checks;
        let begin = self.label(&label);
        println!("{begin} {passed:>6} {failed:>6} {warnings:>8} {took:>7}  {word}");
        self.scenarios += 1;
        for (sum, count) in self.checks.iter_mut().zip([passed, failed, warnings]) {
            *sum += count;
        }
        self.stale += usize::from(verdict == Verdict::Stale);
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Expected(_) => self.expected += 1,
            Verdict::NotRequired(_) => self.not_required += 1,
            Verdict::Unexpected | Verdict::Stale | Verdict::NoResult(_) => {
                for complaint in complaints.iter().take(COMPLAINTS) {
                    println!("    {complaint}");
                }
                self.bad.push(format!("{}: {label}: {word}", self.group));
            }
        }
    }

    /// A scenario that is listed and not run.
    pub(super) fn not_run(&mut self, scenario: &str, unscored: Option<&str>, missing: &str) {
        self.not_run += 1;
        let unscored = unscored.map_or_else(String::new, |reason| format!(", not scored: {reason}"));
        let begin = self.label(scenario);
        println!("{begin} {:>6} {:>6} {:>8} {:>7}  not run ({missing}){unscored}", "", "", "", "");
    }

    /// Prints the total. Returns an error if a result was unexpected.
    pub(super) fn finish(self) -> Result<(), Error> {
        let [passed, failed, warnings] = self.checks;
        println!(
            "\ntotal: {} scenarios: {} pass, {} expected failures, {} stale, {} unexpected, \
             {} not required, {} not run; checks: {passed} passed, {failed} failed, {warnings} warnings",
            self.scenarios,
            self.passed,
            self.expected,
            self.stale,
            self.bad.len() - self.stale,
            self.not_required,
            self.not_run,
        );
        if self.bad.is_empty() {
            return Ok(());
        }
        Err(Error::msg(format!("not as expected:\n  {}", self.bad.join("\n  "))))
    }
}
