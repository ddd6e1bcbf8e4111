//! A connection to a server that a request may use: after the policies have decided, and while the server is the same.

use std::{fmt, sync::Arc, time::Duration};

use mcp_client::{Client, State};
use mcp_protocol::{JsonObject, Method as _, RpcError, UniqueNames, method};
use mcp_server_core::source::{SourceCall, SubscriptionTurn};
use tokio::time::Instant;

use super::{
    Core, ItemKind,
    asked::Place,
    caller::Downstream,
    fault::{self, Fault},
    item::Item,
    members::Members,
    parked::Holder,
    process::Process,
    views,
};
use crate::{
    CallError, CatalogTool, ServerState,
    catalog::without_server,
    policy::PolicyInput,
    registry::{Asking, ConnectionKey, Lease, OpenNumbers, Slot, Wanted},
};

/// The number of checks of a call whose tool changes meanwhile.
const CHECKS: usize = 4;

/// A connection to a server. It does not become idle until the value is dropped.
pub(super) struct Reached {
    pub(super) client: Client,
    pub(super) server: Arc<str>,
    /// A text that changes with the definition of the server.
    pub(super) fingerprint: Arc<str>,
    /// A person approved the request.
    pub(super) is_approved: bool,
    /// The result of a read is for its caller alone: policies decide about each caller, or a link of the caller names the server.
    pub(super) is_private: bool,
    /// The time that is left for the request.
    pub(super) limit: Option<Duration>,
    lease: Lease,
}

impl Reached {
    /// Passes the state of the caller's session on to a server with sessions, as far as the request needs it.
    pub(super) async fn prepare(&self, caller: Asking) {
        self.lease.sessions().prepare(&self.client, &caller, self.limit).await;
    }

    /// Returns the fault of a request on this connection. `name` is the item or the method of the request.
    pub(super) fn fault(&self, name: impl Into<Box<str>>, error: mcp_client::Error) -> Fault {
        match self.lease.cause(&error) {
            Some(cause) => {
                tracing::warn!(server = &*self.server, %error, "a server did not run a request");
                CallError::unavailable(&self.server, cause).into()
            }
            None => fault::of_request(&self.server, name, error),
        }
    }

    /// Returns the process of a connection that sent a result; `None` if other connections reach the same tasks.
    pub(super) fn process(&self, connection: u64) -> Option<Process> {
        self.lease.has_process().then(|| Process::of(connection))
    }

    /// Keeps the connection for this time, because a task of the server needs it.
    pub(super) fn keep_for(&self, time: Duration) {
        self.lease.keep_for(time);
    }
}

/// Waits for the end of a request of a subscription, and reports the answer of the server to the turn. The time in which the client
/// connects to the server again does not count for the turn.
///
/// # Errors
/// If the server did not answer earlier requests of the stream.
pub(super) async fn in_turn<T>(
    turn: &SubscriptionTurn,
    client: &Client,
    mut request: impl Future<Output = Result<T, Fault>> + Unpin,
) -> Result<T, Fault> {
    turn.begin()?;
    let mut states = client.states();
    loop {
        turn.set_counted(states.current() == State::Ready);
        tokio::select! {
            biased;
            done = &mut request => {
                if done.as_ref().map_or_else(Fault::is_answer, |_| true) {
                    turn.answered();
                }
                return done;
            }
            Some(_) = states.changed() => {}
        }
    }
}

/// Returns the arguments of a call or a prompt, for the policies.
///
/// # Errors
/// `-32602` if the arguments cannot be decoded, or have a name twice. The policies would decide about other arguments than the server
/// receives.
pub(super) fn arguments(params: &Members<'_>) -> Result<JsonObject, RpcError> {
    let Some(arguments) = params.get("arguments").filter(|arguments| arguments.get() != "null") else {
        return Ok(JsonObject::new());
    };
    let unreadable =
        |error: &dyn fmt::Display| RpcError::invalid_params(format!("the arguments cannot be read: {error}"));
    let arguments: UniqueNames = serde_json::from_str(arguments.get()).map_err(|error| unreadable(&error))?;
    JsonObject::from_value(arguments.into_value()).ok_or_else(|| unreadable(&"they are not a JSON object"))
}

