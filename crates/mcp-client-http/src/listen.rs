//! The stream of a session for messages that belong to no request (2025-03-26 to 2025-11-25): opened, kept open,
//! resumed.

use std::{sync::Arc, time::Duration};

use mcp_transport::{Frame, TransportError};
use tokio::time::{Instant, sleep};

use crate::{
    shared::Shared,
    stream::{self, EventStream, Position, Refused},
};

/// The number of attempts to open a stream that was never open.
const MAX_FIRST_ATTEMPTS: u32 = 5;
/// A connection that lasted this long did not fail.
const LASTING: Duration = Duration::from_secs(30);

/// Reads the stream until the server rejects it. If messages may have been lost, the reader is notified once the stream
/// is open again or is rejected.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut position = Position::default();
    let mut was_open = false;
    // Whether the server may have opened a stream whose response was lost.
    let mut may_have_missed = false;
    loop {
        let began = Instant::now();
        let mut requested_wait = Duration::ZERO;
        let is_resuming = position.last_event_id().is_some();
        match stream::open(&shared, &position).await {
            Ok(events) => {
                if (was_open || may_have_missed) && !is_resuming {
                    shared.deliver(Err(TransportError::missed())).await;
                }
                (was_open, may_have_missed) = (true, false);
                if read(&shared, events, &mut position, false).await || began.elapsed() >= LASTING {
                    position.succeeded();
                } else {
                    position.failed();
                }
            }
            Err(Refused::ForNow { .. }) if position.failed() >= MAX_FIRST_ATTEMPTS && !was_open => {
                tracing::warn!("the server does not open the stream of the session");
                return;
            }
            Err(Refused::ForNow { wait, is_answered }) => {
                may_have_missed |= !is_answered;
                requested_wait = wait.unwrap_or_default();
            }
            // The server may have forgotten the position alone.
            Err(Refused::ForGood(status)) if position.forget() => {
                tracing::debug!(%status, "the stream of the session cannot be resumed");
            }
            Err(Refused::ForGood(status)) => {
                tracing::debug!(%status, "the server has no stream for the session");
                return missed(&shared, was_open).await;
            }
            Err(Refused::SessionLost) => {
                shared.deliver(Err(TransportError::session_lost())).await;
                return;
            }
            Err(Refused::Fault(fault)) => {
                tracing::warn!(%fault, "the stream of the session cannot be opened");
                return missed(&shared, was_open).await;
            }
        }
        sleep(position.wait().max(requested_wait)).await;
    }
}

/// Notifies the reader of lost messages, if the stream was open.
async fn missed(shared: &Shared, was_open: bool) {
    if was_open {
        shared.deliver(Err(TransportError::missed())).await;
    }
}

/// Delivers the messages of one connection. With `has_answers`, it also delivers the fault of a message that is too
/// large, because that can be an answer.
///
/// Returns true if anything was received.
pub(crate) async fn read(shared: &Shared, mut events: EventStream, position: &mut Position, has_answers: bool) -> bool {
    let mut is_useful = false;
    while let Some(event) = events.next().await {
        is_useful = true;
        let inbound = match event {
            Ok(event) if event.is_message() => Ok(Frame::new(event.data)),
            Ok(_) => continue,
            Err(error) if has_answers => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a message on the stream of the session was skipped");
                continue;
            }
        };
        if !shared.deliver(inbound).await {
            break;
        }
        position.note(&events);
    }
    position.note(&events) || is_useful
}
