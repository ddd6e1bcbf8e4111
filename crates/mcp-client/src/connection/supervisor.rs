//! Opens connections, watches over the current one, and opens another one when it is lost.

use std::{
    convert::Infallible,
    future::pending,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use mcp_protocol::{EmptyParams, Method, method};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::{
    Connection, ConnectionManager, ECHO, Negotiated, OnDrop, Request, RequestExtras, Status,
    era::{self, HandshakeError},
    hints,
    pause::{follow, timeout_unless_paused},
    read, write_request,
};
use crate::{
    Error,
    error::Kind,
    retry::{back_off, is_permanent, wait_to_open},
    slow_start::{SlowStart, SlowStartReport},
};

/// The shortest time between two attempts if a waiting call causes the second one.
const EXPEDITED_WAIT: Duration = Duration::from_secs(1);

/// Opens a connection and negotiates a revision, within the connect timeout.
///
/// `known` is the result of an earlier negotiation. If `trust` is true and no handshake is needed, the connection uses
/// it without a request.
async fn open(
    manager: &Arc<ConnectionManager>,
    known: Option<&Negotiated>,
    trust: bool,
) -> Result<Arc<Connection>, Error> {
    let (limit, pause) = (manager.config.connect_timeout, manager.config.limits.login_pause);
    let user = manager.authorization.as_ref().map(|clocks| &clocks.user);
    let latest = Mutex::default();
    let opened = tokio::select! {
        biased;
        opened = timeout_unless_paused(limit, pause, user, agree(manager, &latest, known, trust)) => opened,
        never = report_slow_start(manager, &latest) => match never {},
    };
    let connection = opened
        .unwrap_or_else(|_| {
            let peer = manager.connector.describe();
            Err(Kind::NotOpened(SlowStart::new(&peer, limit, stderr(&latest))).into())
        })
        .map_err(|error| match &*latest.lock() {
            Some(connection) => with_foreign_act(manager, connection, error),
            None => error,
        })?;
    let opened = OpenedConnection { connection, is_kept: false };
    era::ask_for_logs(manager, &opened.connection).await;
    Ok(opened.keep())
}

/// Opens the first connection of a client. A server that rejects the handshake for a short time receives it again.
pub(crate) async fn open_first(
    manager: &Arc<ConnectionManager>,
    known: Option<&Negotiated>,
) -> Result<Arc<Connection>, Error> {
    let (start, mut attempt) = (Instant::now(), 1);
    loop {
        let error = match open(manager, known, true).await {
            Ok(connection) => return Ok(connection),
            Err(error) => error,
        };
        let Some(wait) = wait_to_open(&error, attempt, start.elapsed()) else { return Err(error) };
        tracing::debug!(%error, attempt, "the server rejected the handshake for a short time");
        sleep(wait).await;
        attempt += 1;
    }
}

/// Calls the function for slow starts once, then never returns.
async fn report_slow_start(manager: &ConnectionManager, latest: &Latest) -> Infallible {
    if let Some(SlowStartReport { after, report }) = &manager.config.slow_start {
        // The time of a login is not a delay of the server.
        let user = manager.authorization.as_ref().map(|clocks| &clocks.user);
        let _ = timeout_unless_paused(*after, manager.config.limits.login_pause, user, pending::<()>()).await;
        let peer = manager.connector.describe();
        let start = SlowStart::new(&peer, *after, stderr(latest));
        // A panic would end the supervisor, and no call could connect any more.
        if catch_unwind(AssertUnwindSafe(|| report(&start))).is_err() {
            tracing::error!("the function for slow starts panicked");
        }
    }
    pending().await
}

/// The newest connection that is being opened.
type Latest = Mutex<Option<Arc<Connection>>>;

fn stderr(latest: &Latest) -> Vec<String> {
    latest.lock().as_ref().map(|connection| connection.sender.diagnostics()).unwrap_or_default()
}

/// Returns the error of a peer that is not an MCP server, if that explains why the connection could not be opened.
fn with_foreign_act(manager: &ConnectionManager, connection: &Connection, error: Error) -> Error {
    match connection.foreign() {
        Some(act) if error.is_timeout() || error.is_closed() => {
            let is_echo = act == ECHO;
            let (peer, act) = (manager.connector.describe().into(), act.into());
            Kind::NotAServer { peer, act, is_echo, cause: error }.into()
        }
        _ => error,
    }
}

/// Watches over a connection until the client is closed. `attempt_now` also reports the requests of the application that
/// come before the first poll.
pub(crate) async fn supervise(
    manager: Arc<ConnectionManager>,
    mut connection: Arc<Connection>,
    mut attempt_now: watch::Receiver<()>,
) {
    // The number of consecutive connections that were lost soon.
    let mut losses = 0;
    loop {
        let answered = connection.pending.answered();
        let since = Instant::now();
        tokio::select! {
            biased;
            () = manager.closing.cancelled() => {
                manager.set_status(Status::Closed(Error::closed()));
                connection.close(manager.config.limits.close).await;
                return;
            }
            () = connection.ended() => {}
            () = keep_pinging(&manager, &connection) => {
                tracing::warn!("the server does not answer pings: the connection is closed");
                connection.end(None);
            }
        }
        let policy = &manager.config.reconnect;
        if policy.attempts == 0 {
            manager.set_status(Status::Closed(connection.lost()));
            return;
        }
        let is_requested = attempt_now.has_changed().is_ok_and(|is_requested| is_requested);
        losses = match since.elapsed() >= policy.longest || is_requested {
            true => 0,
            false if connection.pending.answered() != answered => 1,
            false => losses + 1,
        };
        tokio::select! {
            biased;
            () = manager.closing.cancelled() => {
                manager.set_status(Status::Closed(Error::closed()));
                return;
            }
            opened = reopen(&manager, &connection, losses, &mut attempt_now) => connection = opened,
        }
    }
}

/// Opens another connection. `losses` is the number of consecutive connections that were lost soon. Each of them
/// doubles the wait. Beyond the number of attempts, the supervisor waits for the next call.
async fn reopen(
    manager: &Arc<ConnectionManager>,
    lost: &Connection,
    losses: u32,
    attempt_now: &mut watch::Receiver<()>,
) -> Arc<Connection> {
    let policy = &manager.config.reconnect;
    let known = lost.agreed().filter(|_| !lost.is_assumed()).map(|agreed| agreed.negotiated.clone());
    let mut attempt = 1;
    let mut requested_wait = Duration::ZERO;
    let mut waits = losses;
    let mut wait = if waits == 0 { Duration::ZERO } else { back_off(policy.first, policy.longest, waits) };
    if losses > policy.attempts {
        tracing::warn!(losses, "the server ends every connection: the client waits for the next call");
        wait_for_call(manager, &lost.lost(), Duration::ZERO, attempt_now).await;
        (waits, wait) = (0, Duration::ZERO);
    }
    loop {
        manager.set_status(Status::Opening { attempt });
        let due = Instant::now() + wait;
        let (error, is_hopeless) = loop {
            let is_early = !until_due(manager, due, requested_wait, attempt_now).await;
            let opened = open(manager, known.as_deref(), false).await;
            // The attempt also fulfils the requests that came during it.
            attempt_now.mark_unchanged();
            let error = match opened {
                Ok(connection) => {
                    manager.set_status(Status::Ready(connection.clone()));
                    return connection;
                }
                Err(error) => error,
            };
            tracing::debug!(%error, attempt, is_early, "the connection could not be opened again");
            let is_hopeless = is_permanent(&error);
            if !is_early || is_hopeless || error.retry_after().is_some() {
                break (error, is_hopeless);
            }
            // This attempt does not count, because a waiting call or the application caused it.
            manager.count_failure(&error);
        };
        requested_wait = error.retry_after().unwrap_or_default();
        if attempt >= policy.attempts || is_hopeless || requested_wait > policy.longest {
            wait_for_call(manager, &error, requested_wait, attempt_now).await;
            attempt = attempt.max(policy.attempts);
            (wait, requested_wait) = (Duration::ZERO, Duration::ZERO);
        } else {
            manager.count_failure(&error);
            (attempt, waits) = (attempt + 1, waits + 1);
            wait = back_off(policy.first, policy.longest, waits).min(policy.longest).max(requested_wait);
        }
    }
}

/// Waits until the next attempt is due, and returns true. The attempt comes earlier, and the function returns false, if
/// a call waits for a connection or the application requests an attempt. A waiting call never causes it before the time
/// that the server requested, or at once.
async fn until_due(
    manager: &ConnectionManager,
    due: Instant,
    requested_wait: Duration,
    attempt_now: &mut watch::Receiver<()>,
) -> bool {
    let expedite = manager.expedite.notified();
    let earliest = Instant::now() + requested_wait.max(EXPEDITED_WAIT);
    let waiting = async {
        if earliest >= due {
            sleep_until(due).await;
            return true;
        }
        sleep_until(earliest).await;
        tokio::select! {
            biased;
            () = sleep_until(due) => true,
            () = expedite => false,
        }
    };
    tokio::select! {
        biased;
        is_due = waiting => is_due,
        Ok(()) = attempt_now.changed() => false,
    }
}

/// Waits for the next call that needs a connection. Calls before the time that the server requested fail with the same
/// error. A request of the application for an attempt ends the wait at any time.
async fn wait_for_call(
    manager: &ConnectionManager,
    error: &Error,
    requested_wait: Duration,
    attempt_now: &mut watch::Receiver<()>,
) {
    let since = Instant::now();
    loop {
        let failures = manager.count_failure(error);
        manager.set_status(Status::Down { error: error.clone(), failures });
        tokio::select! {
            biased;
            Ok(()) = attempt_now.changed() => return,
            () = manager.wake.notified() => {}
        }
        if since.elapsed() >= requested_wait {
            return;
        }
    }
}

async fn agree(
    manager: &Arc<ConnectionManager>,
    latest: &Latest,
    known: Option<&Negotiated>,
    trust: bool,
) -> Result<Arc<Connection>, Error> {
    let config = &manager.config;
    let mut dialed = dial(manager, latest).await?;
    let known = known.filter(|known| config.versions.contains(&known.version));
    if let Some(known) = known
        && known.version.is_stateless()
        && trust
    {
        era::agree(config, &dialed.connection, known.clone());
        dialed.connection.assume(true);
        return Ok(dialed.keep());
    }
    let first = known.map(|known| known.version).or(config.preferred).filter(|version| version.has_handshake());
    if let Some(version) = first {
        match era::initialize(manager, &dialed.connection, version).await {
            Ok(_) => return Ok(dialed.keep()),
            Err(HandshakeError::Refused(error)) => {
                tracing::debug!(%error, "the server rejected the known or preferred revision");
            }
            Err(stop) => return Err(stop.into_error()),
        }
    }
    match era::detect(manager, &dialed.connection).await {
        Ok(negotiated) => {
            era::agree(config, &dialed.connection, negotiated);
            Ok(dialed.keep())
        }
        Err(stop) if dialed.connection.foreign().is_some_and(|act| act == ECHO) => Err(stop.into_error()),
        // Some session servers end when the first message is not `initialize`.
        Err(HandshakeError::Died(error)) if !known.is_some_and(|known| known.version.is_stateless()) => {
            let Some(version) = config.newest_legacy() else { return Err(error) };
            tracing::debug!(%error, "the server ended after `server/discover`");
            dialed = dial(manager, latest).await.map_err(|_| error)?;
            era::initialize(manager, &dialed.connection, version).await.map_err(HandshakeError::into_error)?;
            Ok(dialed.keep())
        }
        Err(stop) => Err(stop.into_error()),
    }
}

/// A connection that ends when it is dropped, unless it is kept.
struct OpenedConnection {
    connection: Arc<Connection>,
    is_kept: bool,
}

impl OpenedConnection {
    fn keep(mut self) -> Arc<Connection> {
        self.is_kept = true;
        Arc::clone(&self.connection)
    }
}

impl Drop for OpenedConnection {
    fn drop(&mut self) {
        if !self.is_kept {
            self.connection.end(None);
        }
    }
}

async fn dial(manager: &Arc<ConnectionManager>, latest: &Latest) -> Result<OpenedConnection, Error> {
    let connector = &manager.connector;
    let transport = connector.connect().await.map_err(|source| match source.is_unauthorized() {
        true => Kind::Transport(source),
        false => Kind::Unreachable { peer: connector.describe().into(), source },
    })?;
    let is_replacement = manager.negotiated().is_some();
    let connection = Connection::new(transport.sender(), &manager.config.limits, is_replacement);
    *latest.lock() = Some(Arc::clone(&connection));
    let (reading, alive) =
        (read(Arc::clone(&connection), Arc::clone(manager), transport), manager.connections.subscribe());
    tokio::spawn(async move {
        let _alive: watch::Receiver<()> = alive;
        reading.await;
    });
    if let Some(clocks) = manager.authorization.clone() {
        let (connection, longest) = (Arc::clone(&connection), manager.config.limits.login_pause);
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = connection.stopped() => {}
                never = follow(&connection.clock, &clocks.user, longest) => match never {},
            }
        });
    }
    Ok(OpenedConnection { connection, is_kept: false })
}

