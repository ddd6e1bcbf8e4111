//! Keeps one subscription open: on every connection anew, in the way of its revision.

use std::{sync::Arc, time::Duration};

use mcp_protocol::{
    ErrorCode, ListenParams, Method, SubscribeParams, SubscriptionFilter,
    method::{Listen, Subscribe},
};
use mcp_transport::TransportError;
use tokio::time::{Instant, sleep, timeout};

use super::unsubscribe::leave;
use crate::{
    Error,
    call::{CallOptions, ClientCore, execute},
    connection::{self, Agreement, Connection, Request, RequestExtras, era_check},
    error::Kind,
    inbound::UpdateQueue,
    retry::{EraTrust, RequestFailure, back_off},
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
pub(super) async fn keep(core: Arc<ClientCore>, inbox: Arc<UpdateQueue>) {
    let closing = core.connections.closing.clone();
    let end = closing.run_until_cancelled(reopen(&core, &inbox)).await;
    inbox.end(end.map(|last| last.error));
}

/// The same for callbacks, whom nobody would open again: what ends otherwise than by a refusal is begun anew, whenever there is a
/// connection. A server that was given up is left alone until somebody else needs it.
pub(super) async fn keep_on(core: &Arc<ClientCore>, filter: &SubscriptionFilter) -> Error {
    loop {
        let last = reopen(core, &Arc::new(UpdateQueue::new(filter.clone()))).await;
        if core.connections.is_closed() || last.is_refused {
            return last.error;
        }
        tracing::debug!(error = %last.error, "nothing tells what changes for now");
        sleep(core.config.reconnect.longest).await;
        core.connections.ready().await;
    }
}

async fn reopen(core: &Arc<ClientCore>, inbox: &Arc<UpdateQueue>) -> Last {
    let policy = &core.config.reconnect;
    // Attempts since the last that lasted, for the wait, and since the last that opened it, for the end.
    let (mut attempt, mut failures) = (0, 0);
    let mut has_been_open = false;
    let _leave = Leave(core, inbox);
    loop {
        let since = Instant::now();
        let end = match core.connections.connection().await {
            Ok(connection) => match connection.agreed() {
                Some(agreed) if agreed.negotiated.version.has_listen() => {
                    listen(core, &connection, agreed, inbox).await
                }
                Some(_) => follow(core, &connection, inbox).await,
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
struct Leave<'a>(&'a Arc<ClientCore>, &'a Arc<UpdateQueue>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        leave(self.0, self.1);
    }
}

/// Listens by a request that stays open (2026-07-28).
async fn listen(
    core: &Arc<ClientCore>,
    connection: &Arc<Connection>,
    agreed: &Agreement,
    inbox: &Arc<UpdateQueue>,
) -> End {
    let request = match Request::of::<Listen>(&ListenParams::new(inbox.filter().clone())) {
        Ok(request) => request,
        Err(error) => return End::Refused(error),
    };
    let id = core.connections.next_id();
    let hints = connection::hints(agreed.negotiated.version, Listen::NAME);
    let message = connection::write_request(
        id,
        &request,
        agreed.stamp(!inbox.filter().task_ids.is_empty()),
        &RequestExtras::default(),
    );
    let beginning = connection.begin_listening(id, message, hints, inbox.clone());
    // The acknowledgement comes before anything else; the stream itself has no bound.
    let patience = core.config.idle_timeout.unwrap_or(Duration::MAX);
    let mut guard = match timeout(patience, beginning).await {
        Ok(Ok(guard)) => guard,
        Ok(Err(failure)) => return ended(failure),
        Err(_) => return End::Again(Error::timeout(Listen::NAME, patience)),
    };
    let outcome = tokio::select! {
        biased;
        outcome = guard.outcome() => outcome,
        opened = timeout(patience, inbox.opened()) => match opened {
            Ok(_) => guard.outcome().await,
            Err(_) => return End::Again(Error::timeout(Listen::NAME, patience)),
        },
    };
    match outcome {
        // The server ended it in good order.
        Ok(_) => End::Again(Kind::Lost(None).into()),
        Err(failure) => {
            let trust = connection.era_trust();
            let is_doubtful = trust == EraTrust::Assumed || failure.suggests_other_era(trust, true);
            if is_doubtful && era_check::has_changed(&core.connections, connection).await {
                return End::Elsewhere(failure.into());
            }
            match failure {
                RequestFailure::Rpc(error) if error.code == ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
                    connection.retire(TransportError::closed());
                    End::Elsewhere(Kind::Rpc(error).into())
                }
                failure => ended(failure),
            }
        }
    }
}

fn ended(failure: RequestFailure) -> End {
    if failure.rejects_subscription() { End::Refused(failure.into()) } else { End::Again(failure.into()) }
}

/// Listens to a session: what is wanted of resources is said by requests, and the notices come by themselves.
async fn follow(core: &Arc<ClientCore>, connection: &Arc<Connection>, inbox: &Arc<UpdateQueue>) -> End {
    // Before it is said, so that nothing is missed.
    core.inbound.subscribers.join(inbox);
    for uri in &inbox.filter().resource_subscriptions {
        let request = match Request::of::<Subscribe>(&SubscribeParams::new(uri)) {
            Ok(request) => request,
            Err(error) => return End::Refused(error),
        };
        let options = CallOptions {
            idle_timeout: core.config.idle_timeout,
            total_timeout: core.config.idle_timeout,
            ..CallOptions::default()
        };
        if let Err(error) = execute(core, request, options).await {
            return if error.rpc().is_some() || error.is_unsupported() {
                End::Refused(error)
            } else {
                End::Again(error)
            };
        }
    }
    inbox.open(offered(connection, inbox.filter()));
    connection.ended().await;
    End::Again(connection.lost())
}

/// What a server of sessions tells, of what is wanted.
fn offered(connection: &Connection, wanted: &SubscriptionFilter) -> SubscriptionFilter {
    let mut offered = wanted.clone();
    offered.task_ids = Vec::new();
    let Some(agreed) = connection.agreed() else { return offered };
    let capabilities = &agreed.negotiated.capabilities;
    let told =
        |flag: &mut Option<bool>, list_changed: Option<bool>| *flag = flag.filter(|_| list_changed == Some(true));
    told(&mut offered.tools_list_changed, capabilities.tools.as_ref().and_then(|tools| tools.list_changed));
    told(&mut offered.prompts_list_changed, capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed));
    let resources = capabilities.resources.as_ref().and_then(|resources| resources.list_changed);
    told(&mut offered.resources_list_changed, resources);
    offered
}
