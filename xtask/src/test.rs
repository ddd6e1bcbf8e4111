//! `cargo xtask test`: all tests. The command needs only Rust.

use std::{
    collections::BTreeSet,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Error};

use crate::{process, workspace};

const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);
/// The limit of the tests, with the builds of the doc tests.
const LIMIT: Duration = Duration::from_secs(45 * 60);
const SELECTION: [&str; 3] = ["test", "--workspace", "--all-features"];
/// The program that some tests need.
const REDIS: &str = "redis-server";
/// The variable that makes a missing program a failure.
const REQUIRED: &str = "MCP_REQUIRE_REDIS";
/// The end of the names of the functions that skip a test.
const SKIPS: &str = "_or_skip(";

/// Runs each test of the workspace with all features, doc tests included. `cargo test` receives `args`. Prints the tests that
/// skip their work because a program is missing, since `cargo test` shows no output of a test that passes.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let root = workspace::root();
    if let Some(options) = build(args) {
        process::run(process::cargo(&root).args(SELECTION).arg("--no-run").args(options), BUILD_LIMIT)?;
    }
    let outcome = process::run(process::cargo(&root).args(SELECTION).args(args), LIMIT);
    if !is_installed() && std::env::var_os(REQUIRED).is_none() {
        report(&root)?;
    }
    outcome
}

/// Returns the options of the build before the tests. `cargo test` builds nothing before doc tests alone.
fn build(args: &[String]) -> Option<&[String]> {
    let options = args.split(|arg| arg == "--").next().unwrap_or(args);
    let is_other = options.iter().any(|arg| matches!(arg.as_str(), "--doc" | "--no-run"));
    (!is_other).then_some(options)
}

fn is_installed() -> bool {
    let version = Command::new(REDIS).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

fn report(root: &Path) -> Result<(), Error> {
    let tests = tests_that_need_redis(root)?;
    println!("{REDIS} is not in the search path. {} tests were skipped if the command selected them:", tests.len());
    for test in tests {
        println!("  {test}");
    }
    println!("Install {REDIS}, or set {REQUIRED} to make a missing program a failure.");
    Ok(())
}

/// Returns the tests of the workspace that need Redis, each with its file.
fn tests_that_need_redis(root: &Path) -> Result<BTreeSet<String>, Error> {
    let mut found = BTreeSet::new();
    for path in workspace::files(root)? {
        if path.extension().is_none_or(|extension| extension != "rs") || path.starts_with("xtask") {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.display().to_string())?;
        found.extend(tests_in(&text).into_iter().map(|test| format!("{}: {test}", path.display())));
    }
    Ok(found)
}

/// Returns the tests of a file that call a function which skips, or a function of the file that calls such a function.
fn tests_in(text: &str) -> Vec<&str> {
    let functions = functions(text);
    let skips = |function: &Function<'_>| function.calls(SKIPS);
    let helpers: Vec<_> = functions.iter().filter(|one| !one.is_test && skips(one)).map(|one| one.name).collect();
    let needs = |function: &&Function<'_>| {
        function.is_test && (skips(function) || helpers.iter().any(|helper| function.calls(&format!("{helper}("))))
    };
    functions.iter().filter(needs).map(|function| function.name).collect()
}

/// A function of a file.
struct Function<'a> {
    name: &'a str,
    is_test: bool,
    body: Vec<&'a str>,
}

impl Function<'_> {
    fn calls(&self, callee: &str) -> bool {
        self.body.iter().any(|line| !line.trim_start().starts_with("//") && line.contains(callee))
    }
}

fn functions(text: &str) -> Vec<Function<'_>> {
    let mut functions: Vec<Function<'_>> = Vec::new();
    let mut is_test = false;
    for line in text.lines() {
        let code = line.trim_start();
        let head = code.split_once("fn ").filter(|(before, _)| before.split_whitespace().all(is_qualifier));
        if code.starts_with("#[test]") || code.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some((name, _)) = head.and_then(|(_, rest)| rest.split_once(['(', '<'])) {
            functions.push(Function { name, is_test: std::mem::take(&mut is_test), body: Vec::new() });
        } else if let Some(function) = functions.last_mut() {
            function.body.push(line);
        }
    }
    functions
}

fn is_qualifier(word: &str) -> bool {
    matches!(word, "pub" | "pub(crate)" | "pub(super)" | "async" | "const" | "unsafe")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    #[test]
    fn a_build_precedes_the_tests_with_their_options() {
        for (line, expected) in [
            ("", Some("")),
            ("-p xtask filter -- --exact --doc", Some("-p xtask filter")),
            ("--doc", None),
            ("--no-run -- x", None),
        ] {
            assert_eq!(build(&words(line)).map(|options| options.join(" ")).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn the_tests_of_a_file_that_skip_are_found() {
        let text = "
            #[test]
            fn plain() { helper_of_others(); }

            fn node(name: &str) -> Option<Server> {
                Server::start_with_or_skip(name, &[])
            }

            #[tokio::test(flavor = \"multi_thread\")]
            async fn by_helper() {
                let Some(server) = node(\"by_helper\") else { return };
            }

            #[test]
            fn direct() {
                let Some(server) = Server::start_or_skip(\"direct\") else { return };
            }

            /// `start_or_skip(` is only named here.
            #[test]
            fn named() {
                // start_or_skip(
            }
        ";
        assert_eq!(tests_in(text), ["by_helper", "direct"]);
    }

    #[test]
    fn the_workspace_has_tests_that_need_redis() {
        let tests = tests_that_need_redis(&workspace::root()).unwrap();
        for part in [
            "suite.rs: all_rules_hold_with_both_protocols",
            "gateway.rs: two_gateways_with_one_redis_serve_each_session",
        ] {
            assert!(tests.iter().any(|test| test.ends_with(part)), "{part}: {tests:#?}");
        }
    }
}
