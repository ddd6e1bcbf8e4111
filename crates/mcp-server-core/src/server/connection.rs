//! Serves a connection that carries all messages in one stream: stdio, pipes, memory. Both eras may use it.

use std::{fmt, io, sync::Arc, time::Duration};

use mcp_protocol::{
    ErrorChain, RequestId, RpcError,
    jsonrpc::{self, Request},
};
use mcp_transport::{BoxFuture, Frame, Route, Transport, TransportError, ndjson::Ndjson, recv, signal, stdio::Stdio};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
};

use crate::{
    Caller, Peer, Server, Session,
    engine::{Accepted, Arrival, Engine as _, Prepared, Rejected, SessionRequest},
    request::{ConnectionData, Refusal, Reply, Scope, Surroundings},
    shutdown::Cause,
};

/// The time for the client to read queued messages after all calls have ended.
const FLUSH: Duration = Duration::from_secs(1);

/// How long calls may take to send an error after the grace period.
const LAST_ANSWERS: Duration = Duration::from_millis(250);

/// The error of a connection that failed.
///
/// `Debug` writes the error with its sources on one line, because a program whose `main` returns the error prints this
/// form.
///
/// # Example
/// ```
/// use mcp_server_core::{ServeError, Server};
///
/// async fn serve(server: Server) -> Result<(), ServeError> {
///     match server.serve_stdio().await {
///         Err(error) if error.is_io() => Ok(eprintln!("the client has disconnected: {error}")),
///         result => result,
///     }
/// }
/// # let _ = serve;
/// ```
pub struct ServeError(TransportError);

impl ServeError {
    /// Whether an I/O operation failed.
    ///
    /// See the [example](Self#example).
    #[must_use]
    pub fn is_io(&self) -> bool {
        self.0.is_io()
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection failed")
    }
}

impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ErrorChain::new(self), f)
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl From<TransportError> for ServeError {
    fn from(error: TransportError) -> Self {
        Self(error)
    }
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self(error.into())
    }
}

impl Server {
    /// Serves the stdin and stdout of the process until the client closes them, or the process receives a termination
    /// signal (SIGTERM, SIGINT, Ctrl-C).
    ///
    /// The first signal shuts the server down (see [`Server::shutdown`]); a second one stops at once. Handlers must
    /// print to stderr.
    ///
    /// ```no_run
    /// use mcp_server_core::{Server, tool};
    ///
    /// # async fn run() -> Result<(), mcp_server_core::ServeError> {
    /// let server = Server::builder("hello", "1.0").tool(tool("greet", async || "Hello!")).build();
    /// server.serve_stdio().await
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when stdin or stdout is not available.
    pub async fn serve_stdio(&self) -> Result<(), ServeError> {
        self.serving_stdio().await
    }

