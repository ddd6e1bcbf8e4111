//! `cargo xtask test`: the README's test command. It needs Rust and nothing else.

use std::time::Duration;

use anyhow::Error;

use crate::{process, workspace};

const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Runs every test of the workspace with every feature, doc tests too; `args` go on to `cargo test`.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let mut command = process::cargo(&workspace::root());
    command.args(["test", "--workspace", "--all-features"]).args(args);
    process::run(&mut command, LIMIT)
}
