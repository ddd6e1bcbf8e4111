//! Messages without an answer: notifications, and answers to requests of the server.

use std::{sync::Arc, time::SystemTime};

use http::{HeaderMap, StatusCode};
use mcp_transport::{Frame, TransportError, http_status::HttpStatus};
use tokio::time::sleep;

use crate::{
    fault::Fault, headers::retry_after, http_request::HttpRequest, refusal::is_session_lost, shared::Shared,
    stream::Position,
};

/// The number of attempts to deliver a message to a server that is unreachable or busy.
const MAX_ATTEMPTS: u32 = 3;

/// Posts a message. Returns true if the server accepted it.
pub(crate) async fn run(shared: &Arc<Shared>, frame: &Frame, mut headers: HeaderMap) -> bool {
    let in_session = shared.name_session(&mut headers, &frame.hints) || shared.endpoint.get().is_some();
    let post = HttpRequest::post(shared, headers, frame);
    // A second notification has no effect, and without the end of the handshake the session has no stream.
    let is_repeatable = frame.hints.method.as_deref() == Some("notifications/initialized");
    let mut attempts = Position::default();
    loop {
        let wait = match post.clone().send(shared, Some(shared.config.response_timeout)).await {
            Ok(response) if response.status().is_success() => return true,
            Ok(response) if is_busy(response.status()) && attempts.failed() < MAX_ATTEMPTS => {
                retry_after(response.headers(), SystemTime::now())
            }
            Ok(response) => {
                let status = response.status();
                if is_session_lost(shared, response, in_session).await {
                    shared.deliver(Err(TransportError::session_lost())).await;
                } else {
                    let method = frame.hints.method.as_deref();
                    tracing::warn!(%status, method, "the server did not accept a message");
                }
                return false;
            }
            Err(Fault::Broken(_)) if is_repeatable && attempts.failed() < MAX_ATTEMPTS => None,
            Err(fault) => match fault.unsent() {
                Some(wait) if attempts.failed() < MAX_ATTEMPTS => wait,
                _ => {
                    let method = frame.hints.method.as_deref();
                    tracing::warn!(%fault, method, "a message did not reach the server");
                    return false;
                }
            },
        };
        let (requested_wait, longest) = (wait.unwrap_or_default(), shared.config.response_timeout);
        if requested_wait > longest {
            let method = frame.hints.method.as_deref();
            tracing::warn!(
                ?requested_wait,
                ?longest,
                method,
                "the server requested a longer wait than the limit; the message is dropped"
            );
            return false;
        }
        sleep(attempts.wait().min(longest).max(requested_wait)).await;
    }
}

/// Returns true if the server did nothing with the message and may accept it later.
fn is_busy(status: StatusCode) -> bool {
    HttpStatus::of(status.as_u16()).is_busy()
}
