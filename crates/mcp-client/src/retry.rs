//! The retry policy: a pure function from a failure to the next step of the client.

use std::time::Duration;

use mcp_protocol::{ErrorCode, RpcError, tasks::ext::IDENTIFIER};
use mcp_transport::{TransportError, random};
use serde_json::Value;

use crate::{
    Error,
    error::{HttpStatus, Kind, is_busy},
};

/// The reason why a request has no result.
#[derive(Debug, Clone)]
pub(crate) enum RequestFailure {
    /// The server answered with an error.
    Rpc(RpcError),
    /// The answer of the server is not a valid message.
    Invalid(Box<str>),
    /// The answer of the server is nested deeper than this limit.
    TooDeep(usize),
    /// No connection can carry this request.
    Unsendable(TransportError),
    /// The transport failed this request alone.
    Transport(TransportError),
    /// The connection ended. `was_sent` is false if the server cannot have seen the request.
    Lost { was_sent: bool, fault: Option<TransportError> },
}

impl From<RequestFailure> for Error {
    fn from(failure: RequestFailure) -> Self {
        match failure {
            RequestFailure::Rpc(error) => Kind::Rpc(error).into(),
            RequestFailure::Invalid(text) => Self::invalid(text),
            RequestFailure::TooDeep(limit) => Kind::TooDeep(limit).into(),
            RequestFailure::Unsendable(fault) => Kind::Unsendable(fault).into(),
            RequestFailure::Transport(fault) => Kind::Transport(fault).into(),
            RequestFailure::Lost { was_sent: false, fault } => Kind::Lost(fault).into(),
            RequestFailure::Lost { was_sent: true, fault } => Self::from(Kind::Lost(fault)).after_sending(),
        }
    }
}

/// How certain the client is that the server still has the era that it had when the connection was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EraTrust {
    /// Another server cannot take its place on this connection.
    Certain,
    /// The server was asked, but another one can answer the next request, as over HTTP.
    Negotiated,
    /// An earlier client negotiated the era, and no answer has confirmed it.
    Assumed,
}

/// The facts about one attempt to send a request.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    /// Executing the request twice has the same effect as executing it once.
    pub(crate) is_safe: bool,
    /// The request can be sent another time.
    pub(crate) is_repeatable: bool,
    /// This is the first attempt.
    pub(crate) is_first: bool,
    /// The connection is of the stateless era.
    pub(crate) is_stateless: bool,
    /// The client is being closed.
    pub(crate) is_closing: bool,
    /// The client opens another connection when this one is lost.
    pub(crate) reconnects: bool,
    /// How certain the era of the server is.
    pub(crate) era: EraTrust,
    /// The request declared that it can become a task.
    pub(crate) declared_tasks: bool,
    /// The time since the first attempt began.
    pub(crate) age: Duration,
    /// The request calls a tool.
    pub(crate) calls_tool: bool,
    /// The request calls a tool that was not listed, on a server that runs tools as tasks (2025-11-25).
    pub(crate) may_need_task: bool,
}

/// The next step after a failed attempt.
#[derive(Debug)]
pub(crate) enum Next {
    /// Send the request again.
    Resend,
    /// Send the request again after this wait. If the call has less time than that, it fails with this error.
    ResendAfter(Duration, Error),
    /// End this connection, and send the request over another one.
    Reconnect,
    /// Send no more requests over this connection, because of this fault, and send the request over another one. Other requests
    /// keep waiting for their answers.
    Retire(TransportError),
    /// Ask the server for its era. If it is another one, send the request again; else decide anew with [`EraTrust::Certain`].
    Reprobe {
        /// The server did nothing with the request, or may do it twice.
        can_resend: bool,
    },
    /// Declare that the request can become a task, and send it again.
    DeclareTasks,
    /// List the tools, and send the request again if the tool turns out to be a task; else fail with this error.
    ListForTask(Error),
    /// List the tools, and send the request again if its mirrored headers change; else fail with this error.
    ListForHeaders(Error),
    /// The call fails.
    Fail(Error),
}

