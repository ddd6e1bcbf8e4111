//! The cost of a relayed call: the added time, the CPU time, and a large result.

use std::time::Duration;

use super::{
    Extent,
    endpoint::Endpoint,
    report::{Aim, median, row},
};
use crate::{
    case::{Call, Revision},
    error::Error,
    load::Scratch,
    peer::Start,
};

const CONNECTIONS: usize = 32;
/// The name of the row of a bare relay, below the row of the gateway.
const BARE_RELAY: &str = "  the same by a relay without MCP";

/// The cores: one of the gateway and of each server that the load calls directly, and one of the load and of the servers behind
/// the gateway. Each step of a call then crosses the cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cores {
    pub(super) peer: Option<usize>,
    pub(super) load: Option<usize>,
}

impl Cores {
    /// Returns the start of a gateway or of a bare relay.
    fn relay(self, kind: &'static str, upstream: &str, revision: Revision) -> Start {
        let mut gateway: Vec<String> =
            ["--upstream", upstream, "--revision", revision.name()].map(str::to_owned).to_vec();
        if let Some(cpu) = self.load {
            gateway.extend(["--upstream-cpu".to_owned(), cpu.to_string()]);
        }
        Start { kind, cpu: self.peer, gateway, ..Start::default() }
    }

    fn direct(self, kind: &'static str) -> Start {
        Start { kind, cpu: self.peer, ..Start::default() }
    }

    fn upstream(self) -> Start {
        Start { kind: "ours-http", cpu: self.load, ..Start::default() }
    }
}

/// The gateway over HTTP, a bare relay, the server alone, and the server behind the relays.
struct Relays {
    relayed: Endpoint,
    bare_relay: Endpoint,
    direct: Endpoint,
    _upstream: Endpoint,
}

impl Relays {
    async fn start(cores: Cores, calls: (Call, Call), revision: Revision) -> Result<Self, Error> {
        let mut upstream = Endpoint::started(&cores.upstream())?;
        let url = format!("http://{}/mcp", upstream.peer.address().await?);
        let relayed = Endpoint::http(&cores.relay("gateway-http", &url, revision), calls.0, revision).await?;
        let bare_relay = Endpoint::http(&cores.relay("bare-relay", &url, revision), calls.1, revision).await?;
        let direct = Endpoint::http(&cores.direct("ours-http"), calls.1, revision).await?;
        Ok(Self { relayed, bare_relay, direct, _upstream: upstream })
    }
}

/// The order of the parts of a round. It reverses in each second round, so that the place of a part in it has no effect.
fn order<const N: usize>(number: usize) -> [usize; N] {
    std::array::from_fn(|at| if number.is_multiple_of(2) { at } else { N - 1 - at })
}

/// Compares the added time of an echo with a bare round trip.
pub(super) async fn added(cores: Cores, extent: Extent) -> Result<(), Error> {
    for revision in Revision::ALL {
        let Relays { relayed, bare_relay, direct, _upstream } =
            Relays::start(cores, (Call::RelayedEcho, Call::Echo), revision).await?;
        let bare = Endpoint::reqwest(&cores.direct("bare-mcp"), revision).await?;
        let name = format!("added time of an echo by reqwest, HTTP {revision}");
        compare(&name, [relayed, bare_relay, direct, bare], extent).await?;
    }
    let scratch = Scratch::new()?;
    for revision in Revision::ALL {
        let gateway = cores.relay("gateway-stdio", "stdio", revision);
        let (relayed, _) = Endpoint::line(&gateway, Call::RelayedEcho, revision).await?;
        let bare_relay = cores.relay("bare-relay-stdio", "stdio", revision);
        let (bare_relay, _) = Endpoint::line(&bare_relay, Call::Echo, revision).await?;
        let (direct, answer) = Endpoint::line(&cores.direct("ours-stdio"), Call::Echo, revision).await?;
        std::fs::write(scratch.file(), answer)?;
        let start = Start { answer: Some(scratch.file()), ..cores.direct("bare-stdio") };
        let bare = Endpoint::bare_line(&start, revision)?;
        let name = format!("added time of an echo by a line, stdio {revision}");
        compare(&name, [relayed, bare_relay, direct, bare], extent).await?;
    }
    Ok(())
}

