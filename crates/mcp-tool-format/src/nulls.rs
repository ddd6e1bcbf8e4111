//! `null` for absent properties in the arguments of models.

use serde_json::{Map, Value};

use crate::schema::{Extra, Node};

/// The greatest depth of arguments that are walked.
const MAX_DEPTH: usize = 128;

/// Removes each optional property that is `null`, if no schema of the property accepts `null`.
///
/// Models write `null` for absent properties, and `strict` of OpenAI requires it.
pub(crate) fn remove_nulls(arguments: &mut Map<String, Value>, node: &Node) {
    remove_in_object(arguments, &[node], 0);
}

fn remove_in_object(members: &mut Map<String, Value>, nodes: &[&Node], depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    let mut remove = Vec::new();
    for (key, value) in members.iter_mut() {
        let mut found = Vec::new();
        let mut optional = true;
        for node in nodes {
            match node.properties.iter().find(|property| property.key == *key) {
                Some(property) => {
                    optional &= !property.required;
                    plain_nodes(&property.node, &mut found);
                }
                None => {
                    if let Extra::Schema(schema) = &node.extra {
                        // A key of a record is data of its own.
                        optional = false;
                        plain_nodes(schema, &mut found);
                    }
                }
            }
        }
        if value.is_null() {
            if optional && !found.is_empty() && found.iter().all(|(_, null)| !null) {
                remove.push(key.clone());
            }
        } else {
            remove_in_value(value, &found, depth + 1);
        }
    }
    for key in remove {
        members.shift_remove(&key);
    }
}

fn remove_in_value(value: &mut Value, found: &[(&Node, bool)], depth: usize) {
    match value {
        Value::Object(members) => {
            let nodes: Vec<&Node> = found.iter().map(|(node, _)| *node).collect();
            remove_in_object(members, &nodes, depth);
        }
        Value::Array(items) if depth < MAX_DEPTH => {
            let mut inner = Vec::new();
            for (node, _) in found {
                node.items.iter().for_each(|items| plain_nodes(items, &mut inner));
                node.prefix.iter().for_each(|item| plain_nodes(item, &mut inner));
            }
            items.iter_mut().for_each(|item| remove_in_value(item, &inner, depth + 1));
        }
        _ => {}
    }
}

/// Collects the schemas of a union, or the schema itself, each with whether it accepts `null`.
fn plain_nodes<'a>(node: &'a Node, out: &mut Vec<(&'a Node, bool)>) {
    out.push((node, node.null));
    node.branches.iter().for_each(|branch| plain_nodes(branch, out));
}
