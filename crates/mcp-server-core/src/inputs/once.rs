//! Side effects that happen once per flow: guarded in the store by compare-and-swap, so that also two rounds that come at
//! the same time, on two nodes, run the effect once.

use std::{future::Future, sync::Arc, time::Duration};

use mcp_store::Swap;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::Asking;
use crate::handler::ToolError;

/// What stands under the guard's name.
#[derive(Debug, Serialize, Deserialize)]
enum Guard {
    /// Somebody is at it.
    Running,
    /// It is done, and this came of it.
    Done(Value),
    /// It failed; nobody knows how far it came.
    Failed,
}

/// How often a round looks whether another one is done.
const LOOK: Duration = Duration::from_millis(20);

pub(super) async fn run<T, E, F, Fut>(asking: &Asking, key: &str, effect: F) -> Result<T, ToolError>
where
    T: Serialize + DeserializeOwned,
    E: Into<ToolError>,
    F: FnOnce() -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    // What was done in this round, or in an earlier one whose state says so, needs no guard any more.
    let done_key = format!("once/{key}");
    if let Some(value) = asking.remembered(&done_key) {
        return Ok(serde_json::from_value(value)?);
    }
    let Some(flow) = asking.flow_id() else {
        // A call that has one round only: its handler runs once, and so does the effect.
        let outcome = {
            let _effect = asking.effect();
            effect().await
        };
        return finish(asking, &done_key, outcome.map_err(Into::into)?);
    };
    let store = &asking.server().inner.store;
    let (name, ttl) = (format!("mcp/once/{flow}/{key}"), Some(asking.server().limits().inputs.state * 2));
    match store.compare_and_swap(&name, None, Some(written(&Guard::Running)?), ttl).await? {
        Swap::Done => {}
        Swap::Lost { current } => {
            let value = wait_for(asking, &name, current).await?;
            asking.remember(&done_key, value.clone());
            return Ok(serde_json::from_value(value)?);
        }
        _ => return Err(unfinished()),
    }
    // Whatever ends this future early, later rounds learn it instead of waiting.
    let mut given_up = GiveUp { asking, name: Some(name.clone()) };
    let outcome = {
        let _effect = asking.effect();
        effect().await.map_err(Into::into)
    };
    let guard = match &outcome {
        Ok(value) => Guard::Done(serde_json::to_value(value)?),
        Err(_) => Guard::Failed,
    };
    store.put(&name, written(&guard)?, ttl).await?;
    given_up.name = None;
    finish(asking, &done_key, outcome?)
}

fn finish<T: Serialize>(asking: &Asking, done_key: &str, value: T) -> Result<T, ToolError> {
    asking.remember(done_key, serde_json::to_value(&value)?);
    Ok(value)
}

/// Waits until another round is done. The handler's own time limit bounds it, and the guard's life.
async fn wait_for(asking: &Asking, name: &str, mut current: Option<Arc<[u8]>>) -> Result<Value, ToolError> {
    loop {
        match current.as_deref().map(serde_json::from_slice::<Guard>) {
            Some(Ok(Guard::Done(value))) => return Ok(value),
            Some(Ok(Guard::Running)) => {}
            Some(Ok(Guard::Failed) | Err(_)) | None => return Err(unfinished()),
        }
        tokio::time::sleep(LOOK).await;
        current = asking.server().inner.store.get(name).await?;
    }
}

/// Marks the effect as failed when it is dropped before it is done.
struct GiveUp<'a> {
    asking: &'a Asking,
    name: Option<String>,
}

impl Drop for GiveUp<'_> {
    fn drop(&mut self) {
        let (Some(name), Ok(runtime)) = (self.name.take(), tokio::runtime::Handle::try_current()) else { return };
        let (server, Ok(failed)) = (self.asking.server().clone(), written(&Guard::Failed)) else { return };
        runtime.spawn(async move {
            let ttl = Some(server.limits().inputs.state * 2);
            if let Err(error) = server.inner.store.put(&name, failed, ttl).await {
                tracing::error!(%error, "an effect that did not finish cannot be marked");
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
