//! Writes a schema of the normal form as a provider accepts it.

mod members;
mod values;

use serde_json::{Map, Value};

use super::{Extra, Node, Types, scalar::Scalar};
use crate::{
    DiagnosticKind as Kind,
    diagnostic::Log,
    keys::Keys,
    rules::{NullForm, Rules},
    text,
};

/// The greatest length of a value in a description.
const MAX_NOTE: usize = 300;

/// The most schemas of one tool in the request.
const MAX_WRITTEN: usize = 12_000;

/// A schema for a provider.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) schema: Map<String, Value>,
    /// The keys that differ.
    pub(crate) keys: Keys,
    /// The first reason against these rules: an object that accepts further properties under rules for closed objects,
    /// two keys with one name, or too many parts.
    pub(crate) obstacle: Option<String>,
}

/// Writes the input schema of a tool.
pub(crate) fn write(root: &Node, rules: &Rules, log: &mut Log) -> Written {
    let mut writer = Writer { rules, keys: Keys::default(), log, pointer: String::new(), obstacle: None, written: 0 };
    let mut notes = root.notes.clone();
    let mut schema = Map::new();
    schema.insert("type".to_owned(), "object".into());
    writer.object(root, &mut schema, &mut notes, true);
    writer.scalars(root, Types::OBJECT, &mut schema, &mut notes);
    if let Some(text) = writer.description(root, notes)
        && rules.has("description")
    {
        schema.insert("description".to_owned(), text.into());
    }
    Written { schema, keys: writer.keys, obstacle: writer.obstacle }
}

struct Writer<'a> {
    rules: &'a Rules,
    keys: Keys,
    log: &'a mut Log,
    pointer: String,
    obstacle: Option<String>,
    written: usize,
}

