//! A request of the protocol: its POST, and its answer as JSON or on an event stream.

use std::{error::Error, io::Write as _, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use mcp_protocol::{
    RequestId,
    jsonrpc::{self, Beginning, EnvelopeError, Message},
};
use mcp_transport::{Frame, Route, TransportError};
use reqwest::Response;
use tokio::time::{sleep, timeout};

use crate::{
    exchange::Place,
    fault::Fault,
    headers::{self, content_type},
    http_request::{self, HttpRequest},
    legacy_sse,
    refusal::{Refused, refusal},
    shared::Shared,
    stream::{self, EventStream, Position},
};

/// The number of consecutive connections without an event after which a stream fails.
const MAX_FAILURES: u32 = 5;
/// The longest wait for the end of a stream after the answer. Then its connection can be reused.
const DRAIN: Duration = Duration::from_secs(1);
/// The largest number of bytes that are read in that time.
const DRAIN_LEN: usize = 64 * 1024;
/// The number of bytes at the start of a message in which its id and its kind are usually complete.
const ENVELOPE_START: usize = 256;
/// The length of the longest 64-bit integer in decimal digits, with its sign.
const LONGEST_INTEGER: usize = 20;

/// Posts a request and delivers its answer, or the fault of the request.
pub(crate) async fn run(shared: &Arc<Shared>, id: &RequestId, frame: &Frame, headers: HeaderMap, place: &Place) {
    if let Err(error) = answer(shared, id, frame, headers, place).await {
        shared.tasks.answered(id);
        shared.deliver(Err(error.of_request(id.clone()))).await;
    }
}

async fn answer(
    shared: &Arc<Shared>,
    id: &RequestId,
    frame: &Frame,
    mut headers: HeaderMap,
    place: &Place,
) -> Result<(), TransportError> {
    let is_legacy_sse = shared.endpoint.get().is_some();
    let in_session = shared.name_session(&mut headers, &frame.hints) || is_legacy_sse;
    let response = HttpRequest::post(shared, headers, frame).send(shared, None).await;
    let response = response.map_err(Fault::into_error)?;
    let status = response.status();
    if status == StatusCode::NOT_FOUND && in_session {
        return Err(TransportError::session_lost());
    }
    let opens_session = frame.hints.method.as_deref() == Some("initialize") && !headers::is_stateless(&frame.hints);
    if status.is_success() {
        if is_legacy_sse {
            // The answer comes on the stream of the session.
            return Ok(());
        }
        if opens_session {
            shared.open_session(headers::session(response.headers()));
        }
        return read(shared, id, frame, response, place).await;
    }
    let refused = Box::pin(refusal(shared, response, in_session)).await;
    if opens_session && !is_legacy_sse && refused.may_be_legacy_sse(status) {
        match Box::pin(legacy_sse::open(shared)).await {
            Ok(()) => {
                let headers = shared.message_headers(&frame.hints).map_err(Fault::into_error)?;
                return Box::pin(answer(shared, id, frame, headers, place)).await;
            }
            Err(fault) => tracing::debug!(%fault, "the server does not speak HTTP+SSE either"),
        }
    }
    match refused {
        Refused::Message { bytes, .. } => {
            deliver(shared, id, Frame::new(bytes)).await;
            Ok(())
        }
        Refused::Fault(fault) => Err(fault),
    }
}

/// Returns the answer to the caller, or delivers it to the reader.
async fn give(shared: &Shared, id: &RequestId, message: Bytes, place: &Place) {
    // The reader splits a batch. It also reads the messages that arrived before the answer.
    let is_for_caller = message.starts_with(b"{") && !shared.has_unread();
    let mut frame = Frame::new(message).with_route(Route::Request(id.clone()));
    if is_for_caller {
        match place.answer(frame) {
            Ok(()) => return,
            Err(rejected) => frame = rejected,
        }
    }
    place.enter_task().await;
    deliver(shared, id, frame).await;
}

/// Delivers the last message of a request to the reader.
fn deliver(shared: &Shared, id: &RequestId, frame: Frame) -> impl Future<Output = bool> + Send + use<> {
    shared.tasks.answered(id);
    shared.deliver(Ok(frame.with_route(Route::Request(id.clone()))))
}

async fn read(
    shared: &Shared,
    id: &RequestId,
    frame: &Frame,
    mut response: Response,
    place: &Place,
) -> Result<(), TransportError> {
    if matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Err(TransportError::unanswered());
    }
    let kind = content_type(response.headers());
    if kind == "text/event-stream" {
        // Most answers are not streams. Boxing keeps the future small.
        let events = EventStream::new(response, shared, &Position::default());
        return Box::pin(follow(shared, id, frame, events, place)).await;
    }
    if kind != "application/json" && !kind.ends_with("+json") {
        return Err(Fault::ContentType(kind).into_error());
    }
    let body = http_request::body(&mut response, shared.config.max_message).await.map_err(Fault::into_error)?;
    if answers(&body, id) {
        give(shared, id, body, place).await;
        return Ok(());
    }
    deliver(shared, id, Frame::new(body)).await;
    // No other message follows a JSON body.
    Err(TransportError::unanswered())
}