impl Core {
    /// Returns the tool with a name, and a connection for its call.
    pub(super) async fn reach_tool(
        self: &Arc<Self>,
        call: &SourceCall,
        params: &Members<'_>,
        downstream: &Downstream,
    ) -> Result<(Arc<Item>, Reached), Fault> {
        let (name, shared) = (call.name(), self.host.shared());
        let mut since = 0;
        // The start of the time limit of the call.
        let mut began = Instant::now();
        for _ in 0..CHECKS {
            let (item, tool) = self.find_tool(name, downstream, began).await?;
            since = tool.since();
            let slot = self.slot(&item.server)?;
            let is_hidden = self.hides(&slot, || views::input(ItemKind::Tool, &item), downstream.principal.as_ref());
            if !is_hidden && !call.has_checked_headers_of(&item.definition) {
                // The server compared the headers of the request with another definition.
                break;
            }
            let mut is_approved = false;
            if shared.checks(&slot, &tool) {
                let arguments = match arguments(params) {
                    // The audit has the call.
                    Err(_) if is_hidden => JsonObject::new(),
                    arguments => arguments?,
                };
                let asked = Instant::now();
                let permit = Box::pin(shared.permit(&slot, &tool, downstream.principal.as_deref(), arguments));
                let permitted = permit.await;
                // The wait for an approval has a limit of its own.
                began += asked.elapsed();
                is_approved = match permitted {
                    Err(CallError::Refused(_)) if is_hidden => return Err(Fault::Hidden),
                    permitted => permitted?.is_approved,
                };
            }
            if self.is_current(&slot) {
                let limit = slot.call_timeout(&item.original);
                let mut reached = self.reach(Some(call), &slot, downstream, limit, began).await?;
                reached.is_approved = is_approved;
                let now = self.merged().await.tools.get(name).and_then(|item| item.tool.clone());
                if now.is_some_and(|now| now.has_definition_of(&tool)) {
                    return Ok((item, reached));
                }
            }
            // The wait for a person, and the start of a server, can change its tools. The policies decide again.
        }
        Err(CallError::Changed { tool: name.to_owned(), generation: since.saturating_sub(1), since }.into())
    }

    /// Returns a tool. Starts the server that the name names if the server has not listed its tools yet.
    ///
    /// # Errors
    /// [`Fault::Hidden`] if the policies deny all tools of this server to the caller.
    async fn find_tool(
        self: &Arc<Self>,
        name: &str,
        downstream: &Downstream,
        began: Instant,
    ) -> Result<(Arc<Item>, Arc<CatalogTool>), Fault> {
        let find = async || {
            let item = Arc::clone(self.merged().await.tools.get(name)?);
            let tool = item.tool.clone()?;
            Some((item, tool))
        };
        if let Some(found) = find().await {
            return Ok(found);
        }
        Box::pin(self.listed(ItemKind::Tool, name, false, downstream, began)).await?;
        let unknown = || self.host.catalog().tool(name).err().map(CallError::Unknown);
        let found = find().await;
        found.ok_or_else(|| unknown().unwrap_or_else(|| self.host.shared().unknown_server(name)).into())
    }

    /// Waits until the server that the name of a tool or a prompt names has listed its items, and starts it, if it has never listed
    /// them. The time limit of the request includes the time since `began`.
    ///
    /// # Errors
    /// [`Fault::Hidden`] if the policies deny all items of this kind to the caller. The server does not start for this caller.
    pub(super) async fn listed(
        &self,
        kind: ItemKind,
        name: &str,
        is_completion: bool,
        downstream: &Downstream,
        began: Instant,
    ) -> Result<(), Fault> {
        let shared = self.host.shared();
        let Some(slot) = shared.registry.unlisted(name) else { return Ok(()) };
        let item = without_server(name, &slot.name).unwrap_or(name);
        let (mut input, limit) = match kind {
            ItemKind::Tool => (PolicyInput::new(&*slot.name, item), slot.call_timeout(item)),
            ItemKind::Prompt => (PolicyInput::prompt(&*slot.name, item), slot.options.call_timeout),
            // The names of resources and templates name no server.
            ItemKind::Resource | ItemKind::ResourceTemplate => return Ok(()),
        };
        input.is_completion = is_completion;
        input.principal = downstream.principal.as_deref().map(str::to_owned);
        // The annotations and the name at the server are not known yet.
        if shared.gate.denies_kind(&input, &slot.options.rules) {
            // The audit has the request.
            self.permit_item(&slot, input, downstream).await?;
        }
        Ok(self.listed_by(&slot, limit, began).await?)
    }

