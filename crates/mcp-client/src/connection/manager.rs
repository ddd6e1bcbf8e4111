//! The state of a client's connection: its status, its request ids, and what was negotiated last.

use std::{
    convert::Infallible,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use mcp_protocol::{LoggingLevel, Rounded};
use mcp_transport::{AuthorizationClocks, Connect, TransportError};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::{Connection, Negotiated, Notification, Receiver, pause::timeout_unless_paused};
use crate::{Error, State, config::Config, error::Kind};

/// Holds the current connection of a client, and lets calls wait for the next one.
pub(crate) struct ConnectionManager {
    pub(crate) config: Arc<Config>,
    pub(crate) connector: Arc<dyn Connect>,
    /// The clocks of the authorizer, if the connector has one.
    pub(crate) authorization: Option<AuthorizationClocks>,
    /// Receives the requests and notifications of the server.
    pub(crate) receiver: Arc<dyn Receiver>,
    /// Fires when the client is closed.
    pub(crate) closing: CancellationToken,
    /// A call needs a connection after the supervisor has stopped its attempts.
    pub(crate) wake: Notify,
    /// A call needs a connection before the next attempt is due.
    pub(crate) expedite: Notify,
    /// Changes when the application requests an attempt at once.
    pub(crate) attempt_now: watch::Sender<()>,
    /// Whether an input request failed, because several calls can have caused it.
    pub(crate) question_failed: watch::Sender<bool>,
    ids: AtomicI64,
    status: RwLock<Status>,
    /// Wakes the calls and subscriptions that wait for a connection in their order. The order of a `watch` channel is random.
    status_changed: Notify,
    state: watch::Sender<State>,
    /// The state without regard to questions of the authorizer.
    unasked_state: Mutex<State>,
    failures: AtomicU64,
    /// The error of the last failed attempt since the last successful one.
    last_failure: Mutex<Option<Error>>,
    /// Each connection that is not closed holds a receiver.
    pub(crate) connections: watch::Sender<()>,
    log_level: Mutex<Option<LoggingLevel>>,
    negotiated: Mutex<Option<Arc<Negotiated>>>,
}

/// The status of the connection, with what calls need to know about it.
#[derive(Clone)]
pub(crate) enum Status {
    /// The connection is open.
    Ready(Arc<Connection>),
    /// The supervisor opens a connection.
    Opening {
        /// The first attempt is 1.
        attempt: u32,
    },
    /// All attempts failed.
    Down {
        /// The error of the last attempt.
        error: Error,
        /// The number of attempts that failed since the client was built.
        failures: u64,
    },
    /// No connection is opened any more.
    Closed(Error),
}

impl ConnectionManager {
    pub(crate) fn new(config: Arc<Config>, connector: Arc<dyn Connect>, receiver: Arc<dyn Receiver>) -> Arc<Self> {
        Arc::new(Self {
            log_level: Mutex::new(config.log_level),
            config,
            authorization: connector.authorization(),
            connector,
            receiver,
            negotiated: Mutex::default(),
            closing: CancellationToken::new(),
            wake: Notify::new(),
            expedite: Notify::new(),
            attempt_now: watch::Sender::default(),
            question_failed: watch::Sender::default(),
            ids: AtomicI64::new(1),
            status: RwLock::new(Status::Opening { attempt: 1 }),
            status_changed: Notify::new(),
            state: watch::Sender::new(State::Connecting { attempt: 1 }),
            unasked_state: Mutex::new(State::Connecting { attempt: 1 }),
            failures: AtomicU64::new(0),
            last_failure: Mutex::default(),
            connections: watch::Sender::new(()),
        })
    }

    /// Returns a new request id. Ids are unique over all connections of a client, so a late answer never matches another request.
    pub(crate) fn next_id(&self) -> i64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits for an open connection.
    ///
    /// When the last attempt has failed, the supervisor makes another one first. An attempt that failed without
    /// authorization during the wait is not repeated, because it would ask the user for a login again.
    pub(crate) async fn connection(&self) -> Result<Arc<Connection>, Error> {
        if let Some(connection) = self.open_connection() {
            return Ok(connection);
        }
        let mut failed_before = None;
        let failures_at_start = self.failures.load(Ordering::Relaxed);
        self.expedite.notify_waiters();
        loop {
            // Registered before the check, so that no change is missed.
            let mut changed = pin!(self.status_changed.notified());
            changed.as_mut().enable();
            let now = self.status.read().clone();
            match now {
                Status::Ready(connection) if !connection.is_ended() => return Ok(connection),
                Status::Closed(error) => return Err(error),
                Status::Down { error, failures } if failures > failures_at_start && needs_login(&error) => {
                    return Err(error);
                }
                Status::Down { error, failures } => match failed_before {
                    None => {
                        failed_before = Some(failures);
                        self.wake.notify_one();
                    }
                    Some(before) if failures > before => return Err(error),
                    Some(_) => {}
                },
                Status::Ready(_) | Status::Opening { .. } => {}
            }
            changed.await;
        }
    }

    /// Returns the open connection, if it accepts requests.
    pub(crate) fn open_connection(&self) -> Option<Arc<Connection>> {
        self.current().filter(|connection| !connection.is_ended())
    }

    /// Waits for an open connection, for this long at most.
    pub(crate) async fn connection_within(&self, limit: Duration) -> Result<Arc<Connection>, Error> {
        let clock = self.authorization.as_ref().map(|clocks| &clocks.user);
        let reached = timeout_unless_paused(limit, self.config.limits.login_pause, clock, self.connection()).await;
        reached.unwrap_or_else(|_| Err(self.unreachable(limit)))
    }

    /// Returns the error of a call that found no connection for this long, with the error of the last attempt.
    fn unreachable(&self, after: Duration) -> Error {
        let last = self.last_failure.lock().clone();
        let source = match last {
            None => TransportError::unreachable(format!("there was no connection for {}", Rounded(after))),
            Some(error) if error.transport().is_some_and(TransportError::is_unauthorized) => return error,
            Some(error) => match error.transport() {
                Some(source) => source.clone(),
                None => TransportError::unreachable(error),
            },
        };
        Kind::Unreachable { peer: self.connector.describe().into(), source }.into()
    }

    /// Waits until a connection is open, or the client is closed. Does not cause an attempt.
    pub(crate) async fn ready(&self) {
        loop {
            let mut changed = pin!(self.status_changed.notified());
            changed.as_mut().enable();
            if matches!(&*self.status.read(), Status::Ready(_) | Status::Closed(_)) {
                return;
            }
            changed.await;
        }
    }

    /// Returns the connection that was opened last, unless another one is being opened.
    pub(crate) fn current(&self) -> Option<Arc<Connection>> {
        match &*self.status.read() {
            Status::Ready(connection) => Some(Arc::clone(connection)),
            _ => None,
        }
    }

    /// Returns true when no connection will be opened any more.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(&*self.status.read(), Status::Closed(_))
    }

    /// Publishes a new status.
    pub(crate) fn set_status(&self, status: Status) {
        let is_user_asked = self.is_user_asked();
        self.state.send_modify(|state| {
            let mut unasked = self.unasked_state.lock();
            *unasked = match &status {
                Status::Ready(_) => State::Ready,
                Status::Opening { attempt } => State::Connecting { attempt: *attempt },
                Status::Down { .. } => State::Down,
                Status::Closed(_) => State::Closed,
            };
            *state = shown_state(*unasked, is_user_asked);
        });
        match &status {
            Status::Ready(connection) => {
                *self.last_failure.lock() = None;
                self.receiver.connected();
                connection.report_gap(|| self.report_gap());
                if let Some(agreement) = connection.agreed() {
                    *self.negotiated.lock() = Some(agreement.negotiated.clone());
                }
            }
            Status::Closed(_) => self.receiver.closed(),
            Status::Opening { .. } | Status::Down { .. } => {}
        }
        let former = std::mem::replace(&mut *self.status.write(), status);
        self.status_changed.notify_waiters();
        // The drop of a connection runs code of its transport.
        drop(former);
    }

    /// Reports to the readers of notifications that some may be lost. Each subscription reports its own gap.
    pub(crate) fn report_gap(&self) {
        self.receiver.notification(&Notification::missed(), false);
    }

    /// Returns what was negotiated on the newest connection.
    pub(crate) fn negotiated(&self) -> Option<Arc<Negotiated>> {
        self.negotiated.lock().clone()
    }

    pub(crate) fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    fn is_user_asked(&self) -> bool {
        self.authorization.as_ref().is_some_and(|clocks| clocks.user.is_paused())
    }

    /// Shows in the state when the authorizer waits for the user. Never returns.
    pub(crate) async fn show_user_waits(&self) -> Infallible {
        let Some(clocks) = &self.authorization else { return std::future::pending().await };
        loop {
            let is_user_asked = self.is_user_asked();
            self.state.send_if_modified(|state| {
                let shown = shown_state(*self.unasked_state.lock(), is_user_asked);
                std::mem::replace(state, shown) != shown
            });
            match is_user_asked {
                true => clocks.user.until_running().await,
                false => clocks.user.until_paused().await,
            }
        }
    }

    /// Records a failed attempt, and returns the number of failed attempts so far.
    pub(crate) fn count_failure(&self, error: &Error) -> u64 {
        *self.last_failure.lock() = Some(error.clone());
        self.failures.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn log_level(&self) -> Option<LoggingLevel> {
        *self.log_level.lock()
    }

    pub(crate) fn set_log_level(&self, level: LoggingLevel) {
        *self.log_level.lock() = Some(level);
    }
}

/// Returns the state that the application observes.
fn shown_state(unasked: State, is_user_asked: bool) -> State {
    if is_user_asked && unasked != State::Closed { State::AwaitingUser } else { unasked }
}

/// Returns true if the client could not authorize the connection, and another attempt would fail in the same way.
fn needs_login(error: &Error) -> bool {
    error.transport().is_some_and(|fault| fault.is_unauthorized() && fault.is_lasting())
}
