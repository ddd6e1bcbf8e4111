//! The state that the tasks of one transport share: endpoint, session, capacity, and the queue of received frames.

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
    fault::Fault,
    headers::{self, SESSION, VERSION},
    http_request::HttpRequest,
    request_tasks::RequestTasks,
};

/// A received frame, or a fault.
pub(crate) type Received = Result<Frame, TransportError>;

/// The state that the tasks of one transport share.
pub(crate) struct Shared {
    pub(crate) client: Client,
    /// The URL of the endpoint.
    pub(crate) url: Url,
    pub(crate) config: Config,
    /// The headers that all POSTs share.
    pub(crate) post_headers: HeaderMap,
    /// The URL for POSTs, once the server has turned out to speak HTTP+SSE.
    pub(crate) endpoint: OnceLock<Url>,
    pub(crate) tasks: Arc<RequestTasks>,
    /// The capacity for requests.
    pub(crate) requests: Arc<Semaphore>,
    /// The capacity for handshakes and pings, which do not wait for other requests.
    pub(crate) control_requests: Arc<Semaphore>,
    /// The capacity for notifications and answers.
    pub(crate) posts: Arc<Semaphore>,
    /// True while `notifications/initialized` is being sent. Messages of the session wait for it.
    pub(crate) handshake: watch::Sender<bool>,
    pub(crate) is_closing: AtomicBool,
    /// The server has lost the session.
    is_lost: AtomicBool,
    session: Mutex<Session>,
    inbound: Mutex<Option<mpsc::Sender<Received>>>,
}

/// A session of the older revisions.
#[derive(Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<ProtocolVersion>,
}

/// The largest number of notifications and answers at the same time.
pub(crate) const MAX_POSTS: u32 = 64;
/// The largest number of handshakes and pings at the same time.
const MAX_CONTROL_REQUESTS: usize = 16;
/// The largest number of received frames that wait for the reader.
const MAX_INBOUND: usize = 64;

impl Shared {
    pub(crate) fn new(client: Client, url: Url, config: Config) -> (Arc<Self>, mpsc::Receiver<Received>) {
        let (inbound, receiver) = mpsc::channel(MAX_INBOUND);
        let shared = Self {
            client,
            url,
            endpoint: OnceLock::new(),
            tasks: RequestTasks::new(),
            requests: Arc::new(Semaphore::new(config.max_requests as usize)),
            control_requests: Arc::new(Semaphore::new(MAX_CONTROL_REQUESTS)),
            posts: Arc::new(Semaphore::new(MAX_POSTS as usize)),
            handshake: watch::Sender::new(false),
            is_closing: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            session: Mutex::default(),
            inbound: Mutex::new(Some(inbound)),
            post_headers: HttpRequest::post_headers(&config),
            config,
        };
        (Arc::new(shared), receiver)
    }

    /// Returns the URL for POSTs.
    pub(crate) fn target(&self) -> &Url {
        self.endpoint.get().unwrap_or(&self.url)
    }

    /// Returns the headers of a message, without its session.
    pub(crate) fn message_headers(&self, hints: &Hints) -> Result<HeaderMap, Fault> {
        let mut headers = self.post_headers.clone();
        headers::add_mirrored(hints, &mut headers)?;
        Ok(headers)
    }

    /// Delivers a frame or a fault to the reader. Returns false if there is no reader any more.
    pub(crate) fn deliver(&self, inbound: Received) -> impl Future<Output = bool> + Send + use<> {
        if inbound.as_ref().is_err_and(TransportError::is_session_lost) {
            self.is_lost.store(true, Ordering::Release);
        }
        let sender = lock(&self.inbound).clone();
        // The queue usually has capacity, so the future does not contain the frame.
        let sent = match sender.map(|sender| (sender.try_send(inbound), sender)) {
            Some((Err(TrySendError::Full(inbound)), sender)) => {
                Err(Box::pin(async move { sender.send(inbound).await.is_ok() }))
            }
            sent => Ok(sent.is_some_and(|(sent, _)| sent.is_ok())),
        };
        async move {
            match sent {
                Ok(is_read) => is_read,
                Err(sending) => sending.await,
            }
        }
    }

    /// Whether received frames wait for the reader.
    pub(crate) fn has_unread(&self) -> bool {
        lock(&self.inbound).as_ref().is_some_and(|inbound| inbound.capacity() < inbound.max_capacity())
    }

    /// Adds the session id if the message belongs to a session. Returns true if it did.
    pub(crate) fn name_session(&self, headers: &mut HeaderMap, hints: &Hints) -> bool {
        if headers::is_stateless(hints) || hints.method.as_deref() == Some("initialize") {
            return false;
        }
        match &lock(&self.session).id {
            Some(id) => headers.insert(SESSION, id.clone()).is_none(),
            None => false,
        }
    }

    /// Adds the session id and the revision. Returns true if there is a session.
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

    /// Stores the id of a new session.
    pub(crate) fn open_session(&self, id: Option<HeaderValue>) {
        lock(&self.session).id = id;
    }

    /// Returns the revision of the session.
    pub(crate) fn session_version(&self) -> Option<ProtocolVersion> {
        lock(&self.session).version
    }

    /// Stores the revision of the session.
    pub(crate) fn settle(&self, version: Option<ProtocolVersion>) {
        lock(&self.session).version = version;
    }

    /// Returns the headers that end the session, and forgets it; `None` if there is no session.
    pub(crate) fn end_session(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        let is_there = self.name_session_and_version(&mut headers) && !self.is_lost.load(Ordering::Acquire);
        lock(&self.session).id = None;
        is_there.then_some(headers)
    }

    /// Returns the secrets of a request, which no text about its response may contain.
    pub(crate) fn secrets(&self, authorization: &HeaderMap) -> Vec<String> {
        let session = lock(&self.session).id.clone().map(|id| (SESSION, id));
        let configured = self.config.headers.iter().filter(|(_, value)| value.is_sensitive());
        let sent = configured.chain(authorization).chain(session.iter().map(|(name, id)| (name, id)));
        sent.flat_map(|(name, value)| config::secrets(name, value)).collect()
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Ends all tasks. Received frames can still be read.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.tasks.close();
        self.requests.close();
        self.control_requests.close();
        self.posts.close();
        drop(mem::take(&mut *lock(&self.inbound)));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that can panic runs under these locks.
    mutex.lock()
}
