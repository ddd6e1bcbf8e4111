//! Subscribers over disturbed connections: changes of a resource, and numbered log records.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Error};
use check_kit::random::Random;
use mcp_client::{
    Client, Update,
    protocol::{LoggingLevel, ProtocolVersion},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    Actors, CALL_LIMIT, Cuts, ERAS, Soak,
    calls::{builder, kind},
    disturbed,
};
use crate::{serve::counter_uri, tally::Check};

/// The subscribers of each era.
const SUBSCRIBERS: usize = 3;
/// The further time for a change that is late. It does not change the verdict.
const LATER: Duration = Duration::from_secs(20);
/// The time without another record after which the reader of logs looks at the clock.
const QUIET: Duration = Duration::from_secs(1);

pub(super) fn start(actors: &mut Actors) {
    for (era, version) in ERAS.into_iter().enumerate() {
        for number in 0..SUBSCRIBERS {
            let counter = era * SUBSCRIBERS + number;
            actors.add(move |soak, random| subscriber(soak, random, version, counter));
        }
    }
    actors.add(logs);
}

/// Changes a counter over an undisturbed connection, and waits for the change over a disturbed one.
async fn subscriber(soak: Soak, mut random: Random, version: ProtocolVersion, counter: usize) -> Result<(), Error> {
    let (_proxy, address) = disturbed(&soak, soak.node, Cuts::Loud, random.fork()).await?;
    let writer = builder(version).connect(soak.node_url()).await?;
    let uri = counter_uri(counter);
    while !soak.is_over() {
        let Some(reader) = connect(&soak, version, super::url(address)).await else { continue };
        let subscribing = soak.ends("subscribe", reader.subscribe([uri.clone()])).await;
        let mut changes = match subscribing {
            Some(Ok(changes)) => changes,
            Some(Err(error)) => {
                soak.tally.failed(kind(version, &error));
                continue;
            }
            None => continue,
        };
        let (rounds, mut is_open) = (random.between(5, 50), true);
        for round in 0..rounds {
            if soak.is_over() || !is_open {
                break;
            }
            let bumped =
                soak.ends("bump", async { writer.call_tool("bump", json!({ "counter": counter })).await }).await;
            let Some(Ok(value)) = bumped else {
                soak.tally.fault(Check::Undisturbed, format!("bump {version}: {bumped:?}"));
                continue;
            };
            let value: u64 = value.text().parse().context("a bump without a number")?;
            match timeout(CALL_LIMIT, changes.next()).await {
                Ok(Some(Ok(Update::ResourceUpdated { .. } | Update::Missed))) => soak.tally.add(Check::Changes, 1),
                Ok(Some(Ok(other))) => soak.tally.fault(Check::Changes, format!("another update: {other:?}")),
                Ok(Some(Err(error))) => soak.tally.failed(kind(version, &error)),
                // The client has used up its attempts to connect.
                Ok(None) => is_open = false,
                Err(_) => {
                    let (state, is_subscribed) = (reader.state(), changes.open_states().current());
                    let late = timeout(LATER, changes.next()).await.map(|update| format!("{update:?}"));
                    soak.tally.fault(
                        Check::Changes,
                        format!(
                            "{version}: the change {value} of {uri}, number {round} of its client, has not arrived after \
                             {CALL_LIMIT:?}: the client is {state:?}, its subscription is open: {is_subscribed}, then {}",
                            late.unwrap_or_else(|_| format!("nothing for {LATER:?}")),
                        ),
                    );
                    is_open = false;
                }
            }
            soak.pause(&mut random, (0, 300)).await;
        }
        drop(changes);
        soak.ends("close", reader.close()).await;
    }
    soak.ends("close", writer.close()).await;
    Ok(())
}

/// Reads the numbered log records of the server in a session.
async fn logs(soak: Soak, mut random: Random) -> Result<(), Error> {
    let (_proxy, address) = disturbed(&soak, soak.node, Cuts::Loud, random.fork()).await?;
    while !soak.is_over() {
        let version = ProtocolVersion::V2025_11_25;
        let Some(client) = connect(&soak, version, super::url(address)).await else { continue };
        let mut notifications = client.notifications();
        if let Some(Err(error)) = soak.ends("set the level", client.set_log_level(LoggingLevel::Info)).await {
            soak.tally.failed(kind(version, &error));
            continue;
        }
        let (mut before, mut records, mut missed) = (None, 0_u64, 0_u64);
        let end = Instant::now() + Duration::from_secs(random.between(10, 60));
        while !soak.is_over() && Instant::now() < end {
            let Ok(next) = timeout(QUIET, notifications.next()).await else { continue };
            let Some(notification) = next else { break };
            if notification.is_missed() {
                before = None;
                missed += 1;
            } else if notification.method() == "notifications/message" {
                let number = notification.decode::<Value>().ok().and_then(|params| params["data"].as_u64());
                let judged = match (before, number) {
                    (_, None) => Err("a record without a number".to_owned()),
                    (Some(before), Some(number)) if number != before + 1 => {
                        Err(format!("the record {number} after the record {before}"))
                    }
                    _ => Ok(()),
                };
                soak.tally.judge(Check::Logs, judged);
                before = number;
                records += 1;
            }
        }
        // The end of the run can come before the first record of a new session.
        if records == 0 && !soak.is_over() {
            soak.tally.fault(Check::Logs, format!("a session without a record, {missed} reports of a loss"));
        }
        soak.ends("close", client.close()).await;
    }
    Ok(())
}

/// Connects over a disturbed connection. Returns `None` after an error.
async fn connect(soak: &Soak, version: ProtocolVersion, url: String) -> Option<Client> {
    match soak.ends("connect", builder(version).connect(url)).await? {
        Ok(client) => Some(client),
        Err(error) => {
            soak.tally.failed(kind(version, &error));
            None
        }
    }
}
