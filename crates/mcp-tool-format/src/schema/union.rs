//! Unions: `anyOf` and `oneOf`, alone or beside assertions.

use std::collections::HashMap;

use serde_json::Value;

use super::{
    Extra, Node, Property, Types,
    combine::{combine, drop_foreign},
};
use crate::{DiagnosticKind as Kind, diagnostic::Log, text};

/// The most branches that are compared in pairs and described in a note.
const MAX_COMPARED: usize = 32;
/// The greatest length of a note about the forms of an object.
const MAX_FORMS: usize = 800;

/// Returns the schema of the values that the base and at least one branch accept.
pub(super) fn attach(mut base: Node, branches: Vec<Node>, pointer: &str, log: &mut Log) -> Node {
    let mut all = Vec::new();
    for branch in branches {
        // A union without its own texts is a part of the outer union.
        if branch.is_union() && branch.description.is_none() && branch.title.is_none() && branch.notes.is_empty() {
            let null = branch.null;
            all.extend(branch.branches);
            if null {
                all.push(Node { null: true, ..Node::of(Types::NONE) });
            }
        } else {
            all.push(branch);
        }
    }
    if all.is_empty() || all.iter().any(|branch| branch.is_any() && branch.notes.is_empty()) {
        return base;
    }
    let null = base.null && all.iter().any(|branch| branch.null);
    all.retain(|branch| branch.is_union() || !branch.types.is_empty());
    for branch in &mut all {
        branch.null = false;
    }
    if all.is_empty() {
        (base.types, base.null) = (Types::NONE, true);
        drop_foreign(&mut base);
        return base;
    }
    if base.has_assertions() && (base.is_object() || all.iter().all(Node::is_object)) && !base.is_union() {
        let objects: Vec<Node> = all.into_iter().filter(Node::is_object).collect();
        if objects.is_empty() {
            log.add(Kind::Invalid, pointer, "no branch accepts an object: the union was removed");
            return base;
        }
        base.types = base.types.common(Types::OBJECT);
        return Node { null, ..flatten(base, objects, pointer, log) };
    }
    let outer = annotations(&mut base);
    let mut own = Node { null: false, ..base };
    if !log.may_copy(all.len().saturating_mul(own.weight())) {
        log.add(Kind::Invalid, pointer, "the assertions beside a union are too large and were removed");
        own = Node::of(own.types);
    }
    let mut kept: Vec<Node> = Vec::new();
    for branch in all {
        if !branch.is_union() && !own.is_union() && own.types.common(branch.types).is_empty() {
            log.add(Kind::Invalid, pointer, "a branch that accepts no value was removed");
            continue;
        }
        let branch = combine(branch, own.clone(), pointer, log);
        let branch = Node { null: false, ..branch };
        if kept.len() > MAX_COMPARED || !kept.contains(&branch) {
            kept.push(branch);
        }
    }
    join(outer, kept, null)
}

/// Returns a union with these branches, or an equal schema without a union.
fn join(outer: Node, branches: Vec<Node>, null: bool) -> Node {
    let mut branches = unite_values(branches);
    if branches.len() == 1
        && let Some(mut only) = branches.pop()
    {
        only.title = outer.title.or(only.title);
        only.description = outer.description.or(only.description);
        only.default = outer.default.or(only.default);
        only.examples = outer.examples.or(only.examples);
        outer.notes.into_iter().for_each(|note| only.note(note));
        only.null = null;
        return only;
    }
    if branches.is_empty() {
        return outer;
    }
    Node { branches, null, types: Types::NONE, ..outer }
}

/// Moves the annotations of a schema to an empty one.
fn annotations(node: &mut Node) -> Node {
    Node {
        title: node.title.take(),
        description: node.description.take(),
        notes: std::mem::take(&mut node.notes),
        default: node.default.take(),
        examples: node.examples.take(),
        ..Node::any()
    }
}