/// The status of a balancer whose server closed the connection without a response.
const BAD_GATEWAY: u16 = 502;
/// The status of a server that rejects all requests for a short time, for example while it shuts down.
const UNAVAILABLE: u16 = 503;
/// The wait before the second attempt after the status 503, if the server requests none.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The most attempts to open the first connection to such a server.
const OPENINGS: u32 = 3;
/// The time from the first attempt in which a request is sent again after the status 503.
const LONGEST_WAITS: Duration = Duration::from_secs(5);

/// Decides what happens after a failed attempt.
pub(crate) fn next(failure: &RequestFailure, attempt: &Attempt) -> Next {
    if attempt.is_repeatable && failure.suggests_other_era(attempt.era, attempt.is_stateless) {
        return Next::Reprobe { can_resend: attempt.is_safe || failure.is_refusal() };
    }
    let fail = || Next::Fail(failure.clone().into());
    match failure {
        RequestFailure::Rpc(error) => match error.code {
            // Another server took the place of the first one.
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION if attempt.is_stateless && attempt.is_repeatable => {
                Next::Retire(TransportError::closed())
            }
            ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY if !attempt.declared_tasks && misses_tasks_only(error) => {
                Next::DeclareTasks
            }
            // Servers of 2025-11-25 declare in their list that a tool must be a task. Their errors have no common form.
            ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_REQUEST
                if attempt.may_need_task && attempt.is_repeatable =>
            {
                Next::ListForTask(failure.clone().into())
            }
            // The annotations of the tool may have changed since it was listed.
            ErrorCode::HEADER_MISMATCH if attempt.is_first && attempt.calls_tool => {
                Next::ListForHeaders(failure.clone().into())
            }
            _ => fail(),
        },
        RequestFailure::Lost { was_sent: true, .. } if attempt.is_closing => {
            Next::Fail(Error::closed().after_sending())
        }
        RequestFailure::Lost { .. } if attempt.is_closing => Next::Fail(Error::closed()),
        RequestFailure::Transport(fault) if fault.is_session_lost() && attempt.is_repeatable => {
            Next::Retire(fault.clone())
        }
        RequestFailure::Transport(fault)
            if fault.is_unreachable() && !fault.is_lasting() && attempt.is_repeatable && attempt.reconnects =>
        {
            Next::Retire(fault.clone())
        }
        RequestFailure::Transport(fault) if fault.is_unanswered() && attempt.is_safe && attempt.is_repeatable => {
            Next::Resend
        }
        // A balancer lost the connection to one server. The next attempt can reach another server.
        RequestFailure::Transport(fault)
            if fault.http_status() == Some(BAD_GATEWAY) && attempt.is_safe && attempt.is_repeatable =>
        {
            Next::Resend
        }
        // A server that shuts down rejects the request. The next attempt can reach another server, or the restarted server.
        RequestFailure::Transport(fault)
            if fault.http_status() == Some(UNAVAILABLE) && attempt.is_safe && attempt.is_repeatable =>
        {
            match wait_for_server(fault.retry_after(), if attempt.is_first { 1 } else { 2 }, attempt.age) {
                Some(wait) => Next::ResendAfter(wait, failure.clone().into()),
                None => fail(),
            }
        }
        RequestFailure::Lost { was_sent, .. } if (!was_sent || attempt.is_safe) && attempt.is_repeatable => {
            Next::Reconnect
        }
        _ => fail(),
    }
}

/// Returns the wait before the next attempt at a server that rejects all requests for a short time. `age` is the time since the
/// first attempt began.
fn wait_for_server(requested: Option<Duration>, attempt: u32, age: Duration) -> Option<Duration> {
    let wait = requested.unwrap_or_default().max(back_off(FIRST_WAIT, LONGEST_WAITS, attempt));
    (age.saturating_add(wait) <= LONGEST_WAITS).then_some(wait)
}

