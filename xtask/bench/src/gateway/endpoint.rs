//! The endpoints of a comparison: the gateway, the server behind it, and the bare peers.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{
    case::{Call, Revision, Template},
    client::{self, Caller},
    cpu,
    error::{Error, within},
    http::{self, Lengths},
    load::{GRACE, since},
    peer::{Peer, Start},
    report::median_time,
    stdio,
};

/// A peer that is ready for calls.
pub(super) struct Endpoint {
    pub(super) peer: Peer,
    caller: Calls,
}

enum Calls {
    Http {
        address: SocketAddr,
        session: Option<String>,
        call: Call,
        revision: Revision,
        length: usize,
    },
    Line {
        template: Template,
        call: Option<Call>,
    },
    Reqwest(Caller),
    /// The load does not call the peer.
    None,
}

/// The load of one round.
pub(super) struct Load {
    pub(super) calls: u64,
    pub(super) elapsed: Duration,
    /// The CPU time of the peer, and of this process.
    pub(super) peer: Duration,
    pub(super) own: Duration,
}

impl Load {
    pub(super) fn per_second(&self) -> f64 {
        self.calls as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the CPU time of each call, in microseconds.
    pub(super) fn cost(&self, used: Duration) -> f64 {
        used.as_secs_f64() * 1e6 / self.calls.max(1) as f64
    }
}

impl Endpoint {
    /// Starts a server that only a gateway calls.
    pub(super) fn started(start: &Start) -> Result<Self, Error> {
        Ok(Self { peer: Peer::start(start)?, caller: Calls::None })
    }

    /// Starts a server over HTTP, and checks one call.
    pub(super) async fn http(start: &Start, call: Call, revision: Revision) -> Result<Self, Error> {
        let mut peer = Peer::start(start)?;
        let opening = async {
            let address = peer.address().await?;
            let session = http::open_session(address, revision, None).await?;
            let target = http::Target { address, call, revision, session: session.as_deref(), credential: None };
            let (answer, id) = target.once().await?;
            call.verify(&answer, id)?;
            Ok::<_, Error>(Calls::Http { address, session, call, revision, length: answer.len() })
        };
        let caller = within(GRACE, start.kind, opening).await?;
        Ok(Self { peer, caller })
    }

    /// Starts a server over stdio, and checks one call. Returns the answer.
    pub(super) async fn line(start: &Start, call: Call, revision: Revision) -> Result<(Self, Vec<u8>), Error> {
        let mut peer = Peer::start(start)?;
        let mut template = Template::line(call, revision);
        let opening = async {
            stdio::open_session(&mut peer, revision).await?;
            let (answer, id) = stdio::once(&mut peer, &mut template).await?;
            call.verify(&answer, id)?;
            Ok::<_, Error>(answer)
        };
        let answer = within(GRACE, start.kind, opening).await?;
        Ok((Self { peer, caller: Calls::Line { template, call: Some(call) } }, answer))
    }

    /// Starts the bare line loop.
    pub(super) fn bare_line(start: &Start, revision: Revision) -> Result<Self, Error> {
        let template = Template::line(Call::Echo, revision);
        Ok(Self { peer: Peer::start(start)?, caller: Calls::Line { template, call: None } })
    }

    /// Starts the bare server, which `reqwest` calls.
    pub(super) async fn reqwest(start: &Start, revision: Revision) -> Result<Self, Error> {
        let mut peer = Peer::start(start)?;
        let address = peer.address().await?;
        let opening = async {
            let mut caller = Caller::bare(address, revision).await?;
            caller.call().await?;
            Ok::<_, Error>(caller)
        };
        let caller = within(GRACE, start.kind, opening).await?;
        Ok(Self { peer, caller: Calls::Reqwest(caller) })
    }

    /// Calls for a while, one call after the other. Returns the median time of a call.
    pub(super) async fn median(&mut self, length: Duration) -> Result<Duration, Error> {
        within(length + GRACE, "the calls of one connection", self.median_within(length)).await
    }

    async fn median_within(&mut self, length: Duration) -> Result<Duration, Error> {
        let deadline = Instant::now() + length;
        let mut times = Vec::new();
        match &mut self.caller {
            Calls::Http { address, session, call, revision, length } => {
                let (address, session) = (*address, session.as_deref());
                let target = http::Target { address, call: *call, revision: *revision, session, credential: None };
                let mut driven = target.drive(target.connect(1).await?, deadline, Lengths::exactly(*length)).await?;
                return driven.median().ok_or_else(|| Error::new("no call ended"));
            }
            Calls::Line { template, call } => {
                while Instant::now() < deadline {
                    let start = Instant::now();
                    let (answer, id) = stdio::once(&mut self.peer, template).await?;
                    times.push(start.elapsed());
                    if let Some(call) = call.filter(|_| times.len() == 1) {
                        call.verify(&answer, id)?;
                    }
                }
            }
            Calls::Reqwest(caller) => {
                while Instant::now() < deadline {
                    let start = Instant::now();
                    caller.call().await?;
                    times.push(start.elapsed());
                }
            }
            Calls::None => {}
        }
        median_time(&mut times).ok_or_else(|| Error::new("no call ended"))
    }

    /// Calls for a while over many connections at the same time.
    pub(super) async fn load(&mut self, connections: usize, length: Duration) -> Result<Load, Error> {
        match &mut self.caller {
            Calls::Http { address, session, call, revision, length: expected } => {
                let (address, session) = (*address, session.as_deref());
                let target = http::Target { address, call: *call, revision: *revision, session, credential: None };
                let open = within(GRACE, "the connections", target.connect(connections)).await?;
                let own = std::process::id();
                let (peer, before, start) = (self.peer.used(), cpu::used(own), Instant::now());
                let driving = target.drive(open, start + length, Lengths::exactly(*expected));
                let driven = within(length + GRACE, "the calls of many connections", driving).await?;
                let elapsed = driven.end - start;
                let used = |since: Option<Duration>| since.ok_or_else(|| Error::new("CPU times cannot be read here"));
                let peer = used(since(peer, self.peer.used()))?;
                Ok(Load { calls: driven.calls(), elapsed, peer, own: used(since(before, cpu::used(own)))? })
            }
            Calls::Reqwest(caller) => {
                let round = client::round(caller, connections, length, Some(&self.peer)).await?;
                let used = |used: Option<Duration>| used.ok_or_else(|| Error::new("CPU times cannot be read here"));
                // A round of a client calls the client the server.
                let (own, peer) = (used(round.server)?, used(round.generator)?);
                Ok(Load { calls: round.calls, elapsed: round.elapsed, peer, own })
            }
            Calls::Line { .. } | Calls::None => Err(Error::new("the endpoint has no connections over HTTP")),
        }
    }
}
