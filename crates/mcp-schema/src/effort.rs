//! An upper bound for the cost of explaining why a value does not match a schema. The search stops early.
//!
//! The match itself takes bounded time, because results of references are cached. Collecting the reasons visits each
//! path through the schema, and copies the value for each rejected branch.

use serde_json::Value;

use crate::graph::Graph;

/// Returns the number of steps for collecting all reasons, or `None` when it exceeds `budget`.
pub(crate) fn effort(graph: &Graph, value: &Value, budget: usize) -> Option<usize> {
    let mut walk = Walk { graph, left: budget };
    walk.node(0, value, false)?;
    Some(budget - walk.left)
}

/// Whether no value inside `value` is nested more than `depth` containers deep. Recurses at most that deep.
pub(crate) fn shallower_than(value: &Value, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else {
        return !matches!(value, Value::Array(_) | Value::Object(_));
    };
    match value {
        Value::Array(items) => items.iter().all(|item| shallower_than(item, below)),
        Value::Object(map) => map.values().all(|member| shallower_than(member, below)),
        _ => true,
    }
}

struct Walk<'a> {
    graph: &'a Graph,
    left: usize,
}

impl Walk<'_> {
    fn spend(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(steps)?;
        Some(())
    }

    /// With `copied`, each reason that is found here keeps a copy of its value.
    fn node(&mut self, at: usize, value: &Value, copied: bool) -> Option<()> {
        let node = &self.graph.nodes[at];
        let weight = if copied { weight(value, self.left)? } else { 1 };
        self.spend((node.checks + 1).saturating_mul(weight))?;
        for &to in &node.in_place {
            // The estimate treats keywords that copy the value (`anyOf`, `oneOf`) and other keywords alike.
            self.node(to, value, true)?;
        }
        match value {
            Value::Object(map) => {
                self.spend(map.len())?;
                for (name, to) in &node.member {
                    if let Some(member) = map.get(name) {
                        self.node(*to, member, copied)?;
                    }
                }
                for &to in &node.members {
                    for member in map.values() {
                        self.node(to, member, copied)?;
                    }
                }
            }
            Value::Array(items) => {
                self.spend(items.len())?;
                for &(index, to) in &node.item {
                    if let Some(item) = items.get(index) {
                        self.node(to, item, copied)?;
                    }
                }
                for &to in &node.items {
                    for item in items {
                        self.node(to, item, copied)?;
                    }
                }
            }
            _ => {}
        }
        Some(())
    }
}

/// The cost of a copy: one step per value and per 64 bytes of text. `None` when it is more than `limit`.
fn weight(value: &Value, limit: usize) -> Option<usize> {
    let own = match value {
        Value::String(text) => 1 + text.len() / 64,
        Value::Array(items) => 1 + items.len(),
        Value::Object(map) => 1 + map.len(),
        _ => 1,
    };
    let mut left = limit.checked_sub(own)?;
    let mut add = |inner: &Value| {
        left -= weight(inner, left)?;
        Some(())
    };
    match value {
        Value::Array(items) => items.iter().try_for_each(&mut add)?,
        Value::Object(map) => map.values().try_for_each(&mut add)?,
        _ => {}
    }
    Some(limit - left)
}
