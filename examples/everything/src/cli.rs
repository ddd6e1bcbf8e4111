//! The command line.

use std::{fmt::Display, str::FromStr};

use mcp_server::protocol::ProtocolVersion;

/// The output of `--help`.
pub(crate) const USAGE: &str = "\
usage: everything [--stdio | --port N [--tls CERT KEY]] [--tools N] [--page-size N] [--only WHICH] \
       [--redis URL [--state-key HEX]]

  --stdio         serve stdin and stdout
  --port N        serve http://127.0.0.1:N/mcp, 0 for any free port (default 8080)
  --tls CERT KEY  serve https with this certificate, from PEM files
  --tools N       add N generated tools, generated_0001 and so on
  --page-size N   entries on a page of each list (default 10000)
  --only WHICH    serve only `legacy` revisions, only `modern` ones, or one revision such as 2025-11-25
  --redis URL     share the state with other nodes in this Redis or Valkey
  --state-key HEX the key of request states, 64 hexadecimal digits, which all nodes share
  --help          print this";

/// The largest number of generated tools. It bounds the size of `tools/list`.
const MAX_TOOLS: u32 = 100_000;

/// The default page size. It fits all tools, because some scenarios of the suites read only the first page.
const DEFAULT_PAGE_SIZE: usize = 10_000;

/// The parsed command line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Run(Options),
}

/// The options of the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) transport: Transport,
    /// The files of the certificate and its key.
    pub(crate) tls: Option<(String, String)>,
    /// The number of generated tools.
    pub(crate) tools: u32,
    /// Entries on a page of a list.
    pub(crate) page_size: usize,
    /// The served revisions. `None` serves all of them.
    pub(crate) only: Option<Vec<ProtocolVersion>>,
    /// The URL of the shared store. `None` is the memory of the process.
    pub(crate) redis: Option<String>,
    /// The key that seals request states. `None` is a random key of the process.
    pub(crate) state_key: Option<[u8; 32]>,
}

impl Default for Options {
    fn default() -> Self {
        let transport = Transport::Http { port: 8080 };
        Self { transport, tls: None, tools: 0, page_size: DEFAULT_PAGE_SIZE, only: None, redis: None, state_key: None }
    }
}

/// The transport of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Stdio,
    Http { port: u16 },
}

/// Parses the arguments without the name of the program.
pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Command, String> {
    let mut options = Options::default();
    let mut transport = None;
    let mut args = args.into_iter();
    while let Some(flag) = args.next() {
        match flag.as_str() {
            "--help" | "-h" => return Ok(Command::Help),
            "--stdio" => choose(&mut transport, Transport::Stdio)?,
            "--port" => choose(&mut transport, Transport::Http { port: number(&flag, args.next(), 0, u16::MAX)? })?,
            "--tls" => match (args.next(), args.next()) {
                (Some(certificate), Some(key)) => options.tls = Some((certificate, key)),
                _ => return Err("--tls takes two files: a certificate and its key".to_owned()),
            },
            "--tools" => options.tools = number(&flag, args.next(), 0, MAX_TOOLS)?,
            "--page-size" => options.page_size = number(&flag, args.next(), 1, usize::MAX)?,
            "--only" => options.only = Some(revisions(args.next().as_deref())?),
            "--redis" => options.redis = Some(args.next().ok_or("--redis takes the URL of a server")?),
            "--state-key" => options.state_key = Some(key(args.next().as_deref())?),
            _ => return Err(format!("unknown argument `{flag}`")),
        }
    }
    options.transport = transport.unwrap_or(options.transport);
    if options.tls.is_some() && options.transport == Transport::Stdio {
        return Err("`--tls` requires `--port`".to_owned());
    }
    Ok(Command::Run(options))
}

fn choose(transport: &mut Option<Transport>, chosen: Transport) -> Result<(), String> {
    match transport.replace(chosen) {
        None => Ok(()),
        Some(_) => Err("give one transport: `--stdio` or `--port N`".to_owned()),
    }
}

