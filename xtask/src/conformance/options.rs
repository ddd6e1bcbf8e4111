//! What was asked of `cargo xtask conformance`.

use super::{Leg, REVISIONS, Release};
use crate::error::Error;

const USAGE: &str =
    "usage: cargo xtask conformance server|client|authorization [--requirements REV | --suite NAME | --scenario NAME]";

/// The arguments, read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) leg: Leg,
    pub(super) selection: Selection,
}

/// Which scenarios.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The requirement list of every revision, and the older release's `active` suite.
    Everything,
    /// The requirement list of one revision.
    Requirements(String),
    /// A collection of the suite, in every release that has it.
    Suite(String),
    /// One scenario, wherever it applies.
    Scenario(String),
}

impl Options {
    pub(super) fn parse(args: &[String]) -> Result<Self, Error> {
        let refuse = |why: String| Error::new(format!("{why}\n{USAGE}"));
        let (leg, rest) = args.split_first().ok_or_else(|| refuse("who is to be tested?".to_owned()))?;
        let leg = Leg::parse(leg).map_err(|error| refuse(error.to_string()))?;
        let selection = match rest {
            [] => Selection::Everything,
            [flag, value] => match flag.as_str() {
                "--requirements" => Selection::Requirements(value.clone()),
                "--suite" => Selection::Suite(value.clone()),
                "--scenario" => Selection::Scenario(value.clone()),
                _ => return Err(refuse(format!("unknown option `{flag}`"))),
            },
            _ => return Err(refuse("one selection at most, each with one value".to_owned())),
        };
        if let Selection::Requirements(revision) = &selection
            && !REVISIONS.contains(&revision.as_str())
        {
            return Err(refuse(format!(
                "no requirement list of revision `{revision}`, there are {}",
                REVISIONS.join(", ")
            )));
        }
        if let Selection::Suite(name) = &selection
            && !Release::ALL.into_iter().any(|release| has_suite(release, leg, name))
        {
            return Err(refuse(format!("no release has a {leg} suite `{name}`")));
        }
        Ok(Self { leg, selection })
    }
}

/// Whether a release of the suite has a collection of that name.
pub(super) fn has_suite(release: Release, leg: Leg, name: &str) -> bool {
    let both: &[&str] = match leg {
        Leg::Server => &["active", "all", "pending"],
        Leg::Client => &["all", "core", "extensions", "backcompat", "auth", "metadata", "draft", "sep-835"],
        Leg::Authorization => &[],
    };
    let newer = release == Release::Alpha && leg == Leg::Server && ["core", "draft"].contains(&name);
    newer || both.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Error> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn reads_each_form() {
        for (line, leg, selection) in [
            ("server", Leg::Server, Selection::Everything),
            ("server --requirements 2025-11-25", Leg::Server, Selection::Requirements("2025-11-25".into())),
            ("server --suite draft", Leg::Server, Selection::Suite("draft".into())),
            ("client --scenario initialize", Leg::Client, Selection::Scenario("initialize".into())),
        ] {
            assert_eq!(parse(line).unwrap(), Options { leg, selection }, "{line}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for line in [
            "",
            "browser",
            "server --requirements 2024-11-05",
            "server --suite nope",
            "server --suite",
            "server --suite all --scenario ping",
            "client -v x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
