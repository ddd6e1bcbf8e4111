//! The stream of a session on which the server speaks unasked (2025-03-26 to 2025-11-25): opened, kept open, resumed.

use std::{sync::Arc, time::Duration};

use mcp_transport::{Frame, TransportError};
use tokio::time::{Instant, sleep};

use crate::{
    link::Link,
    stream::{self, Events, Place, Refused},
};

/// How often it is tried to open a stream that was never there.
const MAX_FIRST_ATTEMPTS: u32 = 5;
/// A connection that lasted this long did not fail.
const LASTING: Duration = Duration::from_secs(30);

/// Listens until the server says that there is nothing to listen to. What may have been said meanwhile is told as missed, once the
/// stream is there again or never will be.
pub(crate) async fn run(link: Arc<Link>) {
    let mut place = Place::default();
    let mut was_open = false;
    loop {
        let began = Instant::now();
        let mut asked = Duration::ZERO;
        let is_resuming = place.last_event_id().is_some();
        match stream::open(&link, &place).await {
            Ok(events) => {
                if was_open && !is_resuming {
                    link.deliver(Err(TransportError::missed())).await;
                }
                was_open = true;
                if read(&link, events, &mut place, false).await || began.elapsed() >= LASTING {
                    place.succeeded();
                } else {
                    place.failed();
                }
            }
            Err(Refused::ForNow(_)) if place.failed() >= MAX_FIRST_ATTEMPTS && !was_open => {
                tracing::warn!("the server does not open a stream for what it says unasked");
                return;
            }
            Err(Refused::ForNow(wait)) => asked = wait.unwrap_or_default(),
            // It may be the place alone that it does not know any more.
            Err(Refused::ForGood(status)) if place.forget() => {
                tracing::debug!(%status, "the stream for what the server says unasked cannot be resumed");
            }
            Err(Refused::ForGood(status)) => {
                tracing::debug!(%status, "the server has no stream for what it says unasked");
                return missed(&link, was_open).await;
            }
            Err(Refused::SessionLost) => {
                link.deliver(Err(TransportError::session_lost())).await;
                return;
            }
            Err(Refused::Fault(fault)) => {
                tracing::warn!(%fault, "the stream for what the server says unasked cannot be opened");
                return missed(&link, was_open).await;
            }
        }
        sleep(place.wait().max(asked)).await;
    }
}

/// Tells that a stream that was there is gone for good.
async fn missed(link: &Link, was_open: bool) {
    if was_open {
        link.deliver(Err(TransportError::missed())).await;
    }
}

/// Gives on what comes on one connection, and what was too large when that may be an answer. Says whether anything came.
pub(crate) async fn read(link: &Link, mut events: Events, place: &mut Place, has_answers: bool) -> bool {
    let mut is_useful = false;
    while let Some(event) = events.next().await {
        is_useful = true;
        let inbound = match event {
            Ok(event) if event.is_message() => Ok(Frame::new(event.data)),
            Ok(_) => continue,
            Err(error) if has_answers => Err(error),
            Err(error) => {
                tracing::warn!(%error, "a message that the server sent unasked was skipped");
                continue;
            }
        };
        if !link.deliver(inbound).await {
            break;
        }
        place.note(&events);
    }
    place.note(&events) || is_useful
}
