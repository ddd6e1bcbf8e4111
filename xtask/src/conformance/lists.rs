//! The scenarios that must pass: the frozen requirements of each revision, and the failures that are known.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context, Error};
use serde::Deserialize;

use super::Leg;

/// The revisions that have a list of requirements.
pub(crate) const REVISIONS: &[&str] = &["2025-11-25", "2026-07-28"];

/// A revision that the suite tests and that has no list of requirements.
pub(crate) const OLDER: &str = "2025-06-18";

/// The scenarios of the authorization leg, in the order of the suite. Each of them must pass.
pub(crate) const AUTHORIZATION: &[&str] = &["authorization-server-metadata-endpoint", "authorization-code-grant"];

/// The scenarios of the suite for one revision.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Requirements {
    /// The scored scenarios that are run.
    #[serde(flatten)]
    scored: Scenarios,
    /// The scored scenarios that are not run.
    #[serde(default)]
    not_run: Vec<NotRun>,
    #[serde(default)]
    unscored: Vec<Unscored>,
}

#[derive(Debug, Default, Deserialize)]
struct Scenarios {
    #[serde(default)]
    server: Vec<String>,
    #[serde(default)]
    client: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct NotRun {
    /// The subject of the open issue that these scenarios wait for.
    issue: String,
    #[serde(flatten)]
    scenarios: Scenarios,
}

/// Scenarios that the suite runs without a score.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Unscored {
    /// The suite's reason: `extension`, `added-after-release` or `pending`.
    reason: String,
    /// The subject of an open issue. Without it the scenarios must pass.
    not_run: Option<String>,
    #[serde(flatten)]
    scenarios: Scenarios,
}

impl Scenarios {
    fn of(&self, leg: Leg) -> &[String] {
        match leg {
            Leg::Server | Leg::Gateway | Leg::Fleet => &self.server,
            Leg::Client => &self.client,
            Leg::Authorization => &[],
        }
    }
}

impl Requirements {
    /// Reads the list of `revision`.
    pub(crate) fn load(root: &Path, revision: &str) -> Result<Self, Error> {
        let file = root.join("xtask/conformance/requirements").join(format!("{revision}.toml"));
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        toml::from_str(&text).with_context(|| file.display().to_string())
    }

    /// The scenarios of the leg that must pass: first the scored ones, then the unscored ones that are run.
    pub(crate) fn must_pass(&self, leg: Leg) -> Vec<&str> {
        let unscored = self.unscored.iter().filter(|group| group.not_run.is_none());
        let unscored = unscored.flat_map(|group| group.scenarios.of(leg));
        self.scored.of(leg).iter().chain(unscored).map(String::as_str).collect()
    }

    /// Whether a scenario tests an extension of the protocol.
    pub(crate) fn is_extension(&self, leg: Leg, scenario: &str) -> bool {
        let mut extensions = self.unscored.iter().filter(|group| group.reason == "extension");
        extensions.any(|group| group.scenarios.of(leg).iter().any(|name| name == scenario))
    }

    /// The scenarios that are not run: the name, the suite's reason for an unscored one, and the subject of the issue.
    pub(crate) fn not_run(&self, leg: Leg) -> impl Iterator<Item = (&str, Option<&str>, &str)> {
        let scored = self.not_run.iter().map(|group| (&group.scenarios, None, group.issue.as_str()));
        let unscored = self
            .unscored
            .iter()
            .filter_map(|group| Some((&group.scenarios, Some(group.reason.as_str()), group.not_run.as_deref()?)));
        scored.chain(unscored).flat_map(move |(scenarios, reason, issue)| {
            scenarios.of(leg).iter().map(move |name| (name.as_str(), reason, issue))
        })
    }
}

/// The scenarios that are known to fail, with the subject of the issue that ends each failure.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExpectedFailures {
    server: BTreeMap<String, String>,
    client: BTreeMap<String, String>,
}

impl ExpectedFailures {
    /// Reads the entries of a revision or of a release.
    pub(crate) fn load(root: &Path, of: &str) -> Result<Self, Error> {
        const FILE: &str = "xtask/conformance/expected-failures.toml";
        let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
        let mut all: BTreeMap<String, Self> = toml::from_str(&text).context(FILE)?;
        all.remove(of).with_context(|| format!("{FILE} has no table for {of}"))
    }

