//! An upper bound for the cost of explaining why a value does not match a schema. The search stops early.
//!
//! The match itself takes bounded time, because results of references are cached. Collecting the reasons visits each
//! path through the schema, and copies the value for each rejected branch.

use serde_json::Value;

use crate::graph::Graph;

/// Whether `budget` steps collect all reasons.
pub(crate) fn is_affordable(graph: &Graph, value: &Value, budget: usize) -> bool {
    Walk { graph, left: budget }.node(0, value, false).is_some()
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Dialect, Limits};

    #[test]
    fn lists_and_objects_nest() {
        for (value, depth) in [
            (json!(1), 0),
            (json!([]), 1),
            (json!({}), 1),
            (json!([1, [2]]), 2),
            (json!({"a": 1, "b": {"c": 2}}), 2),
            (json!({"a": [{"b": 1}]}), 3),
        ] {
            let fits = |limit| shallower_than(&value, limit);
            assert!(fits(depth) && (depth == 0 || !fits(depth - 1)), "{value}");
        }
    }

    #[test]
    fn a_copy_costs_a_step_per_value_and_per_64_bytes() {
        for (value, steps) in [
            (json!(1), 1),
            (json!("x".repeat(63)), 1),
            (json!("x".repeat(64)), 2),
            (json!([]), 1),
            (json!([1, 2, 3]), 7),
            (json!([[1, 2]]), 7),
            (json!({"a": 1, "b": 2}), 5),
            (json!({"a": {"b": "x".repeat(64)}}), 6),
        ] {
            assert_eq!((weight(&value, steps), weight(&value, steps - 1)), (Some(steps), None), "{value}");
        }
    }

    #[test]
    fn a_schema_costs_a_step_per_keyword_and_per_required_member() {
        for (schema, value, steps) in [
            (json!({}), json!(1), 1),
            (json!({"minimum": 1, "maximum": 2}), json!(1), 3),
            (json!({"required": ["a", "b", "c"]}), json!(1), 5),
            (json!({"items": {"minimum": 1}}), json!([1, 2]), 8),
            (json!({"properties": {"a": {"minimum": 1}}}), json!({"a": 1, "b": 2}), 6),
        ] {
            let graph = Graph::build(&schema, Dialect::default(), &Limits::new()).expect("the schema has no fault");
            assert!(is_affordable(&graph, &value, steps) && !is_affordable(&graph, &value, steps - 1), "{schema}");
        }
    }
}
