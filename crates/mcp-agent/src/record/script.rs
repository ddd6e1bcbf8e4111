//! The replay of one connection: which recorded messages of the server follow a message of the host.

mod order;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    task::Waker,
};

use mcp_protocol::RequestId;
use mcp_transport::{Frame, Route, TransportError};
use serde_json::{Value, json};

use super::{
    difference::Difference,
    line::{Event, Line},
    message::{self, Kind, Relation, kind, method, parameters, progress_token},
    redaction::{Secrets, matches},
};

/// The longest part of a message in a difference, in characters.
const SHOWN: usize = 300;

/// An event for the host.
#[derive(Debug)]
pub(super) enum Step {
    Frame(Frame),
    Fault(TransportError),
    End,
}

/// The recorded lines of a connection, and the state of their replay.
#[derive(Debug)]
pub(super) struct Script {
    entries: Vec<Entry>,
    order: Order,
    has_request_streams: bool,
    ready: VecDeque<Step>,
    /// Methods and texts.
    differences: Vec<(String, String)>,
    is_closed: bool,
    waker: Option<Waker>,
}

/// The positions of entries that the next lines come after.
#[derive(Debug, Default)]
struct Order {
    last_sent: Option<usize>,
    /// The last message of the server about each request.
    last_about: HashMap<usize, usize>,
    /// The answers of the host, each with its question.
    answers: Vec<(usize, Option<usize>)>,
}

/// A recorded line.
#[derive(Debug)]
struct Entry {
    line: Line,
    /// The number of entries that come before this one.
    unmet: usize,
    /// The entries that come after this one.
    dependents: Vec<usize>,
    /// The message of the host in this run, for an entry that the host sent.
    sent: Option<Value>,
    /// The entry of the request that a message of the server belongs to.
    request: Option<usize>,
}

impl Script {
    /// Returns the replay of a connection. The first line opened it.
    pub(super) fn new(mut lines: Vec<Line>) -> Self {
        let first = lines.remove(0);
        let mut script = Self {
            entries: Vec::with_capacity(lines.len()),
            order: Order::default(),
            has_request_streams: first.streams.unwrap_or(false),
            ready: VecDeque::new(),
            differences: Vec::new(),
            is_closed: false,
            waker: None,
        };
        for line in lines {
            script.add(line);
        }
        // Messages that follow no message of the host come first.
        let first = |entry: &Entry| entry.unmet == 0 && entry.line.event != Event::Sent;
        let start: Vec<usize> = (0..script.entries.len()).filter(|index| first(&script.entries[*index])).collect();
        script.emit(start.into_iter().collect());
        script
    }

    /// Takes a message of the host.
    pub(super) fn accept(&mut self, bytes: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(bytes) else { return };
        let kind = kind(&message);
        match self.find(&message, kind) {
            Some(index) => {
                if kind == Kind::Response {
                    self.compare_answer(index, &message);
                }
                self.entries[index].sent = Some(message);
                let next = self.complete(index);
                self.emit(next);
            }
            None if kind == Kind::Request => self.refuse(&message),
            None if kind == Kind::Response => {
                self.differ(&message, "the recording has no question with this id".to_owned());
            }
            // A notification needs no answer.
            None => {}
        }
        self.wake();
    }

    /// Returns the first recorded message that equals a message of the host.
    fn find(&self, message: &Value, kind: Kind) -> Option<usize> {
        let wanted = Value::Object(parameters(message));
        self.entries.iter().position(|entry| {
            let Some(recorded) = entry.line.message.as_ref() else { return false };
            entry.line.event == Event::Sent
                && entry.sent.is_none()
                && message::kind(recorded) == kind
                && match kind {
                    Kind::Response => recorded.get("id") == message.get("id"),
                    _ => method(recorded) == method(message) && matches(&Value::Object(parameters(recorded)), &wanted),
                }
        })
    }

    fn compare_answer(&mut self, index: usize, message: &Value) {
        let Some(recorded) = self.entries[index].line.message.as_ref() else { return };
        let has_error = |message: &Value| message.get("error").is_some();
        let is_same = match (recorded.get("result"), message.get("result")) {
            (Some(recorded), Some(result)) => matches(recorded, result),
            (recorded, result) => recorded == result,
        };
        if !is_same || has_error(recorded) != has_error(message) {
            let text = format!("the answer is {}, and the recorded answer is {}", shown(message), shown(recorded));
            let question = self.question(recorded).and_then(|index| self.entries[index].line.message.as_ref());
            let method = question.map_or("", method).to_owned();
            self.differences.push((method, text));
        }
    }