/// Returns the revisions of an era, or one revision.
fn revisions(value: Option<&str>) -> Result<Vec<ProtocolVersion>, String> {
    let of_era = |is_stateless| ProtocolVersion::ALL.iter().copied().filter(move |v| v.is_stateless() == is_stateless);
    let text = value.unwrap_or("nothing");
    match (text, ProtocolVersion::parse(text)) {
        ("legacy", _) => Ok(of_era(false).collect()),
        ("modern", _) => Ok(of_era(true).collect()),
        (_, Some(version)) => Ok(vec![version]),
        (_, None) => Err(format!("--only takes `legacy`, `modern` or a revision, not {text}")),
    }
}

fn key(value: Option<&str>) -> Result<[u8; 32], String> {
    let invalid = || "--state-key takes 64 hexadecimal digits".to_owned();
    let digits = value.filter(|digits| digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
    let digits = digits.ok_or_else(invalid)?.as_bytes();
    let mut key = [0; 32];
    for (byte, digits) in key.iter_mut().zip(digits.chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| invalid())?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| invalid())?;
    }
    Ok(key)
}

fn number<N: FromStr + PartialOrd + Display + Copy>(
    flag: &str,
    value: Option<String>,
    least: N,
    most: N,
) -> Result<N, String> {
    let invalid = |found: &str| format!("{flag} takes a number from {least} to {most}, not {found}");
    let Some(text) = value else { return Err(invalid("nothing")) };
    text.parse().ok().filter(|n| (&least..=&most).contains(&n)).ok_or_else(|| invalid(&format!("`{text}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: Result<Command, &str>) {
        let parsed = parse(line.split_whitespace().map(str::to_owned));
        match (parsed, expected) {
            (Err(error), Err(part)) => assert!(error.contains(part), "{line}: {error}"),
            (parsed, expected) => assert_eq!(parsed, expected.map_err(str::to_owned), "{line}"),
        }
    }

    #[test]
    fn parses_arguments_and_rejects_invalid_ones_with_a_reason() {
        let run = |transport, tools, page_size| {
            Ok(Command::Run(Options { transport, tools, page_size, ..Options::default() }))
        };
        let http = |port| Transport::Http { port };
        check("", run(http(8080), 0, DEFAULT_PAGE_SIZE));
        check("--stdio", run(Transport::Stdio, 0, DEFAULT_PAGE_SIZE));
        check("--port 0 --tools 1000 --page-size 50", run(http(0), 1000, 50));
        check("--stdio --help --nonsense", Ok(Command::Help));
        let tls = Some(("c.pem".to_owned(), "k.pem".to_owned()));
        check("--tls c.pem k.pem", Ok(Command::Run(Options { tls, ..Options::default() })));
        check("--tls c.pem", Err("two files"));
        check("--stdio --tls c.pem k.pem", Err("requires `--port`"));
        let only = |only: &[&str]| {
            let only = Some(only.iter().filter_map(|revision| ProtocolVersion::parse(revision)).collect());
            Ok(Command::Run(Options { only, ..Options::default() }))
        };
        check("--only modern", only(&["2026-07-28"]));
        check("--only 2025-06-18", only(&["2025-06-18"]));
        check("--only legacy", only(&["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]));
        let redis = Some("redis://localhost".to_owned());
        check("--redis redis://localhost", Ok(Command::Run(Options { redis, ..Options::default() })));
        check("--redis", Err("takes the URL"));
        let state_key = Some([0x5e; 32]);
        let line = format!("--state-key {}", "5e".repeat(32));
        check(&line, Ok(Command::Run(Options { state_key, ..Options::default() })));
        for wrong in ["--state-key", "--state-key 5e", &format!("--state-key {}", "+e".repeat(32))] {
            check(wrong, Err("64 hexadecimal digits"));
        }
        check("--only newest", Err("not newest"));
        check("--only", Err("not nothing"));
        check("--nonsense", Err("unknown argument `--nonsense`"));
        check("--port", Err("--port takes a number from 0 to 65535, not nothing"));
        check("--port 65536", Err("not `65536`"));
        check("--page-size 0", Err("from 1 to"));
        check("--tools many", Err("not `many`"));
        check("--stdio --port 1", Err("one transport"));
    }
}
