//! The lifecycle of a session: `initialize`, `notifications/initialized` and `notifications/cancelled`.

use std::sync::Arc;

use mcp_protocol::{
    CancelledParams, InitializeParams, InitializeResult, NotificationMethod as _, ProtocolVersion, RequestId, RpcError,
    ServerCapabilities,
    jsonrpc::{Notification, Request, decode_params},
    notification,
};

use crate::{
    Caller, Peer, Server, Session,
    request::{Refusal, Reply},
    session::{ClientIdentity, SessionState},
    trace::{self, AccessRecord, Ending, Target},
};

/// The most bytes of client information that a session keeps.
const KEPT_BYTES: usize = 16 << 10;

impl Server {
    pub(crate) fn initialize(
        &self,
        request: &Request<'_>,
        caller: &Caller,
        peer: &Peer,
    ) -> Result<(Arc<Session>, Reply), Refusal> {
        let opened = || self.open_session(request, caller, peer);
        self.in_span(request, caller, opened, |(session, _)| (session.version(), Some(session)))
    }

    /// Runs an `initialize` in its span if the caller has access to the server, and records its end. `identity` returns the
    /// revision and the session that it opened.
    fn in_span<T>(
        &self,
        request: &Request<'_>,
        caller: &Caller,
        run: impl FnOnce() -> Result<T, RpcError>,
        identity: impl FnOnce(&T) -> (ProtocolVersion, Option<&Session>),
    ) -> Result<T, Refusal> {
        #[cfg(feature = "log-layer")]
        drop(crate::log_layer::opened());
        let span = trace::open(request, Some(trace::transport(caller.is_local())));
        // No handler runs, so the log layer has no call to find.
        #[cfg(feature = "log-layer")]
        drop(crate::log_layer::opened());
        let mut access = AccessRecord::start(&request.method, caller.is_local(), caller.authenticated());
        trace::follow(&span, || trace::meta_of(request), self.data.config.bridge.as_ref());
        let opened = span.in_scope(|| self.admit(caller).and_then(|()| run().map_err(Refusal::from)));
        trace::name(&span, &request.method, Target::None);
        let ending = match &opened {
            Ok(opened) => {
                let (version, session) = identity(opened);
                trace::belongs(&span, version, session);
                if let Some(access) = &mut access {
                    access.belongs(version, session);
                }
                Ending::Done
            }
            Err(refusal) => refusal.ending(),
        };
        trace::ended(&span, ending);
        if let Some(access) = access {
            access.ended(&span, ending, false);
        }
        opened
    }

    fn open_session(
        &self,
        request: &Request<'_>,
        caller: &Caller,
        peer: &Peer,
    ) -> Result<(Arc<Session>, Reply), RpcError> {
        let (mut params, version) = self.negotiate(request)?;
        bound_what_is_kept(&mut params, request)?;
        let capabilities = self.capabilities(version, caller.is_one())?;
        let InitializeParams { client_info, capabilities: of_client, .. } = params;
        // Capabilities of other revisions are dropped.
        let identity = self.data.clients.share(ClientIdentity::new(client_info, shaped(of_client, version)));
        let session = Arc::new(Session::new(caller.id(), version, identity, &capabilities, peer));
        self.data.extensions.start(self);
        self.data.publisher.join(&session);
        Ok((session, self.welcome(request, caller, version, capabilities)))
    }

    pub(crate) fn restore_session(
        &self,
        state: &SessionState,
        caller: &Caller,
        peer: &Peer,
    ) -> Result<Arc<Session>, RpcError> {
        let known = state.version().filter(|version| version.has_handshake() && self.versions().contains(version));
        let version =
            known.ok_or_else(|| RpcError::internal("the session has a revision that this node does not serve"))?;
        let capabilities = self.capabilities(version, caller.is_one())?;
        let (client_info, of_client) = state.client();
        let identity = self.data.clients.share(ClientIdentity::new(client_info, of_client));
        let session = Arc::new(Session::new(caller.id(), version, identity, &capabilities, peer));
        drop(session.restore(state));
        self.data.extensions.start(self);
        self.data.publisher.join(&session);
        // A change may have waited at a node that stopped.
        if state.has_subscriptions() {
            session.notify_all();
        }
        Ok(session)
    }

    pub(crate) fn initialize_sessionless(
        &self,
        request: &Request<'_>,
        caller: &Caller,
    ) -> Result<(ProtocolVersion, Reply), Refusal> {
        self.in_span(request, caller, || self.welcome_anonymously(request, caller), |(version, _)| (*version, None))
    }