    /// Waits until a server has listed its items, and starts it if it does not run. The limit of the request includes the time since
    /// `began`.
    pub(super) async fn listed_by(
        &self,
        slot: &Slot,
        limit: Option<Duration>,
        began: Instant,
    ) -> Result<(), CallError> {
        let listed = slot.listed_within(self.wait(limit).saturating_sub(began.elapsed())).await;
        listed.map_err(|cause| CallError::unavailable(&slot.name, cause))
    }

    /// Returns a connection to a server for a read, a prompt, a completion, or a request about a task. Without an input, no policy
    /// decides.
    ///
    /// # Errors
    /// [`Fault::Hidden`] if the policies deny the item to the caller.
    pub(super) async fn reach_server(
        &self,
        call: &SourceCall,
        server: &str,
        input: Option<PolicyInput>,
        downstream: &Downstream,
    ) -> Result<Reached, Fault> {
        self.reach_since(Instant::now(), call, server, input, downstream).await
    }

    /// Returns a connection as [`Core::reach_server`] does. The time limit of the request has begun before.
    pub(super) async fn reach_since(
        &self,
        mut began: Instant,
        call: &SourceCall,
        server: &str,
        input: Option<PolicyInput>,
        downstream: &Downstream,
    ) -> Result<Reached, Fault> {
        let slot = self.slot(server)?;
        let mut is_approved = false;
        if let Some(input) = input {
            let asked = Instant::now();
            is_approved = Box::pin(self.permit_item(&slot, input, downstream)).await?;
            // The wait for an approval has a limit of its own.
            began += asked.elapsed();
        }
        let mut reached = self.reach_current(began, call, &slot, downstream).await?;
        reached.is_approved = is_approved;
        Ok(reached)
    }

    /// Returns a connection to a server for which the policies have decided. The time limit of the request has begun before.
    ///
    /// # Errors
    /// If another server has the name meanwhile, among other faults.
    pub(super) async fn reach_current(
        &self,
        began: Instant,
        call: &SourceCall,
        slot: &Arc<Slot>,
        downstream: &Downstream,
    ) -> Result<Reached, CallError> {
        self.check_current(slot)?;
        self.reach(Some(call), slot, downstream, slot.options.call_timeout, began).await
    }

    /// Returns a connection to a server for a later round of a call, with the time limit of the first round. The policies have
    /// decided.
    pub(super) async fn reach_round(
        &self,
        began: Instant,
        call: &SourceCall,
        place: &Place,
        downstream: &Downstream,
    ) -> Result<Reached, CallError> {
        let slot = self.slot(&place.server)?;
        let limit = match call.method() {
            method::CallTool::NAME => slot.call_timeout(&place.name),
            _ => slot.options.call_timeout,
        };
        self.reach(Some(call), &slot, downstream, limit, began).await
    }

    /// Returns a connection that is open for a client, with its number and that of the next one. It opens none, and waits for no server.
    pub(super) fn reach_open(
        &self,
        slot: &Arc<Slot>,
        downstream: &Downstream,
        wanted: Wanted,
        limit: Option<Duration>,
    ) -> Option<(Reached, OpenNumbers)> {
        let registry = &self.host.shared().registry;
        let caller = downstream.caller_at(slot, slot.version()?.is_stateless());
        let (lease, client, numbers) = slot.reach_open(registry, &caller, wanted)?;
        Some((self.reached(slot, lease, client, limit), numbers))
    }

    /// Whether the process of a task runs, also if the caller cannot reach it.
    pub(super) fn has_process(&self, server: &str, process: &Process) -> bool {
        let slot = self.slot(server).ok();
        slot.zip(process.number()).is_some_and(|(slot, number)| slot.has_open(number))
    }

