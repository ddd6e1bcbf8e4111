//! The input requests of servers with sessions: the client of the call answers them, during the call or in a later round.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use mcp_client::{Client, Handler, InputContext, RawRequest, transport::BoxFuture};
use mcp_protocol::{
    ClientCapabilities, ElicitParams, InputRequest, JsonObject, LoggingMessageParams, Method as _, ProgressParams,
    ProtocolVersion, RpcError, meta::keys, method, shape_object,
};
use mcp_server_core::source::SourceCall;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::{
    asked::{ParkedResult, park},
    caller::of_input_requests,
    pages::{OpenPage, Pages, renamed},
    parked::Questions,
};
use crate::registry::forward_meta;

/// Sends the input requests of a call to the client of the call.
pub(super) struct Asker {
    pub(super) client: AskedClient,
    pub(super) server: Arc<str>,
    /// The client of the connection that asks.
    pub(super) upstream: Client,
    pub(super) pages: Pages,
    /// The capabilities that the client declares.
    pub(super) capabilities: Arc<ClientCapabilities>,
    /// The queue of the call. It ends with the call, also if the call becomes a task. The records of a task have another way
    /// ([`Core::follow_task`](super::Core::follow_task)).
    pub(super) notices: Weak<Notices>,
    /// The id of the task that asks, for the client.
    pub(super) task: Option<Arc<str>>,
    /// Equal for the calls of one client, and for no other client. `None`: the client is not known.
    pub(super) caller: Option<Arc<str>>,
}

/// A notification of a server during a call.
pub(super) enum Notice {
    Progress(ProgressParams),
    Log(LoggingMessageParams),
}

/// The number of notifications that wait for a slow client. Beyond it, the oldest log record is dropped, or the oldest progress if no
/// record waits.
const WAITING: usize = 64;

/// The notifications that wait for the client. Each call has such a queue, and few calls use it, so an empty queue needs little memory.
#[derive(Default)]
pub(super) struct Notices {
    waiting: Mutex<Waiting>,
    added: Notify,
    ended: Notify,
}

#[derive(Default)]
struct Waiting {
    queue: VecDeque<Notice>,
    /// The number of dropped notifications since the last call of [`Notices::take`].
    dropped: usize,
    has_ended: bool,
}

impl Notices {
    pub(super) fn add(&self, notice: Notice) {
        {
            let mut waiting = self.waiting.lock();
            if waiting.queue.len() == WAITING {
                let oldest = waiting.queue.iter().position(|notice| matches!(notice, Notice::Log(_)));
                // The newest progress stays, because the client needs the last value.
                waiting.queue.remove(oldest.unwrap_or_default());
                waiting.dropped += 1;
            }
            waiting.queue.push_back(notice);
        }
        self.added.notify_one();
    }

    fn take(&self) -> Option<Notice> {
        let (notice, dropped) = {
            let mut waiting = self.waiting.lock();
            (waiting.queue.pop_front(), std::mem::take(&mut waiting.dropped))
        };
        if dropped > 0 {
            tracing::debug!(dropped, "a client reads slowly: notifications of its call were dropped");
        }
        notice
    }

    /// Ends the queue behind the notifications that wait.
    pub(super) fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.added.notify_one();
        self.ended.notify_one();
    }

    /// Waits for the end of the queue. One task waits. Notifications can wait after the end.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Waits for a notification. Returns `None` at the end of the queue. Cancel safe.
    pub(super) async fn next(&self) -> Option<Notice> {
        loop {
            if let Some(notice) = self.take() {
                return Some(notice);
            }
            if self.waiting.lock().has_ended {
                return None;
            }
            self.added.notified().await;
        }
    }
}

/// The client that answers.
#[derive(Clone)]
pub(super) enum AskedClient {
    /// A session answers on the stream of its call.
    Session(SourceCall),
    /// A stateless client answers in a later round.
    LaterRound(Questions<ParkedResult, SourceCall>),
}

impl AskedClient {
    /// Returns the request of the client that waits now.
    pub(super) fn waiting(&self) -> Option<SourceCall> {
        match self {
            Self::Session(call) => Some(call.clone()),
            Self::LaterRound(questions) => questions.request(),
        }
    }

    /// Returns the request of the client that ended last.
    fn ended(&self) -> Option<SourceCall> {
        match self {
            Self::Session(call) => Some(call.clone()),
            Self::LaterRound(questions) => questions.last_request(),
        }
    }
}

