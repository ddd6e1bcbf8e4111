//! Keeps one subscription open, and reopens it on each new connection in the form of its revision.

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
    inbound::{OpenAttempt, UpdateQueue},
    retry::{EraTrust, RequestFailure, back_off, rejects_subscription},
};

/// The reason why a subscription is not open any more.
enum End {
    /// It can be reopened.
    Again(Error),
    /// The server changed its era, and answered with this error.
    Elsewhere(Error),
    /// There is no connection.
    Unreached(Error),
    /// The server rejects it. Another attempt would fail in the same way.
    Refused(Error),
}

/// The final error of a subscription.
struct Last {
    error: Error,
    is_refused: bool,
}

/// Keeps a subscription open. It ends when the client is closed, when the server rejects it, or when as many
/// consecutive attempts have failed as [`Reconnect`](crate::Reconnect) allows.
pub(super) async fn keep(core: Arc<ClientCore>, queue: Arc<UpdateQueue>) {
    let closing = core.connections.closing.clone();
    let end = closing.run_until_cancelled(reopen(&core, &queue)).await;
    queue.end(end.map(|last| last.error));
}

/// Keeps a subscription for callbacks open. After a failure it starts again as soon as there is a connection, and does
/// not cause attempts to connect.
pub(super) async fn keep_on(core: &Arc<ClientCore>, filter: &SubscriptionFilter) -> Error {
    let queue = Arc::new(UpdateQueue::new(filter.clone()));
    loop {
        let last = reopen(core, &queue).await;
        if core.connections.is_closed() || last.is_refused {
            return last.error;
        }
        tracing::debug!(error = %last.error, "the subscription is interrupted");
        sleep(core.config.reconnect.longest).await;
        core.connections.ready().await;
    }
}

async fn reopen(core: &Arc<ClientCore>, queue: &Arc<UpdateQueue>) -> Last {
    let policy = &core.config.reconnect;
    // The attempts since the last lasting one determine the wait. The failures since the last open one determine the end.
    let (mut attempt, mut failures) = (0, 0);
    let mut has_been_open = false;
    let _leave = Leave(core, queue);
    loop {
        let since = Instant::now();
        let mut was_open = false;
        let end = match core.connections.connection().await {
            Ok(connection) => match connection.agreed() {
                Some(agreed) if agreed.negotiated.version.has_listen() => {
                    match listen(core, &connection, agreed, queue).await {
                        Ok(end) => end,
                        Err(failure) => {
                            // The check of the era can take long. The observers do not wait for it.
                            was_open = queue.interrupt();
                            judge(core, &connection, failure).await
                        }
                    }
                }
                Some(_) => follow(core, &connection, queue).await,
                None => End::Again(Error::closed()),
            },
            // All attempts to connect have failed. The next call or subscription causes another one.
            Err(error) => End::Unreached(error),
        };
        was_open |= queue.interrupt();
        has_been_open |= was_open;
        failures = if was_open { 0 } else { failures + 1 };
        match end {
            End::Refused(error) => return Last { error, is_refused: true },
            End::Unreached(error) => return Last { error, is_refused: false },
            // A server that changes its era each time is not followed forever.
            End::Elsewhere(error) if failures >= policy.attempts.max(1) => return Last { error, is_refused: true },
            End::Elsewhere(_) => continue,
            // A caller that waits for the first acknowledgement receives the error.
            End::Again(error) if !has_been_open || failures >= policy.attempts.max(1) => {
                return Last { error, is_refused: false };
            }
            End::Again(error) => tracing::debug!(%error, "a subscription ended, and is opened again"),
        }
        attempt = if was_open && since.elapsed() > policy.longest { 1 } else { attempt + 1 };
        sleep(back_off(policy.first, policy.longest, attempt)).await;
    }
}

/// Removes the subscription from the session when the work that added it ends.
struct Leave<'a>(&'a Arc<ClientCore>, &'a Arc<UpdateQueue>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        leave(self.0, self.1);
    }
}

