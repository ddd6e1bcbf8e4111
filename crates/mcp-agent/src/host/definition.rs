//! Connectors and options from the definitions of servers.

use std::sync::Arc;

use mcp_client::{
    ChildProcess,
    http::{Authorizer, ConfigError, Http},
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use sha2::{Digest, Sha256};

use super::{
    ServerError,
    error::check_name,
    logins::{Logins, with_exchange},
};
use crate::{
    GlobError, ServerOptions,
    config::{Approvals, Endpoint, HttpServer, HttpTransport, ServerDefinition, StdioServer},
    filter::ToolFilter,
    pins::Drift,
    policy::{Effect, Rule},
};

/// A definition that a host cannot use.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the definition of the server {server:?} is invalid: {fault}")]
#[non_exhaustive]
pub struct DefinitionError {
    /// The name of the server.
    pub server: String,
    /// The fault.
    pub fault: String,
}

/// Returns the connector of a definition: a child process, or an HTTP endpoint with its headers. The connector has no login, so
/// the OAuth settings of the definition have no effect. `connector_with_oauth` (feature `oauth`) adds a login.
///
/// ```
/// use mcp_agent::config::ServerDefinition;
///
/// let connector = mcp_agent::connector(&ServerDefinition::stdio("files", "mcp-files").args(["--root", "."]))?;
/// assert_eq!(connector.describe(), "mcp-files");
/// assert!(mcp_agent::connector(&ServerDefinition::http("search", "ftp://search.example")).is_err());
/// # Ok::<_, mcp_agent::DefinitionError>(())
/// ```
///
/// # Errors
/// [`DefinitionError`] if the URL or a header is invalid.
pub fn connector(definition: &ServerDefinition) -> Result<Arc<dyn Connect>, DefinitionError> {
    connector_with(definition, |_, endpoint| Ok(endpoint))
}

/// Returns the connector of a definition as [`connector`] does. A user logs in at an HTTP endpoint that requires it, with the
/// settings of the application and the [OAuth settings](crate::oauth_settings) of the definition. A definition with a header
/// `Authorization` has no login.
///
/// ```
/// use mcp_agent::{config::ServerDefinition, connector_with_oauth};
/// use mcp_client::oauth::{MemoryStore, OAuth};
///
/// let definition = ServerDefinition::http("search", "https://search.example/mcp");
/// let builder = OAuth::builder().client_name("my-app").store(MemoryStore::new());
/// let connector = connector_with_oauth(&definition, builder)?;
/// # let _ = connector;
/// # Ok::<_, mcp_agent::DefinitionError>(())
/// ```
///
/// # Errors
/// [`DefinitionError`] if the URL, a header or an OAuth setting is invalid.
#[cfg(feature = "oauth")]
pub fn connector_with_oauth(
    definition: &ServerDefinition,
    builder: mcp_client::oauth::OAuthBuilder,
) -> Result<Arc<dyn Connect>, DefinitionError> {
    connector_with(definition, |http, endpoint| {
        let auth = super::logins::authorizer(definition, http, || builder)?;
        Ok(match auth {
            Some(auth) => endpoint.authorizer(auth),
            None => endpoint,
        })
    })
}

fn connector_with(
    definition: &ServerDefinition,
    authorize: impl FnOnce(&HttpServer, Http) -> Result<Http, DefinitionError>,
) -> Result<Arc<dyn Connect>, DefinitionError> {
    match &definition.endpoint {
        Endpoint::Stdio(stdio) => Ok(Arc::new(child(stdio))),
        Endpoint::Http(http) => Ok(Arc::new(authorize(http, endpoint(&definition.name, http)?)?)),
    }
}

fn child(stdio: &StdioServer) -> ChildProcess {
    let mut child = ChildProcess::new(&stdio.command).args(&stdio.args);
    for (name, value) in &stdio.env {
        child = child.env(name, value.expose());
    }
    for name in &stdio.inherited_env {
        child = child.inherit_env(name);
    }
    match &stdio.cwd {
        Some(directory) => child.current_dir(directory),
        None => child,
    }
}

fn endpoint(server: &str, http: &HttpServer) -> Result<Http, DefinitionError> {
    let invalid = |error: ConfigError| DefinitionError { server: server.to_owned(), fault: error.to_string() };
    let endpoint = match http.transport {
        HttpTransport::Sse => Http::sse(&http.url),
        _ => Http::new(&http.url),
    };
    let mut endpoint = endpoint.map_err(invalid)?;
    for (name, value) in &http.headers {
        endpoint = endpoint.header(name, value.expose()).map_err(invalid)?;
    }
    Ok(endpoint)
}

/// Returns an endpoint without the credentials of the entry, for the connections of callers with tokens of their own.
fn without_authorization(http: &HttpServer) -> HttpServer {
    let mut http = http.clone();
    http.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("authorization"));
    http
}

