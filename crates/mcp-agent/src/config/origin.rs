//! The place of a definition: file, JSON path, format and scope.

use std::{fmt, path::PathBuf};

/// The entry of a configuration file that defines a server.
///
/// ```
/// use mcp_agent::config::{Format, Origin, Scope};
///
/// let origin = Origin::new("/projects/demo/.mcp.json", "$.mcpServers.files", Format::Portable, Scope::Project);
/// assert_eq!(origin.to_string(), "/projects/demo/.mcp.json: $.mcpServers.files");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The file.
    pub file: PathBuf,
    /// The JSON path of the entry, also for TOML and YAML, for example `$.mcpServers.files`.
    pub path: String,
    /// The format of the file.
    pub format: Format,
    /// The owner of the file.
    pub scope: Scope,
    /// The hash of the entry without expanded variables, of the path of the file, of the name, and of the inputs and files that
    /// the entry refers to. An approval is for this hash. It is empty if no file was read, and no approval is then possible.
    pub fingerprint: String,
}

/// The owner of a configuration file, which decides whether its servers need an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// A file that the user named. Its servers need no approval.
    Named,
    /// A file of the user. Its servers need no approval.
    User,
    /// A discovered file of a project. Each of its servers needs an approval.
    Project,
}

/// The format of a configuration file. Its variable rules and units belong to it alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Format {
    /// `.mcp.json`: `mcpServers` with `${VAR}` and `${VAR:-default}`, and `x-mcp` for this project's own members.
    Portable,
    /// Claude Desktop: `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Claude Code: `~/.claude.json`.
    ClaudeCode,
    /// Cursor: `.cursor/mcp.json`.
    Cursor,
    /// VS Code: `mcp.json` with `servers` and `inputs`.
    VsCode,
    /// GitHub Copilot: `~/.copilot/mcp-config.json`.
    Copilot,
    /// Zed: `context_servers` in `settings.json`.
    Zed,
    /// Codex: `mcp_servers` in `config.toml`.
    Codex,
    /// Windsurf: `mcp_config.json`.
    Windsurf,
    /// Gemini CLI: `.gemini/settings.json`.
    GeminiCli,
    /// opencode: `mcp` in `opencode.json`.
    OpenCode,
    /// The flat map of `.agents/mcp.json`.
    Agents,
    /// goose: `extensions` in `config.yaml`.
    Goose,
    /// Cline: `cline_mcp_settings.json`.
    Cline,
    /// Continue: the list `mcpServers` in `config.yaml`.
    Continue,
    /// LM Studio: `.lmstudio/mcp.json`.
    LmStudio,
    /// Kiro: `.kiro/settings/mcp.json`.
    Kiro,
    /// Crush: `mcp` in `crush.json`.
    Crush,
}

impl Origin {
    /// Returns the place of an entry.
    pub fn new(file: impl Into<PathBuf>, path: impl Into<String>, format: Format, scope: Scope) -> Self {
        Self { file: file.into(), path: path.into(), format, scope, fingerprint: String::new() }
    }

    /// Returns whether the server needs an approval before a host connects to it.
    #[must_use]
    pub fn needs_approval(&self) -> bool {
        self.scope == Scope::Project
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file.display(), self.path)
    }
}
