//! A response that is not a success: a message of the protocol, or a status with a text.

use std::time::SystemTime;

use bytes::Bytes;
use http::StatusCode;
use mcp_protocol::{ErrorCode, jsonrpc::Message};
use mcp_transport::TransportError;
use reqwest::Response;
use tokio::time::timeout;

use crate::{
    headers::{challenges, content_type, retry_after},
    http_request::{self, Authorization},
    shared::Shared,
};

/// A response with a status that is not a success.
pub(crate) enum Refused {
    /// A JSON-RPC response.
    Message { bytes: Bytes, code: Option<ErrorCode> },
    /// Any other response, and responses whose status is more specific than their message.
    Fault(TransportError),
}

impl Refused {
    /// Returns true if a server that speaks HTTP+SSE could have answered `initialize` so.
    pub(crate) fn may_be_legacy_sse(&self, status: StatusCode) -> bool {
        let is_modern = match self {
            Self::Message { code: Some(code), .. } => MODERN.contains(code),
            _ => false,
        };
        matches!(status, StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) && !is_modern
    }
}

/// The errors that only servers of 2026-07-28 send with such a status.
const MODERN: [ErrorCode; 4] = [
    ErrorCode::HEADER_MISMATCH,
    ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
    ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
    ErrorCode::METHOD_NOT_FOUND,
];

/// Reads a response that is not a success.
pub(crate) async fn refusal(shared: &Shared, mut response: Response, in_session: bool) -> Refused {
    let status = response.status();
    let wait = retry_after(response.headers(), SystemTime::now());
    let kind = content_type(response.headers());
    let challenges = challenges(response.headers());
    let Authorization(sent) = response.extensions_mut().remove().unwrap_or_default();
    let reading = http_request::body(&mut response, shared.config.max_message);
    let body = match timeout(shared.config.response_timeout, reading).await {
        Ok(Ok(body)) => body,
        // The status is sufficient.
        Ok(Err(_)) | Err(_) => Bytes::new(),
    };
    let message = match Message::parse(&body) {
        Ok(Message::Response(response)) => Some((response.id, response.outcome.err())),
        _ => None,
    };
    let body_text = match &message {
        Some((_, error)) => error.as_ref().map(|error| error.message.clone()).unwrap_or_default(),
        None if matches!(kind.as_str(), "text/plain" | "application/json" | "application/problem+json") => {
            String::from_utf8_lossy(&body[..body.len().min(MAX_READ)]).into_owned()
        }
        None => String::new(),
    };
    let names_request = matches!(message, Some((Some(_), _)));
    if in_session && !names_request && status == StatusCode::BAD_REQUEST && is_about_session(&body_text) {
        return Refused::Fault(TransportError::session_lost());
    }
    // The status and its headers determine the reaction to these, not the message.
    let is_about_status = wait.is_some() || matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    match message {
        Some((_, error)) if !is_about_status => Refused::Message { code: error.map(|error| error.code), bytes: body },
        _ => {
            let fault = TransportError::http(status.as_u16(), wait, detail(&body_text, &shared.secrets(&sent)));
            Refused::Fault(fault.with_challenges(challenges))
        }
    }
}

/// Returns true if the server rejected a message because it does not know its session.
pub(crate) async fn is_session_lost(shared: &Shared, response: Response, in_session: bool) -> bool {
    match response.status() {
        StatusCode::NOT_FOUND => in_session,
        StatusCode::BAD_REQUEST if in_session => match refusal(shared, response, in_session).await {
            Refused::Fault(fault) => fault.is_session_lost(),
            Refused::Message { .. } => false,
        },
        _ => false,
    }
}

/// Returns true if the text of a 400 is about the session. Many servers answer so instead of 404, and the client must
/// then open a new session.
fn is_about_session(body_text: &str) -> bool {
    body_text.to_ascii_lowercase().contains("session")
}

/// The bytes of a body that are examined for its text.
const MAX_READ: usize = 4096;
/// The longest text of a body, in characters.
const MAX_SHOWN: usize = 200;
/// Words of this length with a digit are probably keys.
const KEY_LEN: usize = 32;

/// Returns the text of a body on one line, shortened and without secrets.
fn detail(body_text: &str, secrets: &[String]) -> String {
    let mut text = body_text.to_owned();
    for secret in secrets {
        text = text.replace(secret.as_str(), "…");
    }
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut shown = String::new();
    for word in words {
        if !shown.is_empty() {
            shown.push(' ');
        }
        let is_key = word.len() >= KEY_LEN && word.bytes().any(|byte| byte.is_ascii_digit());
        shown.push_str(if is_key { "…" } else { word });
    }
    if shown.chars().count() > MAX_SHOWN {
        shown = shown.chars().take(MAX_SHOWN).collect();
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(body_text: &str, expected: &str) {
        assert_eq!(detail(body_text, &["hunter2".to_owned()]), expected);
    }

    #[test]
    fn details_are_one_short_line_without_secrets() {
        check("", "");
        check("  too many\r\n\trequests \u{0}", "too many requests");
        check("token hunter2 is not valid", "token … is not valid");
        check("token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0 expired", "token … expired");
        check(&"é ".repeat(300), &format!("{}…", "é ".repeat(100)));
    }

    #[test]
    fn three_statuses_without_a_modern_error_suggest_http_sse() {
        let message = |code| Refused::Message { bytes: Bytes::new(), code };
        let fault = || Refused::Fault(TransportError::http(405, None, ""));
        for (refused, status, expected) in [
            (fault(), 405, true),
            (fault(), 404, true),
            (fault(), 400, true),
            (fault(), 401, false),
            (fault(), 500, false),
            (message(Some(ErrorCode::INVALID_PARAMS)), 400, true),
            (message(None), 400, true),
            (message(Some(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION)), 400, false),
            (message(Some(ErrorCode::HEADER_MISMATCH)), 400, false),
            (message(Some(ErrorCode::METHOD_NOT_FOUND)), 404, false),
        ] {
            assert_eq!(refused.may_be_legacy_sse(StatusCode::from_u16(status).unwrap()), expected, "{status}");
        }
    }
}
