//! The policies about running tasks: a task of a tool that the policies hide from its caller is unknown to this caller.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{Core, process::Process, tasks::ServerTask};
use crate::{CatalogTool, policy::PolicyInput, registry::Slot};

/// The largest number of tasks whose tools are known for lists of tasks, and the bytes of their names. Older tasks are forgotten first.
const TASKS: usize = 16_384;
const BYTES: usize = 4 << 20;

/// The tools of the latest tasks. A list of tasks does not name the tools.
#[derive(Default)]
pub(super) struct TaskTools {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    tools: HashMap<Arc<Place>, Box<str>>,
    order: VecDeque<Arc<Place>>,
    bytes: usize,
}

/// The server of a task, the fingerprint of its definition, the process with the task, and the id of the task there.
type Place = (String, Arc<str>, Option<Process>, String);

/// Returns the bytes of the names of a task.
fn bytes((server, fingerprint, process, id): &Place, tool: &str) -> usize {
    server.len() + fingerprint.len() + process.as_ref().map_or(0, Process::len) + id.len() + tool.len()
}

impl TaskTools {
    /// Keeps the tool of a new task. A server that was started again can use the id of an older task.
    pub(super) fn create(&self, task: &ServerTask) {
        self.keep(task, true);
    }

    /// Keeps the tool of a task, unless the tool is known.
    pub(super) fn learn(&self, task: &ServerTask) {
        self.keep(task, false);
    }

    fn keep(&self, task: &ServerTask, is_new: bool) {
        let Some(tool) = &task.tool else { return };
        let place = (task.server.clone(), Arc::clone(&task.fingerprint), task.process.clone(), task.id.clone());
        let place = Arc::new(place);
        let mut guard = self.known.lock();
        let known = &mut *guard;
        match known.tools.get_mut(&place) {
            Some(_) if !is_new => return,
            Some(former) => {
                known.bytes = known.bytes + tool.len() - former.len();
                *former = tool.as_str().into();
            }
            None => {
                known.bytes += bytes(&place, tool);
                known.tools.insert(Arc::clone(&place), tool.as_str().into());
                known.order.push_back(place);
            }
        }
        while known.order.len() > TASKS || known.bytes > BYTES {
            let Some(oldest) = known.order.pop_front() else { return };
            if let Some(tool) = known.tools.remove(&oldest) {
                known.bytes -= bytes(&oldest, &tool);
            }
        }
    }

    /// Returns a task of a list, with its tool if it is known.
    pub(super) fn task(
        &self,
        server: &str,
        fingerprint: &Arc<str>,
        process: Option<Process>,
        id: String,
    ) -> ServerTask {
        let place = (server.to_owned(), Arc::clone(fingerprint), process, id);
        let tool = self.known.lock().tools.get(&place).map(|tool| String::from(&**tool));
        let (server, fingerprint, process, id) = place;
        ServerTask { server, fingerprint, process, id, tool }
    }
}

impl Core {
    /// Whether the policies hide the tool of a task from a caller. They decide about the name of a tool that its server does not list,
    /// without annotations. If the tool is unknown, they hide the task if they hide all tools of its server.
    pub(super) fn hides_task(&self, task: &ServerTask, principal: Option<&Arc<str>>) -> bool {
        let shared = self.host.shared();
        let Some(slot) = shared.registry.slot(&task.server) else { return false };
        if !shared.gate.decides() && slot.options.rules.is_empty() {
            return false;
        }
        // The merged lists lack a tool whose raw name another server has.
        let catalog = self.host.catalog();
        let hides = |name: &str, tool: Option<&Arc<CatalogTool>>| {
            let annotations = tool.and_then(|tool| tool.tool().annotations.clone());
            self.hides(&slot, || PolicyInput::new(&*task.server, name).annotations(annotations), principal)
        };
        match &task.tool {
            Some(name) => hides(name, catalog.usable_tool(&task.server, name)),
            None if catalog.usable_tools(&task.server).next().is_none() => self.hides_all_tools(&slot, principal),
            None => catalog.usable_tools(&task.server).all(|tool| hides(tool.original_name(), Some(tool))),
        }
    }

    /// Whether the policies hide a task from a caller before its server is reached. If the server has not listed its tools yet, they hide
    /// the task if they hide all tools. The caller decides again with [`Core::hides_task`] after the server is reached.
    pub(super) fn hides_unreached_task(&self, task: &ServerTask, principal: Option<&Arc<str>>) -> bool {
        match self.host.shared().registry.slot(&task.server) {
            // The annotations of the tool can allow it.
            Some(slot) if slot.is_unlisted() => self.hides_all_tools(&slot, principal),
            _ => self.hides_task(task, principal),
        }
    }

    /// Whether the policies hide each tool of a server from a caller, with each name and all annotations.
    fn hides_all_tools(&self, slot: &Slot, principal: Option<&Arc<str>>) -> bool {
        let mut input = PolicyInput::new(&*slot.name, "");
        input.principal = principal.map(|principal| principal.to_string());
        self.host.shared().gate.denies_kind(&input, &slot.options.rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_the_latest_tasks_are_known() {
        let tools = TaskTools::default();
        let definition = Arc::<str>::from("d");
        let task = |id: &str, tool: &str| ServerTask {
            server: "s".into(),
            fingerprint: Arc::clone(&definition),
            process: None,
            id: id.into(),
            tool: Some(tool.into()),
        };
        let found =
            |server: &str, fingerprint: &str, id: &str| tools.task(server, &fingerprint.into(), None, id.into());
        tools.learn(&task("first", "t"));
        tools.learn(&task("first", "t"));
        assert_eq!(tools.known.lock().bytes, "sdfirstt".len());
        assert_eq!(found("s", "d", "first"), task("first", "t"));
        // A task of a list does not replace a known tool, and a new task does.
        tools.learn(&task("first", "other"));
        assert_eq!(found("s", "d", "first"), task("first", "t"));
        tools.create(&task("first", "longer"));
        assert_eq!(found("s", "d", "first"), task("first", "longer"));
        assert_eq!(tools.known.lock().bytes, "sdfirstlonger".len());
        for (server, fingerprint, id) in [("s", "d", "other"), ("r", "d", "first"), ("s", "e", "first")] {
            assert_eq!(found(server, fingerprint, id).tool, None, "{server} {fingerprint} {id}");
        }
        for number in 0..TASKS {
            tools.learn(&task(&number.to_string(), "t"));
        }
        assert_eq!(found("s", "d", "first").tool, None);
        assert_eq!(found("s", "d", "0").tool.as_deref(), Some("t"));
        // Names of any length need no more than the limit.
        tools.learn(&task("long", &"t".repeat(BYTES / 2)));
        tools.learn(&task("longer", &"t".repeat(BYTES / 2)));
        let known = tools.known.lock();
        assert!(known.bytes <= BYTES && known.order.len() == known.tools.len(), "{}", known.bytes);
    }
}
