//! Completes the requests of a connection by responses and by invalid messages.

use mcp_protocol::{
    ErrorCode, Excerpt, Message, ProtocolVersion, RequestId, RpcError,
    jsonrpc::{self, EnvelopeError, Response},
};
use mcp_transport::{Frame, Route, TrySendError};

use super::{Connection, RequestOutcome};
use crate::retry::RequestFailure;

/// The bytes of an invalid message that are examined to show it.
const SHOWN: usize = 1024;

/// Returns limits without a depth. The parser does not recurse.
pub(super) fn unlimited() -> jsonrpc::Limits {
    jsonrpc::Limits::default().depth(usize::MAX)
}

impl Connection {
    /// Handles the response that the exchange of a request returned.
    pub(super) fn exchanged(&self, id: i64, frame: &Frame) {
        match Message::parse_with(&frame.message, &self.limits()) {
            Ok(Message::Response(response)) => self.response(frame, response),
            Ok(_) => {
                let failure = RequestFailure::Invalid("the transport returned a message that is not a response".into());
                self.pending.complete(id, Err(failure));
            }
            Err(error) => self.invalid_message(frame, &frame.message, &error),
        }
        if self.is_ended() && self.pending.len() == 0 {
            // The reader does not notice a response that it does not read.
            self.stopped.cancel();
        }
    }

    /// Returns the limits of a message of the server.
    pub(super) fn limits(&self) -> jsonrpc::Limits {
        jsonrpc::Limits::default().depth(self.json_depth)
    }

    /// Handles an invalid message of a frame: fails the request that it belongs to, if that is known. Servers also print text
    /// that belongs to no request.
    pub(super) fn invalid_message(&self, frame: &Frame, message: &[u8], error: &EnvelopeError) {
        tracing::debug!(%error, "the server sent an invalid message");
        let limit = self.json_depth;
        let (id, failure) = match Message::parse_with(message, &unlimited()) {
            // Only the depth limit was exceeded.
            Ok(Message::Response(response)) => (response.id, RequestFailure::TooDeep(limit)),
            Ok(Message::Request(request)) => return self.reject(frame, &request.id, error),
            Ok(Message::Notification(_)) => return,
            Err(other) if other.id.is_none() && error.error.code == ErrorCode::PARSE_ERROR => {
                let text = String::from_utf8_lossy(&message[..message.len().min(SHOWN)]);
                self.set_foreign(format!("sent text that is not a message: {:?}", Excerpt::new(text.trim())));
                (None, RequestFailure::Invalid(error.to_string().into()))
            }
            Err(other) => (error.id.clone().or(other.id), RequestFailure::Invalid(error.to_string().into())),
        };
        match (&id, &frame.route) {
            (Some(id), _) | (None, Route::Request(id)) => _ = self.complete(&Route::Connection, id, Err(failure)),
            (None, Route::Connection) => {}
        }
    }

    /// Answers a request of the server that is nested too deep. Otherwise the server would wait for its timeout.
    fn reject(&self, frame: &Frame, id: &RequestId, error: &EnvelopeError) {
        if self.version().is_some_and(ProtocolVersion::is_stateless) {
            return;
        }
        // The id is known, so the code is not that of a parse error (JSON-RPC 2.0, section 5).
        let error = RpcError::invalid_request(&*error.error.message);
        // The error is dropped if the server sends requests but does not read.
        let _ = self.reply_at_once(frame, jsonrpc::error_response(Some(id), &error));
    }

    /// Sends a response to a message of this frame, if the transport has capacity.
    pub(super) fn reply_at_once(&self, received: &Frame, response: Vec<u8>) -> Result<(), TrySendError> {
        let mut frame = Frame::new(response).with_route(received.route.clone());
        frame.hints.version = self.version();
        self.sender.try_send(frame)
    }

    /// Completes a request by a message from this route. Returns true if the request was waiting.
    pub(super) fn complete(&self, route: &Route, id: &RequestId, outcome: RequestOutcome) -> bool {
        let (number, outcome) = match id {
            RequestId::Integer(number) => (*number, outcome),
            // The request fails at once, because no other answer will come.
            RequestId::String(text) => match text.parse() {
                Ok(number) => (
                    number,
                    Err(RequestFailure::Invalid(format!("the answer to request {number} has the id {text:?}").into())),
                ),
                Err(_) => return false,
            },
        };
        let was_waiting = self.pending.complete(number, outcome);
        if was_waiting && !matches!(route, Route::Request(own) if own == id) {
            // The answer came elsewhere, so the stream of the request can still be open.
            self.sender.close(&number.into());
        }
        was_waiting
    }

    /// Completes the request of a response.
    pub(super) fn response(&self, frame: &Frame, response: Response<'_>) {
        let outcome = match response.outcome {
            Ok(result) => Ok(frame.message.slice_ref(result.get().as_bytes())),
            Err(error) => Err(RequestFailure::Rpc(error)),
        };
        let is_known = match (&response.id, &frame.route) {
            (Some(id), _) | (None, Route::Request(id)) => self.complete(&frame.route, id, outcome),
            (None, Route::Connection) => self.pending.complete_only(outcome),
        };
        if !is_known {
            // Answers to cancelled requests often come late.
            tracing::debug!(id = ?response.id, "an answer without a waiting request");
        }
    }
}