    fn refuse(&mut self, message: &Value) {
        let text = format!("the recording has no further request {}", shown(message));
        let answer = json!({
            "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32603, "message": text }
        });
        let route = route(message.get("id"));
        self.ready.push_back(Step::Frame(Frame::new(answer.to_string()).with_route(route)));
        self.differ(message, text);
    }

    fn differ(&mut self, message: &Value, text: String) {
        self.differences.push((method(message).to_owned(), text));
    }

    /// Marks an entry as done, and returns the messages of the server that can follow now.
    fn complete(&mut self, index: usize) -> BTreeSet<usize> {
        let mut next = BTreeSet::new();
        for dependent in std::mem::take(&mut self.entries[index].dependents) {
            let entry = &mut self.entries[dependent];
            entry.unmet = entry.unmet.saturating_sub(1);
            if entry.unmet == 0 && entry.line.event != Event::Sent {
                next.insert(dependent);
            }
        }
        next
    }

    /// Queues messages of the server in their recorded order, and the messages that follow them.
    fn emit(&mut self, mut open: BTreeSet<usize>) {
        while let Some(index) = open.pop_first() {
            let step = self.step(index);
            self.ready.extend(step);
            open.extend(self.complete(index));
        }
    }

    /// Returns a recorded event with the ids of this run.
    fn step(&self, index: usize) -> Option<Step> {
        let entry = &self.entries[index];
        let request = entry.request.and_then(|request| self.entries[request].sent.as_ref());
        let id = request.and_then(|request| request.get("id"));
        let text = || entry.line.text.clone().unwrap_or_default();
        Some(match entry.line.event {
            Event::Received => {
                let message = match (&entry.line.message, &entry.line.raw) {
                    (Some(recorded), _) => {
                        let mut message = recorded.clone();
                        let is_response = kind(recorded) == Kind::Response;
                        let (token, subscription) = match message::relation(recorded) {
                            Some(Relation::Progress(_)) => (request.and_then(progress_token), None),
                            Some(Relation::Subscription(_)) => (None, id),
                            None => (None, None),
                        };
                        message::rename(&mut message, id.filter(|_| is_response), token, subscription);
                        message.to_string()
                    }
                    (None, Some(raw)) => raw.clone(),
                    (None, None) => return None,
                };
                let route = if entry.line.route.is_some() { route(id) } else { Route::Connection };
                Step::Frame(Frame::new(message).with_route(route))
            }
            Event::Fault => {
                let error = TransportError::other(text());
                Step::Fault(match (entry.line.route.as_ref(), route(id)) {
                    (Some(_), Route::Request(id)) => error.of_request(id),
                    _ => error,
                })
            }
            Event::Ended => Step::End,
            Event::Opened | Event::Unreachable | Event::Sent | Event::Truncated => return None,
        })
    }

    /// Returns the next event for the host. The waker is called when there is one.
    pub(super) fn next(&mut self, waker: &Waker) -> Option<Step> {
        let step = self.ready.pop_front().or_else(|| self.is_closed.then_some(Step::End));
        match step {
            Some(Step::End) => self.is_closed = true,
            None => self.waker = Some(waker.clone()),
            Some(_) => {}
        }
        step
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.wake();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(super) fn has_request_streams(&self) -> bool {
        self.has_request_streams
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn differences(&self, server: &str) -> Vec<Difference> {
        let difference = |(method, text): &(String, String)| Difference {
            server: server.to_owned(),
            method: method.clone(),
            text: text.clone(),
        };
        self.differences.iter().map(difference).collect()
    }

    pub(super) fn missing(&self, server: &str) -> Vec<Difference> {
        let open = |entry: &&Entry| entry.line.event == Event::Sent && entry.sent.is_none();
        let messages = self.entries.iter().filter(open).filter_map(|entry| entry.line.message.as_ref());
        messages
            .filter(|message| kind(message) == Kind::Request)
            .map(|message| Difference {
                server: server.to_owned(),
                method: method(message).to_owned(),
                text: format!("the run did not send the recorded request {}", shown(message)),
            })
            .collect()
    }
}

fn route(id: Option<&Value>) -> Route {
    let id = id.and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    id.map_or(Route::Connection, Route::Request)
}

/// Returns the start of a message without `_meta` and without the texts of members with the name of a secret.
fn shown(message: &Value) -> String {
    let mut message = message.clone();
    Secrets::default().hide(&mut message);
    let message = &message;
    let text = match message.get("method") {
        Some(_) => format!("{} {}", method(message), Value::Object(parameters(message))),
        None => message.get("result").or_else(|| message.get("error")).map_or_else(String::new, Value::to_string),
    };
    text.chars().take(SHOWN).collect()
}
