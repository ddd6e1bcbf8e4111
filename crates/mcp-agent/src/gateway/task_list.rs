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

/// The most pages of a connection in one list, and the most connections of a server. A list that does not end would hide the tasks of the
/// connections and of the servers after it.
const PAGES: u32 = 256;
const CONNECTIONS: u32 = 1024;

/// The kind of the sealed texts in cursors.
const CURSOR: &str = "task list";

/// A page of a server.
#[derive(Default)]
struct Place {
    /// The page is that of the first connection from this number on.
    number: u64,
    /// The number of pages of the connection before this page.
    pages: u32,
    /// The number of connections whose pages the list has. A server can end and start processes during a list.
    connections: u32,
    /// The cursor of the server.
    cursor: Option<String>,
}

/// The tasks of a connection.
#[derive(Default)]
struct Page {
    tasks: Vec<Box<RawValue>>,
    /// The next connection of the server, or the next page of this one.
    next: Option<Place>,
}

impl Core {
    /// Returns a page of the tasks of a client. Each page has the tasks of one connection. The cursor is the server, a sealed text with the
    /// numbers of the connection and of the page, and the cursor of the server.
    ///
    /// A server lists the tasks of all callers with its credentials. The list therefore contains servers with credentials of the
    /// caller, or all servers for a gateway without principals. A list opens no connection, so it contains the servers whose
    /// connection for the caller is open. Each process of a server over stdio lists its own tasks.
    pub(super) async fn list_tasks(&self, call: &SourceCall) -> Result<SourceResult, Fault> {
        let invalid_cursor = || RpcError::invalid_params("the cursor is not valid: list again");
        let (server, mut place): (Option<String>, Place) = match call.cursor() {
            None => (None, Place::default()),
            Some(cursor) => {
                let (server, sealed, cursor): (_, Option<String>, _) =
                    serde_json::from_str(cursor).map_err(|_| invalid_cursor())?;
                let numbers = match sealed {
                    None => Some((0, 0, 0)),
                    Some(sealed) => self.open_numbers(call, &sealed)?,
                };
                let (number, pages, connections) = numbers.ok_or_else(invalid_cursor)?;
                (server, Place { number, pages, connections, cursor })
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
            let page = self.page_of(listed, place, call, &client, &meta).await;
            if page.next.is_none() {
                slot = slots.next();
            }
            place = page.next.unwrap_or_default();
            if page.tasks.is_empty() && place.cursor.is_none() && (slot.is_none() || began.elapsed() < PAGE) {
                continue;
            }
            let mut result = json!({});
            if let Some(slot) = slot {
                let is_first = place.pages == 0 && place.connections == 0;
                let sealed = (!is_first).then(|| self.seal_numbers(call, &place)).transpose()?;
                result["nextCursor"] = json!((&*slot.name, sealed, place.cursor)).to_string().into();
            }
            let json = result.to_string();
            let mut result = Members::read(&json).map_err(|error| invalid(&error))?;
            result.set("tasks", &page.tasks);
            return Ok(SourceResult::new(result.write().get().to_owned(), call.context().version()));
        }
        Ok(SourceResult::new(r#"{"tasks":[]}"#, call.context().version()))
    }

    /// Seals the numbers of a place for a cursor. That of its connection shows the number of connections of all callers.
    fn seal_numbers(&self, call: &SourceCall, place: &Place) -> Result<String, RpcError> {
        let text = json!((place.number, place.pages, place.connections)).to_string();
        self.seals(call)?.keys().seal_id(CURSOR, &text, call.context().principal())
    }

    fn open_numbers(&self, call: &SourceCall, sealed: &str) -> Result<Option<(u64, u32, u32)>, RpcError> {
        let text = self.seals(call)?.keys().open_id(CURSOR, sealed, call.context().principal());
        Ok(text.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// Returns the tasks of the connection of a place.
    async fn page_of(
        &self,
        slot: &Arc<Slot>,
        place: Place,
        call: &SourceCall,
        client: &Downstream,
        meta: &Meta,
    ) -> Page {
        let mut page = Page::default();
        let Some((reached, OpenNumbers { number, next })) =
            self.reach_open(slot, client, Wanted::From(place.number), Some(SERVER))
        else {
            return page;
        };
        let process = reached.process(number);
        let is_same = process.is_none() || (place.number == number && place.pages > 0);
        let pages = if is_same { place.pages.saturating_add(1) } else { 1 };
        let connections = if is_same { place.connections } else { place.connections.saturating_add(1) };
        if connections > CONNECTIONS {
            tracing::warn!(server = &*slot.name, connections, "a server has too many connections for a list of tasks");
            return page;
        }
        // The cursor of a process that has ended is not valid at another one.
        let cursor = place.cursor.filter(|_| is_same);
        let listed = self.tasks_at(&reached, process.clone(), cursor.as_deref(), call, client, meta).await;
        let has_process = process.is_some();
        // Each connection without a process of its own lists the same tasks.
        let next = next.filter(|_| has_process);
        page.next = next.map(|number| Place { number, connections, ..Place::default() });
        match listed {
            Ok((tasks, next)) => {
                page.tasks = tasks;
                if next.is_some() && (next == cursor || pages >= PAGES) {
                    tracing::warn!(server = &*slot.name, pages, "the list of tasks of a server does not end");
                } else if next.is_some() {
                    let number = if has_process { number } else { 0 };
                    page.next = Some(Place { number, pages, connections, cursor: next });
                }
            }
            Err(fault) => {
                tracing::warn!(server = &*slot.name, error = %fault, "the tasks of a server cannot be listed")
            }
        }
        page
    }

    async fn tasks_at(
        &self,
        reached: &Reached,
        process: Option<Process>,
        cursor: Option<&str>,
        call: &SourceCall,
        client: &Downstream,
        meta: &Meta,
    ) -> Result<(Vec<Box<RawValue>>, Option<String>), Fault> {
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
