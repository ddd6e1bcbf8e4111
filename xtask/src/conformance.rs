//! `cargo xtask conformance`: the official suites against the fixtures of this workspace.

use std::{
    fmt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context, Error};

use crate::{
    fleet,
    process::{self, Captured},
    workspace::{self, Metadata},
};

mod authorization;
mod browser;
pub(crate) mod fixture;
mod gateway;
mod lists;
mod options;
mod outcome;
mod report;
pub(crate) mod tools;

use self::{
    fixture::Server,
    gateway::Cell,
    lists::{AUTHORIZATION, OLDER},
    options::{Options, Selection},
    outcome::Verdict,
    report::{Report, Row},
    tools::{Release, Tools},
};
pub(crate) use self::{
    lists::{ExpectedFailures, REVISIONS, Requirements},
    options::USAGE,
};

/// Well above the suite's own bound of half a minute for each scenario.
const SCENARIO_LIMIT: Duration = Duration::from_secs(90);
const SUITE_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The tested side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leg {
    Server,
    Client,
    Authorization,
    /// The server suites through a gateway.
    Gateway,
    /// The server suites through a balancer in front of three nodes.
    Fleet,
}

impl Leg {
    fn parse(word: &str) -> Result<Self, Error> {
        match word {
            "server" => Ok(Self::Server),
            "client" => Ok(Self::Client),
            "authorization" => Ok(Self::Authorization),
            "gateway" => Ok(Self::Gateway),
            "fleet" => Ok(Self::Fleet),
            _ => Err(Error::msg(format!("`{word}` is not a side: server, client, authorization, gateway, fleet"))),
        }
    }
}

impl Leg {
    /// The side as the suite names it.
    fn of_suite(self) -> Self {
        if matches!(self, Self::Gateway | Self::Fleet) { Self::Server } else { self }
    }
}

impl fmt::Display for Leg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Authorization => "authorization",
            Self::Gateway => "gateway",
            Self::Fleet => "fleet",
        })
    }
}

/// Runs the selected scenarios and prints a table. Only unexpected failures and outdated lists are errors.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let options = Options::parse(args).context(USAGE)?;
    let root = workspace::root();
    let metadata = Metadata::load(&root)?;
    // A missing program fails before the builds, which take minutes.
    if options.leg == Leg::Fleet {
        fleet::require_redis()?;
    }
    let tools = Tools::install(&root, metadata.target())?;
    let binary = fixture::build(&root, &metadata, options.leg)?;
    let results = metadata.target().join("conformance/results");
    let bench = Bench { root, tools, results, leg: options.leg, binary, cell: None };
    let mut report = Report::new(options.leg);
    if options.leg == Leg::Gateway {
        gateway::run(&bench, &options, &mut report)?;
        return report.finish();
    }
    if options.leg == Leg::Authorization {
        authorization::run(&bench, &mut report)?;
        return report.finish();
    }
    match &options.selection {
        Selection::Everything => {
            for revision in REVISIONS {
                bench.requirements(revision, &mut report)?;
            }
            bench.rest(&mut report)?;
            if options.leg.of_suite() == Leg::Server {
                bench.suite(Release::Stable, "active", &mut report)?;
            } else {
                // The older release has no collection of the scenarios outside of authorization.
                bench.older_release(&mut report)?;
            }
        }
        Selection::Requirements(revision) => bench.requirements(revision, &mut report)?,
        Selection::Suite(name) => {
            for release in Release::ALL.into_iter().filter(|release| options::has_suite(*release, options.leg, name)) {
                bench.suite(release, name, &mut report)?;
            }
        }
        Selection::Scenario(name) => bench.scenario_everywhere(name, &mut report)?,
    }
    report.finish()
}

/// The state of a run.
#[derive(Clone)]
struct Bench {
    root: PathBuf,
    tools: Tools,
    results: PathBuf,
    leg: Leg,
    binary: PathBuf,
    /// The gateway in front of the tested server.
    cell: Option<Cell>,
}

impl Bench {
    /// The requirement list of one revision, scenario by scenario, each at the wire of that revision.
    fn requirements(&self, revision: &str, report: &mut Report) -> Result<(), Error> {
        let list = Requirements::load(&self.root, revision)?;
        let known = self.expected(revision)?;
        report.heading(format_args!("{}requirements of {revision}, suite {}", self.title(), Release::Alpha));
        let mut target = self.start()?;
        for scenario in list.must_pass(self.leg) {
            let at = ["--spec-version", revision, "--force"];
            let extra: &[&str] = match (list.is_extension(self.leg, scenario), self.leg) {
                (false, _) => &at[..2],
                // An extension has no revision of its own. The client runs it in each revision. For a server, the
                // suite knows the revisions.
                (true, Leg::Client) => &at,
                (true, _) => &[],
            };
            let row =
                self.scenario(&mut target, Release::Alpha, scenario, extra, revision, known.why(self.leg, scenario))?;
            report.row(row.unwrap_or_else(|| Row::no_result(scenario, "not applicable at this revision")));
        }
        for (scenario, unscored, missing) in list.not_run(self.leg) {
            report.not_run(scenario, unscored, missing);
        }
        Ok(())
    }

