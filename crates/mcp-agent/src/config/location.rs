//! The paths of configuration files: the format of a path, and the files of a user and of a project.

use std::path::{Path, PathBuf};

use super::{
    environment::Environment,
    origin::{Format, Scope},
};

impl Format {
    /// All formats.
    pub const ALL: &[Self] = &[
        Self::Portable,
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::VsCode,
        Self::Copilot,
        Self::Zed,
        Self::Codex,
        Self::Windsurf,
        Self::GeminiCli,
        Self::OpenCode,
        Self::Agents,
        Self::Goose,
        Self::Cline,
        Self::Continue,
        Self::LmStudio,
        Self::Kiro,
        Self::Crush,
    ];

    /// Returns the name of the client for command lines, for example `claude-desktop`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "mcp",
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Copilot => "copilot",
            Self::Zed => "zed",
            Self::Codex => "codex",
            Self::Windsurf => "windsurf",
            Self::GeminiCli => "gemini",
            Self::OpenCode => "opencode",
            Self::Agents => "agents",
            Self::Goose => "goose",
            Self::Cline => "cline",
            Self::Continue => "continue",
            Self::LmStudio => "lm-studio",
            Self::Kiro => "kiro",
            Self::Crush => "crush",
        }
    }

    /// Returns the format of a client by its name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// Returns the format of a file by its path. `None` if several formats or no format use such a path.
    ///
    /// ```
    /// use std::path::Path;
    ///
    /// use mcp_agent::config::Format;
    ///
    /// let format = |path| Format::of_path(Path::new(path));
    /// assert_eq!(format("/project/.cursor/mcp.json"), Some(Format::Cursor));
    /// assert_eq!(format("/project/.mcp.json"), Some(Format::Portable));
    /// assert_eq!(format("/project/settings.json"), None);
    /// ```
    #[must_use]
    pub fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let mut parents = path.ancestors().skip(1).filter_map(|parent| parent.file_name()?.to_str());
        let parent = parents.next().unwrap_or_default();
        let grandparent = parents.next().unwrap_or_default();
        let is_json = name.ends_with(".json") || name.ends_with(".jsonc");
        let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
        Some(match (name, parent) {
            (".mcp.json", _) => Self::Portable,
            ("claude_desktop_config.json", _) => Self::ClaudeDesktop,
            (".claude.json", _) => Self::ClaudeCode,
            ("mcp-config.json", _) => Self::Copilot,
            ("mcp_config.json", _) => Self::Windsurf,
            ("opencode.json" | "opencode.jsonc", _) => Self::OpenCode,
            ("cline_mcp_settings.json", _) => Self::Cline,
            ("crush.json" | ".crush.json", _) => Self::Crush,
            ("config.toml", _) => Self::Codex,
            ("mcp.json", ".cursor") => Self::Cursor,
            ("mcp.json", ".vscode" | "User") => Self::VsCode,
            ("mcp.json", ".agents") => Self::Agents,
            ("mcp.json", ".lmstudio" | "lm-studio") => Self::LmStudio,
            ("mcp.json", "settings") if grandparent == ".kiro" => Self::Kiro,
            ("settings.json", ".gemini") => Self::GeminiCli,
            ("settings.json", "zed" | ".zed" | "Zed") => Self::Zed,
            ("settings.json", _) => return None,
            _ if is_yaml && (parent == ".continue" || grandparent == ".continue") => Self::Continue,
            _ if is_yaml && (parent == "goose" || grandparent == "goose") => Self::Goose,
            _ if is_json => Self::Portable,
            _ => return None,
        })
    }

    /// Returns the file of the user for the format. `None` without a home directory.
    #[must_use]
    pub fn user_file(self, environment: &Environment) -> Option<PathBuf> {
        let home = environment.home.as_deref()?;
        let config = environment.directory("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), Path::to_owned);
        let app_data = || environment.app_data.clone().unwrap_or_else(|| home.join("AppData/Roaming"));
        // The directory of applications: that of macOS, of Windows or of other systems.
        let applications = || {
            if cfg!(target_os = "macos") {
                home.join("Library/Application Support")
            } else if cfg!(windows) {
                app_data()
            } else {
                config.clone()
            }
        };
        let variable = |name: &str| environment.directory(name).map(Path::to_owned);
        Some(match self {
            Self::Portable => config.join("mcp/mcp.json"),
            Self::ClaudeDesktop => applications().join("Claude/claude_desktop_config.json"),
            Self::ClaudeCode => variable("CLAUDE_CONFIG_DIR").unwrap_or_else(|| home.to_owned()).join(".claude.json"),
            Self::Cursor => home.join(".cursor/mcp.json"),
            Self::VsCode => applications().join("Code/User/mcp.json"),
            Self::Copilot => variable("COPILOT_HOME").unwrap_or_else(|| home.join(".copilot")).join("mcp-config.json"),
            Self::Zed if cfg!(windows) => app_data().join("Zed/settings.json"),
            // Zed uses the same directory on macOS and Linux.
            Self::Zed => config.join("zed/settings.json"),
            Self::Codex => variable("CODEX_HOME").unwrap_or_else(|| home.join(".codex")).join("config.toml"),
            Self::Windsurf => home.join(".codeium/windsurf/mcp_config.json"),
            Self::GeminiCli => home.join(".gemini/settings.json"),
            Self::OpenCode => {
                let commented = config.join("opencode/opencode.jsonc");
                if commented.exists() { commented } else { config.join("opencode/opencode.json") }
            }
            Self::Agents => home.join(".agents/mcp.json"),
            Self::Goose if cfg!(windows) => app_data().join("Block/goose/config/config.yaml"),
            Self::Goose => config.join("goose/config.yaml"),
            Self::Cline => {
                applications().join("Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json")
            }
            Self::Continue => home.join(".continue/config.yaml"),
            Self::LmStudio => {
                let older = home.join(".cache/lm-studio/mcp.json");
                let newer = home.join(".lmstudio/mcp.json");
                if older.exists() && !newer.exists() { older } else { newer }
            }
            Self::Kiro => home.join(".kiro/settings/mcp.json"),
            Self::Crush if cfg!(windows) => {
                variable("LOCALAPPDATA").unwrap_or_else(|| home.join("AppData/Local")).join("crush/crush.json")
            }
            Self::Crush => config.join("crush/crush.json"),
        })
    }

    /// Returns the path of the file of a project, relative to the directory of the project. `None` if the format has none.
    #[must_use]
    pub fn project_file(self) -> Option<&'static str> {
        Some(match self {
            Self::Portable => ".mcp.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::VsCode => ".vscode/mcp.json",
            Self::Codex => ".codex/config.toml",
            Self::GeminiCli => ".gemini/settings.json",
            Self::OpenCode => "opencode.json",
            Self::Agents => ".agents/mcp.json",
            Self::Kiro => ".kiro/settings/mcp.json",
            Self::Crush => ".crush.json",
            _ => return None,
        })
    }
}

