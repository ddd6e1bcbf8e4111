//! The listed tools of a server: which arguments HTTP mirrors, which tools are safe to repeat, and their schemas.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use mcp_protocol::{CallToolResult, JsonObject, TaskSupport, Tool};
use mcp_schema::{
    Schema,
    header::{HeaderParam, header_params},
};
use parking_lot::{Mutex, MutexGuard};
use serde::Deserialize;
use serde_json::Value;

use crate::{Error, error::Kind};

/// The largest number of tools, and of the bytes of their names and schemas. Further tools are treated as not listed.
const TOOLS: usize = 10_000;
const BYTES: usize = 16 << 20;

/// The tools that were listed on this connection, by name.
#[derive(Default)]
pub(crate) struct ToolCatalog {
    tools: Mutex<Tools>,
}

#[derive(Default)]
struct Tools {
    known: HashMap<Box<str>, Arc<KnownTool>>,
    bytes: usize,
}

/// The facts about a listed tool.
pub(crate) struct KnownTool {
    /// The arguments that HTTP headers mirror.
    headers: Vec<HeaderParam>,
    /// The tool declares that executing it twice has the same effect as executing it once.
    pub(crate) is_safe: bool,
    /// Whether the tool supports or requires tasks (2025-11-25).
    pub(crate) task_support: Option<TaskSupport>,
    /// The schemas as text, which needs less memory than parsed values.
    input: Box<str>,
    output: Option<Box<str>>,
    compiled_input: OnceLock<Option<Schema>>,
    compiled_output: OnceLock<Option<Schema>>,
}

impl ToolCatalog {
    /// Stores listed tools, and removes the invalid ones. Over HTTP a tool is invalid if its annotations for mirrored
    /// arguments break a rule (2026-07-28, transports, §x-mcp-header).
    pub(crate) fn learn<T>(&self, items: &mut Vec<T>, as_tool: fn(&T) -> Option<&Tool>, is_mirrored: bool) {
        let mut catalog = self.tools();
        items.retain(|item| {
            let Some(tool) = as_tool(item) else { return true };
            catalog.forget(&tool.name);
            let input = Value::from(tool.input_schema.clone());
            let headers = match header_params(&input) {
                Ok(headers) => headers,
                Err(error) if is_mirrored => {
                    tracing::warn!(tool = %tool.name, %error, "an invalid tool was left out of the list");
                    return false;
                }
                Err(_) => Vec::new(),
            };
            catalog.remember(&tool.name, KnownTool::new(tool, &input, headers));
            true
        });
    }

    /// Removes all tools, because another connection can lead to another server.
    pub(crate) fn clear(&self) {
        *self.tools() = Tools::default();
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.tools().known.get(name).cloned()
    }

    fn tools(&self) -> MutexGuard<'_, Tools> {
        self.tools.lock()
    }
}

impl Tools {
    fn forget(&mut self, name: &str) {
        if let Some(known) = self.known.remove(name) {
            self.bytes -= name.len() + known.size();
        }
    }

    fn remember(&mut self, name: &str, known: KnownTool) {
        let size = name.len() + known.size();
        if self.known.len() < TOOLS && self.bytes + size <= BYTES {
            self.bytes += size;
            self.known.insert(name.into(), Arc::new(known));
        }
    }
}

impl KnownTool {
    fn new(tool: &Tool, input: &Value, headers: Vec<HeaderParam>) -> Self {
        let hints = tool.annotations.clone().unwrap_or_default();
        Self {
            headers,
            is_safe: hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true),
            task_support: tool.execution.as_ref().and_then(|execution| execution.task_support),
            input: input.to_string().into(),
            output: tool.output_schema.as_ref().map(|output| output.to_string().into()),
            compiled_input: OnceLock::new(),
            compiled_output: OnceLock::new(),
        }
    }

    /// Returns the bytes of the schemas. The mirrored arguments are a part of them.
    fn size(&self) -> usize {
        self.input.len() + self.output.as_ref().map_or(0, |output| output.len())
    }

    /// Returns the arguments to mirror: header names without their prefix, and values. Absent arguments and `null` are
    /// left out.
    pub(crate) fn mirrored(&self, params: &str) -> Vec<(Box<str>, Box<str>)> {
        if self.headers.is_empty() {
            return Vec::new();
        }
        let arguments = arguments(params);
        let text = |param: &HeaderParam| Some((&*param.name).into()).zip(param.text(param.argument(&arguments)?));
        self.headers.iter().filter_map(text).map(|(name, value): (Box<str>, String)| (name, value.into())).collect()
    }

    /// Validates arguments against the schema of the tool. An invalid schema accepts everything, since the server
    /// validates too.
    pub(crate) fn check_arguments(&self, params: &str) -> Result<(), Error> {
        let Some(schema) = self.compiled_input.get_or_init(|| compile(&self.input)) else { return Ok(()) };
        schema.validate(&arguments(params)).map_err(|errors| Kind::Arguments(errors).into())
    }

    /// Validates structured content against the output schema of the tool. Failed results need no content.
    pub(crate) fn check_result(&self, result: &CallToolResult) -> Result<(), Error> {
        let (Some(output), false) = (&self.output, result.is_error) else { return Ok(()) };
        let Some(schema) = self.compiled_output.get_or_init(|| compile(output)) else { return Ok(()) };
        let Some(content) = &result.structured_content else {
            return Err(Error::invalid("the tool declares structured content, but the result has none"));
        };
        schema.validate(content).map_err(|errors| Kind::Output(errors).into())
    }
}

