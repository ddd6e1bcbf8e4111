//! The methods of a server for transports. They are a trait, so that the documentation of [`Server`] shows its users only
//! the methods that they need.

use std::{future::Future, sync::Arc, time::Duration};

use mcp_protocol::{
    ErrorCode, ProtocolVersion, RpcError,
    jsonrpc::{Notification, Request},
};
use mcp_transport::Transport;

use super::{Accepted, Arrival, Batch, Prepared, Rejected};
use crate::{
    Caller, Peer, ServeError, Server, Session,
    node::Node,
    request::{Refusal, Reply, Scope},
    server::ServerListener,
    session::SessionState,
    shutdown::RunningWork,
    trace::{self, Ending},
};

/// The methods of a [`Server`] for transports.
///
/// ```
/// use mcp_server_core::{
///     Caller, Server,
///     engine::{Accepted, Arrival, Engine as _},
/// };
///
/// let server = Server::builder("hello", "1.0").build();
/// let request = br#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
/// let caller = Caller::remote();
/// let accepted = server.accept(request, Arrival::new(&caller)).unwrap();
/// assert!(matches!(accepted, Accepted::Initialize(_)));
/// ```
pub trait Engine: sealed::Sealed {
    /// Accepts one message: parses it, finds its era, and prepares a request of the stateless era.
    ///
    /// # Errors
    /// [`Rejected`] when the message is invalid, or when its request cannot run.
    fn accept<'a>(&self, bytes: &'a [u8], arrival: Arrival<'a>) -> Result<Accepted<'a>, Rejected>;