impl Writer<'_> {
    fn charge(&mut self, schemas: usize) {
        self.written += schemas;
        if self.written > MAX_WRITTEN {
            self.obstruct("the schema has too many parts in the request");
        }
    }

    fn obstruct(&mut self, reason: &str) {
        if self.obstacle.is_none() {
            self.obstacle = Some(format!("{reason} (at `{}`)", self.pointer));
        }
    }

    /// Moves a keyword to the notes.
    fn describe(&mut self, notes: &mut Vec<String>, keyword: &str, value: &Value) {
        self.log.add(Kind::Described, &self.pointer, format!("`{keyword}` is a text now"));
        let value =
            value.as_str().map_or_else(|| text::json(value, MAX_NOTE), |text| text::json(&text.into(), MAX_NOTE));
        let note = format!("{keyword}: {value}");
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    fn below(&mut self, steps: &[&str], node: &Node, null: bool) -> Map<String, Value> {
        // An obstacle makes the whole schema useless.
        if self.obstacle.is_some() {
            return Map::new();
        }
        let length = self.pointer.len();
        for step in steps {
            text::push_step(&mut self.pointer, step);
        }
        let schema = self.schema(node, null);
        self.pointer.truncate(length);
        schema
    }

    /// Writes a schema that accepts `null` too if `null` is set.
    fn schema(&mut self, node: &Node, null: bool) -> Map<String, Value> {
        self.charge(1);
        let null = node.null || null;
        let mut notes = node.notes.clone();
        let mut forms = self.forms(node, &mut notes);
        let mut schema = match forms.len() {
            0 => self.null_only(&mut notes),
            1 if !node.is_union() => {
                let form = forms.remove(0);
                self.with_null(form, null && !node.is_any())
            }
            _ => {
                if null {
                    match self.rules.null {
                        NullForm::Nullable => {
                            for form in &mut forms {
                                form.insert("nullable".to_owned(), true.into());
                            }
                        }
                        NullForm::TypeList | NullForm::AnyOf => forms.push(null_schema()),
                    }
                }
                Map::from_iter([("anyOf".to_owned(), forms.into_iter().map(Value::Object).collect())])
            }
        };
        self.annotate(node, notes, &mut schema);
        schema
    }

    /// Returns the schemas of the branches of a union, or of the types of a plain schema. `null` is not a part of them.
    fn forms(&mut self, node: &Node, notes: &mut Vec<String>) -> Vec<Map<String, Value>> {
        if node.is_union() {
            let mut forms = Vec::new();
            for (index, branch) in node.branches.iter().enumerate() {
                let mut schema = self.below(&["anyOf", &index.to_string()], branch, false);
                match schema.remove("anyOf") {
                    // A union inside of a union that stands alone.
                    Some(Value::Array(inner)) if schema.is_empty() => {
                        forms.extend(inner.into_iter().filter_map(|form| match form {
                            Value::Object(form) => Some(form),
                            _ => None,
                        }));
                    }
                    Some(inner) => {
                        schema.insert("anyOf".to_owned(), inner);
                        forms.push(schema);
                    }
                    None => forms.push(schema),
                }
            }
            return forms;
        }
        if node.is_any() {
            if self.rules.closed {
                self.obstruct("a schema accepts every value");
            }
            if !self.rules.type_required {
                return vec![Map::new()];
            }
            let forms = any_forms();
            self.charge(forms.len());
            return forms;
        }
        let names: Vec<&'static str> = node.types.names().collect();
        if self.rules.type_lists || names.len() == 1 {
            let mut form = Map::new();
            if names.len() == 1 {
                form.insert("type".to_owned(), names[0].into());
            } else if !names.is_empty() {
                form.insert("type".to_owned(), names.into());
            } else {
                return Vec::new();
            }
            self.keywords(node, node.types, &mut form, notes);
            return vec![form];
        }
        names
            .into_iter()
            .map(|name| {
                let mut form = Map::new();
                form.insert("type".to_owned(), name.into());
                self.keywords(node, Types::named(name), &mut form, notes);
                form
            })
            .collect()
    }

    fn null_only(&mut self, notes: &mut Vec<String>) -> Map<String, Value> {
        if self.rules.null == NullForm::Nullable {
            notes.push("Always null.".to_owned());
            return Map::from_iter([("type".to_owned(), "string".into()), ("nullable".to_owned(), true.into())]);
        }
        null_schema()
    }

    fn with_null(&mut self, mut form: Map<String, Value>, null: bool) -> Map<String, Value> {
        if !null {
            return form;
        }
        match self.rules.null {
            NullForm::Nullable => {
                form.insert("nullable".to_owned(), true.into());
                form
            }
            NullForm::TypeList => {
                if let Some(kind) = form.get_mut("type") {
                    match kind {
                        Value::Array(names) => names.push("null".into()),
                        name => *name = Value::Array(vec![name.take(), "null".into()]),
                    }
                }
                if let Some(Value::Array(values)) = form.get_mut("enum") {
                    values.push(Value::Null);
                }
                form
            }
            NullForm::AnyOf => {
                let forms = vec![form.into(), null_schema().into()];
                Map::from_iter([("anyOf".to_owned(), Value::Array(forms))])
            }
        }
    }

    /// Writes the annotations beside a schema, or into its first branch if a union stands alone.
    fn annotate(&mut self, node: &Node, mut notes: Vec<String>, schema: &mut Map<String, Value>) {
        if let Some(title) = &node.title
            && self.rules.has("title")
        {
            schema.insert("title".to_owned(), title.as_str().into());
        }
        for (keyword, value) in [("default", &node.default), ("examples", &node.examples)] {
            match value {
                Some(value) if self.rules.has(keyword) => {
                    schema.insert(keyword.to_owned(), value.clone());
                }
                Some(Value::Null) | None => {}
                Some(value) => self.describe(&mut notes, keyword, value),
            }
        }
        let Some(text) = self.description(node, notes) else { return };
        let alone = self.rules.union_alone && schema.contains_key("anyOf");
        let target = if alone { schema.get_mut("anyOf").and_then(|forms| forms.get_mut(0)) } else { None };
        match target {
            Some(Value::Object(first)) => {
                let own = first.get("description").and_then(Value::as_str);
                let text = own.map_or_else(|| text.clone(), |own| format!("{text}\n{own}"));
                first.insert("description".to_owned(), text.into());
            }
            _ => {
                schema.insert("description".to_owned(), text.into());
            }
        }
    }

    fn description(&self, node: &Node, notes: Vec<String>) -> Option<String> {
        if notes.is_empty() && node.description.is_some() {
            return node.description.clone();
        }
        let title = node.title.as_ref().filter(|_| !self.rules.has("title"));
        let mut lines: Vec<String> =
            node.description.iter().chain(title.filter(|_| node.description.is_none())).cloned().collect();
        lines.extend(notes);
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

fn null_schema() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), "null".into())])
}

/// Returns the schemas of all types, for providers that need a type.
fn any_forms() -> Vec<Map<String, Value>> {
    let forms =
        ["string", "number", "boolean", "object"].map(|name| Map::from_iter([("type".to_owned(), name.into())]));
    let texts = Map::from_iter([("type".to_owned(), "string".into())]);
    let array = Map::from_iter([("type".to_owned(), "array".into()), ("items".to_owned(), texts.into())]);
    forms.into_iter().chain([array]).collect()
}
