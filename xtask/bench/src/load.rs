//! `bench load`: for every case and revision, rounds that take turns between our server and the bare peer.

use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

use crate::{
    attack::Attack,
    auth::Credential,
    case::{Call, Case, Over, Revision, Template},
    client, cpu,
    error::{Error, within},
    figure::Figure,
    http::{self, Lengths},
    library::{Form, Library},
    options::Options,
    peer::{Peer, Start},
    report::{self, Measured, Round, Row},
    stdio,
    turns::{Processes, Program, Turns},
};

/// How long the first answers of a case and the last of a round may take.
pub(crate) const GRACE: Duration = Duration::from_secs(20);
/// Before the rounds that count, each peer works this long.
pub(crate) const WARM_UP: Duration = Duration::from_millis(300);

/// Measures and prints the table.
pub(crate) fn run(args: &[String]) -> Result<Vec<Figure>, Error> {
    let mut options = Options::parse(args)?;
    let cores = cpu::pair();
    options.cores = cores;
    match cores {
        Some((server, generator)) => {
            cpu::pin(generator)?;
            println!("servers on core {server}, load from core {generator}");
        }
        None => println!("NOT PINNED: fewer than two cores, or the system cannot choose. The figures vary more."),
    }
    let rounds = options.rounds;
    println!("{rounds} rounds of {:?} for each peer of a case, in turns; medians\n", options.round);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let scratch = Scratch::new()?;
    let mut rows = Vec::new();
    for case in options.cases() {
        for revision in case.revisions().iter().copied() {
            let name = format!("{:<18} {revision}", case.name);
            let row = Row::steady(&name, || {
                let measuring = measure(case, revision, &options, cores.map(|(server, _)| server), &scratch);
                let measured = runtime.block_on(measuring);
                let measured = measured.map_err(|error| error.when(format_args!("{} {revision}", case.name)))?;
                Ok(Row::new(case, revision, &measured))
            })?;
            rows.push(row);
        }
    }
    report::print(&rows);
    Ok(rows.iter().flat_map(Row::figures).collect())
}

/// A directory that is removed on drop.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Result<Self, Error> {
        let path = std::env::temp_dir().join(format!("mcp-bench-{}", std::process::id()));
        std::fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.0.join("answer.json")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that cannot be removed is small and is in the temporary directory of the system.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One server that is ready for load.
struct Runner {
    processes: Processes,
    peer: Peer,
    side: Side,
    role: Role,
    call: Call,
    revision: Revision,
    /// The wrong passwords in a second.
    wrong_passwords: u32,
    /// The answer to a call. The answers of another library can vary in their length, such as by the ids of events.
    answer: Option<Vec<u8>>,
}

/// The program that a runner loads.
#[derive(Debug, Clone)]
enum Role {
    Ours,
    /// The bare peer with the response that it returns, and the session id of ours, so that it reads the same bytes.
    Bare {
        answer: PathBuf,
        session: Option<String>,
    },
    Other(Library, Form),
}

enum Side {
    Http { address: SocketAddr, session: Option<String>, connections: usize, credential: Option<Credential> },
    Stdio { template: Template, depth: usize },
}

async fn measure(
    case: &Case,
    revision: Revision,
    options: &Options,
    cpu: Option<usize>,
    scratch: &Scratch,
) -> Result<Measured, Error> {
    if let Over::Client { at_once } | Over::ClientStdio { at_once } = case.over {
        return client::measure(case, at_once, revision, options, cpu).await;
    }
    let mut ours = Runner::start(case, revision, cpu, Role::Ours).await?;
    let answer = ours.check().await?;
    let mut bare = if case.wrong_passwords > 0 {
        Runner::start(&Case { wrong_passwords: 0, ..*case }, revision, cpu, Role::Ours).await?
    } else if case.auth.is_some() {
        Runner::start(&Case { auth: None, ..*case }, revision, cpu, Role::Ours).await?
    } else {
        let file = scratch.file();
        std::fs::write(&file, &answer)?;
        let bare = Role::Bare { answer: file, session: ours.session() };
        Runner::start(case, revision, cpu, bare).await?
    };
    let warm_up = WARM_UP.min(options.round);
    for runner in [&mut ours, &mut bare] {
        runner.answer = Some(answer.clone());
        runner.round(warm_up).await?;
    }
    let mut turns = Turns::new(case, revision, ours, bare);
    for library in options.peers.iter().filter(|_| case.has_peers()) {
        let forms = library.forms(server_kind(case.over)).filter(|form| form.suits(case.call, revision));
        for form in forms {
            let role = Role::Other(library.clone(), form);
            turns.add(form.name, Runner::start_other(case, revision, cpu, role, warm_up).await);
        }
    }
    turns.measure(options).await
}