/// Returns the wait before the next attempt to open the first connection, if the server rejected the handshake for a short time.
/// The handshake has no other effect than a session.
pub(crate) fn wait_to_open(error: &Error, attempt: u32, age: Duration) -> Option<Duration> {
    let is_short = error.http_status() == Some(UNAVAILABLE) || error.rpc().is_some_and(is_busy);
    if is_short && attempt < OPENINGS { wait_for_server(error.retry_after(), attempt, age) } else { None }
}

/// Returns true if the server lost the state of an earlier input round, and reports that the call can start anew.
///
/// A server of this library reports so only if no side effect of `once` had begun.
pub(crate) fn starts_anew(error: &Error) -> bool {
    let Some(error) = error.rpc().filter(|error| error.code == ErrorCode::INVALID_PARAMS) else { return false };
    error.data.as_ref().is_some_and(|data| data["reason"] == "request_state_expired" && data["canRestart"] == true)
}

/// The code of widely used session servers for a request without a session. Others use it for any error.
const NO_SESSION: ErrorCode = ErrorCode(-32000);

impl RequestFailure {
    fn http_status(&self) -> Option<HttpStatus> {
        match self {
            Self::Transport(fault) => fault.http_status().map(HttpStatus::of),
            _ => None,
        }
    }

    /// Returns true if a server of the other era could have answered so to a request of the stateless era.
    pub(crate) fn suggests_other_era(&self, trust: EraTrust, is_stateless: bool) -> bool {
        let is_assumed = trust == EraTrust::Assumed;
        if trust == EraTrust::Certain || !is_stateless {
            return false;
        }
        match self {
            Self::Rpc(error) if is_assumed => error.code != ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
            Self::Rpc(error) => {
                matches!(error.code, NO_SESSION | ErrorCode::INVALID_REQUEST | ErrorCode::METHOD_NOT_FOUND)
            }
            Self::Invalid(_) | Self::TooDeep(_) => is_assumed,
            Self::Transport(_) => match self.http_status() {
                Some(HttpStatus::NotUnderstood) => true,
                Some(HttpStatus::NotFound) => is_assumed,
                _ => false,
            },
            Self::Unsendable(_) | Self::Lost { .. } => false,
        }
    }

    /// Returns true if a server of the other era did nothing with the request.
    pub(crate) fn is_refusal(&self) -> bool {
        match self {
            Self::Rpc(error) => matches!(
                error.code,
                ErrorCode::INVALID_REQUEST | ErrorCode::METHOD_NOT_FOUND | ErrorCode::INVALID_PARAMS
            ),
            _ => self.http_status().is_some_and(HttpStatus::is_refusal),
        }
    }

    /// Returns true if the server rejected this way to open a connection, so that another way can succeed.
    pub(crate) fn rejects_handshake(&self) -> bool {
        match self {
            Self::Rpc(_) | Self::Invalid(_) | Self::TooDeep(_) => true,
            _ => self.http_status().is_some_and(HttpStatus::is_refusal),
        }
    }

    /// Returns true if another attempt to open the subscription would fail in the same way.
    pub(crate) fn rejects_subscription(&self) -> bool {
        match self {
            Self::Rpc(error) => !is_busy(error),
            Self::Unsendable(_) => true,
            Self::Transport(fault) => match self.http_status() {
                // Each attempt would ask the user for a login again.
                None => fault.is_unauthorized() && fault.is_lasting(),
                Some(status) => !(status.is_temporary() || status == HttpStatus::Other),
            },
            Self::Invalid(_) | Self::TooDeep(_) | Self::Lost { .. } => false,
        }
    }

