//! Keeps one subscription open: on every connection anew, in the way of its revision.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{
    ErrorCode, ListenParams, Method, SubscribeParams, SubscriptionFilter,
    method::{Listen, Subscribe},
};
use mcp_transport::{Hints, TransportError};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    Error,
    call::{Options, drive},
    connection::{
        self, Agreed, Extra, Failure, Link, Request, Shared,
        era::{self, back_off},
    },
    error::Kind,
    inbound::Inbox,
};

/// Why a subscription is not open any more.
enum End {
    /// It may be opened again.
    Again(Error),
    /// The server is of another era than it was taken for: this is what it said.
    Elsewhere(Error),
    /// There is no connection to open it on.
    Unreached(Error),
    /// The server refuses it, or it cannot be asked for: it will not work another time either.
    Refused(Error),
}

/// What a subscription ends with for good.
struct Last {
    error: Error,
    is_refused: bool,
}

/// Keeps a subscription open until the client is closed, the server says that there is none, or as many attempts in a row have
/// failed as are made at a connection.
pub(super) async fn keep(shared: Arc<Shared>, inbox: Arc<Inbox>) {
    let closing = shared.closing.clone();
    let end = closing.run_until_cancelled(reopen(&shared, &inbox)).await;
    inbox.end(end.map(|last| last.error));
}

/// The same for callbacks, whom nobody would open again: what ends otherwise than by a refusal is begun anew, whenever there is a
/// connection. A server that was given up is left alone until somebody else needs it.
pub(super) async fn keep_on(shared: &Arc<Shared>, filter: &SubscriptionFilter) -> Error {
    loop {
        let last = reopen(shared, &Arc::new(Inbox::new(filter.clone()))).await;
        if shared.is_closed() || last.is_refused {
            return last.error;
        }
        tracing::debug!(error = %last.error, "nothing tells what changes for now");
        sleep(shared.config.reconnect.longest).await;
        shared.ready().await;
    }
}

async fn reopen(shared: &Arc<Shared>, inbox: &Arc<Inbox>) -> Last {
    let policy = &shared.config.reconnect;
    // Attempts since the last that lasted, for the wait, and since the last that opened it, for the end.
    let (mut attempt, mut failures) = (0, 0);
    let mut has_been_open = false;
    let _leave = Leave(shared, inbox);
    loop {
        let since = Instant::now();
        let end = match shared.link().await {
            Ok(link) => match link.agreed() {
                Some(agreed) if agreed.negotiated.version.has_listen() => listen(shared, &link, agreed, inbox).await,
                Some(_) => follow(shared, &link, inbox).await,
                None => End::Again(Error::closed()),
            },
            // Every attempt at a connection has failed, and one more: the next call makes another one, as do those who subscribe
            // again.
            Err(error) => End::Unreached(error),
        };
        let was_open = inbox.interrupt();
        has_been_open |= was_open;
        failures = if was_open { 0 } else { failures + 1 };
        match end {
            End::Refused(error) => return Last { error, is_refused: true },
            End::Unreached(error) => return Last { error, is_refused: false },
            // One that changes its mind each time is not followed for ever.
            End::Elsewhere(error) if failures >= policy.attempts.max(1) => return Last { error, is_refused: true },
            End::Elsewhere(_) => continue,
            // Whoever waits for the first time is told what is wrong.
            End::Again(error) if !has_been_open || failures >= policy.attempts.max(1) => {
                return Last { error, is_refused: false };
            }
            End::Again(error) => tracing::debug!(%error, "a subscription ended, and is opened again"),
        }
        attempt = if was_open && since.elapsed() > policy.longest { 1 } else { attempt + 1 };
        sleep(back_off(policy.first, policy.longest, attempt)).await;
    }
}

/// Leaves the session's subscribers with the work that joined them, wherever that is stopped: after it, never before.
struct Leave<'a>(&'a Arc<Shared>, &'a Arc<Inbox>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.subscribers.leave(self.0, self.1);
    }
}

