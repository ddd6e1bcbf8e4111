//! The conjunction of schemas: `allOf`, keywords beside `$ref`, assertions beside a union.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

pub(super) use super::union::{attach, flatten};
use super::{Extra, Node, Property, Types};
use crate::{DiagnosticKind as Kind, diagnostic::Log, text};

/// The most branches of the product of two unions.
const MAX_PRODUCT: usize = 16;

/// Returns the schema of the values that both schemas accept. Annotations of the first schema take precedence.
pub(super) fn combine(mut a: Node, mut b: Node, pointer: &str, log: &mut Log) -> Node {
    a.title = a.title.or(b.title.take());
    a.description = a.description.or(b.description.take());
    a.default = a.default.or(b.default.take());
    a.examples = a.examples.or(b.examples.take());
    for note in std::mem::take(&mut b.notes) {
        a.note(note);
    }
    if b.is_union() {
        let null = a.null && b.null;
        if a.is_union() && a.branches.len() * b.branches.len() > MAX_PRODUCT {
            log.add(Kind::Described, pointer, "the product of two unions is too large: one of them was removed");
            a.null = null;
            return a;
        }
        let mut node = attach(a, b.branches, pointer, log);
        node.null = null;
        return node;
    }
    if a.is_union() {
        let null = a.null && b.null;
        let branches = std::mem::take(&mut a.branches);
        let annotations = Node { null: a.null, ..a };
        let mut node =
            attach(combine(Node { types: Types::ALL, ..annotations }, b, pointer, log), branches, pointer, log);
        node.null = null;
        return node;
    }
    plain(a, b, pointer, log)
}

fn plain(mut a: Node, b: Node, pointer: &str, log: &mut Log) -> Node {
    let (types, null) = (a.types.common(b.types), a.null && b.null);
    if types.is_empty() && !null {
        log.add(Kind::Invalid, pointer, "two parts of the schema accept no common value: one of them was removed");
        return a;
    }
    (a.types, a.null) = (types, null);
    a.values = match (a.values, b.values) {
        (Some(mut left), Some(right)) => {
            let before = left.clone();
            let common: HashSet<String> = right.iter().map(Value::to_string).collect();
            left.retain(|value| common.contains(&value.to_string()));
            if left.is_empty() {
                log.add(Kind::Invalid, pointer, "two lists of values have no common value: one of them was removed");
                left = before;
            }
            Some(left)
        }
        (left, right) => left.or(right),
    };
    for (keyword, value) in b.scalars {
        let Some((_, own)) = a.scalars.iter_mut().find(|(other, _)| *other == keyword) else {
            a.scalars.push((keyword, value));
            continue;
        };
        match keyword.merge(own, &value) {
            Some(merged) => *own = merged,
            None => {
                log.add(Kind::Described, pointer, format!("a second `{}` is a text now", keyword.name()));
                a.note(format!("{}: {}", keyword.name(), text::json(&value, 200)));
            }
        }
    }
    merge_properties(&mut a.properties, b.properties, pointer, log);
    a.extra = match (a.extra, b.extra) {
        (Extra::Closed, _) | (_, Extra::Closed) => Extra::Closed,
        (Extra::Schema(left), Extra::Schema(right)) => Extra::Schema(Box::new(combine(*left, *right, pointer, log))),
        (Extra::Unstated, other) | (other, Extra::Unstated) => other,
        (Extra::Schema(schema), Extra::Any) | (Extra::Any, Extra::Schema(schema)) => Extra::Schema(schema),
        (Extra::Any, Extra::Any) => Extra::Any,
    };
    a.items = match (a.items, b.items) {
        (Some(left), Some(right)) => Some(Box::new(combine(*left, *right, pointer, log))),
        (left, right) => left.or(right),
    };
    if a.prefix.is_empty() {
        a.prefix = b.prefix;
    }
    drop_foreign(&mut a);
    a
}

/// Removes the keywords of types that the schema does not accept.
pub(super) fn drop_foreign(node: &mut Node) {
    let types = node.types;
    node.scalars.retain(|(keyword, _)| types.has(keyword.types()));
    if let Some(values) = &mut node.values {
        values.retain(|value: &Value| types.has(Types::of(value)));
        if values.is_empty() {
            node.values = None;
        }
    }
    if !types.has(Types::OBJECT) {
        node.properties.clear();
        node.extra = Extra::Unstated;
    }
    if !types.has(Types::ARRAY) {
        node.items = None;
        node.prefix.clear();
    }
}

fn merge_properties(own: &mut Vec<Property>, other: Vec<Property>, pointer: &str, log: &mut Log) {
    if other.is_empty() {
        return;
    }
    let places: HashMap<String, usize> = own.iter().enumerate().map(|(at, known)| (known.key.clone(), at)).collect();
    for property in other {
        match places.get(&property.key) {
            None => own.push(property),
            Some(&at) => {
                let known = &mut own[at];
                known.required |= property.required;
                let left = std::mem::replace(&mut known.node, Node::any());
                known.node = combine(left, property.node, &text::property(pointer, &property.key), log);
            }
        }
    }
}
