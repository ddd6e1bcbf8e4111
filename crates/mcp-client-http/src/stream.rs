//! An event stream, the position up to which it was read, and the wait before it is reopened.

use std::{
    collections::hash_map::RandomState,
    error::Error,
    hash::{BuildHasher, Hasher},
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderValue, StatusCode};
use mcp_transport::{
    LONGEST_RETRY_AFTER, TransportError,
    sse::{Decoder, Received},
};
use reqwest::Response;

use crate::{
    fault::Fault,
    headers::{self, content_type},
    http_request::HttpRequest,
    refusal,
    shared::Shared,
};

/// The events of one response.
pub(crate) struct EventStream {
    response: Response,
    decoder: Decoder,
}

impl EventStream {
    pub(crate) fn new(response: Response, shared: &Shared, position: &Position) -> Self {
        let decoder = Decoder::new(shared.config.max_message);
        let decoder = match &position.last_event_id {
            Some(id) => decoder.with_last_event_id(id.as_str()),
            None => decoder,
        };
        Self { response, decoder }
    }

    /// Returns the next event with data; `None` when the stream has ended or is broken.
    pub(crate) async fn next(&mut self) -> Option<Result<Received, TransportError>> {
        loop {
            match self.decoder.next_event() {
                Some(Ok(event)) if event.data.is_empty() => {}
                Some(event) => return Some(event),
                None => match self.response.chunk().await {
                    Ok(Some(chunk)) => self.decoder.feed(chunk),
                    Ok(None) => return None,
                    Err(error) => {
                        tracing::debug!(error = &error.without_url() as &dyn Error, "an event stream broke");
                        return None;
                    }
                },
            }
        }
    }

    /// Whether the server said on this connection when to come back.
    pub(crate) fn is_polling(&self) -> bool {
        self.decoder.retry().is_some()
    }

    /// The stream as bytes, for who wants no more events.
    pub(crate) fn into_response(self) -> Response {
        self.response
    }
}

/// The position up to which a stream was read, and the time at which it may be reopened.
#[derive(Debug, Default)]
pub(crate) struct Position {
    last_event_id: Option<String>,
    retry: Option<Duration>,
    /// The connections since the last one with a new event.
    failures: u32,
}

/// The first wait, if the server names none.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest wait, if the server names none.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// The largest random addition to a wait that the server requested.
const JITTER: Duration = Duration::from_millis(50);

impl Position {
    /// Records the position. Returns true if it advanced.
    pub(crate) fn note(&mut self, events: &EventStream) -> bool {
        self.retry = events.decoder.retry().or(self.retry);
        let id = events.decoder.last_event_id();
        let is_further = id != self.last_event_id.as_deref();
        if is_further {
            self.failures = 0;
            self.last_event_id = id.map(str::to_owned);
        }
        is_further
    }

    /// Returns the id after which to resume; `None` if the server sent none, or one that a header cannot carry.
    pub(crate) fn last_event_id(&self) -> Option<HeaderValue> {
        self.last_event_id.as_deref().and_then(|id| HeaderValue::from_str(id).ok())
    }

    /// Forgets the position, which the server does not know any more. Returns true if there was one.
    pub(crate) fn forget(&mut self) -> bool {
        self.last_event_id.take().is_some()
    }

    /// Records that something was received.
    pub(crate) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Records a connection that failed or brought nothing. Returns their number.
    pub(crate) fn failed(&mut self) -> u32 {
        self.failures = self.failures.saturating_add(1);
        self.failures
    }

    /// Returns the wait before the next connection. It is at least as long as the server requested, grows with the
    /// failures, and varies randomly.
    pub(crate) fn wait(&self) -> Duration {
        self.wait_with(random())
    }

    fn wait_with(&self, random: f64) -> Duration {
        let doubled = FIRST_WAIT.saturating_mul(1 << self.failures.saturating_sub(1).min(16)).min(LONGEST_WAIT);
        let own = doubled.mul_f64(0.5 + random / 2.0);
        match self.retry {
            Some(retry) if self.failures <= 1 => retry.min(LONGEST_RETRY_AFTER) + JITTER.mul_f64(random),
            Some(retry) => own.max(retry.min(LONGEST_RETRY_AFTER) + JITTER.mul_f64(random)),
            None => own,
        }
    }
}

