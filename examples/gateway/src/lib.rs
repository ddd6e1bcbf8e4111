//! A gateway in a program: the servers of a configuration file as one server, with a policy.

use std::{error::Error, path::Path};

use mcp_agent::{
    Host,
    config::{ConfigFile, Environment, Scope},
};

/// Starts the servers of a configuration file. The policy decides each call.
///
/// # Errors
/// If a file cannot be used, or a required server does not start.
pub async fn start(servers: &Path, policy: &Path, environment: &Environment) -> Result<Host, Box<dyn Error>> {
    let servers = ConfigFile::read(servers, Scope::Named, environment)?;
    let host = Host::builder("gateway-example", env!("CARGO_PKG_VERSION"));
    Ok(host.config_file(&servers).policy_file(policy).start().await?)
}
