//! Rules of stores behind a network: lost connections, and a server that is away.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::JoinSet,
    time::{Instant, sleep, timeout},
};

use super::{AWAY_TIME, Check, Rule, Seen, bytes, invalid, same};
use crate::{Delivery, Retain, Store, StoreError};

/// The time in which a store has a new connection.
const RECOVERY: Duration = Duration::from_secs(10);
/// The delay between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// A store, and the function that cuts its connections.
pub(super) struct Cuttable {
    pub(super) store: Arc<dyn Store>,
    pub(super) cut: Box<dyn Fn() + Send + Sync>,
}

pub(super) const LOST: &[Rule<Cuttable>] = &[
    ("after a lost connection calls succeed again", calls_recover),
    ("a reader receives a report of a lost connection, and then messages again", readers_recover),
    ("a topic is subscribed again for each reader", all_readers_recover),
];

pub(super) const AWAY: &[Rule<dyn Store>] = &[
    ("each call is unavailable in time", calls_fail),
    ("calls at once are unavailable in time", calls_at_once_fail),
    ("arguments are checked first", arguments),
];

fn calls_recover(it: Arc<Cuttable>) -> Check {
    Box::pin(async move {
        let store = &*it.store;
        for n in 0..5 {
            let value = bytes(&n.to_string());
            store.put("k", value.clone(), None).await?;
            (it.cut)();
            // Each failure in the meantime is unavailable.
            let seen = recovered(async || store.get("k").await).await?;
            same("the value before the cut", seen, Some(value))?;
            recovered(async || store.put("k", bytes("after"), None).await).await?;
        }
        Ok(())
    })
}

fn readers_recover(it: Arc<Cuttable>) -> Check {
    Box::pin(async move {
        let store = &*it.store;
        let mut reader = store.subscribe("t", 100).await?;
        for _ in 0..3 {
            (it.cut)();
            match timeout(RECOVERY, reader.recv()).await {
                Ok(Some(Delivery::Lagged(_))) => {}
                other => return Err(Seen(format!("after the cut: {other:?}"))),
            }
            let deadline = Instant::now() + RECOVERY;
            loop {
                // A message before the new subscription is lost.
                recovered(async || store.publish("t", bytes("x")).await).await?;
                if let Ok(Some(Delivery::Message(message))) = timeout(PAUSE * 10, reader.recv()).await {
                    same("message", message, bytes("x"))?;
                    break;
                }
                same("messages arrive again in time", Instant::now() < deadline, true)?;
            }
            // The rest of the attempts, and the second report of the gap, arrived before the next cut.
            while timeout(PAUSE * 20, reader.recv()).await.is_ok() {}
        }
        Ok(())
    })
}

fn all_readers_recover(it: Arc<Cuttable>) -> Check {
    Box::pin(async move {
        let store = &*it.store;
        let mut readers = Vec::new();
        for n in 0..20 {
            readers.push(store.subscribe(&format!("t/{}", n % 10), 100).await?);
        }
        (it.cut)();
        for (n, reader) in readers.iter_mut().enumerate() {
            let deadline = Instant::now() + RECOVERY;
            loop {
                recovered(async || store.publish(&format!("t/{}", n % 10), bytes("x")).await).await?;
                if let Ok(Some(Delivery::Message(_))) = timeout(PAUSE * 10, reader.recv()).await {
                    break;
                }
                same("messages arrive again in time", Instant::now() < deadline, true)?;
            }
        }
        Ok(())
    })
}

/// Repeats a call until it succeeds.
async fn recovered<T>(call: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, Seen> {
    let deadline = Instant::now() + RECOVERY;
    loop {
        match call().await {
            Ok(value) => return Ok(value),
            Err(error) if error.is_unavailable() && Instant::now() < deadline => sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    }
}

fn calls_fail(store: Arc<dyn Store>) -> Check {
    Box::pin(async move {
        let store = &*store;
        unavailable("get", store.get("k")).await?;
        unavailable("put", store.put("k", bytes("v"), None)).await?;
        unavailable("compare_and_swap", store.compare_and_swap("k", None, Some(bytes("v")), None)).await?;
        unavailable("delete", store.delete("k")).await?;
        unavailable("list", store.list("", None, 1)).await?;
        unavailable("append", store.append("l", bytes("x"), None)).await?;
        unavailable("append_once", store.append_once("l", 1, 1, bytes("x"), None)).await?;
        unavailable("extend", store.extend("l", None)).await?;
        unavailable("read_after", store.read_after("l", 0, 1)).await?;
        unavailable("trim", store.trim("l", Retain::all())).await?;
        unavailable("delete_log", store.delete_log("l")).await?;
        unavailable("publish", store.publish("t", bytes("x"))).await?;
        unavailable("subscribe", store.subscribe("t", 1)).await
    })
}

fn calls_at_once_fail(store: Arc<dyn Store>) -> Check {
    Box::pin(async move {
        let mut calls = JoinSet::new();
        for n in 0..200 {
            let store = store.clone();
            calls.spawn(async move {
                match n % 3 {
                    0 => unavailable("get", store.get("k")).await,
                    1 => unavailable("append", store.append("l", bytes("x"), None)).await,
                    _ => unavailable("subscribe", store.subscribe("t", 1)).await,
                }
            });
        }
        while let Some(call) = calls.join_next().await {
            call.map_err(|error| Seen(format!("a call failed: {error}")))??;
        }
        Ok(())
    })
}

fn arguments(store: Arc<dyn Store>) -> Check {
    Box::pin(async move {
        invalid("an empty key", store.get("").await)?;
        invalid("an empty log", store.append("", bytes("x"), None).await)?;
        invalid("an empty topic", store.publish("", bytes("x")).await)
    })
}

async fn unavailable<T>(call: &str, response: impl Future<Output = Result<T, StoreError>>) -> Result<(), Seen> {
    match timeout(AWAY_TIME, response).await {
        Ok(Err(error)) if error.is_unavailable() => Ok(()),
        Ok(Err(error)) => Err(Seen(format!("the call {call} failed with {error:?} instead of unavailable"))),
        Ok(Ok(_)) => Err(Seen(format!("the call {call} succeeded"))),
        Err(_) => Err(Seen(format!("the call {call} did not return within {} s", AWAY_TIME.as_secs()))),
    }
}
