//! The keywords of objects and arrays.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{Extra, Kind, MAX_NODES, Node, Property, Reader, Scalar, TooLarge};
use crate::text;

/// The greatest length of a key in a diagnostic.
const MAX_NAME: usize = 100;

impl<'a> Reader<'a, '_> {
    pub(super) fn properties(
        &mut self,
        members: &'a Map<String, Value>,
        node: &mut Node,
        depth: usize,
    ) -> Result<(), TooLarge> {
        match members.get("properties") {
            Some(Value::Object(properties)) => {
                for (key, schema) in properties {
                    if schema == &Value::Bool(false) {
                        self.charge(1)?;
                        let key = text::excerpt(key, MAX_NAME);
                        self.log(Kind::Described, format!("the property {key} accepts no value and was removed"));
                        continue;
                    }
                    // Draft 3 has the flag in the property.
                    let required = schema.get("required") == Some(&Value::Bool(true));
                    let schema = self.below(&["properties", key], schema, depth)?;
                    node.properties.push(Property { key: key.clone(), node: schema, required });
                }
            }
            Some(Value::Null) | None => {}
            Some(_) => self.log(Kind::Invalid, "`properties` is not an object"),
        }
        node.extra = match members.get("additionalProperties").or_else(|| members.get("unevaluatedProperties")) {
            None | Some(Value::Null) => Extra::Unstated,
            Some(Value::Bool(false)) => Extra::Closed,
            Some(Value::Bool(true)) => Extra::Any,
            Some(schema) => match self.below(&["additionalProperties"], schema, depth)? {
                any if any.is_any() && any.notes.is_empty() && any.description.is_none() => Extra::Any,
                schema => Extra::Schema(Box::new(schema)),
            },
        };
        self.pattern_properties(members, node, depth)?;
        self.required(members, node)
    }

    fn pattern_properties(
        &mut self,
        members: &'a Map<String, Value>,
        node: &mut Node,
        depth: usize,
    ) -> Result<(), TooLarge> {
        let Some(Value::Object(patterns)) = members.get("patternProperties") else { return Ok(()) };
        let (1, Some((pattern, schema))) = (patterns.len(), patterns.iter().next()) else {
            self.describe(node, "patternProperties", members);
            return Ok(());
        };
        let schema = self.below(&["patternProperties", pattern], schema, depth)?;
        node.extra = Extra::Schema(Box::new(schema));
        self.log(Kind::Described, "`patternProperties` is a text now");
        node.note(format!("Further keys match the pattern {}", text::excerpt(pattern, 300)));
        Ok(())
    }

    fn required(&mut self, members: &Map<String, Value>, node: &mut Node) -> Result<(), TooLarge> {
        let names = match members.get("required") {
            Some(Value::Array(names)) => names,
            None | Some(Value::Bool(_) | Value::Null) => return Ok(()),
            Some(_) => {
                self.log(Kind::Invalid, "`required` is not a list");
                return Ok(());
            }
        };
        // Each name can become a property.
        if names.len() > MAX_NODES {
            return Err(TooLarge);
        }
        let mut required: HashSet<&str> = names.iter().filter_map(Value::as_str).collect();
        if required.len() < names.len() && names.iter().any(|name| !name.is_string()) {
            self.log(Kind::Invalid, "`required` has entries that are not texts");
        }
        for property in &mut node.properties {
            property.required |= required.remove(property.key.as_str());
        }
        for name in names.iter().filter_map(Value::as_str) {
            if !required.remove(name) {
                continue;
            }
            if node.extra == Extra::Closed {
                let name = text::excerpt(name, MAX_NAME);
                self.log(Kind::Invalid, format!("the required property {name} is not defined"));
                continue;
            }
            self.charge(1)?;
            node.properties.push(Property { key: name.to_owned(), node: Node::any(), required: true });
        }
        Ok(())
    }

    pub(super) fn items(
        &mut self,
        members: &'a Map<String, Value>,
        node: &mut Node,
        depth: usize,
    ) -> Result<(), TooLarge> {
        let (first, rest) = match (members.get("prefixItems"), members.get("items")) {
            (Some(first), rest) => (Some(("prefixItems", first)), rest),
            (None, Some(first @ Value::Array(_))) => (Some(("items", first)), members.get("additionalItems")),
            (None, rest) => (None, rest),
        };
        if let Some((keyword, first)) = first {
            node.prefix = self.list(keyword, first, depth)?;
        }
        match rest {
            None | Some(Value::Null) => {}
            Some(Value::Bool(false)) if !node.prefix.is_empty() => {
                let most = node.prefix.len();
                if let Some(keyword) = Scalar::named("maxItems") {
                    node.scalars.retain(|(other, _)| *other != keyword);
                    node.scalars.push((keyword, most.into()));
                }
            }
            Some(schema) => node.items = Some(Box::new(self.below(&["items"], schema, depth)?)),
        }
        Ok(())
    }
}