    /// Returns the connection to the process of a task. It opens none.
    pub(super) fn reach_process(&self, server: &str, process: &Process, client: &Downstream) -> Option<Reached> {
        let (slot, number) = (self.slot(server).ok()?, process.number()?);
        let limit = slot.options.call_timeout.or(self.host.shared().registry.settings.call_timeout);
        self.reach_open(&slot, client, Wanted::Only(number), limit).map(|(reached, _)| reached)
    }

    /// Returns a connection to a server for a lost subscription, which ends with the session of its call.
    pub(super) async fn reach_again(&self, server: &str, downstream: &Downstream) -> Result<Reached, Fault> {
        let slot = self.slot(server)?;
        Ok(self.reach(None, &slot, downstream, slot.options.call_timeout, Instant::now()).await?)
    }

    /// Returns the key of the connection of a caller to a server. The wait for its start ends at this time.
    pub(super) async fn connection_key(
        &self,
        slot: &Arc<Slot>,
        downstream: &Downstream,
        end: Instant,
    ) -> Result<ConnectionKey, CallError> {
        let is_stateless = is_stateless(slot, end.saturating_duration_since(Instant::now())).await?;
        Ok(slot.key(&self.host.shared().registry, &downstream.caller_at(slot, is_stateless)))
    }

    /// Returns how long a request waits for a server, if its time limit is that of the entry of the server.
    pub(super) fn wait_for(&self, slot: &Slot) -> Duration {
        self.wait(slot.options.call_timeout)
    }

    /// Returns how long a request with a time limit waits for a server.
    fn wait(&self, limit: Option<Duration>) -> Duration {
        let settings = &self.host.shared().registry.settings;
        let limit = limit.or(settings.call_timeout);
        limit.map_or(settings.call_wait, |limit| limit.min(settings.call_wait))
    }

    /// Returns the client of a request as the holder of its calls at a server.
    pub(super) fn holder(&self, server: &str, downstream: &Downstream) -> Holder {
        let slot = self.host.shared().registry.slot(server);
        let authority = slot.and_then(|slot| slot.authority(&downstream.caller(true)));
        Holder { principal: downstream.principal.clone(), authority }
    }

    /// Returns the fingerprint of the server that has a name now.
    pub(super) fn fingerprint(&self, server: &str) -> Option<Arc<str>> {
        self.host.shared().registry.slot(server).map(|slot| Arc::clone(&slot.fingerprint))
    }

    /// Whether the policies hide a resource of a server from a principal.
    pub(super) fn hides_resource(&self, server: &str, uri: &str, principal: Option<&str>) -> bool {
        let shared = self.host.shared();
        let Some(slot) = shared.registry.slot(server) else { return true };
        let rules = &slot.options.rules[..];
        if !shared.gate.decides() && rules.is_empty() {
            return false;
        }
        let mut input = PolicyInput::resource(server, uri);
        input.principal = principal.map(str::to_owned);
        shared.gate.denies(&input, rules)
    }

    /// Decides a request of a server by the policies.
    ///
    /// # Errors
    /// [`Fault::Hidden`] if the policies deny the item to the caller. [`CallError::Unavailable`] if another server has the name since the
    /// decision.
    pub(super) async fn permit(
        &self,
        slot: &Arc<Slot>,
        input: PolicyInput,
        downstream: &Downstream,
    ) -> Result<(), Fault> {
        self.permit_item(slot, input, downstream).await?;
        Ok(self.check_current(slot)?)
    }

    /// Decides a request by the policies. Returns whether a person approved it.
    async fn permit_item(&self, slot: &Slot, mut input: PolicyInput, downstream: &Downstream) -> Result<bool, Fault> {
        input.principal = downstream.principal.as_deref().map(str::to_owned);
        match self.host.shared().permit_item(slot, &input).await {
            Err(CallError::Refused(_)) if self.hides(slot, || input, downstream.principal.as_ref()) => {
                Err(Fault::Hidden)
            }
            permitted => Ok(permitted?),
        }
    }

    pub(super) fn slot(&self, server: &str) -> Result<Arc<Slot>, CallError> {
        let shared = self.host.shared();
        shared.registry.slot(server).ok_or_else(|| shared.unknown_server(server))
    }

