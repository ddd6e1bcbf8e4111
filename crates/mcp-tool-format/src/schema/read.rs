//! Reads a JSON Schema of any dialect into the normal form, within fixed bounds.

mod members;
mod values;

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    Extra, Node, Property, Types,
    combine::{attach, combine, flatten},
    reference::{Document, Target},
    scalar::Scalar,
};
use crate::{DiagnosticKind as Kind, diagnostic::Log, text};

/// The most schemas of one tool, with those that references repeat.
const MAX_NODES: usize = 5_100;
/// The most schemas of one tool that references may add. Further references are cut.
const MAX_INLINED: usize = 2_000;
/// The most bytes of text in these schemas.
const MAX_INLINED_TEXT: usize = 256 << 10;
/// The greatest nesting depth. Deeper schemas are cut.
const MAX_DEPTH: usize = 32;
/// The greatest length of a schema in a description.
const MAX_NOTE: usize = 300;

/// The schema has too many parts.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// Reads the input schema of a tool. The result is an object without a union at its root.
///
/// # Errors
///
/// A sentence, when the schema is too large or accepts no object.
pub(crate) fn read(schema: &Map<String, Value>, log: &mut Log) -> Result<Node, String> {
    let mut reader = Reader {
        document: Document::new(schema),
        open: Vec::new(),
        nodes: 0,
        inlined: 0,
        inlined_text: 0,
        pointer: String::new(),
        log,
    };
    let mut root =
        reader.object(schema, 0).map_err(|TooLarge| format!("the schema has more than {MAX_NODES} parts"))?;
    if root.is_union() {
        let branches = std::mem::take(&mut root.branches);
        let all = branches.len();
        let objects: Vec<Node> = branches.into_iter().filter(Node::is_object).collect();
        if objects.len() < all {
            reader.log.add(Kind::Invalid, "", "branches of the root that accept no object were removed");
        }
        if !objects.is_empty() {
            root.types = Types::OBJECT;
            root = flatten(root, objects, "", reader.log);
        }
    }
    if !root.types.has(Types::OBJECT) || root.is_union() {
        return Err("the root of the schema accepts no object".to_owned());
    }
    root.types = Types::OBJECT;
    root.null = false;
    if let Some(values) = root.values.take() {
        reader.log.add(Kind::Described, "", "`enum` of the root is a text now");
        root.note(format!("One of: {}", text::json(&Value::Array(values), MAX_NOTE)));
    }
    Ok(root)
}

struct Reader<'a, 'l> {
    document: Document<'a>,
    /// The targets of the references that are being read.
    open: Vec<&'a Map<String, Value>>,
    nodes: usize,
    inlined: usize,
    inlined_text: usize,
    pointer: String,
    log: &'l mut Log,
}