    /// Reads the entries of a revision or of a release behind a gateway. Each cell of the relay has a file.
    pub(crate) fn of_cell(root: &Path, cell: &str, of: &str) -> Result<Self, Error> {
        let file = root.join("xtask/conformance/gateway").join(format!("{cell}.toml"));
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let mut all: BTreeMap<String, BTreeMap<String, String>> =
            toml::from_str(&text).with_context(|| file.display().to_string())?;
        Ok(Self { server: all.remove(of).unwrap_or_default(), client: BTreeMap::new() })
    }

    /// The subject of the issue that ends the failure of this scenario, if the scenario is known to fail.
    pub(crate) fn why(&self, leg: Leg, scenario: &str) -> Option<&str> {
        let known = match leg {
            Leg::Server | Leg::Gateway | Leg::Fleet => &self.server,
            Leg::Client => &self.client,
            Leg::Authorization => return None,
        };
        known.get(scenario).map(String::as_str)
    }

    /// The scenarios of servers that are known to fail.
    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.server.keys().map(String::as_str)
    }

    /// Adds the entries of another list.
    pub(crate) fn extend(&mut self, other: Self) {
        self.server.extend(other.server);
        self.client.extend(other.client);
    }

    /// The content of the file that the suite's option `--expected-failures` reads: YAML, of which JSON is a part.
    pub(crate) fn to_yaml(&self) -> String {
        let names = |known: &BTreeMap<String, String>| known.keys().cloned().collect::<Vec<_>>();
        serde_json::json!({ "server": names(&self.server), "client": names(&self.client) }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn each_revision_after_the_older_one_has_a_list() {
        let known = mcp_protocol::ProtocolVersion::ALL.iter().rev().map(|version| version.as_str());
        assert_eq!(known.skip_while(|version| *version <= OLDER).collect::<Vec<_>>(), REVISIONS);
    }

    #[test]
    fn each_list_parses_and_names_each_scenario_once() {
        for (revision, server, client) in [("2025-11-25", 33, 29), ("2026-07-28", 53, 43)] {
            let list = Requirements::load(&workspace::root(), revision).unwrap();
            for (leg, count) in [(Leg::Server, server), (Leg::Client, client)] {
                let mut names = list.must_pass(leg);
                assert_eq!(names.len(), count, "{revision} {leg}");
                names.extend(list.not_run(leg).map(|(scenario, ..)| scenario));
                let all = names.len();
                names.sort_unstable();
                names.dedup();
                assert_eq!(names.len(), all, "{revision} {leg}");
            }
        }
    }

    #[test]
    fn only_required_scenarios_are_expected_to_fail() {
        let root = workspace::root();
        for revision in REVISIONS {
            let required = Requirements::load(&root, revision).unwrap();
            let known = ExpectedFailures::load(&root, revision).unwrap();
            for (leg, names) in [(Leg::Server, &known.server), (Leg::Client, &known.client)] {
                for name in names.keys() {
                    assert!(required.must_pass(leg).contains(&name.as_str()), "{revision}: {name}");
                }
            }
        }
    }

    #[test]
    fn a_required_scenario_can_be_excluded_by_an_open_issue() {
        let list = "client = [\"a\", \"c\"]\n[[not-run]]\nissue = \"Tokens\"\nclient = [\"b\"]\n";
        let list: Requirements = toml::from_str(list).unwrap();
        assert_eq!(list.must_pass(Leg::Client), ["a", "c"]);
        assert_eq!(list.not_run(Leg::Client).collect::<Vec<_>>(), [("b", None, "Tokens")]);
        assert_eq!(list.not_run(Leg::Server).count(), 0);
    }

    #[test]
    fn the_suite_reads_the_names_of_known_failures() {
        let known = ExpectedFailures { server: [("a".to_owned(), "Tasks".to_owned())].into(), client: BTreeMap::new() };
        assert_eq!(known.to_yaml(), r#"{"server":["a"],"client":[]}"#);
    }
}
