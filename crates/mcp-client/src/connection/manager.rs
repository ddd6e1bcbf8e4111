//! What all handles of a client, its calls and its tasks share.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{LoggingLevel, jsonrpc::Request};
use mcp_transport::{Connect, TransportError};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{Link, Negotiated};
use crate::{
    Error, State,
    call::{Cache, Catalog},
    config::Config,
    error::Kind,
    inbound::{Asker, Hub, Notification, Question},
    subscription::Subscribers,
};

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) connector: Arc<dyn Connect>,
    pub(crate) closing: CancellationToken,
    /// A call needs a connection that the supervisor has given up on.
    pub(crate) wake: Notify,
    /// A call needs a connection before the next attempt is due.
    pub(crate) hurry: Notify,
    pub(crate) hub: Hub,
    pub(crate) cache: Cache,
    pub(crate) catalog: Catalog,
    pub(crate) subscribers: Subscribers,
    ids: AtomicI64,
    standing: watch::Sender<Standing>,
    state: watch::Sender<State>,
    failures: AtomicU64,
    /// Why the last attempt to open a connection failed, since there was one.
    last_failure: Mutex<Option<Error>>,
    /// Each connection that is not closed holds a receiver.
    pub(crate) connections: watch::Sender<()>,
    log_level: Mutex<Option<LoggingLevel>>,
    negotiated: Mutex<Option<Arc<Negotiated>>>,
}

/// How the connection stands.
#[derive(Clone)]
pub(crate) enum Standing {
    Ready(Arc<Link>),
    Opening {
        attempt: u32,
    },
    /// Every attempt failed, the last one with this; how many have failed since the client was built.
    Down {
        error: Error,
        failures: u64,
    },
    Closed(Error),
}

impl Shared {
    pub(crate) fn new(config: Config, connector: Arc<dyn Connect>) -> Arc<Self> {
        Arc::new(Self {
            log_level: Mutex::new(config.log_level),
            hub: Hub::new(config.limits.notifications, config.limits.notification_bytes),
            cache: Cache::default(),
            catalog: Catalog::default(),
            subscribers: Subscribers::default(),
            config,
            connector,
            negotiated: Mutex::default(),
            closing: CancellationToken::new(),
            wake: Notify::new(),
            hurry: Notify::new(),
            ids: AtomicI64::new(1),
            standing: watch::Sender::new(Standing::Opening { attempt: 1 }),
            state: watch::Sender::new(State::Connecting { attempt: 1 }),
            failures: AtomicU64::new(0),
            last_failure: Mutex::default(),
            connections: watch::Sender::new(()),
        })
    }

    /// Ids are used once in the life of a client, so that no late answer is taken for another one's.
    pub(crate) fn next_id(&self) -> i64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// The connection, as soon as there is one.
    ///
    /// When the last attempt has failed, another one is made first.
    pub(crate) async fn link(&self) -> Result<Arc<Link>, Error> {
        if let Standing::Ready(link) = &*self.standing.borrow()
            && !link.is_ended()
        {
            return Ok(Arc::clone(link));
        }
        let mut standing = self.standing.subscribe();
        let mut failed_before = None;
        self.hurry.notify_waiters();
        loop {
            let now = standing.borrow_and_update().clone();
            match now {
                Standing::Ready(link) if !link.is_ended() => return Ok(link),
                Standing::Closed(error) => return Err(error),
                Standing::Down { error, failures } => match failed_before {
                    None => {
                        failed_before = Some(failures);
                        self.wake.notify_one();
                    }
                    Some(before) if failures > before => return Err(error),
                    Some(_) => {}
                },
                Standing::Ready(_) | Standing::Opening { .. } => {}
            }
            if standing.changed().await.is_err() {
                return Err(Error::closed());
            }
        }
    }

    /// The connection, as soon as there is one within this time.
    pub(crate) async fn link_within(&self, limit: Duration) -> Result<Arc<Link>, Error> {
        let reached = timeout(limit, self.link()).await;
        reached.unwrap_or_else(|_| Err(self.unreached(limit)))
    }

    /// Nobody was reached for so long, and why.
    fn unreached(&self, after: Duration) -> Error {
        let last = self.last_failure.lock().clone();
        let source = match last {
            None => TransportError::unreachable(format!("there was no connection for {after:?}")),
            Some(error) => match error.transport() {
                Some(source) => source.clone(),
                None => TransportError::unreachable(error),
            },
        };
        Kind::Unreachable { peer: self.connector.describe().into(), source }.into()
    }

    /// Waits until there is a connection, whoever needs it, or never will be one.
    pub(crate) async fn ready(&self) {
        let mut standing = self.standing.subscribe();
        let _ = standing.wait_for(|now| matches!(now, Standing::Ready(_) | Standing::Closed(_))).await;
    }

    /// The connection that is there now, or was there last.
    pub(crate) fn current(&self) -> Option<Arc<Link>> {
        match &*self.standing.borrow() {
            Standing::Ready(link) => Some(Arc::clone(link)),
            _ => None,
        }
    }

    /// Whether there will be no connection any more.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(&*self.standing.borrow(), Standing::Closed(_))
    }

    pub(crate) fn stand(&self, standing: Standing) {
        self.state.send_replace(match &standing {
            Standing::Ready(_) => State::Ready,
            Standing::Opening { attempt } => State::Connecting { attempt: *attempt },
            Standing::Down { .. } => State::Down,
            Standing::Closed(_) => State::Closed,
        });
        match &standing {
            Standing::Ready(link) => {
                *self.last_failure.lock() = None;
                // Another connection may be another server.
                self.cache.clear();
                self.catalog.clear();
                if let Some(agreed) = link.agreed() {
                    *self.negotiated.lock() = Some(agreed.negotiated.clone());
                }
            }
            Standing::Closed(_) => self.hub.close(),
            Standing::Opening { .. } | Standing::Down { .. } => {}
        }
        self.standing.send_replace(standing);
    }

    /// What was agreed on the newest connection.
    pub(crate) fn negotiated(&self) -> Option<Arc<Negotiated>> {
        self.negotiated.lock().clone()
    }

    pub(crate) fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Counts one more attempt that failed.
    pub(crate) fn count_failure(&self, error: &Error) -> u64 {
        *self.last_failure.lock() = Some(error.clone());
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn lost(link: &Link) -> Error {
        Kind::Lost(link.fault().cloned()).into()
    }

    pub(crate) fn log_level(&self) -> Option<LoggingLevel> {
        *self.log_level.lock()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        *self.log_level.lock() = Some(level);
    }

    /// A notification came.
    pub(crate) fn heard(&self, notification: &Notification) {
        self.cache.hear(notification);
        self.hub.publish(notification);
    }

    /// Notifications of a session were lost on the way.
    pub(crate) fn missed(&self) {
        let missed = Notification::missed();
        self.subscribers.hear(&missed);
        self.heard(&missed);
    }

    /// A question of the server, ready to be answered.
    pub(crate) fn question(&self, link: &Arc<Link>, request: &Request<'_>) -> Question {
        let asker = Asker::on(link);
        self.config.handlers.question(&request.method, request.params, asker, self.config.limits.question)
    }
}
