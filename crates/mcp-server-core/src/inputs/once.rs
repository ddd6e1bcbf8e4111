//! Side effects that happen once per flow: guarded in the store by compare-and-swap, so that also two rounds that come at
//! the same time, on two nodes, run the effect once.

use std::{future::Future, sync::Arc, time::Duration};

use mcp_store::Swap;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use uuid::Uuid;

use super::{InputCollector, InputLimits, collector::Claim};
use crate::error::{InputError, ToolError};

/// What stands under the guard's name.
#[derive(Debug, Serialize, Deserialize)]
enum Guard {
    /// Somebody is at it, who is told from others by this.
    Running(String),
    /// It is done, and this came of it.
    Done(Value),
    /// It failed; nobody knows how far it came.
    Failed,
    /// Whoever was to do it gave up before it began. Who that was, so that what is on its way to another such record does
    /// not find this one.
    Free(String),
}

/// Between two looks of a round whether another one is done: the first and the longest pause.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What is polled: an effect, and those that it is inside of.
#[derive(Clone)]
struct Inside {
    /// Whose effects they are, by its address.
    asking: usize,
    keys: Vec<String>,
}

tokio::task_local! {
    static INSIDE: Inside;
}

/// Whether this is polled by an effect that happens once.
pub(super) fn is_inside(asking: &InputCollector) -> bool {
    !keys_around(asking).is_empty()
}

/// The keys of the effects that poll this, the outermost first.
fn keys_around(asking: &InputCollector) -> Vec<String> {
    let inside = INSIDE.try_with(Inside::clone).ok();
    inside.filter(|inside| inside.asking == address(asking)).map(|inside| inside.keys).unwrap_or_default()
}

fn address(asking: &InputCollector) -> usize {
    std::ptr::from_ref(asking).addr()
}

pub(crate) async fn run<T, E, F, Fut>(asking: &InputCollector, key: &str, effect: F) -> Result<T, ToolError>
where
    T: Serialize + DeserializeOwned,
    E: Into<ToolError>,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    let mut keys = keys_around(asking);
    if keys.iter().any(|around| around == key) {
        return Err(
            InputError::misuse(format!("the side effect `{key}` runs once, and so not inside of itself")).into()
        );
    }
    keys.push(key.to_owned());
    // What was done in this round, or in an earlier one whose state says so, needs no guard any more.
    let attempt = match asking.claim(key).await {
        Claim::Done(value) => return Ok(serde_json::from_value(value)?),
        Claim::Failed => return Err(unfinished()),
        Claim::Mine(attempt) => attempt,
    };
    let effect = INSIDE.scope(Inside { asking: address(asking), keys }, async { effect().await.map_err(Into::into) });
    let value = match asking.flow_id() {
        // A call that has one round only: its handler runs once, and so does the effect.
        None => {
            let _running = asking.effect();
            effect.await?
        }
        Some(flow) => guarded(asking, format!("mcp/once/{flow}/{key}"), effect).await?,
    };
    attempt.done(serde_json::to_value(&value)?);
    Ok(value)
}