impl<'a> Reader<'a, '_> {
    fn charge(&mut self, nodes: usize) -> Result<(), TooLarge> {
        self.nodes += nodes;
        if !self.open.is_empty() {
            self.inlined += nodes;
        }
        if self.nodes > MAX_NODES { Err(TooLarge) } else { Ok(()) }
    }

    fn log(&mut self, kind: Kind, message: impl Into<String>) {
        self.log.add(kind, &self.pointer, message);
    }

    /// Reads the schema below some steps of the pointer.
    fn below(&mut self, steps: &[&str], schema: &'a Value, depth: usize) -> Result<Node, TooLarge> {
        let length = self.pointer.len();
        for step in steps {
            text::push_step(&mut self.pointer, step);
        }
        let node = self.schema(schema, depth + 1);
        self.pointer.truncate(length);
        node
    }

    fn list(&mut self, keyword: &str, value: &'a Value, depth: usize) -> Result<Vec<Node>, TooLarge> {
        let Some(schemas) = value.as_array() else {
            self.log(Kind::Invalid, format!("`{keyword}` is not a list"));
            return Ok(Vec::new());
        };
        let mut nodes = Vec::with_capacity(schemas.len().min(MAX_NODES));
        for (index, schema) in schemas.iter().enumerate() {
            nodes.push(self.below(&[keyword, &index.to_string()], schema, depth)?);
        }
        Ok(nodes)
    }

    fn schema(&mut self, schema: &'a Value, depth: usize) -> Result<Node, TooLarge> {
        self.charge(1)?;
        match schema {
            Value::Bool(true) => Ok(Node::any()),
            Value::Object(members) if depth > MAX_DEPTH => {
                self.log(Kind::Cut, format!("the schema is deeper than {MAX_DEPTH} levels"));
                Ok(stub(members, "The structure below this level is not shown."))
            }
            Value::Object(members) => self.object(members, depth),
            Value::Bool(false) => {
                self.log(Kind::Described, "a schema that accepts no value is a text now");
                let mut node = Node::any();
                node.note("No value is accepted.".to_owned());
                Ok(node)
            }
            _ => {
                self.log(Kind::Invalid, "a schema is an object or a boolean");
                Ok(Node::any())
            }
        }
    }

    fn object(&mut self, members: &'a Map<String, Value>, depth: usize) -> Result<Node, TooLarge> {
        if !self.open.is_empty() {
            self.inlined_text += own_text(members);
        }
        let mut node = self.assertions(members, depth)?;
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            if let Some(reference) = members.get(keyword) {
                let target = self.reference(reference, depth)?;
                node = combine(node, target, &self.pointer, self.log);
            }
        }
        if let Some(value) = members.get("allOf") {
            for branch in self.list("allOf", value, depth)? {
                node = combine(node, branch, &self.pointer, self.log);
            }
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(value) = members.get(keyword) {
                let branches = self.list(keyword, value, depth)?;
                node = attach(node, branches, &self.pointer, self.log);
            }
        }
        self.conditions(members, &mut node, depth)?;
        Ok(node)
    }

    fn reference(&mut self, reference: &'a Value, depth: usize) -> Result<Node, TooLarge> {
        let name = reference.as_str().unwrap_or_default();
        let Some(target) = reference.as_str().and_then(|name| self.document.resolve(name)) else {
            self.log(
                Kind::Invalid,
                format!("the reference {} has no target in the schema", text::json(reference, 100)),
            );
            return Ok(Node::any());
        };
        let short = name.rsplit('/').next().filter(|short| !short.is_empty() && *short != "#").unwrap_or("the root");
        let short = text::excerpt(short, 100);
        let members = match target {
            Target::Object(members) => members,
            Target::Other(schema) => return self.schema(schema, depth + 1),
        };
        if self.open.iter().any(|open| std::ptr::eq(*open, members)) {
            self.log(Kind::Cut, format!("the schema is recursive at {short}"));
            return Ok(stub(members, &format!("A nested value of the same form as `{short}`.")));
        }
        if self.inlined > MAX_INLINED || self.inlined_text > MAX_INLINED_TEXT || depth > MAX_DEPTH {
            self.log(Kind::Cut, "the inlined references have too many parts or levels");
            return Ok(stub(members, &format!("A value of the form `{short}`, which is not shown.")));
        }
        self.charge(1)?;
        self.open.push(members);
        let node = self.object(members, depth + 1);
        self.open.pop();
        node
    }

    /// Reads the keywords that hold no union and no reference.
    fn assertions(&mut self, members: &'a Map<String, Value>, depth: usize) -> Result<Node, TooLarge> {
        let mut node = Node::any();
        let words = |key: &str| members.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        node.title = words("title").map(str::to_owned);
        node.description = words("description").map(str::to_owned);
        let value = |key: &str| members.get(key).filter(|value| text::is_shallow(value));
        node.default = value("default").cloned();
        node.examples = value("examples").filter(|examples| examples.is_array()).cloned();
        if node.examples.is_none() {
            node.examples = value("example").map(|example| Value::Array(vec![example.clone()]));
        }
        if members.get("deprecated") == Some(&Value::Bool(true)) {
            node.note("Deprecated.".to_owned());
        }
        self.types(members, &mut node);
        self.values(members, &mut node)?;
        self.scalars(members, &mut node);
        if node.types.has(Types::OBJECT) {
            self.properties(members, &mut node, depth)?;
        }
        if node.types.has(Types::ARRAY) {
            self.items(members, &mut node, depth)?;
        }
        Ok(node)
    }

    /// Reads the conditions: their properties become optional, their rules become texts.
    fn conditions(&mut self, members: &'a Map<String, Value>, node: &mut Node, depth: usize) -> Result<(), TooLarge> {
        if members.contains_key("if") {
            for keyword in ["then", "else"] {
                let Some(schema) = members.get(keyword) else { continue };
                let branch = self.below(&[keyword], schema, depth)?;
                if !node.is_union() && node.types.has(Types::OBJECT) {
                    let mut known: HashSet<String> =
                        node.properties.iter().map(|property| property.key.clone()).collect();
                    for property in branch.properties {
                        if known.insert(property.key.clone()) {
                            node.properties.push(Property { required: false, ..property });
                        }
                    }
                }
            }
        }
        for keyword in [
            "if",
            "then",
            "else",
            "not",
            "contains",
            "dependentRequired",
            "dependentSchemas",
            "dependencies",
            "unevaluatedItems",
        ] {
            if members.contains_key(keyword) {
                self.describe(node, keyword, members);
            }
        }
        // Writers of records add a rule that every key fulfils.
        if let Some(names) = members.get("propertyNames")
            && names.as_object().is_none_or(|names| names.keys().any(|key| key != "type"))
        {
            self.describe(node, "propertyNames", members);
        }
        Ok(())
    }

    fn describe(&mut self, node: &mut Node, keyword: &str, members: &Map<String, Value>) {
        if let Some(value) = members.get(keyword).filter(|value| **value != Value::Bool(true)) {
            self.log(Kind::Described, format!("`{keyword}` is a text now"));
            node.note(format!("{keyword}: {}", text::json(value, MAX_NOTE)));
        }
    }
}

