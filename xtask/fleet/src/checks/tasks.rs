//! Running and ended tasks of a node that is killed.

use std::time::Duration;

use anyhow::{Context, Error, ensure};
use mcp_client::{
    Client, TaskHandle,
    protocol::{ProtocolVersion, tasks::TaskStatus},
};
use serde_json::json;

use super::{Run, until};
use crate::fleet::Fleet;

const TASKS: usize = 100;
/// The time in which the other nodes end the tasks of a killed node.
const NOTICED: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut fleet = Fleet::start(&run.settings).await?;
    let count = run.of(TASKS);
    let connect = |url: String| async move {
        Client::builder("fleet-check", "0").versions([ProtocolVersion::V2026_07_28]).connect(url.as_str()).await
    };
    let (at_node, behind) = (connect(fleet.nodes[0].url()).await?, connect(fleet.url()).await?);
    let ended = start(&at_node, count, 0).await?;
    let running = start(&at_node, count, 3_600).await?;
    for task in &ended {
        let done = until(LIMIT, async || status(&behind, task).await == Some(TaskStatus::Completed)).await;
        done.context("a task of 0 s does not end")?;
    }
    fleet.nodes[0].kill().await?;
    let mut failed = 0;
    let noticed = until(run.limit(NOTICED), async || {
        while failed < running.len() && status(&behind, &running[failed]).await == Some(TaskStatus::Failed) {
            failed += 1;
        }
        failed == running.len()
    })
    .await
    .with_context(|| format!("{failed} of {count} running tasks failed within {NOTICED:?}"))?;
    for task in &running {
        let error = behind.task(task.as_str()).result().await.err().context("a failed task has a result")?;
        let is_retryable =
            error.rpc().and_then(|error| error.data.as_ref()).is_some_and(|data| data["retryable"] == true);
        ensure!(is_retryable, "a failed task has another error: {error}");
    }
    for task in &ended {
        let result = behind.task(task.as_str()).result().await.context("the result of an ended task is lost")?;
        ensure!(result.text() == "the report took 0 s", "another result: {}", result.text());
    }
    fleet.nodes[0].restart().await?;
    Ok(format!(
        "{count} running tasks failed after {:.1} s, {count} ended ones kept their results",
        noticed.as_secs_f64()
    ))
}

/// Starts tasks, and returns their ids.
pub(super) async fn start(client: &Client, count: usize, seconds: u64) -> Result<Vec<String>, Error> {
    let mut ids = Vec::new();
    for _ in 0..count {
        let call = client.call_tool("report", json!({ "seconds": seconds })).as_task().await?;
        let id = call.task().map(TaskHandle::id).context("the call did not become a task")?;
        ids.push(id.to_owned());
    }
    Ok(ids)
}

/// The state of a task. `None` if the request failed, for example because its node was killed.
pub(super) async fn status(client: &Client, id: &str) -> Option<TaskStatus> {
    client.task(id).status().await.ok().map(|task| task.status)
}
