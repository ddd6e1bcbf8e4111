//! The client under test, and the loop around `reqwest` beside it: both call the same bare server.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use mcp_client::{
    ChildProcess, Client,
    http::reqwest::{
        self,
        header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
    },
};
use rustls::crypto::ring;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::{
    case::{Call, Case, ECHO_TEXT, Over, Revision, Template},
    cpu,
    error::{Error, within},
    http, library,
    load::{GRACE, WARM_UP, since},
    options::Options,
    peer::{Peer, Start},
    report::{Measured, Round},
    stdio,
    turns::{Processes, Program, Turns},
    work,
};

/// Measures the client, the bare loop and the clients of other libraries, in turns.
pub(crate) async fn measure(
    case: &Case,
    at_once: usize,
    revision: Revision,
    options: &Options,
    cpu: Option<usize>,
) -> Result<Measured, Error> {
    let server = match case.over {
        Over::ClientStdio { .. } => Server::Stdio { cpu },
        _ => Server::http(cpu).await?,
    };
    let warm_up = WARM_UP.min(options.round);
    let starting = Runner::start(&server, at_once, warm_up, server.ours(revision));
    let ours = within(GRACE, "the start of our client", starting).await?;
    let starting = Runner::start(&server, at_once, warm_up, server.bare(revision));
    let bare = within(GRACE, "the start of the bare client", starting).await?;
    let mut turns = Turns::new(case, revision, ours, bare);
    for library in &options.peers {
        let starting = async {
            let client = library::Client::start(library, revision, &server.target()?).await?;
            Ok::<_, Error>(Kind::Other(client))
        };
        let starting = Runner::start(&server, at_once, warm_up, starting);
        turns.add(library.name, within(GRACE, "the start of a client", starting).await);
    }
    turns.measure(options).await
}

/// The bare server of the clients: one process over HTTP, or a process of each client over stdio.
enum Server {
    Http { peer: Box<Peer>, address: SocketAddr },
    Stdio { cpu: Option<usize> },
}

impl Server {
    async fn http(cpu: Option<usize>) -> Result<Self, Error> {
        let mut peer = Peer::start(&Start { kind: "bare-mcp", cpu, ..Start::default() })?;
        let address = peer.address().await?;
        Ok(Self::Http { peer: Box::new(peer), address })
    }

    fn peer(&self) -> Option<&Peer> {
        match self {
            Self::Http { peer, .. } => Some(peer),
            Self::Stdio { .. } => None,
        }
    }

    /// The arguments of a client program.
    fn target(&self) -> Result<Vec<String>, Error> {
        Ok(match self {
            Self::Http { address, .. } => vec!["http".to_owned(), url(*address)],
            Self::Stdio { cpu } => {
                let program = std::env::current_exe()?.to_string_lossy().into_owned();
                let pinned = cpu.iter().flat_map(|cpu| ["--cpu".to_owned(), cpu.to_string()]);
                let fixed = ["stdio", &program, "peer", "bare-mcp-stdio"].map(str::to_owned);
                fixed.into_iter().chain(pinned).collect()
            }
        })
    }

    async fn ours(&self, revision: Revision) -> Result<Kind, Error> {
        let builder = Client::builder("bench", "1.0.0").versions([revision.version()]);
        Ok(Kind::Caller(Caller::Ours(match self {
            Self::Http { address, .. } => builder.connect(url(*address)).await?,
            Self::Stdio { .. } => {
                let target = self.target()?;
                builder.connect(ChildProcess::new(&target[1]).args(&target[2..])).await?
            }
        })))
    }

    async fn bare(&self, revision: Revision) -> Result<Kind, Error> {
        Ok(match self {
            Self::Http { address, .. } => Kind::Caller(Caller::bare(*address, revision).await?),
            Self::Stdio { cpu } => {
                let mut peer = Peer::start(&Start { kind: "bare-mcp-stdio", cpu: *cpu, ..Start::default() })?;
                stdio::open_session(&mut peer, revision).await?;
                Kind::Lines { peer, template: Template::line(Call::Echo, revision) }
            }
        })
    }
}

/// The URL of a server over HTTP.
fn url(address: SocketAddr) -> String {
    format!("http://{address}/mcp")
}

/// A client that is ready for rounds.
struct Runner<'a> {
    processes: Processes,
    client: Kind,
    at_once: usize,
    server: &'a Server,
}

impl<'a> Runner<'a> {
    /// Starts a client, and lets it work. Its processes are those that began with it.
    async fn start(
        server: &'a Server,
        at_once: usize,
        warm_up: Duration,
        starting: impl Future<Output = Result<Kind, Error>>,
    ) -> Result<Self, Error> {
        let before = work::family();
        let client = starting.await?;
        let begun = work::family().into_iter().filter(|id| !before.contains(id)).collect();
        let mut runner = Self { processes: Processes::new(begun), client, at_once, server };
        runner.round(warm_up).await?;
        Ok(runner)
    }
}

