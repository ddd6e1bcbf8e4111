//! The decisions about later rounds of calls, and their audit events.

use std::sync::Arc;

use mcp_protocol::{Method as _, RpcError, method};
use mcp_server_core::{InputRound, source::SourceCall};
use tokio::time::Instant;

use super::{
    Core, ItemKind,
    asked::{Place, Round},
    caller::Downstream,
    fault::Fault,
    members::Members,
    views,
};
use crate::{
    CallError, CatalogTool,
    policy::{LaterRound, PolicyInput, Refusal, RefusalKind, Rule},
    registry::Slot,
};

/// The audit event of a later round, before its outcome. `None`: the host has no policies and no audit.
pub(super) struct RoundRecord<'a>(Option<LaterRound<'a>>);

impl RoundRecord<'_> {
    /// Records that the round runs.
    ///
    /// # Errors
    /// If the audit requires the record, and it cannot be stored. The round must not run then.
    pub(super) async fn allow(&mut self) -> Result<(), Fault> {
        let Some(round) = &mut self.0 else { return Ok(()) };
        let unrecorded = |refusal: Refusal| RpcError::invalid_request(refusal.text_of_gateway());
        Ok(round.allow().await.map_err(unrecorded)?)
    }

    /// Records that the round does not continue its call. After [`RoundRecord::allow`], it is an event of its own.
    pub(super) fn refuse(&mut self) {
        if let Some(round) = &mut self.0 {
            round.refuse();
        }
    }
}

impl Core {
    /// Returns the round of a call; `None` for the first one. A round whose state does not open is recorded as refused.
    ///
    /// # Errors
    /// Those of [`Core::round`].
    pub(super) async fn recorded_round(
        self: &Arc<Self>,
        call: &SourceCall,
        params: &Members<'_>,
        downstream: &Downstream,
    ) -> Result<Option<Round>, RpcError> {
        let round = self.round(call, params);
        if round.is_err() {
            // Most rounds continue their calls. Boxing keeps the futures of calls small.
            Box::pin(self.record_unopened(call, downstream)).await;
        }
        round
    }

    /// Records that a round does not continue its call. The state names no server, so the name of the item does.
    async fn record_unopened(self: &Arc<Self>, call: &SourceCall, downstream: &Downstream) {
        let (merged, name) = (self.newest_merged(), call.name());
        let input = match call.method() {
            method::CallTool::NAME => merged.tools.get(name).map(|item| views::input(ItemKind::Tool, item)),
            method::ReadResource::NAME => {
                let found = self.find_resource(call, name).await;
                found.map(|(server, uri, _)| PolicyInput::resource(&*server, &*uri))
            }
            _ => merged.prompts.get(name).map(|item| views::input(ItemKind::Prompt, item)),
        };
        let Some(mut input) = input else { return };
        input.principal = downstream.principal.as_deref().map(str::to_owned);
        self.record_refusal(&input);
    }

    /// Records that a round does not continue its call.
    fn record_refusal(&self, input: &PolicyInput) {
        // The check records a denied call itself.
        if let Ok(mut record) = self.permit_unreached(input) {
            record.refuse();
        }
    }

    /// Checks a round whose server the host may not have any more.
    fn permit_unreached<'a>(&'a self, input: &'a PolicyInput) -> Result<RoundRecord<'a>, Fault> {
        let slot = self.host.shared().registry.slot(&input.server);
        self.permit_round(input, slot.as_ref().map_or(&[], |slot| &slot.options.rules))
    }

    /// Records a round whose server or tool cannot be reached, and returns its fault. A server that is away can continue the call later.
    pub(super) async fn unreached_round(
        &self,
        call: &SourceCall,
        place: &Place,
        downstream: &Downstream,
        fault: Fault,
    ) -> Fault {
        let input = input_of(call, place, downstream);
        if !matches!(fault, Fault::Call(CallError::Unavailable { .. })) {
            self.record_refusal(&input);
            return fault;
        }
        match self.permit_unreached(&input) {
            Ok(mut record) => record.allow().await.err().unwrap_or(fault),
            Err(denied) => denied,
        }
    }

    /// Returns the input of the policies for a later round of a call, which began at this time. A server whose tools are known does not
    /// start.
    ///
    /// # Errors
    /// If the server does not have the tool any more.
    pub(super) async fn input_of_round(
        &self,
        call: &SourceCall,
        place: &Place,
        slot: &Slot,
        downstream: &Downstream,
        began: Instant,
    ) -> Result<PolicyInput, Fault> {
        let mut input = input_of(call, place, downstream);
        let is_denied = || self.host.shared().gate.denies_kind(&input, &slot.options.rules);
        if call.method() == method::CallTool::NAME && !is_denied() {
            let tool = self.tool_of_round(place, slot, began).await?;
            input = input.annotations(tool.tool().annotations.clone());
        }
        Ok(input)
    }

    /// Decides a later round of a call. An approval of the first round stays valid.
    ///
    /// # Errors
    /// If a policy denies the call meanwhile, or requires an approval without an approver.
    pub(super) fn permit_round<'a>(&'a self, input: &'a PolicyInput, rules: &[Rule]) -> Result<RoundRecord<'a>, Fault> {
        let gate = &self.host.shared().gate;
        if !gate.is_active() && rules.is_empty() {
            return Ok(RoundRecord(None));
        }
        let denied = |refusal: Refusal| match refusal.kind() {
            RefusalKind::NoApprover => RpcError::invalid_request(refusal.text_of_gateway()),
            _ => RpcError::invalid_request("a policy denies the request meanwhile"),
        };
        Ok(RoundRecord(Some(gate.check_round(input, rules).map_err(denied)?)))
    }

    /// Returns the tool of a later round. If another node served the first round, the server may not have listed its tools here yet.
    async fn tool_of_round(&self, place: &Place, slot: &Slot, began: Instant) -> Result<Arc<CatalogTool>, Fault> {
        if let Some(found) = self.offered_tool(place) {
            return Ok(found);
        }
        if slot.is_unlisted() {
            Box::pin(self.listed_by(slot, slot.call_timeout(&place.name), began)).await?;
        }
        let gone = || RpcError::invalid_params("the server does not have the tool any more").into();
        self.offered_tool(place).ok_or_else(gone)
    }

    /// Returns a tool that its server offers. With raw names, another server can have its name in the merged lists meanwhile.
    fn offered_tool(&self, place: &Place) -> Option<Arc<CatalogTool>> {
        if !self.newest_merged().serves(&place.server) {
            return None;
        }
        self.host.catalog().usable_tool(&place.server, &place.name).cloned()
    }
}

/// Returns the input of the policies for a later round, without the annotations of its tool.
fn input_of(call: &SourceCall, place: &Place, downstream: &Downstream) -> PolicyInput {
    let (server, name) = (&*place.server, &*place.name);
    let mut input = match call.method() {
        method::CallTool::NAME => PolicyInput::new(server, name),
        method::ReadResource::NAME => PolicyInput::resource(server, name),
        _ => PolicyInput::prompt(server, name),
    };
    input.principal = downstream.principal.as_deref().map(str::to_owned);
    input
}

/// Whether the error of a round is that of an expired state.
pub(super) fn is_expired(error: &RpcError) -> bool {
    let expired = InputRound::state_expired();
    error.code == expired.code && error.data == expired.data
}
