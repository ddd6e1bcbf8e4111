//! The source of the gateway's server: lists from the merged snapshot, and requests for the servers.

use std::{sync::Arc, time::Duration};

use mcp_client::Negotiated;
use mcp_protocol::{
    CompleteParams, CompletionReference, Excerpt, JsonObject, Meta, Method as _, Principal, ProtocolVersion, RpcError,
    method,
};
use mcp_server_core::{
    InputRound,
    source::{
        Source, SourceCall, SourceDefinition, SourceFeatures, SourceList, SourceOutcome, SourcePage, SourceResult,
        SourceSubscription,
    },
};
use mcp_transport::BoxFuture;
use serde::Serialize;
use tokio::time::Instant;

use super::{
    Core, ItemKind, Names,
    asked::{Place, Round, parked_error},
    caller::{Downstream, identity},
    fault::{self, Fault},
    item::Item,
    links::Owner,
    members::Members,
    merged::Items,
    names::{has_scheme, split_uri},
    reach::{Reached, arguments},
    relay::Outgoing,
    rounds::RoundRecord,
    used::StateId,
    views,
};
use crate::{CallError, catalog::ServerTasks, policy::PolicyInput};

/// The time limit of a request. The limits of the request at its server are shorter: a configuration file permits seven days.
pub(super) const LIMIT: Duration = Duration::from_secs(8 * 24 * 3600);

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
        SourceFeatures::ALL.with_tasks()
    }

    fn instructions(&self, caller: Option<&Principal>) -> Option<String> {
        let principal = identity(caller);
        self.core.merged_instructions(principal.as_ref())
    }

    fn time_limit(&self, _call: &SourceCall) -> Option<Duration> {
        Some(LIMIT)
    }

    fn find(&self, list: SourceList, name: &str, caller: Option<&Principal>) -> Option<SourceDefinition> {
        let principal = identity(caller);
        self.core.definition_for(list, name, principal.as_ref())
    }

    fn list(&self, list: SourceList, call: SourceCall) -> BoxFuture<'_, Result<SourcePage, RpcError>> {
        Box::pin(async move {
            let principal = identity(call.context().principal());
            let lists = self.core.lists(&self.core.merged().await, principal.as_ref()).await;
            let page = lists.list(list).and_then(|items: &Items| items.page(call.cursor()));
            page.ok_or_else(|| RpcError::invalid_params("the cursor is not valid: list again"))
        })
    }

    fn call_tool(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            let called = self.core.call_tool(&call).await;
            called.or_else(|fault| fault::of_tool(fault, call.name()))
        })
    }

    fn read_resource(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            let read = self.core.read_resource(&call).await;
            read.map_err(|fault| self.core.error_of_read(&call, fault))
        })
    }

    fn get_prompt(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceOutcome, RpcError>> {
        Box::pin(async move {
            self.core.get_prompt(&call).await.map_err(|fault| match fault {
                Fault::Hidden => unknown_prompt(call.name()),
                fault => fault.into(),
            })
        })
    }

    fn subscribe(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        Box::pin(async move {
            let subscribed = self.core.subscribe(&call).await;
            subscribed.map_err(|fault| self.core.error_of_read(&call, fault))
        })
    }

    fn subscribe_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceSubscription, RpcError>> {
        Box::pin(async move { Ok(self.core.subscribe_task(&call).await?) })
    }

    fn has_turns(&self) -> bool {
        true
    }

    fn get_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move { Ok(self.core.get_task(&call).await?) })
    }

    fn task_result(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move { Ok(self.core.task_result(&call).await?) })
    }

    fn list_tasks(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move { Ok(self.core.list_tasks(&call).await?) })
    }

    fn cancel_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move { Ok(self.core.cancel_task(&call).await?) })
    }

    fn update_task(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move { Ok(self.core.update_task(&call).await?) })
    }

    fn complete(&self, call: SourceCall) -> BoxFuture<'_, Result<SourceResult, RpcError>> {
        Box::pin(async move {
            match self.core.complete(&call).await? {
                SourceOutcome::Complete(result) => Ok(result),
                _ => Err(RpcError::internal("the server requires input for a completion")),
            }
        })
    }
}

impl Core {
    async fn call_tool(self: &Arc<Self>, call: &SourceCall) -> Result<SourceOutcome, Fault> {
        let request = Incoming::read(self, call)?;
        if let Some(round) = self.recorded_round(call, &request.params, &request.downstream).await? {
            return Box::pin(request.resume(round)).await;
        }
        let (item, reached) = self.reach_tool(call, &request.params, &request.downstream).await?;
        request.send("name", &*item.original, &item.original, reached, None).await
    }

