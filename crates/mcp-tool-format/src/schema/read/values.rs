//! The keywords `type`, `enum` and `const`, and those with a number, a text or a flag.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Kind, Node, Reader, Scalar, TooLarge, Types, implied, text};

/// The most entries of `type` that are read.
const MAX_TYPES: usize = 32;
/// The most values of one `enum`. A longer one becomes a text.
const MAX_VALUES: usize = 5_000;

/// The values of a list so far.
#[derive(Default)]
struct Distinct<'a> {
    texts: HashSet<&'a str>,
    others: HashSet<String>,
}

impl<'a> Distinct<'a> {
    /// Adds a value. Returns whether it is new.
    fn insert(&mut self, value: &'a Value) -> bool {
        match value {
            Value::String(text) => self.texts.insert(text),
            other => self.others.insert(other.to_string()),
        }
    }
}

impl Reader<'_, '_> {
    pub(super) fn types(&mut self, members: &Map<String, Value>, node: &mut Node) {
        let mut named = |name: &str, node: &mut Node| match name.to_ascii_lowercase().as_str() {
            "null" => node.null = true,
            "any" => (node.types, node.null) = (Types::ALL, true),
            lower => match Types::named(lower) {
                Types::NONE => self.log(Kind::Invalid, format!("the type {} is unknown", text::json(&name.into(), 40))),
                types => node.types = node.types.with(types),
            },
        };
        (node.types, node.null) = (Types::NONE, false);
        match members.get("type") {
            Some(Value::String(name)) => named(name, node),
            Some(Value::Array(names)) => {
                names.iter().filter_map(Value::as_str).take(MAX_TYPES).for_each(|name| named(name, node));
            }
            Some(_) => self.log(Kind::Invalid, "`type` is not a text or a list of texts"),
            None => node.types = implied(members),
        }
        if node.types.is_empty() && !node.null {
            (node.types, node.null) = (Types::ALL, true);
        }
        node.null |= members.get("nullable") == Some(&Value::Bool(true));
    }

    pub(super) fn values(&mut self, members: &Map<String, Value>, node: &mut Node) -> Result<(), TooLarge> {
        let values = match (members.get("const"), members.get("enum")) {
            (Some(value), _) => std::slice::from_ref(value),
            (None, Some(Value::Array(values))) => values.as_slice(),
            (None, Some(_)) => {
                self.log(Kind::Invalid, "`enum` is not a list");
                return Ok(());
            }
            (None, None) => return Ok(()),
        };
        let declared = node.types;
        let usable = |value: &&Value| declared.has(Types::of(value)) && text::is_shallow(value);
        let null = values.contains(&Value::Null);
        let types = values.iter().filter(usable).fold(Types::NONE, |types, value| types.with(Types::of(value)));
        if types.is_empty() && !null {
            self.log(Kind::Invalid, "`enum` has no value of the type of the schema");
            return Ok(());
        }
        let mut distinct = Distinct::default();
        let kept: Vec<Value> = if values.len() > MAX_VALUES {
            self.describe(node, "enum", members);
            Vec::new()
        } else {
            values.iter().filter(usable).filter(|value| distinct.insert(value)).cloned().collect()
        };
        self.charge(kept.len() / 8)?;
        node.null &= null;
        node.types = types;
        if !kept.is_empty() {
            node.values = Some(kept);
        }
        Ok(())
    }

    pub(super) fn scalars(&mut self, members: &Map<String, Value>, node: &mut Node) {
        for (keyword, value) in members {
            let Some(scalar) = Scalar::named(keyword) else { continue };
            if !node.types.has(scalar.types()) {
                continue;
            }
            // Draft 4: a flag that makes the bound exclusive.
            if let (Value::Bool(flag), Some(bound)) = (value, keyword.strip_prefix("exclusive")) {
                let bound = Scalar::named(&bound.to_ascii_lowercase());
                let at = node.scalars.iter().position(|(other, _)| Some(*other) == bound);
                let given = bound.and_then(|bound| members.get(bound.name())).and_then(|value| scalar.value(value));
                if let (true, Some(given)) = (*flag, given) {
                    if let Some(at) = at {
                        node.scalars.remove(at);
                    }
                    node.scalars.push((scalar, given));
                }
                continue;
            }
            let exclusive = |name: &str| members.get(name) == Some(&Value::Bool(true));
            if (keyword == "minimum" && exclusive("exclusiveMinimum"))
                || (keyword == "maximum" && exclusive("exclusiveMaximum"))
            {
                continue;
            }
            match scalar.value(value) {
                Some(value) => node.scalars.push((scalar, value)),
                None => self.log(Kind::Invalid, format!("the value of `{keyword}` is not valid")),
            }
        }
    }
}