/// Returns the connector of a caller for the authorizer of its token.
pub(super) type ConnectorOfCaller = Box<dyn Fn(Arc<dyn Authorizer>) -> Arc<dyn Connect> + Send + Sync>;

/// The connector of a definition that a host cannot use.
struct Unusable(ServerError);

impl Connect for Unusable {
    fn connect(&self) -> BoxFuture<'_, Result<Box<dyn Transport>, TransportError>> {
        let fault = TransportError::other(self.0.clone()).lasting();
        Box::pin(std::future::ready(Err(fault)))
    }

    fn describe(&self) -> String {
        "an invalid definition".to_owned()
    }
}

/// Returns a connector that fails with this error.
pub(super) fn unusable(error: ServerError) -> Arc<dyn Connect> {
    Arc::new(Unusable(error))
}

/// A server from a definition.
pub(super) struct DefinedServer {
    pub(super) connector: Arc<dyn Connect>,
    pub(super) options: ServerOptions,
    pub(super) fingerprint: String,
}

impl DefinedServer {
    /// Returns the server of a definition. A server of a project file needs an approval, unless the user has approved it.
    pub(super) fn new(definition: &ServerDefinition, logins: &Logins, is_approved: bool) -> Result<Self, ServerError> {
        let connector = connector_with(definition, |http, endpoint| logins.authorize(definition, http, endpoint))?;
        Self::with(definition, connector, None, is_approved)
    }

    /// Returns the server of a definition with a connector of the application. `of_caller` returns the connectors of callers with
    /// tokens of their own.
    pub(super) fn with(
        definition: &ServerDefinition,
        connector: Arc<dyn Connect>,
        of_caller: Option<ConnectorOfCaller>,
        is_approved: bool,
    ) -> Result<Self, ServerError> {
        check_name(&definition.name)?;
        let mut options = options(definition)?;
        options.needs_approval &= !is_approved;
        if let Endpoint::Http(http) = &definition.endpoint {
            let of_definition = || {
                let endpoint = endpoint(&definition.name, &without_authorization(http))?;
                let connector = move |own| Arc::new(endpoint.clone().authorizer(own)) as Arc<dyn Connect>;
                Ok(Box::new(connector) as ConnectorOfCaller)
            };
            options = with_exchange(definition, http, || of_caller.map_or_else(of_definition, Ok), options)?;
        }
        Ok(Self { connector, options, fingerprint: fingerprint(definition) })
    }
}

/// Returns true if the user has approved the definition. An approval that cannot be read does not count. The function blocks the
/// thread for the time of the read.
pub(super) fn is_approved(approvals: &Approvals, definition: &ServerDefinition) -> bool {
    match approvals.of(definition) {
        Ok(approval) => approval.permits(),
        Err(error) => {
            tracing::warn!(server = definition.name, %error, "the approval of a server cannot be read");
            false
        }
    }
}