    async fn read_resource(self: &Arc<Self>, call: &SourceCall) -> Result<SourceOutcome, Fault> {
        let request = Incoming::read(self, call)?;
        if let Some(round) = self.recorded_round(call, &request.params, &request.downstream).await? {
            return Box::pin(request.resume(round)).await;
        }
        let not_found = || RpcError::resource_not_found(call.context().version(), call.name());
        let (server, uri, is_linked) = self.find_resource(call, call.name()).await.ok_or_else(not_found)?;
        let input = PolicyInput::resource(&*server, &*uri);
        let mut reached = self.reach_server(call, &server, Some(input), &request.downstream).await?;
        reached.is_private |= is_linked;
        request.send("uri", &*uri, &uri, reached, None).await
    }

    async fn get_prompt(self: &Arc<Self>, call: &SourceCall) -> Result<SourceOutcome, Fault> {
        let request = Incoming::read(self, call)?;
        if let Some(round) = self.recorded_round(call, &request.params, &request.downstream).await? {
            return Box::pin(request.resume(round)).await;
        }
        let began = Instant::now();
        let item = self.find_prompt(call.name(), false, &request.downstream, began).await?;
        let arguments = match arguments(&request.params) {
            // The audit has the request.
            Err(_) if self.hides_item(ItemKind::Prompt, &item, &request.downstream)? => JsonObject::new(),
            arguments => arguments?,
        };
        let input = PolicyInput::prompt(&*item.server, &*item.original).arguments(arguments);
        let reached = self.reach_since(began, call, &item.server, Some(input), &request.downstream).await?;
        request.send("name", &*item.original, &item.original, reached, None).await
    }

    async fn complete(self: &Arc<Self>, call: &SourceCall) -> Result<SourceOutcome, Fault> {
        let request = Incoming::read(self, call)?;
        let given: CompleteParams =
            serde_json::from_str(call.params().get()).map_err(|error| invalid_params(&error))?;
        let reference = request.params.get("ref").map_or("{}", |reference| reference.get()).to_owned();
        // The error does not depend on the item, which the policies can hide.
        let mut reference = Members::read(&reference).map_err(|error| invalid_params(&error))?;
        let began = Instant::now();
        let (input, server, member, original, unknown) = match given.reference {
            CompletionReference::Prompt { name, .. } => {
                let item = self.find_prompt(&name, true, &request.downstream, began).await?;
                let input = PolicyInput::prompt(&*item.server, &*item.original);
                (input, Arc::clone(&item.server), "name", item.original.clone(), unknown_prompt(&name))
            }
            CompletionReference::ResourceTemplate { uri } => {
                let unknown = RpcError::invalid_params(format!("Unknown resource template: {}", Excerpt::new(&uri)));
                let found = self.find_resource(call, &uri).await;
                let (server, original, _) = found.ok_or_else(|| unknown.clone())?;
                (PolicyInput::resource(&*server, &*original), server, "uri", original, unknown)
            }
            _ => return Err(RpcError::invalid_params("the type of the reference is unknown").into()),
        };
        reference.set(member, &*original);
        let input = Some(input.completion());
        let reached = match self.reach_since(began, call, &server, input, &request.downstream).await {
            Err(Fault::Hidden) => return Err(unknown.into()),
            reached => reached?,
        };
        match request.send("ref", &reference, &original, reached, None).await {
            // The gateway declares completions, because another server can have them.
            Err(fault) if fault.is_unsupported() => {
                let none = SourceResult::new(r#"{"completion":{"values":[]}}"#, ProtocolVersion::LATEST_LEGACY);
                Ok(SourceOutcome::Complete(none))
            }
            completed => completed,
        }
    }

    /// Returns a prompt. Starts the server that the name names if the server has not listed its prompts yet.
    async fn find_prompt(
        self: &Arc<Self>,
        name: &str,
        is_completion: bool,
        downstream: &Downstream,
        began: Instant,
    ) -> Result<Arc<Item>, Fault> {
        let find = async || self.merged().await.prompts.get(name).cloned();
        if let Some(found) = find().await {
            return Ok(found);
        }
        match Box::pin(self.listed(ItemKind::Prompt, name, is_completion, downstream, began)).await {
            Err(Fault::Hidden) => return Err(unknown_prompt(name).into()),
            listed => listed?,
        }
        find().await.ok_or_else(|| unknown_prompt(name).into())
    }

    /// Whether the policies hide an item from the client of a request.
    fn hides_item(&self, kind: ItemKind, item: &Item, downstream: &Downstream) -> Result<bool, CallError> {
        let slot = self.slot(&item.server)?;
        Ok(self.hides(&slot, || views::input(kind, item), downstream.principal.as_ref()))
    }

    /// Returns the definition of an item that the policies do not hide from a caller; `None` while a large catalog with another
    /// definition of the tool is merged. The call waits for the merge, and compares its headers with the current definition.
    fn definition_for(&self, list: SourceList, name: &str, principal: Option<&Arc<str>>) -> Option<SourceDefinition> {
        let merged = self.newest_merged();
        let item = merged.list(list)?.get(name)?;
        if let Some(tool) = &item.tool {
            let catalog = self.host.catalog();
            catalog.find_tool(tool.display_name()).filter(|now| now.has_definition_of(tool))?;
        }
        let slot = self.host.shared().registry.slot(&item.server)?;
        let kind = if list == SourceList::Tools { ItemKind::Tool } else { ItemKind::Prompt };
        (!self.hides(&slot, || views::input(kind, item), principal)).then(|| item.definition.clone())
    }

    /// Whether a repetition of a request can repeat its effect. The hints of a tool allow a repetition.
    fn has_effect(&self, call: &SourceCall, server: &str) -> bool {
        if call.method() != method::CallTool::NAME {
            return false;
        }
        let merged = self.newest_merged();
        let tool = merged.tools.get(call.name()).filter(|item| *item.server == *server);
        let hints = tool.and_then(|item| item.tool.as_ref()?.tool().annotations.as_ref());
        !hints.is_some_and(|hints| hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true))
    }

