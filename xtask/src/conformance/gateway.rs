//! The server suites through `mcp gateway`, in the four cells of its relay.

use std::path::Path;

use anyhow::{Context, Error};

use super::{
    Bench, Leg, Release,
    fixture::{self, Server},
    options::{Options, Selection},
    report::Report,
};
use crate::parallel;

/// The cells that run at the same time. Each of them has a gateway and a server of its own.
const WORKERS: usize = 2;

/// The era of the clients and the era of the server behind the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) name: &'static str,
    /// The revision whose requirements the suite checks.
    revision: &'static str,
    /// The value of `everything --only`.
    upstream: &'static str,
    /// The older release of the suite has clients of this era too.
    has_stable: bool,
}

impl Cell {
    pub(super) const ALL: [Self; 4] = [
        Self::new("legacy-to-legacy", "2025-11-25", "legacy", true),
        Self::new("legacy-to-modern", "2025-11-25", "modern", true),
        Self::new("modern-to-legacy", "2026-07-28", "legacy", false),
        Self::new("modern-to-modern", "2026-07-28", "modern", false),
    ];

    const fn new(name: &'static str, revision: &'static str, upstream: &'static str, has_stable: bool) -> Self {
        Self { name, revision, upstream, has_stable }
    }

    /// Starts the server, and the gateway in front of it. `binary` is that of the server, beside that of the gateway.
    pub(super) fn start(&self, binary: &Path, results: &Path) -> Result<Server, Error> {
        fixture::gateway(binary, self.upstream, &results.join("gateway"))
    }

    /// Runs the selected scenarios.
    fn run(self, bench: &Bench, options: &Options) -> Result<Report, Error> {
        let results = bench.results.join(self.name);
        std::fs::create_dir_all(&results).with_context(|| results.display().to_string())?;
        let bench = Bench { cell: Some(self), results, ..bench.clone() };
        let mut report = Report::of_cell(Leg::Gateway, self.name);
        match &options.selection {
            Selection::Requirements(revision) if revision != self.revision => {}
            Selection::Scenario(name) => bench.scenario_of_cell(name, self.revision, &mut report)?,
            _ => {
                bench.requirements(self.revision, &mut report)?;
                if self.has_stable && options.selection == Selection::Everything {
                    bench.suite(Release::Stable, "active", &mut report)?;
                }
            }
        }
        Ok(report)
    }
}

/// Runs the selected cells, two of them at the same time. The server of the bench is built.
pub(super) fn run(bench: &Bench, options: &Options, report: &mut Report) -> Result<(), Error> {
    fixture::build_gateway(&bench.root, &bench.binary)?;
    let is_selected = |cell: &Cell| options.cell.as_deref().is_none_or(|name| name == cell.name);
    let cells: Vec<Cell> = Cell::ALL.into_iter().filter(is_selected).collect();
    for done in parallel::map(&cells, WORKERS, |cell| cell.run(bench, options)) {
        report.add(done?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{super::ExpectedFailures, *};
    use crate::workspace;

    #[test]
    fn each_cell_has_a_list_of_required_scenarios() {
        let root = workspace::root();
        for cell in Cell::ALL {
            let required = super::super::Requirements::load(&root, cell.revision).unwrap();
            let known = ExpectedFailures::of_cell(&root, cell.name, cell.revision).unwrap();
            let scenarios = required.must_pass(Leg::Gateway);
            assert!(known.names().all(|name| scenarios.contains(&name)), "{}", cell.name);
        }
    }
}
