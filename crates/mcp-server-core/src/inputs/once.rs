//! Side effects that run at most once per flow. A record in the store guards each of them, also when two rounds run at
//! the same time on two nodes.

use std::{collections::HashSet, future::Future, sync::Arc, time::Duration};

use mcp_store::{StoreError, Swap};
use mcp_transport::BoxFuture;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::Instant;

use super::{InputCollector, InputLimits, InputServices, collector::Claim};
use crate::{
    error::{InputError, ToolError},
    json,
    node::{Failing, Lease, Walk},
    random,
    store::is_away,
};

/// The record of a side effect.
#[derive(Debug, Serialize, Deserialize)]
enum Guard {
    /// An attempt is running. The random id identifies it.
    Running(String),
    /// An attempt is running on a node of a fleet.
    RunningOn { attempt: String, node: String },
    /// The side effect succeeded with this value.
    Done(Value),
    /// The side effect failed, or its node stopped. It may have had an effect.
    Failed,
    /// An attempt ended before the side effect began, and another may run. The random id identifies the ended attempt,
    /// so that its late write does not match a later record.
    Free(String),
}

/// The prefix of the keys of all records.
const PREFIX: &str = "once/";
/// The first and the longest pause between two reads of another round's record.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// The pause between two writes of the end of an attempt while the store is unavailable.
const RETRY: Duration = Duration::from_millis(250);
/// The longest such pause.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// The side effects that contain the running code.
#[derive(Clone)]
struct Inside {
    /// The address of the collector that they belong to.
    collector: usize,
    keys: Vec<String>,
}

tokio::task_local! {
    static INSIDE: Inside;
}

/// Whether the running code is inside of a side effect.
pub(super) fn is_inside(collector: &InputCollector) -> bool {
    !keys_around(collector).is_empty()
}

/// Returns the keys of the side effects that contain the running code, the outermost first.
fn keys_around(collector: &InputCollector) -> Vec<String> {
    let inside = INSIDE.try_with(Inside::clone).ok();
    inside.filter(|inside| inside.collector == address(collector)).map(|inside| inside.keys).unwrap_or_default()
}

fn address(collector: &InputCollector) -> usize {
    std::ptr::from_ref(collector).addr()
}

pub(crate) async fn run<T, E, F, Fut>(collector: &InputCollector, key: &str, effect: F) -> Result<T, ToolError>
where
    T: Serialize + DeserializeOwned,
    E: Into<ToolError>,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let mut keys = keys_around(collector);
    if keys.iter().any(|around| around == key) {
        return Err(
            InputError::misuse(format!("the side effect `{key}` runs once, and so not inside of itself")).into()
        );
    }
    keys.push(key.to_owned());
    // A result of this round or of an earlier one needs no record.
    let attempt = match collector.claim(key).await {
        Claim::Done(value) => return Ok(serde_json::from_value(value)?),
        Claim::Failed => return Err(unfinished()),
        Claim::Mine(attempt) => attempt,
    };
    let effect =
        INSIDE.scope(Inside { collector: address(collector), keys }, async { effect().await.map_err(Into::into) });
    let value = match collector.flow_id() {
        // In a session the handler runs once, and so does the side effect.
        None => {
            let _running = collector.effect();
            effect.await?
        }
        Some(flow) => guarded(collector, format!("{PREFIX}{flow}/{key}"), effect).await?,
    };
    attempt.done(serde_json::to_value(&value)?);
    Ok(value)
}

