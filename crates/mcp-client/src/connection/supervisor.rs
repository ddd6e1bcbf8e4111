//! Opens the connection, watches over it, and opens another one when it is lost.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{EmptyParams, Method, method};
use mcp_transport::{Hints, TransportError};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    Extra, Failure, Link, Negotiated, OnDrop, Request, Shared, Standing,
    era::{self, Stop, back_off},
    read, write_request,
};
use crate::{Error, error::Kind};

/// The shortest time between two attempts of which one is made because a call waits.
const HURRY: Duration = Duration::from_secs(1);

/// Opens a connection and agrees on a revision, within the time for it.
///
/// `known` is what was agreed with this server before. `trust` says whether that is enough where nothing has to be opened.
pub(crate) async fn open(shared: &Arc<Shared>, known: Option<&Negotiated>, trust: bool) -> Result<Arc<Link>, Error> {
    let limit = shared.config.connect;
    let opened = timeout(limit, agree(shared, known, trust)).await;
    let link = opened.unwrap_or_else(|_| Err(Error::timeout("opening the connection", limit)))?;
    let opened = Dialed { link, is_kept: false };
    era::ask_for_logs(shared, &opened.link).await;
    Ok(opened.keep())
}

/// Watches over a connection until the client is closed.
pub(crate) async fn supervise(shared: Arc<Shared>, mut link: Arc<Link>) {
    // Connections in a row that were lost before they were of any use.
    let mut losses = 0;
    loop {
        let answered = link.pending.answered();
        let since = Instant::now();
        tokio::select! {
            () = link.ended() => {}
            () = shared.closing.cancelled() => {
                shared.stand(Standing::Closed(Error::closed()));
                link.close(shared.config.limits.close).await;
                return;
            }
            () = keep_asking(&shared, &link) => {
                tracing::warn!("the server does not answer pings: the connection is given up");
                link.end(None);
            }
        }
        let policy = &shared.config.reconnect;
        if policy.attempts == 0 {
            shared.stand(Standing::Closed(Shared::lost(&link)));
            return;
        }
        losses = match since.elapsed() >= policy.longest {
            true => 0,
            false if link.pending.answered() != answered => 1,
            false => losses + 1,
        };
        tokio::select! {
            opened = reopen(&shared, &link, losses) => link = opened,
            () = shared.closing.cancelled() => {
                shared.stand(Standing::Closed(Error::closed()));
                return;
            }
        }
    }
}

/// Opens another connection. The one that is lost was one of so many that did not last: each makes the next one wait longer, and
/// too many are as good as attempts that failed.
async fn reopen(shared: &Arc<Shared>, lost: &Link, losses: u32) -> Arc<Link> {
    let policy = &shared.config.reconnect;
    let known = lost.agreed().filter(|_| !lost.is_assumed()).map(|agreed| agreed.negotiated.clone());
    let mut attempt = 1;
    let mut asked = Duration::ZERO;
    // Each wait is twice the one before.
    let mut waits = losses;
    let mut wait = if waits == 0 { Duration::ZERO } else { back_off(policy.first, policy.longest, waits) };
    if losses > policy.attempts {
        tracing::warn!(losses, "the server ends every connection: it is left until it is needed");
        rest(shared, &Shared::lost(lost), Duration::ZERO).await;
        (waits, wait) = (0, Duration::ZERO);
    }
    loop {
        shared.stand(Standing::Opening { attempt });
        let due = Instant::now() + wait;
        let (error, is_hopeless) = loop {
            let is_early = !until_due(shared, due, asked).await;
            let error = match open(shared, known.as_deref(), false).await {
                Ok(link) => {
                    shared.stand(Standing::Ready(link.clone()));
                    return link;
                }
                Err(error) => error,
            };
            tracing::debug!(%error, attempt, is_early, "the connection could not be opened again");
            let is_gone = error.is_unreachable() && error.is_closed();
            let is_lasting = error.transport().is_some_and(TransportError::is_lasting);
            let is_hopeless = error.is_version_mismatch() || error.is_unauthorized() || is_gone || is_lasting;
            if !is_early || is_hopeless || error.retry_after().is_some() {
                break (error, is_hopeless);
            }
            // It was one more than the policy counts.
            shared.count_failure(&error);
        };
        asked = error.retry_after().unwrap_or_default();
        if attempt >= policy.attempts || is_hopeless || asked > policy.longest {
            rest(shared, &error, asked).await;
            attempt = attempt.max(policy.attempts);
            (wait, asked) = (Duration::ZERO, Duration::ZERO);
        } else {
            shared.count_failure(&error);
            (attempt, waits) = (attempt + 1, waits + 1);
            wait = back_off(policy.first, policy.longest, waits).min(policy.longest).max(asked);
        }
    }
}