/// Listens by a request that stays open (2026-07-28).
async fn listen(shared: &Arc<Shared>, link: &Arc<Link>, agreed: &Agreed, inbox: &Arc<Inbox>) -> End {
    let request = match Request::of::<Listen>(&ListenParams::new(inbox.filter().clone())) {
        Ok(request) => request,
        Err(error) => return End::Refused(error),
    };
    let id = shared.next_id();
    let mut hints = Hints::default();
    hints.version = Some(agreed.negotiated.version);
    hints.method = Some(Listen::NAME.into());
    let message =
        connection::write_request(id, &request, agreed.stamp(!inbox.filter().task_ids.is_empty()), &Extra::default());
    let beginning = link.begin_listening(id, message, hints, Arc::clone(inbox));
    // The acknowledgement comes before anything else; the stream itself has no bound.
    let patience = shared.config.idle.unwrap_or(Duration::MAX);
    let mut ticket = match timeout(patience, beginning).await {
        Ok(Ok(ticket)) => ticket,
        Ok(Err(failure)) => return ended(failure),
        Err(_) => return End::Again(Error::timeout(Listen::NAME, patience)),
    };
    let outcome = tokio::select! {
        biased;
        outcome = ticket.outcome() => outcome,
        opened = timeout(patience, inbox.opened()) => match opened {
            Ok(_) => ticket.outcome().await,
            Err(_) => return End::Again(Error::timeout(Listen::NAME, patience)),
        },
    };
    match outcome {
        // The server ended it in good order.
        Ok(_) => End::Again(Kind::Lost(None).into()),
        Err(failure) => {
            let is_doubtful = link.is_assumed() || era::is_doubtful(link, &failure);
            if is_doubtful && era::has_changed(shared, link).await {
                return End::Elsewhere(error(failure));
            }
            match failure {
                Failure::Rpc(error) if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
                    link.retire(TransportError::closed());
                    End::Elsewhere(Kind::Rpc(error).into())
                }
                failure => ended(failure),
            }
        }
    }
}

fn ended(failure: Failure) -> End {
    let is_refused = match &failure {
        Failure::Rpc(_) | Failure::Unsendable(_) => true,
        Failure::Transport(fault) => {
            fault.http_status().is_some_and(|status| (400..500).contains(&status) && !matches!(status, 408 | 425 | 429))
        }
        Failure::Invalid(_) | Failure::Lost { .. } => false,
    };
    if is_refused { End::Refused(error(failure)) } else { End::Again(error(failure)) }
}

fn error(failure: Failure) -> Error {
    match failure {
        Failure::Rpc(error) => Kind::Rpc(error).into(),
        Failure::Invalid(text) => Error::invalid(text),
        Failure::Unsendable(fault) => Kind::Unsendable(fault).into(),
        Failure::Transport(fault) => Kind::Transport(fault).into(),
        Failure::Lost { fault, .. } => Kind::Lost(fault).into(),
    }
}

/// Listens to a session: what is wanted of resources is said by requests, and the notices come by themselves.
async fn follow(shared: &Arc<Shared>, link: &Arc<Link>, inbox: &Arc<Inbox>) -> End {
    // Before it is said, so that nothing is missed.
    shared.subscribers.join(inbox);
    for uri in &inbox.filter().resource_subscriptions {
        let request = match Request::of::<Subscribe>(&SubscribeParams::new(uri)) {
            Ok(request) => request,
            Err(error) => return End::Refused(error),
        };
        let options = Options { idle: shared.config.idle, total: shared.config.idle, ..Options::default() };
        if let Err(error) = drive(shared, request, options).await {
            return if error.rpc().is_some() || error.is_unsupported() {
                End::Refused(error)
            } else {
                End::Again(error)
            };
        }
    }
    inbox.open(offered(link, inbox.filter()));
    link.ended().await;
    End::Again(Shared::lost(link))
}

/// What a server of sessions tells, of what is wanted.
fn offered(link: &Link, wanted: &SubscriptionFilter) -> SubscriptionFilter {
    let mut offered = wanted.clone();
    offered.task_ids = Vec::new();
    let Some(agreed) = link.agreed() else { return offered };
    let capabilities = &agreed.negotiated.capabilities;
    let told =
        |flag: &mut Option<bool>, list_changed: Option<bool>| *flag = flag.filter(|_| list_changed == Some(true));
    told(&mut offered.tools_list_changed, capabilities.tools.as_ref().and_then(|tools| tools.list_changed));
    told(&mut offered.prompts_list_changed, capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed));
    let resources = capabilities.resources.as_ref().and_then(|resources| resources.list_changed);
    told(&mut offered.resources_list_changed, resources);
    offered
}
