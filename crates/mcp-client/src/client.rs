//! The client: a handle for one server.

mod arguments;
mod builder;
mod calls;
mod messages;

use std::{fmt, sync::Arc};

use mcp_protocol::{Implementation, ProtocolVersion};
use mcp_transport::Connect;

pub use self::builder::ClientBuilder;
use crate::{
    Error, IntoConnector, Negotiated, State, States,
    call::{ClientCore, ClientHandle, OwnedTasks},
    config::Config,
    connection::{Status, supervisor},
    inbound::{Callbacks, HandlerSet, send_root_changes},
    subscription::keep_for_callbacks,
};

/// A client of one server, which reopens its connection when that is lost.
///
/// Clones are cheap, share the connection, and can be used from any task. Dropping the last clone closes the
/// connection.
///
/// ```
/// # use mcp_client::{Client, Error};
/// # async fn example(target: impl mcp_client::transport::Connect) -> Result<(), Error> {
/// let client = Client::builder("my-app", "1.0").connect(target).await?;
/// for tool in client.list_tools().await? {
///     println!("{}", tool.display_name());
/// }
/// let sum = client.call_tool("add", serde_json::json!({ "a": 1, "b": 2 })).await?;
/// println!("{}", sum.text());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<ClientHandle>,
}

/// The relation between input requests and calls on a connection ([`Client::question_state`]).
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "only hosts of this workspace use it")]
pub struct QuestionState {
    /// Each input request names its call.
    pub names_calls: bool,
    /// The server has sent an input request that names no call.
    pub has_asked: bool,
    /// No running or cancelled call can cause an input request.
    pub is_free: bool,
}

impl Default for QuestionState {
    /// The state of a client without a connection.
    fn default() -> Self {
        Self { names_calls: false, has_asked: false, is_free: true }
    }
}

impl Client {
    /// Returns a builder for a client with this name and version.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(Implementation::new(name, version))
    }

    /// Connects with the default settings: no handlers, and the name of this library.
    ///
    /// # Errors
    /// As for [`ClientBuilder::connect`].
    pub async fn connect<M>(target: impl IntoConnector<M>) -> Result<Self, Error> {
        Self::builder(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).connect(target).await
    }

    async fn open(
        config: Config,
        handlers: HandlerSet,
        callbacks: Callbacks,
        known: Option<Negotiated>,
        connector: Arc<dyn Connect>,
    ) -> Result<Self, Error> {
        let core = ClientCore::new(config, handlers, connector);
        let client = Self { handle: ClientHandle::new(&core) };
        let manager = &core.connections;
        // A server may send notifications as soon as the connection is open, so the callbacks start first.
        let filter = callbacks.filter.clone();
        callbacks.listen(&core.inbound.hub, manager.closing.clone());
        if let Some(roots) = core.inbound.handlers.roots.clone() {
            send_root_changes(manager, roots);
        }
        let connection = supervisor::open_first(manager, known.as_ref()).await?;
        manager.set_status(Status::Ready(Arc::clone(&connection)));
        if !filter.is_empty() {
            tokio::spawn(keep_for_callbacks(Arc::clone(&core), filter));
        }
        let supervising = supervisor::supervise(Arc::clone(manager), connection, manager.attempt_now.subscribe());
        let manager = Arc::clone(manager);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = supervising => {}
                never = manager.show_user_waits() => match never {},
            }
        });
        Ok(client)
    }

    #[cfg(feature = "skills")]
    pub(crate) fn handle(&self) -> &Arc<ClientHandle> {
        &self.handle
    }

    fn core(&self) -> &Arc<ClientCore> {
        &self.handle.core
    }

    /// Returns the result of the negotiation. It can be stored and given to another client ([`ClientBuilder::known`]).
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let stored = serde_json::to_string(&*client.negotiated()).unwrap();
    /// println!("{stored}");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn negotiated(&self) -> Arc<Negotiated> {
        // A program has a client only after the first negotiation.
        self.core().connections.negotiated().unwrap_or_else(|| Arc::new(Negotiated::new(ProtocolVersion::LATEST)))
    }

    /// Returns the negotiated revision.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// println!("{}", client.version());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.negotiated().version
    }

    /// Returns the name and version of the server, for display only; empty if the server did not send them.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// println!("{}", client.server_info().name);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn server_info(&self) -> Implementation {
        self.negotiated().server_info.clone()
    }

    /// Returns the state of the connection.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// println!("{:?}", client.state());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn state(&self) -> State {
        *self.core().connections.states().borrow()
    }

    /// Returns an observer of the state of the connection.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// let mut states = client.states();
    /// while let Some(state) = states.changed().await {
    ///     println!("{state:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn states(&self) -> States {
        States::new(self.core().connections.states())
    }

    /// Returns the number of requests that wait for an answer.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// println!("{} requests", client.pending());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn pending(&self) -> usize {
        self.core().connections.current().map_or(0, |connection| connection.pending.len())
    }

    /// Returns the relation between input requests and calls on the current connection, for the pool of a host.
    #[doc(hidden)]
    #[must_use]
    pub fn question_state(&self) -> QuestionState {
        let Some(connection) = self.core().connections.current() else { return QuestionState::default() };
        let names_calls = self.version().is_stateless() || connection.sender.has_request_streams();
        let (has_asked, is_free) = connection.pending.unnamed_questions();
        QuestionState { names_calls, has_asked, is_free }
    }

    /// Returns the number of the open connection. No other connection of this program has the same number.
    #[doc(hidden)]
    #[must_use]
    pub fn connection_number(&self) -> Option<u64> {
        self.core().connections.open_connection().map(|connection| connection.number)
    }

    /// Waits until an input request has failed, because several calls can have caused it. Cancel safe.
    #[doc(hidden)]
    pub async fn question_failed(&self) {
        let mut failed = self.core().connections.question_failed.subscribe();
        // The sender is a part of the client.
        let _ = failed.wait_for(|has_failed| *has_failed).await;
    }

    /// Closes the connection and opens another one. Running calls fail as if the connection was lost, later ones wait.
    ///
    /// If the client waits before its next attempt, it makes the attempt at once, also if the server requested the wait.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// client.reconnect();
    /// client.ping().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn reconnect(&self) {
        let connections = &self.core().connections;
        let current = connections.current();
        // The supervisor must know about the request when the connection ends. It also ends the wait after a loss.
        connections.attempt_now.send_replace(());
        if let Some(connection) = current {
            connection.end(None);
        }
    }

    /// Closes the connection for all clones, and waits until it is closed. Running calls fail with
    /// [`Error::is_closed`].
    ///
    /// The client first cancels the tasks that its calls wait for, and then the calls. If a tool call can still become a
    /// task, the client waits for its answer, and cancels that task too. Each of the two steps, and closing the
    /// transport, takes at most [`Limits::close`](crate::Limits::close). A child process has its own time if that is
    /// longer ([`ChildProcess::end_within`](crate::ChildProcess::end_within)). It has ended when this method
    /// returns.
    ///
    /// ```no_run
    /// # async fn example(client: mcp_client::Client) -> Result<(), mcp_client::Error> {
    /// client.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self) {
        let mut states = self.states();
        OwnedTasks::close(self.core()).await;
        // The supervisor and the reading task bound these waits.
        let _ = states.wait_for(|state| *state == State::Closed).await;
        self.core().connections.connections.closed().await;
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("peer", &self.core().connections.connector.describe())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