    fn welcome_anonymously(
        &self,
        request: &Request<'_>,
        caller: &Caller,
    ) -> Result<(ProtocolVersion, Reply), RpcError> {
        let (_, version) = self.negotiate(request)?;
        let mut capabilities = self.capabilities(version, false)?;
        (capabilities.tasks, capabilities.logging) = (None, None);
        if let Some(tools) = &mut capabilities.tools {
            tools.list_changed = None;
        }
        if let Some(resources) = &mut capabilities.resources {
            (resources.list_changed, resources.subscribe) = (None, None);
        }
        if let Some(prompts) = &mut capabilities.prompts {
            prompts.list_changed = None;
        }
        Ok((version, self.welcome(request, caller, version, capabilities)))
    }

    fn negotiate(&self, request: &Request<'_>) -> Result<(InitializeParams, ProtocolVersion), RpcError> {
        let params = InitializeParams::decode(&request.method, request.params)?;
        let mut legacy = self.versions().iter().copied().filter(|version| version.has_handshake());
        let Some(newest) = legacy.next() else {
            return Err(RpcError::unsupported_version(&params.protocol_version, self.versions()));
        };
        let version = ProtocolVersion::parse(&params.protocol_version)
            .filter(|requested| *requested == newest || legacy.any(|version| version == *requested))
            .unwrap_or(newest);
        Ok((params, version))
    }

    fn welcome(
        &self,
        request: &Request<'_>,
        caller: &Caller,
        version: ProtocolVersion,
        capabilities: ServerCapabilities,
    ) -> Reply {
        let mut result = InitializeResult::new(version.as_str(), capabilities, self.info().clone());
        result.instructions = self.instructions(caller.authenticated());
        Reply::result(&self.data.identity, &request.id, version, shaped(result, version), 512)
    }

    pub(crate) fn notified(&self, session: Option<&Arc<Session>>, peer: &Peer, message: &Notification<'_>) {
        match &*message.method {
            notification::Initialized::NAME => {
                if let Some(session) = session {
                    session.mark_initialized();
                }
                self.receive(session, peer, message);
            }
            notification::Cancelled::NAME => {
                if let Some(CancelledParams { request_id: Some(id), reason, .. }) = Self::cancellation(message) {
                    peer.in_flight().cancel(&id, reason.as_deref());
                }
            }
            notification::RootsListChanged::NAME => {
                if let Some(session) = session {
                    session.roots_changed();
                }
                self.receive(session, peer, message);
            }
            notification::Progress::NAME if session.is_some_and(|session| session.progress(message)) => {}
            _ => self.receive(session, peer, message),
        }
    }

    /// Returns the id of the request that a notification cancels.
    pub(crate) fn cancelled_request(message: &Notification<'_>) -> Option<RequestId> {
        if message.method != notification::Cancelled::NAME {
            return None;
        }
        Self::cancellation(message)?.request_id
    }

    fn cancellation(message: &Notification<'_>) -> Option<CancelledParams> {
        let params = decode_params::<CancelledParams>(&message.method, message.params);
        params.inspect_err(|error| tracing::debug!(%error, "a cancellation cannot be read")).ok()
    }

    /// Whether the application receives a notification, and another node may have asked the question that it belongs to.
    pub(crate) fn is_progress_elsewhere(&self, session: &Session, message: &Notification<'_>) -> bool {
        self.data.config.on_notification.is_some() && session.is_progress_elsewhere(message)
    }

    fn receive(&self, session: Option<&Arc<Session>>, peer: &Peer, message: &Notification<'_>) {
        if let Some(hook) = self.data.config.on_notification.clone() {
            peer.receive(message, session, hook, self.limits().read_timeout, self.shutdown_token());
        }
    }
}

/// Bounds the client information that a session keeps, because any caller may open sessions. Inline icons are dropped
/// first.
fn bound_what_is_kept(params: &mut InitializeParams, request: &Request<'_>) -> Result<(), RpcError> {
    if request.params.is_none_or(|params| params.get().len() <= KEPT_BYTES) {
        return Ok(());
    }
    let is_inline = |uri: &str| uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:"));
    params.client_info.icons.retain(|icon| !is_inline(&icon.src));
    let kept = serde_json::to_vec(&(&params.client_info, &params.capabilities));
    if kept.is_ok_and(|kept| kept.len() <= KEPT_BYTES) {
        return Ok(());
    }
    let text = format!("the client data of `initialize` is larger than {KEPT_BYTES} bytes");
    Err(RpcError::invalid_params(text))
}

fn shaped<T: mcp_protocol::Shape>(mut value: T, version: ProtocolVersion) -> T {
    value.shape(version);
    value
}
