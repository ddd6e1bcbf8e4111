//! Definitions for the clients of a gateway: the JSON of the server with the names and URIs of the gateway.

use mcp_protocol::{Meta, TaskSupport, ToolExecution};
use mcp_server_core::source::SourceDefinition;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

use super::{ItemKind, members::Members, names::Names};
use crate::{CatalogTool, catalog::ServerTasks};

/// The metadata of tools and of their results that contains the URI of a user interface.
pub(super) const UI_KEYS: [&str; 2] = ["ui/resourceUri", "openai/outputTemplate"];

/// Returns the definition of a tool for clients.
pub(super) fn of_tool(tool: &CatalogTool, key: &str, names: Names, tasks: ServerTasks) -> Option<SourceDefinition> {
    let (listed, source, shown) = (tool.tool(), &**tool.source(), tool.definition());
    // Invisible characters can be missing in the texts that clients receive.
    let stripped = if std::ptr::eq(shown, listed) { None } else { Some(stripped(tool)?) };
    let json = stripped.as_deref().map_or_else(|| tool.json(), RawValue::get);
    let has_ui = names == Names::Provider && listed.meta.is_some();
    let keeps_execution = match tasks {
        ServerTasks::Requested => true,
        ServerTasks::Directed => false,
        ServerTasks::None => listed.execution.is_none(),
    };
    if key == tool.original_name() && listed == source && !has_ui && keeps_execution {
        return SourceDefinition::new(json.to_owned()).ok();
    }
    let mut members = Members::read(json).ok()?;
    members.set("name", key);
    match tasks {
        ServerTasks::Requested => {}
        // The server decides about each call. A client of 2025-11-25 may request a task.
        ServerTasks::Directed => members.set("execution", &ToolExecution::new(TaskSupport::Optional)),
        ServerTasks::None => drop(members.remove("execution")),
    }
    if listed.title != source.title {
        members.set("title", &shown.title);
    }
    if listed.description != source.description {
        members.set("description", &shown.description);
    }
    if let Some(meta) = listed.meta.as_ref().filter(|_| has_ui)
        && let Some(changed) = with_ui_uris(meta, tool.server(), names)
    {
        let [from, to] = [meta, &changed].map(serde_json::to_value);
        let meta = patched(members.get("_meta")?, &from.ok()?, &to.ok()?)?;
        members.replace("_meta", meta);
    }
    SourceDefinition::new(members.write().get().to_owned()).ok()
}

/// Returns the JSON of a tool with the texts that clients receive. Other members and numbers stay as the server sent them.
fn stripped(tool: &CatalogTool) -> Option<Box<RawValue>> {
    let [listed, shown] = [tool.tool(), tool.definition()].map(serde_json::to_value);
    let json = serde_json::from_str(tool.json()).ok()?;
    patched(json, &listed.ok()?, &shown.ok()?)
}

/// Returns JSON with the differences between two values. The first value has the members of the JSON that the library knows.
fn patched(json: &RawValue, from: &Value, to: &Value) -> Option<Box<RawValue>> {
    match (from, to) {
        _ if from == to => Some(json.to_owned()),
        (Value::Object(from), Value::Object(to)) => {
            let mut members = Members::read(json.get()).ok()?;
            for (name, to) in to {
                let changed = match members.get(name).zip(from.get(name)) {
                    Some((_, from)) if from == to => continue,
                    Some((json, from)) => patched(json, from, to)?,
                    None => to_raw_value(to).ok()?,
                };
                members.replace(name, changed);
            }
            Some(members.write())
        }
        (Value::Array(from), Value::Array(to)) if from.len() == to.len() => {
            let entries: Vec<&RawValue> = serde_json::from_str(json.get()).ok()?;
            let entries =
                entries.into_iter().zip(from.iter().zip(to)).map(|(json, (from, to))| patched(json, from, to));
            to_raw_value(&entries.collect::<Option<Vec<_>>>()?).ok()
        }
        _ => to_raw_value(to).ok(),
    }
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
