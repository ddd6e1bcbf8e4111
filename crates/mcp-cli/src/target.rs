//! The server that a command line names: a URL, or a command to start.

use std::net::IpAddr;

use url::{Host, Url};

use crate::{
    args::{Command, Options, Words},
    configuration,
    failure::Failure,
};

/// The environment variable that names the server if the command line does not.
pub(crate) const VARIABLE: &str = "MCP_SERVER";

/// A server.
#[derive(Debug, PartialEq)]
pub(crate) enum Target {
    Url(String),
    /// A program and its arguments.
    Command(Vec<String>),
    /// The servers of the configuration file. The command selects among them.
    Configuration,
}

impl Target {
    /// Removes the server from the words of a command.
    pub(crate) fn take_from(mut command: Command, options: &Options) -> Result<(Self, Command), Failure> {
        let missing =
            || Failure::usage(format!("no server is given; write a URL, a command after `--`, or set {VARIABLE}"));
        let is_configured = options.config_file.is_some() || options.config_server.is_some();
        let variable = std::env::var(VARIABLE).ok().filter(|text| !text.trim().is_empty() && !is_configured);
        let own = match &command {
            // The last word is the resource.
            Command::Read { .. } => 1,
            // If the variable names the server, all words may be resources.
            Command::Listen(_) if variable.is_some() || is_configured => usize::MAX,
            _ => 0,
        };
        let words = command.words_mut().ok_or_else(missing)?;
        let target = match (Self::from_words(words, own), variable) {
            (Some(_), _) if is_configured => {
                let message = "--config and --server select a server, so the command line must not name another one";
                return Err(Failure::usage(message));
            }
            (Some(target), _) => target,
            (None, None) if is_configured => Self::Configuration,
            (None, Some(text)) => Self::parse(&text)?,
            (None, None) => match misplaced(&words.words, own) {
                Some(failure) => return Err(failure),
                None if configuration::path(options).is_some() => Self::Configuration,
                None => return Err(missing()),
            },
        };
        Ok((target, command))
    }

    /// Returns the command after `--`, or the URL in the first word. The last `own` words belong to the command.
    fn from_words(words: &mut Words, own: usize) -> Option<Self> {
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
        if let Some(url) = with_scheme(text) {
            return Err(Failure::usage(format!("{VARIABLE} is a URL without a scheme: `{text}`; write {url}")));
        }
        match shell_words::split(text) {
            Ok(command) if !command.is_empty() => Ok(Self::Command(command)),
            _ => Err(Failure::usage(format!("{VARIABLE} is neither a URL nor a command: `{text}`"))),
        }
    }
}

/// Returns the reason why a word that resembles a URL is not the server.
fn misplaced(words: &[String], own: usize) -> Option<Failure> {
    let others = &words[..words.len().saturating_sub(own)];
    if let Some(url) = others.iter().find(|word| word.contains("://")) {
        return Some(Failure::usage(if is_url(url) {
            format!("the URL of the server must be the first word: `{url}`")
        } else {
            format!("`{url}` is not a server; write an http or https URL, or a command after `--`")
        }));
    }
    let first = others.first()?;
    let url = with_scheme(first)?;
    Some(Failure::usage(format!("no server is given; if `{first}` is the server, write {url}")))
}

pub(crate) fn is_url(word: &str) -> bool {
    word.starts_with("http://") || word.starts_with("https://")
}

/// Returns whether a URL contains a user or a password. The client sends them, and no login replaces them.
pub(crate) fn has_credentials(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

/// Returns the URL of an address without a scheme, such as `localhost:8080/mcp`. The name of a tool may have dots, so a name
/// needs a port or a path to be an address.
pub(crate) fn with_scheme(word: &str) -> Option<String> {
    let (host, rest) = word.split_at(word.find([':', '/']).unwrap_or(word.len()));
    let is_address = match rest.as_bytes() {
        [b':', digit, ..] => digit.is_ascii_digit(),
        [b'/', ..] => host.contains('.'),
        _ => false,
    };
    let is_local_name = host == "localhost" || host.parse::<IpAddr>().is_ok();
    let has_host_characters = host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    if host.is_empty() || host.starts_with('.') || !has_host_characters || !(is_address || is_local_name) {
        return None;
    }
    let url = Url::parse(&format!("http://{word}")).ok()?;
    let is_local = match url.host()? {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(_) | Host::Ipv6(_) => true,
    };
    Some(format!("{}://{word}", if is_local { "http" } else { "https" }))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    /// Returns the server and the remaining words of a command line.
    fn parse(line: &str) -> (Target, Vec<String>) {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let (target, mut command) =
            Target::take_from(cli.command, &cli.options).unwrap_or_else(|failure| panic!("{failure}"));
        (target, command.words_mut().map(|words| words.words.clone()).unwrap_or_default())
    }

    #[test]
    fn reads_the_server_from_the_first_word_or_after_two_dashes() {
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
            assert_eq!(parse(line), (target, words), "{line}");
        }
    }

    #[test]
    fn the_variable_holds_a_url_or_a_command() {
        assert_eq!(Target::parse("http://h/").unwrap_or_else(|_| panic!()), Target::Url("http://h/".to_owned()));
        let command = Target::parse("srv 'a b'").unwrap_or_else(|_| panic!());
        assert_eq!(command, Target::Command(vec!["srv".to_owned(), "a b".to_owned()]));
        assert!(Target::parse("  ").is_err() && Target::parse("'open").is_err());
        let failure = Target::parse("localhost:8080/mcp").map_err(|failure| failure.to_string());
        let message = "MCP_SERVER is a URL without a scheme: `localhost:8080/mcp`; write http://localhost:8080/mcp";
        assert_eq!(failure, Err(message.to_owned()));
    }

    #[test]
    fn recognizes_addresses_without_a_scheme() {
        for (word, url) in [
            ("localhost:8080/mcp", Some("http://localhost:8080/mcp")),
            ("localhost", Some("http://localhost")),
            ("127.0.0.1:8080", Some("http://127.0.0.1:8080")),
            ("127.0.0.1", Some("http://127.0.0.1")),
            ("example.com/mcp", Some("https://example.com/mcp")),
            ("build-host:3000/mcp", Some("https://build-host:3000/mcp")),
            ("weather.get", None),
            ("add", None),
            ("a=1", None),
            ("n:=1", None),
            ("./server", None),
            ("bin/server", None),
            ("note:x", None),
            ("test:///x", None),
            ("{a.b}/c", None),
            ("", None),
        ] {
            assert_eq!(with_scheme(word).as_deref(), url, "{word}");
        }
    }
}
