//! The connections of a server: one that lists its items, and others for callers that cannot share it.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use mcp_client::{Client, Error, QuestionState, transport::Connect};
use mcp_protocol::{ClientCapabilities, Rounded};
#[cfg(feature = "gateway")]
use mcp_server_core::source::SourceCall;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "oauth")]
use super::TokenFault;
#[cfg(feature = "gateway")]
use super::sessions::Sessions;
use super::{
    ActiveCall, Caller, Registry, ServerState, Slot, Unavailable,
    slot::{Calls, Role},
};
use crate::{catalog::ServerEntries, sharing::Sharing};

/// The connections of a server for callers that cannot share the connection that lists its items.
#[derive(Default)]
pub(super) struct Pool {
    /// The callers that share the connection that lists the items: the first ones that used it.
    owner: Option<ConnectionKey>,
    connections: Vec<(ConnectionKey, Arc<Slot>)>,
}

/// Callers with equal keys share a connection.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionKey {
    principal: Option<Arc<str>>,
    session: Option<Arc<str>>,
    /// The part of the caller on which its token at the server depends.
    authority: Option<Arc<str>>,
    /// The declared capabilities, in canonical form. `None`: those of the host.
    capabilities: Option<Arc<str>>,
}

#[cfg(feature = "gateway")]
impl ConnectionKey {
    /// Whether the callers differ in their capabilities at most.
    fn is_of_same_caller(&self, other: &Self) -> bool {
        (&self.principal, &self.session, &self.authority) == (&other.principal, &other.session, &other.authority)
    }
}

/// An open connection that a request needs. Clients have different connection numbers.
#[cfg(feature = "gateway")]
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wanted {
    /// The connection with this number. Callers with other capabilities can have opened it.
    Only(u64),
    /// The first connection from this number on, which the caller shares.
    From(u64),
}

#[cfg(feature = "gateway")]
impl Wanted {
    fn includes(self, number: u64) -> bool {
        match self {
            Self::Only(wanted) => number == wanted,
            Self::From(first) => number >= first,
        }
    }
}

/// The number of an open connection, and that of the next one.
#[cfg(feature = "gateway")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenNumbers {
    pub(crate) number: u64,
    pub(crate) next: Option<u64>,
}

/// A connection that serves a call. It does not become idle until the value is dropped.
pub(crate) struct Lease {
    server: Arc<Slot>,
    connection: Arc<Slot>,
    active: Option<ActiveCall>,
    /// The server can ask the caller.
    is_askable: bool,
    /// The connection serves no other request.
    is_for_one_request: bool,
}

impl Lease {
    fn new(server: &Arc<Slot>, connection: &Arc<Slot>, active: ActiveCall, caller: &Caller) -> Self {
        let is_askable = caller.can_be_asked();
        if is_askable {
            connection.askable.fetch_add(1, Ordering::AcqRel);
        }
        let is_for_one_request = caller.is_for_one_request && server.options.sharing == Sharing::Session;
        let (server, connection) = (Arc::clone(server), Arc::clone(connection));
        Self { server, connection, active: Some(active), is_askable, is_for_one_request }
    }

    /// Returns the reason for which the server did not run a request, after the error of the request. The server did not accept the token
    /// of the caller, or the connection was closed before its client sent the request. `None` after other errors.
    pub(crate) fn cause(&self, error: &Error) -> Option<Unavailable> {
        if let Some(fault) = self.connection.token_fault(error) {
            let (retry_in, token_fault) = (error.retry_after(), Some(fault));
            return Some(Unavailable { retry_in, token_fault, ..self.connection.unavailable() });
        }
        // The host closes a client that could not open its connection again. The request waited for the connection.
        // The loss of a connection is another error, and a peer that is no server has an error of its own.
        let is_closed = error.is_closed() && !error.is_retryable() && !error.is_not_a_server();
        (is_closed && !error.was_sent()).then(|| self.connection.unavailable_after_close())
    }
}

#[cfg(feature = "gateway")]
impl Lease {
    /// Returns the sessions that use the connection.
    pub(crate) fn sessions(&self) -> &Sessions {
        &self.connection.sessions
    }

    /// Forwards the log records of the connection that belong to no call, if only the session of this call uses the connection.
    /// `is_for_one_client`: the host has no other client.
    pub(crate) fn forward_records(&self, call: &SourceCall, is_for_one_client: bool) {
        if is_for_one_client || matches!(self.connection.role, Role::Calls(Calls { is_of_session: true, .. })) {
            self.connection.records.forward_to(call);
        }
    }

