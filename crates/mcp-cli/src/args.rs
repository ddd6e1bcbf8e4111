//! The command line: options, commands and their help texts.

mod account;
mod configuration;
mod format;
mod given;
mod serving;
mod values;

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use mcp_protocol::{LoggingLevel, ProtocolVersion};

use self::values::{Headers, headers, level, limit, revision, seconds, variable};
pub(crate) use self::{
    account::{Account, Auth, ClientOptions},
    configuration::Configuration,
    format::Format,
    serving::{GatewayOptions, Listen, NameForm, Serving},
    values::read_secret,
};
use crate::style::When;

/// The introduction of `mcp --help`. Each paragraph is one line: clap wraps it at the width of the terminal.
const ABOUT: &str = "Connect to any MCP server from a terminal.

Give the server as a URL in the first word, or as a command after `--`. \
`mcp` starts the command and exchanges messages over its stdin and stdout:

  mcp tools http://127.0.0.1:8080/mcp
  mcp call add a=1 b=2 -- ./my-server --stdio

If the command line names no server, `mcp` uses the URL or the command in the variable MCP_SERVER, then the servers of the \
nearest `.mcp.json`. --config names another configuration file. \
The last word of `mcp read` is always the resource. \
If `--` or MCP_SERVER names the server, all words of `mcp listen` are resources.";

/// The end of `mcp --help`.
const EXIT_CODES: &str = "Exit codes:
  0    success
  1    the tool failed, a policy refused the request, `mcp lint` found errors, `mcp whoami` found no login, `mcp doctor` found a failed server. Or `mcp` cannot use a local file, the address to listen on or the store of the tokens
  2    the command line, a name in it, a file that it names, the configuration file or a setting of a login is wrong
  3    the server or its authorization server is unreachable, overloaded, silent or closed early. Or the user has denied or not approved the entry of the server, or each entry of the file
  4    the server answered with an error or invalid data, it is not an MCP server, or a login failed for a reason that no other code has
  130  Ctrl-C (129 and 143: another signal)

If stdin and stderr are a terminal, `mcp` shows the questions of the server there, one after the other. \
Otherwise `mcp` declares to the server that it cannot ask the user, unless `--answer`, `--yes` or `--decline` is given. \
`mcp` respects NO_COLOR and CLICOLOR_FORCE.";

/// The end of `-h`.
const MORE_OPTIONS: &str = "--help also shows the options for every command and the exit codes.";

/// Connect to any MCP server from a terminal.
#[derive(Debug, Parser)]
#[command(name = "mcp", version, long_about = ABOUT, after_long_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options for every command")]
pub(crate) struct Options {
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) json: bool,
    /// Print in colour.
    #[arg(long, global = true, hide_short_help = true, value_name = "WHEN", default_value = "auto", value_enum)]
    pub(crate) color: When,
    /// Send this header with every HTTP request. Other users of this machine can read a command line. To keep a value
    /// secret, write `Name: @FILE`: the file holds the value. `@FILE` alone reads one header from each line of the file.
    #[arg(long, short = 'H', global = true, hide_short_help = true, value_name = "NAME: VALUE", value_parser = headers)]
    pub(crate) header: Vec<Headers>,
    /// Allow a login to send requests to this host in a private network, such as the authorization server of a company. The
    /// variable MCP_ALLOW_HOST names further hosts, with spaces between them.
    #[arg(long, global = true, hide_short_help = true, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Use the servers of this configuration file. Without a server, `mcp` uses the nearest `.mcp.json` and then the file of
    /// the user. The path of the file decides its format.
    #[arg(id = "config_file", long = "config", global = true, hide_short_help = true, value_name = "FILE")]
    pub(crate) config_file: Option<PathBuf>,
    /// Use this server of the configuration file.
    #[arg(id = "config_server", long = "server", global = true, hide_short_help = true, value_name = "NAME")]
    pub(crate) config_server: Option<String>,
    /// Decide calls, reads, prompts and completions by this policy file before they leave `mcp`. Repeat the option for several
    /// files: the first file with a matching rule decides. For servers of a configuration file.
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub(crate) policy: Vec<PathBuf>,
    /// Store the definition of each tool in this file on its first use, and refuse the call of a tool whose definition has
    /// changed since. For servers of a configuration file.
    #[arg(long, global = true, hide_short_help = true, value_name = "FILE")]
    pub(crate) pins: Option<PathBuf>,
    /// Set the idle timeout of the server, in seconds. The total timeout of a call is ten times as long, and at least ten
    /// minutes.
    #[arg(long, global = true, hide_short_help = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Use only this revision of the protocol, for example `2025-11-25`.
    #[arg(long, global = true, hide_short_help = true, value_name = "DATE", value_parser = revision)]
    pub(crate) revision: Option<ProtocolVersion>,
    /// Show every message that is sent or received, and the stderr of the server's command.
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) trace: bool,
    /// Show the stderr of the server's command.
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) stderr: bool,
    /// Set an environment variable for the server's command. `NAME` alone passes the current value, which keeps a secret
    /// off the command line. The command inherits only a few common variables.
    #[arg(long, global = true, hide_short_help = true, value_name = "NAME[=VALUE]", value_parser = variable)]
    pub(crate) env: Vec<(String, OsString)>,
    /// Start the server's command in this directory.
    #[arg(long, global = true, hide_short_help = true, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Offer a directory (or a `file://` URI) as a root.
    #[arg(long, global = true, hide_short_help = true, value_name = "DIR")]
    pub(crate) root: Vec<String>,
    /// Answer the server's sampling requests with this program. It reads the request as JSON and prints the text of the
    /// answer. At a terminal, `mcp` asks for your consent first. Without this option, `mcp` rejects sampling requests.
    #[arg(long, global = true, hide_short_help = true, value_name = "PROGRAM")]
    pub(crate) sample_with: Option<String>,
    /// Answer the server's questions. `FIELD=VALUE` fills a field of a form, and the form decides the type. `FIELD:=JSON`,
    /// `FIELD=@FILE`, a JSON object and `@FILE` have the same meaning as for `mcp call`.
    #[arg(long, global = true, hide_short_help = true, value_name = "FIELD=VALUE")]
    pub(crate) answer: Vec<String>,
    /// Agree to the server's questions that have no fields, to the defaults of its forms, and to the requests for which a
    /// policy requires an approval.
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) yes: bool,
    /// Decline the server's questions that `--answer` and `--yes` do not answer, and the requests for which a policy requires
    /// an approval.
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) decline: bool,
    /// Request the server's log messages of this level and above, and show them.
    #[arg(long, global = true, hide_short_help = true, value_name = "LEVEL", value_parser = level)]
    pub(crate) log_level: Option<LoggingLevel>,
}

