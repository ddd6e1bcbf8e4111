//! Reads a connection: completes requests, and hands requests and notifications of the server to the receiver.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use mcp_protocol::{
    CancelledParams, EmptyParams, EmptyResult, MemberFinder, Message, Method, NotificationMethod, ProgressParams,
    ProgressToken, ProtocolVersion, RequestId, RpcError,
    jsonrpc::{self, Beginning, EnvelopeError, Notification as RawNotification, Request},
    meta::keys,
    method, notification,
};
use mcp_transport::{BoxFuture, Frame, PauseClock, Route, Transport, TransportError, TrySendError, recv};
use serde_json::{Value, value::RawValue};
use tokio::{
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{
    Asker, Connection, ConnectionManager, ECHO, Notification, StreamReceiver, pending::is_input_request,
    response::unlimited,
};
use crate::retry::RequestFailure;

/// The reason in the error of a handler whose call ended before the answer.
const CALL_ENDED: &str = "call_ended";

/// Reads until the connection ends. Then all waiting requests have failed.
pub(crate) async fn read(
    connection: Arc<Connection>,
    manager: Arc<ConnectionManager>,
    mut transport: Box<dyn Transport>,
) {
    // The guard also covers the shutdown of the runtime.
    let _end = End(Arc::clone(&connection));
    let mut reader =
        Reader { connection: &connection, manager: &manager, answering: JoinSet::new(), running: HashMap::new() };
    let fault = tokio::select! {
        biased;
        () = connection.stopped() => None,
        () = ended_for_good(&connection, &manager) => None,
        () = connection.send_delayed() => None,
        fault = reader.run(&mut *transport) => fault,
    };
    if let Some(fault) = &fault {
        tracing::debug!(error = %fault, "the connection failed");
    }
    connection.end(fault);
    // Calls can still hold the sender, so the transport must be closed explicitly.
    let limit = connection.sender.shutdown_within().unwrap_or_default().max(manager.config.limits.close);
    if timeout(limit, connection.sender.shutdown()).await.is_err() {
        tracing::debug!("the transport did not close in time");
    }
}

/// Returns when a connection that accepts no more requests has to stop, even if requests wait on it.
async fn ended_for_good(connection: &Connection, manager: &ConnectionManager) {
    connection.ended().await;
    // A server that accepts no new connections may still process earlier requests.
    let may_answer = || connection.fault().is_some_and(TransportError::is_unreachable) && connection.pending.len() > 0;
    while timeout(manager.config.limits.close, manager.closing.cancelled()).await.is_err() && may_answer() {}
}

struct End(Arc<Connection>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.end(None);
    }
}

struct Reader<'a> {
    connection: &'a Arc<Connection>,
    manager: &'a Arc<ConnectionManager>,
    /// Tasks that answer requests of the server. They end with the connection.
    answering: JoinSet<RequestId>,
    running: HashMap<RequestId, AbortHandle>,
}