    /// Whether the connection has a process of its own.
    pub(crate) fn has_process(&self) -> bool {
        self.connection.connector.starts_process()
    }

    /// Defers the idle stop of the connection: a task of the server can run for this time.
    pub(crate) fn keep_for(&self, time: Duration) {
        self.connection.activity.keep_for(time);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.is_askable {
            self.connection.askable.fetch_sub(1, Ordering::AcqRel);
            if self.connection.questions().has_asked {
                self.server.asks.store(true, Ordering::Release);
            }
        }
        self.active = None;
        if self.is_for_one_request {
            self.connection.stop.cancel();
        }
        // The connection can make room for the connection of another caller.
        self.server.released.notify_waiters();
    }
}

/// The next step of a caller that needs a connection.
enum Step {
    Leased(Lease),
    /// The caller needs another connection, for which the connector is not resolved yet.
    Open,
    /// A connection ends and makes room for another connection.
    Wait(CancellationToken),
    /// All connections are in use.
    Busy,
    /// A cancelled call of the connection can still cause an input request.
    Uncertain,
}

/// Whether a connection can serve another call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Free,
    InUse,
    Uncertain,
}

/// The time after which a caller checks an uncertain connection again.
const RECHECK: Duration = Duration::from_millis(100);

impl Slot {
    /// Returns the client of the connection for a caller, within a time limit. Opens the connection if necessary. Cancel safe.
    pub(crate) async fn reach(
        self: &Arc<Self>,
        registry: &Arc<Registry>,
        caller: &Caller,
        limit: Duration,
    ) -> Result<(Lease, Client), Unavailable> {
        let began = Instant::now();
        self.admit(caller, limit).await?;
        let key = self.key(registry, caller);
        let lease = match self.find_connection(registry, caller, &key, &mut None)? {
            Step::Leased(lease) => lease,
            // Most calls find a connection. Boxing keeps their futures small.
            _ => {
                let left = limit.saturating_sub(began.elapsed());
                let leased = Box::pin(timeout(left, self.lease(registry, caller, &key))).await;
                leased.unwrap_or_else(|_| Err(self.all_in_use(&key, limit)))?
            }
        };
        let client = lease.connection.client_within(limit.saturating_sub(began.elapsed())).await?;
        Ok((lease, client))
    }

    fn all_in_use(&self, key: &ConnectionKey, limit: Duration) -> Unavailable {
        let mut bounds = format!("at most {}", self.max_connections());
        // Callers without a principal have no limit of their own.
        if key.principal.is_some() {
            bounds.push_str(&format!(", and {} of a principal", self.options.max_connections_of_principal()));
        }
        let reason = format!("its connections were in use for {} ({bounds})", Rounded(limit));
        Unavailable { reason: Some(reason), ..self.unavailable() }
    }

    /// Returns an open connection of a caller, with its number and that of the next one. It opens none. The caller reaches the processes
    /// of all its connections, also if it opened them with other capabilities.
    #[cfg(feature = "gateway")]
    pub(crate) fn reach_open(
        self: &Arc<Self>,
        registry: &Registry,
        caller: &Caller,
        wanted: Wanted,
    ) -> Option<(Lease, Client, OpenNumbers)> {
        let key = self.key(registry, caller);
        let mut pool = self.pool.lock();
        let shares_listing = match &pool.owner {
            Some(owner) => owner.is_of_same_caller(&key),
            None => self.shares_listing(&mut pool.owner, &key),
        };
        let others = pool.connections.iter().filter(|(other, _)| other.is_of_same_caller(&key));
        let others = others.map(|(_, connection)| connection);
        let mut open: Vec<(u64, &Arc<Slot>, Client)> = shares_listing
            .then_some(self)
            .into_iter()
            .chain(others)
            .filter(|connection| !connection.stop.is_cancelled() && !connection.has_ended())
            .filter_map(|connection| {
                let (number, client) = connection.open_client()?;
                wanted.includes(number).then_some((number, connection, client))
            })
            .collect();
        open.sort_by_key(|(number, ..)| *number);
        let mut open = open.into_iter();
        // A connection that ends meanwhile does not hide the next one.
        let (number, lease, client) = open.by_ref().find_map(|(number, connection, client)| {
            let active = connection.begin_call();
            // An idle connection ends under the lock of its calls, so this check is exact.
            let is_open = !connection.has_ended();
            is_open.then(|| (number, Lease::new(self, connection, active, caller), client))
        })?;
        let next = open.next().map(|(next, ..)| next);
        Some((lease, client, OpenNumbers { number, next }))
    }

