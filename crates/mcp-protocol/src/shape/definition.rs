//! Definitions (tools, resources, resource templates, prompts) in the form of a revision.

use serde_json::{Map, Value, json};

use super::Shape;
use crate::{Icon, Prompt, ProtocolVersion, Resource, ResourceTemplate, Tool, ToolAnnotations};

impl Shape for Tool {
    fn shape(&mut self, version: ProtocolVersion) {
        if !version.has_core_tasks() {
            self.execution = None;
        }
        // No revision has room for the schemas `true` and `false` here.
        self.output_schema = self.output_schema.take().filter(Value::is_object);
        // Since output may be of any type nothing else changed.
        if version.has_structured_content_of_any_type() {
            return;
        }
        if !version.has_titles()
            && let Some(title) = self.title.take()
            && version.has_tool_annotations()
        {
            // The annotations are where this revision keeps the title.
            self.annotations.get_or_insert_with(ToolAnnotations::new).title.get_or_insert(title);
        }
        if !version.has_tool_annotations() {
            self.annotations = None;
        }
        if !version.has_icons() {
            self.icons = Vec::new();
        }
        let is_object = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "object");
        if !version.has_structured_content() || !self.output_schema.as_ref().is_some_and(is_object) {
            self.output_schema = None;
        }
        spell_out_properties(&mut self.input_schema);
        if let Some(Value::Object(schema)) = &mut self.output_schema {
            spell_out_properties(schema);
        }
    }
}

/// Until 2025-11-25 the schema of a property is an object: `true` and `false` are spelled out.
fn spell_out_properties(schema: &mut Map<String, Value>) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for property in properties.values_mut() {
        match property {
            Value::Bool(true) => *property = json!({}),
            Value::Bool(false) => *property = json!({ "not": {} }),
            _ => {}
        }
    }
}

/// Drops what people see, where a revision has no room for it.
fn display(title: &mut Option<String>, icons: &mut Vec<Icon>, version: ProtocolVersion) {
    if !version.has_titles() {
        *title = None;
    }
    if !version.has_icons() {
        *icons = Vec::new();
    }
}

impl Shape for Resource {
    fn shape(&mut self, version: ProtocolVersion) {
        display(&mut self.title, &mut self.icons, version);
        self.annotations.shape(version);
    }
}

impl Shape for ResourceTemplate {
    fn shape(&mut self, version: ProtocolVersion) {
        display(&mut self.title, &mut self.icons, version);
        self.annotations.shape(version);
    }
}

impl Shape for Prompt {
    fn shape(&mut self, version: ProtocolVersion) {
        display(&mut self.title, &mut self.icons, version);
        if !version.has_titles() {
            for argument in &mut self.arguments {
                argument.title = None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::check, *};

    #[test]
    fn tools_are_shaped() {
        let full = json!({
            "name": "t", "title": "T", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}, "icons": [{"src": "data:,"}],
            "execution": {"taskSupport": "optional"}, "_meta": {"k": 1}, "later": 1
        });
        let first = json!({"name": "t", "inputSchema": {"type": "object"}, "_meta": {"k": 1}, "later": 1});
        let second = json!({
            "name": "t", "inputSchema": {"type": "object"}, "annotations": {"title": "T", "readOnlyHint": true},
            "_meta": {"k": 1}, "later": 1
        });
        let mut third = full.clone();
        third.as_object_mut().unwrap().retain(|key, _| key != "icons" && key != "execution");
        let mut fifth = full.clone();
        fifth.as_object_mut().unwrap().remove("execution");
        check::<Tool>(&full, [first, second, third, full.clone(), fifth]);
    }

    #[test]
    fn a_title_moves_into_annotations_without_one() {
        let full = json!({"name": "t", "title": "T", "inputSchema": {}, "annotations": {"title": "A"}});
        let first = json!({"name": "t", "inputSchema": {}});
        let second = json!({"name": "t", "inputSchema": {}, "annotations": {"title": "A"}});
        check::<Tool>(&full, [first, second, full.clone(), full.clone(), full.clone()]);
    }

    #[test]
    fn only_the_newest_revision_has_output_schemas_of_other_types() {
        for schema in [json!({"type": "array"}), json!({"oneOf": []}), json!({"type": ["object"]})] {
            let full = json!({"name": "t", "inputSchema": {}, "outputSchema": schema});
            let bare = json!({"name": "t", "inputSchema": {}});
            check::<Tool>(&full, [bare.clone(), bare.clone(), bare.clone(), bare, full.clone()]);
        }
        let bare = json!({"name": "t", "inputSchema": {}});
        let full = json!({"name": "t", "inputSchema": {}, "outputSchema": true});
        check::<Tool>(&full, [bare]);
    }

    #[test]
    fn properties_are_objects_before_the_newest_revision() {
        let schema = json!({"type": "object", "properties": {"a": true, "b": false, "c": {"type": "string"}}});
        let spelled = json!({"type": "object", "properties": {"a": {}, "b": {"not": {}}, "c": {"type": "string"}}});
        let full = json!({"name": "t", "inputSchema": schema, "outputSchema": schema});
        let first = json!({"name": "t", "inputSchema": spelled});
        let third = json!({"name": "t", "inputSchema": spelled, "outputSchema": spelled});
        check::<Tool>(&full, [first.clone(), first, third.clone(), third, full.clone()]);
    }

    #[test]
    fn resources_templates_and_prompts_are_shaped() {
        let full = json!({
            "uri": "a:b", "name": "n", "title": "N", "size": 3, "icons": [{"src": "data:,"}],
            "annotations": {"priority": 1, "lastModified": "2025"}, "_meta": {"k": 1}, "later": 1
        });
        let first = json!({
            "uri": "a:b", "name": "n", "size": 3, "annotations": {"priority": 1}, "_meta": {"k": 1}, "later": 1
        });
        let mut third = full.clone();
        third.as_object_mut().unwrap().remove("icons");
        check::<Resource>(&full, [first.clone(), first, third, full.clone(), full.clone()]);

        let full = json!({"uriTemplate": "a:{b}", "name": "n", "title": "N", "icons": [{"src": "data:,"}]});
        let first = json!({"uriTemplate": "a:{b}", "name": "n"});
        let third = json!({"uriTemplate": "a:{b}", "name": "n", "title": "N"});
        check::<ResourceTemplate>(&full, [first.clone(), first, third, full.clone(), full.clone()]);

        let full = json!({
            "name": "n", "title": "N", "icons": [{"src": "data:,"}],
            "arguments": [{"name": "a", "title": "A", "required": true}]
        });
        let first = json!({"name": "n", "arguments": [{"name": "a", "required": true}]});
        let mut third = full.clone();
        third.as_object_mut().unwrap().remove("icons");
        check::<Prompt>(&full, [first.clone(), first, third, full.clone(), full.clone()]);
    }
}
