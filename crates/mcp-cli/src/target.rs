//! Which server is meant, and the connection to it.

use std::{path::Path, sync::Arc, time::Duration};

use mcp_client::{ChildProcess, Client, http::Http};
use mcp_protocol::{LoggingMessageParams, Root, notification};
use mcp_transport::Connect;

use crate::{
    args::{Command, Options, Words},
    elicit,
    failure::Failure,
    output::line,
    sampling::Model,
    screen::note,
    trace::Traced,
};

/// How long a call may take in all, at least: what a client does by itself.
const TOTAL: Duration = Duration::from_secs(600);
/// How long a server may be silent when it is asked what it speaks, at most: what a client does by itself.
const PROBE: Duration = Duration::from_secs(5);
/// The variable that names the server where the command line does not.
const VARIABLE: &str = "MCP_SERVER";

/// A server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Url(String),
    /// A program and its arguments.
    Command(Vec<String>),
}

impl Target {
    /// Takes the server out of the words of a command.
    pub(crate) fn take_from(mut command: Command) -> Result<(Self, Command), Failure> {
        let none = || Failure::usage(format!("no server: give a URL, a command after `--`, or set {VARIABLE}"));
        let variable = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty());
        let own = match &command {
            // The last word is what is read.
            Command::Read { .. } => 1,
            // All words may be resources, once the server is known.
            Command::Listen(_) if variable.is_some() => usize::MAX,
            _ => 0,
        };
        let words = command.words_mut().ok_or_else(none)?;
        let target = match (Self::named(words, own), variable) {
            (Some(target), _) => target,
            (None, Some(text)) => Self::parse(&text)?,
            (None, None) => return Err(misplaced(&words.words, own).unwrap_or_else(none)),
        };
        Ok((target, command))
    }

    /// What follows `--`; without it the first word, where that is a URL and none of the command's `own` last words.
    fn named(words: &mut Words, own: usize) -> Option<Self> {
        if !words.server.is_empty() {
            return Some(Self::Command(std::mem::take(&mut words.server)));
        }
        let is_own = words.words.len() <= own;
        let first = words.words.first().filter(|word| is_url(word) && !is_own)?.clone();
        words.words.remove(0);
        Some(Self::Url(first))
    }

    fn parse(text: &str) -> Result<Self, Failure> {
        if is_url(text) {
            return Ok(Self::Url(text.to_owned()));
        }
        match shell_words::split(text) {
            Ok(command) if !command.is_empty() => Ok(Self::Command(command)),
            _ => Err(Failure::usage(format!("{VARIABLE} is neither a URL nor a command: `{text}`"))),
        }
    }

    fn connector(&self, options: &Options) -> Result<Arc<dyn Connect>, Failure> {
        match self {
            Self::Url(url) => {
                if !options.env.is_empty() || options.cwd.is_some() {
                    return Err(Failure::usage("--env and --cwd are for the command of a server: a URL starts none"));
                }
                let mut http = Http::new(url).map_err(|error| Failure::refused(&error))?;
                for (name, value) in options.header.iter().flatten() {
                    http = http.header(name, value).map_err(|error| Failure::refused(&error))?;
                }
                Ok(Arc::new(http))
            }
            Self::Command(command) => {
                let (program, args) = command.split_first().ok_or_else(|| Failure::usage("no command after `--`"))?;
                if !options.header.is_empty() {
                    return Err(Failure::usage("a header needs HTTP: a command has none, set variables by --env"));
                }
                let variables = options.env.iter().map(|(name, value)| (name, value));
                let mut child = ChildProcess::new(program).args(args).envs(variables);
                if let Some(directory) = &options.cwd {
                    child = child.current_dir(directory);
                }
                Ok(Arc::new(child))
            }
        }
    }
}

/// What is wrong where a URL was given, but not as one that can be used.
fn misplaced(words: &[String], own: usize) -> Option<Failure> {
    let others = words.len().saturating_sub(own);
    let url = words[..others].iter().find(|word| word.contains("://"))?;
    Some(Failure::usage(if is_url(url) {
        format!("the URL of the server comes first, before the other words: `{url}`")
    } else {
        format!("`{url}` is no server: only http and https are spoken, or a command after `--`")
    }))
}

fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}

