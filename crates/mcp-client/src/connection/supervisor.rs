//! Opens the connection, watches over it, and opens another one when it is lost.

use std::{convert::Infallible, sync::Arc, time::Duration};

use mcp_protocol::{EmptyParams, Method, method};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    Connection, ConnectionManager, ECHO, Negotiated, OnDrop, Request, RequestExtras, Status,
    era::{self, HandshakeError},
    hints, read, write_request,
};
use crate::{
    Error,
    error::Kind,
    retry::{back_off, is_permanent},
    slow_start::{SlowStart, SlowStartReport},
};

/// The shortest time between two attempts of which one is made because a call waits.
const HURRY: Duration = Duration::from_secs(1);

/// Opens a connection and agrees on a revision, within the time for it.
///
/// `known` is what was agreed with this server before. `trust` says whether that is enough where nothing has to be opened.
pub(crate) async fn open(
    manager: &Arc<ConnectionManager>,
    known: Option<&Negotiated>,
    trust: bool,
) -> Result<Arc<Connection>, Error> {
    let limit = manager.config.connect_timeout;
    let latest = Mutex::default();
    let opened = tokio::select! {
        opened = timeout(limit, agree(manager, &latest, known, trust)) => opened,
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

/// Calls the function for slow starts once, then never returns.
async fn report_slow_start(manager: &ConnectionManager, latest: &Latest) -> Infallible {
    if let Some(SlowStartReport { after, report }) = &manager.config.slow_start {
        sleep(*after).await;
        let peer = manager.connector.describe();
        report(&SlowStart::new(&peer, *after, stderr(latest)));
    }
    std::future::pending().await
}

/// The newest connection that is being opened.
type Latest = Mutex<Option<Arc<Connection>>>;

fn stderr(latest: &Latest) -> Vec<String> {
    latest.lock().as_ref().map(|connection| connection.sender.stderr()).unwrap_or_default()
}

/// Returns the error of a peer that is not an MCP server, if that explains why the connection could not be opened.
fn with_foreign_act(manager: &ConnectionManager, connection: &Connection, error: Error) -> Error {
    match connection.foreign() {
        Some(act) if error.is_timeout() || error.is_closed() => {
            let (peer, act) = (manager.connector.describe().into(), act.into());
            Kind::NotAServer { peer, act, cause: error }.into()
        }
        _ => error,
    }
}

/// Watches over a connection until the client is closed.
pub(crate) async fn supervise(manager: Arc<ConnectionManager>, mut connection: Arc<Connection>) {
    // Connections in a row that were lost before they were of any use.
    let mut losses = 0;
    loop {
        let answered = connection.pending.answered();
        let since = Instant::now();
        tokio::select! {
            () = connection.ended() => {}
            () = manager.closing.cancelled() => {
                manager.set_status(Status::Closed(Error::closed()));
                connection.close(manager.config.limits.close).await;
                return;
            }
            () = keep_asking(&manager, &connection) => {
                tracing::warn!("the server does not answer pings: the connection is given up");
                connection.end(None);
            }
        }
        let policy = &manager.config.reconnect;
        if policy.attempts == 0 {
            manager.set_status(Status::Closed(connection.lost()));
            return;
        }
        losses = match since.elapsed() >= policy.longest {
            true => 0,
            false if connection.pending.answered() != answered => 1,
            false => losses + 1,
        };
        tokio::select! {
            opened = reopen(&manager, &connection, losses) => connection = opened,
            () = manager.closing.cancelled() => {
                manager.set_status(Status::Closed(Error::closed()));
                return;
            }
        }
    }
}

/// Opens another connection. The one that is lost was one of so many that did not last: each makes the next one wait longer, and
/// too many are as good as attempts that failed.
async fn reopen(manager: &Arc<ConnectionManager>, lost: &Connection, losses: u32) -> Arc<Connection> {
    let policy = &manager.config.reconnect;
    let known = lost.agreed().filter(|_| !lost.is_assumed()).map(|agreed| agreed.negotiated.clone());
    let mut attempt = 1;
    let mut asked = Duration::ZERO;
    // Each wait is twice the one before.
    let mut waits = losses;
    let mut wait = if waits == 0 { Duration::ZERO } else { back_off(policy.first, policy.longest, waits) };
    if losses > policy.attempts {
        tracing::warn!(losses, "the server ends every connection: it is left until it is needed");
        rest(manager, &lost.lost(), Duration::ZERO).await;
        (waits, wait) = (0, Duration::ZERO);
    }
    loop {
        manager.set_status(Status::Opening { attempt });
        let due = Instant::now() + wait;
        let (error, is_hopeless) = loop {
            let is_early = !until_due(manager, due, asked).await;
            let error = match open(manager, known.as_deref(), false).await {
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
            // It was one more than the policy counts.
            manager.count_failure(&error);
        };
        asked = error.retry_after().unwrap_or_default();
        if attempt >= policy.attempts || is_hopeless || asked > policy.longest {
            rest(manager, &error, asked).await;
            attempt = attempt.max(policy.attempts);
            (wait, asked) = (Duration::ZERO, Duration::ZERO);
        } else {
            manager.count_failure(&error);
            (attempt, waits) = (attempt + 1, waits + 1);
            wait = back_off(policy.first, policy.longest, waits).min(policy.longest).max(asked);
        }
    }
}

/// Waits until the next attempt is due, or a call begins to wait for it: then it is made earlier, though not within the time that
/// the server asked for, and not at once. Returns whether it is due.
async fn until_due(manager: &ConnectionManager, due: Instant, asked: Duration) -> bool {
    let hurry = manager.hurry.notified();
    let earliest = Instant::now() + asked.max(HURRY);
    if earliest >= due {
        sleep_until(due).await;
        return true;
    }
    sleep_until(earliest).await;
    tokio::select! {
        () = sleep_until(due) => true,
        () = hurry => false,
    }
}

/// Bothers nobody until somebody needs the server, and not before the time that it asked for is over: until then who needs it is
/// told the same.
async fn rest(manager: &ConnectionManager, error: &Error, asked: Duration) {
    let since = Instant::now();
    loop {
        let failures = manager.count_failure(error);
        manager.set_status(Status::Down { error: error.clone(), failures });
        manager.wake.notified().await;
        if since.elapsed() >= asked {
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
                tracing::debug!(%error, "the server does not open as it did or as was preferred");
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
        // Some servers of the revisions with a handshake end when the first message is not `initialize`.
        Err(HandshakeError::Died(error)) if !known.is_some_and(|known| known.version.is_stateless()) => {
            let Some(version) = config.newest_legacy() else { return Err(error) };
            tracing::debug!(%error, "the server ended when it was asked what it speaks");
            dialed = dial(manager, latest).await.map_err(|_| error)?;
            era::initialize(manager, &dialed.connection, version).await.map_err(HandshakeError::into_error)?;
            Ok(dialed.keep())
        }
        Err(stop) => Err(stop.into_error()),
    }
}

/// A connection that ends unless it is kept.
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
    let transport =
        connector.connect().await.map_err(|source| Kind::Unreachable { peer: connector.describe().into(), source })?;
    let connection = Connection::new(transport.sender(), manager.config.limits.pending);
    *latest.lock() = Some(Arc::clone(&connection));
    let (reading, alive) =
        (read(Arc::clone(&connection), Arc::clone(manager), transport), manager.connections.subscribe());
    tokio::spawn(async move {
        let _alive: watch::Receiver<()> = alive;
        reading.await;
    });
    Ok(OpenedConnection { connection, is_kept: false })
}

/// Asks for a sign of life at intervals; returns when too many in a row did not come. Never returns when nobody wants it.
async fn keep_asking(manager: &ConnectionManager, connection: &Arc<Connection>) {
    let config = &manager.config;
    let Some(interval) = config.ping_interval else { return std::future::pending().await };
    let mut missed = 0;
    while missed < config.ping_threshold.max(1) {
        sleep(interval).await;
        let answered = timeout(config.ping_timeout, ping(manager, connection)).await.unwrap_or(false);
        missed = if answered { 0 } else { missed + 1 };
    }
}

/// Whether the server gives a sign of life: any answer is one, also a refusal and what makes no sense.
async fn ping(manager: &ConnectionManager, connection: &Arc<Connection>) -> bool {
    let Some(agreed) = connection.agreed() else { return false };
    let version = agreed.negotiated.version;
    let name = if version.has_session_methods() { method::Ping::NAME } else { method::Discover::NAME };
    let Ok(request) = Request::new(name, &EmptyParams::new()) else { return false };
    let id = manager.next_id();
    let message = write_request(id, &request, agreed.stamp(false), &RequestExtras::default());
    match connection.begin_beside(id, message, hints(version, name), OnDrop::Cancel).await {
        Ok(mut guard) => guard.outcome().await.map_or_else(|failure| failure.is_answer(), |_| true),
        Err(_) => false,
    }
}
