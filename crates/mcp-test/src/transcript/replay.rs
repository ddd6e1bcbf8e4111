//! The runner: sends the client's messages, and compares the server's messages.

use std::fmt::Write as _;

use mcp_protocol::ProtocolVersion;
use mcp_server_core::Server;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    Transcript, TranscriptError, TransportKind,
    client::{self, Client, Received, TIMEOUT},
    layout,
    parse::{Expected, Item, ItemKind, Sent},
    pattern::{Names, short},
};

/// The result of a successful replay.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replay {
    /// The transport of the replay.
    pub transport: TransportKind,
    /// The server's messages, in order.
    pub messages: Vec<ServerMessage>,
}

/// A message of a server, with its revision and method.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerMessage {
    /// The line of the transcript.
    pub line: usize,
    /// The revision of the request or the session. `None` if it is unknown.
    pub version: Option<ProtocolVersion>,
    /// The method of the request, if the message is a response.
    pub method: Option<String>,
    /// The message.
    pub message: Value,
}

pub(super) async fn replay(
    transcript: &Transcript,
    server: &Server,
    transport: TransportKind,
) -> Result<Replay, TranscriptError> {
    let mut runner = Runner::new(transcript, server, transport);
    let mut items = transcript.items.iter().peekable();
    while let Some(item) = items.next() {
        match &item.kind {
            ItemKind::Prose => {}
            ItemKind::Let(name, value) => runner.define(item, name, value)?,
            ItemKind::Client(sent) => runner.send(item, sent).await?,
            ItemKind::Server(expected) if !expected.is_free => runner.expect(&[(item, expected)]).await?,
            ItemKind::Server(expected) => {
                let mut group = vec![(item, expected)];
                while let Some((item, expected)) = items.peek().and_then(|item| free(item)) {
                    group.push((item, expected));
                    items.next();
                }
                runner.expect(&group).await?;
            }
        }
    }
    runner.finish().await
}

fn free(item: &Item) -> Option<(&Item, &Expected)> {
    match &item.kind {
        ItemKind::Server(expected) if expected.is_free => Some((item, expected)),
        _ => None,
    }
}

/// One replay.
pub(super) struct Runner<'t> {
    transcript: &'t Transcript,
    transport: TransportKind,
    line: Box<dyn Client>,
    pub(super) names: Names,
    log: Log,
}

impl<'t> Runner<'t> {
    pub(super) fn new(transcript: &'t Transcript, server: &Server, transport: TransportKind) -> Self {
        let line = client::connect(server, transport);
        Self { transcript, transport, line, names: Names::default(), log: Log::default() }
    }

    pub(super) fn failure(&self, line: Option<usize>, text: impl Into<String>) -> TranscriptError {
        TranscriptError::new(&self.transcript.name, line, Some(self.transport), text)
    }

    pub(super) fn define(&mut self, item: &Item, name: &str, value: &Value) -> Result<(), TranscriptError> {
        self.names.define(name, value).map_err(|problem| self.failure(Some(item.line), problem))
    }

