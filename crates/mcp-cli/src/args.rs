//! What can be asked for on the command line.

use std::{ffi::OsString, fs, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use mcp_protocol::{LoggingLevel, ProtocolVersion};

/// What `mcp --help` says beyond the first line.
const ABOUT: &str = "Talk to any MCP server.

The server is a URL as the first word, or a command after `--` that is started and spoken to over its
standard input and output:

  mcp tools http://127.0.0.1:8080/mcp
  mcp call add a=1 b=2 -- ./my-server --stdio

Without either it is the URL or the command in the variable MCP_SERVER. `read` always takes its last word
for the resource; `listen` takes all its words for resources when `--` or MCP_SERVER names the server.";

/// What `mcp --help` says at its end.
const MORE: &str = "Exit codes:
  0    done
  1    the tool failed, or a file could not be written here
  2    the command line is wrong, or names a tool or a file that does not exist
  3    the server cannot be reached, or is silent, or left before it answered
  4    the server answered with an error, or with what makes no sense
  130  Ctrl-C (129 and 143: another signal)

The servers' questions to the user are asked at the terminal, one after the other; where stdin or stderr is
none, servers are told that there is nobody to ask. NO_COLOR is respected.";

/// Talk to any MCP server.
#[derive(Debug, Parser)]
#[command(name = "mcp", version, long_about = ABOUT, after_long_help = MORE, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) options: Options,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What holds for every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Options for every command")]
pub(crate) struct Options {
    /// Print JSON for programs instead of text for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Send this header with every HTTP request. Everybody on this machine can read a command line: a secret is better
    /// given as `Name: @FILE`, which reads the value from a file, or as `@FILE`, which has a header on each line.
    #[arg(long, short = 'H', global = true, value_name = "NAME: VALUE", value_parser = headers)]
    pub(crate) header: Vec<Headers>,
    /// How long the server may be silent, in seconds. In all a call may take ten times that, and ten minutes at least.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Speak this revision only, as in `2025-11-25`.
    #[arg(long, global = true, value_name = "DATE", value_parser = revision)]
    pub(crate) revision: Option<ProtocolVersion>,
    /// Show every message, as it is sent and received, and what the server's command writes to its stderr.
    #[arg(long, global = true)]
    pub(crate) trace: bool,
    /// Set a variable for the command of the server, or let it see ours by `NAME` alone (so that a secret stays off the
    /// command line). It sees little else of the environment.
    #[arg(long, global = true, value_name = "NAME[=VALUE]", value_parser = variable)]
    pub(crate) env: Vec<(String, OsString)>,
    /// The directory that the command of the server starts in.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Offer a directory (or a `file://` URI) as a root.
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) root: Vec<String>,
    /// Answer the server's questions to a model by this program: it reads the request as JSON and prints the text of the
    /// answer. At a terminal you are asked first. Without this option such questions are refused.
    #[arg(long, global = true, value_name = "PROGRAM")]
    pub(crate) sample_with: Option<String>,
    /// Ask the server for its log messages from this level on, and show them.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = level)]
    pub(crate) log_level: Option<LoggingLevel>,
}