impl Reader<'_> {
    async fn run(&mut self, transport: &mut dyn Transport) -> Option<TransportError> {
        loop {
            if self.connection.is_ended() && self.connection.pending.len() == 0 {
                return None;
            }
            let frame = tokio::select! {
                biased;
                Some(answered) = self.answering.join_next(), if !self.answering.is_empty() => {
                    match answered {
                        Ok(id) => drop(self.running.remove(&id)),
                        Err(_) => self.running.retain(|_, task| !task.is_finished()),
                    }
                    continue;
                }
                frame = recv(transport) => frame,
            };
            match frame {
                None => return None,
                Some(Ok(frame)) => self.frame(&frame),
                Some(Err(fault)) => {
                    if let Some(fault) = self.fault(fault) {
                        return Some(fault);
                    }
                }
            }
        }
    }

    /// Returns the fault if it ends the connection.
    fn fault(&self, fault: TransportError) -> Option<TransportError> {
        if let Some(RequestId::Integer(id)) = fault.request() {
            self.connection.pending.complete(*id, Err(RequestFailure::Transport(fault.clone())));
        }
        if fault.is_session_lost() {
            self.connection.retire(fault);
            return None;
        }
        if fault.is_missed() {
            self.manager.receiver.notification(&Notification::missed(), true);
            return None;
        }
        if fault.request().is_some() {
            return None;
        }
        if fault.is_too_large() {
            tracing::warn!(error = %fault, "a message of the server is too large and was skipped");
            let beginning = jsonrpc::beginning(fault.start());
            let failure = Err(RequestFailure::Transport(fault));
            match beginning {
                Beginning::Response(Some(id)) => _ = self.connection.complete(&Route::Connection, &id, failure),
                Beginning::Response(None) => _ = self.connection.pending.complete_only(failure),
                // No request is known to wait for it.
                _ => {}
            }
            return None;
        }
        Some(fault)
    }

    fn frame(&mut self, frame: &Frame) {
        match Message::parse_with(&frame.message, &self.connection.limits()) {
            Ok(message) => self.message(frame, message),
            Err(error) => match self.split_batch(frame) {
                Some(Ok(messages)) => {
                    messages.into_iter().for_each(|message| self.batched(frame, message.get().as_bytes()))
                }
                Some(Err(error)) => self.connection.invalid_message(frame, &frame.message, &error),
                None => self.connection.invalid_message(frame, &frame.message, &error),
            },
        }
    }

    fn batched(&mut self, frame: &Frame, message: &[u8]) {
        match Message::parse_with(message, &self.connection.limits()) {
            Ok(message) => self.message(frame, message),
            Err(error) => self.connection.invalid_message(frame, message, &error),
        }
    }

    /// Returns the messages of a batch, or its error; `None` if the frame is not an array, or if the revision has no batches.
    /// The depth limit holds for each message alone.
    fn split_batch<'a>(&self, frame: &'a Frame) -> Option<Result<Vec<&'a RawValue>, EnvelopeError>> {
        let is_array = frame.message.trim_ascii_start().starts_with(b"[");
        let allows_batches = || self.connection.version().is_none_or(ProtocolVersion::has_batches);
        (is_array && allows_batches()).then(|| jsonrpc::split_batch(&frame.message, &unlimited()))
    }

    fn message(&mut self, frame: &Frame, message: Message<'_>) {
        match message {
            Message::Response(response) => self.connection.response(frame, response),
            Message::Notification(notification) => self.notification(frame, &notification),
            Message::Request(request) => self.request(frame, &request),
        }
    }

    fn notification(&mut self, frame: &Frame, raw: &RawNotification<'_>) {
        self.connection.report_gap(|| self.manager.report_gap());
        match &*raw.method {
            notification::Progress::NAME => match jsonrpc::decode_params::<ProgressParams>(&raw.method, raw.params) {
                Ok(progress) => {
                    let id = match progress.progress_token.clone() {
                        ProgressToken::Integer(id) => RequestId::Integer(id),
                        ProgressToken::String(id) => RequestId::String(id),
                    };
                    if let Some(slot) = self.connection.pending.find_progress(&id) {
                        slot.progress(progress);
                    }
                }
                Err(error) => tracing::debug!(%error, "a progress notification is invalid"),
            },
            notification::Cancelled::NAME => {
                if let Ok(CancelledParams { request_id: Some(id), .. }) =
                    jsonrpc::decode_params(&raw.method, raw.params)
                {
                    if let Some(task) = self.running.remove(&id) {
                        task.abort();
                    } else if self.connection.pending.find(&id).is_some_and(|slot| slot.receiver.is_some()) {
                        // A server can end a subscription in this way, before or instead of an answer.
                        let ended = TransportError::unanswered();
                        self.connection.complete(&Route::Connection, &id, Err(RequestFailure::Transport(ended)));
                    }
                }
            }
            notification::LoggingMessage::NAME => self.log(frame, raw),
            _ => {}
        }
        let notification = Notification::new(raw);
        if self.connection.version().is_some_and(|version| version.has_listen()) {
            if self.subscription(frame, &notification).is_some_and(|stream| stream.notification(&notification)) {
                self.manager.report_gap();
            }
            self.manager.receiver.notification(&notification, false);
        } else {
            self.manager.receiver.notification(&notification, true);
        }
    }

    /// Passes a log record to the handler of its call. The record of a task belongs to a request for the result of this task.
    fn log(&self, frame: &Frame, raw: &RawNotification<'_>) {
        let pending = &self.connection.pending;
        let Ok(task) = related_task(raw.params) else { return };
        let call = match task.as_deref().map(|task| pending.call_of_task(task)) {
            Some(Some(call)) => Some(call),
            Some(None) if pending.relays_tasks() => None,
            _ => {
                let has_streams = self.connection.sender.has_request_streams();
                pending.asker(&frame.route, &raw.method, has_streams).call().cloned()
            }
        };
        // A record on the stream of a request belongs to this request, and not to the connection.
        let is_of_connection = task.is_none() && frame.route == Route::Connection;
        if (call.is_some() || is_of_connection)
            && let Ok(record) = jsonrpc::decode_params(&raw.method, raw.params)
        {
            self.manager.receiver.log(call.as_deref(), record);
        }
    }

    /// Returns the receiver of the subscription that a notification names, or on whose stream it came.
    fn subscription(&self, frame: &Frame, notification: &Notification) -> Option<Arc<dyn StreamReceiver>> {
        let named = notification.decode::<EmptyParams>().ok().and_then(|params| params.meta?.subscription_id());
        let id = match (&named, &frame.route) {
            (Some(id), _) | (None, Route::Request(id)) => id,
            (None, Route::Connection) => return None,
        };
        self.connection.pending.find(id)?.receiver.clone()
    }

    fn request(&mut self, frame: &Frame, request: &Request<'_>) {
        if self.connection.version().is_some_and(|version| version.is_stateless()) {
            tracing::debug!(method = %request.method, "servers of this revision must not send requests");
            return;
        }
        if matches!(&*request.method, method::Discover::NAME | method::Initialize::NAME)
            && self.connection.version().is_none()
        {
            // Only clients send these requests.
            self.connection.set_foreign(ECHO);
            self.connection.end(None);
            return;
        }
        let id = request.id.clone();
        let route = frame.route.clone();
        // Pings do not count against the limit of requests. Without capacity in the transport a ping is treated as a request.
        if request.method == method::Ping::NAME
            && let Ok(message) = jsonrpc::response(&id, &EmptyResult::default())
            && !matches!(self.connection.reply_at_once(frame, message), Err(TrySendError::Full(_)))
        {
            return;
        }
        let answer = self.answer(frame, request).and_then(|answer| {
            let is_known = self.running.contains_key(&id);
            let repeated = || RpcError::invalid_request("a request with this id is being answered");
            if is_known { Err(repeated()) } else { Ok(answer) }
        });
        let (answer, clocks) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                // The error is dropped if the server sends requests but does not read.
                let _ = self.connection.reply_at_once(frame, jsonrpc::error_response(Some(&id), &error));
                return;
            }
        };
        let connection = Arc::clone(self.connection);
        let key = id.clone();
        let task = self.answering.spawn(async move {
            answer_request(&connection, &clocks, route, &id, answer).await;
            id
        });
        self.running.insert(key, task);
    }
}

