//! Objects and arrays.

use serde_json::{Map, Value};

use super::{Extra, Kind, Node, Writer, text};

impl Writer<'_> {
    pub(super) fn object(&mut self, node: &Node, form: &mut Map<String, Value>, notes: &mut Vec<String>, root: bool) {
        let mut properties = Map::new();
        let mut required: Vec<Value> = Vec::new();
        for property in &node.properties {
            let Some(key) = self.keys.rename(&property.key, self.rules) else {
                self.obstruct("two keys have the same name for the provider");
                continue;
            };
            if key != property.key {
                let pointer = text::property(&self.pointer, &property.key);
                self.log.add(Kind::KeyRenamed, &pointer, format!("the key is {key} in the request"));
            }
            let null = self.rules.all_required && !property.required;
            let mut schema = self.below(&["properties", &property.key], &property.node, null);
            if key != property.key && !schema.contains_key("description") && !self.rules.union_alone {
                schema.insert(
                    "description".to_owned(),
                    format!("The parameter {}.", text::excerpt(&property.key, 300)).into(),
                );
            }
            if property.required || self.rules.all_required {
                required.push(key.as_str().into());
            }
            properties.insert(key, schema.into());
        }
        let empty = properties.is_empty();
        if !empty || self.rules.empty_properties {
            form.insert("properties".to_owned(), properties.into());
        }
        if !required.is_empty() {
            form.insert("required".to_owned(), required.into());
        }
        self.extra(node, form, notes, empty && !root);
    }

    fn extra(&mut self, node: &Node, form: &mut Map<String, Value>, notes: &mut Vec<String>, free: bool) {
        const KEYWORD: &str = "additionalProperties";
        if self.rules.closed {
            if matches!(node.extra, Extra::Any | Extra::Schema(_)) || (free && node.extra == Extra::Unstated) {
                self.obstruct("an object accepts further properties");
            }
            form.insert(KEYWORD.to_owned(), false.into());
            return;
        }
        let supported = self.rules.has(KEYWORD);
        match &node.extra {
            Extra::Unstated => {}
            Extra::Closed if supported => {
                form.insert(KEYWORD.to_owned(), false.into());
            }
            // The schema lists the properties. Models add no others.
            Extra::Closed => {}
            Extra::Any if supported => {
                form.insert(KEYWORD.to_owned(), true.into());
            }
            Extra::Any => notes.push("Further properties are accepted.".to_owned()),
            Extra::Schema(schema) => {
                let schema = self.below(&[KEYWORD], schema, false);
                if supported {
                    form.insert(KEYWORD.to_owned(), schema.into());
                } else {
                    self.describe(notes, "Further properties", &schema.into());
                }
            }
        }
    }

    pub(super) fn array(&mut self, node: &Node, form: &mut Map<String, Value>, notes: &mut Vec<String>) {
        let items = if node.prefix.is_empty() {
            node.items.as_ref().map(|items| self.below(&["items"], items, false))
        } else {
            let mut forms: Vec<Value> = Vec::new();
            let mut places = Vec::new();
            for (index, item) in node.prefix.iter().chain(node.items.as_deref()).enumerate() {
                let schema = Value::Object(self.below(&["items"], item, false));
                places.push(text::json(&schema, 120));
                let inner = match schema {
                    Value::Object(mut form) if form.len() == 1 && form.contains_key("anyOf") => form.remove("anyOf"),
                    schema => Some(Value::Array(vec![schema])),
                };
                for form in inner.iter().filter_map(Value::as_array).flatten() {
                    if index > 32 || !forms.contains(form) {
                        forms.push(form.clone());
                    }
                }
            }
            self.describe(notes, "Items by position", &places.join(", ").into());
            Some(match (forms.len(), forms.pop()) {
                (1, Some(Value::Object(only))) => only,
                (_, last) => {
                    forms.extend(last);
                    Map::from_iter([("anyOf".to_owned(), forms.into())])
                }
            })
        };
        match items {
            Some(items) => {
                form.insert("items".to_owned(), items.into());
            }
            None if self.rules.items_required => {
                let items = self.below(&["items"], &Node::any(), false);
                form.insert("items".to_owned(), items.into());
            }
            None => {}
        }
    }
}
