//! Configuration files of all formats: samples, variables, faults.
#![expect(clippy::unwrap_used, reason = "tests")]

mod approvals;
mod samples;
mod typing_errors;
mod variables;
mod wrong;

use std::path::{Path, PathBuf};

use mcp_agent::config::{
    ConfigError, ConfigFile, Endpoint, Environment, HttpServer, Scope, ServerDefinition, StdioServer,
};

/// Parses the text of a file that the user named.
fn parse(file: &str, text: &str, environment: &Environment) -> Result<ConfigFile, ConfigError> {
    ConfigFile::parse(Path::new(file), text, Scope::Named, environment)
}

/// Parses a text without faults.
fn parse_valid(file: &str, text: &str, environment: &Environment) -> ConfigFile {
    let config = parse(file, text, environment).unwrap_or_else(|error| panic!("{error}"));
    assert!(config.errors.is_empty(), "{file}: {:?}", config.errors);
    config
}

fn server<'a>(config: &'a ConfigFile, name: &str) -> &'a ServerDefinition {
    config.servers.iter().find(|server| server.name == name).unwrap_or_else(|| panic!("{name}: {:?}", config.names()))
}

fn stdio<'a>(config: &'a ConfigFile, name: &str) -> &'a StdioServer {
    match &server(config, name).endpoint {
        Endpoint::Stdio(stdio) => stdio,
        endpoint => panic!("{name}: {endpoint:?}"),
    }
}

fn http<'a>(config: &'a ConfigFile, name: &str) -> &'a HttpServer {
    match &server(config, name).endpoint {
        Endpoint::Http(http) => http,
        endpoint => panic!("{name}: {endpoint:?}"),
    }
}

fn env<'a>(server: &'a StdioServer, name: &str) -> Option<&'a str> {
    server.env.get(name).map(|value| value.expose())
}

fn header<'a>(server: &'a HttpServer, name: &str) -> Option<&'a str> {
    server.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.expose())
}

/// Returns a new directory of a test.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}
