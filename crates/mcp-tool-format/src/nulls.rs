//! `null` for absent properties in the arguments of models.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::schema::{Extra, Node};

/// The greatest depth of arguments that are walked.
const MAX_DEPTH: usize = 128;
/// The most properties of schemas that are compared with arguments. Further arguments are unchanged.
const MAX_STEPS: usize = 1_000_000;

/// Removes each optional property that is `null`, if no schema of the property accepts `null`.
///
/// Models write `null` for absent properties, and `strict` of OpenAI requires it.
pub(crate) fn remove_nulls(arguments: &mut Map<String, Value>, node: &Node) {
    Walk { steps: MAX_STEPS }.object(arguments, &[node], 0);
}

struct Walk {
    steps: usize,
}

/// The schemas of one argument, each with whether it accepts `null`.
struct Found<'a> {
    nodes: Vec<(&'a Node, bool)>,
    optional: bool,
}

impl Walk {
    fn object(&mut self, members: &mut Map<String, Value>, nodes: &[&Node], depth: usize) {
        let steps = nodes.iter().map(|node| 1 + node.properties.len()).sum::<usize>() + members.len();
        if depth >= MAX_DEPTH || self.steps < steps {
            return;
        }
        self.steps -= steps;
        let mut found: HashMap<&str, Found<'_>> = HashMap::new();
        for node in nodes {
            for property in &node.properties {
                if members.contains_key(&property.key) {
                    let found =
                        found.entry(&property.key).or_insert_with(|| Found { nodes: Vec::new(), optional: true });
                    found.optional &= !property.required;
                    plain_nodes(&property.node, &mut found.nodes);
                }
            }
        }
        // A key of a record is data of its own.
        let records: Vec<(&Node, HashSet<&str>)> = nodes
            .iter()
            .filter_map(|node| match &node.extra {
                Extra::Schema(schema) => {
                    Some((&**schema, node.properties.iter().map(|property| property.key.as_str()).collect()))
                }
                _ => None,
            })
            .collect();
        members.retain(|key, value| {
            let mut found = found.remove(key.as_str()).unwrap_or(Found { nodes: Vec::new(), optional: true });
            for (schema, named) in &records {
                if !named.contains(key.as_str()) {
                    found.optional = false;
                    plain_nodes(schema, &mut found.nodes);
                }
            }
            if value.is_null() {
                return !found.optional || found.nodes.is_empty() || found.nodes.iter().any(|(_, null)| *null);
            }
            self.value(value, &found.nodes, depth + 1);
            true
        });
    }

    fn value(&mut self, value: &mut Value, found: &[(&Node, bool)], depth: usize) {
        if self.steps < found.len() {
            return;
        }
        self.steps -= found.len();
        match value {
            Value::Object(members) => {
                let nodes: Vec<&Node> = found.iter().map(|(node, _)| *node).filter(|node| has_members(node)).collect();
                if !nodes.is_empty() {
                    self.object(members, &nodes, depth);
                }
            }
            Value::Array(items) if depth < MAX_DEPTH => {
                let mut inner = Vec::new();
                for (node, _) in found {
                    node.items.iter().for_each(|items| plain_nodes(items, &mut inner));
                    node.prefix.iter().for_each(|item| plain_nodes(item, &mut inner));
                }
                inner.retain(|(node, _)| has_members(node) || node.items.is_some() || !node.prefix.is_empty());
                if !inner.is_empty() {
                    items.iter_mut().for_each(|item| self.value(item, &inner, depth + 1));
                }
            }
            _ => {}
        }
    }
}

/// Whether a schema has schemas for the members of an object.
fn has_members(node: &Node) -> bool {
    !node.properties.is_empty() || matches!(node.extra, Extra::Schema(_))
}

/// Collects the schemas of a union, or the schema itself, each with whether it accepts `null`.
fn plain_nodes<'a>(node: &'a Node, out: &mut Vec<(&'a Node, bool)>) {
    out.push((node, node.null));
    node.branches.iter().for_each(|branch| plain_nodes(branch, out));
}
