//! The policies of a host, before the arguments of a call leave it.

use std::sync::Arc;

use mcp_protocol::JsonObject;

use super::{CallError, Shared};
use crate::{
    catalog::CatalogTool,
    pins::Verdict,
    policy::{Check, PinQuestion, PolicyInput},
    registry::Slot,
};

/// A call that may run.
pub(crate) struct Permitted {
    pub(crate) arguments: JsonObject,
    /// A person approved the call.
    #[cfg_attr(not(feature = "gateway"), expect(dead_code, reason = "a gateway reads it"))]
    pub(crate) is_approved: bool,
}

impl Shared {
    /// Decides the call of a tool, and waits for an approval if it needs one.
    pub(crate) async fn permit(
        &self,
        slot: &Slot,
        tool: &CatalogTool,
        principal: Option<&str>,
        arguments: JsonObject,
    ) -> Result<Permitted, CallError> {
        if !self.checks(slot, tool) {
            return Ok(Permitted { arguments, is_approved: false });
        }
        let (rules, verdict) = (&slot.options.rules[..], tool.verdict());
        let mut input = PolicyInput::new(tool.server(), tool.original_name())
            .annotations(tool.tool().annotations.clone())
            .arguments(arguments);
        input.principal = principal.map(str::to_owned);
        let question = || PinQuestion {
            is_blocked: verdict != Verdict::Ask,
            reason: tool.pin_state().map(ToString::to_string).unwrap_or_default(),
        };
        let pin = (!verdict.is_usable()).then(question);
        let pass = self.gate.check_call(&input, Check { rules, pin }).await?;
        if pass.accepts_definition {
            // The person permitted this call. After a fault, the next call asks again.
            match self.accept(slot, tool).await {
                Ok(None) => {}
                Ok(Some(fault)) => {
                    tracing::warn!(tool = ?tool.display_name(), fault, "the pins of an accepted definition cannot be read again");
                }
                Err(fault) => {
                    tracing::warn!(tool = ?tool.display_name(), fault, "an accepted definition cannot be stored");
                }
            }
        }
        Ok(Permitted { arguments: input.arguments, is_approved: pass.is_approved })
    }

    /// Whether a policy, an audit sink or a pin concerns the calls of a tool.
    pub(crate) fn checks(&self, slot: &Slot, tool: &CatalogTool) -> bool {
        self.gate.is_active() || !slot.options.rules.is_empty() || !tool.verdict().is_usable()
    }

    /// Pins the definition of a tool, which a person accepted. Returns the fault of the new comparison with the pins.
    pub(crate) async fn accept(&self, slot: &Slot, tool: &CatalogTool) -> Result<Option<String>, String> {
        let Some(pins) = &self.registry.pins else { return Ok(None) };
        pins.accept(tool.server(), Arc::clone(tool.source())).await?;
        Ok(slot.review(&self.registry).await)
    }

    /// Decides a call without a tool of the catalog: a read, a prompt, or a question of the application. Returns whether a person
    /// approved it.
    pub(crate) async fn permit_item(&self, slot: &Slot, input: &PolicyInput) -> Result<bool, CallError> {
        let rules = &slot.options.rules[..];
        if self.gate.is_active() || !rules.is_empty() {
            return Ok(self.gate.check_call(input, Check { rules, pin: None }).await?.is_approved);
        }
        Ok(false)
    }
}
