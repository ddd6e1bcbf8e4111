//! The server suites through `mcp gateway`, in the four cells of its relay.

use std::path::Path;

use anyhow::Error;

use super::{
    Bench, Release,
    fixture::{self, Server},
    options::{Options, Selection},
    report::Report,
};

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
        fixture::gateway(binary, self.upstream, &results.join(self.name))
    }
}

/// Runs the selected cells. The server of the bench is built.
pub(super) fn run(bench: &mut Bench, options: &Options, report: &mut Report) -> Result<(), Error> {
    fixture::build_gateway(&bench.root, &bench.binary)?;
    for cell in Cell::ALL.into_iter().filter(|cell| options.cell.as_deref().is_none_or(|name| name == cell.name)) {
        bench.cell = Some(cell);
        match &options.selection {
            Selection::Requirements(revision) if revision != cell.revision => {}
            Selection::Scenario(name) => bench.scenario_of_cell(name, cell.revision, report)?,
            _ => {
                bench.requirements(cell.revision, report)?;
                if cell.has_stable && options.selection == Selection::Everything {
                    bench.suite(Release::Stable, "active", report)?;
                }
            }
        }
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
            let scenarios = required.must_pass(super::super::Leg::Gateway);
            assert!(known.names().all(|name| scenarios.contains(&name)), "{}", cell.name);
        }
    }
}
