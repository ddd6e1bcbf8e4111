//! The rules of each format: syntax, member names, units and variables.

use super::{document::Syntax, expand::Variables, node::Unit, origin::Format};

/// The rules of one format.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    pub(super) syntax: Syntax,
    /// The member with the servers. `None` if the whole file is the map.
    pub(super) key: Option<&'static str>,
    /// Whether the file contains servers only, so that a missing member is a fault.
    pub(super) is_dedicated: bool,
    pub(super) variables: Variables,
    pub(super) command: &'static str,
    pub(super) command_form: CommandForm,
    pub(super) env: &'static str,
    pub(super) urls: &'static [&'static str],
    pub(super) headers: &'static str,
    /// The members with times: name, unit and limit.
    pub(super) times: &'static [(&'static str, Unit, Limit)],
    pub(super) allowed: &'static str,
    pub(super) denied: &'static str,
    pub(super) trusted: &'static str,
}

/// The form of the member with the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CommandForm {
    /// A string. The arguments are in `args`.
    Text,
    /// An array of the program and its arguments.
    Array,
    /// A string or an array.
    TextOrArray,
    /// A string, or an object with `path`, `args` and `env`.
    TextOrObject,
}

/// The time limit that a member sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Start,
    Call,
}

const BASE: Rules = Rules {
    syntax: Syntax::Json,
    key: Some("mcpServers"),
    is_dedicated: true,
    variables: Variables::None,
    command: "command",
    command_form: CommandForm::Text,
    env: "env",
    urls: &["url"],
    headers: "headers",
    times: &[],
    allowed: "",
    denied: "disabledTools",
    trusted: "autoApprove",
};

impl Format {
    /// Returns the syntax of the file.
    pub(crate) fn syntax(self) -> Syntax {
        self.rules().syntax
    }

    /// Returns the member with the servers. `None` if the whole file is the map.
    pub(crate) fn key(self) -> Option<&'static str> {
        self.rules().key
    }

    /// Returns whether a program can edit files of the format. Users edit the others themselves.
    #[must_use]
    pub fn is_editable(self) -> bool {
        self.syntax() != Syntax::Yaml
    }

    /// Returns the rules of the format.
    pub(super) fn rules(self) -> Rules {
        use Limit::{Call, Start};
        use Unit::{Milliseconds, Seconds};
        match self {
            Self::Portable => {
                Rules { variables: Variables::Defaults, times: &[("timeout", Milliseconds, Call)], ..BASE }
            }
            Self::ClaudeCode => Rules {
                variables: Variables::Defaults,
                is_dedicated: false,
                times: &[("timeout", Milliseconds, Call)],
                ..BASE
            },
            Self::ClaudeDesktop => Rules { is_dedicated: false, ..BASE },
            Self::Cursor => Rules { variables: Variables::Cursor, ..BASE },
            Self::VsCode => Rules { key: Some("servers"), variables: Variables::VsCode, ..BASE },
            Self::Copilot => Rules { variables: Variables::Defaults, allowed: "tools", ..BASE },
            Self::Zed => Rules {
                key: Some("context_servers"),
                is_dedicated: false,
                command_form: CommandForm::TextOrObject,
                ..BASE
            },
            Self::Codex => Rules {
                syntax: Syntax::Toml,
                key: Some("mcp_servers"),
                is_dedicated: false,
                headers: "http_headers",
                times: &[
                    ("startup_timeout_sec", Seconds, Start),
                    ("startup_timeout_ms", Milliseconds, Start),
                    ("tool_timeout_sec", Seconds, Call),
                ],
                allowed: "enabled_tools",
                denied: "disabled_tools",
                trusted: "",
                ..BASE
            },
            Self::Windsurf => Rules { variables: Variables::Env, urls: &["serverUrl", "url"], ..BASE },
            Self::GeminiCli => Rules {
                is_dedicated: false,
                variables: Variables::Gemini,
                urls: &["url", "httpUrl"],
                times: &[("timeout", Milliseconds, Call)],
                allowed: "includeTools",
                denied: "excludeTools",
                trusted: "",
                ..BASE
            },
            Self::OpenCode => Rules {
                key: Some("mcp"),
                is_dedicated: false,
                variables: Variables::OpenCode,
                command_form: CommandForm::Array,
                env: "environment",
                times: &[("timeout", Milliseconds, Start)],
                ..BASE
            },
            Self::Agents => Rules {
                key: None,
                variables: Variables::OpenCode,
                command_form: CommandForm::TextOrArray,
                env: "environment",
                times: &[("timeout", Milliseconds, Start)],
                ..BASE
            },
            Self::Goose => Rules {
                syntax: Syntax::Yaml,
                key: Some("extensions"),
                is_dedicated: false,
                command: "cmd",
                env: "envs",
                urls: &["uri", "url"],
                times: &[("timeout", Seconds, Call)],
                allowed: "available_tools",
                ..BASE
            },
            Self::Cline => Rules { times: &[("timeout", Seconds, Call)], ..BASE },
            Self::Continue => Rules {
                syntax: Syntax::Yaml,
                is_dedicated: false,
                variables: Variables::Secrets,
                times: &[("connectionTimeout", Milliseconds, Start)],
                ..BASE
            },
            Self::LmStudio => BASE,
            Self::Kiro => Rules { variables: Variables::Braces, ..BASE },
            Self::Crush => Rules {
                key: Some("mcp"),
                is_dedicated: false,
                variables: Variables::Shell,
                times: &[("timeout", Seconds, Start)],
                denied: "disabled_tools",
                ..BASE
            },
        }
    }
}
