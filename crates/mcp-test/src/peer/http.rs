//! A scripted server over HTTP/1.1. It writes HTTP itself, because HTTP libraries do not send truncated responses.

mod request;
mod response;

use std::{
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    task::JoinSet,
};

pub use self::request::HttpRequest;
use super::script::Script;

/// The number of requests that the server stores.
const MAX_REQUESTS: usize = 100_000;

/// A scripted server that listens on 127.0.0.1. Dropping it closes the port and all connections.
///
/// - The script answers a POST with a request. A POST with a notification or a response gets the status 202.
/// - The response to `initialize` opens a session. A request of a
///   [forgotten](HttpPeer::forget_sessions) session gets the status 404.
/// - A GET uses the replies of the method `GET`, a DELETE those of `DELETE`. Without replies, a GET gets the status 405 and
///   a DELETE 200.
/// - The stream of a GET stays open, unless its reply ends with [`Reply::close`](super::Reply::close).
/// - The server numbers its events from start to end, across all streams.
///
/// ```
/// use mcp_protocol::ProtocolVersion;
/// use mcp_test::peer::{Reply, ScriptedServer};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
/// # runtime.block_on(async {
/// let server = ScriptedServer::for_revision(ProtocolVersion::V2025_11_25)
///     .on("tools/list", Reply::status(503, "").header("Retry-After", "1"));
/// let peer = server.listen().await.unwrap();
/// assert!(peer.url().starts_with("http://127.0.0.1:"));
/// # });
/// ```
pub struct HttpPeer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Mutex<JoinSet<()>>,
}

/// The state that all connections share.
#[derive(Debug)]
struct Shared {
    script: Arc<Script>,
    requests: Mutex<Vec<HttpRequest>>,
    /// The requests that the client cancelled.
    cancelled: Mutex<Vec<HttpRequest>>,
    /// The number of opened sessions. Sessions up to `forgotten` are unknown.
    sessions: AtomicUsize,
    forgotten: AtomicUsize,
    events: AtomicUsize,
}

impl HttpPeer {
    pub(super) async fn bind(script: Arc<Script>) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let shared = Shared {
            script,
            requests: Mutex::default(),
            cancelled: Mutex::default(),
            sessions: AtomicUsize::new(0),
            forgotten: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
        };
        let peer = Self { address: listener.local_addr()?, shared: Arc::new(shared), listening: Mutex::default() };
        peer.accept(listener);
        Ok(peer)
    }

    /// Returns the URL of the endpoint.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Returns the address of the port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns every received request with its headers and body.
    #[must_use]
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.shared.requests.lock().clone()
    }

    /// Waits for `count` requests that fulfil a condition, and returns them.
    ///
    /// # Panics
    ///
    /// Panics after ten seconds, with the received messages.
    pub async fn wait_for(&self, count: usize, condition: impl Fn(&HttpRequest) -> bool) -> Vec<HttpRequest> {
        let look = || {
            let found: Vec<HttpRequest> = self.requests().into_iter().filter(&condition).collect();
            (found.len() >= count).then_some(found)
        };
        self.shared.script.wait_for_script(&format!("{count} matching HTTP request(s)"), look).await
    }

    /// Waits until the client has closed the connections of `count` requests of this method before their responses were
    /// complete. This cancels a request of 2026-07-28.
    ///
    /// # Panics
    ///
    /// Panics after ten seconds.
    pub async fn wait_until_cancelled(&self, method: &str, count: usize) {
        let look = || {
            let cancelled = self.shared.cancelled.lock();
            (cancelled.iter().filter(|request| request.calls(method)).count() >= count).then_some(())
        };
        self.shared.script.wait_for_script(&format!("the end of {count} request(s) `{method}`"), look).await;
    }

    /// Forgets all open sessions, as a restart of the server does.
    pub fn forget_sessions(&self) {
        self.shared.forgotten.store(self.shared.sessions.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Stops listening and breaks every connection.
    pub async fn stop(&self) {
        let mut listening = std::mem::take(&mut *self.listening.lock());
        self.shared.script.crash();
        // The port is free after this call.
        listening.shutdown().await;
    }

    /// Opens the same port again after [`HttpPeer::stop`].
    ///
    /// # Errors
    ///
    /// Fails if the system cannot open the port.
    pub fn start(&self) -> io::Result<()> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(self.address)?;
        self.accept(socket.listen(128)?);
        Ok(())
    }

    fn accept(&self, listener: TcpListener) {
        let shared = Arc::clone(&self.shared);
        self.listening.lock().spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                connections.spawn(connection(Arc::clone(&shared), socket));
            }
        });
    }
}

impl fmt::Debug for HttpPeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpPeer").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn connection(shared: Arc<Shared>, socket: TcpStream) {
    let _open = shared.script.open();
    // The delay of small packets would falsify times in tests.
    let _ = socket.set_nodelay(true);
    let crashed = shared.script.crashed();
    tokio::select! {
        () = crashed => {}
        // An error means that the client has closed the connection.
        _ = response::serve(&shared, socket) => {}
    }
}

impl Shared {
    fn store(&self, request: &HttpRequest) {
        Self::store_in(&self.requests, request);
        self.script.notify_change();
    }

    /// Stores a request that the client cancelled.
    fn cancel(&self, request: &HttpRequest) {
        Self::store_in(&self.cancelled, request);
        self.script.notify_change();
    }

    fn store_in(requests: &Mutex<Vec<HttpRequest>>, request: &HttpRequest) {
        let mut requests = requests.lock();
        if requests.len() < MAX_REQUESTS {
            requests.push(request.clone());
        }
    }

    /// Returns whether the request has no session or a known one.
    fn has_known_session(&self, request: &HttpRequest) -> bool {
        let Some(session) = request.header("mcp-session-id") else { return true };
        let number = session.strip_prefix("scripted-").and_then(|number| number.parse::<usize>().ok());
        number.is_some_and(|number| number > self.forgotten.load(Ordering::Relaxed))
    }

    fn open_session(&self) -> String {
        format!("scripted-{}", self.sessions.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn next_event(&self) -> usize {
        self.events.fetch_add(1, Ordering::Relaxed) + 1
    }
}