impl Program for Runner {
    fn processes(&mut self) -> &mut Processes {
        &mut self.processes
    }

    /// A call that is checked, then load for a while.
    async fn round(&mut self, length: Duration) -> Result<Round, Error> {
        let outcome = within(length + GRACE, "answers", self.load(length)).await;
        outcome.map_err(|error| {
            let name = match &self.role {
                Role::Ours => "our server",
                Role::Bare { .. } => "the bare peer",
                Role::Other(_, form) => form.name,
            };
            error.when(format_args!("{name}{}", fate(&mut self.peer)))
        })
    }
}

impl Runner {
    /// Starts a server.
    async fn start(case: &Case, revision: Revision, cpu: Option<usize>, role: Role) -> Result<Self, Error> {
        let kind = match (case.over, &role) {
            (Over::Http { .. }, Role::Ours) => "ours-http",
            (Over::Http { .. }, Role::Bare { .. }) if case.call == Call::Open => "bare-sessions",
            (Over::Http { .. }, Role::Bare { .. }) => "bare-http",
            (_, Role::Other(..)) => server_kind(case.over),
            (Over::Stdio { .. }, Role::Ours) => "ours-stdio",
            (Over::Stdio { .. }, Role::Bare { .. }) if case.gathered => "bare-stdio-gathered",
            (Over::Stdio { .. }, Role::Bare { .. }) => "bare-stdio",
            (Over::Client { .. } | Over::ClientStdio { .. }, _) => return Err(Error::new("a client is not a server")),
        };
        let mut start = Start { kind, cpu, ..Start::default() };
        match &role {
            Role::Ours => (start.tools, start.auth) = (case.tools(), case.auth),
            Role::Bare { answer, .. } => start.answer = Some(answer.clone()),
            Role::Other(library, form) => {
                start.program = Some(library.program(kind)?);
                start.form = form.argument;
            }
        }
        let mut peer = Peer::start(&start)?;
        let opening = async {
            Ok::<_, Error>(match case.over {
                Over::Http { connections } => {
                    let address = peer.address().await?;
                    let credential = match start.auth {
                        Some(_) => Some(peer.credential().await?),
                        None => None,
                    };
                    let session = match &role {
                        _ if case.call == Call::Open => None,
                        Role::Bare { session, .. } => session.clone(),
                        Role::Other(_, form) if !form.has_sessions => {
                            http::initialize(address, revision, credential.as_ref()).await?
                        }
                        _ => http::open_session(address, revision, credential.as_ref()).await?,
                    };
                    Side::Http { address, session, connections, credential }
                }
                Over::Stdio { depth } => {
                    if !matches!(role, Role::Bare { .. }) {
                        stdio::open_session(&mut peer, revision).await?;
                    }
                    Side::Stdio { template: Template::line(case.call, revision), depth }
                }
                Over::Client { .. } | Over::ClientStdio { .. } => return Err(Error::new("a client is not a server")),
            })
        };
        match within(GRACE, "the start", opening).await {
            Ok(side) => {
                let (call, wrong_passwords) = (case.call, case.wrong_passwords);
                let processes = Processes::new(vec![peer.pid()]);
                Ok(Self { processes, peer, side, role, call, revision, wrong_passwords, answer: None })
            }
            Err(error) => Err(error.when(format_args!("{kind}{}", fate(&mut peer)))),
        }
    }