/// Runs a side effect unless another round has run it, or is running it.
async fn guarded<T: Serialize + DeserializeOwned>(
    collector: &InputCollector,
    name: String,
    effect: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let records = &collector.services().records;
    let me = random::id()?;
    let lease = match &collector.services().node {
        Some(node) => Some(node.lease().await.map_err(|_| away())?),
        None => None,
    };
    let running = match &lease {
        Some(lease) => Guard::RunningOn { attempt: me.clone(), node: lease.id().to_owned() },
        None => Guard::Running(me.clone()),
    };
    let mark = written(&running)?;
    let mut expected = None;
    let (mut guard_on_drop, _running) = loop {
        // This run of the handler continues until the state of the side effect is known.
        let running = collector.effect();
        // When this future is dropped early, the record ends later rounds with an error. That holds also when the store
        // took the mark and the response was lost.
        let mut guard_on_drop = AbandonGuard {
            collector,
            name: Some(name.clone()),
            mark: mark.clone(),
            me: me.clone(),
            before: expected.clone(),
            has_begun: false,
        };
        let swap =
            records.compare_and_swap(&name, expected.as_deref(), Some(mark.clone()), ttl(&collector.services().limits));
        match swap.await.map_err(|error| if is_away(&error) { away() } else { error.into() })? {
            Swap::Done => break (guard_on_drop, running),
            Swap::Lost { current } => {
                guard_on_drop.name = None;
                drop(running);
                match wait_for(collector, &name, current).await? {
                    Ended::Done(value) => return Ok(serde_json::from_value(value)?),
                    Ended::Free(record) => expected = Some(record),
                }
            }
            _ => return Err(unfinished()),
        }
    };
    // A process that was stopped after the mark may have lost its lease, and another node has ended this attempt.
    if lease.as_ref().is_some_and(|lease| !lease.is_held()) {
        return Err(away());
    }
    guard_on_drop.has_begun = true;
    let outcome = match &lease {
        None => effect.await,
        Some(lease) => tokio::select! {
            biased;
            () = lease.lost() => return Err(unfinished()),
            outcome = effect => outcome,
        },
    };
    let mut failing = Failing::default();
    let guard = match &outcome {
        Ok(value) => Guard::Done(serde_json::to_value(value)?),
        Err(_) => Guard::Failed,
    };
    let (guard, ttl) = (written(&guard)?, ttl(&collector.services().limits));
    let mut expected = Some(mark.clone());
    let swap = loop {
        match records.compare_and_swap(&name, expected.as_deref(), Some(guard.clone()), ttl).await {
            // The record expired while the side effect ran, or the store lost the mark. Another round may replace it too.
            Ok(Swap::Lost { current })
                if expected.as_ref() == Some(&mark) && guard_on_drop.is_unmarked(current.as_ref()) =>
            {
                expected = current;
            }
            // The side effect is over, so its result waits for the store while this node has its lease.
            Err(error) if is_away(&error) && lease.as_ref().is_some_and(Lease::is_held) => {
                if failing.record_failure() {
                    tracing::warn!(%error, "the result of an effect is not stored yet");
                }
                tokio::time::sleep(RETRY).await;
            }
            Err(error) if is_away(&error) => return Err(not_stored()),
            swap => break swap?,
        }
    };
    match swap {
        Swap::Done => {}
        // An earlier write took effect, and its response was lost.
        Swap::Lost { current: Some(current) } if current == guard => {}
        // Another node ended this attempt, because this node lost its lease. Or another round began after the record had expired.
        _ => {
            guard_on_drop.name = None;
            return Err(unfinished());
        }
    }
    guard_on_drop.name = None;
    outcome
}

/// Returns the lifetime of a record: longer than any request state of its flow.
fn ttl(limits: &InputLimits) -> Option<Duration> {
    Some(limits.state.saturating_mul(2))
}

/// The end of another round's attempt.
enum Ended {
    Done(Value),
    /// The attempt ended before the side effect began. This is its record.
    Free(Arc<[u8]>),
}

/// Waits for the end of another round's attempt. The time limit of the handler and the lifetime of the record bound the
/// wait.
async fn wait_for(collector: &InputCollector, name: &str, mut current: Option<Arc<[u8]>>) -> Result<Ended, ToolError> {
    let mut pause = PAUSES.0;
    loop {
        let record = current.ok_or_else(unfinished)?;
        match json::from_slice::<Guard>(&record) {
            Ok(Guard::Done(value)) => return Ok(Ended::Done(value)),
            Ok(Guard::Free(_)) => return Ok(Ended::Free(record)),
            Ok(Guard::Running(_)) => {}
            Ok(Guard::RunningOn { node, .. }) => {
                if !is_alive(collector, &node).await? {
                    current = end_abandoned(collector, name, &record).await?;
                    continue;
                }
            }
            Ok(Guard::Failed) | Err(_) => return Err(unfinished()),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
        current = collector.services().records.get(name).await.map_err(unreadable)?;
    }
}

/// Whether the node of an attempt runs.
async fn is_alive(collector: &InputCollector, node: &str) -> Result<bool, ToolError> {
    match &collector.services().node {
        Some(me) => me.is_alive(node).await.map_err(|_| unavailable()),
        None => Ok(true),
    }
}

/// Ends the attempt of a node that stopped as failed, unless the record has changed. Returns the current record.
async fn end_abandoned(collector: &InputCollector, name: &str, record: &[u8]) -> Result<Option<Arc<[u8]>>, ToolError> {
    let services = collector.services();
    let failed = written(&Guard::Failed)?;
    let swap = services.records.compare_and_swap(name, Some(record), Some(failed.clone()), ttl(&services.limits));
    match swap.await.map_err(unreadable)? {
        Swap::Lost { current } => Ok(current),
        _ => Ok(Some(failed)),
    }
}

/// Ends the attempts of nodes that stopped, when this node learns of their stop.
pub(crate) fn serve_nodes(services: &Arc<InputServices>) {
    let Some(node) = &services.node else { return };
    let services = Arc::downgrade(services);
    node.on_stopped(move |stopped| {
        let services = services.upgrade();
        async move {
            match services {
                Some(services) => end_attempts_of(&services, &stopped).await,
                None => Ok(()),
            }
        }
    });
}

async fn end_attempts_of(services: &InputServices, stopped: &HashSet<String>) -> Result<(), StoreError> {
    let failed = written(&Guard::Failed).map_err(|_| StoreError::invalid("a guard cannot be written"))?;
    let mut walk = Walk::new(&services.records, PREFIX);
    while let Some(page) = walk.next().await? {
        for (name, record) in page {
            if let Ok(Guard::RunningOn { node, .. }) = json::from_slice(&record)
                && stopped.contains(&node)
            {
                let (records, ttl) = (&services.records, ttl(&services.limits));
                // Another node may have ended the record meanwhile.
                records.compare_and_swap(&name, Some(&record), Some(failed.clone()), ttl).await?;
            }
        }
    }
    Ok(())
}

/// Updates the record when the attempt is dropped: as failed after the side effect began, and as free before.
struct AbandonGuard<'a> {
    collector: &'a InputCollector,
    name: Option<String>,
    /// The record of this attempt.
    mark: Arc<[u8]>,
    me: String,
    /// The record that this attempt replaced.
    before: Option<Arc<[u8]>>,
    has_begun: bool,
}

