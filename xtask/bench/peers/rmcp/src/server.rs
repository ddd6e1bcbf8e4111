//! The handler of both servers, written by hand: no macros, and no router of tools.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
        ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
    },
    service::RequestContext,
};
use serde_json::{Value, json};

/// A server with the tool `echo`. The tool `big` of the text case is not in its list, so that the server has one tool.
#[derive(Clone)]
pub struct Echo {
    tool: Arc<Tool>,
}

impl Echo {
    pub fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": { "text": { "type": "string", "description": "The text to return." } },
            "required": ["text"],
        });
        let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
        let mut tool = Tool::new("echo", "Say the text again.", Arc::new(schema));
        tool.title = Some("Echo".to_owned());
        tool.annotations = Some(ToolAnnotations::from_raw(None, Some(true), None, None, None));
        Self { tool: Arc::new(tool) }
    }
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        config.server_info = Implementation::new("bench", "1.0.0");
        config
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut arguments = request.arguments.unwrap_or_default();
        let text = match (&*request.name, arguments.remove("text"), arguments.remove("n")) {
            ("echo", Some(Value::String(text)), _) => text,
            ("big", _, Some(Value::Number(count))) => "x".repeat(count.as_u64().unwrap_or_default() as usize),
            _ => return Err(ErrorData::invalid_params("unknown tool or arguments", None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![Tool::clone(&self.tool)]))
    }
}
