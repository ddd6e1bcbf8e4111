//! `cargo xtask interop`: clients of other projects against the example servers `everything` and `protected`, and our
//! client against servers of other projects, with and without tokens.

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

mod gateway;
mod install;
mod matrix;
mod peers;
mod row;
mod servers;

use self::{
    install::Installed,
    matrix::{CLIENT_COLUMNS, COLUMNS, Cell, LOGIN_COLUMNS, Matrix, PROTECTED_COLUMNS},
    peers::{Login, PEERS, Runtime, Transport},
    row::Target,
    servers::{SUBJECTS, Started, Wire},
};

pub(crate) const USAGE: &str = "usage: cargo xtask interop [--direction server|client|login|protected|gateway] [--peer NAME]... [--transport stdio|http|sse] \
    [--server BINARY] [--client BINARY]";

/// The package and binary that tests foreign servers.
const CLIENT: &str = "interop-client";

/// All checks of one client over one transport. The Inspector starts some thirty processes in it.
const ROW_LIMIT: Duration = Duration::from_secs(240);
/// One login.
const LOGIN_LIMIT: Duration = Duration::from_secs(60);
/// All checks of a server that requires tokens. One check waits for the end of a token.
const PROTECTED_LIMIT: Duration = Duration::from_secs(180);

/// Runs the pinned peers of one or both directions, each over each transport and in each era it knows, and prints a
/// matrix per direction. Fails when a check failed or a peer could not be run.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let options = Options::parse(args).context(USAGE)?;
    let root = workspace::root();
    let metadata = Metadata::load(&root)?;
    let mut installed = Installed::new(&root, metadata.target())?;
    installed.prepare(&options.runtimes())?;
    let server = options.server().then(|| clients(&options, &root, &metadata, &mut installed));
    let login = options.login().then(|| logins(&options, &root, &mut installed));
    let client = options.client().then(|| servers(&options, &root, &mut installed));
    let protected = options.protected().then(|| protected(&options, &root, &mut installed));
    let gateway = options.gateway().then(|| gateway::run(&options, &root, &metadata, &mut installed));
    [server, login, client, protected, gateway].into_iter().flatten().collect()
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
    let client = options.client_binary(root)?;
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

/// Our client that logs in to foreign servers. The servers trust the authorization server of `interop-client`.
fn protected(options: &Options, root: &Path, installed: &mut Installed) -> Result<(), Error> {
    let client = options.client_binary(root)?;
    let transport = Transport::Http.name();
    let mut matrix = Matrix::new("protected server", PROTECTED_COLUMNS);
    for subject in SUBJECTS.iter().filter(|subject| options.wants(subject.name)) {
        let Some(script) = subject.protected else { continue };
        let title = installed.title(subject.title, subject.runtime, subject.package);
        let runtime = match installed.runtime(subject.runtime) {
            Ok(runtime) => runtime,
            Err(error) => {
                matrix.not_run(&title, &error);
                continue;
            }
        };
        for era in subject.eras {
            println!("{title}, protected, {era}");
            let cells = servers::protected(&runtime, subject, script, *era).and_then(|config| {
                let mut command = Command::new(&client);
                command.arg(config.to_string());
                row::run(command, PROTECTED_COLUMNS, PROTECTED_LIMIT)
            });
            let cells = cells.unwrap_or_else(|error| row::not_started(&error, PROTECTED_COLUMNS));
            matrix.row(&title, transport, *era, cells);
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
    /// The client, at servers that require tokens.
    Protected,
    /// The gateway between clients and servers of each era.
    Gateway,
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
                        "protected" => Direction::Protected,
                        "gateway" => Direction::Gateway,
                        other => bail!("`{other}` is not a direction: server, client, login, protected, gateway"),
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

    /// Whether our client logs in to a selected server.
    fn protected(&self) -> bool {
        self.direction.is_none_or(|only| only == Direction::Protected)
            && self.over(Transport::Http.name())
            && SUBJECTS.iter().any(|subject| subject.protected.is_some() && self.wants(subject.name))
    }

    /// Whether a selected client tests our gateway. Its runs take long, so only `--direction gateway` selects them.
    fn gateway(&self) -> bool {
        self.direction == Some(Direction::Gateway) && PEERS.iter().any(|peer| self.wants(peer.name))
    }

    /// Returns the runtimes of the selected peers.
    fn runtimes(&self) -> Vec<Runtime> {
        let are_clients = self.server() || self.login() || self.gateway();
        let are_servers = self.client() || self.protected();
        let clients = PEERS.iter().filter(|peer| are_clients && self.wants(peer.name)).map(|peer| peer.runtime);
        let servers = SUBJECTS.iter().filter(|subject| are_servers && self.wants(subject.name));
        let wanted: Vec<Runtime> = clients.chain(servers.map(|subject| subject.runtime)).collect();
        [Runtime::Node, Runtime::Python].into_iter().filter(|runtime| wanted.contains(runtime)).collect()
    }

    /// Returns the program of our client.
    fn client_binary(&self, root: &Path) -> Result<PathBuf, Error> {
        match &self.binary {
            Some(binary) => binary.canonicalize().with_context(|| binary.display().to_string()),
            None => fixture::binary(root, CLIENT),
        }
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
    use crate::words;

    fn parse(line: &str) -> Result<Options, Error> {
        Options::parse(&words(line))
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
        for (line, server, client, login, protected) in [
            ("--direction server", true, false, false, false),
            ("--direction client", false, true, false, false),
            ("--direction login", false, false, true, false),
            ("--direction login --transport stdio", false, false, false, false),
            ("--direction protected", false, false, false, true),
            ("--direction protected --transport stdio", false, false, false, false),
            ("--direction protected --peer git", false, false, false, false),
            ("--direction gateway", false, false, false, false),
            ("--peer inspector", true, false, true, false),
            ("--peer python-v2", true, true, true, true),
            ("--peer git", false, true, false, false),
        ] {
            let options = parse(line).unwrap();
            let found = (options.server(), options.client(), options.login(), options.protected());
            assert_eq!(found, (server, client, login, protected), "{line}");
            assert_eq!(options.gateway(), line == "--direction gateway", "{line}");
        }
    }

    #[test]
    fn the_selected_peers_decide_the_runtimes() {
        for (line, expected) in [
            ("", &[Runtime::Node, Runtime::Python][..]),
            ("--peer inspector", &[Runtime::Node]),
            ("--peer git --direction client", &[Runtime::Python]),
            ("--peer git --direction server", &[]),
            ("--direction login --transport stdio", &[]),
        ] {
            assert_eq!(parse(line).unwrap().runtimes(), expected, "{line}");
        }
    }

    #[test]
    fn rejects_invalid_options() {
        for line in ["--client", "--peer nobody", "--transport pigeon", "--direction up", "--verbose yes", "http"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
