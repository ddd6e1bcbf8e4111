//! The runner: sends what the client sends, and compares what the server answers.

use std::fmt::Write as _;

use mcp_protocol::ProtocolVersion;
use mcp_server_core::Server;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    Failure, Over, Transcript, layout,
    line::{self, Heard, LIMIT, Line},
    parse::{Expected, Item, ItemKind, Sent},
    pattern::{Names, short},
};

/// What was said when a transcript was replayed.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replay {
    /// What it was replayed over.
    pub over: Over,
    /// What the server said, in order.
    pub messages: Vec<ServerMessage>,
}

/// A message of a server, and what it is about.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ServerMessage {
    /// The line of the transcript.
    pub line: usize,
    /// The revision that it speaks: that of the request, or of the session. `None` when nobody named one that is known.
    pub version: Option<ProtocolVersion>,
    /// The method of the request that it answers; `None` for what answers none.
    pub method: Option<String>,
    /// The message itself.
    pub message: Value,
}

pub(super) async fn replay(transcript: &Transcript, server: &Server, over: Over) -> Result<Replay, Failure> {
    let mut runner = Runner::new(transcript, server, over);
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
    over: Over,
    line: Box<dyn Line>,
    pub(super) names: Names,
    log: Log,
}

impl<'t> Runner<'t> {
    pub(super) fn new(transcript: &'t Transcript, server: &Server, over: Over) -> Self {
        let line = line::connect(server, over);
        Self { transcript, over, line, names: Names::default(), log: Log::default() }
    }

    pub(super) fn failure(&self, line: Option<usize>, text: impl Into<String>) -> Failure {
        Failure::new(&self.transcript.name, line, Some(self.over), text)
    }

    pub(super) fn define(&mut self, item: &Item, name: &str, value: &Value) -> Result<(), Failure> {
        self.names.define(name, value).map_err(|problem| self.failure(Some(item.line), problem))
    }

    pub(super) async fn send(&mut self, item: &Item, sent: &Sent) -> Result<(), Failure> {
        let (text, value) = match sent {
            Sent::Raw(text) => (text.clone(), serde_json::from_str(text).ok()),
            Sent::Message(message) => {
                let value = self.names.filled(message).map_err(|problem| self.failure(Some(item.line), problem))?;
                (value.to_string(), Some(value))
            }
        };
        // Raw text is sent to be refused, maybe without its id.
        if let (Sent::Message(_), Some(value)) = (sent, &value) {
            self.log.sent(value);
        }
        match timeout(LIMIT, self.line.send(text, value.as_ref())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(problem)) => Err(self.failure(Some(item.line), problem)),
            Err(_) => Err(self.failure(Some(item.line), "the server does not take the message")),
        }
    }

    /// The next message of the server; nothing after its end.
    pub(super) async fn hear(&mut self, line: Option<usize>, waiting_for: &str) -> Result<Option<Heard>, Failure> {
        match timeout(LIMIT, self.line.recv()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(heard))) => {
                self.log.heard(line, &heard.message);
                Ok(Some(heard))
            }
            Ok(Some(Err(problem))) => Err(self.failure(line, problem)),
            Err(_) => {
                let seconds = LIMIT.as_secs();
                Err(self.failure(line, format!("the server said nothing for {seconds} s, {waiting_for}")))
            }
        }
    }

    /// Waits for the messages, in whatever order.
    async fn expect(&mut self, group: &[(&Item, &Expected)]) -> Result<(), Failure> {
        let mut missing = group.to_vec();
        while let [(first, expected), ..] = missing[..] {
            let waiting_for = format!("expected:\n{}", layout::message("<", &expected.message));
            let Some(heard) = self.hear(Some(first.line), &waiting_for).await? else {
                return Err(self.failure(Some(first.line), format!("the server has ended, {waiting_for}")));
            };
            let mut closest: Option<(usize, Vec<String>)> = None;
            for (index, (_, expected)) in missing.iter().enumerate() {
                let mut differences = self.names.compare(&expected.message, &heard.message);
                if let Some(status) = heard.status.filter(|_| !heard.has_status(expected.status)) {
                    differences.push(format!("the HTTP status: expected {}, got {status}", expected.status));
                }
                if closest.as_ref().is_none_or(|(_, fewest)| differences.len() < fewest.len()) {
                    closest = Some((index, differences));
                }
            }
            let Some((index, differences)) = closest else { continue };
            let (item, _) = missing.remove(index);
            if !differences.is_empty() {
                return Err(self.failure(Some(item.line), report(&differences, &heard)));
            }
            self.log.placed(item.line);
        }
        Ok(())
    }

    async fn finish(mut self) -> Result<Replay, Failure> {
        if let Err(problem) =
            timeout(LIMIT, self.line.close()).await.unwrap_or_else(|_| Err("it takes too long".into()))
        {
            return Err(self.failure(None, format!("the client cannot leave: {problem}")));
        }
        if let Some(heard) = self.hear(None, "and did not end when the client left").await? {
            let text = layout::message("<", &heard.message);
            return Err(self.failure(None, format!("the server said more than the transcript:\n{text}")));
        }
        Ok(Replay { over: self.over, messages: self.log.messages })
    }
}