    /// Whether the connection with this number is open, for each caller.
    #[cfg(feature = "gateway")]
    pub(crate) fn has_open(&self, number: u64) -> bool {
        let has_number = |slot: &Slot| slot.open_client().is_some_and(|(open, _)| open == number);
        has_number(self) || self.pool.lock().connections.iter().any(|(_, connection)| has_number(connection))
    }

    /// Returns the client of the connection, with the number of its open connection.
    #[cfg(feature = "gateway")]
    fn open_client(&self) -> Option<(u64, Client)> {
        let client = self.link.borrow().client.clone()?;
        Some((client.connection_number()?, client))
    }

    /// Returns the connection for a caller. Waits while all connections are in use. Cancel safe.
    async fn lease(
        self: &Arc<Self>,
        registry: &Arc<Registry>,
        caller: &Caller,
        key: &ConnectionKey,
    ) -> Result<Lease, Unavailable> {
        let mut connector = None;
        loop {
            // A call that ends after the search wakes this task.
            let mut released = pin!(self.released.notified());
            released.as_mut().enable();
            match self.find_connection(registry, caller, key, &mut connector)? {
                Step::Leased(lease) => return Ok(lease),
                // The function of the application can block, so it runs without the lock.
                Step::Open => connector = Some(self.connector_for(key)),
                Step::Wait(ended) => ended.cancelled().await,
                Step::Busy => released.await,
                Step::Uncertain => drop(timeout(RECHECK, released).await),
            }
        }
    }

    /// Gets the token of a caller for the server, within a time limit.
    #[cfg(feature = "oauth")]
    async fn admit(&self, caller: &Caller, limit: Duration) -> Result<(), Unavailable> {
        let Some(exchanges) = &self.options.exchanges else { return Ok(()) };
        // Most servers have no token exchange. Boxing keeps the futures of their calls small.
        let admitted = Box::pin(timeout(limit, exchanges.admit(caller.token.as_ref()))).await;
        admitted.unwrap_or(Err((TokenFault::Unavailable, None))).map_err(|(fault, retry_in)| Unavailable {
            token_fault: Some(fault),
            retry_in,
            ..self.unavailable()
        })
    }

    /// Returns the part of a caller on which its token at the server depends.
    #[cfg(feature = "oauth")]
    pub(crate) fn authority(&self, caller: &Caller) -> Option<Arc<str>> {
        self.options.exchanges.as_ref()?;
        caller.token.as_ref().map(|token| Arc::clone(token.authority()))
    }

    #[cfg(not(feature = "oauth"))]
    #[expect(clippy::unused_async, reason = "the feature `oauth` has token exchanges")]
    async fn admit(&self, _: &Caller, _: Duration) -> Result<(), Unavailable> {
        Ok(())
    }

    #[cfg(not(feature = "oauth"))]
    #[expect(clippy::unused_self, reason = "the feature `oauth` has token exchanges")]
    pub(crate) fn authority(&self, _: &Caller) -> Option<Arc<str>> {
        None
    }

    /// Returns the key of the connection of a caller.
    pub(crate) fn key(&self, registry: &Registry, caller: &Caller) -> ConnectionKey {
        let sharing = self.options.sharing;
        let has_own_credentials = self.options.connectors.is_some();
        let principal = caller.principal.clone().filter(|_| sharing != Sharing::All || has_own_credentials);
        let session = caller.session.clone().filter(|_| sharing == Sharing::Session);
        // The handlers of the host must not answer a caller that declares capabilities of its own.
        let of_host = || {
            let declared = || self.capabilities_without_handlers(registry).as_ref().map(canonical);
            self.capabilities_of_host.get_or_init(declared).as_ref()
        };
        let capabilities = caller.capabilities.as_deref().map(|declared| self.canonical(declared));
        let capabilities = capabilities.filter(|declared| of_host() != Some(declared));
        ConnectionKey { principal, session, authority: self.authority(caller), capabilities }
    }

    /// Returns the canonical form of the capabilities of a caller. Most callers declare those of the last one.
    fn canonical(&self, declared: &ClientCapabilities) -> Arc<str> {
        let mut last = self.last_declared.lock();
        if let Some((known, text)) = last.as_ref()
            && known == declared
        {
            return Arc::clone(text);
        }
        let text = canonical(declared);
        *last = Some((declared.clone(), Arc::clone(&text)));
        text
    }