    /// Boxed in this crate, because a program that polls the type of a future has a copy of its machine code.
    fn serving_stdio(&self) -> BoxFuture<'_, Result<(), ServeError>> {
        Box::pin(async move {
            let listener = self.listener(self.limits().drain);
            let serving = async {
                let served = self.serve_own_stdio().await;
                listener.work_ended().await;
                served
            };
            // Subscriptions end, and calls have the grace period to finish.
            let served = signal::until_terminated(serving, || self.shutdown()).await;
            // A second signal ends the wait for tasks, and not the deletion of the lease.
            listener.release().await;
            served.unwrap_or(Ok(()))
        })
    }

    async fn serve_own_stdio(&self) -> Result<(), ServeError> {
        let (server, transport) = (self.clone(), Stdio::take()?.into_transport()?);
        // A task of the runtime runs the loop on the same threads as the calls. Inside of `block_on`, every message
        // would wake another thread. Dropping the set ends the task.
        let mut serving = JoinSet::new();
        serving.spawn(async move { server.serve(transport).await });
        match serving.join_next().await {
            Some(Ok(served)) => served,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Some(Err(_)) | None => Ok(()),
        }
    }

    /// Serves newline-delimited JSON over any reader and writer, until the reader ends.
    ///
    /// ```
    /// # async fn example(server: mcp_server_core::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let (ours, _theirs) = tokio::io::duplex(64 * 1024);
    /// let (reader, writer) = tokio::io::split(ours);
    /// server.serve_io(reader, writer).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when reading or writing fails.
    pub async fn serve_io(
        &self,
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), ServeError> {
        self.serve(Ndjson::new(reader, writer)).await
    }

    /// Serves a transport of the process's own client, until it ends or [`Server::shutdown`] is called. Running calls
    /// then have the grace period to finish. Dropping the future cancels all calls of the connection.
    ///
    /// ```
    /// # async fn example(server: mcp_server_core::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let (ours, theirs) = mcp_transport::memory::duplex(16);
    /// tokio::spawn(async move { server.serve(ours).await });
    /// # let _ = theirs; // the transport of a client
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails when the transport fails. An invalid message is answered with an error and does not end the connection.
    pub async fn serve(&self, transport: impl Transport) -> Result<(), ServeError> {
        self.serve_as(transport, Caller::local()).await
    }

    /// Serves a transport for any caller, like [`Server::serve`].
    ///
    /// ```
    /// use mcp_server_core::Caller;
    ///
    /// # async fn example(server: mcp_server_core::Server) -> Result<(), Box<dyn std::error::Error>> {
    /// let (ours, theirs) = mcp_transport::memory::duplex(16);
    /// tokio::spawn(async move { server.serve_as(ours, Caller::remote()).await });
    /// # let _ = theirs;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Server::serve`].
    pub async fn serve_as(&self, transport: impl Transport, caller: Caller) -> Result<(), ServeError> {
        self.serving(Box::new(transport), caller, self.limits().drain).await
    }

    /// Boxed in this crate, like [`Server::serving_stdio`].
    pub(crate) fn serving(
        &self,
        transport: Box<dyn Transport>,
        caller: Caller,
        grace_period: Duration,
    ) -> BoxFuture<'_, Result<(), ServeError>> {
        Box::pin(self.serve_within(transport, caller, grace_period))
    }

    async fn serve_within(
        &self,
        mut transport: Box<dyn Transport>,
        caller: Caller,
        grace_period: Duration,
    ) -> Result<(), ServeError> {
        let sender = transport.sender();
        let data = Arc::new(ConnectionData {
            caller,
            peer: Peer::new(sender.clone(), self.limits().handlers_per_session),
            sender,
            ending: self.data.shutdown.of_connection(),
            grace_period,
        });
        let mut connection = Connection {
            server: self,
            data: &data,
            session: None,
            calls: JoinSet::new(),
            streams: JoinSet::new(),
            room: self.limits().handlers_per_session.saturating_mul(2).max(1),
        };
        let outcome = connection.read(&mut *transport).await;
        data.ending.begin(if outcome.is_ok() { Cause::ClientClosed } else { Cause::ConnectionFailed });
        // A request that runs longer than the grace period answers with an error, which takes a moment.
        let limit = grace_period.saturating_add(LAST_ANSWERS);
        let drained = async {
            while connection.calls.join_next().await.is_some() {}
            while connection.streams.join_next().await.is_some() {}
        };
        if tokio::time::timeout(limit, drained).await.is_err() {
            tracing::debug!("calls that did not finish in time are cancelled");
            connection.calls.abort_all();
            connection.streams.abort_all();
        }
        // The last responses are queued. They are written before the transport is dropped.
        if tokio::time::timeout(FLUSH, data.sender.shutdown()).await.is_err() {
            tracing::debug!("the client does not read: the last answers are lost");
        }
        outcome
    }
}

struct Connection<'a> {
    server: &'a Server,
    data: &'a Arc<ConnectionData>,
    session: Option<Arc<Session>>,
    calls: JoinSet<()>,
    /// Open `subscriptions/listen` streams. They last until the connection ends.
    streams: JoinSet<()>,
    /// The most entries of `calls`.
    room: usize,
}

impl Drop for Connection<'_> {
    /// Fails the input requests that wait for this client.
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.close();
        }
    }
}

impl<'a> Connection<'a> {
    async fn read(&mut self, transport: &mut dyn Transport) -> Result<(), ServeError> {
        let shutdown = &self.data.ending;
        loop {
            // Finished calls are removed when a message arrives. Above the limit of running handlers, the entries are
            // responses that wait for a client that does not read. The server stops reading until some are written.
            while self.calls.try_join_next().is_some() {}
            while self.streams.try_join_next().is_some() {}
            let is_full = self.calls.len() >= self.room;
            if shutdown.has_begun() {
                return Ok(());
            }
            let frame = tokio::select! {
                biased;
                _ = self.calls.join_next(), if is_full => continue,
                frame = recv(transport), if !is_full => frame,
                () = shutdown.wait() => return Ok(()),
            };
            let answered = match frame {
                None => return Ok(()),
                Some(Ok(frame)) => tokio::select! {
                    biased;
                    processed = self.process(&frame) => processed,
                    () = shutdown.wait() => return Ok(()),
                },
                Some(Err(error)) if error.is_too_large() => {
                    let id = jsonrpc::request_id(error.start());
                    let error = RpcError::invalid_request(error.to_string());
                    self.server.record_rejection(None, &self.data.caller, error.code);
                    self.send(Reply::error(id.as_ref(), &error), route_of(id)).await
                }
                Some(Err(error)) if error.is_closed() => return Ok(()),
                Some(Err(error)) => return Err(error.into()),
            };
            // The client closed the connection.
            if answered.is_err() {
                return Ok(());
            }
        }
    }