impl Reader<'_> {
    /// Returns the answer to a request of the server, which is made when the future is polled, and the clocks that pause meanwhile.
    ///
    /// # Errors
    /// If too many requests of the server are answered, or no handler may answer the request.
    fn answer(&self, frame: &Frame, request: &Request<'_>) -> Result<(Answer, Vec<PauseClock>), RpcError> {
        let is_full = self.running.len() >= self.manager.config.limits.server_requests;
        let busy = || RpcError::internal("the client is busy");
        let (connection, receiver) = (self.connection, &self.manager.receiver);
        let has_streams = connection.sender.has_request_streams();
        let task = related_task(request.params)?;
        let call = task.as_deref().and_then(|task| connection.pending.call_of_task(task));
        let asker = match (call, task) {
            (Some(call), _) => Asker::Call(call),
            (None, Some(task)) if connection.pending.relays_tasks() => {
                if is_full {
                    return Err(busy());
                }
                let limit = self.manager.config.limits.server_request_timeout;
                let (connection, receiver) = (Arc::clone(connection), Arc::clone(receiver));
                let (method, params) = (request.method.to_string(), request.params.map(ToOwned::to_owned));
                let answer: Answer = Box::pin(async move {
                    let late = |_| RpcError::internal("the result of the task was not requested in time");
                    let waiting = timeout(limit, connection.pending.next_call_of_task(&task));
                    let call = waiting.await.map_err(late)?;
                    let _pause = call.clock().pause();
                    let asker = Asker::Call(Arc::clone(&call));
                    receiver.request(&connection, &method, params.as_deref(), &asker).await
                });
                return Ok((answer, Vec::new()));
            }
            (None, _) => connection.pending.asker(&frame.route, &request.method, has_streams),
        };
        // Each call has a place of its own, so that the requests of some calls do not affect the others.
        if is_full && asker.call().is_none_or(|call| call.is_answering()) {
            return Err(busy());
        }
        match asker.refusal() {
            Some(error) => {
                if matches!(asker, Asker::Ambiguous) && is_input_request(&request.method) {
                    self.manager.question_failed.send_replace(true);
                }
                Err(error)
            }
            None => {
                let (clocks, answering) = (asker.clocks(&connection.clock), asker.answering());
                let first = receiver.request(connection, &request.method, request.params, &asker);
                if !matches!(asker, Asker::OneOf { .. }) {
                    let answer: Answer = Box::pin(async move {
                        let _answering = answering;
                        first.await
                    });
                    return Ok((answer, clocks));
                }
                let (connection, receiver) = (Arc::clone(connection), Arc::clone(receiver));
                let (method, params) = (request.method.to_string(), request.params.map(ToOwned::to_owned));
                let answer: Answer = Box::pin(async move {
                    let (mut asker, mut answering, mut answered) = (asker, answering, first.await);
                    while answered.as_ref().is_err_and(is_of_ended_call) {
                        drop(answering.take());
                        let Some(other) = asker.without_ended(&method) else { break };
                        answering = other.answering();
                        answered = receiver.request(&connection, &method, params.as_deref(), &other).await;
                        asker = other;
                    }
                    answered
                });
                Ok((answer, clocks))
            }
        }
    }
}

