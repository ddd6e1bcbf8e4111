//! `cargo xtask test`: all tests. The command needs only Rust.

use std::time::Duration;

use anyhow::Error;

use crate::{process, workspace};

const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Runs each test of the workspace with all features, doc tests included. `cargo test` receives `args`.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let mut command = process::cargo(&workspace::root());
    command.args(["test", "--workspace", "--all-features"]).args(args);
    process::run(&mut command, LIMIT)
}