/// Returns the directory that relative paths of a file belong to: its directory, or that above a directory of a client.
pub(super) fn base(file: &Path, format: Format) -> &Path {
    let directory = file.parent().unwrap_or(Path::new("."));
    let levels = match format {
        Format::Kiro => 2,
        Format::Cursor | Format::VsCode | Format::GeminiCli | Format::Codex | Format::Agents | Format::Continue => 1,
        _ => 0,
    };
    let is_of_client = directory
        .file_name()
        .and_then(|name| name.to_str())
        .is_some_and(|name| name.starts_with('.') || name == "settings" && levels == 2);
    if is_of_client { directory.ancestors().nth(levels).unwrap_or(directory) } else { directory }
}

/// Returns the configuration file of a directory: the nearest `.mcp.json` of the workspace and the directories above it,
/// otherwise `mcp/mcp.json` in the configuration directory of the user. `None` if no such file exists.
///
/// The file in a project has [`Scope::Project`], so its servers need an approval. The file in the home directory belongs to
/// the user.
///
/// ```
/// use mcp_agent::config::{Environment, discover};
///
/// assert_eq!(discover(&Environment::default()), None);
/// ```
#[must_use]
pub fn discover(environment: &Environment) -> Option<(PathBuf, Scope)> {
    let directories = environment.workspace.iter().flat_map(|directory| directory.ancestors());
    for directory in directories {
        let file = directory.join(".mcp.json");
        if file.is_file() {
            let is_of_user = environment.home.as_deref() == Some(directory);
            return Some((file, if is_of_user { Scope::User } else { Scope::Project }));
        }
    }
    let file = Format::Portable.user_file(environment).filter(|file| file.is_file())?;
    Some((file, Scope::User))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_each_file_has_its_format() {
        let environment = Environment::default().home("/h");
        for format in Format::ALL {
            let file = format.user_file(&environment).unwrap();
            assert_eq!(Format::of_path(&file), Some(*format), "{}", file.display());
            if let Some(file) = format.project_file() {
                assert_eq!(Format::of_path(&Path::new("/p").join(file)), Some(*format), "{file}");
            }
            assert_eq!(Format::by_name(format.name()), Some(*format));
        }
        for (path, expected) in [
            ("/x/servers.json", Some(Format::Portable)),
            ("mcp.json", Some(Format::Portable)),
            ("/p/Code - Insiders/User/mcp.json", Some(Format::VsCode)),
            ("/x/.continue/mcpServers/git.yaml", Some(Format::Continue)),
            ("/x/settings.json", None),
            ("/x/config.yaml", None),
            ("/x/mcp", None),
        ] {
            assert_eq!(Format::of_path(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn relative_paths_belong_to_the_project() {
        for (file, format, expected) in [
            ("/p/.mcp.json", Format::Portable, "/p"),
            ("/p/.cursor/mcp.json", Format::Cursor, "/p"),
            ("/p/.kiro/settings/mcp.json", Format::Kiro, "/p"),
            ("/p/opencode.json", Format::OpenCode, "/p"),
            ("/c/Code/User/mcp.json", Format::VsCode, "/c/Code/User"),
        ] {
            assert_eq!(base(Path::new(file), format), Path::new(expected), "{file}");
        }
    }
}