/// Connects, as a client that can do what the options say.
pub(crate) async fn open(target: &Target, options: &Options, command: &Command) -> Result<Client, Failure> {
    let connector: Arc<dyn Connect> = Arc::new(Traced::new(target.connector(options)?, options.trace));
    let mut builder = Client::builder("mcp", env!("CARGO_PKG_VERSION")).title("mcp, on the command line");
    if let Some(version) = options.revision {
        builder = builder.versions([version]);
    }
    if let Some(time) = options.timeout {
        builder = builder.timeout(time).connect_timeout(time).ping_timeout(time);
        builder = builder.total_timeout(in_all(time)).probe_timeout(PROBE.min(time / 2));
    }
    if let Some(level) = options.log_level {
        builder = builder.log_level(level);
        // What listens shows it anyway.
        if !matches!(command, Command::Listen(_)) {
            builder = builder.on::<notification::LoggingMessage>(|message| note(log_line(&message)));
        }
    }
    if elicit::possible() {
        builder = builder.on_elicit(elicit::form).on_elicit_url(elicit::url);
    }
    if let Some(program) = &options.sample_with {
        let model = Arc::new(Model::new(program));
        builder = builder.on_sample(move |asked| {
            let model = Arc::clone(&model);
            async move { model.answer(&asked).await }
        });
    }
    if !options.root.is_empty() {
        let roots: Result<Vec<Root>, Failure> = options.root.iter().map(|root| to_root(root)).collect();
        builder = builder.roots(roots?);
    }
    Ok(builder.connect(connector).await?)
}

/// How long a call may take whose server may be silent for so long: longer than that, whatever it is.
fn in_all(silence: Duration) -> Duration {
    TOTAL.max(silence.saturating_mul(10))
}

/// A log record as people read it.
pub(crate) fn log_line(message: &LoggingMessageParams) -> String {
    let logger = message.logger.as_ref().map(|name| format!(" {}", line(name))).unwrap_or_default();
    let data = message.data.as_str().map_or_else(|| message.data.to_string(), ToOwned::to_owned);
    format!("[{}{logger}] {}", message.level.as_str(), line(&data))
}

fn to_root(text: &str) -> Result<Root, Failure> {
    if text.starts_with("file://") {
        return Ok(Root::new(text));
    }
    let wrong = |error: std::io::Error| Failure::usage(format!("the root {text}: {error}"));
    let path = Path::new(text).canonicalize().map_err(wrong)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let mut uri = "file://".to_owned();
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(byte.into()),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    let mut root = Root::new(uri);
    root.name = name;
    Ok(root)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    /// The server and the words that a command line means.
    fn read(line: &str) -> (Target, Vec<String>) {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let (target, mut command) = Target::take_from(cli.command).unwrap_or_else(|failure| panic!("{failure}"));
        (target, command.words_mut().map(|words| words.words.clone()).unwrap_or_default())
    }

    #[test]
    fn a_server_is_a_url_or_a_command() {
        let url = |url: &str| Target::Url(url.to_owned());
        let command = |line: &str| Target::Command(line.split(' ').map(ToOwned::to_owned).collect());
        for (line, target, words) in [
            ("mcp tools http://127.0.0.1:1/mcp", url("http://127.0.0.1:1/mcp"), ""),
            ("mcp call http://h/ add a=1 b=2", url("http://h/"), "add a=1 b=2"),
            ("mcp call add a=1 b=2 -- srv --stdio", command("srv --stdio"), "add a=1 b=2"),
            ("mcp call http://h/ add a=1 --json", url("http://h/"), "add a=1"),
            ("mcp read http://not/the/server -- srv", command("srv"), "http://not/the/server"),
            ("mcp read https://h/ https://r/", url("https://h/"), "https://r/"),
            ("mcp read https://h/ note:///1", url("https://h/"), "note:///1"),
            ("mcp listen http://h/ note:///1 https://r/", url("http://h/"), "note:///1 https://r/"),
        ] {
            let words: Vec<String> = words.split_whitespace().map(ToOwned::to_owned).collect();
            assert_eq!(read(line), (target, words), "{line}");
        }
    }

    #[test]
    fn the_variable_names_either() {
        assert_eq!(Target::parse("http://h/").unwrap_or_else(|_| panic!()), Target::Url("http://h/".to_owned()));
        let command = Target::parse("srv 'a b'").unwrap_or_else(|_| panic!());
        assert_eq!(command, Target::Command(vec!["srv".to_owned(), "a b".to_owned()]));
        assert!(Target::parse("  ").is_err() && Target::parse("'open").is_err());
    }

    #[test]
    fn no_silence_that_is_allowed_is_cut_short() {
        for (silence, all) in [(1, 600), (60, 600), (700, 7000), (u64::MAX, u64::MAX)] {
            assert_eq!(in_all(Duration::from_secs(silence)).as_secs(), all, "{silence}");
        }
    }

    #[test]
    fn directories_become_uris() {
        let root = to_root("/").unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(root.uri, "file:///");
        assert_eq!(to_root("file:///x%20y").unwrap_or_else(|_| panic!()).uri, "file:///x%20y");
        assert!(to_root("/no/such/directory").is_err());
    }
}