enum Kind {
    /// Our client, or the loop around `reqwest`.
    Caller(Caller),
    /// A loop that writes lines, and parses each line of the server: the least that a client over stdio does.
    Lines {
        peer: Peer,
        template: Template,
    },
    Other(library::Client),
}

impl Program for Runner<'_> {
    fn processes(&mut self) -> &mut Processes {
        &mut self.processes
    }

    async fn round(&mut self, length: Duration) -> Result<Round, Error> {
        let at_once = self.at_once;
        match &mut self.client {
            Kind::Caller(caller) => round(caller, at_once, length, self.server.peer()).await,
            Kind::Other(client) => client.round(at_once, length).await,
            Kind::Lines { peer, template } => {
                let own = std::process::id();
                let (used, served, start) = (cpu::used(own), peer.used(), Instant::now());
                let calling = stdio::drive_parsed(peer, template, at_once, start + length);
                let calls = within(length + GRACE, "the answers of the bare server over stdio", calling).await?;
                let elapsed = start.elapsed();
                let (server, generator) = (since(used, cpu::used(own)), since(served, peer.used()));
                Ok(Round { calls, elapsed, server, generator, ..Round::default() })
            }
        }
    }
}

/// One lane of calls.
#[derive(Clone)]
pub(crate) enum Caller {
    Ours(Client),
    Bare { client: reqwest::Client, url: String, headers: HeaderMap, template: Template },
}

impl Caller {
    /// Opens the session that the revision needs, and sends its id with each call, as each client does.
    pub(crate) async fn bare(address: SocketAddr, revision: Revision) -> Result<Self, Error> {
        // The program may have installed a provider before, so an error has no meaning.
        let _ = ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert("mcp-protocol-version", HeaderValue::from_static(revision.name()));
        if revision == Revision::Stateless {
            headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
            headers.insert("mcp-name", HeaderValue::from_static("echo"));
        }
        if let Some(session) = http::open_session(address, revision, None).await? {
            headers.insert("mcp-session-id", HeaderValue::from_str(&session)?);
        }
        let client = reqwest::Client::builder().no_proxy().tcp_nodelay(true).build()?;
        Ok(Self::Bare { client, url: url(address), headers, template: Template::message(Call::Echo, revision) })
    }

    /// A caller with a separate range of ids.
    fn for_lane(&self, n: usize) -> Self {
        let mut worker = self.clone();
        if let Self::Bare { template, .. } = &mut worker {
            *template = template.for_lane(n);
        }
        worker
    }

    pub(crate) async fn call(&mut self) -> Result<(), Error> {
        let text = match self {
            Self::Ours(client) => client.call_tool("echo", json!({ "text": ECHO_TEXT })).await?.text(),
            Self::Bare { client, url, headers, template } => {
                let (body, id) = template.next()?;
                let sending = client.post(url.as_str()).headers(headers.clone()).body(body.to_vec()).send();
                let answer: Value = serde_json::from_slice(&sending.await?.bytes().await?)?;
                if answer["id"] != id {
                    return Err(Error::new("an answer to another request"));
                }
                answer["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
            }
        };
        if text == ECHO_TEXT { Ok(()) } else { Err(Error::new(format!("a wrong answer: {text}"))) }
    }
}

/// Calls for a while, `at_once` calls at the same time.
pub(crate) async fn round(
    caller: &mut Caller,
    at_once: usize,
    length: Duration,
    peer: Option<&Peer>,
) -> Result<Round, Error> {
    let own = std::process::id();
    let (server, generator, start) = (peer.and_then(Peer::used), cpu::used(own), Instant::now());
    let deadline = start + length;
    let mut workers = JoinSet::new();
    for n in 0..at_once {
        let mut worker = caller.for_lane(n);
        workers.spawn(async move {
            let mut calls = 0;
            while Instant::now() < deadline {
                worker.call().await?;
                calls += 1;
            }
            Ok::<u64, Error>(calls)
        });
    }
    let mut calls = 0;
    let ending = async {
        while let Some(outcome) = workers.join_next().await {
            calls += outcome??;
        }
        Ok::<(), Error>(())
    };
    within(length + GRACE, "the calls of a client in this process", ending).await?;
    let elapsed = start.elapsed();
    // The benchmark measures the client. The server is the peer.
    let (server, generator) = (since(generator, cpu::used(own)), since(server, peer.and_then(Peer::used)));
    Ok(Round { calls, elapsed, server, generator, ..Round::default() })
}
