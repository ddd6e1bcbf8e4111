//! The command line of a node.

use std::net::{IpAddr, Ipv4Addr};

use lexopt::{Arg, Parser, ValueExt as _};

/// The output of `--help`.
pub(crate) const USAGE: &str = "\
usage: fleet [--redis URL --state-key HEX] [--host ADDRESS] [--port N] [--allow-host NAME]... [--token TOKEN]

  --redis URL        the store that all nodes share. Without it, the node keeps its state in memory
  --host ADDRESS     the address to listen on (default 127.0.0.1)
  --port N           the port, 0 for any free port (default 8080)
  --allow-host NAME  accept requests for this host. An address beyond loopback needs it
  --state-key HEX    the 64 hexadecimal digits of the key of request states, the same on all nodes
  --token TOKEN      accept only requests with this bearer token. Its caller can list tasks
  --help             print this";

/// The parsed command line.
pub(crate) enum Command {
    Help,
    Run(Options),
}

/// The options of the node.
pub(crate) struct Options {
    pub(crate) redis: Option<String>,
    pub(crate) host: IpAddr,
    pub(crate) port: u16,
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) state_key: Option<[u8; 32]>,
    pub(crate) token: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            redis: None,
            host: Ipv4Addr::LOCALHOST.into(),
            port: 8080,
            allowed_hosts: Vec::new(),
            state_key: None,
            token: None,
        }
    }
}

/// Parses a command line. No error contains the key or the token.
pub(crate) fn parse(mut parser: Parser) -> Result<Command, lexopt::Error> {
    let mut options = Options::default();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("help") | Arg::Short('h') => return Ok(Command::Help),
            Arg::Long("redis") => options.redis = Some(parser.value()?.string()?),
            Arg::Long("host") => options.host = parser.value()?.parse()?,
            Arg::Long("allow-host") => options.allowed_hosts.push(parser.value()?.string()?),
            Arg::Long("port") => options.port = parser.value()?.parse()?,
            Arg::Long("state-key") => options.state_key = Some(key(&secret(&mut parser)?)?),
            Arg::Long("token") => options.token = Some(secret(&mut parser)?),
            _ => return Err(arg.unexpected()),
        }
    }
    Ok(Command::Run(options))
}

/// Reads the value of an option. The conversions of `lexopt` would print it in their errors.
fn secret(parser: &mut Parser) -> Result<String, lexopt::Error> {
    parser.value()?.into_string().map_err(|_| "a secret is not valid Unicode".into())
}

/// Reads a key of 64 hexadecimal digits.
pub(crate) fn key(digits: &str) -> Result<[u8; 32], &'static str> {
    const WRONG: &str = "a state key has 64 hexadecimal digits";
    if digits.len() != 64 || !digits.is_ascii() {
        return Err(WRONG);
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| WRONG)?;
    }
    Ok(key)
}
