//! What the tasks of one transport share: the endpoint, the session, the way in, and the room there is.

use std::{
    mem,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use http::{HeaderMap, HeaderValue};
use mcp_protocol::ProtocolVersion;
use mcp_transport::{Frame, Hints, TransportError};
use parking_lot::{Mutex, MutexGuard};
use reqwest::{Client, Url};
use tokio::sync::{
    Semaphore,
    mpsc::{self, error::TrySendError},
    watch,
};

use crate::{
    config::{self, Config},
    exchange::Exchange,
    fault::Fault,
    headers::{self, SESSION, VERSION},
    tasks::Tasks,
};

/// What is received: a frame, or a fault.
pub(crate) type Inbound = Result<Frame, TransportError>;

/// See the module.
pub(crate) struct Link {
    pub(crate) client: Client,
    /// Where the application said the server is.
    pub(crate) url: Url,
    pub(crate) config: Config,
    /// The headers that every message is posted with.
    pub(crate) post_headers: HeaderMap,
    /// Where messages are posted to, once the server turned out to speak HTTP+SSE.
    pub(crate) endpoint: OnceLock<Url>,
    pub(crate) tasks: Arc<Tasks>,
    /// Room for requests under way.
    pub(crate) requests: Arc<Semaphore>,
    /// Room for those that open a connection and for signs of life, which wait for no others.
    pub(crate) signs: Arc<Semaphore>,
    /// Room for everything else that is posted.
    pub(crate) posts: Arc<Semaphore>,
    /// Whether the notice that ends the handshake is under way: what belongs to the session waits for it.
    pub(crate) handshake: watch::Sender<bool>,
    pub(crate) is_closing: AtomicBool,
    /// The server does not know the session any more.
    is_lost: AtomicBool,
    session: Mutex<Session>,
    inbound: Mutex<Option<mpsc::Sender<Inbound>>>,
}

/// A session of the older revisions.
#[derive(Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<ProtocolVersion>,
}

/// Notifications and answers that may be under way at once.
pub(crate) const MAX_POSTS: u32 = 64;
/// Requests that open a connection and signs of life that may be under way at once.
const MAX_SIGNS: usize = 16;
/// Frames that were received and not taken.
const MAX_INBOUND: usize = 64;

impl Link {
    pub(crate) fn new(client: Client, url: Url, config: Config) -> (Arc<Self>, mpsc::Receiver<Inbound>) {
        let (inbound, receiver) = mpsc::channel(MAX_INBOUND);
        let link = Self {
            client,
            url,
            endpoint: OnceLock::new(),
            tasks: Tasks::new(),
            requests: Arc::new(Semaphore::new(config.max_requests as usize)),
            signs: Arc::new(Semaphore::new(MAX_SIGNS)),
            posts: Arc::new(Semaphore::new(MAX_POSTS as usize)),
            handshake: watch::Sender::new(false),
            is_closing: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            session: Mutex::default(),
            inbound: Mutex::new(Some(inbound)),
            post_headers: Exchange::post_headers(&config),
            config,
        };
        (Arc::new(link), receiver)
    }

    /// Where messages go.
    pub(crate) fn target(&self) -> &Url {
        self.endpoint.get().unwrap_or(&self.url)
    }

    /// The headers of a message, but for its session.
    pub(crate) fn message_headers(&self, hints: &Hints) -> Result<HeaderMap, Fault> {
        let mut headers = self.post_headers.clone();
        headers::mirror(hints, &mut headers)?;
        Ok(headers)
    }

    /// Gives on what was received. False when nobody receives any more.
    pub(crate) async fn deliver(&self, inbound: Inbound) -> bool {
        if inbound.as_ref().is_err_and(TransportError::is_session_lost) {
            self.is_lost.store(true, Ordering::Release);
        }
        let Some(sender) = lock(&self.inbound).clone() else { return false };
        match sender.try_send(inbound) {
            Ok(()) => true,
            Err(TrySendError::Full(inbound)) => Box::pin(sender.send(inbound)).await.is_ok(),
            Err(TrySendError::Closed(_)) => false,
        }
    }

    /// Names the session, when there is one and the message belongs to it. Says whether it did.
    pub(crate) fn name_session(&self, headers: &mut HeaderMap, hints: &Hints) -> bool {
        if headers::is_stateless(hints) || hints.method.as_deref() == Some("initialize") {
            return false;
        }
        match &lock(&self.session).id {
            Some(id) => headers.insert(SESSION, id.clone()).is_none(),
            None => false,
        }
    }

    /// Names the session and its revision in a message that is not of the protocol. Says whether there is a session.
    pub(crate) fn name_session_and_version(&self, headers: &mut HeaderMap) -> bool {
        let session = lock(&self.session);
        if let Some(version) = session.version.filter(|version| version.has_version_header()) {
            headers.insert(VERSION, HeaderValue::from_static(version.as_str()));
        }
        match &session.id {
            Some(id) => headers.insert(SESSION, id.clone()).is_none(),
            None => false,
        }
    }

    /// The answer to `initialize` has come.
    pub(crate) fn open_session(&self, id: Option<HeaderValue>) {
        lock(&self.session).id = id;
    }

    /// The session speaks this revision.
    pub(crate) fn settle(&self, version: Option<ProtocolVersion>) {
        lock(&self.session).version = version;
    }

    /// What names the session one last time; nothing when there is none any more.
    pub(crate) fn end_session(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        let is_there = self.name_session_and_version(&mut headers) && !self.is_lost.load(Ordering::Acquire);
        lock(&self.session).id = None;
        is_there.then_some(headers)
    }

    /// What no text may show about a request that was sent with this authorization.
    pub(crate) fn secrets(&self, authorization: &HeaderMap) -> Vec<String> {
        let session = lock(&self.session).id.clone().map(|id| (SESSION, id));
        let configured = self.config.headers.iter().filter(|(_, value)| value.is_sensitive());
        let sent = configured.chain(authorization).chain(session.iter().map(|(name, id)| (name, id)));
        sent.flat_map(|(name, value)| config::secrets(name, value)).collect()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Ends everything that runs. What was received can still be taken.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.tasks.close();
        self.requests.close();
        self.signs.close();
        self.posts.close();
        drop(mem::take(&mut *lock(&self.inbound)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock()
}