/// Reads the stream of a request until the answer. The server may split the stream over several connections.
async fn follow(
    shared: &Shared,
    id: &RequestId,
    frame: &Frame,
    mut events: EventStream,
    place: &Place,
) -> Result<(), TransportError> {
    let mut position = Position::default();
    loop {
        let mut is_further = false;
        while let Some(event) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) if jsonrpc::beginning(error.start()) == Beginning::Other => {
                    tracing::warn!(%error, "a message before the answer was skipped");
                    continue;
                }
                Err(error) => return Err(error),
            };
            if event.is_message() {
                if answers(&event.data, id) {
                    give(shared, id, event.data, place).await;
                    drain(events).await;
                    return Ok(());
                }
                // Other messages can follow, also while the caller pauses its future.
                place.enter_task().await;
                let message = Frame::new(event.data).with_route(Route::Request(id.clone()));
                if !shared.deliver(Ok(message)).await {
                    return Ok(());
                }
            }
            is_further |= position.note(&events);
        }
        is_further |= position.note(&events);
        if headers::is_stateless(&frame.hints) || position.last_event_id().is_none() {
            return Err(TransportError::unanswered());
        }
        // A server that sends `retry` lets the client poll. The sender of the request bounds the time.
        if is_further || events.is_polling() {
            position.succeeded();
        } else if position.failed() > MAX_FAILURES {
            return Err(TransportError::unanswered());
        }
        place.enter_task().await;
        // Boxing keeps the future of a stream small.
        events = Box::pin(resume(shared, &mut position)).await?;
    }
}

/// Resumes a stream after the last event that was read.
async fn resume(shared: &Shared, position: &mut Position) -> Result<EventStream, TransportError> {
    let mut requested_wait = Duration::ZERO;
    loop {
        sleep(position.wait().max(requested_wait)).await;
        match stream::open(shared, position).await {
            Ok(events) => return Ok(events),
            Err(stream::Refused::ForNow { .. }) if position.failed() > MAX_FAILURES => {
                return Err(TransportError::unanswered());
            }
            Err(stream::Refused::ForNow { wait, .. }) => requested_wait = wait.unwrap_or_default(),
            Err(stream::Refused::ForGood(status)) => {
                tracing::debug!(%status, "the server does not resume the stream of a request");
                return Err(TransportError::unanswered());
            }
            Err(stream::Refused::SessionLost) => {
                // The server accepted this request before it lost the session, so it may have executed it.
                shared.deliver(Err(TransportError::session_lost())).await;
                return Err(TransportError::unanswered());
            }
            Err(stream::Refused::Fault(fault)) => {
                let fault = fault.into_error();
                if !(fault.is_unauthorized() || fault.is_unreachable()) {
                    return Err(fault);
                }
                // These errors state that the server has not received the request. It has accepted this one.
                tracing::debug!(error = &fault as &dyn Error, "the stream of a request cannot be resumed");
                return Err(TransportError::unanswered());
            }
        }
    }
}

/// Returns true if the message, or a message of the batch (2025-03-26), is the answer to this request. An error without
/// an id is its answer too.
///
/// The reader of the transport parses the whole message. The start of the message is sufficient here, unless a large
/// result precedes the id.
fn answers(message: &[u8], id: &RequestId) -> bool {
    if is_usual_result(message, id) {
        return true;
    }
    match jsonrpc::beginning(&message[..message.len().min(ENVELOPE_START)]) {
        Beginning::Response(Some(answered)) => answered == *id,
        Beginning::Other => false,
        _ => answers_as_whole(message, id),
    }
}