/// Unites branches that are lists of values only. Their texts become notes.
fn unite_values(branches: Vec<Node>) -> Vec<Node> {
    let is_list = |node: &Node| node.values.is_some() && node.scalars.is_empty() && !node.is_union();
    if branches.len() < 2 || !branches.iter().all(is_list) {
        return branches;
    }
    let mut united = Node::of(Types::NONE);
    let mut values: Vec<Value> = Vec::new();
    for branch in branches {
        united.types = united.types.with(branch.types);
        let own = branch.values.unwrap_or_default();
        if let Some(text) = branch.description.or(branch.title) {
            united.note(format!(
                "{}: {text}",
                own.iter().map(|value| text::json(value, 60)).collect::<Vec<_>>().join(", ")
            ));
        }
        for note in branch.notes {
            united.note(note);
        }
        values.extend(own);
    }
    let mut seen = std::collections::HashSet::new();
    values.retain(|value| seen.insert(value.to_string()));
    united.values = Some(values);
    vec![united]
}

/// Merges the objects of a union into one object: every property of every branch, required if each branch requires it.
/// The rule of the union becomes a note.
pub(super) fn flatten(mut base: Node, branches: Vec<Node>, pointer: &str, log: &mut Log) -> Node {
    let branches: Vec<Node> = branches
        .into_iter()
        .map(|mut branch| {
            if !branch.is_union() {
                return branch;
            }
            let inner = std::mem::take(&mut branch.branches);
            flatten(Node { types: Types::OBJECT, ..branch }, inner, pointer, log)
        })
        .collect();
    let count = branches.len();
    if count > 1 {
        log.add(Kind::Described, pointer, "the union of objects is one object now; its rule is a text");
        base.note(forms(&branches));
    }
    let closed = branches.iter().all(|branch| branch.extra == Extra::Closed);
    let mut keys: Vec<String> = Vec::new();
    let mut found: HashMap<String, (Vec<Node>, usize)> = HashMap::new();
    for branch in branches {
        for note in branch.notes {
            base.note(note);
        }
        if base.description.is_none() && count == 1 {
            base.description = branch.description;
        }
        for Property { key, node, required } in branch.properties {
            let (nodes, times) = found.entry(key.clone()).or_insert_with(|| {
                keys.push(key);
                (Vec::new(), 0)
            });
            *times += usize::from(required);
            if nodes.len() > MAX_COMPARED || !nodes.contains(&node) {
                nodes.push(node);
            }
        }
    }
    let places: HashMap<String, usize> =
        base.properties.iter().enumerate().map(|(at, property)| (property.key.clone(), at)).collect();
    for key in keys {
        let Some((mut nodes, times)) = found.remove(&key) else { continue };
        let node = match nodes.pop() {
            Some(only) if nodes.is_empty() => only,
            Some(last) => {
                nodes.push(last);
                let null = nodes.iter().any(|node| node.null);
                Node { null, ..attach(Node::any(), nodes, &text::property(pointer, &key), log) }
            }
            None => Node::any(),
        };
        let required = times == count;
        match places.get(&key) {
            None => base.properties.push(Property { key, node, required }),
            Some(&at) => {
                let property = &mut base.properties[at];
                property.required |= required;
                let own = std::mem::replace(&mut property.node, Node::any());
                property.node = combine(own, node, &text::property(pointer, &key), log);
            }
        }
    }
    if closed && base.extra == Extra::Unstated {
        base.extra = Extra::Closed;
    }
    base
}

/// Returns a sentence about the forms of an object: the fixed values and the required properties of each branch.
fn forms(branches: &[Node]) -> String {
    let form = |branch: &Node| {
        let mut parts: Vec<String> = Vec::new();
        for property in &branch.properties {
            match &property.node.values {
                Some(values) if values.len() == 1 => {
                    parts.push(format!("`{}` = {}", property.key, text::json(&values[0], 40)));
                }
                _ if property.required => parts.push(format!("`{}`", property.key)),
                _ => {}
            }
        }
        let optional = branch.properties.iter().filter(|property| !property.required);
        if parts.is_empty() {
            parts.extend(optional.map(|property| format!("optional `{}`", property.key)));
        }
        if parts.is_empty() { "no property".to_owned() } else { parts.join(", ") }
    };
    let list: Vec<String> = branches.iter().take(MAX_COMPARED).map(form).collect();
    let mut text = format!("The object has one of these forms: ({}).", list.join(") or ("));
    text::shorten(&mut text, MAX_FORMS);
    text
}
