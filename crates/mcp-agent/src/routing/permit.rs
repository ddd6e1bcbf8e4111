//! The policies of a host, before the arguments of a call leave it.

use mcp_protocol::JsonObject;

use super::{CallError, Shared};
use crate::{
    catalog::CatalogTool,
    policy::{Check, PolicyInput},
    registry::Slot,
};

impl Shared {
    /// Decides the call of a tool, and waits for an approval if it needs one. Returns the arguments.
    pub(super) async fn permit(
        &self,
        slot: &Slot,
        tool: &CatalogTool,
        principal: Option<&str>,
        arguments: JsonObject,
    ) -> Result<JsonObject, CallError> {
        let rules = &slot.options.rules[..];
        if !self.gate.is_active() && rules.is_empty() {
            return Ok(arguments);
        }
        let mut input = PolicyInput::new(tool.server(), tool.original_name())
            .annotations(tool.tool().annotations.clone())
            .arguments(arguments);
        input.principal = principal.map(str::to_owned);
        self.gate.check_call(&input, Check { rules, pin: None }).await?;
        Ok(input.arguments)
    }

    /// Decides a call without a tool of the catalog: a read, a prompt, or a question of the application.
    pub(crate) async fn permit_item(&self, slot: &Slot, input: &PolicyInput) -> Result<(), CallError> {
        let rules = &slot.options.rules[..];
        if self.gate.is_active() || !rules.is_empty() {
            self.gate.check_call(input, Check { rules, pin: None }).await?;
        }
        Ok(())
    }
}
