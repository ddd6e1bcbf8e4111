//! A publication: its conditions at the start of the run, and its results at the end.

use std::{collections::BTreeMap, path::Path};

use anyhow::Error;

use super::{
    commit::Sources,
    date::today,
    figure::{Figure, Series},
    machine::Machine,
    page::{self, Builds, Results},
};

/// The conditions that hold during a publication.
pub(super) struct Publication {
    sources: Sources,
    versions: BTreeMap<String, String>,
    /// The builds of the page that the publication keeps.
    kept: Option<(Builds, Vec<Figure>)>,
}

/// The results of the stages. A publication that keeps its builds has no results of builds.
pub(super) struct Measured {
    pub(super) machine: Machine,
    pub(super) rounds: String,
    pub(super) calls: Vec<Figure>,
    pub(super) builds: Option<Vec<Figure>>,
    pub(super) growth: Vec<Figure>,
    pub(super) series: Vec<Series>,
}

impl Publication {
    /// Checks all conditions of a publication that are known before the first stage.
    pub(super) fn prepare(root: &Path, machine: &Machine, keeps_builds: bool) -> Result<Self, Error> {
        page::check(root)?;
        let (sources, versions) = (Sources::read(root)?, page::versions(root)?);
        let today = Builds::new(machine, &versions, None);
        let kept = keeps_builds.then(|| page::published_builds(root, &today)).transpose()?;
        Ok(Self { sources, versions, kept })
    }

    /// Checks that the sources are those of the start. Each stage builds programs from them.
    pub(super) fn check(&self, root: &Path) -> Result<(), Error> {
        self.sources.check(root)
    }

    /// The results for the page.
    pub(super) fn results(self, measured: Measured) -> Results {
        let Self { sources, versions, kept } = self;
        let Measured { machine, rounds, calls, builds, growth, series } = measured;
        let new = || Builds::new(&machine, &versions, Some(sources.commit.clone()));
        let (origin, of_builds) = kept.unwrap_or_else(|| (new(), builds.unwrap_or_default()));
        let figures = calls.into_iter().chain(of_builds).chain(growth).collect();
        let commit = Some(sources.commit);
        Results { date: today(), commit, builds: origin, machine, rounds, versions, figures, series }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::commit::Commit;

    fn figure(id: &str) -> Figure {
        serde_json::from_value(serde_json::json!({ "id": id, "title": id, "value": 1.0 })).unwrap()
    }

    fn machine() -> Machine {
        let text = |text: &str| text.to_owned();
        let [processor, system, rust] = [text("processor"), text("system"), text("rust")];
        Machine { cores: 2, processor, system, rust, load: 0.0, busy_before_calls: None }
    }

    #[test]
    fn results_have_the_measured_or_the_kept_builds() {
        let commit = |id: &str| Commit { id: id.to_owned() };
        let kept = (Builds::new(&machine(), &BTreeMap::new(), Some(commit("old"))), vec![figure("kept")]);
        let (today, old) = (commit("new"), commit("old"));
        for (kept, builds, origin, expected) in [
            (None, Some(vec![figure("built")]), &today, ["call", "built", "growth"]),
            (Some(kept), None, &old, ["call", "kept", "growth"]),
        ] {
            let sources = Sources { commit: today.clone(), files: String::new() };
            let publication = Publication { sources, versions: BTreeMap::new(), kept };
            let (calls, growth) = (vec![figure("call")], vec![figure("growth")]);
            let rounds = "4 rounds".to_owned();
            let results =
                publication.results(Measured { machine: machine(), rounds, calls, builds, growth, series: Vec::new() });
            assert_eq!(results.commit.as_ref(), Some(&today));
            let builds = serde_json::to_value(&results.builds).unwrap();
            assert_eq!(builds["commit"], serde_json::to_value(origin).unwrap());
            let ids: Vec<&str> = results.figures.iter().map(|figure| figure.id.as_str()).collect();
            assert_eq!(ids, expected);
        }
    }
}