impl AbandonGuard<'_> {
    /// Whether the store has no record of an attempt: the record expired, or the store does not have the mark.
    fn is_unmarked(&self, current: Option<&Arc<[u8]>>) -> bool {
        current.is_none() || current == self.before.as_ref()
    }
}

impl Drop for AbandonGuard<'_> {
    fn drop(&mut self) {
        let (Some(name), Ok(runtime)) = (self.name.take(), tokio::runtime::Handle::try_current()) else { return };
        let guard = if self.has_begun { Guard::Failed } else { Guard::Free(std::mem::take(&mut self.me)) };
        let (services, Ok(guard)) = (self.collector.services().clone(), written(&guard)) else { return };
        let (mark, before) = (self.mark.clone(), self.before.take());
        runtime.spawn(Box::pin(async move {
            // The store may or may not have the mark, also if it lost the mark later. The update replaces either record,
            // so a mark that arrives late is rejected. The mark arrives before the first swap, between two, or never.
            let mut expected = Some(mark.clone());
            let (start, mut pause, mut lost, mut failing) = (Instant::now(), RETRY, 0, Failing::default());
            while lost < 3 {
                let records = &services.records;
                let swap =
                    records.compare_and_swap(&name, expected.as_deref(), Some(guard.clone()), ttl(&services.limits));
                match swap.await {
                    Ok(Swap::Lost { current })
                        if current.is_none() || current == before || current.as_ref() == Some(&mark) =>
                    {
                        expected = current;
                        lost += 1;
                    }
                    Ok(_) => break,
                    // The node still runs, so only this task can end the record before it expires.
                    Err(error) if is_away(&error) && start.elapsed() < services.limits.state.saturating_mul(2) => {
                        if failing.record_failure() {
                            tracing::warn!(%error, "an effect that did not finish is not marked yet");
                        }
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(LONGEST_RETRY);
                    }
                    Err(error) => {
                        tracing::error!(%error, "an effect that did not finish cannot be marked");
                        break;
                    }
                }
            }
        }) as BoxFuture<'static, ()>);
    }
}

fn written(guard: &Guard) -> Result<Arc<[u8]>, ToolError> {
    Ok(serde_json::to_vec(guard)?.into())
}

/// The error of a side effect that has not begun.
fn away() -> ToolError {
    ToolError::server_text("the shared store is unavailable, and this step did not begin; try again later")
}

/// The error of a round that waits for the side effect of another round.
fn unavailable() -> ToolError {
    ToolError::server_text("the shared store is unavailable; try again later")
}

/// The error of a side effect that took place and whose result the store did not take.
fn not_stored() -> ToolError {
    ToolError::server_text("the shared store is unavailable, and the result of this step is lost; it is not repeated")
}

fn unreadable(error: StoreError) -> ToolError {
    if is_away(&error) { unavailable() } else { error.into() }
}

fn unfinished() -> ToolError {
    ToolError::server_text("an earlier attempt at this call did not finish; it is not repeated")
}
