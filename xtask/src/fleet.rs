//! `cargo xtask fleet`: three nodes with one Redis behind a balancer, the official suites through it, and checks with kills.

use std::{
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Error};
use lexopt::{Arg, Parser, ValueExt as _};

use crate::{
    conformance::{self, fixture, tools::Tools},
    process,
    workspace::{self, Metadata},
};

pub(crate) const USAGE: &str = "usage: cargo xtask fleet [--seed N] [--size PERCENT] [--check NAME]... [--no-suites]";
const REDIS: &str = "redis-server";
/// The oldest major version of Redis and Valkey.
const OLDEST: u32 = 7;
const INSTALL_LIMIT: Duration = Duration::from_secs(300);
const CHECK_LIMIT: Duration = Duration::from_secs(40 * 60);
/// The size of the checks in CI, in hundredths of the full size.
const SIZE_IN_CI: &str = "10";

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    /// The arguments for the program of the checks.
    forwarded: Vec<String>,
    /// Whether the official suites run.
    suites: bool,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Error> {
        let mut options = Self { forwarded: Vec::new(), suites: true };
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("no-suites") => options.suites = false,
                Arg::Long(name @ ("seed" | "size" | "check")) => {
                    options.suites &= name != "check";
                    options.forwarded.push(format!("--{name}"));
                    options.forwarded.push(parser.value()?.string()?);
                }
                _ => return Err(arg.unexpected().into()),
            }
        }
        Ok(options)
    }
}

/// Runs the checks and then the suites.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let options = Options::parse(args).context(USAGE)?;
    require_redis()?;
    let root = workspace::root();
    let target = Metadata::load(&root)?.target().to_owned();
    if options.suites {
        // The suites run after the builds and the checks. Their missing programs fail before.
        Tools::install(&root, &target)?;
    }
    let program = fixture::binary(&root, fixture::FLEET)?;
    let node = fixture::binary(&root, "fleet")?;
    let mut check = Command::new(program);
    check.arg("check").arg("--program").arg(node).arg("--directory").arg(target.join("fleet")).args(options.forwarded);
    // All nodes need the same key, and any key works.
    check.args(["--", "--state-key"]).arg("5e".repeat(32));
    process::run(&mut check, CHECK_LIMIT)?;
    if options.suites { conformance::run(&["fleet".to_owned()]) } else { Ok(()) }
}

/// Runs the checks as CI runs them: a tenth of the size.
pub(crate) fn run_in_ci() -> Result<(), Error> {
    run(&["--size".to_owned(), SIZE_IN_CI.to_owned()])
}

/// Fails if Redis is missing. In CI, installs the Debian package.
pub(crate) fn require_redis() -> Result<(), Error> {
    if is_installed() {
        return Ok(());
    }
    if std::env::var_os("CI").is_some() {
        println!("{REDIS} is missing: installing the Debian package");
        process::run(Command::new("apt-get").args(["install", "--yes", REDIS]), INSTALL_LIMIT)?;
        if is_installed() {
            return Ok(());
        }
    }
    Err(Error::msg(format!("`{REDIS}` 7 is missing. Install it, for example by `apt-get install {REDIS}`")))
}

/// Whether Redis is installed in a version that the store supports.
fn is_installed() -> bool {
    let version = Command::new(REDIS).arg("--version").stderr(Stdio::null()).output();
    version.is_ok_and(|output| major(&String::from_utf8_lossy(&output.stdout)).is_some_and(|major| major >= OLDEST))
}

/// Returns the major version of a line such as `Redis server v=7.0.15 sha=00000000:0`.
fn major(line: &str) -> Option<u32> {
    let (_, version) = line.split_once(" v=")?;
    version.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    fn parse(line: &str) -> Result<Options, Error> {
        Options::parse(&words(line))
    }

    #[test]
    fn the_version_of_redis_is_read() {
        for (line, expected) in [
            ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", Some(7)),
            ("Valkey server v=8.1.1 sha=00000000:0", Some(8)),
            ("Redis server", None),
        ] {
            assert_eq!(major(line), expected, "{line}");
        }
    }

    #[test]
    fn the_arguments_of_the_checks_are_forwarded() {
        assert_eq!(parse("").unwrap(), Options { forwarded: vec![], suites: true });
        assert_eq!(parse("--no-suites").unwrap(), Options { forwarded: vec![], suites: false });
        let forwarded = ["--seed", "7", "--check", "tasks"].map(str::to_owned).to_vec();
        assert_eq!(parse("--seed 7 --check tasks").unwrap(), Options { forwarded, suites: false });
        assert!(parse("--fast").is_err());
        assert!(parse("--seed").is_err());
    }
}
