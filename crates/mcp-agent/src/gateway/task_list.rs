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
    process::Process,
    reach::Reached,
    task_form::Dialect,
    tasks::{exchange, invalid, text},
};
use crate::registry::{OpenNumbers, Slot, Wanted};

/// How long a server can take for a page, and after which time a page waits for no further server.
const SERVER: Duration = Duration::from_secs(5);
const PAGE: Duration = Duration::from_secs(10);

/// The kind of the sealed numbers of connections in cursors.
const CURSOR: &str = "task list";

/// The tasks of a connection.
#[derive(Default)]
struct Page {
    tasks: Vec<Box<RawValue>>,
    /// The next connection of the server, or the next page of this one.
    next: Option<(u64, Option<String>)>,
}

impl Core {
    /// Returns a page of the tasks of a client. Each page has the tasks of one connection. The cursor is the server, the sealed number of
    /// the connection, and the cursor of the server.
    ///
    /// A server lists the tasks of all callers with its credentials. The list therefore contains servers with credentials of the
    /// caller, or all servers for a gateway without principals. A list opens no connection, so it contains the servers whose
    /// connection for the caller is open. Each process of a server over stdio lists its own tasks.
    pub(super) async fn list_tasks(&self, call: &SourceCall) -> Result<SourceResult, Fault> {
        let invalid_cursor = || RpcError::invalid_params("the cursor is not valid: list again");
        let (server, mut first, mut cursor): (Option<String>, u64, Option<String>) = match call.cursor() {
            None => (None, 0, None),
            Some(cursor) => {
                let (server, sealed, cursor): (_, Option<String>, _) =
                    serde_json::from_str(cursor).map_err(|_| invalid_cursor())?;
                let first = match sealed {
                    None => Some(0),
                    Some(sealed) => self.open_number(call, &sealed)?,
                };
                (server, first.ok_or_else(invalid_cursor)?, cursor)
            }
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
            let page = self.page_of(listed, (first, cursor.take()), call, &client, &meta).await;
            match page.next {
                Some(next) => (first, cursor) = next,
                None => (slot, first) = (slots.next(), 0),
            }
            if page.tasks.is_empty() && cursor.is_none() && (slot.is_none() || began.elapsed() < PAGE) {
                continue;
            }
            let mut result = json!({});
            if let Some(slot) = slot {
                let sealed = (first > 0).then(|| self.seal_number(call, first)).transpose()?;
                result["nextCursor"] = json!((&*slot.name, sealed, cursor)).to_string().into();
            }
            let json = result.to_string();
            let mut result = Members::read(&json).map_err(|error| invalid(&error))?;
            result.set("tasks", &page.tasks);
            return Ok(SourceResult::new(result.write().get().to_owned(), call.context().version()));
        }
        Ok(SourceResult::new(r#"{"tasks":[]}"#, call.context().version()))
    }

    /// Seals the number of a connection for a cursor, because it shows the number of connections of all callers.
    fn seal_number(&self, call: &SourceCall, number: u64) -> Result<String, RpcError> {
        self.seals(call)?.keys().seal_id(CURSOR, &number.to_string(), call.context().principal())
    }

    fn open_number(&self, call: &SourceCall, sealed: &str) -> Result<Option<u64>, RpcError> {
        let text = self.seals(call)?.keys().open_id(CURSOR, sealed, call.context().principal());
        Ok(text.and_then(|text| text.parse().ok()))
    }

    /// Returns the tasks of the first connection from a number on. `place` is this number and the cursor of the server.
    async fn page_of(
        &self,
        slot: &Arc<Slot>,
        place: (u64, Option<String>),
        call: &SourceCall,
        client: &Downstream,
        meta: &Meta,
    ) -> Page {
        let mut page = Page::default();
        let Some((reached, OpenNumbers { number, next })) =
            self.reach_open(slot, client, Wanted::From(place.0), Some(SERVER))
        else {
            return page;
        };
        let process = reached.process(number);
        // Each connection without a process of its own lists the same tasks.
        page.next = next.filter(|_| process.is_some()).map(|next| (next, None));
        let listed = self.tasks_at(&reached, process.clone(), place, call, client, meta).await;
        match listed {
            Ok((tasks, cursor)) => {
                page.tasks = tasks;
                if cursor.is_some() {
                    page.next = Some((if process.is_some() { number } else { 0 }, cursor));
                }
            }
            Err(fault) => tracing::warn!(server = &*slot.name, ?fault, "the tasks of a server cannot be listed"),
        }
        page
    }

    async fn tasks_at(
        &self,
        reached: &Reached,
        process: Option<Process>,
        (number, cursor): (u64, Option<String>),
        call: &SourceCall,
        client: &Downstream,
        meta: &Meta,
    ) -> Result<(Vec<Box<RawValue>>, Option<String>), Fault> {
        let negotiated = reached.client.negotiated();
        let lists = negotiated.capabilities.tasks.as_ref().is_some_and(|tasks| tasks.list.is_some());
        if !lists || Dialect::of(negotiated.version) != Some(Dialect::Core) {
            return Ok((Vec::new(), None));
        }
        // The cursor of a process that has ended is not valid at another one.
        let is_known = process.as_ref().is_none_or(|process| process.number() == Some(number));
        let params = match cursor.filter(|_| is_known) {
            Some(cursor) => json!({ "cursor": cursor }),
            None => json!({}),
        };
        let params = to_raw_value(&params).map_err(|error| invalid(&error))?;
        let (method, meta) = (method::ListTasks::NAME, meta.clone());
        let page = exchange(reached, process.as_ref(), method, &params, client, meta, None).await?;
        let page = Members::read(text(&page)?).map_err(|error| invalid(&error))?;
        let mut tasks = Vec::new();
        for task in page.decode::<Vec<Box<RawValue>>>("tasks").unwrap_or_default() {
            let mut task = Members::read(task.get()).map_err(|error| invalid(&error))?;
            let Some(id) = task.decode::<String>("taskId") else { continue };
            let id = self.task_tools.task(&reached.server, &reached.fingerprint, process.clone(), id);
            if self.hides_task(&id, client.principal.as_ref()) {
                continue;
            }
            task.set("taskId", &self.seals(call)?.seal_task(&id, call.context().principal())?);
            tasks.push(task.write());
        }
        Ok((tasks, page.decode("nextCursor")))
    }
}