fn compile(schema: &str) -> Option<Schema> {
    let schema: Value = serde_json::from_str(schema).ok()?;
    Schema::compile(&schema).map_err(|error| tracing::warn!(%error, "the schema of a tool is invalid")).ok()
}

/// Returns the arguments in the parameters of a call.
fn arguments(params: &str) -> Value {
    #[derive(Deserialize)]
    struct Params {
        #[serde(default)]
        arguments: JsonObject,
    }
    serde_json::from_str::<Params>(params).map_or(Value::Null, |params| params.arguments.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(definition: Value) -> Tool {
        serde_json::from_value(definition).unwrap()
    }

    fn as_is(tool: &Tool) -> Option<&Tool> {
        Some(tool)
    }

    fn region(annotation: &Value) -> Tool {
        let region = json!({"type": "string", "x-mcp-header": annotation});
        tool(json!({"name": "t", "inputSchema": {"type": "object", "properties": {"region": region}}}))
    }

    #[test]
    fn tools_with_invalid_annotations_are_removed_if_arguments_are_mirrored() {
        let catalog = ToolCatalog::default();
        for (annotation, is_mirrored, is_kept) in [
            (json!("Region"), true, true),
            (json!(""), true, false),
            (json!("a b"), true, false),
            (json!(""), false, true),
        ] {
            let mut other = tool(json!({"name": "other", "inputSchema": {}}));
            other.name = "other".into();
            let mut tools = vec![region(&annotation), other];
            catalog.learn(&mut tools, as_is, is_mirrored);
            assert_eq!(tools.len(), 1 + usize::from(is_kept), "{annotation}");
            assert_eq!(catalog.find("t").is_some(), is_kept);
        }
    }

    /// The text of the log.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_omitted_tool_is_logged_with_the_reason() {
        let written = Written::default();
        let sink = written.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || sink.clone()).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            ToolCatalog::default().learn(&mut vec![region(&json!("a b"))], as_is, true);
        });
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        assert!(text.contains("WARN") && text.contains("tool=t") && text.contains("a b"), "{text}");
    }

    #[test]
    fn the_catalog_is_bounded_in_bytes() {
        let catalog = ToolCatalog::default();
        let large = |name: &str, bytes: usize| {
            tool(json!({"name": name, "inputSchema": {"type": "object"}, "outputSchema": {"title": "x".repeat(bytes)}}))
        };
        for _ in 0..3 {
            // The same tool takes its own place.
            catalog.learn(&mut vec![large("a", BYTES / 2)], as_is, false);
            catalog.learn(&mut vec![large("b", BYTES / 2)], as_is, false);
        }
        assert!(catalog.find("a").is_some() && catalog.find("b").is_none());
        catalog.learn(&mut vec![large("a", 1)], as_is, false);
        catalog.learn(&mut vec![large("b", BYTES / 2)], as_is, false);
        assert!(catalog.find("a").is_some() && catalog.find("b").is_some());
        catalog.clear();
        assert!(catalog.find("a").is_none() && catalog.tools().bytes == 0);
    }

    #[test]
    fn present_annotated_arguments_are_mirrored() {
        let catalog = ToolCatalog::default();
        catalog.learn(&mut vec![region(&json!("Region"))], as_is, true);
        let known = catalog.find("t").unwrap();
        for (params, expected) in [
            (json!({"name": "t", "arguments": {"region": "eu"}}), Some("eu")),
            (json!({"name": "t", "arguments": {"region": null}}), None),
            (json!({"name": "t", "arguments": {"region": 7}}), None),
            (json!({"name": "t"}), None),
        ] {
            let mirrored = known.mirrored(&params.to_string());
            let found = mirrored.first().map(|(name, value)| (&**name, &**value));
            assert_eq!(found, expected.map(|value| ("Region", value)), "{params}");
        }
    }

    #[test]
    fn results_and_arguments_are_checked_against_their_schemas() {
        let catalog = ToolCatalog::default();
        let sum = json!({"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]});
        catalog.learn(&mut vec![tool(json!({"name": "t", "inputSchema": sum, "outputSchema": sum}))], as_is, false);
        let known = catalog.find("t").unwrap();
        assert!(known.check_arguments(r#"{"arguments":{"sum":1}}"#).is_ok());
        assert!(known.check_arguments(r#"{"arguments":{"sum":"1"}}"#).unwrap_err().is_invalid_arguments());
        assert!(known.check_result(&CallToolResult::structured(json!({"sum": 1}))).is_ok());
        assert!(known.check_result(&CallToolResult::error("no")).is_ok());
        assert!(
            known.check_result(&CallToolResult::structured(json!({"sum": "1"}))).unwrap_err().is_invalid_response()
        );
        assert!(known.check_result(&CallToolResult::text("1")).unwrap_err().is_invalid_response());
    }
}
