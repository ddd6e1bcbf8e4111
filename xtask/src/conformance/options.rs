//! The arguments of `cargo xtask conformance`.

use anyhow::{Error, bail, ensure};
use lexopt::{Arg, Parser, ValueExt as _};

use super::{Cell, Leg, REVISIONS, Release};

pub(crate) const USAGE: &str = "usage: cargo xtask conformance authorization \
    | server|client|fleet [--requirements REV | --suite NAME | --scenario NAME] \
    | gateway [--cell NAME] [--requirements REV | --scenario NAME]";

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) leg: Leg,
    pub(super) selection: Selection,
    /// The name of the only cell of the gateway.
    pub(super) cell: Option<String>,
}

/// The scenarios to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// The requirements of each revision, and the suite `active` of the older release.
    Everything,
    /// The requirements of one revision.
    Requirements(String),
    /// A collection of the suite, in each release that has it.
    Suite(String),
    /// One scenario, in each release and at each revision to which it applies.
    Scenario(String),
}

impl Options {
    pub(super) fn parse(args: &[String]) -> Result<Self, Error> {
        let mut parser = Parser::from_args(args);
        let mut leg = None;
        let mut selection = Selection::Everything;
        let mut cell = None;
        while let Some(arg) = parser.next()? {
            let selected = match arg {
                Arg::Value(word) if leg.is_none() => {
                    leg = Some(Leg::parse(&word.string()?)?);
                    continue;
                }
                Arg::Long("cell") if cell.is_none() => {
                    cell = Some(parser.value()?.string()?);
                    continue;
                }
                Arg::Long("requirements") => Selection::Requirements(parser.value()?.string()?),
                Arg::Long("suite") => Selection::Suite(parser.value()?.string()?),
                Arg::Long("scenario") => Selection::Scenario(parser.value()?.string()?),
                _ => return Err(arg.unexpected().into()),
            };
            ensure!(selection == Selection::Everything, "only one selection is allowed");
            selection = selected;
        }
        let Some(leg) = leg else { bail!("the argument server, client, authorization, gateway or fleet is missing") };
        if let Some(name) = &cell {
            ensure!(leg == Leg::Gateway, "only the gateway has cells");
            let names: Vec<&str> = Cell::ALL.iter().map(|cell| cell.name).collect();
            ensure!(names.contains(&&**name), "`{name}` is not a cell: {}", names.join(", "));
        }
        match &selection {
            Selection::Suite(_) if leg == Leg::Gateway => bail!("the gateway leg has no selection of a suite"),
            Selection::Requirements(_) | Selection::Suite(_) | Selection::Scenario(_) if leg == Leg::Authorization => {
                bail!("the authorization leg has one run of all its scenarios")
            }
            Selection::Requirements(revision) if !REVISIONS.contains(&revision.as_str()) => {
                bail!("revision `{revision}` has no requirements; known revisions: {}", REVISIONS.join(", "))
            }
            Selection::Suite(name) if !Release::ALL.into_iter().any(|release| has_suite(release, leg, name)) => {
                bail!("no release has a {leg} suite `{name}`")
            }
            _ => Ok(Self { leg, selection, cell }),
        }
    }
}

/// Whether a release of the suite has a collection of that name.
pub(super) fn has_suite(release: Release, leg: Leg, name: &str) -> bool {
    let both: &[&str] = match leg.of_suite() {
        _ if leg == Leg::Gateway => &[],
        Leg::Server => &["active", "all", "pending"],
        Leg::Client => &["all", "core", "extensions", "backcompat", "auth", "metadata", "draft", "sep-835"],
        _ => &[],
    };
    let newer =
        release == Release::Alpha && matches!(leg, Leg::Server | Leg::Fleet) && ["core", "draft"].contains(&name);
    newer || both.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn parse(line: &str) -> Result<Options, Error> {
        Options::parse(&words(line))
    }

    #[test]
    fn each_form_is_parsed() {
        for (line, leg, selection) in [
            ("server", Leg::Server, Selection::Everything),
            ("server --requirements 2025-11-25", Leg::Server, Selection::Requirements("2025-11-25".into())),
            ("server --suite draft", Leg::Server, Selection::Suite("draft".into())),
            ("authorization", Leg::Authorization, Selection::Everything),
            ("client --scenario=initialize", Leg::Client, Selection::Scenario("initialize".into())),
        ] {
            assert_eq!(parse(line).unwrap(), Options { leg, selection, cell: None }, "{line}");
        }
        let cell = Some("modern-to-legacy".to_owned());
        let expected = Options { leg: Leg::Gateway, selection: Selection::Everything, cell };
        assert_eq!(parse("gateway --cell modern-to-legacy").unwrap(), expected);
    }

    #[test]
    fn invalid_arguments_are_rejected() {
        for line in [
            "",
            "browser",
            "server --requirements 2024-11-05",
            "server --suite nope",
            "server --suite",
            "server --suite all --scenario ping",
            "client -v x",
            "gateway --suite active",
            "gateway --cell new-to-old",
            "server --cell modern-to-legacy",
            "authorization --scenario authorization-code-grant",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
