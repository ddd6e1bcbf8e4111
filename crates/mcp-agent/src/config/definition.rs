//! The definition of one server.

use std::{collections::BTreeMap, time::Duration};

use mcp_protocol::{JsonObject, auth::Secret};

use super::{
    endpoint::{Endpoint, HttpServer, StdioServer},
    origin::Origin,
};
use crate::sharing::Sharing;

/// The largest length of the name of a server, in bytes.
pub const MAX_NAME: usize = 256;

/// A server of a host: its endpoint, its limits and its tools.
///
/// The texts of the endpoint are final: a reader of a configuration file has expanded their variables. `Debug` shows no
/// argument, no value of an environment variable, no header and no path of a URL, because they may contain secrets.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_agent::config::{Endpoint, ServerDefinition};
///
/// let mut server = ServerDefinition::stdio("files", "mcp-files")
///     .args(["--root", "."])
///     .env("TOKEN", "hunter2")
///     .call_timeout(Duration::from_secs(30))
///     .denied_tools(["delete_*"]);
/// assert!(matches!(&server.endpoint, Endpoint::Stdio(stdio) if stdio.args.len() == 2));
/// assert!(!format!("{server:?}").contains("hunter2"));
/// server.enabled = false;
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ServerDefinition {
    /// The name, which is unique in a host. It is not empty, has at most [`MAX_NAME`] bytes and contains neither `:` nor
    /// control characters.
    pub name: String,
    /// The command or the URL.
    pub endpoint: Endpoint,
    /// Whether a host uses the server. Default: `true`.
    pub enabled: bool,
    /// Whether a host fails to start without the server. Default: `false`.
    pub required: bool,
    /// The longest time that a host waits for the server at its start. `None` is the default of the host.
    pub start_timeout: Option<Duration>,
    /// The time limit of a call. `None` is the default of the host.
    pub call_timeout: Option<Duration>,
    /// The time limits of calls of single tools. They replace [`ServerDefinition::call_timeout`].
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// The idle time after which a host stops the server. `None` is the default of the host.
    pub idle_stop: Option<Duration>,
    /// The callers of a host that share a connection to the server. `None` is the default of the host.
    pub sharing: Option<Sharing>,
    /// The largest number of connections of a host to the server. `None` is the default of the host.
    pub max_connections: Option<usize>,
    /// The largest number of connections of one principal to the server. `None` is the default of the host.
    pub connections_per_principal: Option<usize>,
    /// Whether the server can send input requests during calls. `false` lets the host learn it from the first input request.
    pub asks: bool,
    /// Globs (`*`, `?`) for the tools that a host offers. `None` offers all tools.
    pub allowed_tools: Option<Vec<String>>,
    /// Globs for the tools that a host never offers. They override [`ServerDefinition::allowed_tools`].
    pub denied_tools: Vec<String>,
    /// Globs for the tools that need no approval of a call. `*` trusts the whole server. They are rules with the effect `allow`.
    pub trusted_tools: Vec<String>,
    /// The tools whose calls need an approval, as globs. They override [`ServerDefinition::trusted_tools`]. They are
    /// rules with the effect `ask`.
    pub asking_tools: Vec<String>,
    /// Whether calls of tools that no list names need an approval. Default: `false`.
    pub asks_by_default: bool,
    /// Globs for the tools that are never deferred.
    pub pinned_tools: Vec<String>,
    /// The description of the server for users.
    pub description: Option<String>,
    /// The other members of `x-mcp` in the entry of a configuration file.
    pub extra: JsonObject,
    /// The entry of a configuration file that defines the server. `None` for a definition of a program.
    pub origin: Option<Origin>,
}

impl ServerDefinition {
    /// Returns a server with an endpoint. The other fields have their defaults.
    pub fn new(name: impl Into<String>, endpoint: impl Into<Endpoint>) -> Self {
        Self {
            name: name.into(),
            endpoint: endpoint.into(),
            enabled: true,
            required: false,
            start_timeout: None,
            call_timeout: None,
            tool_timeouts: BTreeMap::new(),
            idle_stop: None,
            sharing: None,
            max_connections: None,
            connections_per_principal: None,
            asks: false,
            allowed_tools: None,
            denied_tools: Vec::new(),
            trusted_tools: Vec::new(),
            asking_tools: Vec::new(),
            asks_by_default: false,
            pinned_tools: Vec::new(),
            description: None,
            extra: JsonObject::new(),
            origin: None,
        }
    }

    /// Returns the reason why a text cannot be the name of a server. `None` if it can.
    ///
    /// ```
    /// use mcp_agent::config::ServerDefinition;
    ///
    /// assert_eq!(ServerDefinition::name_fault("my-server"), None);
    /// assert!(ServerDefinition::name_fault("a:b").is_some());
    /// ```
    #[must_use]
    pub fn name_fault(name: &str) -> Option<&'static str> {
        Some(if name.is_empty() {
            "the name of the server is empty"
        } else if name.len() > MAX_NAME {
            "the name of the server has more than 256 bytes"
        } else if name.contains(':') {
            "the name of the server contains `:`, which separates it from the name of a tool"
        } else if name.chars().any(char::is_control) || name.trim() != name {
            "the name of the server contains control characters or begins or ends with a space"
        } else {
            return None;
        })
    }

    /// Returns a server that a host starts as a child process.
    pub fn stdio(name: impl Into<String>, command: impl Into<String>) -> Self {
        Self::new(name, StdioServer::new(command))
    }

    /// Returns a server at a URL.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> Self {
        Self::new(name, HttpServer::new(url))
    }

    /// Adds arguments of the command. A server at a URL has no arguments and does not change.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        if let Endpoint::Stdio(stdio) = &mut self.endpoint {
            stdio.args.extend(args.into_iter().map(Into::into));
        }
        self
    }

    /// Sets an environment variable of the command. A server at a URL has no variables and does not change.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        if let Endpoint::Stdio(stdio) = &mut self.endpoint {
            stdio.env.insert(name.into(), value.into());
        }
        self
    }

    /// Adds a header of each request to a URL. A command has no headers and does not change.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<Secret>) -> Self {
        if let Endpoint::Http(http) = &mut self.endpoint {
            http.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Disables the server: a host keeps the definition and does not connect.
    #[must_use]
    pub fn disabled(mut self) -> Self {
        self.enabled = false;
        self
    }

    /// Makes the server required: a host fails to start without it.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Sets the longest time that a host waits for the server at its start.
    #[must_use]
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = Some(limit);
        self
    }

    /// Sets the time limit of a call.
    #[must_use]
    pub fn call_timeout(mut self, limit: Duration) -> Self {
        self.call_timeout = Some(limit);
        self
    }

    /// Sets the time limit of the calls of one tool.
    #[must_use]
    pub fn tool_timeout(mut self, tool: impl Into<String>, limit: Duration) -> Self {
        self.tool_timeouts.insert(tool.into(), limit);
        self
    }

    /// Sets the globs for the tools that a host offers.
    #[must_use]
    pub fn allowed_tools(mut self, globs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_tools = Some(globs.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the globs for the tools that a host never offers.
    #[must_use]
    pub fn denied_tools(mut self, globs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.denied_tools = globs.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the globs for the tools that need no approval of a call.
    #[must_use]
    pub fn trusted_tools(mut self, globs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.trusted_tools = globs.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the globs for the tools whose calls need an approval.
    #[must_use]
    pub fn asking_tools(mut self, globs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.asking_tools = globs.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the globs for the tools that a host never defers.
    #[must_use]
    pub fn pinned_tools(mut self, globs: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.pinned_tools = globs.into_iter().map(Into::into).collect();
        self
    }
}
