//! The command or the URL of a server.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::PathBuf,
};

use mcp_protocol::auth::Secret;
use url::Url;

use super::exchange::TokenExchange;

/// The command or the URL of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Endpoint {
    /// A child process with stdio.
    Stdio(StdioServer),
    /// A URL.
    Http(HttpServer),
}

/// A command that starts a server with stdio. See [`ServerDefinition`](super::ServerDefinition) for an example.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StdioServer {
    /// The program: a path, or a name that the system looks up in `PATH`.
    pub command: String,
    /// The arguments.
    pub args: Vec<String>,
    /// Environment variables of the process.
    pub env: BTreeMap<String, Secret>,
    /// Environment variables that the process inherits from the host, if they are set.
    pub inherited_env: BTreeSet<String>,
    /// The working directory. `None` is the directory of the host.
    pub cwd: Option<PathBuf>,
}

/// A server at a URL. See [`ServerDefinition`](super::ServerDefinition) for an example.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpServer {
    /// The URL with the scheme `http` or `https`.
    pub url: String,
    /// Headers of each request, in the order of the entry.
    pub headers: Vec<(String, Secret)>,
    /// The HTTP transport. Default: [`HttpTransport::Auto`].
    pub transport: HttpTransport,
    /// The client id of a registered OAuth client.
    pub oauth_client_id: Option<String>,
    /// The secret of a registered OAuth client.
    pub oauth_client_secret: Option<Secret>,
    /// The issuer of the authorization server that alone receives the secret.
    pub oauth_issuer: Option<String>,
    /// The OAuth scopes of a login. Empty selects the scopes that the server names.
    pub oauth_scopes: Vec<String>,
    /// The port on 127.0.0.1 that receives the response of a login. `None` selects any port.
    pub oauth_redirect_port: Option<u16>,
    /// The exchange of the tokens of callers for tokens of the server.
    pub token_exchange: Option<Box<TokenExchange>>,
}

/// The HTTP transports of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum HttpTransport {
    /// Streamable HTTP, and HTTP+SSE if the server does not support Streamable HTTP.
    #[default]
    Auto,
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE of revision 2024-11-05.
    Sse,
}

impl StdioServer {
    /// Returns a command without arguments.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            env: BTreeMap::new(),
            inherited_env: BTreeSet::new(),
            cwd: None,
        }
    }
}

impl HttpServer {
    /// Returns a URL without headers.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            headers: Vec::new(),
            transport: HttpTransport::default(),
            oauth_client_id: None,
            oauth_client_secret: None,
            oauth_issuer: None,
            oauth_scopes: Vec::new(),
            oauth_redirect_port: None,
            token_exchange: None,
        }
    }

    /// Whether the definition names a client, scopes or a port for logins.
    pub(crate) fn has_oauth_settings(&self) -> bool {
        self.oauth_client_id.is_some()
            || self.oauth_client_secret.is_some()
            || self.oauth_issuer.is_some()
            || !self.oauth_scopes.is_empty()
            || self.oauth_redirect_port.is_some()
    }
}

impl From<StdioServer> for Endpoint {
    fn from(server: StdioServer) -> Self {
        Self::Stdio(server)
    }
}

impl From<HttpServer> for Endpoint {
    fn from(server: HttpServer) -> Self {
        Self::Http(server)
    }
}

impl fmt::Debug for StdioServer {
    /// Shows the number of the arguments and the names of the variables.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioServer")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env)
            .field("inherited_env", &self.inherited_env)
            .field("cwd", &self.cwd)
            .finish()
    }
}

impl fmt::Debug for HttpServer {
    /// Shows the origin of the URL and the names of the headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = Url::parse(&self.url).map(|url| url.origin().ascii_serialization());
        f.debug_struct("HttpServer")
            .field("url", &origin.as_deref().unwrap_or("(invalid)"))
            .field("headers", &self.headers)
            .field("transport", &self.transport)
            .field("oauth_client_id", &self.oauth_client_id)
            .field("oauth_client_secret", &self.oauth_client_secret)
            .field("oauth_issuer", &self.oauth_issuer)
            .field("oauth_scopes", &self.oauth_scopes)
            .field("oauth_redirect_port", &self.oauth_redirect_port)
            .field("token_exchange", &self.token_exchange)
            .finish()
    }
}