impl Asker {
    /// Asks the client, and returns its answer. Both stay JSON.
    async fn ask(&self, question: &InputContext<RawRequest>) -> Result<Value, RpcError> {
        let invalid = |error: serde_json::Error| {
            RpcError::invalid_params(format!("the parameters of the input request cannot be read: {error}"))
        };
        let (method, raw) = (question.method(), question.raw_params());
        let params = raw.map(|params| serde_json::from_str::<JsonObject>(params.get())).transpose().map_err(invalid)?;
        let mut params = params.unwrap_or_default();
        // The client would report progress with a token of the server, and the gateway has other tokens.
        let wants_progress = remove_meta(&mut params, "progressToken");
        match &self.client {
            AskedClient::Session(call) => {
                let open = self.forward_page(call, &mut params);
                if let Some(task) = &self.task {
                    relate(&mut params, task);
                }
                let request = InputRequest::new(method, Some(params.into()));
                let answer = match wants_progress {
                    true => {
                        let question = question.clone();
                        let forward = move |mut notice: ProgressParams| {
                            notice.meta = notice.meta.as_ref().and_then(forward_meta);
                            question.forward_progress(notice);
                        };
                        call.ask_with_progress(request, forward).await?
                    }
                    false => call.ask(request).await?,
                };
                let accepted = |answer: &Value| answer.get("action").is_some_and(|action| action == "accept");
                if let Some(open) = open.filter(|_| accepted(&answer)) {
                    open.keep();
                }
                Ok(answer)
            }
            AskedClient::LaterRound(questions) => {
                if method == method::Elicit::NAME {
                    shape_object::<ElicitParams>(&mut params, ProtocolVersion::LATEST).map_err(invalid)?;
                }
                // The revision of the client names no task.
                remove_meta(&mut params, keys::RELATED_TASK);
                let params = (!params.is_empty()).then(|| params.into());
                park(questions, InputRequest::new(method, params), question.call().is_none()).await
            }
        }
    }

    /// Gives a page an id that no other server uses. A notification about the completion names this id.
    fn forward_page(&self, call: &SourceCall, params: &mut JsonObject) -> Option<OpenPage> {
        params.get("mode").filter(|mode| *mode == "url")?;
        let id = params.get("elicitationId")?.as_str()?.to_owned();
        params.insert("elicitationId".to_owned(), renamed(&self.server, &id).into());
        self.pages.forward(&self.server, &id, self.upstream.notifications(), call)
    }
}

/// Returns a question with the task that asks it (2025-11-25).
pub(super) fn related_to(mut request: InputRequest, task: &str) -> InputRequest {
    if let Value::Object(params) = request.params.get_or_insert_with(|| json!({})) {
        relate(params, task);
    }
    request
}

fn relate(params: &mut Map<String, Value>, task: &str) {
    if let Value::Object(meta) = params.entry("_meta").or_insert_with(|| json!({})) {
        meta.insert(keys::RELATED_TASK.to_owned(), json!({ "taskId": task }));
    }
}

/// Removes a member of the metadata, and the metadata if it becomes empty. Returns whether the member existed.
fn remove_meta(params: &mut Map<String, Value>, key: &str) -> bool {
    let Some(Value::Object(meta)) = params.get_mut("_meta") else { return false };
    let is_removed = meta.shift_remove(key).is_some();
    if is_removed && meta.is_empty() {
        params.shift_remove("_meta");
    }
    is_removed
}

impl Handler for Asker {
    fn capabilities(&self) -> ClientCapabilities {
        of_input_requests(&self.capabilities)
    }

    fn relays(&self) -> bool {
        true
    }

    fn caller(&self) -> Option<Arc<str>> {
        self.caller.clone()
    }

    fn cancellation_reason(&self) -> Option<String> {
        self.client.ended()?.context().cancellation_reason().map(str::to_owned)
    }

    fn request(&self, question: InputContext<RawRequest>) -> BoxFuture<'_, Result<Value, RpcError>> {
        Box::pin(async move { self.ask(&question).await })
    }

    fn log(&self, record: LoggingMessageParams) {
        if let Some(notices) = self.notices.upgrade() {
            notices.add(Notice::Log(record));
        }
    }
}

#[cfg(test)]
mod tests {
    use mcp_protocol::LoggingLevel;

    use super::*;

    #[test]
    fn a_slow_client_loses_the_oldest_records_and_receives_the_last_progress() {
        let record = |number: usize| Notice::Log(LoggingMessageParams::new(LoggingLevel::Info, json!(number)));
        let progress = |value: f64| Notice::Progress(ProgressParams::new(1, value));
        let number = |notice: Notice| match notice {
            Notice::Log(record) => record.data.as_u64().map(|number| format!("record {number}")),
            Notice::Progress(notice) => Some(format!("progress {}", notice.progress)),
        };
        let records = |from: usize, to: usize| (from..to).map(|number| format!("record {number}"));
        let progresses = |from: usize, to: usize| (from..to).map(|value| format!("progress {value}"));
        let cases: [(Vec<Notice>, Vec<String>, usize); 3] = [
            (
                (0..100).map(record).chain([progress(1.0)]).collect(),
                records(37, 100).chain(progresses(1, 2)).collect(),
                37,
            ),
            (
                [progress(0.0)].into_iter().chain((0..100).map(record)).collect(),
                progresses(0, 1).chain(records(37, 100)).collect(),
                37,
            ),
            (
                (0..100_u8).map(|value| progress(f64::from(value))).chain([record(7)]).collect(),
                progresses(37, 100).chain(records(7, 8)).collect(),
                37,
            ),
        ];
        for (added, expected, dropped) in cases {
            let notices = Notices::default();
            added.into_iter().for_each(|notice| notices.add(notice));
            assert_eq!(notices.waiting.lock().dropped, dropped);
            let taken: Vec<_> = std::iter::from_fn(|| notices.take()).filter_map(number).collect();
            assert_eq!(taken, expected);
            assert_eq!(notices.waiting.lock().dropped, 0);
        }
    }
}
