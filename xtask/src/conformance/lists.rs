//! Which scenarios must pass: the frozen requirement lists of each revision, and the failures that are known.

use std::path::Path;

use super::{
    Leg,
    yaml::{self, Item, Section},
};
use crate::error::{Context, Error};

/// The revisions that have a requirement list.
pub(crate) const REVISIONS: &[&str] = &["2025-11-25", "2026-07-28"];

/// The revision that the suite knows without having a requirement list for it.
pub(crate) const OLDER: &str = "2025-06-18";

/// What stands in the comment of a scored scenario that is not run, before what is missing.
const NOT_RUN: &str = "not run: ";

/// What the suite asks of one revision.
#[derive(Debug)]
pub(crate) struct Requirements {
    server: Vec<String>,
    client: Vec<String>,
    /// Scored scenarios that are not run, with what is missing.
    later: Vec<(Leg, String, String)>,
    not_scored: Vec<NotScored>,
}

/// A scenario that the suite runs without counting it.
#[derive(Debug)]
struct NotScored {
    scenario: String,
    leg: Leg,
    /// The suite's reason: `extension`, `added-after-release` or `pending`.
    reason: String,
    /// What is missing here, when we do not run it; without it the scenario must pass.
    not_run: Option<String>,
}

impl Requirements {
    /// Reads our copy of the list of `revision`.
    pub(crate) fn load(root: &Path, revision: &str) -> Result<Self, Error> {
        let file = root.join("xtask/conformance/requirements").join(format!("{revision}.yaml"));
        let text = std::fs::read_to_string(&file).context(file.display())?;
        Self::parse(&text).context(file.display())
    }

    fn parse(text: &str) -> Result<Self, Error> {
        let mut list = Self { server: Vec::new(), client: Vec::new(), later: Vec::new(), not_scored: Vec::new() };
        for Section { key, items } in yaml::parse(text)? {
            match key.as_str() {
                "server" => list.server = list.scored(Leg::Server, items),
                "client" => list.client = list.scored(Leg::Client, items),
                "not_scored" => list.not_scored = items.iter().map(NotScored::read).collect::<Result<_, _>>()?,
                _ => return Err(Error::new(format!("unknown key `{key}`"))),
            }
        }
        Ok(list)
    }

    /// Those of the scored scenarios that are run; the others are for later.
    fn scored(&mut self, leg: Leg, items: Vec<Item>) -> Vec<String> {
        let mut run = Vec::new();
        for item in items {
            match item.comment.strip_prefix(NOT_RUN) {
                Some(missing) => self.later.push((leg, item.word, missing.to_owned())),
                None => run.push(item.word),
            }
        }
        run
    }

    /// What must pass: the scored scenarios of the leg, then the unscored ones that we hold ourselves to.
    pub(crate) fn must_pass(&self, leg: Leg) -> Vec<&str> {
        let scored = match leg {
            Leg::Server => &self.server,
            Leg::Client => &self.client,
            Leg::Authorization => return Vec::new(),
        };
        let unscored = self.unscored(leg).filter(|entry| entry.not_run.is_none()).map(|entry| entry.scenario.as_str());
        scored.iter().map(String::as_str).chain(unscored).collect()
    }

    /// Whether a scenario is about an extension of the protocol.
    pub(crate) fn is_extension(&self, leg: Leg, scenario: &str) -> bool {
        self.unscored(leg).any(|entry| entry.scenario == scenario && entry.reason == "extension")
    }

    /// What is not run: the scenario, the suite's reason when it is not scored, and what is missing here.
    pub(crate) fn not_run(&self, leg: Leg) -> impl Iterator<Item = (&str, Option<&str>, &str)> {
        let scored = self.later.iter().filter(move |(of, ..)| *of == leg);
        let scored = scored.map(|(_, scenario, missing)| (scenario.as_str(), None, missing.as_str()));
        let unscored = self.unscored(leg).filter_map(|entry| {
            Some((entry.scenario.as_str(), Some(entry.reason.as_str()), entry.not_run.as_deref()?))
        });
        scored.chain(unscored)
    }

    /// The unscored scenarios of the leg.
    fn unscored(&self, leg: Leg) -> impl Iterator<Item = &NotScored> {
        self.not_scored.iter().filter(move |entry| entry.leg == leg)
    }
}

impl NotScored {
    fn read(item: &Item) -> Result<Self, Error> {
        let member =
            |key: &str| item.member(key).ok_or_else(|| Error::new(format!("not_scored: no `{key}`: {item:?}")));
        let not_run = item.member("not_run").map(str::to_owned);
        if not_run.is_some() == item.member("run").is_some() {
            return Err(Error::new(format!("not_scored: either `run` or `not_run`: {item:?}")));
        }
        Ok(Self {
            scenario: member("scenario")?.to_owned(),
            leg: Leg::parse(member("leg")?)?,
            reason: member("reason")?.to_owned(),
            not_run,
        })
    }
}

/// The failures that are known, with the part of the work that ends each.
#[derive(Debug, Default)]
pub(crate) struct ExpectedFailures(Vec<(Leg, String, String)>);

impl ExpectedFailures {
    /// The file of a revision or of a release, as the suite's own `--expected-failures` takes it.
    pub(crate) fn file(root: &Path, of: &str) -> std::path::PathBuf {
        root.join(format!("xtask/conformance/expected-failures-{of}.yaml"))
    }

    pub(crate) fn load(root: &Path, of: &str) -> Result<Self, Error> {
        let file = Self::file(root, of);
        let text = std::fs::read_to_string(&file).context(file.display())?;
        let mut known = Vec::new();
        for section in yaml::parse(&text).context(file.display())? {
            let leg = Leg::parse(&section.key).context(file.display())?;
            for item in section.items {
                if item.comment.is_empty() {
                    return Err(Error::new(format!("{}: `{}` says not what ends it", file.display(), item.word)));
                }
                known.push((leg, item.word, item.comment));
            }
        }
        Ok(Self(known))
    }

    /// What ends the failure of this scenario, if it is known to fail.
    pub(crate) fn why(&self, leg: Leg, scenario: &str) -> Option<&str> {
        self.0.iter().find(|(of, name, _)| *of == leg && name == scenario).map(|(_, _, why)| why.as_str())
    }

    /// Adds what another file knows.
    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    #[cfg(test)]
    fn names(&self, leg: Leg) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(of, ..)| *of == leg).map(|(_, name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn every_list_reads_and_names_no_scenario_twice() {
        for (revision, server, client) in [("2025-11-25", 33, 9), ("2026-07-28", 53, 12)] {
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
            for leg in [Leg::Server, Leg::Client] {
                for name in known.names(leg) {
                    assert!(required.must_pass(leg).contains(&name), "{revision}: {name}");
                }
            }
        }
    }

    #[test]
    fn a_scored_scenario_may_be_left_for_later() {
        let list = Requirements::parse("client:\n  - a\n  - b # not run: tokens\n  - c # a remark\n").unwrap();
        assert_eq!(list.must_pass(Leg::Client), ["a", "c"]);
        assert_eq!(list.not_run(Leg::Client).collect::<Vec<_>>(), [("b", None, "tokens")]);
        assert_eq!(list.not_run(Leg::Server).count(), 0);
    }

    #[test]
    fn an_entry_without_a_verdict_is_refused() {
        let text = "not_scored:\n  - scenario: a\n    leg: server\n    reason: pending\n";
        assert!(Requirements::parse(text).is_err());
    }
}