    /// Returns the error of a read or a subscription for the client.
    fn error_of_read(&self, call: &SourceCall, fault: Fault) -> RpcError {
        let uri = call.name();
        let split = if self.names == Names::Provider { split_uri(uri) } else { None };
        let original = split.map_or_else(|| uri.into(), |(_, original)| original);
        fault::of_read(fault, call.context().version(), uri, &original)
    }

    /// Returns the server of a resource or a template for the client of a call, and its URI there. The third value is true if a link
    /// that the client received names the server. Other clients do not know this server then.
    pub(super) async fn find_resource(
        self: &Arc<Self>,
        call: &SourceCall,
        uri: &str,
    ) -> Option<(Arc<str>, Box<str>, bool)> {
        let merged = self.merged().await;
        let listed = merged.resources.get(uri).or_else(|| merged.templates.get(uri));
        if let Some(item) = listed {
            return Some((Arc::clone(&item.server), item.original.clone(), false));
        }
        match self.names {
            Names::Provider => {
                let (server, original) = split_uri(uri)?;
                let slot = self.host.shared().registry.slot(&server).filter(|slot| merged.serves(&slot.name))?;
                // A policy compares texts, so another spelling of a denied URI must not reach the server.
                let is_own = self.names.uri(&slot.name, &original) == uri;
                let is_canonical = is_own && (has_scheme(&original) || merged.has_template_for(&slot.name, &original));
                is_canonical.then(|| (Arc::clone(&slot.name), original.into(), false))
            }
            Names::Raw => {
                if let Some(server) = merged.server_by_template(uri) {
                    return Some((server, uri.into(), false));
                }
                match self.links.origin_of(&Owner::of(call), uri) {
                    // A link must not send its URI to another server.
                    Some(origin) => self.is_served(&merged, &origin).then(|| (origin.server, uri.into(), true)),
                    None => Some((merged.only_server()?, uri.into(), false)),
                }
            }
        }
    }
}

fn unknown_prompt(name: &str) -> RpcError {
    RpcError::invalid_params(format!("Unknown prompt: {}", Excerpt::new(name)))
}

/// Returns the error of parameters that are not a JSON object, or have a member twice.
fn invalid_params(error: &serde_json::Error) -> RpcError {
    RpcError::invalid_params(format!("the parameters cannot be read: {error}"))
}

/// A request of a client.
struct Incoming<'a> {
    core: &'a Arc<Core>,
    call: &'a SourceCall,
    params: Members<'a>,
    downstream: Downstream,
    meta: Meta,
}

impl<'a> Incoming<'a> {
    fn read(core: &'a Arc<Core>, call: &'a SourceCall) -> Result<Self, RpcError> {
        let params = Members::read(call.params().get()).map_err(|error| invalid_params(&error))?;
        let meta = core.hop.forward(params.get("_meta"))?;
        Ok(Self { core, call, params, downstream: Downstream::of(call), meta })
    }