/// Returns the types that the keywords of a schema without `type` imply. Values of `enum` have their own types.
fn implied(members: &Map<String, Value>) -> Types {
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| members.contains_key(*keyword));
    if has(&["enum", "const", "$ref", "$dynamicRef", "$recursiveRef"]) {
        return Types::NONE;
    }
    let mut types = Types::NONE;
    for (keywords, implied) in [
        (&["properties", "required", "additionalProperties", "patternProperties", "propertyNames"][..], Types::OBJECT),
        (&["items", "prefixItems", "minItems", "maxItems", "uniqueItems"], Types::ARRAY),
        (&["minLength", "maxLength", "pattern"], Types::STRING),
        (&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"], Types::NUMBER),
    ] {
        if has(keywords) {
            types = types.with(implied);
        }
    }
    types
}

/// Returns the bytes of the keys, texts and values of a schema, without the schemas below it.
fn own_text(members: &Map<String, Value>) -> usize {
    let member = |(keyword, value): (&String, &Value)| match (keyword.as_str(), value) {
        (_, Value::String(text)) => text.len(),
        ("enum" | "const" | "default" | "example" | "examples" | "required", value) => text::size(value),
        ("properties", Value::Object(properties)) => properties.keys().map(String::len).sum(),
        _ => 0,
    };
    members.iter().map(member).sum()
}

/// Returns a schema of the same types, with a note in the place of the rest.
fn stub(members: &Map<String, Value>, note: &str) -> Node {
    let name = members.get("type").and_then(Value::as_str);
    let types = name.map_or_else(|| implied(members), Types::named);
    let mut node = if types.is_empty() { Node::any() } else { Node::of(types) };
    node.description = members.get("description").and_then(Value::as_str).map(|text| text::excerpt(text, MAX_NOTE));
    node.note(note.to_owned());
    node
}
