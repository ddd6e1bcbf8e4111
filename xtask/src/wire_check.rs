//! `cargo xtask wire-check`: our messages of each revision against the JSON schema of that revision.
//!
//! The messages of the server come from the transcripts of `mcp-test`. They contain each result, notification and error, over
//! each transport. The messages of the client come from a test of `mcp-client`. Tests compare both with the schemas. The
//! schemas belong to the specification and are not part of this project.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Error};

use crate::{process, workspace};

const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The environment variable through which the test receives the folder.
const VARIABLE: &str = "MCP_SCHEMAS";
/// The programs of the tests, and the tests.
const TESTS: &[(&[&str], &str)] = &[
    (&["--workspace", "--test", "transcripts"], "messages_match_the_schemas_of_their_revisions"),
    (&["--workspace", "--test", "it"], "schemas::client_messages_match_the_schemas_of_their_revisions"),
];
/// The folder of the schemas in CI, relative to the checkout.
const CI_SCHEMAS: &str = "../shared/spec/schema";

/// Checks against the schemas of the folder that `--schemas` names.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let here = std::env::current_dir().context("there is no current folder")?;
    check(&workspace::root(), &here.join(folder(args)?))
}

/// The step of `ci`. It searches for schemas outside of the project only in CI, and prints its decision.
pub(crate) fn run_in_ci(root: &Path) -> Result<(), Error> {
    let schemas = root.join(CI_SCHEMAS);
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    match (is_ci, schemas.is_dir()) {
        (true, true) => {
            println!("!!! this step reads files OUTSIDE OF THE PROJECT: {CI_SCHEMAS}");
            check(root, &schemas)
        }
        (is_ci, _) => {
            let why = if is_ci { format!("there is no {CI_SCHEMAS}") } else { "this is not CI (CI=true)".to_owned() };
            println!("!!! SKIPPED, no message was checked against a schema: {why}");
            println!("!!! `cargo xtask wire-check --schemas DIR` does it anywhere");
            Ok(())
        }
    }
}

fn folder(args: &[String]) -> Result<PathBuf, Error> {
    match args {
        [flag, folder] if flag == "--schemas" => Ok(PathBuf::from(folder)),
        _ => Err(Error::msg(
            "wire-check needs `--schemas DIR`: the folder with <revision>/schema.json of every revision, as `schema` in the \
             repository of the specification (modelcontextprotocol/modelcontextprotocol)",
        )),
    }
}

fn check(root: &Path, schemas: &Path) -> Result<(), Error> {
    let schemas = schemas.canonicalize().with_context(|| format!("cannot use the schemas in {}", schemas.display()))?;
    for (program, test) in TESTS {
        let mut command = process::cargo(root);
        // With the features that `cargo test` uses, so that both share one build.
        command.arg("test").args(*program).args(["--all-features", "--", "--exact", test]).env(VARIABLE, &schemas);
        println!("$ {}", process::display(&command));
        let tested = process::capture(&mut command, LIMIT)?;
        for line in tested.stderr.lines().chain(tested.stdout.lines()).filter(|line| !line.trim().is_empty()) {
            println!("{line}");
        }
        if !tested.status.success() {
            return Err(Error::msg("messages do not fit the schemas of their revisions"));
        }
        // Cargo succeeds also if no test has that name.
        if !tested.stdout.contains("1 passed") {
            return Err(Error::msg(format!("nothing was checked: there is no test `{test}`")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words;

    #[test]
    fn requires_the_schema_folder() {
        let read = |line: &str| folder(&words(line));
        assert_eq!(read("--schemas a/b").unwrap(), Path::new("a/b"));
        for line in ["", "--schemas", "a/b", "--schemas a b"] {
            let error = read(line).err().unwrap().to_string();
            assert!(error.contains("--schemas DIR") && error.contains("<revision>/schema.json"), "{line}: {error}");
        }
    }
}
