//! Connections to servers of configuration files.

use std::{sync::Arc, time::Duration};

use mcp_agent::config::{Endpoint, HttpServer, HttpTransport, ServerDefinition, StdioServer};
use mcp_client::{
    ChildProcess,
    http::{Authorizer, Http},
};
use mcp_transport::Connect;

use crate::{args::Options, failure::Failure};

/// The longest wait for a server at its start, if its definition sets none.
const START_LIMIT: Duration = Duration::from_secs(15);

/// Returns the connector of a server. The options of the command line add headers and variables.
pub(super) fn connector(
    server: &ServerDefinition,
    options: &Options,
    authorizer: Option<Arc<dyn Authorizer>>,
) -> Result<Arc<dyn Connect>, Failure> {
    match &server.endpoint {
        Endpoint::Stdio(stdio) => Ok(Arc::new(child(stdio, options))),
        Endpoint::Http(http) => {
            let remote = remote(http, options, |_| true)?;
            Ok(Arc::new(match authorizer {
                Some(authorizer) => remote.authorizer(authorizer),
                None => remote,
            }))
        }
        _ => Err(Failure::usage(format!("`mcp` cannot connect to the server `{}`", server.name))),
    }
}

/// Returns the endpoint of a server for callers with tokens of their own, without other credentials. `None` for a command.
pub(super) fn endpoint_of_callers(server: &ServerDefinition, options: &Options) -> Result<Option<Http>, Failure> {
    let Endpoint::Http(http) = &server.endpoint else { return Ok(None) };
    remote(http, options, |name| !name.eq_ignore_ascii_case("authorization")).map(Some)
}

/// Returns the longest wait for a server at its start.
pub(super) fn start_limit(server: &ServerDefinition, options: &Options) -> Duration {
    options.timeout.or(server.start_timeout).unwrap_or(START_LIMIT)
}

fn child(server: &StdioServer, options: &Options) -> ChildProcess {
    let mut child = ChildProcess::new(&server.command).args(&server.args);
    for name in &server.inherited_env {
        child = child.inherit_env(name);
    }
    child = child.envs(server.env.iter().map(|(name, value)| (name, value.expose())));
    child = child.envs(options.env.iter().map(|(name, value)| (name, value)));
    match options.cwd.as_ref().or(server.cwd.as_ref()) {
        Some(directory) => child.current_dir(directory),
        None => child,
    }
}

/// Returns the endpoint of a server, with the headers that it may send.
fn remote(server: &HttpServer, options: &Options, sends: impl Fn(&str) -> bool) -> Result<Http, Failure> {
    let http = match server.transport {
        HttpTransport::Sse => Http::sse(&server.url),
        _ => Http::new(&server.url),
    };
    let mut http = http.map_err(|error| Failure::rejected(&error))?;
    let of_options = options.header.iter().flatten().map(|(name, value)| (name.as_str(), value.as_str()));
    let given: Vec<(&str, &str)> = of_options.filter(|(name, _)| sends(name)).collect();
    for (name, value) in server.headers.iter().filter(|(name, _)| sends(name)) {
        // A header of the command line replaces that of the file.
        if !given.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            http = http.header(name, value.expose()).map_err(|error| Failure::rejected(&error))?;
        }
    }
    for (name, value) in given {
        http = http.header(name, value).map_err(|error| Failure::rejected(&error))?;
    }
    for host in super::allowed_hosts(options) {
        http = http.allow_host(&host).map_err(|error| Failure::rejected(&error))?;
    }
    Ok(http)
}