/// Waits until the next attempt is due, or a call begins to wait for it: then it is made earlier, though not within the time that
/// the server asked for, and not at once. Returns whether it is due.
async fn until_due(shared: &Shared, due: Instant, asked: Duration) -> bool {
    let hurry = shared.hurry.notified();
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
async fn rest(shared: &Shared, error: &Error, asked: Duration) {
    let since = Instant::now();
    loop {
        let failures = shared.count_failure(error);
        shared.stand(Standing::Down { error: error.clone(), failures });
        shared.wake.notified().await;
        if since.elapsed() >= asked {
            return;
        }
    }
}

async fn agree(shared: &Arc<Shared>, known: Option<&Negotiated>, trust: bool) -> Result<Arc<Link>, Error> {
    let config = &shared.config;
    let mut dialed = dial(shared).await?;
    let known = known.filter(|known| config.versions.contains(&known.version));
    if let Some(known) = known
        && known.version.is_stateless()
        && trust
    {
        era::agree(config, &dialed.link, known.clone());
        dialed.link.assume(true);
        return Ok(dialed.keep());
    }
    let first = known.map(|known| known.version).or(config.preferred).filter(|version| version.has_handshake());
    if let Some(version) = first {
        match era::initialize(shared, &dialed.link, version).await {
            Ok(_) => return Ok(dialed.keep()),
            Err(Stop::Refused(error)) => {
                tracing::debug!(%error, "the server does not open as it did or as was preferred");
            }
            Err(stop) => return Err(stop.into_error()),
        }
    }
    match era::detect(shared, &dialed.link).await {
        Ok(negotiated) => {
            era::agree(config, &dialed.link, negotiated);
            Ok(dialed.keep())
        }
        // Some servers of the revisions with a handshake end when the first message is not `initialize`.
        Err(Stop::Died(error)) if !known.is_some_and(|known| known.version.is_stateless()) => {
            let Some(version) = config.newest_legacy() else { return Err(error) };
            tracing::debug!(%error, "the server ended when it was asked what it speaks");
            dialed = dial(shared).await.map_err(|_| error)?;
            era::initialize(shared, &dialed.link, version).await.map_err(Stop::into_error)?;
            Ok(dialed.keep())
        }
        Err(stop) => Err(stop.into_error()),
    }
}

/// A connection that ends unless it is kept.
struct Dialed {
    link: Arc<Link>,
    is_kept: bool,
}

impl Dialed {
    fn keep(mut self) -> Arc<Link> {
        self.is_kept = true;
        Arc::clone(&self.link)
    }
}

impl Drop for Dialed {
    fn drop(&mut self) {
        if !self.is_kept {
            self.link.end(None);
        }
    }
}

async fn dial(shared: &Arc<Shared>) -> Result<Dialed, Error> {
    let connector = &shared.connector;
    let transport =
        connector.connect().await.map_err(|source| Kind::Unreachable { peer: connector.describe().into(), source })?;
    let link = Link::new(transport.sender(), shared.config.limits.pending);
    let (reading, alive) = (read(Arc::clone(&link), Arc::clone(shared), transport), shared.connections.subscribe());
    tokio::spawn(async move {
        let _alive: watch::Receiver<()> = alive;
        reading.await;
    });
    Ok(Dialed { link, is_kept: false })
}

/// Asks for a sign of life at intervals; returns when too many in a row did not come. Never returns when nobody wants it.
async fn keep_asking(shared: &Shared, link: &Arc<Link>) {
    let config = &shared.config;
    let Some(interval) = config.ping else { return std::future::pending().await };
    let mut missed = 0;
    while missed < config.ping_threshold.max(1) {
        sleep(interval).await;
        let answered = timeout(config.ping_timeout, ping(shared, link)).await.unwrap_or(false);
        missed = if answered { 0 } else { missed + 1 };
    }
}

/// Whether the server gives a sign of life: any answer is one, also a refusal and what makes no sense.
async fn ping(shared: &Shared, link: &Arc<Link>) -> bool {
    let Some(agreed) = link.agreed() else { return false };
    let version = agreed.negotiated.version;
    let name = if version.has_session_methods() { method::Ping::NAME } else { method::Discover::NAME };
    let Ok(request) = Request::new(name, &EmptyParams::new()) else { return false };
    let id = shared.next_id();
    let mut hints = Hints::default();
    hints.version = Some(version);
    hints.method = Some(name.into());
    let message = write_request(id, &request, agreed.stamp(false), &Extra::default());
    match link.begin_beside(id, message, hints, OnDrop::Cancel).await {
        Ok(mut ticket) => match ticket.outcome().await {
            Ok(_) | Err(Failure::Rpc(_) | Failure::Invalid(_)) => true,
            // A gateway says that nobody is behind it.
            Err(Failure::Transport(fault)) => fault.http_status().is_some_and(|status| !matches!(status, 502 | 504)),
            Err(_) => false,
        },
        Err(_) => false,
    }
}