fn report(differences: &[String], heard: &Heard) -> String {
    const MOST: usize = 20;
    let mut text = "the server said something else:\n".to_owned();
    // Writing into a string has no way to fail.
    for difference in differences.iter().take(MOST) {
        let _ = writeln!(text, "    {difference}");
    }
    if differences.len() > MOST {
        let _ = writeln!(text, "    and {} more", differences.len() - MOST);
    }
    let _ = write!(text, "got:\n{}\nUPDATE=1 rewrites the file", layout::message("<", &heard.message));
    text
}

/// Who asked for what, so that each message of the server is known by its method and revision.
#[derive(Debug, Default)]
struct Log {
    session: Option<ProtocolVersion>,
    /// What the last request spoke.
    last: Option<ProtocolVersion>,
    /// What was asked and neither answered nor cancelled yet, oldest first.
    asked: Vec<Asked>,
    messages: Vec<ServerMessage>,
}

#[derive(Debug)]
struct Asked {
    id: Value,
    method: String,
    version: Option<ProtocolVersion>,
    progress_token: Value,
    /// It was acknowledged, and stays open.
    is_stream: bool,
}

impl Log {
    fn sent(&mut self, message: &Value) {
        if message["method"] == "notifications/cancelled" {
            self.asked.retain(|asked| asked.id != message["params"]["requestId"]);
        }
        let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else { return };
        let meta = &message["params"]["_meta"];
        let named = meta[mcp_protocol::meta::keys::PROTOCOL_VERSION].as_str();
        let version = match named {
            // Whoever names a revision that is not known is answered in the newest one.
            Some(named) => Some(ProtocolVersion::parse(named).unwrap_or(ProtocolVersion::LATEST)),
            None => self.session,
        };
        self.last = version;
        let progress_token = meta[mcp_protocol::meta::keys::PROGRESS_TOKEN].clone();
        self.asked.push(Asked { id: id.clone(), method: method.to_owned(), version, progress_token, is_stream: false });
    }

    fn heard(&mut self, line: Option<usize>, message: &Value) {
        let (mut version, mut answered) = (self.session.or(self.last), None);
        if message["method"] == "notifications/subscriptions/acknowledged" {
            let id = subscription(message);
            self.asked.iter_mut().filter(|asked| asked.id == *id).for_each(|asked| asked.is_stream = true);
        }
        if message.get("method").is_some() {
            version = self.asker(message).map_or(self.session, |asked| asked.version);
        } else if let Some(at) = self.asked.iter().position(|asked| Some(&asked.id) == message.get("id")) {
            let asked = self.asked.remove(at);
            version = asked.version.or(version);
            if let Some(agreed) = message["result"]["protocolVersion"].as_str() {
                self.session = ProtocolVersion::parse(agreed);
                version = self.session;
            }
            answered = Some(asked.method);
        }
        let line = line.unwrap_or_default();
        self.messages.push(ServerMessage { line, version, method: answered, message: message.clone() });
    }

    /// The request that a notification is about: by its token or subscription, else the only one that is open.
    fn asker(&self, notification: &Value) -> Option<&Asked> {
        let subscription = subscription(notification);
        if !subscription.is_null() {
            return self.asked.iter().find(|asked| asked.id == *subscription);
        }
        let token = &notification["params"]["progressToken"];
        if !token.is_null() {
            return self.asked.iter().find(|asked| asked.progress_token == *token);
        }
        let is_log = notification["method"] == "notifications/message";
        self.asked.last().filter(|_| is_log && self.asked.len() == 1)
    }

    /// The line that the last message turned out to belong to.
    fn placed(&mut self, line: usize) {
        if let Some(last) = self.messages.last_mut() {
            last.line = line;
        }
    }
}

/// The subscription that a notification names.
fn subscription(notification: &Value) -> &Value {
    &notification["params"]["_meta"][mcp_protocol::meta::keys::SUBSCRIPTION_ID]
}

/// For whoever records: what is still unanswered.
impl Runner<'_> {
    pub(super) fn is_answered(&self) -> bool {
        self.log.asked.iter().all(|asked| asked.is_stream)
    }

    pub(super) fn unanswered(&self) -> String {
        self.log
            .asked
            .iter()
            .map(|asked| format!("{} {}", asked.method, short(&asked.id)))
            .collect::<Vec<_>>()
            .join(", ")
    }
}