    fn find_connection(
        self: &Arc<Self>,
        registry: &Arc<Registry>,
        caller: &Caller,
        key: &ConnectionKey,
        connector: &mut Option<Arc<dyn Connect>>,
    ) -> Result<Step, Unavailable> {
        let mut pool = self.pool.lock();
        // An approval is for the definition, so it is for all connections.
        if self.stop.is_cancelled() || self.state() == ServerState::NeedsApproval {
            return Err(self.unavailable_after_close());
        }
        pool.connections.retain(|(_, connection)| !connection.ended.is_cancelled());
        let is_alone = caller.can_be_asked() && self.learn_asks(&pool);
        if self.shares_listing(&mut pool.owner, key) && self.fit(is_alone) == Fit::Free {
            return Ok(Step::Leased(Lease::new(self, self, self.begin_call(), caller)));
        }
        let mut unfit = None;
        for (_, connection) in pool.connections.iter().filter(|(other, _)| other == key) {
            let active = connection.begin_call();
            // An idle connection ends under the lock of its calls, so this check is exact.
            if !connection.has_ended() && !connection.stop.is_cancelled() {
                match connection.fit(is_alone) {
                    Fit::Free => return Ok(Step::Leased(Lease::new(self, connection, active, caller))),
                    fit => unfit = unfit.filter(|former| *former == Fit::Uncertain).or(Some(fit)),
                }
            }
        }
        let sharing = self.options.sharing;
        // A session has one connection, with the state of its server.
        if sharing == Sharing::Session
            && let Some(fit) = unfit
        {
            return Ok(if fit == Fit::Uncertain { Step::Uncertain } else { Step::Busy });
        }
        let of_principal = key.principal.as_ref().map(|_| self.options.max_connections_of_principal());
        let is_of_principal = |other: &ConnectionKey| other.principal == key.principal;
        let is_at_bound = of_principal
            .is_some_and(|most| pool.connections.iter().filter(|(other, _)| is_of_principal(other)).count() >= most);
        // One connection lists the items.
        if is_at_bound || pool.connections.len() >= self.max_connections() - 1 {
            let ended = match is_at_bound {
                true => pool.make_room(sharing, is_of_principal),
                false => pool.make_room(sharing, |_| true),
            };
            return match ended {
                Some(ended) => Ok(Step::Wait(ended)),
                // A session keeps its connection after its calls, so a wait would be too long.
                None if sharing == Sharing::Session => {
                    let reason = match of_principal {
                        Some(most) if is_at_bound => format!("all {most} connections of the principal are in use"),
                        _ => format!("all its {} connections are in use", self.max_connections()),
                    };
                    Err(Unavailable { reason: Some(reason), ..self.unavailable() })
                }
                None => Ok(Step::Busy),
            };
        }
        let Some(connector) = connector.take() else { return Ok(Step::Open) };
        let declared = key.capabilities.as_ref().and(caller.capabilities.clone());
        let calls = Calls {
            declared,
            has_token_of_caller: key.authority.is_some(),
            is_of_session: key.session.is_some(),
            is_public: connector.starts_process() && key.principal.is_none() && key.session.is_none(),
        };
        let connection = Self::of_callers(self, connector, Role::Calls(calls));
        connection.run(registry, true);
        let lease = Lease::new(self, &connection, connection.begin_call(), caller);
        pool.connections.push((key.clone(), connection));
        Ok(Step::Leased(lease))
    }

    /// Returns whether the server has sent an input request that names no call, also during a call that has not ended.
    fn learn_asks(&self, pool: &Pool) -> bool {
        if !self.asks.load(Ordering::Acquire) {
            let mut connections = pool.connections.iter().map(|(_, connection)| &**connection);
            if !self.questions().has_asked && !connections.any(|connection| connection.questions().has_asked) {
                return false;
            }
            self.asks.store(true, Ordering::Release);
        }
        true
    }

    /// Returns whether this connection can serve another call. `is_alone`: input requests do not name their calls, so the call
    /// needs a connection without other calls.
    fn fit(&self, is_alone: bool) -> Fit {
        if !is_alone {
            return Fit::Free;
        }
        let questions = self.questions();
        match (questions.names_calls, self.askable.load(Ordering::Acquire), questions.is_free) {
            (true, ..) | (false, 0, true) => Fit::Free,
            (false, 0, false) => Fit::Uncertain,
            (false, ..) => Fit::InUse,
        }
    }

