//! `cargo xtask interop`: clients that nobody here wrote, against the example server `everything`.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    conformance::{Leg, fixture},
    error::{Context, Error},
    workspace::{self, Metadata},
};

mod install;
mod matrix;
mod peers;
mod row;

use self::{
    install::Installed,
    matrix::Matrix,
    peers::{PEERS, Peer, Transport},
    row::Target,
};

const USAGE: &str = "usage: cargo xtask interop [--client NAME]... [--transport stdio|http] [--server BINARY]";

/// All checks of one client over one transport. The Inspector starts some thirty processes in it.
const ROW_LIMIT: Duration = Duration::from_secs(240);

/// Installs the pinned clients, runs each over each transport and in each era it knows, and prints a matrix. Fails when
/// a check failed or a client could not be run.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let options = Options::parse(args)?;
    let root = workspace::root();
    let metadata = Metadata::load(&root)?;
    let binary = match &options.server {
        Some(binary) => binary.canonicalize().context(binary.display())?,
        None => fixture::build(&root, &metadata, Leg::Server)?,
    };
    let mut installed = Installed::new(&root, &metadata.target_directory)?;
    let mut matrix = Matrix::default();
    for peer in PEERS.iter().filter(|peer| options.wants(peer)) {
        let title = installed.title(peer);
        let runtime = match installed.runtime(peer) {
            Ok(runtime) => runtime,
            Err(error) => {
                matrix.not_run(&title, &error);
                continue;
            }
        };
        for transport in Transport::ALL.into_iter().filter(|transport| options.over(*transport)) {
            for era in peer.eras {
                println!("{title}, {transport}, {era}");
                let target = Target::new(transport, *era, &binary);
                let cells = target.and_then(|target| row::run(&runtime, peer, &target, ROW_LIMIT));
                matrix.row(&title, transport, *era, cells.unwrap_or_else(|error| row::not_started(&error)));
            }
        }
    }
    matrix.finish()
}

/// What was asked for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options {
    clients: Vec<String>,
    transport: Option<Transport>,
    server: Option<PathBuf>,
}

impl Options {
    fn parse(args: &[String]) -> Result<Self, Error> {
        let refuse = |why: String| Error::new(format!("{why}\n{USAGE}"));
        let mut options = Self::default();
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| refuse(format!("`{flag}` stands alone")))?;
            match flag.as_str() {
                "--client" if PEERS.iter().any(|peer| peer.name == value) => options.clients.push(value.clone()),
                "--client" => {
                    let names: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
                    return Err(refuse(format!("no client `{value}`, there are {}", names.join(", "))));
                }
                "--transport" => {
                    let transport = Transport::ALL.into_iter().find(|transport| transport.name() == value);
                    options.transport = Some(transport.ok_or_else(|| refuse(format!("no transport `{value}`")))?);
                }
                "--server" => options.server = Some(Path::new(value).to_owned()),
                _ => return Err(refuse(format!("unknown option `{flag}`"))),
            }
        }
        Ok(options)
    }

    fn wants(&self, peer: &Peer) -> bool {
        self.clients.is_empty() || self.clients.iter().any(|name| name == peer.name)
    }

    fn over(&self, transport: Transport) -> bool {
        self.transport.is_none_or(|only| only == transport)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Error> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Options::parse(&args)
    }

    #[test]
    fn reads_options() {
        assert_eq!(parse("").unwrap(), Options::default());
        let options = parse("--client inspector --client python-v2 --transport http --server bin/x").unwrap();
        let clients = vec!["inspector".to_owned(), "python-v2".to_owned()];
        let expected = Options { clients, transport: Some(Transport::Http), server: Some("bin/x".into()) };
        assert_eq!(options, expected);
        assert!(!options.wants(&PEERS[1]) && options.over(Transport::Http) && !options.over(Transport::Stdio));
    }

    #[test]
    fn refuses_the_rest() {
        for line in ["--client", "--client nobody", "--transport pigeon", "--verbose yes", "http"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
