//! The two dialects of tasks: results of 2025-11-25 and of the extension, with the ids of the gateway.

use std::{borrow::Cow, time::Duration};

use mcp_client::RawResult;
use mcp_protocol::{Meta, ProtocolVersion, meta::keys, tasks::TaskStatus};
use serde_json::value::RawValue;

use super::members::Members;

/// The longest time for which a task keeps a connection.
const LONGEST: Duration = Duration::from_secs(3600);

/// A dialect of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// 2025-11-25.
    Core,
    /// The extension of 2026-07-28.
    Extension,
}

/// The members of a task with different names in the dialects: those of 2025-11-25, and those of the extension.
const RENAMED: [(&str, &str); 2] = [("ttl", "ttlMs"), ("pollInterval", "pollIntervalMs")];
/// The members that only the extension has.
const OF_EXTENSION: [&str; 4] = ["resultType", "inputRequests", "result", "error"];

impl Dialect {
    /// Returns the dialect of a revision; `None` if it has no tasks.
    pub(super) fn of(version: ProtocolVersion) -> Option<Self> {
        if version.has_core_tasks() {
            return Some(Self::Core);
        }
        version.has_extensions().then_some(Self::Extension)
    }
}

/// Returns the id of a created task.
pub(super) fn created_id(json: &str, dialect: Dialect) -> Option<String> {
    let members = Members::read(json).ok()?;
    match dialect {
        Dialect::Extension => members.decode("taskId"),
        Dialect::Core => Members::read(members.get("task")?.get()).ok()?.decode("taskId"),
    }
}

/// Returns the time for which a created task needs the connection to its server: its lifetime, and at most one hour.
pub(super) fn lifetime(created: &RawResult) -> Duration {
    let json = std::str::from_utf8(created.bytes()).ok();
    let named = json.zip(Dialect::of(created.version())).and_then(|(json, dialect)| millis(json, dialect));
    named.map_or(LONGEST, Duration::from_millis).min(LONGEST)
}

fn millis(created: &str, dialect: Dialect) -> Option<u64> {
    let members = Members::read(created).ok()?;
    match dialect {
        Dialect::Extension => time(&members, RENAMED[0], dialect),
        Dialect::Core => time(&Members::read(members.get("task")?.get()).ok()?, RENAMED[0], dialect),
    }
}

/// Returns the time between two requests for the state of a task.
pub(super) fn poll_interval(state: &Members<'_>, dialect: Dialect) -> Option<Duration> {
    time(state, RENAMED[1], dialect).map(Duration::from_millis)
}

fn time(state: &Members<'_>, (core, extension): (&str, &str), dialect: Dialect) -> Option<u64> {
    state.decode(if dialect == Dialect::Core { core } else { extension })
}

/// Returns a created task in another dialect, with another id.
pub(super) fn created(json: &str, from: Dialect, to: Dialect, id: &str) -> serde_json::Result<Box<RawValue>> {
    let mut outer = Members::read(json)?;
    relate(&mut outer, id);
    Ok(match (from, to) {
        (Dialect::Extension, Dialect::Extension) => {
            outer.set("taskId", id);
            outer.write()
        }
        (Dialect::Core, _) => {
            let task = outer.get("task").map_or("{}", RawValue::get).to_owned();
            let mut task = Members::read(&task)?;
            task.set("taskId", id);
            if to == Dialect::Core {
                outer.set("task", &task);
                return Ok(outer.write());
            }
            rename(&mut task, from);
            task.set("resultType", "task");
            outer.remove("task");
            task.add_missing(outer);
            task.write()
        }
        (Dialect::Extension, Dialect::Core) => {
            let meta = outer.remove("_meta").map(Cow::into_owned);
            outer.set("taskId", id);
            rename(&mut outer, from);
            OF_EXTENSION.iter().for_each(|name| drop(outer.remove(name)));
            let mut result = Members::default();
            result.set("task", &outer);
            if let Some(meta) = meta {
                result.set("_meta", &meta);
            }
            result.write()
        }
    })
}

/// Changes the state of a task into another dialect, with another id. The members that only the extension has are the work of the
/// caller if `to` is the extension.
pub(super) fn change_state(state: &mut Members<'_>, from: Dialect, to: Dialect, id: &str) {
    state.set("taskId", id);
    relate(state, id);
    if from == to {
        return;
    }
    rename(state, from);
    if to == Dialect::Core {
        OF_EXTENSION.iter().for_each(|name| drop(state.remove(name)));
    }
}

/// Returns the status of a task.
pub(super) fn status(state: &Members<'_>) -> Option<TaskStatus> {
    state.decode("status")
}

/// Changes the related task in the metadata of a result, if it has any.
pub(super) fn relate(result: &mut Members<'_>, id: &str) {
    let meta: Option<Meta> = result.decode("_meta");
    if let Some(mut meta) = meta.filter(|meta| meta.related_task().is_some()) {
        meta.set_related_task(id);
        result.set("_meta", &meta);
    }
}

