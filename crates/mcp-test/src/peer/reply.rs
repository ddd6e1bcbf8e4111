//! What a scripted server does with one message.

use std::time::Duration;

use serde_json::{Value, json};

/// What a scripted server does with one message: steps, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub(super) steps: Vec<Step>,
}

/// One thing that is done.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "some of it is done over HTTP only"))]
pub(super) enum Step {
    /// Waits.
    Wait(Duration),
    /// Answers: the members that stand beside `jsonrpc` and `id`. The id is that of the request unless it is given.
    Answer { body: Value, id: Option<Value> },
    /// Answers with a text of so many bytes as the content of a tool's result.
    Large(usize),
    /// Sends a message of its own.
    Message(Value),
    /// Sends bytes as they are; no line break, no event around them.
    Raw(Vec<u8>),
    /// Breaks the connection off.
    Close,
    /// Answers over HTTP with this, and nothing else.
    Status { status: u16, headers: Vec<(String, String)>, body: String },
    /// Over HTTP, all that is sent travels as server-sent events, whose ids begin here when they have any.
    Events { ids: bool },
    /// Over HTTP, ends the stream of events in the middle of this text.
    CutEvent(String),
}

impl Reply {
    /// Nothing: the request stays open.
    #[must_use]
    pub fn silence() -> Self {
        Self::default()
    }

    /// Answers with this result.
    #[must_use]
    pub fn result(result: Value) -> Self {
        Self::default().step(Step::Answer { body: object([("result", result)]), id: None })
    }

    /// Answers with this error.
    #[must_use]
    pub fn error(code: i64, message: &str) -> Self {
        Self::default().step(Step::Answer { body: json!({"error": {"code": code, "message": message}}), id: None })
    }

    /// Answers with the result of a tool: a text of `bytes` bytes, written piece by piece.
    #[must_use]
    pub fn large(bytes: usize) -> Self {
        Self::default().step(Step::Large(bytes))
    }

    /// Sends these bytes as they are. On pipes a message ends with a line break, which is not added.
    #[must_use]
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::default().step(Step::Raw(bytes.into()))
    }

    /// Breaks the connection off without an answer.
    #[must_use]
    pub fn close() -> Self {
        Self::default().step(Step::Close)
    }

    /// Over HTTP: answers with this status and body. Elsewhere there is no such thing, and connecting panics.
    #[must_use]
    pub fn status(status: u16, body: &str) -> Self {
        Self::default().step(Step::Status { status, headers: Vec::new(), body: body.to_owned() })
    }

    /// Sends a notification before anything else.
    #[must_use]
    pub fn notify(self, method: &str, params: Value) -> Self {
        self.first(Step::Message(object([("jsonrpc", "2.0".into()), ("method", method.into()), ("params", params)])))
    }

    /// Sends this in the place of a message, whatever it is.
    #[must_use]
    pub fn message(message: Value) -> Self {
        Self::default().step(Step::Message(message))
    }

    /// Sends a request of the server's own before anything else. The answer is among what was seen.
    #[must_use]
    pub fn request(self, id: Value, method: &str, params: Value) -> Self {
        let members = [("jsonrpc", "2.0".into()), ("id", id), ("method", method.into()), ("params", params)];
        self.first(Step::Message(object(members)))
    }

    /// Waits before anything else.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        self.first(Step::Wait(time))
    }

    /// Does what the other reply does, too, after this.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self
    }

    /// Answers twice.
    #[must_use]
    pub fn twice(self) -> Self {
        let again = self.clone();
        self.then(again)
    }

    /// Answers with this id instead of the request's.
    #[must_use]
    pub fn with_id(mut self, other: impl Into<Value>) -> Self {
        let other = other.into();
        for step in &mut self.steps {
            if let Step::Answer { id, .. } = step {
                *id = Some(other.clone());
            }
        }
        self
    }

    /// The `data` of the error that it answers with.
    #[must_use]
    pub fn data(mut self, data: impl Into<Value>) -> Self {
        let data = data.into();
        for step in &mut self.steps {
            if let Step::Answer { body, .. } = step
                && body["error"].is_object()
            {
                body["error"]["data"] = data.clone();
            }
        }
        self
    }

    /// Adds a header to the status that it answers with.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        for step in &mut self.steps {
            if let Step::Status { headers, .. } = step {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        self
    }

    /// Over HTTP: sends everything as server-sent events, with ids when `ids` is set. Elsewhere it changes nothing.
    #[must_use]
    pub fn events(self, ids: bool) -> Self {
        self.first(Step::Events { ids })
    }

    /// Over HTTP: sends the first half of an event and closes the stream. Elsewhere: the first half of a line.
    #[must_use]
    pub fn cut(self, event: &str) -> Self {
        self.then(Self::default().step(Step::CutEvent(event.to_owned())))
    }

    /// Whether it can only be done over HTTP.
    pub(super) fn needs_http(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Status { .. }))
    }

    fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    fn first(mut self, step: Step) -> Self {
        self.steps.insert(0, step);
        self
    }
}

fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
}

/// The answer to the request, as text.
pub(super) fn answer(body: &Value, id: &Value) -> String {
    let mut message = json!({"jsonrpc": "2.0", "id": id});
    if let (Some(message), Some(body)) = (message.as_object_mut(), body.as_object()) {
        message.extend(body.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    message.to_string()
}

/// What stands around the text of [`Step::Large`].
pub(super) fn around_large(id: &Value) -> (String, &'static str) {
    (format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#), r#""}]}}"#)
}