/// Returns true if a message begins as most servers write the result of a request: with the members `jsonrpc`, `id` and `result`.
fn is_usual_result(message: &[u8], id: &RequestId) -> bool {
    let RequestId::Integer(id) = id else { return false };
    let Some(rest) = message.strip_prefix(br#"{"jsonrpc":"2.0","id":"#) else { return false };
    let mut number = [0; LONGEST_INTEGER];
    let mut left = &mut number[..];
    if write!(left, "{id}").is_err() {
        return false;
    }
    let length = LONGEST_INTEGER - left.len();
    rest.strip_prefix(&number[..length]).is_some_and(|rest| rest.starts_with(br#","result":"#))
}

fn answers_as_whole(message: &[u8], id: &RequestId) -> bool {
    let is_answer = |parsed| {
        let Ok(Message::Response(response)) = parsed else { return false };
        response.id.is_none_or(|answered| answered == *id)
    };
    // The reader checks the depth. The parser does not recurse.
    let limits = jsonrpc::Limits::default().depth(usize::MAX);
    match Message::parse_with(message, &limits) {
        Err(EnvelopeError { is_batch: true, .. }) => {
            let messages = jsonrpc::split_batch(message, &limits).unwrap_or_default();
            messages.iter().any(|message| is_answer(Message::parse_with(message.get().as_bytes(), &limits)))
        }
        parsed => is_answer(parsed),
    }
}

/// Reads the end of a stream, which should follow the answer.
async fn drain(events: EventStream) {
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
    // If the stream does not end, its connection is closed.
    let _is_over = timeout(DRAIN, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, C, D, E, F: Future>(_: impl FnOnce(A, B, C, D, E) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_request_is_small() {
        // Spawning a task copies its future.
        let size = size(run);
        assert!(size <= 3 * 1024, "{size}");
    }

    #[test]
    fn the_start_of_a_large_message_identifies_its_request() {
        let large = "x".repeat(ENVELOPE_START);
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        for (message, expected) in [
            (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned(), true),
            (r#"{"jsonrpc":"2.0","id":8,"result":{}}"#.to_owned(), false),
            (r#"{"jsonrpc":"2.0","id":"7","result":{}}"#.to_owned(), false),
            // Texts that are not JSON numbers.
            (r#"{"jsonrpc":"2.0","id":+7,"result":{}}"#.to_owned(), false),
            (r#"{"jsonrpc":"2.0","id":007,"result":{}}"#.to_owned(), false),
            // The parser ignores the parameters of a response.
            (r#"{"jsonrpc":"2.0","params":{},"id":7,"result":{}}"#.to_owned(), true),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"params":{}}"#.to_owned(), true),
            (format!(r#"{{"jsonrpc":"2.0","params":"{large}","id":7,"result":{{}}}}"#), true),
            (format!(r#"{{"jsonrpc":"2.0","params":"{large}","id":7,"method":"m"}}"#), false),
            (r#"{"jsonrpc":"2.0","id":70,"result":{}}"#.to_owned(), false),
            (r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"m"}}"#.to_owned(), true),
            (r#"{"result":{},"id":7,"jsonrpc":"2.0"}"#.to_owned(), true),
            (format!(r#"{{"jsonrpc":"2.0","result":"{large}","id":7}}"#), true),
            (format!(r#"{{"jsonrpc":"2.0","result":"{large}","id":8}}"#), false),
            // The rest of the message is not read. The reader of the transport rejects it.
            (format!(r#"{{"jsonrpc":"2.0","id":7,"result":"{large}"#), true),
            (format!(r#"{{"jsonrpc":"2.0","id":7,"error":"{large}"#), true),
            (format!(r#"{{"jsonrpc":"2.0","result":"{large}"#), false),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}"#.to_owned(), true),
            (r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#.to_owned(), true),
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#.to_owned(), false),
            (format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":"{large}"}}"#), false),
            (r#"[{"jsonrpc":"2.0","id":8,"result":{}},{"jsonrpc":"2.0","id":7,"result":{}}]"#.to_owned(), true),
            // The reader of the transport has the limit of the depth.
            (format!(r#"{{"jsonrpc":"2.0","result":{{"a":{deep}}},"id":7}}"#), true),
            (format!(r#"{{"jsonrpc":"2.0","result":{{"a":{deep}}},"id":8}}"#), false),
            (format!(r#"[{{"jsonrpc":"2.0","result":{{"a":{deep}}},"id":7}}]"#), true),
            ("garbage".to_owned(), false),
        ] {
            assert_eq!(answers(message.as_bytes(), &7.into()), expected, "{}", &message[..message.len().min(400)]);
        }
    }
}
