//! The capabilities that a server declares, computed from its registries.

use mcp_protocol::{
    JsonObject, PromptsCapability, ProtocolVersion, ResourcesCapability, RpcError, ServerCapabilities, TasksCapability,
    ToolsCapability,
};

use crate::{Server, source::SourceFeatures};

impl Server {
    /// Returns the capabilities of the server in a revision. `tasks.list` is only declared when callers can be
    /// distinguished.
    ///
    /// # Errors
    /// `-32603` when an extension panics.
    pub(crate) fn capabilities(
        &self,
        version: ProtocolVersion,
        callers_differ: bool,
    ) -> Result<ServerCapabilities, RpcError> {
        let mut capabilities = ServerCapabilities::default();
        capabilities.logging = Some(JsonObject::default());
        if self.has_tools() {
            let mut tools = ToolsCapability::default();
            tools.list_changed = Some(true);
            capabilities.tools = Some(tools);
        }
        if self.has_resources() {
            let mut resources = ResourcesCapability::default();
            resources.list_changed = Some(true);
            resources.subscribe = Some(true);
            capabilities.resources = Some(resources);
        }
        if self.has_prompts() {
            let mut prompts = PromptsCapability::default();
            prompts.list_changed = Some(true);
            capabilities.prompts = Some(prompts);
        }
        if self.has_completions() && version.has_completions_capability() {
            capabilities.completions = Some(JsonObject::default());
        }
        if self.has_tasks() && version.has_core_tasks() {
            let mut tasks = TasksCapability::new().with_request("tools", "call");
            tasks.cancel = Some(JsonObject::default());
            tasks.list = callers_differ.then(JsonObject::default);
            capabilities.tasks = Some(tasks);
        }
        if self.has_tasks() && version.has_extensions() {
            capabilities = capabilities.with_extension(mcp_protocol::tasks::ext::IDENTIFIER, JsonObject::default());
        }
        self.data.extensions.declare(version, capabilities, self.data.config.shows_faults)
    }

    pub(crate) fn has_tools(&self) -> bool {
        self.data.config.dynamic_tools || self.data.tools.load().is_in_use() || self.offers(|source| source.tools)
    }

    pub(crate) fn has_resources(&self) -> bool {
        self.data.config.dynamic_resources
            || self.data.resources.load().is_in_use()
            || self.data.templates.load().is_in_use()
            || self.offers(|source| source.resources)
    }

    pub(crate) fn has_prompts(&self) -> bool {
        self.data.config.dynamic_prompts || self.data.prompts.load().is_in_use() || self.offers(|source| source.prompts)
    }

    pub(crate) fn has_completions(&self) -> bool {
        self.data.prompts.load().has_more()
            || self.data.templates.load().has_more()
            || self.offers(|source| source.completions)
    }

    /// Whether the source of the server has a feature.
    fn offers(&self, feature: fn(&SourceFeatures) -> bool) -> bool {
        self.source().is_some_and(|installed| feature(&installed.features))
    }

    pub(crate) fn has_tasks(&self) -> bool {
        self.data.config.standalone_tasks || self.data.tools.load().has_more() || self.offers(|source| source.tasks)
    }
}
