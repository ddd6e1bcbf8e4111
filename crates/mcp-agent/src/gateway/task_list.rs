//! The lists of tasks of all servers, for clients of 2025-11-25.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{Meta, Method as _, RpcError, method};
use mcp_server_core::source::{SourceCall, SourceResult};
use serde_json::{
    json,
    value::{RawValue, to_raw_value},
};
use tokio::time::Instant;

use super::{
    Core,
    caller::Downstream,
    fault::Fault,
    members::Members,
    task_form::Dialect,
    tasks::{exchange, invalid, text},
};
use crate::registry::Slot;

/// How long a server can take for a page, and after which time a page waits for no further server.
const SERVER: Duration = Duration::from_secs(5);
const PAGE: Duration = Duration::from_secs(10);

impl Core {
    /// Returns a page of the tasks of a client. Each page has the tasks of one server. The cursor is the server and the cursor of
    /// the server.
    ///
    /// A server lists the tasks of all callers with its credentials. The list therefore contains servers with credentials of the
    /// caller, or all servers for a gateway without principals. A list opens no connection, so it contains the servers whose
    /// connection for the caller is open.
    pub(super) async fn list_tasks(&self, call: &SourceCall) -> Result<SourceResult, Fault> {
        let invalid_cursor = || RpcError::invalid_params("the cursor is not valid: list again");
        let (server, mut cursor): (Option<String>, Option<String>) = match call.cursor() {
            None => (None, None),
            Some(cursor) => serde_json::from_str(cursor).map_err(|_| invalid_cursor())?,
        };
        let client = Downstream::of(call).beside_calls();
        let caller = client.caller(true);
        let meta = self.hop.forward_decoded(call.context().meta())?;
        let slots = self.host.shared().registry.slots();
        let mut slots = slots.iter().filter(|slot| client.principal.is_none() || slot.has_connector_of(&caller));
        let mut slot = match server {
            None => slots.next(),
            Some(name) => Some(slots.find(|slot| *slot.name == *name).ok_or_else(invalid_cursor)?),
        };
        let began = Instant::now();
        while let Some(listed) = slot {
            let page = self.page_of(listed, cursor.take(), call, &client, &meta).await;
            let (tasks, next) = page.unwrap_or_else(|fault| {
                tracing::warn!(server = &*listed.name, ?fault, "the tasks of a server cannot be listed");
                (Vec::new(), None)
            });
            let here = next.map(|next| (listed.name.to_string(), Some(next)));
            if here.is_none() {
                slot = slots.next();
            }
            if tasks.is_empty() && here.is_none() && (slot.is_none() || began.elapsed() < PAGE) {
                continue;
            }
            let next = here.or_else(|| slot.map(|slot| (slot.name.to_string(), None)));
            let mut result = json!({});
            if let Some(next) = next {
                result["nextCursor"] = json!(next).to_string().into();
            }
            let json = result.to_string();
            let mut result = Members::read(&json).map_err(|error| invalid(&error))?;
            result.set("tasks", &tasks);
            return Ok(SourceResult::new(result.write().get().to_owned(), call.context().version()));
        }
        Ok(SourceResult::new(r#"{"tasks":[]}"#, call.context().version()))
    }

    async fn page_of(
        &self,
        slot: &Arc<Slot>,
        cursor: Option<String>,
        call: &SourceCall,
        client: &Downstream,
        meta: &Meta,
    ) -> Result<(Vec<Box<RawValue>>, Option<String>), Fault> {
        let Some(reached) = self.reach_open(slot, client, SERVER) else { return Ok((Vec::new(), None)) };
        let negotiated = reached.client.negotiated();
        let lists = negotiated.capabilities.tasks.as_ref().is_some_and(|tasks| tasks.list.is_some());
        if !lists || Dialect::of(negotiated.version) != Some(Dialect::Core) {
            return Ok((Vec::new(), None));
        }
        let params = match cursor {
            Some(cursor) => json!({ "cursor": cursor }),
            None => json!({}),
        };
        let params = to_raw_value(&params).map_err(|error| invalid(&error))?;
        let page = exchange(&reached, method::ListTasks::NAME, &params, client, meta.clone(), None).await?;
        let page = Members::read(text(&page)?).map_err(|error| invalid(&error))?;
        let mut tasks = Vec::new();
        for task in page.decode::<Vec<Box<RawValue>>>("tasks").unwrap_or_default() {
            let mut task = Members::read(task.get()).map_err(|error| invalid(&error))?;
            let Some(id) = task.decode::<String>("taskId") else { continue };
            let id = self.task_tools.task(&reached.server, &reached.fingerprint, id);
            if self.hides_task(&id, client.principal.as_ref()) {
                continue;
            }
            task.set("taskId", &self.seals(call)?.seal_task(&id, call.context().principal())?);
            tasks.push(task.write());
        }
        Ok((tasks, page.decode("nextCursor")))
    }
}
