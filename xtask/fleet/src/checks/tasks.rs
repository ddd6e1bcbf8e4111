//! Running and ended tasks of a node that is killed.

use std::{collections::HashMap, time::Duration};

use anyhow::{Context, Error, ensure};
use mcp_client::{
    Client, TaskHandle,
    http::Http,
    protocol::{
        ProtocolVersion,
        tasks::{Task, TaskStatus},
    },
};
use serde_json::json;

use super::{Run, until};
use crate::fleet::Fleet;

const TASKS: usize = 100;
/// The time in which the other nodes end the tasks of a killed node.
const NOTICED: Duration = Duration::from_secs(15);
/// The token of the caller. Only a caller with a name can list its tasks.
const TOKEN: &str = "fleet-check";
const LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn check(run: &mut Run) -> Result<String, Error> {
    let mut settings = run.settings.clone();
    settings.args.extend(["--token".to_owned(), TOKEN.to_owned()]);
    let mut fleet = Fleet::start(&settings).await?;
    let count = run.of(TASKS);
    let connect = |url: String, version| async move {
        let server = Http::new(&url)?.bearer(TOKEN)?;
        Ok::<_, Error>(Client::builder("fleet-check", "0").versions([version]).connect(server).await?)
    };
    let at_node = connect(fleet.nodes[0].url(), ProtocolVersion::V2026_07_28).await?;
    let behind = connect(fleet.url(), ProtocolVersion::V2026_07_28).await?;
    // The later revision has no list.
    let session = connect(fleet.url(), ProtocolVersion::V2025_11_25).await?;
    let ended = start(&at_node, count, 0).await?;
    let running = start(&at_node, count, 3_600).await?;
    for task in &ended {
        let done = until(LIMIT, async || status(&behind, task).await == Some(TaskStatus::Completed)).await;
        done.context("a task of 0 s does not end")?;
    }
    fleet.nodes[0].kill().await?;
    let (mut failed, mut listed) = (0, 0);
    let limit = run.limit(NOTICED);
    // The first read of an abandoned task ends it: a request for the task, or the list.
    let (noticed, seen) = tokio::join!(
        until(limit, async || {
            while failed < running.len() && status(&behind, &running[failed]).await == Some(TaskStatus::Failed) {
                failed += 1;
            }
            failed == running.len()
        }),
        until(limit, async || {
            listed = session.list_tasks().await.map_or(0, |tasks| expected(&tasks, &ended, &running));
            listed == 2 * count
        })
    );
    let noticed = noticed.with_context(|| format!("{failed} of {count} running tasks failed within {NOTICED:?}"))?;
    let seen = seen.with_context(|| format!("{listed} of {} tasks are listed with their end", 2 * count))?;
    for task in &running {
        let error = behind.task(task.as_str()).result().await.err().context("a failed task has a result")?;
        let is_retryable =
            error.rpc().and_then(|error| error.data.as_ref()).is_some_and(|data| data["retryable"] == true);
        ensure!(is_retryable, "a failed task has another error: {error}");
    }
    for task in &ended {
        let result = behind.task(task.as_str()).result().await.context("the result of an ended task is lost")?;
        ensure!(result.text() == "the report took 0 s", "another result: {}", result.text());
        let result = session.task(task.as_str()).result().await.context("a listed task has no result")?;
        ensure!(result.text() == "the report took 0 s", "another result in a session: {}", result.text());
    }
    let all = session.list_tasks().await?.len();
    ensure!(all == 2 * count, "{all} tasks are listed, {} are expected", 2 * count);
    fleet.nodes[0].restart().await?;
    Ok(format!(
        "{count} running tasks failed after {:.1} s, {count} ended ones kept their results, and the list had all {all} after \
         {:.1} s",
        noticed.as_secs_f64(),
        seen.as_secs_f64(),
    ))
}

/// The number of tasks that a list shows with the expected end: completed or failed.
fn expected(listed: &[Task], ended: &[String], running: &[String]) -> usize {
    let listed: HashMap<&str, TaskStatus> = listed.iter().map(|task| (task.task_id.as_str(), task.status)).collect();
    let count = |ids: &[String], status| ids.iter().filter(|id| listed.get(id.as_str()) == Some(&status)).count();
    count(ended, TaskStatus::Completed) + count(running, TaskStatus::Failed)
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
