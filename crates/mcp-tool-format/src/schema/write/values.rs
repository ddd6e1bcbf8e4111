//! Values, and the keywords with a number, a text or a flag.

use serde_json::{Map, Value};

use super::{Node, Scalar, Types, Writer};

impl Writer<'_> {
    /// Writes the keywords of some types.
    pub(super) fn keywords(
        &mut self,
        node: &Node,
        types: Types,
        form: &mut Map<String, Value>,
        notes: &mut Vec<String>,
    ) {
        self.values(node, types, form, notes);
        self.scalars(node, types, form, notes);
        if types.has(Types::OBJECT) && node.values.is_none() {
            self.object(node, form, notes, false);
        }
        if types.has(Types::ARRAY) {
            self.array(node, form, notes);
        }
    }

    fn values(&mut self, node: &Node, types: Types, form: &mut Map<String, Value>, notes: &mut Vec<String>) {
        let Some(values) = &node.values else { return };
        let own: Vec<Value> = values.iter().filter(|value| types.has(Types::of(value))).cloned().collect();
        if self.rules.closed && own.iter().any(|value| value.is_array() || value.is_object()) {
            self.obstruct("`enum` has objects or arrays");
        }
        let usable = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        if !self.rules.text_enums {
            form.insert("enum".to_owned(), own.into());
            return;
        }
        let (texts, others): (Vec<Value>, Vec<Value>) = own.into_iter().partition(usable);
        if !others.is_empty() {
            self.describe(notes, "One of", &Value::Array(texts.iter().chain(&others).cloned().collect()));
        } else if !texts.is_empty() {
            form.insert("enum".to_owned(), texts.into());
        }
    }

    pub(super) fn scalars(
        &mut self,
        node: &Node,
        types: Types,
        form: &mut Map<String, Value>,
        notes: &mut Vec<String>,
    ) {
        for (keyword, value) in node.scalars.iter().filter(|(keyword, _)| types.has(keyword.types())) {
            if self.accepts(*keyword, value) {
                form.insert(keyword.name().to_owned(), value.clone());
            } else {
                self.describe(notes, keyword.name(), value);
            }
        }
    }

    fn accepts(&self, keyword: Scalar, value: &Value) -> bool {
        let text = value.as_str().unwrap_or_default();
        self.rules.has(keyword.name())
            && match keyword.name() {
                "format" => self.rules.formats.accepts(text),
                "pattern" => self.rules.patterns.accepts(text),
                "minItems" => self.rules.max_min_items.is_none_or(|max| value.as_u64().is_some_and(|n| n <= max)),
                _ => true,
            }
    }
}