    pub(super) async fn send(&mut self, item: &Item, sent: &Sent) -> Result<(), TranscriptError> {
        let (text, value) = match sent {
            Sent::Raw(text) => (text.clone(), serde_json::from_str(text).ok()),
            Sent::Message(message) => {
                let value = self.names.filled(message).map_err(|problem| self.failure(Some(item.line), problem))?;
                (value.to_string(), Some(value))
            }
        };
        // The server may reject raw text without its id.
        if let (Sent::Message(_), Some(value)) = (sent, &value) {
            self.log.sent(value);
        }
        match timeout(TIMEOUT, self.line.send(text, value.as_ref())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(problem)) => Err(self.failure(Some(item.line), problem)),
            Err(_) => Err(self.failure(Some(item.line), "the server does not read the message")),
        }
    }

    /// Receives the next message of the server. Returns `None` at the end.
    pub(super) async fn receive(
        &mut self,
        line: Option<usize>,
        context: &str,
    ) -> Result<Option<Received>, TranscriptError> {
        match timeout(TIMEOUT, self.line.recv()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(received))) => {
                self.log.received(line, &received.message);
                Ok(Some(received))
            }
            Ok(Some(Err(problem))) => Err(self.failure(line, problem)),
            Err(_) => {
                let seconds = TIMEOUT.as_secs();
                Err(self.failure(line, format!("the server sent nothing for {seconds} s, {context}")))
            }
        }
    }

    /// Waits for the messages in any order.
    async fn expect(&mut self, group: &[(&Item, &Expected)]) -> Result<(), TranscriptError> {
        let mut missing = group.to_vec();
        while let [(first, expected), ..] = missing[..] {
            let context = format!("expected:\n{}", layout::message("<", &expected.message));
            let Some(received) = self.receive(Some(first.line), &context).await? else {
                return Err(self.failure(Some(first.line), format!("the server has closed the connection, {context}")));
            };
            let mut closest: Option<(usize, Vec<String>)> = None;
            for (index, (_, expected)) in missing.iter().enumerate() {
                let mut differences = self.names.compare(&expected.message, &received.message);
                if let Some(status) = received.status.filter(|_| !received.has_status(expected.status)) {
                    differences.push(format!("the HTTP status: expected {}, got {status}", expected.status));
                }
                if closest.as_ref().is_none_or(|(_, fewest)| differences.len() < fewest.len()) {
                    closest = Some((index, differences));
                }
            }
            let Some((index, differences)) = closest else { continue };
            let (item, _) = missing.remove(index);
            if !differences.is_empty() {
                return Err(self.failure(Some(item.line), report(&differences, &received)));
            }
            self.log.set_line(item.line);
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Replay, TranscriptError> {
        if let Err(problem) =
            timeout(TIMEOUT, self.line.close()).await.unwrap_or_else(|_| Err("closing timed out".into()))
        {
            return Err(self.failure(None, format!("the client cannot close the connection: {problem}")));
        }
        if let Some(received) = self.receive(None, "and the connection is still open").await? {
            let text = layout::message("<", &received.message);
            return Err(self.failure(None, format!("the server sent a message that is not in the transcript:\n{text}")));
        }
        Ok(Replay { transport: self.transport, messages: self.log.messages })
    }
}

fn report(differences: &[String], received: &Received) -> String {
    const MAX: usize = 20;
    let mut text = "the server sent another message:\n".to_owned();
    // Writing into a string does not fail.
    for difference in differences.iter().take(MAX) {
        let _ = writeln!(text, "    {difference}");
    }
    if differences.len() > MAX {
        let _ = writeln!(text, "    and {} more", differences.len() - MAX);
    }
    let _ = write!(text, "got:\n{}\nUPDATE=1 rewrites the file", layout::message("<", &received.message));
    text
}

/// The pending requests, which give each message of the server its method and revision.
#[derive(Debug, Default)]
struct Log {
    session: Option<ProtocolVersion>,
    /// The revision of the last request.
    last: Option<ProtocolVersion>,
    /// Requests without a response or cancellation, oldest first.
    pending: Vec<PendingRequest>,
    messages: Vec<ServerMessage>,
}

#[derive(Debug)]
struct PendingRequest {
    id: Value,
    method: String,
    version: Option<ProtocolVersion>,
    progress_token: Value,
    /// Whether the request is an acknowledged subscription, which stays open.
    is_stream: bool,
}

impl Log {
    fn sent(&mut self, message: &Value) {
        if message["method"] == "notifications/cancelled" {
            self.pending.retain(|request| request.id != message["params"]["requestId"]);
        }
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return };
        let meta = &message["params"]["_meta"];
        let named = meta[mcp_protocol::meta::keys::PROTOCOL_VERSION].as_str();
        let version = match named {
            // The server answers an unknown revision in the newest revision.
            Some(named) => Some(ProtocolVersion::parse(named).unwrap_or(ProtocolVersion::LATEST)),
            None => self.session,
        };
        self.last = version;
        let progress_token = meta[mcp_protocol::meta::keys::PROGRESS_TOKEN].clone();
        self.pending.push(PendingRequest {
            id: id.clone(),
            method: method.to_owned(),
            version,
            progress_token,
            is_stream: false,
        });
    }

    fn received(&mut self, line: Option<usize>, message: &Value) {
        let (mut version, mut answered) = (self.session.or(self.last), None);
        if message["method"] == "notifications/subscriptions/acknowledged" {
            let id = subscription(message);
            self.pending.iter_mut().filter(|request| request.id == *id).for_each(|request| request.is_stream = true);
        }
        if message.get("method").is_some() {
            version = self.request_of(message).map_or(self.session, |request| request.version);
        } else if let Some(at) = self.pending.iter().position(|request| Some(&request.id) == message.get("id")) {
            let request = self.pending.remove(at);
            version = request.version.or(version);
            if let Some(agreed) = message["result"]["protocolVersion"].as_str() {
                self.session = ProtocolVersion::parse(agreed);
                version = self.session;
            }
            answered = Some(request.method);
        }
        let line = line.unwrap_or_default();
        self.messages.push(ServerMessage { line, version, method: answered, message: message.clone() });
    }

    /// Returns the request of a notification: by its token or subscription, otherwise the only pending request.
    fn request_of(&self, notification: &Value) -> Option<&PendingRequest> {
        let subscription = subscription(notification);
        if !subscription.is_null() {
            return self.pending.iter().find(|request| request.id == *subscription);
        }
        let token = &notification["params"]["progressToken"];
        if !token.is_null() {
            return self.pending.iter().find(|request| request.progress_token == *token);
        }
        let is_log = notification["method"] == "notifications/message";
        self.pending.last().filter(|_| is_log && self.pending.len() == 1)
    }

    /// Sets the line of the last message.
    fn set_line(&mut self, line: usize) {
        if let Some(last) = self.messages.last_mut() {
            last.line = line;
        }
    }
}

/// Returns the subscription id of a notification.
fn subscription(notification: &Value) -> &Value {
    &notification["params"]["_meta"][mcp_protocol::meta::keys::SUBSCRIPTION_ID]
}

/// The pending requests, for the recorder.
impl Runner<'_> {
    pub(super) fn has_no_pending_requests(&self) -> bool {
        self.log.pending.iter().all(|request| request.is_stream)
    }

    pub(super) fn pending_requests(&self) -> String {
        self.log
            .pending
            .iter()
            .map(|request| format!("{} {}", request.method, short(&request.id)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
