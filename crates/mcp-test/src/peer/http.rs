//! A scripted server over HTTP/1.1: by hand, since no well-kept library sends half an answer on purpose.

mod exchange;
mod request;

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

/// The most requests that are kept.
const KEPT: usize = 100_000;

/// A scripted server that listens on 127.0.0.1. It ends when it is dropped.
///
/// A POST is answered by the script; a notification and an answer with 202. The answer to `initialize` of a legacy
/// revision names a session, and a request of a session that was [forgotten](HttpPeer::forget_sessions) gets a 404.
/// A GET is played as the method `GET`, a DELETE as `DELETE`; where the script has nothing of that name, a GET gets
/// 405 and a DELETE 200. The stream that a GET opens stays open unless its reply ends by [`Reply::close`](super::Reply::close).
/// The ids of events are counted over the whole life of the server.
pub struct HttpPeer {
    address: SocketAddr,
    shared: Arc<Shared>,
    listening: Mutex<JoinSet<()>>,
}

/// What the connections share.
#[derive(Debug)]
struct Shared {
    script: Arc<Script>,
    requests: Mutex<Vec<HttpRequest>>,
    /// Those that were given up by the client.
    abandoned: Mutex<Vec<HttpRequest>>,
    /// Counts sessions; those up to `forgotten` are gone.
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
            abandoned: Mutex::default(),
            sessions: AtomicUsize::new(0),
            forgotten: AtomicUsize::new(0),
            events: AtomicUsize::new(0),
        };
        let peer = Self { address: listener.local_addr()?, shared: Arc::new(shared), listening: Mutex::default() };
        peer.accept(listener);
        Ok(peer)
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Every request so far, with its headers and body.
    #[must_use]
    pub fn requests(&self) -> Vec<HttpRequest> {
        self.shared.requests.lock().clone()
    }

    /// Waits until `count` requests came that are such.
    ///
    /// # Panics
    /// After ten seconds, showing what came instead.
    pub async fn wait_for(&self, count: usize, such: impl Fn(&HttpRequest) -> bool) -> Vec<HttpRequest> {
        let look = || {
            let found: Vec<HttpRequest> = self.requests().into_iter().filter(&such).collect();
            (found.len() >= count).then_some(found)
        };
        self.shared.script.until(&format!("{count} such HTTP request(s)"), look).await
    }

    /// Waits until the client has closed the connection of `count` requests of this method before their replies were
    /// over: what cancels a request of 2026-07-28.
    ///
    /// # Panics
    /// After ten seconds.
    pub async fn wait_until_abandoned(&self, method: &str, count: usize) {
        let look = || {
            let abandoned = self.shared.abandoned.lock();
            (abandoned.iter().filter(|request| request.calls(method)).count() >= count).then_some(())
        };
        self.shared.script.until(&format!("the end of {count} request(s) `{method}`"), look).await;
    }

    /// Knows none of the sessions any more that were opened so far, as after a restart.
    pub fn forget_sessions(&self) {
        self.shared.forgotten.store(self.shared.sessions.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Stops listening and breaks every connection.
    pub async fn stop(&self) {
        let mut listening = std::mem::take(&mut *self.listening.lock());
        self.shared.script.crash();
        // When this returns, the port is free.
        listening.shutdown().await;
    }

    /// Listens again where it did before [`HttpPeer::stop`].
    ///
    /// # Errors
    /// What the system says.
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
    // A test measures no latency that the kernel adds.
    let _ = socket.set_nodelay(true);
    let crashed = shared.script.crashed();
    tokio::select! {
        () = crashed => {}
        // Whatever fails here is the client's leaving.
        _ = exchange::serve(&shared, socket) => {}
    }
}

impl Shared {
    fn keep(&self, request: &HttpRequest) {
        Self::keep_in(&self.requests, request);
        self.script.touch();
    }

    /// The client went away in the middle of the request.
    fn abandon(&self, request: &HttpRequest) {
        Self::keep_in(&self.abandoned, request);
        self.script.touch();
    }

    fn keep_in(kept: &Mutex<Vec<HttpRequest>>, request: &HttpRequest) {
        let mut kept = kept.lock();
        if kept.len() < KEPT {
            kept.push(request.clone());
        }
    }

    /// Whether the session that the request names is known, where it names one.
    fn knows(&self, request: &HttpRequest) -> bool {
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