    /// Processes one message. An error means that the client has disconnected.
    async fn process(&mut self, frame: &Frame) -> Result<(), TransportError> {
        let (prepared, id) = match self.server.accept(&frame.message, self.arrival()) {
            Ok(Accepted::Request(prepared)) => {
                let id = prepared.id().clone();
                (Ok(prepared), id)
            }
            Ok(Accepted::InSession(request)) => {
                let id = request.id().clone();
                (self.in_session(request), id)
            }
            Ok(Accepted::Initialize(request)) => {
                let reply = self.initialize(&request).unwrap_or_else(|error| Reply::error(Some(&request.id), &error));
                return self.send(reply, Route::Request(request.id)).await;
            }
            Ok(Accepted::Notification(notification)) => {
                if self.server.admit(&self.data.caller).is_err() {
                    tracing::debug!(
                        method = &*notification.method,
                        "ignored the notification of a caller without access"
                    );
                    return Ok(());
                }
                self.server.notified(self.session.as_ref(), &self.data.peer, &notification);
                return Ok(());
            }
            Ok(Accepted::Response(response)) => {
                if let Some(session) = &self.session {
                    session.answered(&response);
                }
                return Ok(());
            }
            Err(Rejected { is_batch: true, .. })
                if self.session.as_ref().is_some_and(|session| session.version().has_batches()) =>
            {
                return self.batch(&frame.message).await;
            }
            Err(Rejected { refusal, is_batch: true, .. }) => {
                return self.reject_batch(&frame.message, &refusal.into_error()).await;
            }
            Err(Rejected { id, refusal, .. }) => {
                return self.send(Reply::error(id.as_ref(), &refusal.into_error()), route_of(id)).await;
            }
        };
        let reply = match prepared {
            Ok(prepared) => match prepared.into_reply() {
                Ok(reply) => reply,
                Err(mut prepared) => match prepared.enter() {
                    Ok(()) => {
                        self.spawn(prepared, id);
                        return Ok(());
                    }
                    Err(reply) => reply,
                },
            },
            Err(refusal) => Reply::error(Some(&id), &refusal.into_error()),
        };
        self.send(reply, Route::Request(id)).await
    }

    /// Opens a session, which replaces the one before.
    fn initialize(&mut self, request: &Request<'_>) -> Result<Reply, RpcError> {
        let opened = self.server.initialize(request, &self.data.caller, &self.data.peer);
        let (session, reply) = opened.map_err(Refusal::into_error)?;
        if let Some(former) = self.session.replace(session) {
            former.retire();
        }
        Ok(reply)
    }

    fn in_session(&self, request: Box<SessionRequest<'_>>) -> Result<Box<Prepared>, Refusal> {
        match &self.session {
            Some(session) => request.on_connection(self.server, session.clone()),
            None => request.before_handshake(self.server),
        }
    }

    /// Returns the surroundings of a message on this connection.
    fn arrival(&self) -> Arrival<'a> {
        Arrival::new(&self.data.caller).within(Surroundings::of_connection(self.data))
    }

    async fn batch(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let Some(session) = self.session.clone() else { return Ok(()) };
        let scope = || self.scope(Scope::session(session.clone()));
        match self.server.batch(bytes, &session, &self.data.peer, scope) {
            Ok(batch) => {
                let sender = self.data.sender.clone();
                self.calls.spawn(async move {
                    if let Some(answers) = batch.run().await {
                        let _ = sender.send(Frame::new(answers)).await;
                    }
                });
                Ok(())
            }
            Err(Refusal::Denied(denied)) => self.answer_members(bytes, &denied.to_error()).await,
            Err(refusal) => self.send(Reply::error(None, &refusal.into_error()), Route::Connection).await,
        }
    }

    /// Rejects a batch in a revision without batches.
    async fn reject_batch(&self, bytes: &[u8], error: &RpcError) -> Result<(), TransportError> {
        self.server.record_rejection(None, &self.data.caller, error.code);
        self.answer_members(bytes, error).await
    }

    /// Answers a batch that is rejected as a whole. Each request of the batch receives the error with its id, because the
    /// client waits for its response. Without such a request the error has no id.
    async fn answer_members(&self, bytes: &[u8], error: &RpcError) -> Result<(), TransportError> {
        let ids = self.server.request_ids_of_batch(bytes);
        if ids.is_empty() {
            return self.send(Reply::error(None, error), Route::Connection).await;
        }
        for id in ids {
            self.send(Reply::error(Some(&id), error), Route::Request(id)).await?;
        }
        Ok(())
    }

    /// Adds the data of this connection to a scope.
    fn scope(&self, scope: Scope) -> Scope {
        self.data.caller.scope(scope).within(Surroundings::of_connection(self.data))
    }

    fn spawn(&mut self, prepared: Box<Prepared>, id: RequestId) {
        let sender = self.data.sender.clone();
        let set = if prepared.is_listen() { &mut self.streams } else { &mut self.calls };
        set.spawn(async move {
            if let Some(reply) = prepared.run().await {
                // The client may have disconnected, which the read loop notices.
                let _ = reply.payload.send_to(&*sender, Route::Request(id)).await;
            }
        });
    }

    async fn send(&self, reply: Reply, route: Route) -> Result<(), TransportError> {
        reply.payload.send_to(&*self.data.sender, route).await
    }
}

/// Returns the route of the response to a rejected message. The client waits for the response to an id on the route of
/// that request, also when the server rejected the request.
fn route_of(id: Option<RequestId>) -> Route {
    id.map_or(Route::Connection, Route::Request)
}
