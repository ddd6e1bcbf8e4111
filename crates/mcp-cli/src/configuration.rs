//! The configuration file of a command line: that of `--config`, the nearest `.mcp.json`, or that of the user.

use std::path::PathBuf;

use mcp_agent::config::{Environment, Scope, discover};

use crate::args::Options;

/// Returns the path and the owner of the file. `None` if there is no file.
pub(crate) fn path(options: &Options) -> Option<(PathBuf, Scope)> {
    match &options.config_file {
        Some(file) => Some((std::path::absolute(file).unwrap_or_else(|_| file.clone()), Scope::Named)),
        None => discover(&Environment::of_process()),
    }
}