/// The reason why a stream was not opened.
pub(crate) enum Refused {
    /// Another attempt can succeed, after this wait. Without an answer, the server may have sent messages on the stream.
    ForNow { wait: Option<Duration>, is_answered: bool },
    /// The server has no such stream.
    ForGood(StatusCode),
    /// The server has lost the session.
    SessionLost,
    /// Another attempt would fail in the same way.
    Fault(Fault),
}

/// Opens the stream of the session, or resumes a stream after its last event.
pub(crate) async fn open(shared: &Shared, position: &Position) -> Result<EventStream, Refused> {
    let mut headers = HeaderMap::new();
    let in_session = shared.name_session_and_version(&mut headers);
    let get = HttpRequest::stream(shared, headers, position.last_event_id());
    let response = match get.send(shared, Some(shared.config.response_timeout)).await {
        Ok(response) => response,
        Err(Fault::Broken(_) | Fault::Silent { .. }) => return Err(Refused::ForNow { wait: None, is_answered: false }),
        Err(fault) => {
            return Err(match fault.unsent() {
                Some(wait) => Refused::ForNow { wait, is_answered: true },
                None => Refused::Fault(fault),
            });
        }
    };
    let status = response.status();
    let wait = headers::retry_after(response.headers(), SystemTime::now());
    match status {
        StatusCode::OK if content_type(response.headers()) == "text/event-stream" => {
            Ok(EventStream::new(response, shared, position))
        }
        // The server may not have noticed the loss of the former connection.
        StatusCode::CONFLICT | StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => {
            Err(Refused::ForNow { wait, is_answered: true })
        }
        StatusCode::NOT_IMPLEMENTED | StatusCode::HTTP_VERSION_NOT_SUPPORTED => Err(Refused::ForGood(status)),
        // A balancer sends these statuses in place of the lost response of the server.
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Err(Refused::ForNow { wait, is_answered: false }),
        _ if status.is_server_error() => Err(Refused::ForNow { wait, is_answered: true }),
        _ if refusal::is_session_lost(shared, response, in_session).await => Err(Refused::SessionLost),
        _ => Err(Refused::ForGood(status)),
    }
}

/// Returns a random number of at least 0 and less than 1. The keys of a hasher are sufficiently random here.
fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 11;
    #[expect(clippy::cast_precision_loss, reason = "the mantissa has 53 bits")]
    let number = bits as f64 / (1_u64 << 53) as f64;
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(retry: Option<u64>, failures: u32, least: u64, most: u64) {
        let position = Position { last_event_id: None, retry: retry.map(Duration::from_millis), failures };
        for (random, expected) in [(0.0, least), (1.0, most)] {
            assert_eq!(position.wait_with(random), Duration::from_millis(expected), "{retry:?} {failures} {random}");
        }
    }

    #[test]
    fn delays_grow_and_respect_the_requested_time() {
        check(None, 0, 500, 1000);
        check(None, 1, 500, 1000);
        check(None, 2, 1000, 2000);
        check(None, 5, 8000, 16_000);
        check(None, 6, 15_000, 30_000);
        check(None, u32::MAX, 15_000, 30_000);
        check(Some(100), 0, 100, 150);
        check(Some(100), 1, 100, 150);
        check(Some(100), 2, 1000, 2000);
        check(Some(60_000), 9, 60_000, 60_050);
        check(Some(u64::MAX), 0, 86_400_000, 86_400_050);
    }

    #[test]
    fn random_numbers_are_within_their_range() {
        let drawn: Vec<f64> = (0..100).map(|_| random()).collect();
        assert!(drawn.iter().all(|number| (0.0..1.0).contains(number)), "{drawn:?}");
        assert!(drawn.iter().any(|number| (number - drawn[0]).abs() > 0.01), "{drawn:?}");
    }
}
