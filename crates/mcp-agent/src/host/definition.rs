//! Connectors and options from the definitions of servers.

use std::sync::Arc;

use mcp_client::{
    ChildProcess,
    http::Http,
    transport::{BoxFuture, Connect, Transport, TransportError},
};
use sha2::{Digest, Sha256};

use super::{ServerError, error::check_name};
use crate::{
    GlobError, ServerOptions,
    config::{Approvals, Endpoint, HttpTransport, ServerDefinition},
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

/// Returns the connector of a definition: a child process, or an HTTP endpoint with its headers.
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
    let invalid = |fault: String| DefinitionError { server: definition.name.clone(), fault };
    match &definition.endpoint {
        Endpoint::Stdio(stdio) => {
            let mut child = ChildProcess::new(&stdio.command).args(&stdio.args);
            for (name, value) in &stdio.env {
                child = child.env(name, value.expose());
            }
            for name in &stdio.inherited_env {
                child = child.inherit_env(name);
            }
            if let Some(directory) = &stdio.cwd {
                child = child.current_dir(directory);
            }
            Ok(Arc::new(child))
        }
        Endpoint::Http(http) => {
            let endpoint = match http.transport {
                HttpTransport::Sse => Http::sse(&http.url),
                _ => Http::new(&http.url),
            };
            let mut endpoint = endpoint.map_err(|error| invalid(error.to_string()))?;
            for (name, value) in &http.headers {
                endpoint = endpoint.header(name, value.expose()).map_err(|error| invalid(error.to_string()))?;
            }
            Ok(Arc::new(endpoint))
        }
    }
}

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
    pub(super) fn new(definition: &ServerDefinition, approvals: Option<&Approvals>) -> Result<Self, ServerError> {
        Self::with(definition, connector(definition)?, approvals)
    }

    /// Returns the server of a definition with a connector of the application.
    pub(super) fn with(
        definition: &ServerDefinition,
        connector: Arc<dyn Connect>,
        approvals: Option<&Approvals>,
    ) -> Result<Self, ServerError> {
        check_name(&definition.name)?;
        let mut options = options(definition)?;
        options.needs_approval &= !approvals.is_some_and(|approvals| is_approved(approvals, definition));
        Ok(Self { connector, options, fingerprint: fingerprint(definition) })
    }
}

/// Returns true if the user has approved the definition. An approval that cannot be read does not count.
fn is_approved(approvals: &Approvals, definition: &ServerDefinition) -> bool {
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
    options.idle_stop = definition.idle_stop;
    options.sharing = definition.sharing.unwrap_or_default();
    options.max_connections = definition.max_connections.unwrap_or(options.max_connections);
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
