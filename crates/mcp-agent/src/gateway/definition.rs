//! Definitions for the clients of a gateway: the JSON of the server with the names and URIs of the gateway.

use mcp_protocol::{Meta, TaskSupport, ToolExecution};
use mcp_server_core::source::SourceDefinition;
use serde_json::Value;

use super::{ItemKind, members::Members, names::Names};
use crate::{CatalogTool, catalog::ServerTasks};

/// The metadata of tools that contains the URI of a user interface.
const UI_KEYS: [&str; 2] = ["ui/resourceUri", "openai/outputTemplate"];

/// Returns the definition of a tool for clients.
pub(super) fn of_tool(tool: &CatalogTool, key: &str, names: Names, tasks: ServerTasks) -> Option<SourceDefinition> {
    let (listed, source) = (tool.tool(), &**tool.source());
    if !std::ptr::eq(tool.definition(), listed) {
        // Invisible characters were removed from the texts, so the JSON of the server does not apply.
        let mut shown = tool.definition().clone();
        key.clone_into(&mut shown.name);
        match tasks {
            ServerTasks::Requested => {}
            ServerTasks::Directed => shown.execution = Some(ToolExecution::new(TaskSupport::Optional)),
            ServerTasks::None => shown.execution = None,
        }
        return SourceDefinition::of(&shown).ok();
    }
    let has_ui = names == Names::Provider && listed.meta.is_some();
    let keeps_execution = match tasks {
        ServerTasks::Requested => true,
        ServerTasks::Directed => false,
        ServerTasks::None => listed.execution.is_none(),
    };
    if key == tool.original_name() && listed == source && !has_ui && keeps_execution {
        return SourceDefinition::new(tool.json().to_owned()).ok();
    }
    let mut members = Members::read(tool.json()).ok()?;
    members.set("name", key);
    match tasks {
        ServerTasks::Requested => {}
        // The server decides about each call. A client of 2025-11-25 may request a task.
        ServerTasks::Directed => members.set("execution", &ToolExecution::new(TaskSupport::Optional)),
        ServerTasks::None => drop(members.remove("execution")),
    }
    if listed.title != source.title {
        members.set("title", &listed.title);
    }
    if listed.description != source.description {
        members.set("description", &listed.description);
    }
    if let Some(meta) =
        listed.meta.as_ref().filter(|_| has_ui).and_then(|meta| with_ui_uris(meta, tool.server(), names))
    {
        members.set("_meta", &meta);
    }
    SourceDefinition::new(members.write().get().to_owned()).ok()
}

/// Returns the metadata of a tool with the URIs of the gateway; `None` if it contains no URI.
fn with_ui_uris(meta: &Meta, server: &str, names: Names) -> Option<Meta> {
    let mut changed = meta.clone();
    let mut has_changed = false;
    let mut rename = |value: &mut Value| {
        if let Value::String(uri) = value {
            *value = names.uri(server, uri).into_owned().into();
            has_changed = true;
        }
    };
    for key in UI_KEYS {
        changed.get_mut(key).map(&mut rename);
    }
    changed.get_mut("ui").and_then(|ui| ui.get_mut("resourceUri")).map(&mut rename);
    has_changed.then_some(changed)
}

/// Returns the definition of a resource, a template or a prompt for clients.
pub(super) fn of_item(kind: ItemKind, json: &str, original: &str, key: &str) -> Option<SourceDefinition> {
    if key == original {
        return SourceDefinition::new(json.to_owned()).ok();
    }
    let mut members = Members::read(json).ok()?;
    let member = match kind {
        ItemKind::Resource => "uri",
        ItemKind::ResourceTemplate => "uriTemplate",
        ItemKind::Tool | ItemKind::Prompt => "name",
    };
    members.set(member, key);
    SourceDefinition::new(members.write().get().to_owned()).ok()
}