    /// Returns true if the failure does not suggest that the server is silent: the server answered, or the client could
    /// not authorize the request.
    pub(crate) fn is_answer(&self) -> bool {
        match self {
            Self::Rpc(_) | Self::Invalid(_) | Self::TooDeep(_) => true,
            Self::Transport(fault) if fault.is_unauthorized() => true,
            _ => self.http_status().is_some_and(|status| status != HttpStatus::Gateway),
        }
    }
}

/// Returns true if further attempts to open a connection would fail in the same way.
pub(crate) fn is_permanent(error: &Error) -> bool {
    let is_used_up = error.is_unreachable() && error.is_closed();
    let is_lasting = error.transport().is_some_and(TransportError::is_lasting);
    error.is_version_mismatch() || error.rejects_credentials() || is_used_up || is_lasting
}

/// Returns true if another attempt to subscribe in a session would fail in the same way.
pub(crate) fn rejects_subscription(error: &Error) -> bool {
    error.is_unsupported() || error.rpc().is_some_and(|error| !is_busy(error))
}

/// Returns true if the tasks extension is the only capability that the server misses.
fn misses_tasks_only(error: &RpcError) -> bool {
    let required = error.data.as_ref().and_then(|data| data.get("requiredCapabilities")).and_then(Value::as_object);
    required.is_some_and(|required| required.keys().eq(["extensions"]))
        && required.and_then(|required| required["extensions"].as_object()).is_some_and(|e| e.keys().eq([IDENTIFIER]))
}

