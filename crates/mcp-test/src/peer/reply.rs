//! The reply of a scripted server to one message.

use std::time::Duration;

use serde_json::{Value, json};

/// The steps with which a scripted server replies to one message.
///
/// ```
/// use std::time::Duration;
///
/// use mcp_test::peer::Reply;
/// use serde_json::json;
///
/// // Waits, sends a notification, then the response.
/// let reply = Reply::result(json!({"tools": []}))
///     .notify("notifications/message", json!({"level": "info", "data": "slow"}))
///     .after(Duration::from_millis(10));
/// # let _ = reply;
/// ```
#[derive(Debug, Clone, Default)]
pub struct Reply {
    pub(super) steps: Vec<Step>,
}

/// One action of a reply.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "some steps need HTTP"))]
pub(super) enum Step {
    /// Waits.
    Wait(Duration),
    /// Sends a response with these members besides `jsonrpc` and `id`. Without an `id`, it has the id of the request.
    Answer { body: Value, id: Option<Value> },
    /// Sends a tool result with a text of this many bytes.
    Large(usize),
    /// Sends another message.
    Message(Value),
    /// Sends bytes without framing.
    Raw(Vec<u8>),
    /// Closes the connection.
    Close,
    /// Over HTTP: sends a whole response.
    Status { status: u16, headers: Vec<(String, String)>, body: String },
    /// Over HTTP: starts an event stream, with or without event ids.
    Events { ids: bool },
    /// Over HTTP: sends the first half of an event and closes the stream.
    CutEvent(String),
}

impl Reply {
    /// Sends nothing. The request stays open.
    #[must_use]
    pub fn silence() -> Self {
        Self::default()
    }

    /// Sends a response with this result.
    #[must_use]
    pub fn result(result: Value) -> Self {
        Self::default().step(Step::Answer { body: object([("result", result)]), id: None })
    }

    /// Sends a response with this error.
    #[must_use]
    pub fn error(code: i64, message: &str) -> Self {
        Self::default().step(Step::Answer { body: json!({"error": {"code": code, "message": message}}), id: None })
    }

    /// Sends a tool result with a text of `bytes` bytes, in small parts.
    #[must_use]
    pub fn large(bytes: usize) -> Self {
        Self::default().step(Step::Large(bytes))
    }

    /// Sends these bytes unchanged. Over pipes, the server does not add the line break of a message.
    #[must_use]
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::default().step(Step::Raw(bytes.into()))
    }

    /// Closes the connection without a response.
    #[must_use]
    pub fn close() -> Self {
        Self::default().step(Step::Close)
    }

    /// Over HTTP: sends a response with this status and body. Connecting to such a script over pipes panics.
    #[must_use]
    pub fn status(status: u16, body: &str) -> Self {
        Self::default().step(Step::Status { status, headers: Vec::new(), body: body.to_owned() })
    }

    /// Sends a notification before the other steps.
    #[must_use]
    pub fn notify(self, method: &str, params: Value) -> Self {
        self.first(Step::Message(object([("jsonrpc", "2.0".into()), ("method", method.into()), ("params", params)])))
    }

    /// Sends any JSON value as a message.
    #[must_use]
    pub fn message(message: Value) -> Self {
        Self::default().step(Step::Message(message))
    }

    /// Sends a request of the server before the other steps. The response is among the received messages.
    #[must_use]
    pub fn request(self, id: Value, method: &str, params: Value) -> Self {
        let members = [("jsonrpc", "2.0".into()), ("id", id), ("method", method.into()), ("params", params)];
        self.first(Step::Message(object(members)))
    }

    /// Waits before the other steps.
    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        self.first(Step::Wait(time))
    }

    /// Adds the steps of another reply.
    #[must_use]
    pub fn then(mut self, other: Self) -> Self {
        self.steps.extend(other.steps);
        self
    }

    /// Repeats all steps once.
    #[must_use]
    pub fn twice(self) -> Self {
        let again = self.clone();
        self.then(again)
    }

    /// Sets the id of the response instead of the id of the request.
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

    /// Sets the `data` of the error.
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

    /// Adds a header to the response of [`Reply::status`].
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        for step in &mut self.steps {
            if let Step::Status { headers, .. } = step {
                headers.push((name.to_owned(), value.to_owned()));
            }
        }
        self
    }

    /// Over HTTP: sends all messages as server-sent events without ids. Over pipes it has no effect.
    #[must_use]
    pub fn events(self) -> Self {
        self.first(Step::Events { ids: false })
    }

    /// Over HTTP: sends all messages as server-sent events with ids. Over pipes it has no effect.
    #[must_use]
    pub fn events_with_ids(self) -> Self {
        self.first(Step::Events { ids: true })
    }

    /// Sends the first half of an event (over pipes: of a line), and closes the connection.
    #[must_use]
    pub fn cut(self, event: &str) -> Self {
        self.then(Self::default().step(Step::CutEvent(event.to_owned())))
    }

    /// Returns whether a step needs HTTP.
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

/// Returns the text of a response.
pub(super) fn answer(body: &Value, id: &Value) -> String {
    let mut message = json!({"jsonrpc": "2.0", "id": id});
    if let (Some(message), Some(body)) = (message.as_object_mut(), body.as_object()) {
        message.extend(body.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    message.to_string()
}

/// Returns the JSON before and after the text of [`Step::Large`].
pub(super) fn around_large(id: &Value) -> (String, &'static str) {
    (format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#), r#""}]}}"#)
}