    /// Continues a call that has asked. The server half repeats the rounds of a session, whose client can only repeat the whole call. The
    /// earlier rounds can have had the effect of the call already.
    async fn resume(self, round: Round) -> Result<SourceOutcome, Fault> {
        let (core, call, server) = (self.core, self.call, Arc::clone(&round.place().server));
        let resumed = self.continue_with(round).await;
        resumed.map_err(|fault| {
            let repeats_all = !call.context().version().has_input_required() && core.has_effect(call, &server);
            if repeats_all { fault.without_repetition() } else { fault }
        })
    }

    /// Sends a later round.
    ///
    /// The policies decided the first round. The seal of its state is valid for the same principal, name and arguments only. A later
    /// round needs no other approval, and fails if a policy denies the call meanwhile.
    async fn continue_with(self, round: Round) -> Result<SourceOutcome, Fault> {
        let began = Instant::now();
        let place = round.place();
        let core = self.core;
        let found = match core.slot(&place.server) {
            Ok(slot) => {
                let input = core.input_of_round(self.call, place, &slot, &self.downstream, began).await;
                input.map(|input| (slot, input))
            }
            Err(gone) => Err(gone.into()),
        };
        let (slot, input) = match found {
            Ok(found) => found,
            Err(fault) => return Err(core.unreached_round(self.call, place, &self.downstream, fault).await),
        };
        let mut record = core.permit_round(&input, &slot.options.rules)?;
        match round {
            Round::Parked { place, call, number, responses } => {
                let holder = core.holder(&place.server, &self.downstream);
                if let Err(error) = core.parked.check(call, &holder, number, &responses) {
                    record.refuse();
                    return Err(parked_error(&error).into());
                }
                record.allow().await?;
                core.resume_parked(self.call, &place, (call, &holder), number, responses, &mut record).await
            }
            Round::Elsewhere { place, at, responses } => {
                let holder = core.holder(&place.server, &self.downstream);
                core.resume_elsewhere(self.call, &place, (at, holder), responses, &mut record).await
            }
            Round::Upstream { place, fingerprint, once, responses, state } => {
                self.resume_upstream(began, place, &fingerprint, once, (responses, state), record).await
            }
        }
    }

    /// Sends the responses of the client to the server that asked.
    async fn resume_upstream(
        self,
        began: Instant,
        place: Place,
        fingerprint: &str,
        once: Option<StateId>,
        responses: (JsonObject, Option<String>),
        mut record: RoundRecord<'_>,
    ) -> Result<SourceOutcome, Fault> {
        let principal = self.downstream.principal.as_ref();
        let reached = self.core.reach_round(began, self.call, &place, &self.downstream).await;
        if reached.is_err() {
            // The round continues its call, and its server is away.
            record.allow().await?;
        }
        let mut reached = reached?;
        if *reached.fingerprint != *fingerprint {
            // Another server has the name of the server that asked.
            record.refuse();
            return Err(InputRound::state_expired().into());
        }
        let is_once = once.is_some();
        match once {
            Some(once) => {
                let claim = self.core.claim(self.call, once, principal).await.inspect_err(|_| record.refuse())?;
                if let Err(unrecorded) = record.allow().await {
                    claim.release().await;
                    return Err(unrecorded);
                }
                claim.keep();
                reached.is_approved = true;
            }
            None => record.allow().await?,
        }
        // A link of the client can have named the server.
        reached.is_private |= self.core.names == Names::Raw;
        let key = if self.call.method() == method::ReadResource::NAME { "uri" } else { "name" };
        let sent = self.send(key, &*place.name, &place.name, reached, Some(responses)).await;
        // The state is used, also if the server has not received the round.
        sent.map_err(|fault| if is_once { fault.without_repetition() } else { fault })
    }

    /// Sends the request to its server. `key` is the member of the parameters that names the item, and `value` its value at the
    /// server.
    async fn send(
        self,
        key: &'static str,
        value: &(impl Serialize + ?Sized + Sync),
        name: &str,
        reached: Reached,
        responses: Option<(JsonObject, Option<String>)>,
    ) -> Result<SourceOutcome, Fault> {
        let Self { core, call, mut params, downstream, meta } = self;
        params.set(key, value);
        let negotiated = reached.client.negotiated();
        let passes = call.context().version().has_input_required() && negotiated.version.has_input_required();
        let responses = responses.or_else(|| unasked(&params).filter(|_| passes));
        for member in ["_meta", "inputResponses", "requestState"] {
            params.remove(member);
        }
        let task = ask_for_task(call, &mut params, &negotiated);
        let has_effect = core.has_effect(call, &reached.server);
        let outgoing = Outgoing { name: name.into(), params: params.write(), meta, responses, task, has_effect };
        core.relay(call, downstream, reached, outgoing).await
    }
}