    /// Checks that the host still has a server for which the policies have decided.
    ///
    /// # Errors
    /// If another server has the name. The policies have not decided for it.
    fn check_current(&self, slot: &Arc<Slot>) -> Result<(), CallError> {
        if self.is_current(slot) {
            return Ok(());
        }
        let (server, state) = (slot.name.to_string(), ServerState::Stopped);
        let reason = Some("it was replaced during the request".to_owned());
        Err(CallError::Unavailable { server, state, reason, retry_in: None })
    }

    /// Whether the host still has this server, for which the policies decided.
    fn is_current(&self, slot: &Arc<Slot>) -> bool {
        self.host.shared().registry.slot(&slot.name).is_some_and(|now| Arc::ptr_eq(&now, slot))
    }

    /// Returns a connection to a server. The connections of the session of a call end with the session, also if no connection is
    /// reached. The limit of the request includes the time since `began`.
    async fn reach(
        &self,
        call: Option<&SourceCall>,
        slot: &Arc<Slot>,
        downstream: &Downstream,
        limit: Option<Duration>,
        began: Instant,
    ) -> Result<Reached, CallError> {
        let registry = &self.host.shared().registry;
        let wait = self.wait(limit);
        let limit = limit.or(registry.settings.call_timeout);
        let unavailable = |cause| CallError::unavailable(&slot.name, cause);
        let mut is_stateless = is_stateless(slot, wait.saturating_sub(began.elapsed())).await?;
        let _end = call.map(|call| self.end_with_session(call, downstream, slot));
        let (lease, client) = loop {
            let caller = downstream.caller_at(slot, is_stateless);
            let reached = slot.reach(registry, &caller, wait.saturating_sub(began.elapsed())).await;
            let (lease, client) = reached.map_err(unavailable)?;
            // A server that was started again can have another revision. Only a connection of the caller has its capabilities, and a
            // stateless connection needs none.
            if !is_stateless || client.version().is_stateless() {
                break (lease, client);
            }
            is_stateless = false;
        };
        if let Some(call) = call {
            lease.forward_records(call, self.is_for_one_client);
        }
        let limit = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        Ok(self.reached(slot, lease, client, limit))
    }

    fn reached(&self, slot: &Slot, lease: Lease, client: Client, limit: Option<Duration>) -> Reached {
        let (server, fingerprint) = (Arc::clone(&slot.name), Arc::clone(&slot.fingerprint));
        let is_private = self.host.shared().gate.decides() || !slot.options.rules.is_empty();
        Reached { client, server, fingerprint, is_approved: false, is_private, limit, lease }
    }
}

/// Returns whether a server is one of the stateless revision. Only the first connection is waited for: callers with connections of
/// their own do not need the connection that lists the items.
async fn is_stateless(slot: &Arc<Slot>, wait: Duration) -> Result<bool, CallError> {
    if slot.version().is_none() {
        let listed = Box::pin(slot.listed_within(wait)).await;
        listed.map_err(|cause| CallError::unavailable(&slot.name, cause))?;
    }
    Ok(slot.version().is_some_and(mcp_protocol::ProtocolVersion::is_stateless))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_with_a_repeated_name_are_rejected() {
        for (params, expected) in [
            (r#"{"arguments":{"path":"/etc/shadow","path":"/tmp/ok"}}"#, Err("the member \"path\" occurs twice")),
            (r#"{"arguments":{"a":[{"b":{"c":1,"\u0063":2}}]}}"#, Err("the member \"c\" occurs twice")),
            (r#"{"arguments":[]}"#, Err("they are not a JSON object")),
            (r#"{"arguments":{"n":1e400}}"#, Err("number out of range")),
            (r#"{"arguments":{"a":{"c":1},"b":{"c":1}}}"#, Ok(2)),
            (r#"{"arguments":null}"#, Ok(0)),
            ("{}", Ok(0)),
        ] {
            let read = arguments(&Members::read(params).unwrap());
            match (&read, expected) {
                (Ok(read), Ok(count)) => assert_eq!(read.len(), count, "{params}"),
                (Err(error), Err(part)) => assert!(error.message.contains(part), "{params}: {error}"),
                _ => panic!("{params}: {read:?}"),
            }
        }
    }
}