/// Changes the result of a task of 2025-11-25 into the result in a state of the extension: it has a type, and no related task.
pub(super) fn nest(result: &mut Members<'_>) {
    // A server of 2025-11-25 cannot send a result of another type.
    result.set("resultType", "complete");
    let meta: Option<Meta> = result.decode("_meta");
    if let Some(mut meta) = meta.filter(|meta| meta.related_task().is_some()) {
        meta.shift_remove(keys::RELATED_TASK);
        if meta.is_empty() {
            result.remove("_meta");
        } else {
            result.set("_meta", &meta);
        }
    }
}

fn rename(task: &mut Members<'_>, from: Dialect) {
    for (core, extension) in RENAMED {
        match from {
            Dialect::Core => task.rename(core, extension),
            Dialect::Extension => task.rename(extension, core),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CORE: &str = r#"{"task":{"taskId":"u","status":"working","ttl":null,"pollInterval":50,"vendor":1.50},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"u"},"a/b":1},"later":[1]}"#;
    const EXTENSION: &str = r#"{"resultType":"task","taskId":"u","status":"working","ttlMs":7,"pollIntervalMs":50,"vendor":1.50,"_meta":{"a/b":1}}"#;

    #[test]
    fn created_tasks_have_the_form_of_each_dialect() {
        for (json, from) in [(CORE, Dialect::Core), (EXTENSION, Dialect::Extension)] {
            assert_eq!(created_id(json, from).as_deref(), Some("u"));
        }
        // The lifetime of the first task has no limit.
        assert_eq!((millis(CORE, Dialect::Core), millis(EXTENSION, Dialect::Extension)), (None, Some(7)));
        for (json, from, to, expected) in [
            (
                CORE,
                Dialect::Core,
                Dialect::Core,
                r#"{"task":{"taskId":"d","status":"working","ttl":null,"pollInterval":50,"vendor":1.50},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"d"},"a/b":1},"later":[1]}"#,
            ),
            (
                CORE,
                Dialect::Core,
                Dialect::Extension,
                r#"{"taskId":"d","status":"working","ttlMs":null,"pollIntervalMs":50,"vendor":1.50,"resultType":"task","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"d"},"a/b":1},"later":[1]}"#,
            ),
            (
                EXTENSION,
                Dialect::Extension,
                Dialect::Core,
                r#"{"task":{"taskId":"d","status":"working","ttl":7,"pollInterval":50,"vendor":1.50},"_meta":{"a/b":1}}"#,
            ),
            (
                EXTENSION,
                Dialect::Extension,
                Dialect::Extension,
                r#"{"resultType":"task","taskId":"d","status":"working","ttlMs":7,"pollIntervalMs":50,"vendor":1.50,"_meta":{"a/b":1}}"#,
            ),
        ] {
            assert_eq!(created(json, from, to, "d").unwrap().get(), expected, "{from:?} {to:?}");
        }
    }

    #[test]
    fn a_nested_result_has_a_type_and_no_related_task() {
        for (more, expected) in [("", ""), (r#","a/b":1"#, r#","_meta":{"a/b":1}"#)] {
            let result = format!(
                r#"{{"content":[],"_meta":{{"io.modelcontextprotocol/related-task":{{"taskId":"u"}}{more}}}}}"#
            );
            let mut result = Members::read(&result).unwrap();
            nest(&mut result);
            let expected = format!(r#"{{"content":[]{expected},"resultType":"complete"}}"#);
            assert_eq!(result.write().get(), expected);
        }
        let mut forged = Members::read(r#"{"content":[],"resultType":"input_required","inputRequests":{}}"#).unwrap();
        nest(&mut forged);
        assert_eq!(forged.write().get(), r#"{"content":[],"resultType":"complete","inputRequests":{}}"#);
    }

    #[test]
    fn states_have_the_form_of_each_dialect() {
        let extension = r#"{"resultType":"complete","taskId":"u","status":"completed","ttlMs":7,"result":{},"z":1}"#;
        let core = r#"{"taskId":"u","status":"completed","ttl":7,"z":1}"#;
        for (json, from, to, expected) in [
            (extension, Dialect::Extension, Dialect::Core, r#"{"taskId":"d","status":"completed","ttl":7,"z":1}"#),
            (core, Dialect::Core, Dialect::Extension, r#"{"taskId":"d","status":"completed","ttlMs":7,"z":1}"#),
            (core, Dialect::Core, Dialect::Core, r#"{"taskId":"d","status":"completed","ttl":7,"z":1}"#),
        ] {
            let mut state = Members::read(json).unwrap();
            change_state(&mut state, from, to, "d");
            assert_eq!(state.write().get(), expected, "{from:?} {to:?}");
            assert_eq!(status(&state), Some(TaskStatus::Completed));
        }
    }
}
