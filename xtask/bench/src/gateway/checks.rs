//! The checks before a relayed call: a policy, an audit sink and pins.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use mcp_agent::{
    Host, HostBuilder,
    pins::{PinRules, Pins},
    policy::{AuditEvent, Effect, Policy, Rule},
};
use mcp_server::Server;
use serde_json::json;

use super::{
    Extent,
    report::{Aim, row},
};
use crate::{case::ECHO_TEXT, error::Error, report::median_time, server};

/// The rules before the rule of the tool.
const RULES: usize = 20;
/// The calls of one round.
const CALLS: usize = 2_000;

/// Compares calls through a gateway with checks with calls through a gateway without them, in one process.
pub(super) async fn measure(extent: Extent) -> Result<(), Error> {
    let upstream = server::server(0);
    let builder = || Host::builder("bench", "1").server("s", &upstream);
    let plain = Checked::start(builder()).await?;
    let mut policy = Policy::new();
    for number in 0..RULES {
        policy = policy.rule(Rule::new(Effect::Deny).tool(format!("delete_{number}*").parse()?));
    }
    let policy = policy.rule(Rule::new(Effect::Allow).tool("e*".parse()?));
    let audited = builder().policy(policy).audit(|event: &AuditEvent| _ = black_box(event.outcome));
    let checked = Checked::start(audited.pins(Pins::new(), PinRules::new())).await?;
    let mut added = Vec::new();
    for number in 0..=extent.rounds * 2 {
        let (without, with) = (plain.median().await?, checked.median().await?);
        if number > 0 {
            added.push((with.as_secs_f64() - without.as_secs_f64()) * 1e6);
        }
    }
    let details = format!("each call {:.0} us in one process", plain.median().await?.as_secs_f64() * 1e6);
    row("policy of 21 rules, audit and pins", &added, " us", Aim::AtMost(5.0), &details);
    plain.host.shutdown().await;
    checked.host.shutdown().await;
    Ok(())
}

struct Checked {
    host: Host,
    server: Server,
}

impl Checked {
    async fn start(builder: HostBuilder) -> Result<Self, Error> {
        let host = builder.start().await?;
        let server = host.clone().into_server()?.build();
        Ok(Self { host, server })
    }

    async fn median(&self) -> Result<Duration, Error> {
        let mut times = Vec::with_capacity(CALLS);
        for _ in 0..CALLS {
            let start = Instant::now();
            let result = self.server.call_tool("s__echo", json!({ "text": ECHO_TEXT })).await?;
            times.push(start.elapsed());
            black_box(result);
        }
        median_time(&mut times).ok_or_else(|| Error::new("no call ended"))
    }
}