/// What is left of the command line: words, and the command of a server.
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
    /// List the tools, or show one of them with its arguments.
    #[command(override_usage = "mcp tools [URL] [NAME] [-- SERVER COMMAND]")]
    Tools(Words),
    /// Call a tool.
    ///
    /// Arguments are `key=value`, read as the tool's schema says; `key:=json`; `key=@file`, or `key=@-` for stdin; or all of
    /// them at once as a JSON object, as `@file` with one, or as `-` for stdin.
    #[command(override_usage = "mcp call [URL] TOOL [ARGUMENT]... [-- SERVER COMMAND]")]
    Call {
        #[command(flatten)]
        words: Words,
        /// Write images, sounds and files of the result into this directory.
        #[arg(long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// List the resources and the templates of resources.
    #[command(override_usage = "mcp resources [URL] [-- SERVER COMMAND]")]
    Resources(Words),
    /// Read a resource: the last word, whatever it is.
    #[command(override_usage = "mcp read [URL] URI [-- SERVER COMMAND]")]
    Read {
        #[command(flatten)]
        words: Words,
        /// Write the contents to this file; `-` for stdout, whatever they are.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// List the prompts, or show one of them with its arguments.
    #[command(override_usage = "mcp prompts [URL] [NAME] [-- SERVER COMMAND]")]
    Prompts(Words),
    /// Fill in a prompt.
    ///
    /// Arguments are `key=value`; `key=@file`, or `key=@-` for stdin; or `key:=json`, a JSON text.
    #[command(override_usage = "mcp prompt [URL] NAME [KEY=VALUE]... [-- SERVER COMMAND]")]
    Prompt(Words),
    /// Complete an argument of a prompt, or a variable of a resource template.
    ///
    /// The first KEY=VALUE is what is typed so far, the others are what is known.
    #[command(override_usage = "mcp complete [URL] PROMPT|TEMPLATE KEY=VALUE... [-- SERVER COMMAND]")]
    Complete(Words),
    /// Measure how long the server takes to answer.
    #[command(override_usage = "mcp ping [URL] [-- SERVER COMMAND]")]
    Ping {
        #[command(flatten)]
        words: Words,
        /// How often.
        #[arg(long, short, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
    },
    /// Show what the server tells, until Ctrl-C: changes of its lists, of these resources, and its log.
    #[command(override_usage = "mcp listen [URL] [URI]... [-- SERVER COMMAND]")]
    Listen(Words),
    /// Show who the server is and what it can do.
    #[command(override_usage = "mcp info [URL] [-- SERVER COMMAND]")]
    Info(Words),
    /// Run these commands over one open connection, with history and completion.
    #[command(override_usage = "mcp shell [URL] [-- SERVER COMMAND]")]
    Shell(Words),
    /// Print a script that completes this program's commands in a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

impl Command {
    /// What is left of the command line.
    pub(crate) fn words_mut(&mut self) -> Option<&mut Words> {
        match self {
            Self::Tools(words)
            | Self::Resources(words)
            | Self::Prompts(words)
            | Self::Prompt(words)
            | Self::Complete(words)
            | Self::Listen(words)
            | Self::Info(words)
            | Self::Shell(words)
            | Self::Call { words, .. }
            | Self::Read { words, .. }
            | Self::Ping { words, .. } => Some(words),
            Self::Completions { .. } => None,
        }
    }
}

/// The headers that one option gives.
type Headers = Vec<(String, String)>;

fn headers(text: &str) -> Result<Headers, String> {
    let Some(file) = text.strip_prefix('@') else { return Ok(vec![header(text)?]) };
    let text = read_secret(file)?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    // A line that is wrong may be a secret, and is not shown.
    lines.map(|line| header(line).map_err(|_| format!("{file} has a line that is not `Name: value`"))).collect()
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a header is `Name: value`")?;
    let value = match value.trim().strip_prefix('@') {
        Some(file) => read_secret(file)?.trim().to_owned(),
        None => value.trim().to_owned(),
    };
    Ok((name.trim().to_owned(), value))
}

fn read_secret(file: &str) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))
}

fn variable(text: &str) -> Result<(String, OsString), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.into())),
        None => (text, std::env::var_os(text)),
    };
    if name.is_empty() {
        return Err("a variable is `NAME=value`, or `NAME` for the value that it has here".to_owned());
    }
    let value = value.ok_or_else(|| format!("{name} is not set here, so that it needs a value: `{name}=value`"))?;
    Ok((name.to_owned(), value))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is expected".to_owned())?;
    let time = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if time.is_zero() { Err("no time is too short".to_owned()) } else { Ok(time) }
}

fn revision(text: &str) -> Result<ProtocolVersion, String> {
    ProtocolVersion::parse(text).ok_or_else(|| {
        let known: Vec<&str> = ProtocolVersion::ALL.iter().map(|version| version.as_str()).collect();
        format!("the revisions are {}", known.join(", "))
    })
}

fn level(text: &str) -> Result<LoggingLevel, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "the levels are debug, info, notice, warning, error, critical, alert, emergency".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bad_values_are_told() {
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
            "mcp",
            "mcp dance",
        ] {
            assert!(Cli::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}