/// Sends pings at the configured interval. Returns when too many consecutive pings were not answered.
async fn keep_pinging(manager: &ConnectionManager, connection: &Arc<Connection>) {
    let config = &manager.config;
    let Some(interval) = config.ping_interval else { return pending().await };
    let mut missed = 0;
    while missed < config.ping_threshold.max(1) {
        sleep(interval).await;
        let clock = manager.authorization.as_ref().map(|clocks| &clocks.requests);
        let pinging = ping(manager, connection);
        let pinging = timeout_unless_paused(config.ping_timeout, config.limits.login_pause, clock, pinging);
        let answered = pinging.await.unwrap_or(false);
        missed = if answered { 0 } else { missed + 1 };
    }
}

/// Sends a ping. Returns true if the server is running: every answer counts, also an error.
async fn ping(manager: &ConnectionManager, connection: &Arc<Connection>) -> bool {
    let Some(agreed) = connection.agreed() else { return false };
    let version = agreed.negotiated.version;
    let name = if version.has_session_methods() { method::Ping::NAME } else { method::Discover::NAME };
    let Ok(request) = Request::new(name, &EmptyParams::new()) else { return false };
    let id = manager.next_id();
    let message = write_request(id, &request, agreed.meta_template(false), &RequestExtras::default());
    match connection.send_without_permit(id, message, hints(version, name), OnDrop::Cancel).await {
        Ok(mut guard) => guard.outcome().await.map_or_else(|failure| failure.is_answer(), |_| true),
        Err(_) => false,
    }
}