    /// Every scenario at every revision that it applies to, as far as no list of requirements has it there.
    fn rest(&self, report: &mut Report) -> Result<(), Error> {
        let mut required = Vec::new();
        for revision in REVISIONS {
            let list = Requirements::load(&self.root, revision)?;
            required.extend(list.must_pass(self.leg).into_iter().map(|name| (name.to_owned(), *revision)));
        }
        report.heading(format_args!("the other scenarios and revisions, suite {}", Release::Alpha));
        let mut target = self.start()?;
        for (scenario, revisions) in self.list(Release::Alpha)? {
            for revision in revisions {
                // An extension has no revision of its own.
                let is_dated = revision.starts_with(|c: char| c.is_ascii_digit());
                let is_there = |(name, at): &(String, &str)| *name == scenario && (*at == revision || !is_dated);
                if required.iter().any(is_there) {
                    continue;
                }
                let lists_of = REVISIONS.iter().find(|known| **known == revision).unwrap_or(&OLDER);
                let known = ExpectedFailures::load(&self.root, lists_of)?;
                let at = ["--spec-version", &revision];
                let extra = if is_dated { &at[..] } else { &[] };
                let why = known.why(self.leg, &scenario);
                let row = self.scenario(&mut target, Release::Alpha, &scenario, extra, lists_of, why)?;
                let row = row.unwrap_or_else(|| Row::no_result(&scenario, "listed, and not applicable"));
                report.row(row.labelled(&format!("{scenario} {revision}")));
            }
        }
        Ok(())
    }

    /// Each scenario that the older release lists for this leg.
    fn older_release(&self, report: &mut Report) -> Result<(), Error> {
        let release = Release::Stable;
        report.heading(format_args!("suite {release}"));
        let known = ExpectedFailures::load(&self.root, release.version())?;
        let mut target = self.start()?;
        for (scenario, _) in self.list(release)? {
            let why = known.why(self.leg, &scenario);
            let row = self.scenario(&mut target, release, &scenario, &[], release.version(), why)?;
            report.row(row.unwrap_or_else(|| Row::no_result(&scenario, "listed, and not applicable")));
        }
        Ok(())
    }

    /// One of the suite's own collections, in one run of the suite.
    fn suite(&self, release: Release, name: &str, report: &mut Report) -> Result<(), Error> {
        report.heading(format_args!("{}suite `{name}` of {release}", self.title()));
        let known = self.known(release)?;
        let later = self.later()?;
        let mut target = self.start()?;
        let output = self.fresh_output(&format!("{release}-{name}"))?;
        let mut command = self.command(&target, release)?;
        command.args(["--suite", name, "--output-dir"]).arg(&output);
        let ran = process::capture(&mut command, SUITE_LIMIT)?;
        let found = outcome::read(&output)?;
        if found.is_empty() {
            return Err(Error::msg(format!(
                "suite `{name}` of {release} left no results\n{}{}",
                ran.stdout, ran.stderr
            )));
        }
        if let Some(reason) = target.gone() {
            report.row(Row::no_result("(server)", &reason));
        }
        for (scenario, checks) in found {
            let missing = later.iter().find(|(name, _)| *name == scenario);
            let verdict = match (Verdict::of(&checks, known.why(self.leg, &scenario)), missing) {
                (Verdict::Unexpected, Some((_, missing))) => Verdict::NotRequired(missing.clone()),
                (verdict, _) => verdict,
            };
            report.row(Row::new(scenario, checks, verdict));
        }
        Ok(())
    }

    /// One scenario in every release and at every revision that it applies to.
    fn scenario_everywhere(&self, scenario: &str, report: &mut Report) -> Result<(), Error> {
        let (stable, alpha) = (self.lists(Release::Stable, scenario)?, self.lists(Release::Alpha, scenario)?);
        if !stable && !alpha {
            return Err(Error::msg(format!("no release has a {} scenario `{scenario}`", self.leg)));
        }
        report.heading(format_args!("scenario `{scenario}`"));
        let mut target = self.start()?;
        let mut rows = Vec::new();
        for revision in [OLDER].iter().chain(REVISIONS).filter(|_| alpha) {
            let known = ExpectedFailures::load(&self.root, revision)?;
            let extra = ["--spec-version", *revision];
            let why = known.why(self.leg, scenario);
            let row = self.scenario(&mut target, Release::Alpha, scenario, &extra, revision, why)?;
            rows.extend(row.map(|row| row.labelled(&format!("{} {revision}", Release::Alpha))));
        }
        if alpha && rows.is_empty() {
            // An extension has no revision; the suite chooses one.
            let row = self.scenario(&mut target, Release::Alpha, scenario, &[], REVISIONS[1], None)?;
            rows.extend(row.map(|row| row.labelled(Release::Alpha.version())));
        }
        if stable {
            let known = ExpectedFailures::load(&self.root, Release::Stable.version())?;
            let why = known.why(self.leg, scenario);
            let row = self.scenario(&mut target, Release::Stable, scenario, &[], Release::Stable.version(), why)?;
            rows.extend(row.map(|row| row.labelled(Release::Stable.version())));
        }
        for row in rows {
            report.row(row);
        }
        Ok(())
    }

