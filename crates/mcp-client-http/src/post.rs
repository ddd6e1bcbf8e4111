//! What is posted without expecting an answer: notifications, and answers to what the server asked.

use std::{sync::Arc, time::SystemTime};

use http::{HeaderMap, StatusCode};
use mcp_transport::{Frame, TransportError};
use tokio::time::sleep;

use crate::{exchange::Exchange, headers::retry_after, link::Link, refusal::is_session_lost, stream::Place};

/// How often it is tried to bring a message to a server that is not there or busy.
const MAX_ATTEMPTS: u32 = 3;

/// Posts a message. Says whether the server took it.
pub(crate) async fn run(link: &Arc<Link>, frame: &Frame, mut headers: HeaderMap) -> bool {
    let in_session = link.name_session(&mut headers, &frame.hints) || link.endpoint.get().is_some();
    let post = Exchange::post(link, headers, frame.message.clone());
    let mut attempts = Place::default();
    loop {
        let wait = match post.clone().send(link, Some(link.config.response_timeout)).await {
            Ok(response) if response.status().is_success() => return true,
            Ok(response) if is_busy(response.status()) && attempts.failed() < MAX_ATTEMPTS => {
                retry_after(response.headers(), SystemTime::now())
            }
            Ok(response) => {
                let status = response.status();
                if is_session_lost(link, response, in_session).await {
                    link.deliver(Err(TransportError::session_lost())).await;
                } else {
                    let method = frame.hints.method.as_deref();
                    tracing::warn!(%status, method, "the server did not take a message");
                }
                return false;
            }
            Err(fault) if fault.is_before_sending() && attempts.failed() < MAX_ATTEMPTS => None,
            Err(fault) => {
                tracing::warn!(%fault, method = frame.hints.method.as_deref(), "a message did not reach the server");
                return false;
            }
        };
        let (asked, longest) = (wait.unwrap_or_default(), link.config.response_timeout);
        if asked > longest {
            let method = frame.hints.method.as_deref();
            tracing::warn!(?asked, ?longest, method, "the server takes no message for longer than it is waited for");
            return false;
        }
        sleep(attempts.wait().min(longest).max(asked)).await;
    }
}

/// Whether the server says that it did nothing with the message, and may later.
fn is_busy(status: StatusCode) -> bool {
    matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE)
}
