//! `cargo xtask interop`: clients of other projects against the example servers `everything` and `protected`, and our
//! client against servers of other projects.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Error, bail};
use lexopt::{Arg, Parser, ValueExt as _};

use crate::{
    conformance::{
        Leg,
        fixture::{self, Protected},
    },
    workspace::{self, Metadata},
};

mod install;
mod matrix;
mod peers;
mod row;
mod servers;

use self::{
    install::Installed,
    matrix::{CLIENT_COLUMNS, COLUMNS, Cell, LOGIN_COLUMNS, Matrix},
    peers::{Login, PEERS, Transport},
    row::Target,
    servers::{SUBJECTS, Started, Wire},
};

const USAGE: &str = "usage: cargo xtask interop [--direction server|client|login] [--peer NAME]... [--transport stdio|http|sse] \
    [--server BINARY] [--client BINARY]";

/// The package and binary that tests foreign servers.
const CLIENT: &str = "interop-client";

/// All checks of one client over one transport. The Inspector starts some thirty processes in it.
const ROW_LIMIT: Duration = Duration::from_secs(240);
/// One login.
const LOGIN_LIMIT: Duration = Duration::from_secs(60);

/// Runs the pinned peers of one or both directions, each over each transport and in each era it knows, and prints a
/// matrix per direction. Fails when a check failed or a peer could not be run.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let options = Options::parse(args).context(USAGE)?;
    let root = workspace::root();
    let metadata = Metadata::load(&root)?;
    let mut installed = Installed::new(&root, metadata.target())?;
    let server = options.server().then(|| clients(&options, &root, &metadata, &mut installed));
    let login = options.login().then(|| logins(&options, &root, &mut installed));
    let client = options.client().then(|| servers(&options, &root, &mut installed));
    server.unwrap_or(Ok(())).and(login.unwrap_or(Ok(()))).and(client.unwrap_or(Ok(())))
}

/// Foreign clients against our server.
fn clients(options: &Options, root: &Path, metadata: &Metadata, installed: &mut Installed) -> Result<(), Error> {
    let binary = match &options.server {
        Some(binary) => binary.canonicalize().with_context(|| binary.display().to_string())?,
        None => fixture::build(root, metadata, Leg::Server)?,
    };
    let mut matrix = Matrix::new("client", COLUMNS);
    for peer in PEERS.iter().filter(|peer| options.wants(peer.name)) {
        let title = installed.title(peer.title, peer.runtime, peer.package);
        let runtime = match installed.runtime(peer.runtime) {
            Ok(runtime) => runtime,
            Err(error) => {
                matrix.not_run(&title, &error);
                continue;
            }
        };
        for transport in Transport::ALL.into_iter().filter(|transport| options.over(transport.name())) {
            for era in peer.eras {
                println!("{title}, {}, {era}", transport.name());
                let cells = Target::new(transport, *era, &binary)
                    .and_then(|target| row::run(row::script(&runtime, peer.script, &target), COLUMNS, ROW_LIMIT));
                let cells = cells.unwrap_or_else(|error| row::not_started(&error, COLUMNS));
                matrix.row(&title, transport.name(), *era, cells);
            }
        }
    }
    matrix.finish()
}

/// Foreign clients that log in to the example `protected`. Its authorization server approves each login.
fn logins(options: &Options, root: &Path, installed: &mut Installed) -> Result<(), Error> {
    let binary = fixture::binary(root, "protected")?;
    let transport = Transport::Http.name();
    let mut matrix = Matrix::new("login", LOGIN_COLUMNS);
    for peer in PEERS.iter().filter(|peer| options.wants(peer.name)) {
        let title = installed.title(peer.title, peer.runtime, peer.package);
        let script = match peer.login {
            Login::Script(script) => script,
            Login::No(reason) => {
                let cells = LOGIN_COLUMNS.iter().map(|_| Cell::NotOffered(reason.to_owned())).collect();
                matrix.row(&title, transport, peer.eras[0], cells);
                continue;
            }
        };
        let runtime = match installed.runtime(peer.runtime) {
            Ok(runtime) => runtime,
            Err(error) => {
                matrix.not_run(&title, &error);
                continue;
            }
        };
        for era in peer.eras {
            println!("{title}, login, {era}");
            let cells = Protected::start(&binary, &["--auto-approve"]).and_then(|server| {
                let target = Target::protected(server, *era);
                row::run(row::script(&runtime, script, &target), LOGIN_COLUMNS, LOGIN_LIMIT)
            });
            let cells = cells.unwrap_or_else(|error| row::not_started(&error, LOGIN_COLUMNS));
            matrix.row(&title, transport, *era, cells);
        }
    }
    matrix.finish()
}

