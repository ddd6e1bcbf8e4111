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
