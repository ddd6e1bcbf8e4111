//! The methods that only 2025-11-25 has: `tasks/result` and `tasks/list`.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use mcp_protocol::{
    JsonObject, Meta, RpcError,
    tasks::{ListTasksResult, TaskPayload, TaskState},
};

use super::task_requests::TaskQuery;
use crate::{
    request::{Refusal, Reply},
    session::Client,
    tasks::{Found, Record, TaskOutcome, is_id},
};

/// The most tasks on a page.
const PAGE: usize = 50;
/// The longest cursor in bytes. A longer one is rejected without decoding.
const CURSOR: usize = 1024;

pub(super) fn state(record: &Record) -> TaskState {
    TaskState::new(record.legacy())
}

/// Waits for the end of a task, and returns the response to its call.
pub(super) async fn result(query: &TaskQuery<'_>, id: &str) -> Result<Reply, Refusal> {
    loop {
        let record = match query.find(id).await? {
            Found::Running(running_task) => {
                // Input requests of the task can use the stream of this request meanwhile.
                let _waiter = match &query.scope.client {
                    Client::Session(session) => {
                        running_task.add_result_waiter(query.request, session, query.scope.surroundings.sink())
                    }
                    Client::Request(_) => None,
                };
                running_task.ended().await;
                running_task.record()
            }
            Found::Stored(stored) => stored.record,
        };
        match record.outcome {
            Some(TaskOutcome::Result(members)) => return Ok(query.reply(payload(id, members))),
            Some(TaskOutcome::Error(error)) => return Err(error.into()),
            Some(TaskOutcome::Cancelled) => return Err(RpcError::invalid_params("Task cancelled").into()),
            None => {
                let ended = ends_elsewhere(query, id, &record);
                // The client of this request answers input requests of the task meanwhile.
                match (&query.scope.client, query.scope.surroundings.sink()) {
                    (Client::Session(session), Some(sink)) => {
                        let table = &query.server.data.tasks;
                        tokio::select! {
                            biased;
                            ended = ended => ended?,
                            never = table.ask_for_elsewhere(&record, session, &**sink, query.request) => match never {},
                        }
                    }
                    _ => ended.await?,
                }
            }
        }
    }
}

/// Waits until a task on another node ends. The store has its end, or drops the record when it expires.
async fn ends_elsewhere(query: &TaskQuery<'_>, id: &str, record: &Record) -> Result<(), Refusal> {
    loop {
        tokio::time::sleep(Duration::from_millis(record.poll.max(10))).await;
        if query.find(id).await?.inspect(|record| record.outcome.is_some()) {
            return Ok(());
        }
    }
}

fn payload(id: &str, mut members: JsonObject) -> TaskPayload {
    let meta = members.remove("_meta").and_then(JsonObject::from_value);
    let mut meta = meta.map(Meta::from).unwrap_or_default();
    meta.set_related_task(id);
    let mut payload = TaskPayload::new(members);
    payload.meta = Some(meta);
    payload
}

/// Returns the response to a cancellation.
pub(super) async fn cancelled(query: &TaskQuery<'_>, id: &str, was_running: bool) -> Result<Reply, Refusal> {
    let found = query.find(id).await?;
    if was_running {
        return Ok(query.reply(found.inspect(state)));
    }
    Err(RpcError::invalid_params("the task has ended, and cannot be cancelled any more").into())
}

/// Returns one page of the caller's tasks, oldest first.
pub(super) async fn list(query: &TaskQuery<'_>, after: Option<&str>) -> Result<Reply, Refusal> {
    let size = query.server.limits().page_entries.clamp(1, PAGE);
    let (found, next) = query.server.data.tasks.list(&query.owner, after, size).await?;
    let show = |record: &Record| query.may_use(record).is_ok().then(|| record.legacy());
    let mut result = ListTasksResult::new(found.iter().filter_map(|found| found.inspect(show)).collect());
    result.next_cursor = next.map(|id| BASE64_URL_SAFE_NO_PAD.encode(id));
    Ok(query.reply(result))
}

/// Returns the id after which the page of a cursor starts.
pub(super) fn after(cursor: &str) -> Result<String, RpcError> {
    let decoded = Some(cursor).filter(|cursor| cursor.len() <= CURSOR);
    let decoded = decoded.and_then(|cursor| BASE64_URL_SAFE_NO_PAD.decode(cursor).ok());
    let id = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|id| is_id(id));
    id.ok_or_else(|| RpcError::invalid_params("invalid cursor"))
}
