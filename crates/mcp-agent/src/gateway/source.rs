//! The source of the gateway's server: lists from the merged snapshot, and requests for the servers.

use std::sync::Arc;

use mcp_protocol::{CompleteParams, CompletionReference, Principal, RpcError};
use mcp_server_core::source::{
    Source, SourceCall, SourceDefinition, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult,
};
use mcp_transport::BoxFuture;

use super::{
    Core, Names,
    asked::Responses,
    caller::Downstream,
    fault,
    item::Item,
    members::Members,
    merged::Items,
    names::split_uri,
    reach::{self, Reached, invalid_params},
    relay::Outgoing,
};
use crate::{CallError, policy::PolicyInput};

/// Serves the items of all servers.
pub(super) struct Relays {
    core: Arc<Core>,
}

impl Relays {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core) }
    }
}

impl Source for Relays {
    fn features(&self) -> SourceFeatures {
        SourceFeatures::ALL
    }

    fn find(&self, list: SourceList, name: &str, _caller: Option<&Principal>) -> Option<SourceDefinition> {
        Some(self.core.merged().list(list)?.get(name)?.definition.clone())
    }

    fn list(&self, list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        let merged = self.core.merged();
        let page = merged.list(list).and_then(|items: &Items| items.page(call.cursor()));
        let page = page.ok_or_else(|| RpcError::invalid_params("the cursor is not valid: list again"));
        Box::pin(std::future::ready(page))
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            let downstream = Downstream::of(call.context());
            let mut params = Members::read(call.params().get()).map_err(|error| invalid_params(&error))?;
            let (item, reached) = match self.core.reach_tool(call.name(), &params, &downstream).await {
                Ok(reached) => reached,
                Err(error @ CallError::Refused(_)) => return fault::of_tool(&error),
                Err(error) => return Err(reach::unknown(&error, call.name())),
            };
            params.set("name", &*item.original);
            let outgoing = self.core.outgoing(&call, params)?;
            let sent = self.core.send(&call, &downstream, &reached, outgoing).await;
            sent.or_else(|error| fault::of_tool(&error))
        })
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            let version = call.context().version();
            let not_found = || RpcError::resource_not_found(version, call.name());
            let (server, uri) = self.core.find_resource(call.name()).ok_or_else(not_found)?;
            let downstream = Downstream::of(call.context());
            let input = PolicyInput::resource(&*server, &*uri);
            let of_read = |error: CallError| fault::of_read(&error, version, call.name());
            let reached = self.core.reach_server(&server, input, &downstream).await.map_err(of_read)?;
            let mut params = Members::read(call.params().get()).map_err(|error| invalid_params(&error))?;
            params.set("uri", &*uri);
            let outgoing = self.core.outgoing(&call, params)?;
            self.core.send(&call, &downstream, &reached, outgoing).await.map_err(of_read)
        })
    }

    fn get_prompt(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            let item = self.core.find_prompt(call.name())?;
            let downstream = Downstream::of(call.context());
            let mut params = Members::read(call.params().get()).map_err(|error| invalid_params(&error))?;
            let input = PolicyInput::prompt(&*item.server, &*item.original)
                .arguments(params.decode("arguments").unwrap_or_default());
            let reached = self.reach(&item.server, input, &downstream).await?;
            params.set("name", &*item.original);
            let outgoing = self.core.outgoing(&call, params)?;
            let sent = self.core.send(&call, &downstream, &reached, outgoing).await;
            sent.map_err(|error| fault::rpc_error(&error))
        })
    }

    fn complete(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move {
            let mut params = Members::read(call.params().get()).map_err(|error| invalid_params(&error))?;
            let given: CompleteParams =
                serde_json::from_str(call.params().get()).map_err(|error| invalid_params(&error))?;
            let downstream = Downstream::of(call.context());
            let (input, server, reference, member, original) = match given.reference {
                CompletionReference::Prompt { name, .. } => {
                    let item = self.core.find_prompt(&name)?;
                    let input = PolicyInput::prompt(&*item.server, &*item.original);
                    (input, Arc::clone(&item.server), params.get("ref"), "name", item.original.clone())
                }
                CompletionReference::ResourceTemplate { uri } => {
                    let unknown = || RpcError::invalid_params("Unknown resource template");
                    let (server, original) = self.core.find_resource(&uri).ok_or_else(unknown)?;
                    let input = PolicyInput::resource(&*server, &*original);
                    (input, server, params.get("ref"), "uri", original)
                }
                _ => return Err(RpcError::invalid_params("the type of the reference is unknown")),
            };
            let reference = reference.map_or("{}", |reference| reference.get()).to_owned();
            let mut reference = Members::read(&reference).map_err(|error| invalid_params(&error))?;
            reference.set(member, &*original);
            params.set("ref", &reference);
            let reached = self.reach(&server, input, &downstream).await?;
            let outgoing = self.core.outgoing(&call, params)?;
            let sent = self.core.send(&call, &downstream, &reached, outgoing).await;
            match sent.map_err(|error| fault::rpc_error(&error))? {
                SourceOutcome::Complete(result) => Ok(result),
                _ => Err(RpcError::internal("the server requires input for a completion")),
            }
        })
    }
}

impl Relays {
    async fn reach(&self, server: &str, input: PolicyInput, downstream: &Downstream) -> Result<Reached, RpcError> {
        self.core.reach_server(server, input, downstream).await.map_err(|error| fault::rpc_error(&error))
    }
}

impl Core {
    /// Returns the request for the server, without the metadata of the client's protocol.
    fn outgoing(&self, call: &SourceCall, mut params: Members<'_>) -> Result<Outgoing, RpcError> {
        let responses = Responses::take(&mut params);
        params.remove("_meta");
        let meta = self.hop.forward(call.context().meta())?;
        Ok(Outgoing { params: params.write(), responses, meta })
    }

    fn find_prompt(&self, name: &str) -> Result<Arc<Item>, RpcError> {
        let unknown = || RpcError::invalid_params(format!("Unknown prompt: {}", mcp_protocol::Excerpt::new(name)));
        self.merged().prompts.get(name).cloned().ok_or_else(unknown)
    }

    /// Returns the server of a resource or a template, and its URI there.
    fn find_resource(&self, uri: &str) -> Option<(Arc<str>, Box<str>)> {
        let merged = self.merged();
        let listed = merged.resources.get(uri).or_else(|| merged.templates.get(uri));
        if let Some(item) = listed {
            return Some((Arc::clone(&item.server), item.original.clone()));
        }
        match self.names {
            Names::Provider => {
                let (server, original) = split_uri(uri)?;
                let slot = self.host.shared().registry.slot(&server)?;
                Some((Arc::clone(&slot.name), original.into()))
            }
            Names::Raw => Some((merged.server_of(uri)?, uri.into())),
        }
    }
}