/// Returns the responses of a first round. The server decides about responses to input requests that it has not sent.
fn unasked(params: &Members<'_>) -> Option<(JsonObject, Option<String>)> {
    let responses: JsonObject = params.decode("inputResponses")?;
    (!responses.is_empty()).then_some((responses, None))
}

/// Sets the parameter `task` of a call. Returns whether the call may become a task for the client; `None` if the gateway waits for
/// the result of a task.
fn ask_for_task(call: &SourceCall, params: &mut Members<'_>, server: &Negotiated) -> Option<bool> {
    let requested = params.remove("task");
    if call.method() != method::CallTool::NAME {
        return None;
    }
    let tasks = ServerTasks::of(server);
    if !call.accepts_task() || tasks == ServerTasks::None {
        // A client of 2026-07-28 without the extension receives the error of a server that requires a task. A call of the application
        // itself waits.
        let context = call.context();
        return (context.version().has_extensions() && context.request_id().is_some()).then_some(false);
    }
    if tasks == ServerTasks::Requested {
        match requested {
            Some(task) => params.set("task", &task),
            None => params.set("task", &JsonObject::new()),
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    use mcp_server::{Server, tool};

    use super::*;
    use crate::{
        Gateway, Host,
        policy::{Effect, Policy, Rule},
    };

    #[tokio::test]
    async fn a_definition_is_hidden_from_denied_callers_and_needs_no_merge_of_a_large_catalog() {
        let upstream =
            (0..250).fold(Server::builder("s", "1"), |server, n| server.tool(tool(format!("t{n}"), async || "old")));
        let upstream = upstream.build();
        let guests = Rule::new(Effect::Deny).tool("t1".parse().unwrap()).principal("guest-*".parse().unwrap());
        let host = Host::builder("gateway", "1").server("s", &upstream).policy(Policy::new().rule(guests));
        let host = host.start().await.unwrap();
        let relays = Relays::new(&Gateway::builder(host.clone()).core());
        relays.core.merged_here();
        let (ada, guest) = (Principal::new("ada"), Principal::new("guest-7"));
        let finds = |name: &str, caller| relays.find(SourceList::Tools, name, caller).is_some();
        for (name, caller, is_found) in [
            ("s__t1", None, true),
            ("s__t1", Some(&ada), true),
            ("s__t1", Some(&guest), false),
            ("s__t2", Some(&guest), true),
            ("s__t250", Some(&ada), false),
        ] {
            assert_eq!(finds(name, caller), is_found, "{name} {caller:?}");
        }
        assert!(upstream.tools().remove("t2"));
        upstream.tools().add(tool("t2", async || "new").description("new")).unwrap();
        upstream.tools().add(tool("t250", async || "new")).unwrap();
        let mut changes = host.catalog_changes();
        let has_new = |name: &str, catalog: &crate::Catalog| {
            catalog.tool(&format!("s:{name}")).is_ok_and(|tool| name == "t250" || tool.tool().description.is_some())
        };
        let listed = changes.wait_for(|catalog| has_new("t2", catalog) && has_new("t250", catalog));
        tokio::time::timeout(Duration::from_secs(20), listed).await.unwrap().unwrap();
        // No request waits for the new catalog.
        assert!(finds("s__t1", Some(&ada)) && !finds("s__t250", Some(&ada)));
        // The former definition must not refuse a call.
        assert!(!finds("s__t2", Some(&ada)));
        assert!(!relays.core.merged.read().is_of(&host.catalog()));
        relays.core.merged().await;
        assert!(finds("s__t250", Some(&ada)) && finds("s__t2", Some(&ada)));
    }

    fn size<A, B, F: Future>(_: impl FnOnce(A, B) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_futures_of_requests_are_small() {
        // Each request copies its future and needs memory for it.
        type Call = &'static SourceCall;
        for (size, name) in [
            (size(|core: &'static Arc<Core>, call: Call| core.call_tool(call)), "call_tool"),
            (size(|core: &'static Arc<Core>, call: Call| core.read_resource(call)), "read_resource"),
            (size(|core: &'static Arc<Core>, call: Call| core.get_prompt(call)), "get_prompt"),
        ] {
            assert!(size <= 6 * 1024, "{name} {size}");
        }
    }
}
