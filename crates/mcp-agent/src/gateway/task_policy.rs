//! The policies about running tasks: a task of a tool that the policies hide from its caller is unknown to this caller.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{Core, ItemKind, item::Item, tasks::ServerTask, views};

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
    tools: HashMap<Arc<(String, String)>, Box<str>>,
    order: VecDeque<Arc<(String, String)>>,
    bytes: usize,
}

/// Returns the bytes of the names of a task.
fn bytes((server, id): &(String, String), tool: &str) -> usize {
    server.len() + id.len() + tool.len()
}

impl TaskTools {
    /// Keeps the tool of a task.
    pub(super) fn learn(&self, task: &ServerTask) {
        let Some(tool) = &task.tool else { return };
        let place = Arc::new((task.server.clone(), task.id.clone()));
        let mut known = self.known.lock();
        if known.tools.contains_key(&place) {
            return;
        }
        known.bytes += bytes(&place, tool);
        known.tools.insert(Arc::clone(&place), tool.as_str().into());
        known.order.push_back(place);
        while known.order.len() > TASKS || known.bytes > BYTES {
            let Some(oldest) = known.order.pop_front() else { return };
            if let Some(tool) = known.tools.remove(&oldest) {
                known.bytes -= bytes(&oldest, &tool);
            }
        }
    }

    /// Returns a task of a list, with its tool if it is known.
    pub(super) fn task(&self, server: &str, id: String) -> ServerTask {
        let place = (server.to_owned(), id);
        let tool = self.known.lock().tools.get(&place).map(|tool| String::from(&**tool));
        let (server, id) = place;
        ServerTask { server, id, tool }
    }
}

impl Core {
    /// Whether the policies hide the tool of a task from a caller. If the tool is unknown or not listed now, they hide the task if
    /// they hide all tools of its server.
    pub(super) fn hides_task(&self, task: &ServerTask, principal: Option<&Arc<str>>) -> bool {
        let shared = self.host.shared();
        let Some(slot) = shared.registry.slot(&task.server) else { return false };
        if !shared.gate.decides() && slot.options.rules.is_empty() {
            return false;
        }
        let merged = self.newest_merged();
        let mut of_server = merged.tools.iter().filter(|item| *item.server == *task.server).peekable();
        if of_server.peek().is_none() {
            return false;
        }
        let hides = |item: &Arc<Item>| self.hides(&slot, || views::input(ItemKind::Tool, item), principal);
        let is_of_task = |item: &&Arc<Item>| task.tool.as_deref() == Some(&*item.original);
        match merged.tools.iter().filter(|item| *item.server == *task.server).find(is_of_task) {
            Some(item) => hides(item),
            None => of_server.all(hides),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_of_the_latest_tasks_are_known() {
        let tools = TaskTools::default();
        let task = |id: &str, tool: &str| ServerTask { server: "s".into(), id: id.into(), tool: Some(tool.into()) };
        tools.learn(&task("first", "t"));
        tools.learn(&task("first", "t"));
        assert_eq!(tools.known.lock().bytes, "sfirstt".len());
        assert_eq!(tools.task("s", "first".into()), task("first", "t"));
        assert_eq!((tools.task("s", "other".into()).tool, tools.task("r", "first".into()).tool), (None, None));
        for number in 0..TASKS {
            tools.learn(&task(&number.to_string(), "t"));
        }
        assert_eq!(tools.task("s", "first".into()).tool, None);
        assert_eq!(tools.task("s", "0".into()).tool.as_deref(), Some("t"));
        // Names of any length need no more than the limit.
        tools.learn(&task("long", &"t".repeat(BYTES / 2)));
        tools.learn(&task("longer", &"t".repeat(BYTES / 2)));
        let known = tools.known.lock();
        assert!(known.bytes <= BYTES && known.order.len() == known.tools.len(), "{}", known.bytes);
    }
}