    fn questions(&self) -> QuestionState {
        self.link.borrow().client.as_ref().map(Client::question_state).unwrap_or_default()
    }

    fn max_connections(&self) -> usize {
        self.options.max_connections.max(2)
    }

    /// Returns true if these callers use the connection that lists the items. The first callers without special needs do.
    fn shares_listing(&self, owner: &mut Option<ConnectionKey>, key: &ConnectionKey) -> bool {
        let has_own_credentials =
            key.authority.is_some() || key.principal.is_some() && self.options.connectors.is_some();
        if key.capabilities.is_some() || key.session.is_some() || has_own_credentials {
            return false;
        }
        owner.get_or_insert_with(|| key.clone()) == key
    }

    /// Returns the connector with the credentials of a caller, or that of the server.
    fn connector_for(&self, key: &ConnectionKey) -> Arc<dyn Connect> {
        let own = key
            .authority
            .as_deref()
            .or(key.principal.as_deref())
            .and_then(|principal| self.options.connectors.as_ref()?.of(principal));
        own.unwrap_or_else(|| self.connector.inner())
    }

    /// Whether a caller has a connector with credentials of its own.
    #[cfg(feature = "gateway")]
    pub(crate) fn has_connector_of(&self, caller: &Caller) -> bool {
        let Some(connectors) = &self.options.connectors else { return false };
        let owner = self.authority(caller).or_else(|| caller.principal.clone());
        owner.is_some_and(|owner| connectors.of(&owner).is_some())
    }

    /// Adds the items that open connections for callers have listed after a change. With `replaces`, their definitions replace those
    /// of the connection that lists the items. Otherwise one caller could change the definitions of all callers. Returns the names of the
    /// lists with items that are left out.
    pub(super) fn add_items_of_callers(&self, entries: &mut ServerEntries, replaces: bool) -> BTreeSet<&'static str> {
        // Calls use the lock too, and large lists need time.
        let open: Vec<_> = {
            let pool = self.pool.lock();
            let connections = pool.connections.iter().map(|(_, connection)| connection);
            let open = connections.filter(|connection| connection.link.borrow().client.is_some());
            open.map(|connection| connection.entries()).collect()
        };
        open.iter().flat_map(|added| entries.take_from(added, replaces)).collect()
    }

    /// Ends the connections of a caller, and waits until their processes have ended.
    pub(crate) async fn disconnect(&self, caller: &Caller) {
        let ended: Vec<CancellationToken> = {
            let pool = self.pool.lock();
            let is_of_caller = |key: &ConnectionKey| {
                key.principal == caller.principal && (caller.session.is_none() || key.session == caller.session)
            };
            let connections = pool.connections.iter().filter(|(key, _)| is_of_caller(key));
            connections
                .map(|(_, connection)| {
                    connection.stop.cancel();
                    connection.ended.clone()
                })
                .collect()
        };
        for ended in ended {
            ended.cancelled().await;
        }
    }

    /// Waits until the connections of callers have ended.
    pub(super) async fn connections_ended(&self) {
        let connections = self.pool.lock().connections.clone();
        for (_, connection) in connections {
            connection.ended.cancelled().await;
        }
    }
}

impl Pool {
    /// Ends one of some connections: the one that was not used for the longest time, and one without tasks first. Returns `None` if
    /// all of them are in use.
    fn make_room(&self, sharing: Sharing, is_eligible: impl Fn(&ConnectionKey) -> bool) -> Option<CancellationToken> {
        let eligible = self.connections.iter().filter(|(key, _)| is_eligible(key)).map(|(_, connection)| connection);
        let mut idle: Vec<&Arc<Slot>> = eligible.collect();
        if let Some(connection) = idle.iter().find(|connection| connection.stop.is_cancelled()) {
            return Some(connection.ended.clone());
        }
        // A session keeps the state of its server, so only connections without a server end.
        idle.retain(|connection| sharing != Sharing::Session || connection.link.borrow().client.is_none());
        // A call that ends meanwhile changes the time of its connection, so each time is read once.
        idle.sort_by_cached_key(|connection| connection.activity.last_needed());
        let ended =
            idle.into_iter().find(|connection| connection.activity.stop_without_calls(|| connection.stop.cancel()));
        ended.map(|connection| connection.ended.clone())
    }
}

/// Returns a text that is equal for equal capabilities.
fn canonical(capabilities: &ClientCapabilities) -> Arc<str> {
    let mut value = serde_json::to_value(capabilities).unwrap_or_default();
    value.sort_all_objects();
    value.to_string().into()
}