    /// Starts a server of another library, and lets it work.
    async fn start_other(
        case: &Case,
        revision: Revision,
        cpu: Option<usize>,
        role: Role,
        warm_up: Duration,
    ) -> Result<Self, Error> {
        let mut runner = Self::start(case, revision, cpu, role).await?;
        runner.round(warm_up).await?;
        Ok(runner)
    }

    fn session(&self) -> Option<String> {
        match &self.side {
            Side::Http { session, .. } => session.clone(),
            Side::Stdio { .. } => None,
        }
    }

    /// Makes one call and checks its answer: by the prepared bytes for a bare peer, by its content for the others.
    async fn check(&mut self) -> Result<Vec<u8>, Error> {
        let calling = async {
            match &mut self.side {
                Side::Http { address, session, credential, .. } => {
                    let (session, credential) = (session.as_deref(), credential.as_ref());
                    let (call, revision) = (self.call, self.revision);
                    http::Target { address: *address, call, revision, session, credential }.once().await
                }
                Side::Stdio { template, .. } => stdio::once(&mut self.peer, template).await,
            }
        };
        let (answer, id) = within(GRACE, "the answer to a checked call", calling).await?;
        match self.role {
            Role::Bare { .. } if Some(&answer) != self.answer.as_ref() => {
                return Err(Error::new("the bare peer returned another response than the prepared one"));
            }
            Role::Bare { .. } => {}
            Role::Ours | Role::Other(..) => self.call.verify(http::message(&answer), id)?,
        }
        Ok(answer)
    }

    async fn load(&mut self, length: Duration) -> Result<Round, Error> {
        let checked = self.check().await?;
        let expected = match &self.answer {
            Some(answer) if checked.len() != answer.len() => {
                return Err(Error::new("answers differ in their length"));
            }
            Some(answer) => Lengths::exactly(answer.len()),
            None => Lengths::near(checked.len()),
        };
        let own = std::process::id();
        match &mut self.side {
            Side::Http { address, session, connections, credential } => {
                let (session, credential) = (session.as_deref(), credential.as_ref());
                let (call, revision) = (self.call, self.revision);
                let target = http::Target { address: *address, call, revision, session, credential };
                let open = target.connect(*connections).await?;
                // The attack opens its connections before the clock starts.
                let attack = match self.wrong_passwords {
                    0 => None,
                    per_second => Some(Attack::start(*address, per_second).await?),
                };
                let (server, generator, start) = (self.peer.used(), cpu::used(own), Instant::now());
                let mut driven = target.drive(open, start + length, expected).await?;
                // The times of the round end before its statistics are computed.
                let (server, generator) = (since(server, self.peer.used()), since(generator, cpu::used(own)));
                let wrong_passwords = attack.map(Attack::end).transpose()?.unwrap_or_default();
                let (calls, elapsed, p99) = (driven.calls(), driven.end - start, driven.p99());
                Ok(Round { calls, elapsed, server, generator, p99, wrong_passwords })
            }
            Side::Stdio { template, depth } => {
                let (server, generator, start) = (self.peer.used(), cpu::used(own), Instant::now());
                let calls = stdio::drive(&mut self.peer, template, *depth, start + length, expected).await?;
                let elapsed = start.elapsed();
                let (server, generator) = (since(server, self.peer.used()), since(generator, cpu::used(own)));
                Ok(Round { calls, elapsed, server, generator, ..Round::default() })
            }
        }
    }
}

/// The kind of the programs of other libraries that a case loads.
fn server_kind(over: Over) -> &'static str {
    match over {
        Over::Http { .. } => "http",
        Over::Stdio { .. } => "stdio",
        Over::Client { .. } | Over::ClientStdio { .. } => "client",
    }
}

/// The time between two readings.
pub(crate) fn since(before: Option<Duration>, after: Option<Duration>) -> Option<Duration> {
    Some(after?.saturating_sub(before?))
}

/// How a peer ended, for the text of an error.
fn fate(peer: &mut Peer) -> String {
    peer.ended().map_or_else(String::new, |status| format!(" (ended: {status})"))
}
