//! The access log: one event for each request, at the end of the request.
//!
//! The data of the event is collected only if the level of the event is enabled. `tracing::enabled!` would be more exact, but
//! it leaves the answers of per-layer filters behind, and the next span or event of the thread uses them.

use mcp_protocol::{Principal, ProtocolVersion};
use tokio::time::Instant;
use tracing::{Span, level_filters::LevelFilter};

use super::{Ending, Target, excerpt, known, public_uri, transport};
use crate::Session;

/// The target of the access log.
pub const TARGET: &str = "mcp_server::access";

/// Returns the value of `enduser.id`.
#[must_use]
pub fn caller(principal: &Principal) -> &str {
    excerpt(&principal.subject)
}

/// The data of the event of one request, from the start of the request.
#[derive(Debug)]
pub(crate) struct AccessRecord {
    start: Instant,
    method: String,
    subject: Subject,
    version: Option<ProtocolVersion>,
    session: Option<String>,
    caller: Option<String>,
    is_local: bool,
}

/// A [`Target`] that the record owns.
#[derive(Debug)]
enum Subject {
    Tool(String),
    Prompt(String),
    Resource(String),
    None,
}

impl AccessRecord {
    /// Starts the record of a request. Returns `None` if no subscriber enables the level of the event.
    pub(crate) fn start(method: &str, is_local: bool, principal: Option<&Principal>) -> Option<Box<Self>> {
        if LevelFilter::current() < LevelFilter::INFO {
            return None;
        }
        Some(Box::new(Self {
            start: Instant::now(),
            method: known(method).to_owned(),
            subject: Subject::None,
            version: None,
            session: None,
            caller: principal.map(|principal| caller(principal).to_owned()),
            is_local,
        }))
    }

    /// Sets the revision and the session of the request.
    pub(crate) fn belongs(&mut self, version: ProtocolVersion, session: Option<&Session>) {
        self.version = Some(version);
        self.session = session.and_then(Session::fingerprint).map(str::to_owned);
    }

    /// Sets the subject of the request. The subject is known to exist.
    pub(crate) fn name(&mut self, target: Target<'_>) {
        self.subject = match target {
            Target::Tool(name) => Subject::Tool(name.to_owned()),
            Target::Prompt(name) => Subject::Prompt(name.to_owned()),
            Target::Resource(uri) => Subject::Resource(public_uri(uri).into_owned()),
            Target::None => Subject::None,
        };
    }

    /// Writes the event of a call that received a task as its response. The task has its own event.
    pub(crate) fn became_task(&self, span: &Span) {
        self.write(span, "request finished", "task", None);
    }

    /// Writes the event at the end of a request, or of the task that it became.
    pub(crate) fn ended(&self, span: &Span, ending: Ending, is_task: bool) {
        let message = if is_task { "task finished" } else { "request finished" };
        self.write(span, message, ending.outcome(), ending.error_type().as_deref());
    }

    fn write(&self, span: &Span, message: &str, outcome: &str, error: Option<&str>) {
        let (mut tool, mut prompt, mut resource) = (None, None, None);
        match &self.subject {
            Subject::Tool(name) => tool = Some(&**name),
            Subject::Prompt(name) => prompt = Some(&**name),
            Subject::Resource(uri) => resource = Some(&**uri),
            Subject::None => {}
        }
        tracing::info!(
            target: TARGET,
            parent: span,
            {
                mcp.method.name = &*self.method,
                gen_ai.tool.name = tool,
                gen_ai.prompt.name = prompt,
                mcp.resource.uri = resource,
                enduser.id = self.caller.as_deref(),
                mcp.session.id = self.session.as_deref(),
                mcp.protocol.version = self.version.map(ProtocolVersion::as_str),
                network.transport = transport(self.is_local),
                duration_ms = self.start.elapsed().as_secs_f64() * 1e3,
                outcome,
                error.type = error
            },
            "{message}"
        );
    }
}

/// Writes the event of a message that was rejected before its scope was known. A message that is not a request has no
/// method.
pub(crate) fn refused(method: Option<&str>, is_local: bool, principal: Option<&Principal>, ending: Ending) {
    if let Some(record) = AccessRecord::start(method.unwrap_or_default(), is_local, principal) {
        record.ended(&Span::none(), ending, false);
    }
}