/// Measures the gateway, a bare relay, the server alone and the bare peer in turns.
async fn compare(name: &str, mut endpoints: [Endpoint; 4], extent: Extent) -> Result<(), Error> {
    let (mut ratios, mut times) = ([Vec::new(), Vec::new()], [const { Vec::new() }; 4]);
    for number in 0..=extent.rounds {
        let mut round = [0.0; 4];
        for at in order::<4>(number) {
            round[at] = endpoints[at].median(extent.round).await?.as_secs_f64() * 1e6;
        }
        // The first round warms up.
        if number > 0 {
            let [relayed, bare_relay, direct, bare] = round;
            ratios[0].push((relayed - direct) / bare);
            ratios[1].push((bare_relay - direct) / bare);
            for (all, time) in times.iter_mut().zip(round) {
                all.push(time);
            }
        }
    }
    let [relayed, bare_relay, direct, bare] = times.map(|times| median(&times));
    let details = format!("relayed {relayed:.0} us, direct {direct:.0} us, bare {bare:.0} us");
    row(name, &ratios[0], " x", Aim::AtMost(1.35), &details);
    row(BARE_RELAY, &ratios[1], " x", Aim::None, &format!("relayed {bare_relay:.0} us"));
    Ok(())
}

/// Compares the CPU time of a relayed echo with that of the echo and of `reqwest`.
pub(super) async fn cpu(cores: Cores, extent: Extent) -> Result<(), Error> {
    for revision in Revision::ALL {
        let Relays { relayed, bare_relay, direct, _upstream } =
            Relays::start(cores, (Call::RelayedEcho, Call::Echo), revision).await?;
        let bare = Endpoint::reqwest(&cores.direct("bare-mcp"), revision).await?;
        let mut endpoints = [relayed, bare_relay, direct, bare];
        let length = extent.round.max(Duration::from_millis(500));
        let (mut ratios, mut rates) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        let mut costs = [const { Vec::new() }; 4];
        for number in 0..=extent.rounds.div_ceil(2) {
            let mut loads = [const { None }; 4];
            for at in order::<4>(number) {
                loads[at] = Some(endpoints[at].load(CONNECTIONS, length).await?);
            }
            if let ([Some(through), Some(through_bare), Some(alone), Some(client)], 1..) = (loads, number) {
                let costs_of_relays = [through.cost(through.peer), through_bare.cost(through_bare.peer)];
                let (server, client) = (alone.cost(alone.peer), client.cost(client.own));
                let round = [costs_of_relays[0], costs_of_relays[1], server, client];
                for (ratios, cost) in ratios.iter_mut().zip(costs_of_relays) {
                    ratios.push(cost / (server + client));
                }
                for (rates, load) in rates.iter_mut().zip([&through, &through_bare]) {
                    rates.push(load.per_second() / alone.per_second());
                }
                for (all, cost) in costs.iter_mut().zip(round) {
                    all.push(cost);
                }
            }
        }
        let [gateway, bare_relay, server, client] = costs.map(|costs| median(&costs));
        let details = format!("gateway {gateway:.1} us, server {server:.1} us, reqwest {client:.1} us");
        let name = format!("CPU of an echo, {CONNECTIONS} connections, HTTP {revision}");
        row(&name, &ratios[0], " x", Aim::AtMost(1.3), &details);
        row(BARE_RELAY, &ratios[1], " x", Aim::None, &format!("relay {bare_relay:.1} us"));
        let name = format!("calls/s through the gateway by direct, {revision}");
        row(&name, &rates[0], " x", Aim::None, "the server shares the core of the load");
        row(BARE_RELAY, &rates[1], " x", Aim::None, "");
    }
    Ok(())
}

/// Compares the time of a result of 1 MiB through the gateway with that of the server alone.
pub(super) async fn text(cores: Cores, extent: Extent) -> Result<(), Error> {
    for revision in Revision::ALL {
        let Relays { relayed, bare_relay, direct, _upstream } =
            Relays::start(cores, (Call::RelayedText, Call::Text), revision).await?;
        let mut endpoints = [relayed, bare_relay, direct];
        let (mut ratios, mut times) = ([Vec::new(), Vec::new()], [const { Vec::new() }; 3]);
        for number in 0..=extent.rounds {
            let mut round = [0.0; 3];
            for at in order::<3>(number) {
                round[at] = endpoints[at].median(extent.round).await?.as_secs_f64() * 1e6;
            }
            if number > 0 {
                let [through, through_bare, alone] = round;
                ratios[0].push(alone / through);
                ratios[1].push(alone / through_bare);
                for (all, time) in times.iter_mut().zip([through, through_bare, alone]) {
                    all.push(time);
                }
            }
        }
        let [through, through_bare, alone] = times.map(|times| median(&times));
        let name = format!("a result of 1 MiB by direct, HTTP {revision}");
        row(&name, &ratios[0], " x", Aim::AtLeast(0.6), &format!("relayed {through:.0} us, direct {alone:.0} us"));
        row(BARE_RELAY, &ratios[1], " x", Aim::None, &format!("relayed {through_bare:.0} us"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_reverses_in_each_second_round() {
        assert_eq!([order::<4>(1), order::<4>(2), order::<4>(3)], [[3, 2, 1, 0], [0, 1, 2, 3], [3, 2, 1, 0]]);
    }
}
