//! Errors about configuration files: code, file, JSON path, message and remedy.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::code::Code;

/// An error about a configuration file or one of its entries.
///
/// No text of an error contains the value of a variable, of a header or of an argument.
///
/// ```
/// use std::path::Path;
///
/// use mcp_agent::config::{Code, ConfigFile, Environment, Scope};
///
/// let text = r#"{ "mcpServers": { "git": { "command": "git-mcp", "env": { "TOKEN": "${GIT_TOKEN}" } } } }"#;
/// let file = ConfigFile::parse(Path::new("/projects/demo/.mcp.json"), text, Scope::Named, &Environment::default())?;
/// assert!(file.servers.is_empty());
/// assert_eq!(file.errors[0].code, Code::UnsetVariable);
/// assert_eq!(file.errors[0].path, "$.mcpServers.git.env.TOKEN");
/// # Ok::<(), mcp_agent::config::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigError {
    /// The stable code.
    pub code: Code,
    /// The file.
    pub file: PathBuf,
    /// The JSON path of the fault, also for TOML and YAML. `$` is the whole file.
    pub path: String,
    /// The name of the server whose entry has the fault. `None` for a fault of the whole file.
    pub server: Option<String>,
    /// Whether the entry requires its server. A host must then not start. `false` for a fault of the whole file.
    pub required: bool,
    /// The fault.
    pub message: String,
    /// The change that removes the fault.
    pub remedy: String,
}

impl ConfigError {
    /// Returns an error.
    pub fn new(
        code: Code,
        file: impl Into<PathBuf>,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            code,
            file: file.into(),
            path: path.into(),
            server: None,
            required: false,
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    /// Sets the name of the server.
    #[must_use]
    pub fn server(mut self, name: impl Into<String>) -> Self {
        self.server = Some(name.into());
        self
    }

    /// Sets whether the entry requires its server.
    #[must_use]
    pub fn required(mut self, is_required: bool) -> Self {
        self.required = is_required;
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {} ({}); {}", self.file.display(), self.path, self.message, self.code, self.remedy)
    }
}

impl std::error::Error for ConfigError {}

/// A fault at a JSON path, before its file is known.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) path: String,
    pub(super) message: String,
    pub(super) remedy: String,
}

impl Fault {
    pub(super) fn new(
        code: Code,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { code, path: path.into(), message: message.into(), remedy: remedy.into() }
    }

    pub(super) fn in_file(self, file: &Path) -> ConfigError {
        ConfigError::new(self.code, file, self.path, self.message, self.remedy)
    }
}