/// Whether a handler did not answer, because its call ended before the answer.
fn is_of_ended_call(error: &RpcError) -> bool {
    error.data.as_ref().is_some_and(|data| data.get("reason").is_some_and(|reason| reason == CALL_ENDED))
}

/// Returns the task that a request of the server names (2025-11-25).
///
/// # Errors
/// `-32602` if the parameters can name a task, and cannot be read. The call of another client could answer the request.
fn related_task(params: Option<&RawValue>) -> Result<Option<String>, RpcError> {
    static MEMBER: LazyLock<MemberFinder> = LazyLock::new(|| MemberFinder::new(keys::RELATED_TASK));
    let Some(params) = params.filter(|params| MEMBER.may_have(params.get().as_bytes())) else { return Ok(None) };
    let params: EmptyParams = serde_json::from_str(params.get())
        .map_err(|error| RpcError::invalid_params(format!("the parameters cannot be read: {error}")))?;
    Ok(params.meta.and_then(|meta| meta.related_task().map(str::to_owned)))
}

type Answer = BoxFuture<'static, Result<Value, RpcError>>;

/// Answers a request of the server. The clocks pause meanwhile.
async fn answer_request(
    connection: &Arc<Connection>,
    clocks: &[PauseClock],
    route: Route,
    id: &RequestId,
    answer: Answer,
) {
    let answered = {
        let _pauses: Vec<_> = clocks.iter().map(PauseClock::pause).collect();
        answer.await
    };
    let message = match answered {
        Ok(result) => jsonrpc::response(id, &result).unwrap_or_else(|error| {
            tracing::error!(%error, "an answer cannot be serialized");
            jsonrpc::error_response(Some(id), &RpcError::internal("the answer cannot be written"))
        }),
        Err(error) => jsonrpc::error_response(Some(id), &error),
    };
    respond(connection, route, message).await;
}

async fn respond(connection: &Connection, route: Route, message: Vec<u8>) {
    let mut frame = Frame::new(message).with_route(route);
    frame.hints.version = connection.version();
    // If the connection has ended, the reading task notices it.
    let _ = connection.sender.send(frame).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_related_task_of_a_request_has_one_meaning_in_each_spelling() {
        for (params, expected) in [
            (r#"{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#, Ok(Some("t"))),
            // The form that PHP writes.
            (r#"{"_meta":{"io.modelcontextprotocol\/related-task":{"taskId":"t"}}}"#, Ok(Some("t"))),
            (r#"{"_meta":{"io.modelcontextprotocol/rel\u0061ted-task":{"taskId":"t"}}}"#, Ok(Some("t"))),
            (r#"{"message":"a\/b","n":1e400}"#, Ok(None)),
            (r#"{"arguments":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#, Ok(None)),
            (r#"{"_meta":{"a":1e400,"io.modelcontextprotocol/related-task":{"taskId":"t"}}}"#, Err(())),
            ("{}", Ok(None)),
        ] {
            let params: Box<RawValue> = serde_json::from_str(params).unwrap();
            let expected = expected.map(|task| task.map(str::to_owned));
            assert_eq!(related_task(Some(&params)).map_err(drop), expected, "{params}");
        }
        assert_eq!(related_task(None).unwrap(), None);
    }
}