/// Returns the wait before an attempt. It doubles with each attempt, up to `longest`, and varies by a quarter. The first attempt is 1.
pub(crate) fn back_off(first: Duration, longest: Duration, attempt: u32) -> Duration {
    let wait = first.saturating_mul(1 << attempt.saturating_sub(1).min(20)).min(longest);
    let random = (random::next() % 1024) as u32;
    wait.mul_f64(0.75 + f64::from(random) / 2048.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A first attempt of a request that must not be executed twice, in the stateless era.
    const CALL: Attempt = Attempt {
        is_safe: false,
        is_repeatable: true,
        is_first: true,
        is_stateless: true,
        is_closing: false,
        reconnects: true,
        era: EraTrust::Certain,
        declared_tasks: false,
        age: Duration::ZERO,
        calls_tool: true,
        may_need_task: false,
    };
    const READ: Attempt = Attempt { is_safe: true, calls_tool: false, ..CALL };
    const LAST: Attempt = Attempt { is_repeatable: false, is_first: false, ..READ };
    const SESSION: Attempt = Attempt { is_stateless: false, ..CALL };
    const ASSUMED: Attempt = Attempt { era: EraTrust::Assumed, ..CALL };
    const OVER_HTTP: Attempt = Attempt { era: EraTrust::Negotiated, ..CALL };

    fn rpc(code: i64) -> RequestFailure {
        RequestFailure::Rpc(RpcError::new(ErrorCode(code), "x"))
    }

    fn http(status: u16) -> RequestFailure {
        RequestFailure::Transport(TransportError::http(status, None, ""))
    }

    fn lost(was_sent: bool) -> RequestFailure {
        RequestFailure::Lost { was_sent, fault: None }
    }

    fn name(next: &Next) -> &'static str {
        match next {
            Next::Resend => "resend",
            Next::ResendAfter(..) => "resend after a wait",
            Next::Reconnect => "reconnect",
            Next::Retire(_) => "retire",
            Next::Reprobe { can_resend: true } => "reprobe and resend",
            Next::Reprobe { can_resend: false } => "reprobe",
            Next::DeclareTasks => "declare tasks",
            Next::ListForTask(_) => "list for task",
            Next::ListForHeaders(_) => "list for headers",
            Next::Fail(error) => match (error.is_retryable(), error.was_sent()) {
                (true, true) => "fail, retryable",
                (true, false) => "fail, retryable, unsent",
                (false, true) => "fail",
                (false, false) => "fail, unsent",
            },
        }
    }

    #[test]
    fn each_failure_has_one_next_step() {
        let transport = RequestFailure::Transport;
        let busy = RequestFailure::Rpc(RpcError::internal("busy").with_data(json!({"reason": "busy"})));
        let misses = |capabilities: Value| {
            let error = RpcError::new(ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, "x");
            RequestFailure::Rpc(error.with_data(json!({ "requiredCapabilities": capabilities })))
        };
        let tasks = misses(json!({"extensions": {IDENTIFIER: {}}}));
        let closing = Attempt { is_closing: true, ..READ };
        let fixed = Attempt { reconnects: false, ..CALL };
        let declared = Attempt { declared_tasks: true, ..CALL };
        let tool = Attempt { may_need_task: true, ..SESSION };
        let second = Attempt { is_first: false, ..CALL };
        for (failure, attempt, expected) in [
            // The server answered with an error.
            (rpc(-32603), CALL, "fail"),
            (busy.clone(), CALL, "fail, retryable"),
            (busy, SESSION, "fail, retryable"),
            (rpc(-32602), READ, "fail"),
            (rpc(-32022), CALL, "retire"),
            (rpc(-32022), LAST, "fail"),
            (rpc(-32022), SESSION, "fail"),
            (tasks.clone(), CALL, "declare tasks"),
            (tasks, declared, "fail"),
            (rpc(-32021), CALL, "fail"),
            (misses(json!({"sampling": {}})), CALL, "fail"),
            (misses(json!({"extensions": {"other": {}}})), CALL, "fail"),
            (misses(json!({"extensions": {IDENTIFIER: {}, "other": {}}})), CALL, "fail"),
            (misses(json!({"extensions": {IDENTIFIER: {}}, "sampling": {}})), CALL, "fail"),
            (rpc(-32601), tool.clone(), "list for task"),
            (rpc(-32600), tool, "list for task"),
            (rpc(-32601), SESSION, "fail"),
            (rpc(-32020), CALL, "list for headers"),
            (rpc(-32020), second, "fail"),
            (rpc(-32020), READ, "fail"),
            // The answer is unusable, or cannot come.
            (RequestFailure::Invalid("x".into()), CALL, "fail"),
            (RequestFailure::TooDeep(128), READ, "fail"),
            (RequestFailure::Unsendable(TransportError::other("x").lasting()), READ, "fail, unsent"),
            // The transport failed the request.
            (transport(TransportError::session_lost()), CALL, "retire"),
            (transport(TransportError::unreachable("x")), CALL, "retire"),
            (transport(TransportError::unreachable("x")), fixed.clone(), "fail, retryable, unsent"),
            (transport(TransportError::unreachable("x").lasting()), CALL, "fail, unsent"),
            (transport(TransportError::unanswered()), READ, "resend"),
            (transport(TransportError::unanswered()), CALL, "fail, retryable"),
            (transport(TransportError::unanswered()), LAST, "fail, retryable"),
            (transport(TransportError::too_large(1)), READ, "fail"),
            // The connection ended.
            (lost(false), CALL, "reconnect"),
            (lost(false), fixed, "reconnect"),
            (lost(false), LAST, "fail, retryable, unsent"),
            (lost(true), CALL, "fail, retryable"),
            (lost(true), READ, "reconnect"),
            (lost(true), LAST, "fail, retryable"),
            (lost(true), closing.clone(), "fail"),
            (lost(false), closing, "fail, unsent"),
            // An HTTP status without a message.
            (http(400), CALL, "fail"),
            (http(401), READ, "fail"),
            (http(403), READ, "fail"),
            (http(404), CALL, "fail"),
            (http(408), CALL, "fail, retryable"),
            (http(425), CALL, "fail, retryable"),
            (http(429), CALL, "fail, retryable"),
            (http(500), READ, "fail"),
            (http(502), CALL, "fail, retryable"),
            (http(502), READ, "resend"),
            (http(502), LAST, "fail, retryable"),
            (http(503), READ, "resend after a wait"),
            (http(503), LAST, "fail, retryable"),
            (http(503), Attempt { age: LONGEST_WAITS, ..READ }, "fail, retryable"),
            (http(503), CALL, "fail, retryable"),
            (http(504), CALL, "fail, retryable"),
            // The server may be of the other era.
            (http(400), OVER_HTTP, "reprobe and resend"),
            (http(405), OVER_HTTP, "reprobe and resend"),
            (http(404), OVER_HTTP, "fail"),
            (http(404), ASSUMED, "reprobe and resend"),
            (http(503), ASSUMED, "fail, retryable"),
            (rpc(-32000), OVER_HTTP, "reprobe"),
            (rpc(-32601), OVER_HTTP, "reprobe and resend"),
            (rpc(-32603), OVER_HTTP, "fail"),
            (rpc(-32603), ASSUMED, "reprobe"),
            (rpc(-32603), Attempt { is_safe: true, ..ASSUMED }, "reprobe and resend"),
            (rpc(-32022), ASSUMED, "retire"),
            (RequestFailure::Invalid("x".into()), ASSUMED, "reprobe"),
            (lost(true), ASSUMED, "fail, retryable"),
            (http(400), Attempt { is_stateless: false, ..OVER_HTTP }, "fail"),
            (http(400), Attempt { is_repeatable: false, ..OVER_HTTP }, "fail"),
        ] {
            assert_eq!(name(&next(&failure, &attempt)), expected, "{failure:?} {attempt:?}");
        }
    }

    #[test]
    fn the_wait_after_503_is_the_requested_one_within_a_limit() {
        let after = |seconds: Option<u64>, attempt: &Attempt| {
            let fault = TransportError::http(503, seconds.map(Duration::from_secs), "");
            match next(&RequestFailure::Transport(fault), attempt) {
                Next::ResendAfter(wait, error) => Some((wait, error.http_status())),
                _ => None,
            }
        };
        let second = Attempt { is_first: false, ..READ };
        assert_eq!(after(Some(1), &READ), Some((Duration::from_secs(1), Some(503))));
        assert_eq!(after(Some(3), &Attempt { age: Duration::from_secs(2), ..READ }).unwrap().0, Duration::from_secs(3));
        assert_eq!(after(Some(3), &Attempt { age: Duration::from_millis(2_001), ..READ }), None);
        assert_eq!(after(Some(6), &READ), None);
        // Without a requested wait, the wait is short but longer than zero.
        for (attempt, longest) in [(&READ, 125), (&second, 250)] {
            let (wait, _) = after(None, attempt).unwrap();
            let range = Duration::from_millis(longest * 3 / 5)..=Duration::from_millis(longest);
            assert!(range.contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn a_rejected_handshake_is_repeated_only_for_a_short_time() {
        let second = Duration::from_secs(1);
        let unavailable = RequestFailure::Transport(TransportError::http(503, Some(second), ""));
        let data = json!({ "reason": "busy", "retryAfterMs": 1_000 });
        let busy = RequestFailure::Rpc(RpcError::internal("busy").with_data(data));
        for (failure, attempt, age, expected) in [
            (unavailable.clone(), 1, 0, Some(second)),
            (unavailable.clone(), 2, 4_000, Some(second)),
            (unavailable.clone(), 2, 4_001, None),
            (unavailable, 3, 0, None),
            (busy.clone(), 1, 0, Some(second)),
            (busy, 3, 0, None),
            (http(500), 1, 0, None),
            (http(401), 1, 0, None),
            (rpc(-32603), 1, 0, None),
            (lost(false), 1, 0, None),
        ] {
            let wait = wait_to_open(&failure.clone().into(), attempt, Duration::from_millis(age));
            assert_eq!(wait, expected, "{failure:?} {attempt} {age}");
        }
    }

    #[test]
    fn a_call_starts_anew_only_if_the_server_permits_it() {
        let lost = |code: i64, reason: &str, can_restart: Value| -> Error {
            let data = json!({ "reason": reason, "canRestart": can_restart });
            RequestFailure::Rpc(RpcError::new(ErrorCode(code), "x").with_data(data)).into()
        };
        assert!(starts_anew(&lost(-32602, "request_state_expired", json!(true))));
        for error in [
            lost(-32602, "request_state_expired", json!(false)),
            lost(-32602, "request_state_expired", Value::Null),
            lost(-32602, "other", json!(true)),
            lost(-32603, "request_state_expired", json!(true)),
            rpc(-32602).into(),
            http(400).into(),
        ] {
            assert!(!starts_anew(&error), "{error}");
        }
    }

    #[test]
    fn handshakes_subscriptions_and_pings_classify_failures() {
        let unanswered = RequestFailure::Transport(TransportError::unanswered());
        let unauthorized_fault = TransportError::unauthorized("x");
        let unauthorized = RequestFailure::Transport(unauthorized_fault.clone());
        let busy = RequestFailure::Rpc(RpcError::internal("busy").with_data(json!({"reason": "busy"})));
        for (failure, rejects_handshake, rejects_subscription, is_answer) in [
            (rpc(-32601), true, true, true),
            (busy, true, false, true),
            (RequestFailure::Invalid("x".into()), true, false, true),
            (http(400), true, true, true),
            (http(404), true, true, true),
            (http(405), true, true, true),
            (http(401), false, true, true),
            (http(403), false, true, true),
            (http(429), false, false, true),
            (http(500), false, false, true),
            (http(502), false, false, false),
            (http(503), false, false, true),
            (http(504), false, false, false),
            (unanswered, false, false, false),
            (unauthorized, false, false, true),
            (RequestFailure::Transport(unauthorized_fault.lasting()), false, true, true),
            (lost(true), false, false, false),
        ] {
            let found = (failure.rejects_handshake(), failure.rejects_subscription(), failure.is_answer());
            assert_eq!(found, (rejects_handshake, rejects_subscription, is_answer), "{failure:?}");
        }
    }

    #[test]
    fn attempts_to_connect_end_after_an_error_that_stays() {
        let unreachable = |source| Kind::Unreachable { peer: "x".into(), source }.into();
        for (error, expected) in [
            (Kind::Version { ours: vec![], theirs: vec![] }.into(), true),
            (http(401).into(), true),
            (unreachable(TransportError::closed()), true),
            (unreachable(TransportError::unreachable("x").lasting()), true),
            (unreachable(TransportError::unreachable("x")), false),
            (lost(false).into(), false),
            (http(403).into(), false),
            (http(503).into(), false),
            (Error::timeout("x", Duration::ZERO), false),
        ] {
            assert_eq!(is_permanent(&error), expected, "{error:?}");
        }
    }

    #[test]
    fn a_busy_server_does_not_reject_a_subscription_of_a_session() {
        let busy = RequestFailure::Rpc(RpcError::internal("busy").with_data(json!({"reason": "busy"})));
        for (failure, expected) in
            [(rpc(-32602), true), (rpc(-32603), true), (busy, false), (http(503), false), (lost(true), false)]
        {
            assert_eq!(rejects_subscription(&failure.clone().into()), expected, "{failure:?}");
        }
        assert!(rejects_subscription(&Error::unsupported("x")));
    }

    #[test]
    fn the_wait_doubles_up_to_its_limit_without_overflow() {
        let (first, longest) = (Duration::from_millis(200), Duration::from_secs(30));
        for (attempt, millis) in [(1, 200), (2, 400), (5, 3200), (9, 30_000), (u32::MAX, 30_000)] {
            let wait = back_off(first, longest, attempt);
            let base = Duration::from_millis(millis);
            assert!(wait >= base.mul_f64(0.75) && wait <= base.mul_f64(1.25), "{attempt}: {wait:?}");
        }
    }
}