    /// One scenario at the revision of the cell, and in the older release if it has the scenario.
    fn scenario_of_cell(&self, scenario: &str, revision: &str, report: &mut Report) -> Result<(), Error> {
        report.heading(format_args!("{}scenario `{scenario}`", self.title()));
        let known = self.expected(revision)?;
        let mut target = self.start()?;
        let extra = ["--spec-version", revision];
        let why = known.why(self.leg, scenario);
        let row = self.scenario(&mut target, Release::Alpha, scenario, &extra, revision, why)?;
        report.row(row.unwrap_or_else(|| Row::no_result(scenario, "not applicable at this revision")));
        Ok(())
    }

    /// Runs one scenario. Returns `None` if the suite reports that the scenario does not apply.
    fn scenario(
        &self,
        target: &mut Target,
        release: Release,
        scenario: &str,
        extra: &[&str],
        lists_of: &str,
        why: Option<&str>,
    ) -> Result<Option<Row>, Error> {
        if let Some(reason) = target.gone() {
            *target = self.start()?;
            return Ok(Some(Row::no_result(scenario, &reason)));
        }
        let name = format!("{release}-{lists_of}-{}", scenario.replace('/', "-"));
        let output = self.fresh_output(&name)?;
        let mut command = self.command(target, release)?;
        command.args(["--scenario", scenario]).args(extra).arg("--output-dir").arg(&output);
        let known = self.results.join(format!("expected-failures-{lists_of}.yaml"));
        let list = self.expected(lists_of)?.to_yaml();
        std::fs::write(&known, list).with_context(|| known.display().to_string())?;
        command.arg("--expected-failures").arg(known);
        let started = Instant::now();
        let ran = match process::capture(&mut command, SCENARIO_LIMIT) {
            Ok(ran) => ran,
            Err(error) => return Ok(Some(Row::no_result(scenario, &format!("{error:#}")))),
        };
        let took = started.elapsed();
        let Some((_, checks)) = outcome::read(&output)?.into_iter().next() else {
            let skipped = ran.stdout.contains("SKIPPED: scenario");
            return Ok((!skipped).then(|| Row::no_result(scenario, &last_lines(&ran))));
        };
        let mut verdict = Verdict::of(&checks, why);
        // A client that sends no requests can pass without a check. Such a run shows nothing.
        if self.leg == Leg::Client && verdict == Verdict::Passed && checks.passed == 0 {
            verdict = Verdict::NoResult("nothing was checked".to_owned());
        }
        // The suite has the same list. Its exit status counts if the recorded checks miss a failure.
        if !verdict.is_bad() && !ran.status.success() {
            verdict = Verdict::NoResult(format!("the suite disagrees ({}): {}", ran.status, last_lines(&ran)));
        }
        Ok(Some(Row::new(scenario.to_owned(), checks, verdict).took(took)))
    }

    /// Starts the tested server. The suite starts a tested client.
    fn start(&self) -> Result<Target, Error> {
        match self.leg {
            Leg::Client => Ok(Target::Client),
            Leg::Server | Leg::Authorization => Server::start(&self.binary).map(Target::Server),
            Leg::Fleet => fixture::fleet(&self.binary).map(Target::Server),
            Leg::Gateway => match &self.cell {
                Some(cell) => cell.start(&self.binary, &self.results).map(Target::Server),
                None => Err(Error::msg("no cell of the gateway is selected")),
            },
        }
    }

    /// The failures that are known for a revision or a release.
    fn expected(&self, of: &str) -> Result<ExpectedFailures, Error> {
        match &self.cell {
            Some(cell) => ExpectedFailures::of_cell(&self.root, cell.name, of),
            None => ExpectedFailures::load(&self.root, of),
        }
    }

    /// The begin of a heading.
    fn title(&self) -> String {
        self.cell.as_ref().map_or_else(String::new, |cell| format!("{}, ", cell.name))
    }