    /// Prepares a request. The access rule of the server is checked first, and that of the tool, resource or prompt
    /// after the method and before the parameters.
    ///
    /// # Errors
    /// A [`Refusal`]: the server does not serve the method, the caller lacks scopes, the client lacks a capability, or
    /// the parameters are invalid.
    fn prepare(&self, request: &Request<'_>, scope: Scope) -> Result<Box<Prepared>, Refusal>;

    /// Processes the notifications and responses of a batch, and prepares its requests.
    ///
    /// # Errors
    /// Fails when the array is not a batch, is empty, or has too many messages, or when the caller lacks access to one of its
    /// requests.
    fn batch(
        &self,
        bytes: &[u8],
        session: &Arc<Session>,
        peer: &Peer,
        scope: impl Fn() -> Scope,
    ) -> Result<Batch, Refusal>;

    /// Handles `initialize`: negotiates the revision and creates the session.
    ///
    /// # Errors
    /// [`Refusal::Denied`] when the caller lacks the access that the server requires. `-32602` when the parameters are
    /// invalid, or when the client information exceeds 16 KiB without its `data:` icons. `-32022` when the server supports
    /// no revision of the session era. `-32603` when an extension panics.
    fn initialize(&self, request: &Request<'_>, caller: &Caller, peer: &Peer)
    -> Result<(Arc<Session>, Reply), Refusal>;

    /// Handles `initialize` without a session. The server declares no list changes, no subscriptions, no tasks and no
    /// log records, because they need a session.
    ///
    /// # Errors
    /// See [`Engine::initialize`].
    fn initialize_sessionless(
        &self,
        request: &Request<'_>,
        caller: &Caller,
    ) -> Result<(ProtocolVersion, Reply), Refusal>;

    /// Opens a session that another node of the fleet has stored. The id of the caller is that of the session.
    ///
    /// # Errors
    /// `-32603` when this server does not support the revision of the session, or when an extension panics.
    fn restore_session(&self, state: &SessionState, caller: &Caller, peer: &Peer) -> Result<Arc<Session>, RpcError>;

    /// Checks the access rule of the server, for a message that is not a request. A transport ignores the message of a caller
    /// that lacks access, and opens no stream for the caller. The other methods check the access to requests.
    ///
    /// # Errors
    /// [`Refusal::Denied`] when the caller lacks the access that the server requires.
    fn admit(&self, caller: &Caller) -> Result<(), Refusal>;

    /// Records in the access log that the transport rejects a message. `method` is `None` if the message is not a request.
    /// The other methods record the messages that they reject.
    fn record_rejection(&self, method: Option<&str>, caller: &Caller, code: ErrorCode);

    /// Processes a notification. A cancellation of an unknown request is ignored. All other notifications reach the
    /// application.
    fn notified(&self, session: Option<&Arc<Session>>, peer: &Peer, message: &Notification<'_>);

    /// Whether a notification is the progress of a question that another node of a fleet may have asked. The application of that node
    /// has to receive it.
    fn is_progress_elsewhere(&self, session: &Session, message: &Notification<'_>) -> bool;

    /// Serves a transport like [`Server::serve_as`], with a grace period of its own: how long calls may still run after the
    /// transport has ended or a shutdown began.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_server_core::{Caller, ServeError, Server, engine::Engine as _};
    /// use mcp_transport::Transport;
    ///
    /// async fn serve(server: &Server, transport: impl Transport) -> Result<(), ServeError> {
    ///     server.serve_with_grace_period(transport, Caller::remote(), Duration::from_secs(10)).await
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`Server::serve`].
    fn serve_with_grace_period(
        &self,
        transport: impl Transport,
        caller: Caller,
        grace_period: Duration,
    ) -> impl Future<Output = Result<(), ServeError>> + Send;

    /// Whether the server supports a revision of the session era.
    fn has_legacy_versions(&self) -> bool;

    /// Returns this node of a fleet, if the server has a shared store.
    fn node(&self) -> Option<&Arc<Node>>;

    /// Registers a listener whose calls have a grace period. Running tasks have the longest of these periods.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use mcp_server_core::{Server, engine::Engine as _};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = Server::builder("hello", "1.0").build();
    /// let listener = server.listener(Duration::from_secs(10));
    /// server.shutdown();
    /// listener.work_ended().await;
    /// listener.release().await;
    /// # }
    /// ```
    fn listener(&self, grace_period: Duration) -> ServerListener;

    /// Returns the work of the server that does not need a connection. A listener waits for it before it returns.
    ///
    /// ```
    /// use mcp_server_core::{Server, engine::Engine as _};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// let server = Server::builder("hello", "1.0").build();
    /// let guard = server.work().enter();
    /// server.shutdown();
    /// drop(guard);
    /// server.ended().await;
    /// # }
    /// ```
    fn work(&self) -> &RunningWork;
}

/// Calls the methods of the same name that `Server` has for its own crate.
impl Engine for Server {
    fn accept<'a>(&self, bytes: &'a [u8], arrival: Arrival<'a>) -> Result<Accepted<'a>, Rejected> {
        self.accept(bytes, arrival)
    }

    fn prepare(&self, request: &Request<'_>, scope: Scope) -> Result<Box<Prepared>, Refusal> {
        self.prepare_with(request, scope, None)
    }

    fn batch(
        &self,
        bytes: &[u8],
        session: &Arc<Session>,
        peer: &Peer,
        scope: impl Fn() -> Scope,
    ) -> Result<Batch, Refusal> {
        self.batch(bytes, session, peer, scope)
    }

    fn initialize(
        &self,
        request: &Request<'_>,
        caller: &Caller,
        peer: &Peer,
    ) -> Result<(Arc<Session>, Reply), Refusal> {
        self.initialize(request, caller, peer)
    }

    fn initialize_sessionless(
        &self,
        request: &Request<'_>,
        caller: &Caller,
    ) -> Result<(ProtocolVersion, Reply), Refusal> {
        self.initialize_sessionless(request, caller)
    }

    fn restore_session(&self, state: &SessionState, caller: &Caller, peer: &Peer) -> Result<Arc<Session>, RpcError> {
        self.restore_session(state, caller, peer)
    }

    fn admit(&self, caller: &Caller) -> Result<(), Refusal> {
        self.admit(caller)
    }

    fn record_rejection(&self, method: Option<&str>, caller: &Caller, code: ErrorCode) {
        trace::refused(method, caller.is_local(), caller.authenticated(), Ending::Refused(code));
    }

    fn notified(&self, session: Option<&Arc<Session>>, peer: &Peer, message: &Notification<'_>) {
        self.notified(session, peer, message);
    }

    fn is_progress_elsewhere(&self, session: &Session, message: &Notification<'_>) -> bool {
        self.is_progress_elsewhere(session, message)
    }

    async fn serve_with_grace_period(
        &self,
        transport: impl Transport,
        caller: Caller,
        grace_period: Duration,
    ) -> Result<(), ServeError> {
        self.serving(Box::new(transport), caller, grace_period).await
    }

    fn has_legacy_versions(&self) -> bool {
        self.versions().iter().any(|version| version.has_handshake())
    }

    fn node(&self) -> Option<&Arc<Node>> {
        self.data.node.as_ref()
    }

    fn listener(&self, grace_period: Duration) -> ServerListener {
        self.listener(grace_period)
    }

    fn work(&self) -> &RunningWork {
        &self.data.work
    }
}

mod sealed {
    #[expect(unnameable_types, reason = "other crates do not implement the interface")]
    pub trait Sealed {}
    impl Sealed for crate::Server {}
}