/// The words of a command, and the command of a server.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct Words {
    #[arg(hide = true)]
    pub(crate) words: Vec<String>,
    #[arg(last = true, hide = true)]
    pub(crate) server: Vec<String>,
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// List the tools, or show one tool with its arguments.
    #[command(override_usage = "mcp tools [URL] [NAME] [--format FORMAT [--strict]] [-- SERVER COMMAND]")]
    Tools {
        #[command(flatten)]
        words: Words,
        /// Print the member `tools` of a request to this LLM provider as JSON. Each loss is a warning on stderr.
        #[arg(long, value_name = "FORMAT", value_enum)]
        format: Option<Format>,
        /// Fail if the provider does not accept a tool.
        #[arg(long, requires = "format")]
        strict: bool,
    },
    /// Search the tools by words, the best first.
    ///
    /// The search reads the names, descriptions and arguments of the tools of all servers.
    #[command(override_usage = "mcp search [URL] WORD... [--limit NUMBER] [-- SERVER COMMAND]")]
    Search {
        #[command(flatten)]
        words: Words,
        /// Print at most this many tools.
        #[arg(long, value_name = "NUMBER", default_value_t = 10, value_parser = limit)]
        limit: usize,
    },
    /// Call a tool.
    ///
    /// `key=value` gives an argument; the schema of the tool decides its type. `key:=json` gives a JSON value. `key=@file`
    /// reads a file, `key=@-` reads stdin. A JSON object gives all arguments at once; `@file` reads the object from a file,
    /// `@-` or `-` reads it from stdin.
    #[command(override_usage = "mcp call [URL] TOOL [ARGUMENT]... [-- SERVER COMMAND]")]
    Call {
        #[command(flatten)]
        words: Words,
        /// Write images, audio and embedded resources of the result into this directory.
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
        /// Take the name and one JSON text of arguments as a model of this LLM provider gave them.
        #[arg(long, value_name = "FORMAT", value_enum)]
        format: Option<Format>,
    },
    /// List the resources and the resource templates.
    #[command(override_usage = "mcp resources [URL] [-- SERVER COMMAND]")]
    Resources(Words),
    /// Read a resource.
    #[command(override_usage = "mcp read [URL] URI [-- SERVER COMMAND]")]
    Read {
        #[command(flatten)]
        words: Words,
        /// Write the contents to this file. `-` writes them to stdout unchanged.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List the prompts, or show one prompt with its arguments.
    #[command(override_usage = "mcp prompts [URL] [NAME] [-- SERVER COMMAND]")]
    Prompts(Words),
    /// Get a prompt with its arguments filled in.
    ///
    /// The arguments have the forms of `mcp call`. Every value is a string.
    #[command(override_usage = "mcp prompt [URL] NAME [ARGUMENT]... [-- SERVER COMMAND]")]
    Prompt(Words),
    /// Complete an argument of a prompt, or a variable of a resource template.
    ///
    /// The first argument is the one to complete, with the text typed so far. The other arguments are already known. They
    /// have the forms of `mcp call`. Every value is a string.
    #[command(override_usage = "mcp complete [URL] PROMPT|TEMPLATE ARGUMENT... [-- SERVER COMMAND]")]
    Complete(Words),
    /// Measure the response time of the server.
    #[command(override_usage = "mcp ping [URL] [-- SERVER COMMAND]")]
    Ping {
        #[command(flatten)]
        words: Words,
        /// Send this many pings.
        #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
    },
    /// Show list changes, updates of the given resources and log messages until Ctrl-C.
    #[command(override_usage = "mcp listen [URL] [URI]... [-- SERVER COMMAND]")]
    Listen(Words),
    /// Show the name, the revision and the capabilities of the server.
    #[command(override_usage = "mcp info [URL] [-- SERVER COMMAND]")]
    Info(Words),
    /// Check the definitions of the server: names, descriptions, schemas, annotations and sizes.
    ///
    /// `docs/lint.md` describes each rule. The exit code is 1 if there is an error.
    #[command(override_usage = "mcp lint [URL] [--strict] [-- SERVER COMMAND]")]
    Lint {
        #[command(flatten)]
        words: Words,
        /// Fail on warnings too.
        #[arg(long)]
        strict: bool,
    },
    /// Run these commands over one open connection, with history and completion.
    #[command(override_usage = "mcp shell [URL] [-- SERVER COMMAND]")]
    Shell(Words),
    #[command(flatten)]
    Account(Account),
    #[command(flatten)]
    Configuration(Configuration),
    #[command(flatten)]
    Serving(Serving),
    /// Write the project of a small server into a new directory.
    ///
    /// In a checkout of the library, the project uses the crates of the checkout. Elsewhere name their source with `--path`
    /// or `--git`.
    New {
        /// The directory. Its last part is the name of the package.
        name: PathBuf,
        /// Serve HTTP too.
        #[arg(long)]
        http: bool,
        /// Use the crates of this checkout of the library.
        #[arg(long, value_name = "DIR", conflicts_with = "git")]
        path: Option<PathBuf>,
        /// Use the crates of this git repository.
        #[arg(long, value_name = "URL")]
        git: Option<String>,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

impl Cli {
    /// Returns the definition of the command line.
    pub(crate) fn definition() -> clap::Command {
        let short = |command: clap::Command| command.after_help(MORE_OPTIONS).after_long_help("");
        Self::command().after_help(MORE_OPTIONS).mut_subcommands(short)
    }
}

impl Command {
    /// Returns the words of the command; `None` if the command needs no server.
    pub(crate) fn words_mut(&mut self) -> Option<&mut Words> {
        match self {
            Self::Resources(words)
            | Self::Prompts(words)
            | Self::Prompt(words)
            | Self::Complete(words)
            | Self::Listen(words)
            | Self::Info(words)
            | Self::Shell(words)
            | Self::Tools { words, .. }
            | Self::Search { words, .. }
            | Self::Call { words, .. }
            | Self::Lint { words, .. }
            | Self::Read { words, .. }
            | Self::Ping { words, .. } => Some(words),
            Self::Account(_)
            | Self::Configuration(_)
            | Self::Serving(_)
            | Self::New { .. }
            | Self::Completions { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_definition_is_consistent() {
        Cli::definition().debug_assert();
    }

    #[test]
    fn the_documentation_has_each_exit_code_of_the_help() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mcp.md")).unwrap();
        let codes = EXIT_CODES.lines().skip(1).map_while(|line| line.trim().split_once(' '));
        let rows: Vec<String> = codes.map(|(code, meaning)| format!("| {code} | {} |", meaning.trim())).collect();
        assert_eq!(rows.len(), 6);
        for row in rows {
            assert!(page.lines().any(|line| line == row), "{row}");
        }
    }

    #[test]
    fn rejects_invalid_option_values() {
        for line in [
            "mcp tools --timeout 0",
            "mcp tools --timeout soon",
            "mcp tools --revision 2020-01-01",
            "mcp tools --header nothing",
            "mcp tools --header Name:@/no/such/file",
            "mcp tools --header @/no/such/file",
            "mcp tools --env =x",
            "mcp tools --env A_VARIABLE_THAT_IS_NOT_SET",
            "mcp tools --log-level loud",
            "mcp ping --count 0",
            "mcp search x --limit 0",
            "mcp serve",
            "mcp serve . --port many",
            "mcp serve . --stdio --port 0",
            "mcp gateway --stdio --port 0",
            "mcp gateway --stdio --auth auth.toml",
            "mcp gateway --names short",
            "mcp",
            "mcp dance",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