    /// The suite's command line up to the selection.
    fn command(&self, target: &Target, release: Release) -> Result<Command, Error> {
        let mut command = self.tools.suite(release);
        command.arg(self.leg.of_suite().to_string());
        match target {
            Target::Server(server) => command.args(["--url", &server.url]),
            Target::Client => command.arg("--command").arg(&self.binary),
        };
        // The suite writes temporary files to its own directory.
        std::fs::create_dir_all(&self.results).with_context(|| self.results.display().to_string())?;
        command.current_dir(&self.results);
        Ok(command)
    }

    /// The failures that are known for a run of a whole collection.
    fn known(&self, release: Release) -> Result<ExpectedFailures, Error> {
        if release == Release::Stable {
            return self.expected(release.version());
        }
        let mut known = ExpectedFailures::default();
        for revision in REVISIONS {
            known.extend(self.expected(revision)?);
        }
        Ok(known)
    }

    /// The scenarios that the project does not have to pass yet, with the missing feature.
    fn later(&self) -> Result<Vec<(String, String)>, Error> {
        let mut later = Vec::new();
        for revision in REVISIONS {
            let list = Requirements::load(&self.root, revision)?;
            later
                .extend(list.not_run(self.leg).map(|(scenario, _, missing)| (scenario.to_owned(), missing.to_owned())));
        }
        Ok(later)
    }

    /// Whether a release has that scenario for this leg.
    fn lists(&self, release: Release, scenario: &str) -> Result<bool, Error> {
        Ok(self.list(release)?.iter().any(|(name, _)| name == scenario))
    }

    /// The scenarios that a release has for this leg, each with the revisions that it applies to.
    fn list(&self, release: Release) -> Result<Vec<(String, Vec<String>)>, Error> {
        let mut command = self.tools.suite(release);
        let listed = process::capture(command.args(["list", &format!("--{}", self.leg.of_suite())]), SCENARIO_LIMIT)?;
        let found: Vec<_> = listed.stdout.lines().filter_map(scenario_line).collect();
        if found.is_empty() {
            return Err(Error::msg(format!("{release} lists nothing for the {}: {}", self.leg, last_lines(&listed))));
        }
        Ok(found)
    }

    /// An empty folder for the results of one run.
    fn fresh_output(&self, name: &str) -> Result<PathBuf, Error> {
        let output = self.results.join(name);
        if output.exists() {
            std::fs::remove_dir_all(&output).with_context(|| output.display().to_string())?;
        }
        Ok(output)
    }
}

/// The program that the suite connects to.
enum Target {
    Server(Server),
    Client,
}

impl Target {
    fn gone(&mut self) -> Option<String> {
        match self {
            Self::Server(server) => server.gone(),
            Self::Client => None,
        }
    }
}

/// A line `- name [revision,revision]` of the scenario list of the suite.
fn scenario_line(line: &str) -> Option<(String, Vec<String>)> {
    let (name, rest) = line.trim_start().strip_prefix("- ")?.split_once(' ')?;
    let revisions = rest.trim().strip_prefix('[')?.strip_suffix(']')?;
    Some((name.to_owned(), revisions.split(',').map(|revision| revision.trim().to_owned()).collect()))
}

/// The last lines of a run's output, which explain a missing result.
fn last_lines(ran: &Captured) -> String {
    let output = if ran.stderr.trim().is_empty() { &ran.stdout } else { &ran.stderr };
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let tail = lines[lines.len().saturating_sub(3)..].join(" / ");
    if tail.is_empty() { format!("no output, {}", ran.status) } else { tail }
}

/// The scenarios that count as evidence: run, and expected to pass, at one revision at least.
pub(crate) fn passing_scenarios(root: &Path) -> Result<Vec<String>, Error> {
    let mut passing = Vec::new();
    for revision in REVISIONS {
        let list = Requirements::load(root, revision)?;
        let known = ExpectedFailures::load(root, revision)?;
        // Only scenarios that run are evidence.
        for leg in [Leg::Server, Leg::Client] {
            let required = list.must_pass(leg).into_iter();
            passing.extend(required.filter(|name| known.why(leg, name).is_none()).map(str::to_owned));
        }
    }
    passing.extend(AUTHORIZATION.iter().map(|&name| name.to_owned()));
    passing.sort();
    passing.dedup();
    Ok(passing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_scenarios_have_revisions() {
        let found = scenario_line("  - tools_call [2025-06-18,2025-11-25]").unwrap();
        assert_eq!(found, ("tools_call".to_owned(), vec!["2025-06-18".to_owned(), "2025-11-25".to_owned()]));
        assert_eq!(scenario_line("  - sep-2640-client-no-prefetch [extension]").unwrap().1, ["extension"]);
        for other in ["Client scenarios (test against a client):", "", "- word", "- word words"] {
            assert!(scenario_line(other).is_none(), "{other}");
        }
    }
}