/// Runs an effect unless another round has, or is at it.
async fn guarded<T: Serialize + DeserializeOwned>(
    asking: &InputCollector,
    name: String,
    effect: impl Future<Output = Result<T, ToolError>>,
) -> Result<T, ToolError> {
    let records = &asking.services().records;
    let me = Uuid::new_v4().simple().to_string();
    let mark = written(&Guard::Running(me.clone()))?;
    let mut expected = None;
    let (mut given_up, _running) = loop {
        // Until it is known what came of it, this run of the handler goes on.
        let running = asking.effect();
        // Whatever ends this future early, later rounds learn it instead of waiting; also when nobody heard that the store
        // took the mark.
        let mut given_up = GiveUp {
            asking,
            name: Some(name.clone()),
            mark: mark.clone(),
            me: me.clone(),
            before: expected.clone(),
            has_begun: false,
        };
        let swap =
            records.compare_and_swap(&name, expected.as_deref(), Some(mark.clone()), ttl(&asking.services().limits));
        match swap.await? {
            Swap::Done => break (given_up, running),
            Swap::Lost { current } => {
                given_up.name = None;
                drop(running);
                match wait_for(asking, &name, current).await? {
                    Ended::Done(value) => return Ok(serde_json::from_value(value)?),
                    Ended::Free(record) => expected = Some(record),
                }
            }
            _ => return Err(unfinished()),
        }
    };
    given_up.has_begun = true;
    let outcome = effect.await;
    let guard = match &outcome {
        Ok(value) => Guard::Done(serde_json::to_value(value)?),
        Err(_) => Guard::Failed,
    };
    records.put(&name, written(&guard)?, ttl(&asking.services().limits)).await?;
    given_up.name = None;
    outcome
}

/// How long a guard stands: longer than any state that knows of its flow.
fn ttl(limits: &InputLimits) -> Option<Duration> {
    Some(limits.state.saturating_mul(2))
}

/// What another round came to.
enum Ended {
    Done(Value),
    /// It did not begin. The record that says so.
    Free(Arc<[u8]>),
}

/// Waits until another round is done. The handler's own time limit bounds it, and the guard's life.
async fn wait_for(asking: &InputCollector, name: &str, mut current: Option<Arc<[u8]>>) -> Result<Ended, ToolError> {
    let mut pause = PAUSES.0;
    loop {
        let record = current.ok_or_else(unfinished)?;
        match serde_json::from_slice::<Guard>(&record) {
            Ok(Guard::Done(value)) => return Ok(Ended::Done(value)),
            Ok(Guard::Free(_)) => return Ok(Ended::Free(record)),
            Ok(Guard::Running(_)) => {}
            Ok(Guard::Failed) | Err(_) => return Err(unfinished()),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSES.1);
        current = asking.services().records.get(name).await?;
    }
}

/// Marks the effect when it is dropped before it is done: as failed if it has begun, otherwise as one to try again.
struct GiveUp<'a> {
    asking: &'a InputCollector,
    name: Option<String>,
    /// What the store has when it is ours.
    mark: Arc<[u8]>,
    me: String,
    /// What the mark was to take the place of.
    before: Option<Arc<[u8]>>,
    has_begun: bool,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        let (Some(name), Ok(runtime)) = (self.name.take(), tokio::runtime::Handle::try_current()) else { return };
        let guard = if self.has_begun { Guard::Failed } else { Guard::Free(std::mem::take(&mut self.me)) };
        let (services, Ok(guard)) = (self.asking.services().clone(), written(&guard)) else { return };
        let (mark, before, has_begun) = (self.mark.clone(), self.before.take(), self.has_begun);
        runtime.spawn(async move {
            // Until the effect begins nobody knows whether the store has the mark, so that the guard is put also in the
            // place where that may still arrive, and is refused then. It arrives before the first swap, between two, or
            // never.
            let mut expected = Some(mark.clone());
            for _ in 0..3 {
                let records = &services.records;
                let swap =
                    records.compare_and_swap(&name, expected.as_deref(), Some(guard.clone()), ttl(&services.limits));
                match swap.await {
                    Ok(Swap::Lost { current })
                        if !has_begun && (current == before || current.as_ref() == Some(&mark)) =>
                    {
                        expected = current;
                    }
                    Ok(_) => break,
                    Err(error) => {
                        tracing::error!(%error, "an effect that did not finish cannot be marked");
                        break;
                    }
                }
            }
        });
    }
}

fn written(guard: &Guard) -> Result<Arc<[u8]>, ToolError> {
    Ok(serde_json::to_vec(guard)?.into())
}

fn unfinished() -> ToolError {
    ToolError::new("an earlier attempt at this call did not finish; it is not repeated")
}