/// Subscribes with a request that stays open (2026-07-28). The error is the outcome of the request.
async fn listen(
    core: &Arc<ClientCore>,
    connection: &Arc<Connection>,
    agreed: &Agreement,
    queue: &Arc<UpdateQueue>,
) -> Result<End, RequestFailure> {
    let request = match Request::of::<Listen>(&ListenParams::new(queue.filter().clone())) {
        Ok(request) => request,
        Err(error) => return Ok(End::Refused(error)),
    };
    let id = core.connections.next_id();
    let hints = connection::hints(agreed.negotiated.version, Listen::NAME);
    let message = connection::write_request(
        id,
        &request,
        agreed.meta_template(!queue.filter().task_ids.is_empty()),
        &RequestExtras::default(),
    );
    let sending = connection.send_subscription(id, message, hints, Arc::new(OpenAttempt::new(queue)));
    // Only the acknowledgement has a time limit, the stream has none.
    let limit = core.config.idle_timeout.unwrap_or(Duration::MAX);
    let mut guard = match timeout(limit, sending).await {
        Ok(Ok(guard)) => guard,
        Ok(Err(failure)) => return Ok(ended(failure)),
        Err(_) => return Ok(End::Again(Error::timeout(Listen::NAME, limit))),
    };
    let outcome = tokio::select! {
        biased;
        outcome = guard.outcome() => outcome,
        opened = timeout(limit, queue.opened()) => match opened {
            Ok(_) => guard.outcome().await,
            Err(_) => return Ok(End::Again(Error::timeout(Listen::NAME, limit))),
        },
    };
    // A result means that the server ended the subscription without an error.
    outcome.map(|_| End::Again(Kind::Lost(None).into()))
}

/// Decides how to continue after the request of a subscription failed.
async fn judge(core: &Arc<ClientCore>, connection: &Arc<Connection>, failure: RequestFailure) -> End {
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

fn ended(failure: RequestFailure) -> End {
    if failure.rejects_subscription() { End::Refused(failure.into()) } else { End::Again(failure.into()) }
}

/// Subscribes in a session: requests select the resources, and the session delivers all notifications.
async fn follow(core: &Arc<ClientCore>, connection: &Arc<Connection>, queue: &Arc<UpdateQueue>) -> End {
    // This comes before the request, so that no notification is missed.
    core.inbound.subscribers.join(queue);
    for uri in &queue.filter().resource_subscriptions {
        // The server could receive an earlier request to unsubscribe after this request, and report no changes.
        core.inbound.subscribers.left(uri).await;
        let mut request = match Request::of::<Subscribe>(&SubscribeParams::new(uri)) {
            Ok(request) => request,
            Err(error) => return End::Refused(error),
        };
        let mut options = CallOptions {
            idle_timeout: core.config.idle_timeout,
            total_timeout: core.config.idle_timeout,
            ..CallOptions::default()
        };
        if let Err(error) = execute(core, &mut request, &mut options).await {
            return match rejects_subscription(&error) {
                true => End::Refused(error),
                false => End::Again(error),
            };
        }
    }
    queue.open(queue.attempt(), offered(connection, queue.filter()));
    connection.ended().await;
    End::Again(connection.lost())
}

/// Returns the part of a filter that a session server reports.
fn offered(connection: &Connection, wanted: &SubscriptionFilter) -> SubscriptionFilter {
    let mut offered = wanted.clone();
    offered.task_ids = Vec::new();
    let Some(agreed) = connection.agreed() else { return offered };
    let capabilities = &agreed.negotiated.capabilities;
    let filter =
        |flag: &mut Option<bool>, list_changed: Option<bool>| *flag = flag.filter(|_| list_changed == Some(true));
    filter(&mut offered.tools_list_changed, capabilities.tools.as_ref().and_then(|tools| tools.list_changed));
    filter(&mut offered.prompts_list_changed, capabilities.prompts.as_ref().and_then(|prompts| prompts.list_changed));
    let resources = capabilities.resources.as_ref().and_then(|resources| resources.list_changed);
    filter(&mut offered.resources_list_changed, resources);
    offered
}
