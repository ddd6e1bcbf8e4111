//! The result of a scenario: the checks that the suite recorded, and the verdict.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use anyhow::{Context, Error};

use super::lists::AUTHORIZATION;

/// The longest printed message of a failed check, in characters.
const MESSAGE_CAP: usize = 500;

/// One line of a `checks.json`.
#[derive(Debug, Deserialize)]
struct Check {
    id: String,
    status: String,
    #[serde(default, rename = "errorMessage")]
    message: Option<String>,
}

/// The checks of one scenario, counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Checks {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) warnings: usize,
    pub(crate) skipped: usize,
    /// Each failed or warned check: its name and its message.
    pub(crate) complaints: Vec<String>,
}

impl Checks {
    fn count(checks: Vec<Check>) -> Self {
        let mut counted = Self::default();
        for check in checks {
            match check.status.as_str() {
                "SUCCESS" => counted.passed += 1,
                "FAILURE" => counted.failed += 1,
                "WARNING" => counted.warnings += 1,
                "SKIPPED" => {
                    counted.skipped += 1;
                    continue;
                }
                // INFO means that the suite judged nothing.
                _ => continue,
            }
            if check.status != "SUCCESS" {
                let mut message = check.message.unwrap_or_default();
                if let Some((end, _)) = message.char_indices().nth(MESSAGE_CAP) {
                    message.truncate(end);
                    message.push('…');
                }
                counted.complaints.push(format!("{} {}: {message}", check.status, check.id));
            }
        }
        counted
    }

    /// Whether the scenario failed. A warning counts: the suite counts it too when it knows the expected failures.
    pub(crate) fn is_failure(&self) -> bool {
        self.failed > 0 || self.warnings > 0
    }
}

/// Reads the results below a suite's output folder: scenario and checks, in the order of their names.
pub(crate) fn read(output: &Path) -> Result<Vec<(String, Checks)>, Error> {
    let mut found = Vec::new();
    collect(output, Path::new(""), &mut found)?;
    found.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
}

fn collect(output: &Path, below: &Path, found: &mut Vec<(String, Checks)>) -> Result<(), Error> {
    let dir = output.join(below);
    if !dir.is_dir() {
        return Ok(());
    }
    let file = dir.join("checks.json");
    if file.is_file() {
        let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let checks = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
        found.push((scenario_of(below), Checks::count(checks)));
    }
    for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(output, &below.join(entry.file_name()), found)?;
        }
    }
    Ok(())
}

/// The scenario of a result folder such as `server-ping-2026-01-01T00-00-00-000Z`.
fn scenario_of(folder: &Path) -> String {
    let parts: PathBuf = folder.components().collect();
    let name = parts.to_string_lossy().replace('\\', "/");
    let stamp = name.len().checked_sub("-2026-01-01T00-00-00-000Z".len());
    let name = stamp.filter(|_| name.ends_with('Z')).and_then(|at| name.get(..at)).unwrap_or(&name);
    // Only runs against servers get a prefix, and some scenario names begin with the same words.
    let login = name.strip_prefix("authorization-server-").filter(|name| AUTHORIZATION.contains(name));
    login.or(name.strip_prefix("server-")).unwrap_or(name).to_owned()
}

/// The verdict on one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// Known to fail, with the issue that will fix it.
    Expected(String),
    /// Failed and not on the list of known failures: the run fails.
    Unexpected,
    /// Passed although it is listed as a known failure: the run fails until the line is removed.
    Stale,
    /// No checks at all: a crash or a timeout, with the reason. The run fails.
    NoResult(String),
    /// Not judged, with the reason.
    NotRequired(String),
}

impl Verdict {
    /// Judges a scenario by its checks and the known failure, if there is one.
    pub(crate) fn of(checks: &Checks, known: Option<&str>) -> Self {
        match (checks.is_failure(), known) {
            (false, None) => Self::Passed,
            (true, Some(why)) => Self::Expected(why.to_owned()),
            (true, None) => Self::Unexpected,
            (false, Some(_)) => Self::Stale,
        }
    }

    /// Whether the verdict fails the run.
    pub(crate) fn is_bad(&self) -> bool {
        matches!(self, Self::Unexpected | Self::Stale | Self::NoResult(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(statuses: &[&str]) -> Checks {
        let check = |status: &&str| Check { id: "id".into(), status: (*status).into(), message: None };
        Checks::count(statuses.iter().map(check).collect())
    }

    #[test]
    fn a_warning_fails_a_scenario_and_a_note_does_not() {
        let known = Some("Tasks");
        for (statuses, known, verdict) in [
            (&["SUCCESS", "INFO", "SKIPPED"][..], None, Verdict::Passed),
            (&["SUCCESS", "WARNING"], None, Verdict::Unexpected),
            (&["FAILURE"], None, Verdict::Unexpected),
            (&["FAILURE"], known, Verdict::Expected("Tasks".into())),
            (&["SUCCESS"], known, Verdict::Stale),
        ] {
            assert_eq!(Verdict::of(&checks(statuses), known), verdict, "{statuses:?}");
        }
    }

    #[test]
    fn the_name_of_a_result_folder_contains_the_scenario() {
        for (folder, scenario) in [
            ("server-ping-2026-01-01T00-00-00-000Z", "ping"),
            ("server-server-initialize-2026-01-01T00-00-00-000Z", "server-initialize"),
            ("auth/basic-cimd-2026-01-01T00-00-00-000Z", "auth/basic-cimd"),
            (
                "authorization-server-authorization-server-metadata-endpoint-2026-01-01T00-00-00-000Z",
                "authorization-server-metadata-endpoint",
            ),
        ] {
            assert_eq!(scenario_of(Path::new(folder)), scenario);
        }
    }
}
