//! What 2025-11-25 has beyond the extension: the result of its own, which waits, and the list.

use std::time::Duration;

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use mcp_protocol::{
    JsonObject, Meta, RpcError,
    tasks::{ListTasksResult, TaskPayload, TaskState},
};

use super::task_requests::Asker;
use crate::{
    request::Reply,
    session::Client,
    tasks::{Found, Outcome, Record, is_id},
};

/// Tasks on a page.
const PAGE: usize = 50;
/// Longer cursors are refused unread.
const CURSOR: usize = 1024;

pub(super) fn state(record: &Record) -> TaskState {
    TaskState::new(record.legacy())
}

/// Waits for the end of a task, and answers what its call would have answered.
pub(super) async fn result(asker: &Asker<'_>, id: &str) -> Result<Reply, RpcError> {
    loop {
        let record = match asker.find(id).await? {
            Found::Here(live) => {
                // While this waits, the client can be asked on its stream.
                let _lent = match &asker.scope.client {
                    Client::Session(session) => live.lend(asker.request, session, asker.scope.sink.as_ref()),
                    Client::Request(_) => None,
                };
                live.ended().await;
                live.record()
            }
            Found::Stored(record, _) => *record,
        };
        match record.outcome {
            Some(Outcome::Result(members)) => return Ok(asker.reply(payload(id, members))),
            Some(Outcome::Error(error)) => return Err(error),
            Some(Outcome::Cancelled) => return Err(RpcError::invalid_params("Task cancelled")),
            // It runs on another node, or did: the store will say, or forget it when its time is up.
            None => tokio::time::sleep(Duration::from_millis(record.poll.max(10))).await,
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

/// The answer to a cancellation.
pub(super) async fn cancelled(asker: &Asker<'_>, id: &str, was_running: bool) -> Result<Reply, RpcError> {
    let found = asker.find(id).await?;
    if was_running {
        return Ok(asker.reply(found.look(state)));
    }
    Err(RpcError::invalid_params("the task has ended, and cannot be cancelled any more"))
}

/// One page of the asker's tasks, oldest first.
pub(super) async fn list(asker: &Asker<'_>, after: Option<&str>) -> Result<Reply, RpcError> {
    let size = asker.server.limits().page_entries.clamp(1, PAGE);
    let (found, next) = asker.server.data.tasks.list(&asker.owner, after, size).await?;
    let show = |record: &Record| asker.may_use(record).is_ok().then(|| record.legacy());
    let mut result = ListTasksResult::new(found.iter().filter_map(|found| found.look(show)).collect());
    result.next_cursor = next.map(|id| BASE64_URL_SAFE_NO_PAD.encode(id));
    Ok(asker.reply(result))
}

/// The id that a cursor goes on behind.
pub(super) fn after(cursor: &str) -> Result<String, RpcError> {
    let decoded = Some(cursor).filter(|cursor| cursor.len() <= CURSOR);
    let decoded = decoded.and_then(|cursor| BASE64_URL_SAFE_NO_PAD.decode(cursor).ok());
    let id = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|id| is_id(id));
    id.ok_or_else(|| RpcError::invalid_params("invalid cursor"))
}
