//! A request of the protocol: its POST, and whatever way its answer comes back.

use std::{sync::Arc, time::Duration};

use http::{HeaderMap, StatusCode};
use mcp_protocol::{
    RequestId,
    jsonrpc::{self, Beginning, EnvelopeError, Message},
};
use mcp_transport::{Frame, Route, TransportError};
use reqwest::Response;
use tokio::time::{sleep, timeout};

use crate::{
    exchange::{self, Exchange},
    fault::Fault,
    headers::{self, content_type},
    link::Link,
    old,
    refusal::{Refused, refusal},
    stream::{self, Events, Place},
};

/// Connections in a row that bring nothing before a stream is given up.
const MAX_FAILURES: u32 = 5;
/// How long the end of a stream may take to come once the answer is there, so that its connection can be used again.
const DRAIN: Duration = Duration::from_secs(1);
/// How much may come in that time.
const DRAIN_LEN: usize = 64 * 1024;

/// Posts a request and gives its answer on, or the fault that stands for it.
pub(crate) async fn run(link: Arc<Link>, id: RequestId, frame: Frame, headers: HeaderMap) {
    if let Err(error) = answer(&link, &id, &frame, headers).await {
        link.tasks.answered(&id);
        link.deliver(Err(error.of_request(id))).await;
    }
}

async fn answer(link: &Arc<Link>, id: &RequestId, frame: &Frame, mut headers: HeaderMap) -> Result<(), TransportError> {
    let is_old = link.endpoint.get().is_some();
    let in_session = link.name_session(&mut headers, &frame.hints) || is_old;
    let response = Exchange::post(link, headers, frame.message.clone()).send(link, None).await;
    let response = response.map_err(Fault::into_error)?;
    let status = response.status();
    if status == StatusCode::NOT_FOUND && in_session {
        return Err(TransportError::session_lost());
    }
    let opens_session = frame.hints.method.as_deref() == Some("initialize") && !headers::is_stateless(&frame.hints);
    if status.is_success() {
        if is_old {
            // The answer comes on the stream of the session.
            return Ok(());
        }
        if opens_session {
            link.open_session(headers::session(response.headers()));
        }
        return read(link, id, frame, response).await;
    }
    let refused = Box::pin(refusal(link, response, in_session)).await;
    if opens_session && !is_old && refused.may_be_old(status) {
        match Box::pin(old::open(link)).await {
            Ok(()) => {
                let headers = link.message_headers(&frame.hints).map_err(Fault::into_error)?;
                return Box::pin(answer(link, id, frame, headers)).await;
            }
            Err(fault) => tracing::debug!(%fault, "the server does not speak HTTP+SSE either"),
        }
    }
    match refused {
        Refused::Message { bytes, .. } => give(link, id, Frame::new(bytes)).await,
        Refused::Fault(fault) => return Err(fault),
    }
    Ok(())
}

/// Gives the answer on.
async fn give(link: &Link, id: &RequestId, frame: Frame) {
    link.tasks.answered(id);
    link.deliver(Ok(frame.with_route(Route::Request(id.clone())))).await;
}

async fn read(link: &Link, id: &RequestId, frame: &Frame, mut response: Response) -> Result<(), TransportError> {
    if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Err(TransportError::unanswered());
    }
    let kind = content_type(response.headers());
    if kind == "text/event-stream" {
        // Most answers are no streams, and a future is as large as the largest that it may become.
        return Box::pin(follow(link, id, frame, Events::new(response, link, &Place::default()))).await;
    }
    if kind != "application/json" && !kind.ends_with("+json") {
        return Err(Fault::ContentType(kind).into_error());
    }
    let body = exchange::body(&mut response, link.config.max_message).await.map_err(Fault::into_error)?;
    let is_answer = answers(&body, id);
    give(link, id, Frame::new(body)).await;
    // Whatever it was, nothing else comes.
    if is_answer { Ok(()) } else { Err(TransportError::unanswered()) }
}

/// Reads the stream of a request to its answer, over as many connections as the server wants it to take.
async fn follow(link: &Link, id: &RequestId, frame: &Frame, mut events: Events) -> Result<(), TransportError> {
    let mut place = Place::default();
    loop {
        let mut is_further = false;
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) if jsonrpc::beginning(error.start()) == Beginning::Other => {
                    tracing::warn!(%error, "a message that the server sent before its answer was skipped");
                    continue;
                }
                Err(error) => return Err(error),
            };
            if event.is_message() {
                let is_answer = answers(&event.data, id);
                let message = Frame::new(event.data);
                if is_answer {
                    give(link, id, message).await;
                    drain(events).await;
                    return Ok(());
                }
                if !link.deliver(Ok(message.with_route(Route::Request(id.clone())))).await {
                    return Ok(());
                }
            }
            is_further |= place.note(&events);
        }
        is_further |= place.note(&events);
        if headers::is_stateless(&frame.hints) || place.last_event_id().is_none() {
            return Err(TransportError::unanswered());
        }
        // A server that says when to come back wants to be asked again and again; the sender bounds how long.
        if is_further || events.is_polling() {
            place.succeeded();
        } else if place.failed() > MAX_FAILURES {
            return Err(TransportError::unanswered());
        }
        events = resume(link, &mut place).await?;
    }
}

/// Goes on with a stream behind the last event that was read.
async fn resume(link: &Link, place: &mut Place) -> Result<Events, TransportError> {
    let mut asked = Duration::ZERO;
    loop {
        sleep(place.wait().max(asked)).await;
        match stream::open(link, place).await {
            Ok(events) => return Ok(events),
            Err(stream::Refused::ForNow(_)) if place.failed() > MAX_FAILURES => {
                return Err(TransportError::unanswered());
            }
            Err(stream::Refused::ForNow(wait)) => asked = wait.unwrap_or_default(),
            Err(stream::Refused::ForGood(status)) => {
                tracing::debug!(%status, "the server does not resume the stream of a request");
                return Err(TransportError::unanswered());
            }
            Err(stream::Refused::SessionLost) => {
                // Everybody is told that it is lost. This request was taken before, and may have been done.
                link.deliver(Err(TransportError::session_lost())).await;
                return Err(TransportError::unanswered());
            }
            Err(stream::Refused::Fault(fault)) => return Err(fault.into_error()),
        }
    }
}

/// Whether the message, or one of a batch (2025-03-26), is the answer to this request. An error without an id can be about nothing
/// else.
fn answers(message: &[u8], id: &RequestId) -> bool {
    let is_answer = |parsed| {
        let Ok(Message::Response(response)) = parsed else { return false };
        response.id.is_none_or(|answered| answered == *id)
    };
    match Message::parse(message) {
        Err(EnvelopeError { is_batch: true, .. }) => {
            let messages = jsonrpc::split_batch(message, &jsonrpc::Limits::default()).unwrap_or_default();
            messages.iter().any(|message| is_answer(Message::parse(message.get().as_bytes())))
        }
        parsed => is_answer(parsed),
    }
}

/// Reads the end of a stream, which should follow the answer.
async fn drain(events: Events) {
    let mut response = events.into_response();
    let reading = async {
        let mut len = 0;
        while let Ok(Some(chunk)) = response.chunk().await {
            len += chunk.len();
            if len > DRAIN_LEN {
                break;
            }
        }
    };
    // When it does not end, its connection is closed.
    let _is_over = timeout(DRAIN, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, C, D, F: Future>(_: impl FnOnce(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_request_is_a_small_future() {
        // It is moved to its task, by copying.
        let size = size(run);
        assert!(size <= 3 * 1024, "{size}");
    }
}