/// Our client against foreign servers.
fn servers(options: &Options, root: &Path, installed: &mut Installed) -> Result<(), Error> {
    let client = match &options.binary {
        Some(binary) => binary.canonicalize().with_context(|| binary.display().to_string())?,
        None => fixture::binary(root, CLIENT)?,
    };
    let mut matrix = Matrix::new("server", CLIENT_COLUMNS);
    for subject in SUBJECTS.iter().filter(|subject| options.wants(subject.name)) {
        let title = installed.title(subject.title, subject.runtime, subject.package);
        let runtime = match installed.runtime(subject.runtime) {
            Ok(runtime) => runtime,
            Err(error) => {
                matrix.not_run(&title, &error);
                continue;
            }
        };
        for wire in subject.wires.iter().filter(|wire| options.over(wire.name())) {
            for era in subject.eras {
                println!("{title}, {}, {era}", wire.name());
                let cells = Started::new(&runtime, subject, *wire, *era).and_then(|started| {
                    let mut command = Command::new(&client);
                    command.arg(started.config.to_string());
                    row::run(command, CLIENT_COLUMNS, ROW_LIMIT)
                });
                let cells = cells.unwrap_or_else(|error| row::not_started(&error, CLIENT_COLUMNS));
                matrix.row(&title, wire.name(), *era, cells);
            }
        }
    }
    matrix.finish()
}

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    direction: Option<Direction>,
    peers: Vec<String>,
    transport: Option<String>,
    server: Option<PathBuf>,
    binary: Option<PathBuf>,
}

/// The side that this workspace implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Server,
    Client,
    Login,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut parser = Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Arg::Long("direction") => {
                    options.direction = Some(match parser.value()?.string()?.as_str() {
                        "server" => Direction::Server,
                        "client" => Direction::Client,
                        "login" => Direction::Login,
                        other => bail!("`{other}` is not a direction: server, client, login"),
                    });
                }
                Arg::Long("peer") => {
                    let name = parser.value()?.string()?;
                    if !names().any(|known| known == name) {
                        bail!("`{name}` is not a peer: {}", names().collect::<Vec<_>>().join(", "));
                    }
                    options.peers.push(name);
                }
                Arg::Long("transport") => {
                    let name = parser.value()?.string()?;
                    if ![Wire::Stdio, Wire::Http, Wire::Sse].iter().any(|wire| wire.name() == name) {
                        bail!("`{name}` is not a transport: stdio, http, sse");
                    }
                    options.transport = Some(name);
                }
                Arg::Long("server") => options.server = Some(parser.value()?.into()),
                Arg::Long("client") => options.binary = Some(parser.value()?.into()),
                _ => return Err(arg.unexpected().into()),
            }
        }
        Ok(options)
    }

    /// Whether a selected client tests our server.
    fn server(&self) -> bool {
        self.direction.is_none_or(|only| only == Direction::Server) && PEERS.iter().any(|peer| self.wants(peer.name))
    }

    /// Whether a selected client logs in to our server.
    fn login(&self) -> bool {
        self.direction.is_none_or(|only| only == Direction::Login)
            && self.over(Transport::Http.name())
            && PEERS.iter().any(|peer| self.wants(peer.name))
    }

    /// Whether our client tests a selected server.
    fn client(&self) -> bool {
        self.direction.is_none_or(|only| only == Direction::Client)
            && SUBJECTS.iter().any(|subject| self.wants(subject.name))
    }

    fn wants(&self, peer: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|name| name == peer)
    }

    fn over(&self, transport: &str) -> bool {
        self.transport.as_deref().is_none_or(|only| only == transport)
    }
}

fn names() -> impl Iterator<Item = &'static str> {
    PEERS.iter().map(|peer| peer.name).chain(SUBJECTS.iter().map(|subject| subject.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Error> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn parses_valid_options() {
        let all = parse("").unwrap();
        assert_eq!(all, Options::default());
        assert!(all.server() && all.client() && all.over("sse"));
        let options = parse("--peer inspector --peer memory --transport http --server bin/x --client bin/y").unwrap();
        assert_eq!(
            (options.server.as_deref(), options.binary.as_deref()),
            (Some("bin/x".as_ref()), Some("bin/y".as_ref()))
        );
        assert!(options.wants("memory") && !options.wants("git") && options.over("http") && !options.over("stdio"));
        assert!(options.server() && options.client());
        for (line, server, client, login) in [
            ("--direction server", true, false, false),
            ("--direction client", false, true, false),
            ("--direction login", false, false, true),
            ("--direction login --transport stdio", false, false, false),
            ("--peer inspector", true, false, true),
            ("--peer git", false, true, false),
        ] {
            let options = parse(line).unwrap();
            assert_eq!((options.server(), options.client(), options.login()), (server, client, login), "{line}");
        }
    }

    #[test]
    fn rejects_invalid_options() {
        for line in ["--client", "--peer nobody", "--transport pigeon", "--direction up", "--verbose yes", "http"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