/// Returns the options of a definition.
fn options(definition: &ServerDefinition) -> Result<ServerOptions, DefinitionError> {
    let invalid = |error: GlobError| DefinitionError { server: definition.name.clone(), fault: error.to_string() };
    let mut filter = ToolFilter::new();
    for pattern in definition.allowed_tools.iter().flatten() {
        filter = filter.allow(pattern.parse().map_err(invalid)?);
    }
    if definition.allowed_tools.as_ref().is_some_and(Vec::is_empty) {
        filter = filter.deny(crate::Glob::any());
    }
    for pattern in &definition.denied_tools {
        filter = filter.deny(pattern.parse().map_err(invalid)?);
    }
    let mut options = ServerOptions::new().filter(filter);
    options.is_required = definition.required;
    options.start_limit = definition.start_timeout;
    options.call_timeout = definition.call_timeout;
    options.tool_timeouts.clone_from(&definition.tool_timeouts);
    options.needs_approval = definition.origin.as_ref().is_some_and(crate::config::Origin::needs_approval);
    options.origin = definition.origin.clone().map(Arc::new);
    options.idle_stop = definition.idle_stop;
    options.sharing = definition.sharing.unwrap_or_default();
    options.max_connections = definition.max_connections.unwrap_or(options.max_connections);
    options.connections_per_principal = definition.connections_per_principal;
    options.asks = definition.asks;
    if options.needs_approval {
        options.drift = Some(Drift::Block);
    }
    options.rules = rules(definition).map_err(invalid)?;
    for pattern in &definition.pinned_tools {
        options = options.always_load(pattern.parse().map_err(invalid)?);
    }
    Ok(options)
}

/// Returns the rules of the lists of a definition: the tools that ask, the trusted tools, and the default.
fn rules(definition: &ServerDefinition) -> Result<Vec<Rule>, GlobError> {
    const ASK: &str = "the configuration of the server requires an approval of this tool";
    let mut rules = Vec::new();
    for pattern in &definition.asking_tools {
        rules.push(Rule::new(Effect::Ask).tool(pattern.parse()?).reason(ASK));
    }
    for pattern in &definition.trusted_tools {
        rules.push(Rule::new(Effect::Allow).tool(pattern.parse()?));
    }
    if definition.asks_by_default {
        rules.push(Rule::new(Effect::Ask).tool(crate::Glob::any()).reason(ASK));
    }
    Ok(rules)
}

/// Returns a text that changes when the endpoint of a definition changes. It contains no secret.
fn fingerprint(definition: &ServerDefinition) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update(part.len().to_le_bytes());
        hash.update(part);
    };
    match &definition.endpoint {
        Endpoint::Stdio(stdio) => {
            add(&stdio.command);
            stdio.args.iter().for_each(|arg| add(arg));
            // The values can be secrets, which change without a change of the tools.
            stdio.env.keys().chain(&stdio.inherited_env).for_each(|name| add(name));
            add(&stdio.cwd.as_ref().map(|directory| directory.to_string_lossy().into_owned()).unwrap_or_default());
        }
        Endpoint::Http(http) => {
            add(&http.url);
            http.headers.iter().for_each(|(name, _)| add(name));
        }
    }
    add(&format!("{:?} {:?}", definition.allowed_tools, definition.denied_tools));
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{ConfigFile, Environment, Scope};

    #[test]
    fn the_settings_of_connections_are_options() {
        let text = r#"{ "mcpServers": { "s": { "command": "a", "x-mcp": { "maxConnections": 64, "connectionsPerPrincipal": 4, "asks": true } } } }"#;
        let path = Path::new("/p/.mcp.json");
        let config = ConfigFile::parse(path, text, Scope::Named, &Environment::default()).unwrap();
        let options = options(&config.servers[0]).unwrap();
        let of_principal = options.connections_per_principal;
        assert_eq!((options.max_connections, of_principal, options.asks), (64, Some(4), true));
    }

    #[test]
    fn servers_of_project_files_block_changed_definitions() {
        let text = r#"{ "mcpServers": { "s": { "command": "a", "x-mcp": { "pinTools": ["get_*"] } } } }"#;
        for (scope, drift) in [(Scope::Project, Some(Drift::Block)), (Scope::Named, None)] {
            let path = Path::new("/projects/demo/.mcp.json");
            let config = ConfigFile::parse(path, text, scope, &Environment::default()).unwrap();
            let options = options(&config.servers[0]).unwrap();
            assert_eq!((options.drift, options.always_loaded[0].as_str()), (drift, "get_*"));
        }
    }
}
